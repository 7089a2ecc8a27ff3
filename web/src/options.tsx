// The settings of a chat: model, system prompt, sampling, form of the answer, tools.

import { Dialog } from "./dialogs";
import type { ModelInfo } from "./api";
import { DEFAULTS, fields, type Settings } from "./settings";

const NUMBERS: { name: keyof Settings & string; label: string; hint: string }[] = [
  { name: "temperature", label: "Temperature", hint: "0 to 2; 0: most probable" },
  { name: "top_p", label: "Top-p", hint: "0 to 1" },
  { name: "top_k", label: "Top-k", hint: "0 is off" },
  { name: "min_p", label: "Min-p", hint: "0 to 1" },
  { name: "repeat_penalty", label: "Repeat penalty", hint: "1 is off" },
  { name: "seed", label: "Seed", hint: "same seed, same answer" },
  { name: "max_tokens", label: "Most tokens", hint: "of an answer" },
];

export function Options(props: {
  settings: Settings;
  change: (s: Settings) => void;
  models: ModelInfo[];
  system: string;
  setSystem: (text: string) => void;
  close: () => void;
}) {
  const { settings: s, change } = props;
  const set = (name: keyof Settings) => (e: { currentTarget: { value: string } }) => change({ ...s, [name]: e.currentTarget.value });
  let problem = "";
  try {
    fields(s);
  } catch (e) {
    problem = (e as Error).message;
  }
  return (
    <Dialog title="Settings" close={props.close}>
      {problem && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      <label>
        Model
        <select value={s.model} onChange={set("model")}>
          <option value="">the server's first</option>
          {props.models.map((m) => (
            <option value={m.id}>{m.id}</option>
          ))}
        </select>
      </label>
      <label>
        System prompt of this chat
        <textarea rows={4} value={props.system} onInput={(e) => props.setSystem(e.currentTarget.value)} />
      </label>
      <label class="check">
        <input type="checkbox" checked={s.system !== "" && s.system === props.system} onChange={(e) => change({ ...s, system: e.currentTarget.checked ? props.system : "" })} />
        also for new chats
      </label>
      <fieldset>
        <legend>Sampling (empty: the server's)</legend>
        <div class="grid">
          {NUMBERS.map(({ name, label, hint }) => (
            <label>
              {label}
              <input inputMode="decimal" title={hint} placeholder={hint} value={String(s[name])} onInput={set(name)} />
            </label>
          ))}
          <label>
            Thinking
            <select value={s.thinking} onChange={set("thinking")}>
              <option value="">as the model does</option>
              <option value="on">on</option>
              <option value="off">off</option>
            </select>
          </label>
        </div>
      </fieldset>
      <fieldset>
        <legend>Answer</legend>
        <label>
          Form
          <select value={s.format} onChange={set("format")}>
            <option value="text">text</option>
            <option value="json">a JSON object</option>
            <option value="schema">JSON after a schema</option>
          </select>
        </label>
        {s.format === "schema" && (
          <label>
            JSON schema
            <textarea class="mono" rows={7} spellcheck={false} value={s.schema} onInput={set("schema")} />
          </label>
        )}
        <label class="check">
          <input type="checkbox" checked={s.useTools} onChange={(e) => change({ ...s, useTools: e.currentTarget.checked })} />
          Tools: the model may call these, and you give the results
        </label>
        {s.useTools && (
          <label>
            Tools
            <textarea class="mono" rows={9} spellcheck={false} value={s.tools} onInput={set("tools")} />
          </label>
        )}
      </fieldset>
      <div class="row">
        <button type="button" onClick={() => change({ ...DEFAULTS, theme: s.theme })}>
          Reset
        </button>
        <button type="button" class="primary" onClick={props.close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
