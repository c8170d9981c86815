// node join.mjs DIST: the page in one file, DIST/page.html, and its policy, DIST/page.csp: what the browser may run is
// this script and this style, by their hashes, and where it may ask is the server alone.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const dist = process.argv[2];
const read = (path) => readFileSync(path, "utf8").trim();
// "</script" would end the element; in a string of the script the escape is the same text.
const script = read(`${dist}/playground.js`).replace(/<\/(script)/gi, "<\\/$1").replaceAll("<!--", "<\\!--");
const style = read(`${dist}/page.css`);
const page = read(new URL("page.html", import.meta.url)).replace("/*style*/", () => style).replace("/*script*/", () => script);
// The packages in the bundle, with their licences as they want them to be kept.
const inputs = Object.keys(JSON.parse(read(`${dist}/playground.json`)).inputs);
const packages = [...new Set(inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))].sort();
const licences = packages.map((name) => {
  const folder = `${dist}/../node_modules/${name}`;
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${JSON.parse(read(`${folder}/package.json`)).version}\n\n${file ? read(`${folder}/${file}`) : ""}`.replaceAll("-->", "-- >");
});
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = ["default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, "img-src data: blob:", "media-src blob:",
  "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"].join("; ");
writeFileSync(`${dist}/page.html`, `${page}\n<!-- This page contains:\n\n${licences.join("\n\n")}\n-->\n`);
writeFileSync(`${dist}/page.csp`, policy);
