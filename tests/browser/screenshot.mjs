// node screenshot.mjs REPORT.html OUT.png: what README shows of a report: its head, two distributions, the stages.
// Run it where playwright-core is installed; CHROMIUM names the browser.
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [report, out] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await (await browser.newContext({ viewport: { width: 1080, height: 800 }, colorScheme: "light" })).newPage();
await page.goto(pathToFileURL(report).href);
await page.waitForSelector("html[data-drawn]");
await page.addStyleTag({ content: `
  section:not(#distributions, #stages), .skip, footer { display: none }
  #distributions figure:nth-child(n + 3), #stages figure:nth-of-type(2) { display: none }
  h2 { margin-top: 1.2rem } body { padding-bottom: 1rem }` });
await page.screenshot({ path: out, fullPage: true });
await browser.close();
