// Drives the page in Chromium against a real server.
//
// Needs a built program (LEYDEN, default ../target/release/leyden) and Debian's chromium. SHOTS=FOLDER keeps screenshots.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const program = process.env.LEYDEN ?? new URL("../../target/release/leyden", import.meta.url).pathname;
const model = process.env.MODEL ? [process.env.MODEL] : [];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

let server;
let address;
let browser;
const foreign = [];
const complaints = [];
/** axe-core puts a style into the page, which the page's policy forbids. */
let checking = false;

/** Starts a server and waits for its address. */
function serve(port, more = []) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, ["serve", ...model, "--port", String(port), ...more], { stdio: ["ignore", "ignore", "pipe"] });
    let text = "";
    child.stderr.on("data", (data) => {
      text += data;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
      if (found) resolve([child, found[0]]);
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${text}`)));
  });
}

async function open(options = {}, path = "/") {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (m) => m.type() === "error" && !checking && complaints.push(m.text()));
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("request", (r) => !r.url().startsWith(address) && !/^(data|blob|about):/.test(r.url()) && foreign.push(r.url()));
  await page.goto(address + path);
  return page;
}

async function ask(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

const settled = (page) => page.getByRole("button", { name: "Send" }).waitFor();
const shot = (page, name) => shots && page.screenshot({ path: `${shots}/${name}.png` });

async function accessible(page, where) {
  checking = true;
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  checking = false;
  const serious = violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(serious.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 120))]), [], where);
}

before(async () => {
  [server, address] = await serve(0);
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});

after(async () => {
  await browser?.close();
  server?.removeAllListeners("exit");
  server?.kill("SIGKILL");
});

test("a chat: stream, regenerate, branches, edit, and it is kept", async () => {
  const page = await open();
  await shot(page, "empty");
  await ask(page, "Once upon a time there was a **cat**");
  await page.locator(".message.assistant .speed").waitFor();
  await settled(page);
  const first = await page.locator(".message.assistant .markdown").innerText();
  assert.ok(first.length > 20, first);
  assert.match(await page.locator(".speed").innerText(), /tokens · [\d.]+ t\/s · first after/);
  await page.getByRole("button", { name: "Regenerate" }).click();
  await page.locator(".branches").getByText("2 / 2").waitFor();
  await settled(page);
  await page.getByRole("button", { name: "Earlier version" }).click();
  await page.locator(".branches").getByText("1 / 2").waitFor();
  assert.equal(await page.locator(".message.assistant .markdown").innerText(), first);
  await page.locator(".message.user").hover();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edit the message").fill("A dog ran");
  await page.getByRole("button", { name: "Send as a new branch" }).click();
  await settled(page);
  assert.match(await page.locator(".message.user .branches").innerText(), /2 \/ 2/);
  await shot(page, "chat");
  assert.match(page.url(), /#\/chat\/\w+$/);
  await page.reload();
  await page.locator(".message.assistant").waitFor();
  assert.equal(await page.locator(".message").count(), 2);
  await accessible(page, "chat");
});

/** Puts conversations of one question and one answer into the browser; each is id, title, question, answer. */
async function fill(page, ...list) {
  await page.evaluate(async (list) => {
    const db = await new Promise((done) => {
      const r = indexedDB.open("leyden", 1);
      r.onsuccess = () => done(r.result);
    });
    for (const [id, title, question, answer] of list) {
      const m = (id, parent, role, content) => ({ id, parent, role, content });
      const messages = { a: m("a", null, "user", question), b: m("b", "a", "assistant", answer) };
      const c = { id, title, created: 1, updated: 1, system: "", messages, leaf: "b" };
      await new Promise((done) => (db.transaction("conversations", "readwrite").objectStore("conversations").put(c).onsuccess = done));
    }
  }, list);
}

const titles = (page) => page.locator("aside .title").allInnerTexts();

test("chats have addresses", async () => {
  const page = await open();
  await fill(page, ["one", "First", "q1", "a1"], ["two", "Second", "q2", "a2"]);
  await page.goto(address + "/#/chat/one");
  await page.reload();
  await page.getByText("a1").waitFor();
  await page.getByRole("button", { name: "Second", exact: true }).click();
  await page.getByText("a2").waitFor();
  assert.match(page.url(), /#\/chat\/two$/);
  await page.goBack();
  await page.getByText("a1").waitFor();
  await page.getByRole("link", { name: "Status" }).click();
  await page.getByRole("link", { name: "Chat" }).click();
  await page.getByText("a1").waitFor();
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("heading", { name: "What would you like to know?" }).waitFor();
  await page.goto(address + "/#/chat/nobody");
  await page.getByText("This browser keeps no chat of this address.").waitFor();
});

test("chats are searched, renamed, exported, imported, and a deletion is undone", async () => {
  const page = await open();
  await fill(page, ["one", "Cats", "Why do cats purr?", "Because."], ["two", "Dogs", "Why do dogs bark?", "Who knows."]);
  await page.goto(address + "/#/chat/one");
  await page.reload();
  await page.getByText("Because.").waitFor();
  await page.getByLabel("Search the conversations").fill("BARK dogs");
  assert.deepEqual(await titles(page), ["Dogs"]);
  await page.getByLabel("Search the conversations").fill("");
  await page.getByRole("button", { name: "Rename or export Cats" }).click();
  await page.getByLabel("Title").fill("Felines");
  await shot(page, "rename");
  const markdown = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export as Markdown" }).click();
  const text = readFileSync(await (await markdown).path(), "utf8");
  assert.match(text, /^# Cats\n\n## You\n\nWhy do cats purr\?\n\n## Assistant\n\nBecause\.\n$/);
  await page.getByRole("button", { name: "Save" }).click();
  assert.deepEqual((await titles(page)).sort(), ["Dogs", "Felines"]);
  const all = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export all" }).click();
  const file = await (await all).path();
  await page.getByRole("button", { name: "Delete Felines" }).click();
  assert.deepEqual(await titles(page), ["Dogs"]);
  await page.getByRole("button", { name: "Undo" }).click();
  assert.deepEqual((await titles(page)).sort(), ["Dogs", "Felines"]);
  await page.getByRole("button", { name: "Delete Felines" }).click();
  const load = (buffer) => page.getByLabel("File with conversations").setInputFiles({ name: "chats.json", mimeType: "application/json", buffer });
  await load(readFileSync(file));
  await page.getByText("1 imported.").waitFor();
  await load(readFileSync(file));
  await page.getByText("All of them are here already.").waitFor();
  assert.deepEqual((await titles(page)).sort(), ["Dogs", "Felines"]);
  // A file that is damaged changes nothing and is told of by field.
  const broken = JSON.parse(readFileSync(file, "utf8"));
  for (const [change, said] of [
    [(f) => (f.conversations[0].messages.a.parent = "b"), "the message is its own ancestor"],
    [(f) => (f.conversations[0].leaf = "x"), "leaf: no such message"],
    [(f) => (f.conversations[0].messages.a.content = 1), "content: a text is expected"],
    [(f) => (f.form = "other"), "the file is no export of this page"],
  ]) {
    const copy = structuredClone(broken);
    change(copy);
    await load(Buffer.from(JSON.stringify(copy)));
    await page.getByText(said).waitFor();
  }
  await load(Buffer.from("no"));
  await page.getByText("chats.json: not JSON").waitFor();
  assert.equal((await titles(page)).length, 2);
  await accessible(page, "list");
});

/** A PDF file of one page with a line of text, or with none. */
function pdf(line) {
  const stream = line ? `BT /F1 12 Tf 72 700 Td (${line}) Tj ET` : "";
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
    `<</Length ${stream.length}>>\nstream\n${stream}\nendstream`,
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
  ];
  let text = "%PDF-1.4\n";
  const at = objects.map((o, i) => {
    const offset = text.length;
    text += `${i + 1} 0 obj\n${o}\nendobj\n`;
    return offset;
  });
  const table = at.map((o) => `${String(o).padStart(10, "0")} 00000 n \n`).join("");
  text += `xref\n0 6\n0000000000 65535 f \n${table}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n${text.length}\n%%EOF\n`;
  return Buffer.from(text, "latin1");
}

test("files are attached, and the context tells how full it is", async () => {
  const page = await open();
  const attach = (name, buffer) => page.getByLabel("Files to attach").setInputFiles({ name, mimeType: "application/octet-stream", buffer });
  for (const [name, buffer, said] of [
    ["picture.png", Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0xff]), "picture.png: neither text in UTF-8 nor a PDF file"],
    ["empty.txt", Buffer.from(" \n"), "empty.txt: the file is empty"],
    ["scan.pdf", pdf(""), "scan.pdf: no text layer"],
    ["cut.pdf", Buffer.from("%PDF-1.4 and nothing"), "cut.pdf: "],
  ]) {
    await attach(name, buffer);
    await page.locator(".error").getByText(said).waitFor();
  }
  await attach("notes.md", Buffer.from("A cat called ```Tom```.\n"));
  await attach("letter.pdf", pdf("The king had a daughter"));
  await page.locator(".composer .files").getByText("letter.pdf").waitFor();
  assert.match(await page.locator(".context").innerText(), /about \d+ of [\d,]+ tokens/);
  await page.getByRole("button", { name: "Remove notes.md" }).click();
  await attach("notes.md", Buffer.from("A cat called ```Tom```.\n"));
  await page.locator(".composer .files").getByText("notes.md").waitFor();
  let sent;
  page.on("request", (r) => r.url().endsWith("/chat/completions") && (sent = r.postDataJSON()));
  await ask(page, "What is in them?");
  await settled(page);
  const content = sent.messages.at(-1).content;
  assert.equal(content, "File letter.pdf:\n\n```\nThe king had a daughter\n```\n\nFile notes.md:\n\n````\nA cat called ```Tom```.\n````\n\nWhat is in them?");
  assert.match(await page.locator(".context").innerText(), /^[\d,]+ of 1,024 tokens/);
  await page.locator(".message.user summary").first().click();
  await shot(page, "files");
  await accessible(page, "files");
});

test("an answer of one token has no rate, and rates are the server's", async () => {
  const page = await open();
  let answer = { n: 1, ms: 0 };
  await page.route("**/v1/chat/completions", (route) => {
    const event = (more) => `data: ${JSON.stringify({ choices: [], ...more })}\n\n`;
    const said = event({ choices: [{ index: 0, delta: { content: "Yes" }, finish_reason: "stop" }] });
    const usage = event({ usage: { prompt_tokens: 5, completion_tokens: answer.n }, timings: { prompt_ms: 3, predicted_ms: answer.ms } });
    return route.fulfill({ status: 200, contentType: "text/event-stream", body: `${said}${usage}data: [DONE]\n\n` });
  });
  await ask(page, "Is it?");
  await settled(page);
  assert.match(await page.locator(".speed").innerText(), /^1 token · first after/);
  answer = { n: 5, ms: 200 };
  await page.getByRole("button", { name: "Regenerate" }).click();
  await settled(page);
  await page.getByText("5 tokens · 20.0 t/s").waitFor();
});

test("stopping keeps what was written", async () => {
  const page = await open();
  await ask(page, "Tell me a story");
  await page.locator(".message.assistant .markdown:not(:empty)").waitFor();
  const stop = page.getByRole("button", { name: "Stop" });
  if (await stop.isVisible()) await stop.click().catch(() => {});
  await settled(page);
  assert.ok((await page.locator(".message.assistant .markdown").innerText()).length > 0);
  assert.equal(await page.locator(".message .error").count(), 0);
});

test("settings: sampling, schema, tools, and mistakes are named", async () => {
  const page = await open();
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Temperature").fill("warm");
  await page.getByText("temperature: “warm” is not a number").waitFor();
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Most tokens").fill("60");
  await page.getByLabel("System prompt of this chat").fill("You tell stories.");
  await page.getByLabel("Form").selectOption("schema");
  await page.getByLabel("JSON schema").fill('{"type":"object","properties":{"n":{"enum":[1,2,3]}},"required":["n"],"additionalProperties":false}');
  await shot(page, "settings");
  await accessible(page, "settings");
  await page.getByRole("button", { name: "Done" }).click();
  await ask(page, "A number");
  await settled(page);
  assert.match(await page.locator(".message.assistant .markdown").innerText(), /^json\s+Copy\s+\{\s*"n"\s*:\s*[123]\s*\}\s*$/);
});

test("Markdown, code with copy, LaTeX, and nothing that a model writes runs", async () => {
  const page = await open();
  const text = [
    "# Title", "A [link](https://example.org) and `code`.", "", "```rust", "fn main() { println!(\"hi\"); }", "```", "",
    "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$", "", "Inline $a^2+b^2=c^2$, and a price of $5 or $6.", "",
    "- [x] bought", "- [ ] cooked", "", "| a | b |", "|---|---|", "| 1 | 2 |", "", "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "[bad](javascript:alert(3)) ![track](https://example.org/x.png)",
  ].join("\n");
  await fill(page, ["c", "Markdown", "Show me", text]);
  await page.reload();
  await page.getByRole("button", { name: "Markdown", exact: true }).click();
  const answer = page.locator(".message.assistant .markdown");
  await answer.locator("h1").waitFor();
  assert.equal(await answer.locator("math").count(), 2);
  assert.ok(await answer.locator(".hljs-keyword").count());
  assert.equal(await answer.locator("img, script").count(), 0);
  assert.equal(await answer.locator('a[href^="javascript"]').count(), 0);
  assert.equal(await answer.getByRole("img", { name: "done" }).count(), 1);
  assert.equal(await answer.getByRole("img", { name: "open" }).count(), 1);
  assert.match(await answer.innerText(), /a price of \$5 or \$6\./);
  await shot(page, "markdown");
  await accessible(page, "markdown");
});

test("status and API", async () => {
  const page = await open({}, "/#/status");
  await page.getByRole("heading", { name: "Status" }).waitFor();
  await page.waitForTimeout(4500);
  assert.ok((await page.locator(".plot").count()) >= 7);
  await shot(page, "status");
  await accessible(page, "status");
  await page.getByRole("link", { name: "API" }).click();
  await page.locator(".operation").first().waitFor();
  assert.ok((await page.locator(".operation").count()) >= 8);
  await page.locator(".operation summary").first().click();
  await shot(page, "docs");
  await accessible(page, "docs");
});

test("examples of the interface are requests that the server takes", async () => {
  const page = await open({}, "/docs");
  await page.locator(".operation").first().waitFor();
  const commands = await page.locator(".operation pre").allTextContents();
  const posts = commands.filter((text) => text.startsWith("curl -X POST"));
  assert.ok(posts.length > 30, `${posts.length}`);
  assert.equal(new Set(posts).size, posts.length);
  for (const text of posts) {
    const [, address_, body] = /^curl -X POST (\S+) \\\n.*\n {2}-d '([\s\S]*)'$/.exec(text);
    // A pull would need a network.
    if (address_.endsWith("/api/pull")) continue;
    const answer = await fetch(address_, { method: "POST", headers: { "content-type": "application/json" }, body: body.replaceAll("'\\''", "'") });
    const said = await answer.text();
    // The storyteller has no labels, ranks nothing and fills no gaps; that is told of the model, not of the fields.
    const able = answer.status === 200 || (answer.status < 500 && /model|storyteller|template/.test(said));
    assert.ok(able, `${text}\n${answer.status} ${said}`);
    assert.doesNotMatch(said, /is missing|is needed|is required|not known/, text);
  }
});

test("lines and tables are whole on a phone", async () => {
  const page = await open({ viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true });
  const table = "| column one | column two | column three | column four | five |\n|---|---|---|---|---|\n| some longer text | 2 | another text | 4 | 5 |";
  await fill(page, ["t", "Table", "Show me", Array(30).fill("A line.").join("\n\n") + "\n\n" + table]);
  await page.goto(address + "/#/chat/t");
  await page.reload();
  await page.locator(".markdown table").waitFor();
  // Words of cells are not broken: the head is as high as its longest run of words, and the table is scrolled.
  const cell = await page.locator(".markdown th").last().evaluate((e) => e.getBoundingClientRect().height);
  assert.ok(cell < 60, `${cell}`);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  // The end stays in view while the box grows.
  const left = () => page.locator(".messages").evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
  await page.locator(".messages").evaluate((e) => (e.scrollTop = e.scrollHeight));
  await page.getByLabel("Message", { exact: true }).fill("one\ntwo\nthree\nfour\nfive");
  await page.waitForTimeout(300);
  assert.ok((await left()) < 2, `${await left()}`);
});

test("a phone, in the dark", async () => {
  const page = await open({ viewport: { width: 390, height: 780 }, colorScheme: "dark", hasTouch: true, isMobile: true });
  await ask(page, "Hello");
  await settled(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(wide, false, "nothing is wider than the screen");
  await shot(page, "phone");
  await page.getByRole("button", { name: "Chats" }).click();
  await page.getByRole("button", { name: "New chat" }).waitFor();
  await shot(page, "phone-list");
  await accessible(page, "phone");
});

test("the keyboard alone", async () => {
  const page = await open();
  await page.locator("body").press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("Once");
  await page.keyboard.press("Enter");
  await page.locator(".message.assistant .speed").waitFor();
  await settled(page);
});

test("no complaint in the console, no request to anybody else", () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(foreign, []);
});

test("a server that dies in the middle of an answer, and comes back", async () => {
  const page = await open();
  await page.route("**/v1/chat/completions", async (route) => {
    // Half an answer, then the connection ends.
    const event = (delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
    await route.fulfill({ status: 200, contentType: "text/event-stream", body: event({ content: "Half an " }) + event({ content: "answer" }) });
  });
  await ask(page, "Hello");
  await page.getByText("The connection ended before the answer was complete.").waitFor();
  assert.equal(await page.locator(".message.assistant .markdown").innerText(), "Half an answer");
  await page.unroute("**/v1/chat/completions");
  const port = new URL(address).port;
  server.removeAllListeners("exit");
  server.kill("SIGKILL");
  await page.getByText("server not reachable, trying again").waitFor({ timeout: 20000 });
  await shot(page, "away");
  [server] = await serve(port);
  await page.locator(".state.ready").waitFor({ timeout: 20000 });
  await page.getByRole("button", { name: "Try again" }).click();
  await settled(page);
  await page.locator(".message.assistant .speed").waitFor();
});
