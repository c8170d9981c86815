// Requests over the run, one by one and by stage, and against the images that they carried.
import { Plot, axis, chart, lines, number, plot, seconds, time, tipStyle, whole } from "./charts.js";
import { stageColour, stageMeaning, stageNames } from "./page.js";

export function overTime(parent, page) {
  chart(parent, page, { title: "Requests in flight", note: "Begun and not yet ended.", draw: (width, runs) =>
    lines(width, runs, (run) => run.in_flight, { y: { label: "↑ requests", tickFormat: whole }, curve: "step-after", value: (n) => `${number(n)} in flight` }) });
  chart(parent, page, { title: "Output tokens per second", note: "Tokens that reached the client, in equal bins.", draw: (width, runs) =>
    lines(width, runs, (run) => run.throughput, { y: { label: "↑ tok/s" }, value: (n) => `${number(n)} tok/s` }) });
  chart(parent, page, { title: "Time to first token over the run", note: "One dot a request, at its start. A rising cloud means a growing queue.",
    switches: [["log", "log"]], draw: (width, runs, state) => dots(width, runs, (r) => r.start, seconds, (d) => `started at ${number(d.start)} s`, state.log) });
}

function dots(width, runs, x, xAxis, words, log, fit = false) {
  const points = runs.flatMap((run) => run.requests.filter((r) => r.ttft !== undefined && x(r) !== undefined)
    .map((r) => ({ ...r, run: run.name, x: x(r) })));
  if (!points.length) return null;
  // A line with a band needs three requests of more than one size.
  const fitted = runs.flatMap((run) => {
    const own = points.filter((point) => point.run === run.name);
    return own.length > 2 && own.some((point) => point.x !== own[0].x) ? own : [];
  });
  return plot(width, runs, { x: xAxis, y: { label: "↑ TTFT, ms", grid: true, tickFormat: (v) => number(v), ...(log ? { type: "log", ticks: 5 } : { zero: true, nice: true }) },
    marks: [log ? null : Plot.ruleY([0], { strokeOpacity: 0.4 }),
      Plot.dot(points, { x: "x", y: "ttft", fill: "run", r: points.length > 1500 ? 1.5 : 3, fillOpacity: 0.6 }),
      fit && !log && fitted.length ? Plot.linearRegressionY(fitted, { x: "x", y: "ttft", stroke: "run", z: "run", fillOpacity: 0.1, clip: true }) : null,
      Plot.tip(points, Plot.pointer({ x: "x", y: "ttft", stroke: "run", ...tipStyle(), maxRadius: 30,
        title: (d) => `request ${d.index}${runs.length > 1 ? " of " + d.run : ""}\nTTFT ${time(d.ttft)}\n${words(d)}` }))] });
}

export function againstImages(parent, page) {
  chart(parent, page, { title: "Time to first token against image tokens",
    note: "One dot a request; the line is the least-squares fit with its 95 % band. Its slope is what an image token costs before the first word.",
    empty: "No request of these runs carried an image of known size.",
    switches: [["log", "log"]], draw: (width, runs, state) => (runs.some((run) => run.requests.some((r) => r.image_tokens > 0))
      ? dots(width, runs, (r) => r.image_tokens, axis("image tokens of the request", { zero: true, nice: true }),
        (d) => `${number(d.image_tokens)} image tokens`, state.log, true) : null) });
}

// --- stages ---

const stageScale = (names) => ({ domain: names, range: names.map(stageColour), legend: true });
const present = (has) => stageNames.filter(has);

export function stages(parent, page) {
  chart(parent, page, { title: "Where the time goes", note: "Mean of each stage over the requests that succeeded.", draw: (width, runs) => {
    const bars = runs.flatMap((run) => stageNames.filter((name) => run.stage_means[name] !== undefined)
      .map((stage) => ({ run: run.name, stage, ms: run.stage_means[stage] })));
    if (!bars.length) return null;
    const all = Math.max(...runs.map((run) => Object.values(run.stage_means).reduce((sum, ms) => sum + ms, 0)));
    const names = present((name) => bars.some((bar) => bar.stage === name && bar.ms > all / 1000));
    const longest = Math.max(...runs.map((run) => run.name.length));
    return plot(width, runs, { height: 66 + 40 * runs.length, marginLeft: runs.length > 1 ? Math.min(160, 12 + 7 * longest) : 16, color: stageScale(names),
      x: axis("milliseconds", { grid: true, ticks: width / 90 }), y: { label: null, domain: runs.map((run) => run.name), axis: runs.length > 1 ? "left" : null },
      marks: [Plot.barX(bars, { x: "ms", y: "run", fill: "stage", order: stageNames, insetTop: 4, insetBottom: 4 }),
        Plot.tip(bars, Plot.pointerX(Plot.stackX({ x: "ms", y: "run", z: "stage", order: stageNames, ...tipStyle(),
          title: (d) => `${d.stage}: ${time(d.ms)}\n${stageMeaning[d.stage]}` })))] });
  } });
  for (const run of page.runs) gantt(parent, page, run);
}

function gantt(parent, page, run) {
  const staged = run.requests.filter((r) => r.stages);
  const missing = run.total_requests - staged.length;
  const source = run.stages_from_server ? "Stages as the server reports them; it counts from the instant the request was sent."
    : "The server reports no stages (Saccade does with --server-timings): waiting for the first token, then the answer.";
  chart(parent, page, { title: page.runs.length > 1 ? `Requests by stage: ${run.name}` : "Requests by stage",
    note: `One line a request, the first at the top. ${source}${missing > 0 ? ` The first ${staged.length} of ${run.total_requests} requests.` : ""}`,
    draw: (width) => {
      const bars = staged.flatMap((r, row) => r.stages.map(([stage, begin, end]) => ({ row, index: r.index, stage, begin, end, r })));
      if (!bars.length) return null;
      const whole = Math.max(...bars.map((bar) => bar.end));
      const names = present((name) => bars.some((bar) => bar.stage === name && bar.end - bar.begin > whole / 1000));
      const every = [1, 2, 5, 10, 20, 50, 100].find((step) => staged.length / step <= 12);
      const pitch = Math.max(1.5, Math.min(14, 620 / staged.length));
      return Plot.plot({ width, height: 72 + staged.length * pitch, marginLeft: 44, marginRight: 24, marginBottom: 42, style: { background: "transparent", fontSize: "12px" },
        color: stageScale(names), x: { ...seconds, grid: true },
        y: { label: "request", reverse: true, domain: [0, staged.length], ticks: staged.map((_, row) => row).filter((row) => row % every === 0), tickFormat: (row) => String(staged[row].index) },
        marks: [Plot.rect(bars, { x1: "begin", x2: "end", y1: "row", y2: (d) => d.row + 1, fill: "stage", insetTop: pitch > 4 ? 0.8 : 0, insetBottom: pitch > 4 ? 0.8 : 0 }),
          Plot.tip(bars, Plot.pointer({ x: (d) => (d.begin + d.end) / 2, y: (d) => d.row + 0.5, ...tipStyle(), maxRadius: 60,
            title: (d) => `request ${d.index}\n` + d.r.stages.map(([stage, begin, end]) => `${stage} ${time((end - begin) * 1000)}`).join("\n")
              + (d.r.image_tokens ? `\n${number(d.r.image_tokens)} image tokens` : "") + (d.r.error ? `\nfailed: ${d.r.error}` : "") }))] });
    } });
}
