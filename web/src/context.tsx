// Fill level of the model's context.

interface Props {
  /** Tokens of the conversation so far, as the server counted them. */
  tokens: number;
  /** Characters that are not sent yet. */
  characters: number;
  /** Context of the model in tokens. */
  limit: number | undefined;
}

/** Characters of one token of English text, about. */
const PER_TOKEN = 4;

export function ContextMeter({ tokens, characters, limit }: Props) {
  const about = Math.ceil(characters / PER_TOKEN);
  const all = tokens + about;
  if (!limit || !all) return null;
  const text = `${about ? "about " : ""}${all.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens`;
  const full = all >= limit;
  return (
    <span class={`context ${full ? "full" : ""}`}>
      <meter min={0} max={limit} high={limit * 0.9} value={Math.min(all, limit)} aria-label={`Context: ${text}`} />
      <span aria-hidden="true">{text}</span>
      {full && <span role="alert">The context is full: start a new chat, or send less.</span>}
    </span>
  );
}
