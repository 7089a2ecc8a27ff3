// Text files of a message: reading them, and the row in which they are shown.

import { fenced } from "./transfer";
import type { Attachment, Message } from "./store";

/** A message's text as the model reads it: its files first, each in a fence under its name. */
export function withFiles(m: Pick<Message, "content" | "files">): string {
  const files = (m.files ?? []).map((f) => `File ${f.name}:\n\n${fenced(f.text)}`);
  return [...files, m.content].filter(Boolean).join("\n\n");
}

/** Largest file that is read, in bytes. */
const MAX_BYTES = 20_000_000;

/** Reads the text of a file; of a PDF file its text layer. Throws with a message that names the file. */
export async function read(file: File): Promise<Attachment> {
  if (file.size > MAX_BYTES) throw new Error(`${file.name}: larger than ${MAX_BYTES / 1e6} MB`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (new TextDecoder("latin1").decode(bytes.subarray(0, 5)) === "%PDF-") return { name: file.name, text: await (await import("./pdf")).textOf(file.name, bytes) };
  const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : undefined;
  let text: string;
  try {
    text = new TextDecoder(utf16 ?? "utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name}: neither text in UTF-8 nor a PDF file`);
  }
  if (text.includes("\0")) throw new Error(`${file.name}: neither text in UTF-8 nor a PDF file`);
  if (!text.trim()) throw new Error(`${file.name}: the file is empty`);
  return { name: file.name, text };
}

const size = (n: number) => `${n.toLocaleString("en")} ${n === 1 ? "character" : "characters"}`;

/** The files of a message, each with its length; of a draft with a button that takes it out. */
export function Files(props: { files: Attachment[]; remove?: (index: number) => void }) {
  if (!props.files.length) return null;
  return (
    <ul class="files" aria-label="Attached files">
      {props.files.map((f, i) => (
        <li>
          {props.remove ? (
            <span>{f.name}</span>
          ) : (
            <details>
              <summary>{f.name}</summary>
              <div class="pre">{f.text}</div>
            </details>
          )}
          <span class="dim"> {size(f.text.length)}</span>
          {props.remove && (
            <button type="button" class="plain" aria-label={`Remove ${f.name}`} onClick={() => props.remove!(i)}>
              ✕
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
