// The HTML report in a real browser: drawn, quiet, readable in both schemes and on a phone, usable by keyboard.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const failures = [];

async function test(name, file, { scheme = "light", width = 1200 }, body) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, acceptDownloads: true });
  context.setDefaultTimeout(90000); // a busy machine
  const page = await context.newPage();
  const noise = [];
  const address = pathToFileURL(file).href;
  page.on("console", (message) => noise.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => noise.push(`error: ${error.message}`));
  page.on("request", (request) => { if (request.url() !== address && !/^(blob|data):/.test(request.url())) noise.push(`request of ${request.url()}`); });
  try {
    await page.goto(address);
    await page.waitForSelector("html[data-drawn]");
    await body(page);
    assert.deepEqual(noise, [], "the page is quiet and asks for nothing");
    console.log(`ok ${name}`);
  } catch (error) {
    failures.push([`FAILED ${name}: ${error.message}`, ...noise].join("\n"));
    console.log(failures.at(-1));
  }
  await context.close();
}

const titles = ["Time to first token (TTFT)", "Time per output token (TPOT)", "Inter-token latency (ITL)", "End-to-end latency (E2EL)",
  "Requests in flight", "Output tokens per second", "Time to first token over the run", "Where the time goes",
  "Time to first token against image tokens", "KV cache in use", "Memory of the server's process"];
const figure = (page, title) => page.locator("figure", { has: page.getByRole("heading", { name: title, exact: true }) }).first();
// What stands for data: not axes, grids and rules, and nothing without extent.
const marks = (page, title) => figure(page, title).locator(".chart svg g").evaluateAll((groups) => groups
  .filter((group) => ["line", "dot", "bar", "rect", "area", "rule"].includes(group.getAttribute("aria-label")))
  .flatMap((group) => [...group.querySelectorAll("path, circle, rect, line")].filter((shape) => {
    if (group.getAttribute("aria-label") === "rule" && shape.getAttribute("stroke-width") !== "8" && group.getAttribute("stroke-width") !== "8") return false;
    const { width, height } = shape.getBoundingClientRect();
    return width > 0 || height > 0;
  })).length);

async function chartsAreDrawn(page, more) {
  for (const title of [...titles, ...more]) assert.ok((await marks(page, title)) > 0, `${title} has marks`);
  // A scale that went wrong shows as a coordinate that is not a number.
  const bad = await page.evaluate(() => [...document.querySelectorAll(".chart svg *")].filter((node) =>
    ["d", "x", "y", "width", "height", "cx", "cy", "transform"].some((name) => /NaN|Infinity/.test(node.getAttribute(name) ?? ""))).length);
  assert.equal(bad, 0, "no coordinate is NaN");
}

const strokes = (page) => figure(page, titles[0]).locator('.chart g[aria-label="line"] path').evaluateAll((paths) =>
  paths.map((path) => path.getAttribute("stroke") ?? getComputedStyle(path).stroke));
const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

for (const scheme of ["light", "dark"]) {
  await test(`one run, ${scheme}`, "one.html", { scheme }, async (page) => {
    await chartsAreDrawn(page, ["Requests by stage", "Cache memory by use"]);
    assert.equal(await page.locator("#differences").count(), 0);
    for (const words of ["Client:", "Server:", "Requests:"]) assert.ok((await page.locator(".verdicts").innerText()).includes(words));
    const [r, g, b] = (await background(page)).match(/\d+/g).map(Number);
    assert.equal(r + g + b > 384, scheme === "light", `the background is ${scheme}`);
    await page.getByRole("button", { name: scheme === "light" ? "Dark" : "Light", exact: true }).click();
    const [r2, g2, b2] = (await background(page)).match(/\d+/g).map(Number);
    assert.equal(r2 + g2 + b2 > 384, scheme === "dark", "the button changes the scheme");
    await chartsAreDrawn(page, []);
  });
}

await test("two runs overlaid", "two.html", {}, async (page) => {
  await chartsAreDrawn(page, ["Requests by stage: steady", "Requests by stage: at once </script>"]);
  // Of requests at once: a stage of a thousandth of the run, as one is that waits for nobody, is left out of the legend.
  const legend = await figure(page, "Requests by stage: at once </script>").locator(".chart").innerText();
  for (const stage of ["encode", "prefill", "decode"]) assert.match(legend, new RegExp(stage), `stages name ${stage}`);
  assert.equal(new Set(await strokes(page)).size, 2, "two lines of two colours");
  const rows = await page.locator("#differences tbody tr").allInnerTexts();
  assert.ok(rows.some((row) => /Mean TTFT.*%.* to .*%/s.test(row)), "differences with intervals");
  await page.locator(".runs input").nth(0).uncheck();
  assert.equal((await strokes(page)).length, 1, "a run can be hidden");
  await page.locator(".runs input").nth(1).click();
  assert.equal((await strokes(page)).length, 2, "hiding the last one shows all");
});

await test("logarithmic axis", "two.html", {}, async (page) => {
  await figure(page, titles[0]).getByLabel("log").check();
  await chartsAreDrawn(page, []);
});

await test("every chart as SVG", "two.html", { scheme: "dark" }, async (page) => {
  const count = await page.locator("figcaption button:visible").count();
  assert.ok(count >= titles.length);
  let view = page;
  for (let i = 0; i < count; ++i) {
    if (i % 8 === 7) {  // Chromium stops a page's downloads after ten
      view = await page.context().newPage();
      await view.goto(page.url());
      await view.waitForSelector("html[data-drawn]");
    }
    const button = view.locator("figcaption button:visible").nth(i);
    const [download] = await Promise.all([view.waitForEvent("download"), button.click()]);
    const text = await readFile(await download.path(), "utf8");
    const title = (await button.getAttribute("aria-label")).replace(/^Save (.*) as SVG$/, "$1");
    const found = await page.evaluate((svg) => {
      const file = new DOMParser().parseFromString(svg, "image/svg+xml");
      return { errors: file.querySelectorAll("parsererror").length, title: file.querySelector("text").textContent, shapes: file.querySelectorAll("path, circle, rect").length };
    }, text);
    assert.equal(found.errors, 0, `${title} is XML`);
    assert.equal(found.title, title);
    assert.ok(found.shapes > 3, `${title} has shapes`);
    assert.match(download.suggestedFilename(), /^[a-z0-9-]+\.svg$/);
  }
});

await test("by keyboard", "one.html", {}, async (page) => {
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the summary");
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.ariaLabel?.startsWith("Save"))); ++i) await page.keyboard.press("Tab");
  const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
  assert.match(download.suggestedFilename(), /\.svg$/);
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none", "the focus is visible");
});

for (const file of ["one.html", "two.html"]) {
  await test(`${file} at 390 px`, file, { width: 390 }, async (page) => {
    await chartsAreDrawn(page, []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 390, "no horizontal scroll");
    for (const box of await page.locator(".chart svg").evaluateAll((all) => all.map((svg) => svg.getBoundingClientRect().right)))
      assert.ok(box <= 391, `a chart ends at ${box}`);
  });
}

// Runs that were hardly seen: made of the steady one by scarce_logs.mjs.
await test("a cache that stayed empty", "zero.html", {}, (page) => chartsAreDrawn(page, ["Requests in the server"]));
await test("one request, one sample", "once.html", {}, (page) => chartsAreDrawn(page, ["Requests in the server", "Cache memory by use", "Requests by stage"]));
await test("no sample of the cache", "untold.html", {}, async (page) => {
  for (const title of ["Requests in the server", "KV cache in use"]) assert.match(await figure(page, title).innerText(), /No samples/, title);
});
await test("no sample at all", "unseen.html", {}, async (page) => {
  assert.match(await page.locator("#server").innerText(), /Nothing was recorded/);
});

await browser.close();
if (failures.length) console.log(`\n${failures.length} failed:\n${failures.join("\n")}`); // the end is what ctest's reader sees
process.exit(failures.length ? 1 : 0);
