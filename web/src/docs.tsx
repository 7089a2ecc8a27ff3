// The server's interface, readable: `/openapi.json` as a page.

import { useEffect, useState } from "preact/hooks";
import { request, url } from "./api";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Json = any;

export function Docs() {
  const [document_, setDocument] = useState<Json>(null);
  const [problem, setProblem] = useState("");
  const [filter, setFilter] = useState("");
  useEffect(() => {
    request("openapi.json")
      .then((r) => r.json())
      .then(setDocument)
      .catch((e) => setProblem(e.message));
  }, []);
  const operations: { method: string; path: string; it: Json }[] = [];
  for (const [path, methods] of Object.entries<Json>(document_?.paths ?? {})) {
    for (const [method, it] of Object.entries<Json>(methods)) operations.push({ method: method.toUpperCase(), path, it });
  }
  const wanted = operations.filter((o) => `${o.path} ${o.it.summary}`.toLowerCase().includes(filter.toLowerCase()));
  return (
    <main id="main" class="page" tabindex={-1}>
      <h1>{document_?.info?.title ?? "API"}</h1>
      {problem && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      <p>
        Version {document_?.info?.version}. The document itself: <a href="openapi.json">/openapi.json</a>.
      </p>
      <label>
        Find
        <input type="search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
      </label>
      {wanted.map((o) => (
        <Operation {...o} root={document_} />
      ))}
    </main>
  );
}

function Operation({ method, path, it, root }: { method: string; path: string; it: Json; root: Json }) {
  const body = it.requestBody?.content?.["application/json"]?.schema;
  return (
    <details class="operation">
      <summary>
        <span class={`method ${method.toLowerCase()}`}>{method}</span> <code>{path}</code> <span class="dim">{it.summary}</span>
      </summary>
      {it.description && <p>{it.description}</p>}
      {body && (
        <>
          <h3>Fields</h3>
          <Fields schema={resolve(body, root)} root={root} depth={0} />
          <h3>Example</h3>
          <pre tabindex={0}>{example(method, path, sample(body, root, MORE[path] ?? MORE[`/v1${path}`]))}</pre>
        </>
      )}
      {!body && method === "GET" && <pre tabindex={0}>{`curl ${url(path.replace(/^\//, ""))}`}</pre>}
      <h3>Answers</h3>
      <ul>
        {Object.entries<Json>(it.responses ?? {}).map(([status, r]) => (
          <li>
            <code>{status}</code> {resolve(r, root)?.description}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Values of fields in examples. */
const VALUES: Record<string, unknown> = {
  messages: [{ role: "user", content: "Why is the sky blue?" }],
  prompt: "Once upon a time",
  max_tokens: 100,
  input: "a cat on a mat",
  inputs: ["a cat on a mat", "a dog in the rain"],
  query: "What do cats eat?",
  documents: ["Cats eat fish.", "It rains in Leiden."],
  texts: ["Cats eat fish.", "It rains in Leiden."],
  text_1: "What do cats eat?",
  text_2: ["Cats eat fish.", "It rains in Leiden."],
  source_sentence: "What do cats eat?",
  sentences: ["Cats eat fish.", "It rains in Leiden."],
  content: "Once upon a time",
  input_prefix: "def add(a, b):\n    return ",
  input_suffix: "\n",
  tokens: [1, 2, 3],
};

/** Fields that an example has beside those that are required, by path. */
const MORE: Record<string, string[]> = {
  "/v1/chat/completions": ["max_tokens"],
  "/v1/completions": ["max_tokens"],
  "/score": ["text_1", "text_2"],
  "/v1/score": ["text_1", "text_2"],
  "/v1/responses/compact": ["input"],
  "/api/chat": ["messages"],
  "/api/generate": ["prompt"],
  "/api/embeddings": ["prompt"],
  "/api/show": ["model"],
  "/api/pull": ["model"],
};

/** A body that the endpoint takes: its required fields and some more. */
function sample(schema: Json, root: Json, more: string[] = [], name = ""): unknown {
  const s = resolve(schema, root) ?? {};
  if (s.properties) {
    const names = new Set<string>([...(s.required ?? []), ...(s.oneOf?.[0]?.required ?? []), ...more]);
    return Object.fromEntries([...names].map((n) => [n, sample(s.properties[n], root, [], n)]));
  }
  if (name in VALUES) return VALUES[name];
  if (s.const !== undefined) return s.const;
  if (s.enum) return s.enum[0];
  const several = s.anyOf ?? s.oneOf;
  if (several) return sample(several[0], root, [], name);
  const type = Array.isArray(s.type) ? s.type[0] : s.type;
  if (type === "array") return s.minItems ? [sample(s.items, root)] : [];
  if (type === "integer" || type === "number") return s.default ?? s.minimum ?? 1;
  if (type === "boolean") return s.default ?? false;
  return type === "object" ? {} : name === "model" ? "smollm2" : "a text";
}

/** A command for the shell; a quote within the body is closed, escaped and opened again. */
function example(method: string, path: string, body: unknown): string {
  const text = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -X ${method} ${url(path.replace(/^\//, ""))} \\\n  -H 'Content-Type: application/json' \\\n  -d '${text}'`;
}

function resolve(schema: Json, root: Json): Json {
  let at = schema;
  for (let i = 0; at?.$ref && i < 10; i++) {
    at = at.$ref
      .replace(/^#\//, "")
      .split("/")
      .reduce((o: Json, k: string) => o?.[k.replace(/~1/g, "/").replace(/~0/g, "~")], root);
  }
  return at;
}

function Fields({ schema, root, depth }: { schema: Json; root: Json; depth: number }) {
  const properties = Object.entries<Json>(schema?.properties ?? {});
  if (!properties.length) return <p class="dim">any</p>;
  const required = new Set<string>(schema.required ?? []);
  return (
    <div class="table" tabindex={0} role="region" aria-label="Fields">
      <table>
        <tbody>
          {properties.map(([name, raw]) => {
            const s = resolve(raw, root);
            const inner = resolve(s?.items, root) ?? s;
            return (
              <tr>
                <th scope="row">
                  <code>{name}</code>
                  {required.has(name) && <span class="needed"> required</span>}
                </th>
                <td>
                  <span class="dim">{kind(s, root)}</span> {limits(s)} {s?.description}
                  {depth < 2 && inner?.properties && (
                    <details>
                      <summary>its fields</summary>
                      <Fields schema={inner} root={root} depth={depth + 1} />
                    </details>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function kind(s: Json, root: Json): string {
  if (!s) return "";
  if (s.const !== undefined) return JSON.stringify(s.const);
  if (s.enum) return s.enum.map((v: unknown) => JSON.stringify(v)).join(" | ");
  for (const several of [s.anyOf, s.oneOf]) if (several) return several.map((x: Json) => kind(resolve(x, root), root)).join(" or ");
  const type = Array.isArray(s.type) ? s.type.join(" or ") : (s.type ?? "any");
  return type === "array" ? `list of ${kind(resolve(s.items, root), root) || "any"}` : type;
}

function limits(s: Json): string {
  if (!s) return "";
  const parts: string[] = [];
  if (s.minimum !== undefined || s.maximum !== undefined) parts.push(between(s.minimum, s.maximum));
  if (s.maxLength !== undefined) parts.push(`at most ${s.maxLength} characters`);
  if (s.minItems !== undefined || s.maxItems !== undefined) parts.push(`${s.minItems ?? 0} to ${s.maxItems ?? ""} items`);
  if (s.default !== undefined) parts.push(`default ${JSON.stringify(s.default)}`);
  return parts.join("; ");
}

/** A range in words. The least positive number stands for an open end at 0. */
function between(least: number | undefined, most: number | undefined): string {
  if (least !== undefined && least > 0 && least < 1e-30) return most === undefined ? "above 0" : `above 0, at most ${most}`;
  if (least === undefined) return `at most ${most}`;
  return most === undefined ? `at least ${least}` : `${least} to ${most}`;
}
