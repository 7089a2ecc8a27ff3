// The chat: the list of conversations, the messages, the box to write in.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { chat, type ModelInfo } from "./api";
import { Shortcuts } from "./dialogs";
import type { Server } from "./main";
import { MessageView, type Actions } from "./message";
import { Options } from "./options";
import { fields, type Settings } from "./settings";
import { leafBelow, newConversation, newId, path, siblings, store, type Conversation, type Message, type ToolCall } from "./store";

interface Props {
  settings: Settings;
  change: (s: Settings) => void;
  models: ModelInfo[];
  server: Server;
}

export function Chat({ settings, change, models, server }: Props) {
  const [all, setAll] = useState<Conversation[]>([]);
  const [current, setCurrent] = useState<Conversation>(() => newConversation(settings.system));
  const [draft, setDraft] = useState("");
  const [running, setRunning] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState<"" | "options" | "keys" | "list">("");
  const stop = useRef<AbortController | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  // What runs in the background sees the newest state.
  const now = useRef({ current, settings });
  now.current = { current, settings };

  useEffect(() => {
    store
      .all()
      .then((list) => setAll(list.sort((a, b) => b.updated - a.updated)))
      .catch(() => setProblem("This browser keeps no conversations: they are lost when the page closes."));
  }, []);

  const keep = useCallback((c: Conversation) => {
    setCurrent(c);
    now.current.current = c;
    if (!Object.keys(c.messages).length) return;
    setAll((list) => [c, ...list.filter((x) => x.id !== c.id)].sort((a, b) => b.updated - a.updated));
    void store.put(c).catch(() => {});
  }, []);

  /** Generates the answer below a message. */
  const answer = useCallback(
    async (c: Conversation, parent: string) => {
      let more: Record<string, unknown>;
      try {
        more = fields(now.current.settings);
      } catch (e) {
        keep(c);
        setProblem((e as Error).message);
        return;
      }
      setProblem("");
      const m: Message = { id: newId(), parent, role: "assistant", content: "", json: "response_format" in more };
      const start = performance.now();
      let first = 0;
      let last = 0;
      let count = 0;
      const calls: ToolCall[] = [];
      const rates: number[] = [];
      let window_ = { at: 0, count: 0 };
      const messages = path({ ...c, leaf: parent }).map(plain);
      if (c.system.trim()) messages.unshift({ role: "system", content: c.system });
      let shown = { ...c, leaf: m.id, updated: Date.now() };
      const show = (save: boolean) => {
        const stats = count
          ? { ttft: (first - start) / 1000, seconds: (last - first) / 1000, tokens: count, rates: [...rates], promptTokens: usage?.prompt_tokens, cachedTokens: usage?.prompt_tokens_details?.cached_tokens }
          : undefined;
        const copy = { ...m, calls: calls.length ? calls.map((x) => ({ ...x })) : undefined, stats };
        shown = { ...shown, messages: { ...shown.messages, [m.id]: copy } };
        // Another conversation may be shown meanwhile.
        if (now.current.current.id !== shown.id) {
          setAll((list) => list.map((x) => (x.id === shown.id ? shown : x)));
          if (save) void store.put(shown).catch(() => {});
        } else if (save) keep(shown);
        else {
          setCurrent(shown);
          now.current.current = shown;
        }
      };
      let usage: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details?: { cached_tokens?: number } } | undefined;
      let frame = 0;
      const controller = new AbortController();
      stop.current = controller;
      setRunning(m.id);
      atEnd.current = true;
      show(true);
      try {
        const body = { ...more, messages, stream: true, stream_options: { include_usage: true } };
        for await (const chunk of chat(body, controller.signal)) {
          if (chunk.usage) usage = chunk.usage;
          const choice = chunk.choices[0];
          if (!choice) continue;
          const delta = choice.delta;
          const some = delta.content || delta.reasoning_content || delta.tool_calls?.length;
          if (some) {
            last = performance.now();
            if (!count++) {
              first = last;
              window_ = { at: last, count: 0 };
            }
            window_.count++;
            if (last - window_.at >= 500) {
              rates.push((window_.count * 1000) / (last - window_.at));
              if (rates.length > 240) rates.splice(0, rates.length, ...rates.filter((_, i) => i % 2));
              window_ = { at: last, count: 0 };
            }
          }
          m.content += delta.content ?? "";
          if (delta.reasoning_content) m.reasoning = (m.reasoning ?? "") + delta.reasoning_content;
          for (const part of delta.tool_calls ?? []) {
            const call = (calls[part.index] ??= { id: part.id ?? newId(), name: "", arguments: "" });
            if (part.id) call.id = part.id;
            call.name += part.function?.name ?? "";
            call.arguments += part.function?.arguments ?? "";
          }
          if (choice.finish_reason) m.finish = choice.finish_reason;
          frame ||= requestAnimationFrame(() => {
            frame = 0;
            show(false);
          });
        }
        if (usage) count = usage.completion_tokens;
      } catch (e) {
        if ((e as Error).name !== "AbortError") m.error = (e as Error).message;
        else m.finish = "stopped";
      }
      cancelAnimationFrame(frame);
      stop.current = null;
      setRunning(null);
      m.model = now.current.settings.model || undefined;
      show(true);
    },
    [keep],
  );

  const send = () => {
    const text = draft.trim();
    if (!text || running) return;
    const m: Message = { id: newId(), parent: current.leaf, role: "user", content: text };
    const title = Object.keys(current.messages).length ? current.title : text.slice(0, 60);
    setDraft("");
    void answer({ ...current, title, messages: { ...current.messages, [m.id]: m }, leaf: m.id }, m.id);
  };

  const actions = useMemo<Actions>(
    () => ({
      edit: (old, text) => {
        const c = now.current.current;
        const m: Message = { id: newId(), parent: old.parent, role: "user", content: text };
        void answer({ ...c, messages: { ...c.messages, [m.id]: m }, leaf: m.id }, m.id);
      },
      again: (old) => old.parent && void answer(now.current.current, old.parent),
      branch: (old, step) => {
        const c = now.current.current;
        const list = siblings(c, old);
        const next = list[list.findIndex((x) => x.id === old.id) + step];
        if (next) keep({ ...c, leaf: leafBelow(c, next.id) });
      },
      result: (call, callId, text) => {
        const c = now.current.current;
        const m: Message = { id: newId(), parent: c.leaf, role: "tool", content: text, callId };
        const next = { ...c, messages: { ...c.messages, [m.id]: m }, leaf: m.id };
        const given = new Set(path(next).map((x) => x.callId));
        if (call.calls!.every((x) => given.has(x.id))) void answer(next, m.id);
        else keep(next);
      },
    }),
    [answer, keep],
  );

  const fresh = useCallback(() => {
    setCurrent(newConversation(now.current.settings.system));
    setProblem("");
    setOpen("");
    box.current?.focus();
  }, []);

  useEffect(() => {
    const pressed = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
      if (e.key === "Escape" && stop.current && !document.querySelector("dialog[open]")) stop.current.abort();
      else if (e.ctrlKey && e.shiftKey && e.code === "KeyO") {
        e.preventDefault();
        fresh();
      } else if (e.ctrlKey && e.shiftKey && e.code === "KeyS") {
        e.preventDefault();
        setOpen("options");
      } else if (!typing && e.key === "/") {
        e.preventDefault();
        box.current?.focus();
      } else if (!typing && e.key === "?") setOpen("keys");
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [fresh]);

  // Follows the answer unless the reader scrolled up.
  useEffect(() => {
    const s = scroller.current;
    if (s && atEnd.current) s.scrollTop = s.scrollHeight;
  }, [current, running]);

  const copy = async (e: MouseEvent) => {
    const button = (e.target as HTMLElement).closest?.("[data-copy]");
    const code = button?.closest(".code")?.querySelector("code")?.textContent;
    if (!button || code == null) return;
    await navigator.clipboard?.writeText(code);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };

  const shown = path(current);
  const answered = new Set(shown.flatMap((m) => (m.callId ? [m.callId] : [])));
  const away = server === "away" || server === "closing";
  return (
    <div class="chat">
      <aside class={open === "list" ? "open" : ""} aria-label="Conversations">
        <button type="button" class="primary" onClick={fresh}>
          New chat
        </button>
        <ul>
          {all.map((c) => (
            <li class={c.id === current.id ? "current" : ""}>
              <button
                type="button"
                class="plain title"
                aria-current={c.id === current.id ? "true" : undefined}
                onClick={() => {
                  setCurrent(c);
                  setOpen("");
                  atEnd.current = true;
                }}
              >
                {c.title}
              </button>
              <button
                type="button"
                class="plain"
                aria-label={`Delete ${c.title}`}
                onClick={() => {
                  void store.remove(c.id).catch(() => {});
                  setAll(all.filter((x) => x.id !== c.id));
                  if (c.id === current.id) fresh();
                }}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
        <p class="hint">Kept in this browser alone.</p>
      </aside>
      {open === "list" && <div class="shade" onClick={() => setOpen("")} />}
      <main id="main" tabindex={-1}>
        <div class="bar">
          <button type="button" class="only-phone" aria-expanded={open === "list"} onClick={() => setOpen(open === "list" ? "" : "list")}>
            Chats
          </button>
          <label class="model">
            <span class="hidden">Model</span>
            <select value={settings.model} onChange={(e) => change({ ...settings, model: e.currentTarget.value })}>
              <option value="">{models[0]?.id ?? "no model"}</option>
              {models.slice(1).map((m) => (
                <option value={m.id}>{m.id}</option>
              ))}
            </select>
          </label>
          {settings.format !== "text" && <span class="badge">{settings.format === "json" ? "JSON" : "schema"}</span>}
          {settings.useTools && <span class="badge">tools</span>}
          <button type="button" onClick={() => setOpen("options")}>
            Settings
          </button>
        </div>
        <div
          class="messages"
          ref={scroller}
          tabindex={0}
          role="log"
          aria-label="Messages"
          onScroll={(e) => {
            const s = e.currentTarget;
            atEnd.current = s.scrollHeight - s.scrollTop - s.clientHeight < 60;
          }}
          onClick={(e) => void copy(e)}
        >
          {!shown.length && (
            <div class="empty">
              <h1>What would you like to know?</h1>
              <p class="hint">Everything stays on this server and in this browser. Press ? for the keys.</p>
            </div>
          )}
          {shown.map((m) => {
            const list = siblings(current, m);
            return (
              <MessageView
                key={m.id}
                message={m}
                place={list.findIndex((x) => x.id === m.id)}
                of={list.length}
                running={running === m.id}
                busy={running !== null}
                answered={answered}
                actions={actions}
              />
            );
          })}
        </div>
        {problem && (
          <p class="error" role="alert">
            {problem}
          </p>
        )}
        <form
          class="composer"
          onSubmit={(e) => {
            e.preventDefault();
            send();
          }}
        >
          <textarea
            ref={box}
            aria-label="Message"
            placeholder={away ? "The server is not reachable" : "Message"}
            rows={Math.min(10, Math.max(1, draft.split("\n").length))}
            value={draft}
            onInput={(e) => setDraft(e.currentTarget.value)}
            onKeyDown={(e) => {
              if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
                e.preventDefault();
                send();
              }
            }}
          />
          {running ? (
            <button type="button" onClick={() => stop.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="submit" class="primary" disabled={!draft.trim()}>
              Send
            </button>
          )}
        </form>
      </main>
      {open === "options" && (
        <Options
          settings={settings}
          change={change}
          models={models}
          system={current.system}
          setSystem={(system) => keep({ ...current, system })}
          close={() => setOpen("")}
        />
      )}
      {open === "keys" && <Shortcuts close={() => setOpen("")} />}
    </div>
  );
}

/** A message as the interface takes it. */
function plain(m: Message): Record<string, unknown> {
  if (m.role === "tool") return { role: "tool", tool_call_id: m.callId, content: m.content };
  if (m.role === "user" || !m.calls?.length) return { role: m.role, content: m.content };
  const calls = m.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
  return { role: "assistant", content: m.content || null, tool_calls: calls };
}
