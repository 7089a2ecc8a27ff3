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
  await page.reload();
  await page.getByRole("button", { name: /^Once upon a time/ }).click();
  assert.equal(await page.locator(".message").count(), 2);
  await accessible(page, "chat");
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
  await page.evaluate(async () => {
    const text = [
      "# Title", "A [link](https://example.org) and `code`.", "", "```rust", "fn main() { println!(\"hi\"); }", "```", "",
      "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$", "", "Inline $a^2+b^2=c^2$, and a price of $5 or $6.", "",
      "| a | b |", "|---|---|", "| 1 | 2 |", "", "<img src=x onerror=alert(1)><script>alert(2)</script>",
      "[bad](javascript:alert(3)) ![track](https://example.org/x.png)",
    ].join("\n");
    const db = await new Promise((done) => {
      const r = indexedDB.open("leyden", 1);
      r.onsuccess = () => done(r.result);
    });
    const m = (id, parent, role, content) => ({ id, parent, role, content });
    const messages = { a: m("a", null, "user", "Show me"), b: m("b", "a", "assistant", text) };
    const c = { id: "c", title: "Markdown", created: 1, updated: 1, system: "", messages, leaf: "b" };
    await new Promise((done) => (db.transaction("conversations", "readwrite").objectStore("conversations").put(c).onsuccess = done));
  });
  await page.reload();
  await page.getByRole("button", { name: "Markdown", exact: true }).click();
  const answer = page.locator(".message.assistant .markdown");
  await answer.locator("h1").waitFor();
  assert.equal(await answer.locator("math").count(), 2);
  assert.ok(await answer.locator(".hljs-keyword").count());
  assert.equal(await answer.locator("img, script").count(), 0);
  assert.equal(await answer.locator('a[href^="javascript"]').count(), 0);
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
