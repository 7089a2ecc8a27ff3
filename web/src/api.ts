// The server's interface: requests with the key that the user gave, and events of a stream.

const KEY = "leyden.key";

export const key = {
  get: () => localStorage.getItem(KEY) ?? "",
  set: (value: string) => (value ? localStorage.setItem(KEY, value) : localStorage.removeItem(KEY)),
};

/** A refusal of the server, or that it cannot be reached (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Where the page came from, so that a proxy with a path prefix works too. */
export function url(path: string): string {
  return new URL(path, document.baseURI).href;
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key.get()) headers.set("Authorization", `Bearer ${key.get()}`);
  let response: Response;
  try {
    response = await fetch(url(path), { ...init, headers });
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (!response.ok) {
    const text = await response.text().catch(() => "");
    let message = `${response.status} ${response.statusText}`;
    try {
      message = JSON.parse(text).error.message ?? message;
    } catch {
      // Not a body of this server: the status says enough.
    }
    throw new ApiError(response.status, message);
  }
  return response;
}

export interface ModelInfo {
  id: string;
  max_model_len?: number;
}

export async function models(): Promise<ModelInfo[]> {
  return (await (await request("v1/models")).json()).data;
}

export interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

export interface Chunk {
  choices: { delta: Delta; finish_reason: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details?: { cached_tokens?: number } } | null;
  /** Times by the server's clock, with the last chunk. */
  timings?: { prompt_ms: number; predicted_ms: number };
  error?: { message: string };
}

/** The events of a streamed chat. Throws if the stream breaks off before `[DONE]`. */
export async function* chat(body: unknown, signal: AbortSignal): AsyncGenerator<Chunk> {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    let part: ReadableStreamReadResult<string>;
    try {
      part = await reader.read();
    } catch (e) {
      if ((e as Error).name === "AbortError") throw e;
      throw new ApiError(0, "The connection broke before the answer was complete.");
    }
    if (part.done) throw new ApiError(0, "The connection ended before the answer was complete.");
    buffer += part.value;
    let end: number;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const event = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      for (const line of event.split("\n")) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data) as Chunk;
        if (chunk.error) throw new ApiError(500, chunk.error.message);
        yield chunk;
      }
    }
  }
}
