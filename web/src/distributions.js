// Empirical distributions of the four latencies.
import { latencyNames } from "./tables.js";
import { Plot, axis, chart, number, plot, time, tipStyle } from "./charts.js";

// The longest tail would squeeze everything else: the axis ends a little after the 99.5th percentile.
function farEnd(points) {
  return (points.find(([, share]) => share >= 0.995) ?? points[points.length - 1])?.[0] ?? 0;
}

function cdf(parent, page, title, note, key) {
  chart(parent, page, { title, note, switches: [["log", "log"]], draw: (width, runs, state) => {
    const points = runs.flatMap((run) => {
      const values = run.cdf[key] ?? [];
      const steps = values.length ? [[values[0][0], 0], ...values] : [];  // it rises from zero at the smallest
      return steps.map(([ms, share]) => ({ ms, share, run: run.name, n: run.latency.find((row) => row.key === key)?.n }));
    }).filter((point) => !state.log || point.ms > 0);
    if (!points.length) return null;
    const far = Math.max(...runs.map((run) => farEnd(run.cdf[key] ?? [])));
    const near = Math.min(...points.map((point) => point.ms));
    const x = state.log ? { type: "log", domain: [near, Math.max(far, near * 2)] } : { domain: [0, far * 1.05 || 1], nice: true };
    const shown = points.filter((point) => point.ms <= far * 1.2);
    return plot(width, runs, { marginLeft: 46, x: axis("milliseconds", { ticks: width / 90, tickFormat: (v) => number(v), ...x, clamp: true }),
      y: { label: null, domain: [0, 1], tickFormat: "%", grid: true },
      marks: [Plot.ruleY([0.5, 0.9, 0.99], { strokeDasharray: "2,4", strokeOpacity: 0.6 }),
        Plot.lineY(points, { x: "ms", y: "share", z: "run", stroke: "run", curve: "step-after", strokeWidth: 2, clip: true }),
        Plot.ruleY([0], { strokeOpacity: 0.4 }),
        Plot.tip(shown, Plot.pointer({ x: "ms", y: "share", stroke: "run", ...tipStyle(), maxRadius: 40,
          title: (d) => `${runs.length > 1 ? d.run + "\n" : ""}${number(d.share * 100, 1)} % within ${time(d.ms)}\n${number(d.n)} values` }))] });
  } });
}

export function distributions(parent, page) {
  cdf(parent, page, latencyNames.ttft, "From the start of a request to its first token.", "ttft");
  cdf(parent, page, latencyNames.tpot, "Of each request: mean time from one token to the next.", "tpot");
  cdf(parent, page, latencyNames.itl, "Of every token but the first: the time since the one before it.", "itl");
  cdf(parent, page, latencyNames.e2el, "From the start of a request to the end of its answer.", "e2el");
}
