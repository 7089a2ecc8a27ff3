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
          <pre tabindex={0}>{example(method, path)}</pre>
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

function example(method: string, path: string): string {
  const bodies: Record<string, unknown> = {
    "/v1/chat/completions": { messages: [{ role: "user", content: "Why is the sky blue?" }], max_tokens: 100 },
    "/v1/completions": { prompt: "Once upon a time", max_tokens: 100 },
    "/v1/embeddings": { input: ["a text", "another"] },
    "/tokenize": { prompt: "Once upon a time" },
    "/detokenize": { tokens: [1, 2, 3] },
  };
  const body = JSON.stringify(bodies[path] ?? {});
  return `curl -X ${method} ${url(path.replace(/^\//, ""))} \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
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
  if (s.minimum !== undefined || s.maximum !== undefined) parts.push(`${s.minimum ?? ""} to ${s.maximum ?? ""}`);
  if (s.maxLength !== undefined) parts.push(`at most ${s.maxLength} characters`);
  if (s.minItems !== undefined || s.maxItems !== undefined) parts.push(`${s.minItems ?? 0} to ${s.maxItems ?? ""} items`);
  if (s.default !== undefined) parts.push(`default ${JSON.stringify(s.default)}`);
  return parts.join("; ");
}
