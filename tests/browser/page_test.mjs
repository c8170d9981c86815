// The page at "/" as a person has it, on real servers of models/glimpse: OPEN, and KEYED, which wants the key "secret".
// PICTURES is data/glimpse; SHOTS, where given, a folder for screenshots.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const { OPEN, KEYED, PICTURES, SHOTS } = process.env;
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"] });
const failures = [];

// `quiet`: what the console may say besides nothing.
async function test(name, { base = OPEN, scheme = "light", width = 1280, quiet = /^$/, prepare }, body) {
  const context = await browser.newContext({ viewport: { width, height: 860 }, colorScheme: scheme });
  context.setDefaultTimeout(90000); // a sanitized server on a busy machine
  const page = await context.newPage();
  const noise = [];
  page.on("console", (message) => { if (!quiet.test(message.text())) noise.push(`${message.type()}: ${message.text()}`); });
  page.on("pageerror", (error) => noise.push(`error: ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith(base) && !/^(blob|data):/.test(request.url())) noise.push(`request of ${request.url()}`); });
  try {
    await prepare?.(page);
    await page.goto(`${base}/`);
    await page.waitForSelector("html[data-drawn]");
    await body(page);
    assert.deepEqual(noise, [], "the page is quiet and asks its own server alone");
    console.log(`ok ${name}`);
  } catch (error) {
    failures.push([`FAILED ${name}: ${error.message}`, ...noise].join("\n"));
    console.log(failures.at(-1));
    await page.screenshot({ path: `failed-${failures.length}.png` }).catch(() => {});
  }
  await context.close();
}

// Hands the page a file in an event of the clipboard or of the mouse.
const give = (page, event, file, type = "image/png") => page.evaluate(([kind, bytes, mime]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0))], "given", { type: mime }));
  const made = kind === "paste" ? new ClipboardEvent("paste", { clipboardData: carried, bubbles: true, cancelable: true })
    : new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true });
  document.activeElement.dispatchEvent(made);
}, [event, readFileSync(`${PICTURES}/${file}`).toString("base64"), type]);

const ask = async (page, text) => {
  await page.locator("#question").fill(text);
  await page.locator("#question").press("Enter");
  await ended(page);
};
const ended = (page) => page.waitForFunction(() => document.querySelectorAll(".answer").length && [...document.querySelectorAll(".answer")].every((each) => each.querySelector(".facts, .error")));
const answer = (page) => page.locator(".answer .text").last().innerText();
const facts = (page) => page.locator(".answer .facts").last().innerText();
const cost = (page, words = /of \d/) => page.waitForFunction((text) => new RegExp(text).test(document.querySelector("#cost").textContent), words.source).then(() => page.locator("#cost").innerText());
const shot = async (page, name) => { if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` }); };

async function accessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  assert.deepEqual(violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`), [], `axe-core, ${where}`);
}

// An answer as another model would give it.
const told = (...events) => (page) => page.route("**/v1/chat/completions", (route) => {
  page.asked = [...(page.asked ?? []), route.request().postDataJSON()];
  const next = events[Math.min(page.asked.length, events.length) - 1];
  return route.fulfill({ contentType: "text/event-stream", body: [...next.map((event) => `data: ${JSON.stringify(event)}\n\n`), "data: [DONE]\n\n"].join("") });
});
const delta = (said, more = {}) => ({ choices: [{ index: 0, delta: said, finish_reason: null, ...more }] });

for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390], ["dark", 390]]) {
  await test(`a pasted image, its answer, ${scheme}, ${width} px`, { scheme, width }, async (page) => {
    await shot(page, `${scheme}-${width}-begin`);
    await accessible(page, "at the beginning");
    await give(page, "paste", "000-read.png");
    await page.locator("#question").fill("What does it say?");
    const counted = await cost(page, /of images/);
    await shot(page, `${scheme}-${width}-question`);
    await accessible(page, "with a question");
    await page.keyboard.press("Enter");
    await ended(page);
    assert.equal((await answer(page)).trim(), "190");
    const [, prompt] = /^([\d,]+) tokens in \(32 of images/.exec(await facts(page)) ?? [];
    assert.ok(prompt && counted.startsWith(`${prompt} of `), `counted before: ${counted}; told after: ${await facts(page)}`);
    for (const stage of ["media", "prefill", "decode"]) assert.match(await page.locator(".stages").innerText(), new RegExp(stage));
    await page.locator("[data-token]").first().hover();
    assert.match(await page.locator("#tip").innerText(), /1\s+\d+(\.\d)? %/);
    await shot(page, `${scheme}-${width}-answer`);
    await accessible(page, "with an answer");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, "no horizontal scroll");
    const [r, g, b] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
    assert.equal(r + g + b > 384, scheme === "light");
    if (width < 1080) await page.locator("#panel-button").click();
    for (const tab of ["server", "settings", "form"]) {
      await page.locator(`#tab-${tab}`).click();
      if (tab === "server") await page.waitForFunction(() => /% of/.test(document.querySelector("#server").innerText));
      await shot(page, `${scheme}-${width}-${tab}`);
      await accessible(page, tab);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `no horizontal scroll, ${tab}`);
    }
  });
}

await test("by keyboard alone, at 390 px", { width: 390 }, async (page) => {
  const focused = () => page.evaluate(() => document.activeElement.innerText || document.activeElement.id);
  const tabTo = async (wanted, key = "Tab") => {
    for (let i = 0; i < 40 && !wanted.test(await focused()); ++i) await page.keyboard.press(key);
    assert.match(await focused(), wanted);
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none", "the focus is visible");
  };
  await page.keyboard.press("Shift+Tab"); // from the question, which has it at the beginning
  await tabTo(/total/, "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "question" && document.activeElement.value);
  await page.keyboard.press("End");
  await page.keyboard.press("Shift+Enter");
  assert.match(await page.locator("#question").inputValue(), /\n$/, "Shift+Enter is a line");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Enter");
  await ended(page);
  assert.equal((await answer(page)).trim(), "48.20");
  await page.keyboard.press("Shift+Tab");
  await tabTo(/^48\.20$/, "Shift+Tab");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator("#tip").innerText(), /^4\s/);
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator("#said").innerText(), /^8, \d/, "the token is said");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#tip").isVisible(), false);
  await tabTo(/Controls/, "Shift+Tab");
  await page.keyboard.press("Enter");
  assert.match(await focused(), /Server/);
  await page.keyboard.press("ArrowRight");
  assert.match(await focused(), /Settings/);
  for (let i = 0; i < 30; ++i) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => !document.activeElement.closest("main, .bar")), "what is covered is not reached");
  }
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#panel").isVisible(), false);
  assert.match(await focused(), /Controls/);
});

await test("size and cost", {}, async (page) => {
  await give(page, "paste", "000-read.png");
  await page.locator("#question").fill("What does it say?");
  const whole = await cost(page, /32 of images/);
  await page.locator("#size").focus();
  for (let i = 0; i < 10; ++i) await page.keyboard.press("ArrowLeft");
  assert.match(await page.locator("#size-said").innerText(), /^50 %, 112 × 56$/);
  const half = await cost(page, /· 8 of images/);
  assert.notEqual(half, whole);
  await page.locator("#question").press("Enter");
  await ended(page);
  assert.match(await facts(page), /\(8 of images/, "what was sent is what was counted");
  assert.ok(half.startsWith(/^\d+/.exec(await facts(page))[0]), `${half} and ${await facts(page)}`);
  await page.locator("#question").fill("And now?");
  assert.match(await cost(page, /to read/), /about .* to read/, "the server has measured itself");
});

await test("dropped, chosen and taken pictures", { quiet: /OpenGL|GPU/ }, async (page) => {
  await give(page, "dragover", "001-read.png");
  assert.ok(await page.locator("#drop").isVisible());
  await give(page, "drop", "001-read.png");
  await page.locator("#file").setInputFiles(`${PICTURES}/002-read.jpg`);
  await page.locator("#camera").click();
  await page.getByRole("button", { name: "Take the picture" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#pictures img").length === 3);
  await page.getByRole("button", { name: "Remove camera" }).click();
  await page.getByRole("button", { name: "Remove given" }).click();
  await ask(page, "Read the text.");
  assert.equal((await answer(page)).trim(), "514449");
  await page.locator("#file").setInputFiles({ name: "notes.png", mimeType: "image/png", buffer: Buffer.from("no picture") });
  await page.waitForSelector(".error");
  assert.match(await page.locator(".error").innerText(), /notes\.png is no image/);
});

await test("stop, edit, begin anew", {}, async (page) => {
  await page.locator("#tab-form").click();
  await page.locator("#form-kind").selectOption("regex");
  await page.locator("#form-definition").fill("[0-9]{900}");
  // Within the page, at the first token: the answer may have ended before a word from here arrives. All of it may even have come
  // before the page looks, on a machine that does much else: then once more.
  for (let attempt = 0; attempt < 5; ++attempt) {
    if (attempt > 0) await page.getByRole("button", { name: "New" }).click();
    await page.locator("#question").fill("What does it say?");
    await page.evaluate(() => {
      const observer = new MutationObserver(() => {
        if (!document.querySelector("[data-token]")) return;
        observer.disconnect();
        document.body.dataset.sendSaid = document.querySelector("#send").innerText;
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      });
      observer.observe(document.querySelector("#log"), { subtree: true, childList: true });
    });
    await page.locator("#question").press("Enter");
    await ended(page);
    if (/stopped/.test(await facts(page))) break;
  }
  assert.equal(await page.evaluate(() => document.body.dataset.sendSaid), "Stop");
  assert.match(await facts(page), /stopped/);
  const length = (await answer(page)).length;
  assert.ok(length > 0 && length < 900, `${length} characters came`);
  await page.locator("#tab-server").click();
  await page.waitForFunction(() => document.querySelector("#server dd").textContent === "0");
  await page.locator(".question").hover();
  const edit = await page.getByRole("button", { name: "Edit" }).boundingBox();
  assert.ok(edit.width > edit.height, `"Edit" stands in one line: ${edit.width} by ${edit.height}`);
  await page.getByRole("button", { name: "Edit" }).click();
  assert.equal(await page.locator("#question").inputValue(), "What does it say?");
  assert.equal(await page.locator(".answer").count(), 0);
  await page.getByRole("button", { name: "New" }).click();
  assert.ok(await page.locator(".hero").isVisible());
  assert.equal(await page.locator("#question").inputValue(), "");
});

await test("settings and forms reach the server, and its errors the reader", { quiet: /status of 400/ }, async (page) => {
  await page.locator("#tab-form").click();
  await page.locator("#form-kind").selectOption("json_schema");
  await page.locator("#form-definition").fill("{");
  assert.notEqual(await page.locator("#form-definition-wrong").innerText(), "");
  await ask(page, "What is the total?");
  assert.match(await page.locator(".error").innerText(), /^JSON schema: /);
  await page.locator("#form-definition").fill('{"type": "integer", "minimum": 0, "maximum": 9}');
  await page.locator("#tab-settings").click();
  await page.locator("#set-temperature").fill("0");
  await page.locator("#set-max_tokens").fill("4");
  await page.locator("#question").press("Enter");
  await page.waitForFunction(() => document.querySelector(".facts"));
  assert.match(await answer(page), /^\s*\d\s*$/);
  await page.locator("#set-temperature").fill("-1");
  await ask(page, "Once more.");
  assert.match(await page.locator(".error").last().innerText(), /400 BadRequestError\s+'temperature' is -1, it must be between 0 and inf\s+param: temperature/);
});

await test("tools", { prepare: told(
  [delta({ role: "assistant", tool_calls: [{ index: 0, id: "call_7", type: "function", function: { name: "look_up", arguments: "" } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: '{"number"' } }] }), delta({ tool_calls: [{ index: 0, function: { arguments: ': "2218"}' } }] }, { finish_reason: "tool_calls" })],
  [delta({ content: "It **cost**\n\n```js\n1 < 2\n```\n<b>x</b> ![y](http://127.0.0.1:9/y.png)" }, { finish_reason: "stop" })]) }, async (page) => {
  await page.locator("#tab-form").click();
  await page.getByRole("button", { name: "Example" }).click();
  await ask(page, "What did 2218 cost?");
  assert.equal(page.asked[0].tools[0].function.name, "look_up");
  assert.match(await page.locator(".call").innerText(), /look_up\s*\{"number": "2218"\}/);
  await accessible(page, "with a call");
  await page.getByLabel("Result of look_up").fill("48.20");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".formatted strong");
  const [, call, result] = page.asked[1].messages;
  assert.deepEqual(call.tool_calls, [{ id: "call_7", type: "function", function: { name: "look_up", arguments: '{"number": "2218"}' } }]);
  assert.deepEqual(result, { role: "tool", tool_call_id: "call_7", content: "48.20" });
  assert.match(await page.locator(".formatted").innerText(), /<b>x<\/b>/, "HTML in an answer is text");
  assert.equal(await page.locator(".formatted img, .formatted b").count(), 0);
  await accessible(page, "with formatted text");
});

await test("thoughts, and no instants from the server", { prepare: told([delta({ reasoning_content: "Hm, " }), delta({ reasoning_content: "easy." }), delta({ content: "Yes" }, { finish_reason: "length" })]) }, async (page) => {
  await ask(page, "Well?");
  assert.match(await page.locator(".thoughts").innerText(), /Hm, easy\./);
  assert.match(await page.locator(".stages").innerText(), /as seen by this page/);
  assert.match(await facts(page), /token limit/);
});

await test("a server that wants a key", { base: KEYED, quiet: /status of 401/ }, async (page) => {
  await page.waitForFunction(() => document.querySelector("#state").textContent === "needs a key");
  assert.equal(await page.evaluate(() => document.activeElement.id), "set-key");
  await accessible(page, "asking for the key");
  await page.keyboard.type("secret");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#state").textContent === "ready");
  await page.locator(".samples button").first().click();
  await cost(page, /of images/);
  await page.locator("#question").press("Enter");
  await ended(page);
  assert.equal((await answer(page)).trim(), "4071");
});

await browser.close();
console.log(`\n${failures.length} failed\n${failures.join("\n")}`); // the end is what ctest's reader sees
process.exit(failures.length ? 1 : 0);
