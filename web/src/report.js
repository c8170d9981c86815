// The HTML report of `saccade bench report --html`: everything it shows is in the JSON beside it (docs/run-format.md
// says where each number comes from). No network, no state but the page's own.
import * as Plot from "@observablehq/plot";

const data = JSON.parse(document.getElementById("saccade-data").textContent);
const runs = data.runs;
const palette = ["#2f6fde", "#d9622b", "#1d9a6c", "#a24cc7", "#b58a00", "#c2347a"];
const stageColours = { "client queue": "#9aa3ad", media: "#c9a227", queue: "#d9622b", encode: "#a24cc7", prefill: "#2f6fde", decode: "#1d9a6c",
  "to first token": "#2f6fde", failed: "#c02b2b" };
const runNames = runs.map((run) => run.name);
const runColour = (name) => palette[runNames.indexOf(name) % palette.length];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

const number = (x, digits = 2) =>
  x === null || x === undefined ? "–" : Math.abs(x) >= 1000 ? x.toLocaleString("en", { maximumFractionDigits: 0 })
    : x.toLocaleString("en", { maximumFractionDigits: digits });

// --- charts ---

const charts = []; // redrawn when the page's width changes

function chart(parent, { title, note, draw, empty = "Nothing to show: the run has no such values." }) {
  const body = element("div", { class: "chart" });
  const save = element("button", { type: "button", onclick: () => saveSvg(body, title) }, "Save SVG");
  const figure = element("figure", {}, element("figcaption", {}, element("h3", {}, title), save), body,
    note ? element("p", { class: "note" }, note) : null);
  parent.append(figure);
  const render = () => {
    const width = Math.max(300, Math.min(body.clientWidth || 700, 1100));
    const plot = draw(width);
    if (!plot) {
      save.hidden = true;
      body.replaceChildren(element("p", { class: "note" }, empty));
      return;
    }
    const svg = plot.tagName.toLowerCase() === "svg" ? plot : plot.querySelector("svg:last-of-type");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", note ? `${title}. ${note}` : title);
    body.replaceChildren(plot);
  };
  charts.push(render);
}

function saveSvg(body, title) {
  const svg = [...body.querySelectorAll("svg")].pop().cloneNode(true);
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.style.color = getComputedStyle(document.body).color;
  svg.style.background = getComputedStyle(document.body).backgroundColor;
  svg.style.fontFamily = "system-ui, sans-serif";
  const link = element("a", { download: title.toLowerCase().replace(/[^a-z0-9]+/g, "-") + ".svg",
    href: "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg.outerHTML) });
  link.click();
}

const colourScale = () => ({ type: "categorical", domain: runNames, range: runNames.map(runColour), legend: runs.length > 1 });
const style = { background: "transparent", fontSize: "12px", overflow: "visible" };

// Points of an empirical distribution, thinned so that a line of a few hundred stays exact to the eye.
function ecdf(values, name) {
  const sorted = values.filter((v) => v !== null && v !== undefined).sort((a, b) => a - b);
  const step = Math.max(1, Math.floor(sorted.length / 800));
  const points = [];
  for (let i = 0; i < sorted.length; i += step) points.push({ x: sorted[i], y: (i + 1) / sorted.length, run: name });
  if (sorted.length) points.push({ x: sorted[sorted.length - 1], y: 1, run: name });
  return points;
}

function cdf(parent, title, note, values) {
  chart(parent, { title, note, draw: (width) => {
    const points = runs.flatMap((run) => ecdf(values(run), run.name));
    if (points.length === 0) return null;
    // The longest tail would squeeze everything else: the axis ends a little after the 99.5th percentile.
    const far = Math.max(...runs.map((run) => {
      const line = points.filter((p) => p.run === run.name);
      return (line.find((p) => p.y >= 0.995) ?? line[line.length - 1])?.x ?? 0;
    }));
    return Plot.plot({ width, height: 260, style, marginLeft: 48, color: colourScale(),
      x: { label: "ms →", domain: [0, far * 1.08 || 1], clamp: true, nice: true },
      y: { label: "↑ share of samples", domain: [0, 1], tickFormat: "%", grid: true },
      marks: [Plot.ruleY([0.5, 0.9, 0.99], { strokeDasharray: "2,4", strokeOpacity: 0.5 }),
        Plot.lineY(points, { x: "x", y: "y", stroke: "run", curve: "step-after", strokeWidth: 2, clip: true }),
        Plot.tip(points, Plot.pointerX({ x: "x", y: "y", stroke: "run",
          title: (p) => `${p.run}\n${number(p.y * 100, 1)} % within ${number(p.x)} ms` })),
        Plot.ruleY([0])] });
  } });
}

const requestsOf = (key) => (run) => run.requests.map((request) => request[key]);

function timelines(parent) {
  chart(parent, { title: "Requests in flight", note: "Requests begun and not ended, over the run.", draw: (width) =>
    Plot.plot({ width, height: 220, style, marginLeft: 48, color: colourScale(), x: { label: "seconds →" },
      y: { label: "↑ requests", grid: true },
      marks: [...runs.map((run) => Plot.lineY(inFlight(run), { x: "t", y: "n", stroke: () => run.name,
        curve: "step-after", strokeWidth: 1.5 })), Plot.ruleY([0])] }) });
  chart(parent, { title: "Output tokens per second", note: "Tokens that arrived in each bin of the run.", draw: (width) =>
    runs.some((run) => run.throughput.length)
      ? Plot.plot({ width, height: 220, style, marginLeft: 56, color: colourScale(), x: { label: "seconds →" },
        y: { label: "↑ tok/s", grid: true, zero: true },
        marks: [...runs.map((run) => Plot.lineY(run.throughput, { x: (d) => d[0], y: (d) => d[1], stroke: () => run.name,
          strokeWidth: 1.5 })), Plot.ruleY([0])] }) : null });
  chart(parent, { title: "Time to first token over the run", note: "One dot a request, at its start. A rising cloud means a growing queue.",
    draw: (width) => {
      const dots = runs.flatMap((run) => run.requests.filter((r) => r.ttft !== null).map((r) => ({ ...r, run: run.name })));
      if (!dots.length) return null;
      return Plot.plot({ width, height: 240, style, marginLeft: 56, color: colourScale(), x: { label: "start, seconds →" },
        y: { label: "↑ TTFT, ms", grid: true, zero: true },
        marks: [Plot.dot(dots, { x: "start", y: "ttft", stroke: "run", r: 2.5, strokeOpacity: 0.7, tip: true,
          title: (d) => `request ${d.index} of ${d.run}\nTTFT ${number(d.ttft)} ms` }), Plot.ruleY([0])] });
    } });
}

function inFlight(run) {
  const edges = run.requests.flatMap((r) => [[r.start, 1], [r.end, -1]]).sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  let n = 0;
  const points = [{ t: 0, n: 0 }];
  for (const [t, change] of edges) points.push({ t, n: (n += change) });
  return points;
}

function gantt(parent) {
  for (const run of runs) {
    const shown = run.requests.slice(0, 400);
    chart(parent, { title: runs.length > 1 ? `Requests by stage: ${run.name}` : "Requests by stage",
      note: (run.has_stages ? "Stages as the server reports them." : "The server reports no stages: waiting for the first token, then decoding.")
        + (shown.length < run.requests.length ? ` The first ${shown.length} of ${run.requests.length} requests.` : ""),
      draw: (width) => {
        const bars = shown.flatMap((r) => r.stages.map(([stage, begin, end]) => ({ index: r.index, stage, begin, end })));
        if (!bars.length) return null;
        const stages = Object.keys(stageColours).filter((stage) => bars.some((bar) => bar.stage === stage));
        const height = Math.max(120, Math.min(900, 60 + shown.length * Math.max(2, Math.min(12, 700 / shown.length))));
        return Plot.plot({ width, height, style, marginLeft: 48,
          color: { domain: stages, range: stages.map((stage) => stageColours[stage]), legend: true },
          x: { label: "seconds →", grid: true }, y: { label: "request", domain: shown.map((r) => r.index), ticks: [], padding: 0.15 },
          marks: [Plot.barX(bars, { x1: "begin", x2: "end", y: "index", fill: "stage",
            title: (d) => `request ${d.index}: ${d.stage}\n${number((d.end - d.begin) * 1000)} ms`, tip: bars.length < 2000 })] });
      } });
  }
}

function againstImages(parent) {
  chart(parent, { title: "Time to first token against image tokens", note: "One dot a request. What an image costs before the first word.",
    empty: "No request of these runs has a known number of image tokens.", draw: (width) => {
      const dots = runs.flatMap((run) => run.requests.filter((r) => r.image_tokens > 0 && r.ttft !== null)
        .map((r) => ({ ...r, run: run.name })));
      if (!dots.length) return null;
      return Plot.plot({ width, height: 260, style, marginLeft: 56, color: colourScale(), x: { label: "image tokens →", zero: true },
        y: { label: "↑ TTFT, ms", grid: true, zero: true },
        marks: [Plot.dot(dots, { x: "image_tokens", y: "ttft", stroke: "run", r: 2.5, strokeOpacity: 0.7, tip: true }),
          Plot.linearRegressionY(dots, { x: "image_tokens", y: "ttft", stroke: "run", fillOpacity: 0.08 })] });
    } });
}

function serverPanels(parent) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.series)))];
  if (!names.length) {
    parent.append(element("p", { class: "note" }, "No server metrics were recorded (the server has no /metrics page, or scraping was off)."));
    return;
  }
  for (const name of names) {
    chart(parent, { title: name, draw: (width) =>
      Plot.plot({ width, height: 180, style, marginLeft: 64, color: colourScale(), x: { label: "seconds →" },
        y: { grid: true, zero: true, label: null, tickFormat: "s" },
        marks: [...runs.filter((run) => run.series[name]).map((run) => Plot.lineY(run.series[name],
          { x: (d) => d[0], y: (d) => d[1], stroke: () => run.name, strokeWidth: 1.5 })), Plot.ruleY([0])] }) });
  }
}

// --- tables ---

function difference(first, value, better) {
  if (!first || value === null || value === undefined) return "";
  const percent = (value / first - 1) * 100;
  const good = better === "higher" ? percent > 0 : percent < 0;
  const sign = percent > 0 ? "+" : "";
  return element("span", { class: Math.abs(percent) < 0.05 ? "" : good ? "better" : "worse" }, ` ${sign}${number(percent, 1)} %`);
}

function table(head, rows) {
  return element("div", { class: "scroll", tabindex: "0" }, element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map(([label, ...cells]) => element("tr", {}, element("th", { scope: "row" }, label),
      ...cells.map((cell) => element("td", {}, ...[].concat(cell))))))));
}

function summary(parent) {
  const first = runs[0];
  parent.append(table(["", ...runNames], first.summary.map((row, i) => [row.name + (row.unit ? ` (${row.unit})` : ""),
    ...runs.map((run, r) => [number(run.summary[i].value), r ? difference(row.value, run.summary[i].value, row.better) : ""])])));
  for (const run of runs) {
    parent.append(element("h3", {}, runs.length > 1 ? `Latency of ${run.name}, ms` : "Latency, ms"));
    const cell = (row, key) => {
      const text = number(row[key]);
      const bounds = row[`${key}_interval`];
      const low = row[`${key}_few`];
      return [text, bounds ? element("small", {}, ` [${number(bounds[0])}, ${number(bounds[1])}]`) : "",
        low ? element("small", { title: "too few samples for an interval" }, " n small") : ""];
    };
    parent.append(table(["", "n", "mean", "p50", "p90", "p99", "max"], run.latency.map((row) =>
      [row.name, String(row.n), number(row.mean), cell(row, "p50"), cell(row, "p90"), cell(row, "p99"), number(row.max)])));
  }
  parent.append(element("p", { class: "note" }, "Brackets: distribution-free 95 % intervals of the percentile. Percentages: against the first run."));
}

function clientHealth(parent) {
  for (const run of runs) {
    parent.append(element("p", { class: run.client.limiting ? "verdict worse" : "verdict better" },
      (runs.length > 1 ? run.name + ": " : "") + run.client.verdict));
  }
  parent.append(table(["", ...runNames], runs[0].client.rows.map((row, i) => [row[0], ...runs.map((run) => run.client.rows[i][1])])));
}

function configuration(parent) {
  for (const run of runs) {
    parent.append(element("details", runs.length === 1 ? { open: "" } : {}, element("summary", {}, `Run ${run.name}`),
      table(["", "value"], run.header.map(([key, value]) => [key, value]))));
  }
}

function section(title, id, fill, intro) {
  const made = element("section", { id }, element("h2", {}, title), intro ? element("p", { class: "note" }, intro) : null);
  document.querySelector("main").append(made);
  document.querySelector("nav").append(element("a", { href: "#" + id }, title));
  fill(made);
}

document.body.prepend(
  element("header", {}, element("h1", {}, "Benchmark report"),
    element("p", { class: "note" }, `${runs.map((run) => run.title).join("  ·  ")}`)),
  element("nav", { "aria-label": "Sections" }), element("main"));

section("Summary", "summary", summary);
section("Distributions", "distributions", (parent) => {
  const grid = element("div", { class: "grid" });
  parent.append(grid);
  cdf(grid, "Time to first token", "From the start of a request to its first token.", requestsOf("ttft"));
  cdf(grid, "Time per output token", "Mean time between the tokens of a request, the first left out.", requestsOf("tpot"));
  cdf(grid, "Inter-token latency", "Every gap between two tokens of a request.", (run) => run.itl);
  cdf(grid, "End-to-end latency", "From the start of a request to its end.", requestsOf("e2el"));
}, "Each line is the share of samples at or below a value: the further left, the better. Dashed: 50, 90 and 99 %.");
section("Over time", "timeline", timelines);
section("Requests", "requests", gantt);
section("Images", "images", againstImages);
section("Server", "server", serverPanels);
section("Client", "client", clientHealth, "Whether the load generator itself can have distorted what it measured.");
section("Configuration", "configuration", configuration);
document.body.append(element("footer", { class: "note" }, `Made by ${data.generator}.`));

const redraw = () => charts.forEach((render) => render());
redraw();
let width = window.innerWidth;
let waiting = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(redraw, 150);
});
