// Text layer of PDF files. Loaded when the first one is attached.

import { getDocument, GlobalWorkerOptions } from "pdfjs-dist";
import worker from "pdfjs-dist/build/pdf.worker.min.mjs?url";

GlobalWorkerOptions.workerSrc = worker;

/** Reads the text of all pages. Throws with a message that names the file. */
export async function textOf(name: string, bytes: Uint8Array): Promise<string> {
  const task = getDocument({ data: bytes, isEvalSupported: false, useSystemFonts: false, verbosity: 0 });
  try {
    const document = await task.promise;
    const pages: string[] = [];
    for (let n = 1; n <= document.numPages; n++) {
      const { items } = await (await document.getPage(n)).getTextContent();
      pages.push(items.map((item) => ("str" in item ? item.str + (item.hasEOL ? "\n" : "") : "")).join("").trim());
    }
    const text = pages.filter(Boolean).join("\n\n");
    if (!text) throw new Error("no text layer: the pages are pictures");
    return text;
  } catch (e) {
    const why = (e as Error).name === "PasswordException" ? "protected by a password" : (e as Error).message;
    throw new Error(`${name}: ${why}`);
  } finally {
    void task.destroy();
  }
}
