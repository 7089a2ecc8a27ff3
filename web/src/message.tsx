// One message of a chat, with what can be done to it.

import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Files } from "./attachments";
import { render } from "./markdown";
import type { Message, Stats } from "./store";

export interface Actions {
  edit: (m: Message, text: string) => void;
  again: (m: Message) => void;
  branch: (m: Message, step: number) => void;
  result: (m: Message, callId: string, text: string) => void;
}

interface Props {
  message: Message;
  /** Place among its siblings, from 0, and their number. */
  place: number;
  of: number;
  running: boolean;
  busy: boolean;
  /** Calls of this message that have a result already. */
  answered: Set<string>;
  actions: Actions;
}

const ROLES = { user: "You", assistant: "Assistant", tool: "Result of a tool" };

export const MessageView = memo(function MessageView({ message: m, place, of, running, busy, answered, actions }: Props) {
  const [editing, setEditing] = useState(false);
  const [draft, setDraft] = useState("");
  const html = useMemo(() => {
    if (m.role !== "assistant") return "";
    return render(m.json && m.content ? "```json\n" + m.content + "\n```" : m.content);
  }, [m.role, m.content, m.json]);
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (editing) box.current?.focus();
  }, [editing]);
  const send = () => {
    setEditing(false);
    if ((draft.trim() || m.files?.length) && draft !== m.content) actions.edit(m, draft);
  };
  return (
    <article class={`message ${m.role}`} aria-busy={running} aria-label={ROLES[m.role]}>
      <div class="who">
        {ROLES[m.role]}
        {m.model && <span class="dim"> {m.model}</span>}
      </div>
      {m.reasoning && (
        <details class="reasoning" open={running && !m.content}>
          <summary>Reasoning</summary>
          <div class="pre">{m.reasoning}</div>
        </details>
      )}
      {editing ? (
        <div class="edit">
          <textarea
            ref={box}
            aria-label="Edit the message"
            rows={Math.min(12, draft.split("\n").length + 1)}
            value={draft}
            onInput={(e) => setDraft(e.currentTarget.value)}
            onKeyDown={(e) => {
              if (e.key === "Escape") setEditing(false);
              if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
                e.preventDefault();
                send();
              }
            }}
          />
          <div class="row">
            <button type="button" onClick={() => setEditing(false)}>
              Cancel
            </button>
            <button type="button" class="primary" onClick={send}>
              Send as a new branch
            </button>
          </div>
        </div>
      ) : m.role === "assistant" ? (
        <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />
      ) : (
        <>
          <Files files={m.files ?? []} />
          {m.content && <div class="pre">{m.content}</div>}
        </>
      )}
      {running && !m.content && !m.reasoning && !m.calls && <span class="wait" aria-label="The answer is being computed" role="img" />}
      {m.calls?.map((call) => (
        <Call call={call} done={answered.has(call.id)} running={running} give={(text) => actions.result(m, call.id, text)} />
      ))}
      {m.error && (
        <p class="error" role="alert">
          {m.error}{" "}
          <button type="button" disabled={busy} onClick={() => actions.again(m)}>
            Try again
          </button>
        </p>
      )}
      {m.finish === "length" && <p class="hint">The answer was cut off at its limit.</p>}
      <footer>
        {of > 1 && (
          <span class="branches">
            <button type="button" class="plain" aria-label="Earlier version" disabled={busy || place === 0} onClick={() => actions.branch(m, -1)}>
              ‹
            </button>
            {place + 1} / {of}
            <button type="button" class="plain" aria-label="Later version" disabled={busy || place + 1 === of} onClick={() => actions.branch(m, 1)}>
              ›
            </button>
          </span>
        )}
        {!running && (
          <span class="tools">
            <button type="button" class="plain" onClick={() => void navigator.clipboard?.writeText(m.content)}>
              Copy
            </button>
            {m.role === "user" && (
              <button
                type="button"
                class="plain"
                disabled={busy}
                onClick={() => {
                  setDraft(m.content);
                  setEditing(true);
                }}
              >
                Edit
              </button>
            )}
            {m.role === "assistant" && (
              <button type="button" class="plain" disabled={busy} onClick={() => actions.again(m)}>
                Regenerate
              </button>
            )}
          </span>
        )}
        {m.stats && <Speed stats={m.stats} />}
      </footer>
    </article>
  );
});

function Call(props: { call: { name: string; arguments: string }; done: boolean; running: boolean; give: (text: string) => void }) {
  const [text, setText] = useState("");
  return (
    <div class="call">
      <div class="who">calls {props.call.name}</div>
      <pre tabindex={0}>{pretty(props.call.arguments)}</pre>
      {!props.done && !props.running && (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            props.give(text);
          }}
        >
          <label>
            Result
            <textarea rows={2} value={text} onInput={(e) => setText(e.currentTarget.value)} />
          </label>
          <button type="submit">Give the result</button>
        </form>
      )}
    </div>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Time to the first token and rate, with the rate over the answer as a small plot. */
function Speed({ stats: s }: { stats: Stats }) {
  // One token has no rate: the time between tokens begins with the second.
  const rate = s.tokens > 1 && s.seconds > 0 ? (s.tokens - 1) / s.seconds : undefined;
  const most = Math.max(...s.rates, 1e-9);
  const step = s.rates.length > 1 ? 58 / (s.rates.length - 1) : 0;
  const points = s.rates.map((r, i) => `${1 + i * step},${15 - (r / most) * 14}`).join(" ");
  return (
    <span class="speed" title={`${s.promptTokens ?? "?"} tokens of prompt, ${s.cachedTokens ?? 0} from the cache`}>
      {s.tokens} {s.tokens === 1 ? "token" : "tokens"} · {rate !== undefined && `${rate.toFixed(rate < 100 ? 1 : 0)} t/s · `}first after {s.ttft < 1 ? `${Math.round(s.ttft * 1000)} ms` : `${s.ttft.toFixed(1)} s`}
      {s.rates.length > 1 && (
        <svg viewBox="0 0 60 16" width="60" height="16" role="img" aria-label="Tokens per second over the answer">
          <polyline points={points} fill="none" stroke="currentColor" stroke-width="1.2" />
        </svg>
      )}
    </span>
  );
}
