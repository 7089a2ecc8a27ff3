// Markdown with code, tables and LaTeX, to HTML that is safe to show: everything that a model writes is sanitised.

import DOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { Marked, type TokenizerAndRendererExtension } from "marked";
import temml from "temml";

const LANGUAGES = { bash, c, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

const escape = (text: string) =>
  text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]!);

function formula(tex: string, displayMode: boolean): string {
  try {
    // The page's policy allows no inline styles, and the browser complains of each that it parses.
    return temml.renderToString(tex, { displayMode, throwOnError: false }).replace(/ style="[^"]*"/g, "");
  } catch {
    return `<code>${escape(tex)}</code>`;
  }
}

/** `$$…$$` and `\[…\]` in a block of their own. */
const block: TokenizerAndRendererExtension = {
  name: "mathBlock",
  level: "block",
  start: (source) => source.search(/\$\$|\\\[/),
  tokenizer(source) {
    const match = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(source);
    return match ? { type: "mathBlock", raw: match[0], text: match[1] ?? match[2] } : undefined;
  },
  renderer: (token) => formula(token.text, true),
};

/** `$…$`, `\(…\)` and the others within a line. A price is no formula: no space inside the signs, no digit behind. */
const inline: TokenizerAndRendererExtension = {
  name: "mathInline",
  level: "inline",
  start: (source) => source.search(/\$|\\\(|\\\[/),
  tokenizer(source) {
    const display = /^(?:\$\$([^\n]+?)\$\$|\\\[([^\n]+?)\\\])/.exec(source);
    if (display) return { type: "mathInline", raw: display[0], text: display[1] ?? display[2], display: true };
    const match = /^(?:\$(?![\s\d]*\$)([^\s$](?:[^$\n]*?[^\s$\\])?)\$(?!\d)|\\\(([^\n]+?)\\\))/.exec(source);
    return match ? { type: "mathInline", raw: match[0], text: match[1] ?? match[2], display: false } : undefined;
  },
  renderer: (token) => formula(token.text, token.display),
};

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions: [block, inline],
  renderer: {
    code({ text, lang }) {
      const name = (lang ?? "").trim().split(/\s/)[0] ?? "";
      const known = name !== "" && hljs.getLanguage(name);
      const html = known ? hljs.highlight(text, { language: name }).value : escape(text);
      return `<div class="code"><div class="code-head"><span>${escape(name || "text")}</span><button type="button" data-copy>Copy</button></div><pre tabindex="0"><code>${html}</code></pre></div>`;
    },
    link({ href, tokens }) {
      return `<a href="${escape(href)}" target="_blank" rel="noopener noreferrer">${this.parser.parseInline(tokens)}</a>`;
    },
    // An image would be fetched from elsewhere: the page opens no connection but to its server.
    image: ({ href, text }) => `<a href="${escape(href)}" target="_blank" rel="noopener noreferrer">${escape(text || href)}</a>`,
    html: ({ text }) => escape(text),
    // Input elements are removed below; the mark of a task stays as a character with a name.
    checkbox: ({ checked }) => `<span class="task" role="img" aria-label="${checked ? "done" : "open"}">${checked ? "☑" : "☐"}</span> `,
  },
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node instanceof HTMLAnchorElement) {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
});

export function render(text: string): string {
  const html = marked.parse(text, { async: false });
  return DOMPurify.sanitize(html, {
    USE_PROFILES: { html: true, mathMl: true },
    ADD_ATTR: ["target", "data-copy", "role", "aria-label"],
    FORBID_TAGS: ["style", "img", "form", "input", "video", "audio", "iframe"],
    FORBID_ATTR: ["style"],
  });
}
