// Conversations as files: one JSON form for export and import, and Markdown for reading.

import { newId, path, type Attachment, type Conversation, type Message, type Stats, type ToolCall } from "./store";

const FORM = "leyden.conversations";
const VERSION = 1;

export function asJson(conversations: Conversation[]): string {
  return JSON.stringify({ form: FORM, version: VERSION, conversations }, null, 1);
}

/** The shown path of a conversation as Markdown. */
export function asMarkdown(c: Conversation): string {
  const names = { user: "You", assistant: "Assistant", tool: "Result of a tool" };
  const parts = [`# ${c.title}`];
  if (c.system.trim()) parts.push(`## System prompt\n\n${c.system}`);
  for (const m of path(c)) {
    const files = (m.files ?? []).map((f) => `Attached: ${f.name}\n\n${fenced(f.text)}`);
    const calls = (m.calls ?? []).map((call) => `Calls ${call.name}:\n\n${fenced(call.arguments, "json")}`);
    parts.push([`## ${names[m.role]}`, ...files, m.content, ...calls].filter(Boolean).join("\n\n"));
  }
  return parts.join("\n\n") + "\n";
}

/** A text in a fence that is longer than any run of backticks in it. */
export function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

/** Gives a text to the browser as a download. */
export function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A title as a file name. */
export function fileName(title: string): string {
  const plain = title.normalize("NFKD").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return plain.slice(0, 60) || "chat";
}

/**
 * Reads exported conversations. Those that `known` has unchanged are left out; one that differs from a known one of the
 * same id gets a new id, so nothing is overwritten. Throws with a message that names the field at fault.
 */
export function fromJson(text: string, known: Conversation[]): Conversation[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (e) {
    throw new Error(`not JSON: ${(e as Error).message}`);
  }
  const top = object(file, "the file");
  if (top.form !== FORM) throw new Error(`form: “${FORM}” is expected: the file is no export of this page`);
  if (top.version !== VERSION) throw new Error(`version: ${VERSION} is expected`);
  const read = list(top.conversations, "conversations").map((c, i) => conversation(c, `conversations[${i}]`));
  const out: Conversation[] = [];
  for (const c of read) {
    const same = [...known, ...out].find((k) => k.id === c.id);
    if (same && JSON.stringify(conversation(same, "")) === JSON.stringify(c)) continue;
    out.push(same ? { ...c, id: newId() } : c);
  }
  return out;
}

function conversation(value: unknown, at: string): Conversation {
  const c = object(value, at);
  const messages: Record<string, Message> = {};
  for (const [id, m] of Object.entries(object(c.messages, `${at}.messages`))) {
    messages[id] = message(m, id, `${at}.messages.${id}`);
  }
  for (const m of Object.values(messages)) {
    if (m.parent !== null && !messages[m.parent]) throw new Error(`${at}.messages.${m.id}.parent: no such message`);
  }
  acyclic(messages, at);
  const leaf = c.leaf === null ? null : string(c.leaf, `${at}.leaf`);
  if (leaf !== null && !messages[leaf]) throw new Error(`${at}.leaf: no such message`);
  const id = string(c.id, `${at}.id`);
  if (!/^[\w-]{1,64}$/.test(id)) throw new Error(`${at}.id: letters and digits are expected`);
  return {
    id,
    title: string(c.title, `${at}.title`),
    created: number(c.created, `${at}.created`),
    updated: number(c.updated, `${at}.updated`),
    system: string(c.system, `${at}.system`),
    messages,
    leaf,
  };
}

function message(value: unknown, id: string, at: string): Message {
  const m = object(value, at);
  const role = string(m.role, `${at}.role`);
  if (role !== "user" && role !== "assistant" && role !== "tool") throw new Error(`${at}.role: user, assistant or tool is expected`);
  const out: Message = { id, parent: m.parent === null ? null : string(m.parent, `${at}.parent`), role, content: string(m.content, `${at}.content`) };
  if (m.files !== undefined) out.files = list(m.files, `${at}.files`).map((f, i) => attachment(f, `${at}.files[${i}]`));
  for (const name of ["reasoning", "callId", "finish", "error", "model"] as const) {
    if (m[name] !== undefined) out[name] = string(m[name], `${at}.${name}`);
  }
  if (m.calls !== undefined) out.calls = list(m.calls, `${at}.calls`).map((c, i) => toolCall(c, `${at}.calls[${i}]`));
  if (m.stats !== undefined) out.stats = stats(m.stats, `${at}.stats`);
  if (m.json !== undefined) out.json = m.json === true;
  return out;
}

function attachment(value: unknown, at: string): Attachment {
  const f = object(value, at);
  return { name: string(f.name, `${at}.name`), text: string(f.text, `${at}.text`) };
}

function toolCall(value: unknown, at: string): ToolCall {
  const c = object(value, at);
  return { id: string(c.id, `${at}.id`), name: string(c.name, `${at}.name`), arguments: string(c.arguments, `${at}.arguments`) };
}

function stats(value: unknown, at: string): Stats {
  const s = object(value, at);
  const out: Stats = {
    ttft: number(s.ttft, `${at}.ttft`),
    seconds: number(s.seconds, `${at}.seconds`),
    tokens: number(s.tokens, `${at}.tokens`),
    rates: list(s.rates, `${at}.rates`).map((r, i) => number(r, `${at}.rates[${i}]`)),
  };
  if (s.promptTokens !== undefined) out.promptTokens = number(s.promptTokens, `${at}.promptTokens`);
  if (s.cachedTokens !== undefined) out.cachedTokens = number(s.cachedTokens, `${at}.cachedTokens`);
  return out;
}

/** Refuses messages that are their own ancestors, on which every walk to the root would not end. */
function acyclic(messages: Record<string, Message>, at: string): void {
  const sound = new Set<string>();
  for (const start of Object.keys(messages)) {
    const walked = new Set<string>();
    for (let id: string | null = start; id !== null && !sound.has(id); id = messages[id]!.parent) {
      if (walked.has(id)) throw new Error(`${at}.messages.${id}.parent: the message is its own ancestor`);
      walked.add(id);
    }
    walked.forEach((id) => sound.add(id));
  }
}

function object(value: unknown, at: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${at}: an object is expected`);
  return value as Record<string, unknown>;
}

function list(value: unknown, at: string): unknown[] {
  if (!Array.isArray(value)) throw new Error(`${at}: a list is expected`);
  return value;
}

function string(value: unknown, at: string): string {
  if (typeof value !== "string") throw new Error(`${at}: a text is expected`);
  return value;
}

function number(value: unknown, at: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Error(`${at}: a number is expected`);
  return value;
}
