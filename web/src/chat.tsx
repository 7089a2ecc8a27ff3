// The chat: the list of conversations, the messages, the box to write in.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { chat, type Chunk, type ModelInfo } from "./api";
import { Files, read, withFiles } from "./attachments";
import { ContextMeter } from "./context";
import { Conversations } from "./conversations";
import { Shortcuts } from "./dialogs";
import type { Server } from "./main";
import { MessageView, type Actions } from "./message";
import { Options } from "./options";
import { fields, type Settings } from "./settings";
import { leafBelow, newConversation, newId, path, siblings, store, type Attachment, type Conversation, type Message, type ToolCall } from "./store";

interface Props {
  settings: Settings;
  change: (s: Settings) => void;
  models: ModelInfo[];
  server: Server;
  /** Conversation that the page's address names. */
  address: string | null;
  /** Sets the page's address: a step of the browser's history, or in place of the present one. */
  go: (id: string | null, step: boolean) => void;
}

export function Chat({ settings, change, models, server, address, go }: Props) {
  const [all, setAll] = useState<Conversation[]>([]);
  const [current, setCurrent] = useState<Conversation>(() => newConversation(settings.system));
  const [draft, setDraft] = useState("");
  const [files, setFiles] = useState<Attachment[]>([]);
  const [running, setRunning] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState<"" | "options" | "keys" | "list">("");
  const stop = useRef<AbortController | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  // What runs in the background sees the newest state.
  const now = useRef({ current, settings, all });
  now.current = { current, settings, all };
  const [loaded, setLoaded] = useState(false);

  useEffect(() => {
    store
      .all()
      .then((list) => setAll(list.sort(newest)))
      .catch(() => setProblem("This browser keeps no conversations: they are lost when the page closes."))
      .finally(() => setLoaded(true));
  }, []);

  // Shows the conversation that the address names, also after a step in the browser's history.
  useEffect(() => {
    if (!loaded || address === now.current.current.id) return;
    const kept = now.current.all.find((c) => c.id === address);
    if (kept) {
      atEnd.current = true;
      setCurrent(kept);
    } else if (address === null) {
      if (Object.keys(now.current.current.messages).length) setCurrent(newConversation(now.current.settings.system));
    } else setProblem("This browser keeps no chat of this address.");
  }, [loaded, address]);

  const put = useCallback((list: Conversation[]) => {
    const ids = new Set(list.map((c) => c.id));
    setAll((all) => [...list, ...all.filter((x) => !ids.has(x.id))].sort(newest));
    for (const c of list) void store.put(c).catch(() => {});
  }, []);

  const keep = useCallback(
    (c: Conversation) => {
      setCurrent(c);
      now.current.current = c;
      if (!Object.keys(c.messages).length) return;
      put([c]);
      go(c.id, false);
    },
    [put, go],
  );

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
          ? { ttft: (first - start) / 1000, seconds: timings ? timings.predicted_ms / 1000 : (last - first) / 1000, tokens: count, rates: [...rates], promptTokens: usage?.prompt_tokens, cachedTokens: usage?.prompt_tokens_details?.cached_tokens }
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
      let usage: Chunk["usage"];
      let timings: Chunk["timings"];
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
          if (chunk.timings) timings = chunk.timings;
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
    if (!(text || files.length) || running) return;
    const m: Message = { id: newId(), parent: current.leaf, role: "user", content: text, files: files.length ? files : undefined };
    const title = Object.keys(current.messages).length ? current.title : (text || files[0]!.name).slice(0, 60);
    setDraft("");
    setFiles([]);
    void answer({ ...current, title, messages: { ...current.messages, [m.id]: m }, leaf: m.id }, m.id);
  };

  const attach = async (picked: Iterable<File>) => {
    setProblem("");
    for (const file of picked) {
      try {
        const attachment = await read(file);
        setFiles((list) => [...list, attachment]);
      } catch (e) {
        setProblem((e as Error).message);
      }
    }
    box.current?.focus();
  };

  const actions = useMemo<Actions>(
    () => ({
      edit: (old, text) => {
        const c = now.current.current;
        const m: Message = { id: newId(), parent: old.parent, role: "user", content: text, files: old.files };
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
    go(null, true);
    setProblem("");
    setOpen("");
    box.current?.focus();
  }, [go]);

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

  // The same when the box to write in or the lines above the messages take more room.
  useEffect(() => {
    const s = scroller.current;
    if (!s) return;
    const observer = new ResizeObserver(() => {
      if (atEnd.current) s.scrollTop = s.scrollHeight;
    });
    observer.observe(s);
    return () => observer.disconnect();
  }, []);

  const copy = async (e: MouseEvent) => {
    const button = (e.target as HTMLElement).closest?.("[data-copy]");
    const code = button?.closest(".code")?.querySelector("code")?.textContent;
    if (!button || code == null) return;
    await navigator.clipboard?.writeText(code);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };

  const shown = path(current);
  const counted = [...shown].reverse().find((m) => m.stats?.promptTokens !== undefined);
  const unsent = counted ? shown.slice(shown.indexOf(counted) + 1) : shown;
  const limit = (models.find((m) => m.id === settings.model) ?? models[0])?.max_model_len;
  const answered = new Set(shown.flatMap((m) => (m.callId ? [m.callId] : [])));
  const away = server === "away" || server === "closing";
  return (
    <div class="chat">
      <Conversations
        all={all}
        current={current.id}
        open={open === "list"}
        fresh={fresh}
        select={(c) => {
          setOpen("");
          setProblem("");
          go(c.id, true);
        }}
        change={(c) => (c.id === current.id ? keep(c) : put([c]))}
        remove={(c) => {
          void store.remove(c.id).catch(() => {});
          setAll((list) => list.filter((x) => x.id !== c.id));
          if (c.id === current.id) fresh();
        }}
        add={put}
      />
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
          <ContextMeter
            tokens={counted ? Math.min(counted.stats!.promptTokens! + counted.stats!.tokens, limit ?? Infinity) : 0}
            characters={[...unsent, { content: draft, files }].reduce((n, m) => n + withFiles(m).length, counted ? 0 : current.system.length)}
            limit={limit}
          />
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
          onDragOver={(e) => e.preventDefault()}
          onDrop={(e) => {
            e.preventDefault();
            void attach(e.dataTransfer?.files ?? []);
          }}
        >
          <Files files={files} remove={(i) => setFiles(files.filter((_, k) => k !== i))} />
          <input
            ref={picker}
            type="file"
            multiple
            class="hidden"
            tabindex={-1}
            aria-label="Files to attach"
            onChange={(e) => {
              void attach([...(e.currentTarget.files ?? [])]);
              e.currentTarget.value = "";
            }}
          />
          <button type="button" title="Text or PDF" onClick={() => picker.current?.click()}>
            Attach
          </button>
          <textarea
            ref={box}
            aria-label="Message"
            placeholder={away ? "The server is not reachable" : "Message"}
            rows={Math.min(10, Math.max(1, draft.split("\n").length))}
            value={draft}
            onInput={(e) => setDraft(e.currentTarget.value)}
            onPaste={(e) => {
              const pasted = [...(e.clipboardData?.files ?? [])];
              if (!pasted.length) return;
              e.preventDefault();
              void attach(pasted);
            }}
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
            <button type="submit" class="primary" disabled={!draft.trim() && !files.length}>
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

const newest = (a: Conversation, b: Conversation) => b.updated - a.updated;

/** A message as the interface takes it. */
function plain(m: Message): Record<string, unknown> {
  if (m.role === "tool") return { role: "tool", tool_call_id: m.callId, content: m.content };
  if (m.role === "user" || !m.calls?.length) return { role: m.role, content: withFiles(m) };
  const calls = m.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
  return { role: "assistant", content: m.content || null, tool_calls: calls };
}
