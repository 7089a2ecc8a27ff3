// What the user chose, kept in the browser.

export interface Settings {
  model: string;
  system: string;
  temperature: string;
  top_p: string;
  top_k: string;
  min_p: string;
  repeat_penalty: string;
  seed: string;
  max_tokens: string;
  thinking: "" | "on" | "off";
  /** A JSON schema that the answer follows, if `format` is `schema`. */
  format: "text" | "json" | "schema";
  schema: string;
  /** A JSON list of tools as OpenAI's interface has them, if `useTools`. */
  useTools: boolean;
  tools: string;
  theme: "system" | "light" | "dark";
}

const NAME = "leyden.settings";

export const DEFAULTS: Settings = {
  model: "",
  system: "",
  temperature: "",
  top_p: "",
  top_k: "",
  min_p: "",
  repeat_penalty: "",
  seed: "",
  max_tokens: "",
  thinking: "",
  format: "text",
  schema: '{\n  "type": "object",\n  "properties": {\n    "answer": { "type": "string" }\n  },\n  "required": ["answer"]\n}',
  useTools: false,
  tools:
    '[\n  {\n    "type": "function",\n    "function": {\n      "name": "weather",\n      "description": "The weather in a city",\n      "parameters": {\n        "type": "object",\n        "properties": { "city": { "type": "string" } },\n        "required": ["city"]\n      }\n    }\n  }\n]',
  theme: "system",
};

export function load(): Settings {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(NAME) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

export function save(settings: Settings): void {
  localStorage.setItem(NAME, JSON.stringify(settings));
}

/** The fields of a request that follow from the settings. Throws with a message for the user. */
export function fields(s: Settings): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  if (s.model) out.model = s.model;
  for (const name of ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "max_tokens"] as const) {
    const text = s[name].trim();
    if (text === "") continue;
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Error(`${name}: “${text}” is not a number`);
    out[name] = value;
  }
  if (s.thinking) out.chat_template_kwargs = { enable_thinking: s.thinking === "on" };
  if (s.format === "json") out.response_format = { type: "json_object" };
  if (s.format === "schema") {
    const schema = parse("JSON schema", s.schema);
    out.response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  }
  if (s.useTools) {
    const tools = parse("Tools", s.tools);
    if (!Array.isArray(tools)) throw new Error("Tools: a JSON list is wanted");
    if (tools.length) out.tools = tools;
  }
  return out;
}

function parse(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (e) {
    throw new Error(`${what}: ${(e as Error).message}`);
  }
}
