// What the server said of itself during the run: its /metrics page, its process, its GPU.
import { Plot, chart, fromZero, lines, number, pathOrPoint, plot, seconds, tipStyle, whole } from "./charts.js";
import { bytes, element, percent, stageColour } from "./page.js";

// Sums the readings whose name (without labels) is one of `names`, per instant.
function reading(run, ...names) {
  const sums = new Map();
  for (const [series, points] of Object.entries(run.series)) {
    if (!names.includes(series.replace(/^[a-z]+: /, "").replace(/\{.*/, ""))) continue;
    for (const [at, value] of points) sums.set(at, (sums.get(at) ?? 0) + value);
  }
  return [...sums].sort((a, b) => a[0] - b[0]);
}

// Growth per second of a counter between readings.
function rate(points) {
  return points.slice(1).map(([at, value], i) => [at, Math.max(0, value - points[i][1]) / Math.max(1e-9, at - points[i][0])]);
}

// Share of hits among the queries since the run began.
function hitShare(hits, queries) {
  const first = new Map(hits);
  if (!queries.length) return [];
  const [h0, q0] = [first.get(queries[0][0]) ?? 0, queries[0][1]];
  return queries.filter(([, q]) => q > q0).map(([at, q]) => [at, ((first.get(at) ?? h0) - h0) / (q - q0)]);
}

// The `always` ones are looked for in any report: where there is nothing to draw they say so. The others appear when a
// run has something to tell.
const panels = [
  { title: "Requests in the server", always: true, note: "Solid: running. Dashed: waiting.", y: { label: "↑ requests", tickFormat: whole }, value: number,
    of: (run) => reading(run, "vllm:num_requests_running", "sglang:num_running_reqs"),
    dashed: (run) => reading(run, "vllm:num_requests_waiting", "sglang:num_queue_reqs") },
  { title: "KV cache in use", always: true, note: "Share of its pages that running requests hold.", y: { label: null, tickFormat: (v) => percent(v, 3) }, value: percent,
    of: (run) => reading(run, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage") },
  { title: "Prefix cache hits", note: "Share of the prompt tokens since the run began that were found.", y: { label: null, domain: [0, 1], tickFormat: "%" }, value: percent,
    of: (run) => hitShare(reading(run, "vllm:prefix_cache_hits_total"), reading(run, "vllm:prefix_cache_queries_total")) },
  { title: "Image cache hits", note: "Share of the images since the run began that were already encoded.", y: { label: null, domain: [0, 1], tickFormat: "%" }, value: percent,
    of: (run) => hitShare(reading(run, "vllm:mm_cache_hits_total"), reading(run, "vllm:mm_cache_queries_total")) },
  { title: "Images waiting for the encoder", y: { label: "↑ images", tickFormat: whole }, value: number, of: (run) => reading(run, "saccade:encoder_queue_images") },
  { title: "Prompt tokens per second", note: "Entered the server, cached ones included.", y: { label: "↑ tok/s" }, value: number,
    of: (run) => rate(reading(run, "vllm:prompt_tokens_total")) },
  { title: "Preemptions", note: "Requests put back because memory ran out, since the server began.", y: { label: "↑ requests", tickFormat: whole }, value: number,
    of: (run) => reading(run, "vllm:num_preemptions_total") },
  { title: "Memory of the server's process", always: true, empty: "No samples: the server's process is on another machine.", y: { label: null, tickFormat: bytes }, value: bytes, of: (run) => reading(run, "resident_bytes") },
  { title: "GPU memory in use", y: { label: null, tickFormat: bytes }, value: bytes,
    of: (run) => reading(run, ...Array.from({ length: 16 }, (_, i) => `gpu${i}_memory_used_bytes`)) },
  { title: "GPU utilisation", y: { label: "↑ %" }, value: number, of: (run) => reading(run, "gpu0_utilization_percent") },
];

function panel(parent, page, { title, note, always, empty = "No samples: the server does not tell, or the run was over before it was asked.", y, value, of, dashed }) {
  if (!always && !page.runs.some((run) => of(run).some(([, v]) => v !== 0))) return;
  chart(parent, page, { title, note, empty, draw: (width, runs) => {
    const drawn = lines(width, runs, of, { y, value, height: 210, marginLeft: 68, curve: "step-after" });
    if (!drawn || !dashed) return drawn;
    const solid = runs.flatMap((run) => of(run).map(([at, n]) => ({ at, n, run: run.name, what: "running" })));
    const waiting = runs.flatMap((run) => dashed(run).map(([at, n]) => ({ at, n, run: run.name, what: "waiting" })));
    return plot(width, runs, { height: 210, marginLeft: 68, x: seconds, y: fromZero(y, [...solid, ...waiting]),
      marks: [Plot.ruleY([0], { strokeOpacity: 0.4 }), pathOrPoint(solid, { curve: "step-after" }), pathOrPoint(waiting, { curve: "step-after", dashed: true }),
        Plot.tip([...solid, ...waiting], Plot.pointer({ x: "at", y: "n", stroke: "run", ...tipStyle(), maxRadius: 30,
          title: (d) => `${runs.length > 1 ? d.run + "\n" : ""}${number(d.n)} ${d.what} at ${number(d.at)} s` }))] });
  } });
}

// Saccade's accounting of its cache memory: every byte that is not free, by what it is used for.
const uses = [["useful", "decode"], ["cached", "prefill"], ["tail", "media"], ["slack", "queue"], ["pad", "client queue"], ["overhold", "failed"]];
const useMeaning = { useful: "read by running requests", cached: "kept for later requests", tail: "rest of a request's last page", slack: "part of a large page that no small page uses",
  pad: "rounding of page sizes", overhold: "no longer needed, not yet given back" };

function memoryByUse(parent, page, run) {
  const pointsOf = (use) => Object.entries(run.series).find(([name]) => name.includes(`saccade:memory_bytes{use="${use}"`))?.[1] ?? [];
  const reserve = Math.max(0, ...pointsOf("reserve").map(([, n]) => n));  // would dwarf all else
  const areas = uses.flatMap(([use]) => {
    const points = pointsOf(use);
    return points.some(([, n]) => n !== 0) ? points.map(([at, n]) => ({ at, n, use })) : [];
  });
  if (!areas.length) return;
  const order = uses.map(([use]) => use);
  const once = areas.every(({ at }) => at === areas[0].at);  // an area needs two instants
  const shown = uses.filter(([use]) => areas.some((area) => area.use === use));
  chart(parent, page, { title: page.runs.length > 1 ? `Cache memory by use: ${run.name}` : "Cache memory by use", note: `What the KV cache and the image embeddings take: ${shown.map(([use]) => `${use}, ${useMeaning[use]}`).join("; ")}.`
    + (reserve ? ` Besides, up to ${bytes(reserve)} are set aside and not in use.` : ""),
    draw: (width) => plot(width, [], { height: 220, marginLeft: 68, x: seconds, y: { label: null, grid: true, tickFormat: bytes, nice: true },
      color: { domain: shown.map(([use]) => use), range: shown.map(([, stage]) => stageColour(stage)), legend: true },
      marks: [once ? Plot.ruleX(areas, Plot.stackY({ x: "at", y: "n", z: "use", stroke: "use", order, strokeWidth: 8 }))
        : Plot.areaY(areas, { x: "at", y: "n", fill: "use", order, curve: "step-after", fillOpacity: 0.85 }), Plot.ruleY([0], { strokeOpacity: 0.4 }),
        Plot.tip(areas, Plot.pointerX(Plot.stackY({ x: "at", y: "n", order, z: "use", ...tipStyle(),
          title: (d) => `${d.use}: ${bytes(d.n)}\n${useMeaning[d.use]}\nat ${number(d.at)} s` })))] }) });
}

export function server(parent, page) {
  if (!page.runs.some((run) => Object.keys(run.series).length)) {
    parent.append(element("p", { class: "note" }, "Nothing was recorded: the server has no /metrics page, or scraping was off (--scrape-period)."));
    return;
  }
  const grid = element("div", { class: "grid" });
  parent.append(grid);
  for (const one of panels) panel(grid, page, one);
  for (const run of page.runs) memoryByUse(grid, page, run);
  parent.append(everything(page));
}

// First and last reading of every series, for those who look for one in particular.
function everything(page) {
  const all = [...new Set(page.runs.flatMap((run) => Object.keys(run.series)))].sort();
  const names = all.filter((name) => page.runs.some((run) => run.series[name]?.some(([, n]) => n !== 0)));
  const zeros = all.length - names.length;
  const rows = names.map((name) => element("tr", {}, element("th", { scope: "row" }, name), page.runs.map((run) => {
    const points = run.series[name] ?? [];
    const [first, last] = [points[0]?.[1], points[points.length - 1]?.[1]];
    return element("td", {}, points.length ? (first === last ? number(first) : `${number(first)} → ${number(last)}`) : "–");
  })));
  return element("details", {}, element("summary", {}, `All ${names.length} readings, first → last${zeros ? ` (${zeros} more stayed at zero)` : ""}`),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All readings" }, element("table", { class: "small" },
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "reading"), page.runs.map((run) => element("th", { scope: "col" }, run.name)))),
      element("tbody", {}, rows))));
}
