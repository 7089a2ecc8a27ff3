// Conversations, kept in the browser (IndexedDB). A conversation is a tree: an edited message or an answer that was
// generated again is a sibling of the earlier one, and `leaf` says which path is shown.

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface Stats {
  /** Seconds to the first token, as the browser saw it. */
  ttft: number;
  /** Seconds from the first token to the last, by the server's clock. */
  seconds: number;
  tokens: number;
  promptTokens?: number;
  cachedTokens?: number;
  /** Tokens per second over time, for the small plot. */
  rates: number[];
}

/** A text file that is sent with a message. */
export interface Attachment {
  name: string;
  text: string;
}

export interface Message {
  id: string;
  parent: string | null;
  role: "user" | "assistant" | "tool";
  content: string;
  files?: Attachment[];
  reasoning?: string;
  calls?: ToolCall[];
  callId?: string;
  finish?: string;
  error?: string;
  stats?: Stats;
  model?: string;
  /** The answer was asked for as JSON. */
  json?: boolean;
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  system: string;
  messages: Record<string, Message>;
  leaf: string | null;
}

let opened: Promise<IDBDatabase> | undefined;

function database(): Promise<IDBDatabase> {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("leyden", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

async function run<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const store = (await database()).transaction("conversations", mode).objectStore("conversations");
  const request = work(store);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export const store = {
  all: () => run<Conversation[]>("readonly", (s) => s.getAll()),
  put: (c: Conversation) => run("readwrite", (s) => s.put(c)),
  remove: (id: string) => run("readwrite", (s) => s.delete(id)),
};

/** A conversation whose title, system prompt or message contains every word of `query`, in any case. */
export function matches(c: Conversation, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const messages = Object.values(c.messages).map((m) => `${m.content}\n${m.files?.map((f) => f.name).join("\n") ?? ""}`);
  const text = [c.title, c.system, ...messages].join("\n").toLowerCase();
  return words.every((w) => text.includes(w));
}

export const newId = () => crypto.getRandomValues(new Uint32Array(2)).reduce((t, n) => t + n.toString(36), "");

export function newConversation(system: string): Conversation {
  const now = Date.now();
  return { id: newId(), title: "New chat", created: now, updated: now, system, messages: {}, leaf: null };
}

/** The shown path, from the first message to the leaf. */
export function path(c: Conversation): Message[] {
  const out: Message[] = [];
  for (let id = c.leaf; id; id = c.messages[id]?.parent ?? null) {
    const message = c.messages[id];
    if (message) out.unshift(message);
  }
  return out;
}

/** Messages in the same place, in the order in which they were made. */
export function siblings(c: Conversation, m: Message): Message[] {
  return Object.values(c.messages).filter((x) => x.parent === m.parent);
}

/** The newest leaf below a message. */
export function leafBelow(c: Conversation, id: string): string {
  for (;;) {
    const children = Object.values(c.messages).filter((m) => m.parent === id);
    const last = children[children.length - 1];
    if (!last) return id;
    id = last.id;
  }
}
