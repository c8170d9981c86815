// The report in figures: summary, percentiles, differences, the client, the configuration.
import { element, number, signed, table, time } from "./page.js";

export function verdicts(parent, page) {
  const marks = { good: "✓", bad: "!", note: "·" };
  const words = { good: "good", bad: "warning", note: "note" };
  for (const run of page.runs) {
    parent.append(element("div", { class: "verdicts" }, page.runs.length > 1 ? page.nameOf(run) : null, element("ul", {}, run.verdicts.map((v) =>
      element("li", { class: `verdict-${v.level}` }, element("span", { class: "mark", role: "img", "aria-label": words[v.level] }, marks[v.level]),
        element("span", {}, element("b", {}, v.about + ": "), v.text, v.reasons.length ? ` (${v.reasons.join("; ")})` : ""))))));
  }
}

export const latencyNames = { ttft: "Time to first token (TTFT)", tpot: "Time per output token (TPOT)", itl: "Inter-token latency (ITL)", e2el: "End-to-end latency (E2EL)" };

// One run: the six figures that people ask for first, large.
export function headline(parent, run) {
  const latency = (key) => run.latency.find((row) => row.key === key);
  const figure = (name, unit) => run.figures.find((row) => row.name === name && row.unit === unit)?.value;
  const card = (name, value, detail) => element("div", { class: "card" }, element("span", {}, name), element("b", {}, value), element("small", {}, detail));
  const spread = (key) => (latency(key) ? `p99 ${time(latency(key).p99)}` : "");
  parent.append(element("div", { class: "cards" },
    card("First token, median", time(latency("ttft")?.p50), `TTFT, ${spread("ttft")}`),
    card("Each further token, median", time(latency("tpot")?.p50), `TPOT, ${spread("tpot")}`),
    card("Whole answer, median", time(latency("e2el")?.p50), `E2EL, ${spread("e2el")}`),
    card("Requests", `${number(figure("Requests", "req/s"))}/s`, `${number(figure("Successful requests", ""))} of ${number(run.total_requests)} succeeded`),
    card("Output", `${number(figure("Output tokens", "tok/s"), 1)} tok/s`, `${number(figure("Output tokens", ""))} tokens`),
    card("Took", time(figure("Duration", "s") * 1000), `at most ${number(figure("Most requests in flight", ""))} in flight`)));
}

export function figures(parent, page) {
  const label = (row) => row.name + (row.unit ? `, ${row.unit}` : "");
  const rows = [...new Set(page.runs.flatMap((run) => run.figures.map(label)))]
    .map((name) => [name, ...page.runs.map((run) => number(run.figures.find((row) => label(row) === name)?.value))]);
  // One run has these on its cards.
  if (page.runs.length > 1) {
    for (const [key, name] of Object.entries(latencyNames)) {
      const of = (run) => run.latency.find((row) => row.key === key);
      rows.push([`${name}, median (p99)`, ...page.runs.map((run) => (of(run) ? `${time(of(run).p50)} (${time(of(run).p99)})` : "–"))]);
    }
  }
  parent.append(table(["", ...page.runs.map(page.nameOf)], rows, "Figures of the runs"));
  parent.lastChild.classList.toggle("narrow", page.runs.length < 3);
}

function withInterval(row, key) {
  const bounds = row[`${key}_interval`];
  return [number(row[key]), element("small", {}, bounds ? ` ${number(bounds[0])} – ${number(bounds[1])}` : " few")];
}

export function percentiles(parent, page) {
  for (const run of page.runs) {
    parent.append(element("h3", {}, page.runs.length > 1 ? ["Latency in ms: ", page.nameOf(run)] : "Latency in ms"));
    parent.append(table(["", "n", "mean", "p50", "p90", "p99", "max"], run.latency.map((row) =>
      [row.name, number(row.n), number(row.mean), withInterval(row, "p50"), withInterval(row, "p90"), withInterval(row, "p99"), number(row.max)]), `Latency of ${run.name}`));
  }
  parent.append(element("p", { class: "note" }, "Small: the percentile's 95 % interval, free of any assumption about its distribution; “few” where the sample is too small for one."));
}

// A ratio's place on an axis on which half and double lie equally far from the middle.
const ratio = (share) => Math.log(Math.max(1e-3, 1 + share));

// Effect and interval on one axis, so that the eye finds what lies apart from no difference.
function bar(row, scale) {
  if (!row.interval) return "";
  const at = (share) => 50 + 50 * Math.max(-1, Math.min(1, ratio(share) / scale));
  const [low, high] = row.interval.map(at);
  return element("span", { class: "interval", "aria-hidden": "true" }, element("i", { style: `left:${low}%;width:${Math.max(1, high - low)}%` }),
    element("u", { style: `left:${at(row.effect)}%` }));
}

function verdictWord(row) {
  if (row.p === undefined && row.effect !== 0) return "not judged";
  return row.verdict === "WORSE" ? "worse" : row.verdict;
}

export function differences(parent, page) {
  const classes = { better: "better", WORSE: "worse" };
  for (const run of page.runs.slice(1)) {
    const { rows, warnings } = run.differences;
    const scale = Math.max(Math.log(1.05), ...rows.filter((row) => row.interval).flatMap((row) => row.interval.map((share) => Math.abs(ratio(share)))));
    const ends = number(Math.exp(scale), 1);
    parent.append(element("h3", {}, page.nameOf(run), " against ", page.nameOf(page.runs[0])));
    parent.append(table(["", page.runs[0].name, run.name, "difference", "95 % interval", `÷ ${ends} ← same → × ${ends}`, "verdict"], rows.map((row) =>
      [row.name, number(row.a), number(row.b), row.effect === null ? "–" : signed(row.effect),
        row.interval ? `${signed(row.interval[0])} to ${signed(row.interval[1])}` : "–", bar(row, scale),
        element("span", { class: classes[row.verdict] ?? "" }, verdictWord(row))]), `${run.name} against ${page.runs[0].name}`));
    for (const warning of warnings) parent.append(element("p", { class: "note warning" }, `Mind: ${warning}.`));
  }
  parent.append(element("p", { class: "note" }, "Intervals by bootstrap over the requests of one run each, which are not independent of each other; rates of single runs have none and are not judged. ",
    "“Better” and “worse” need p < 0.05 after Holm's correction and a difference of at least 2 %. Repeat the runs and use saccade bench compare to be sure."));
}

export function sideBySide(parent, page, pairsOf, label, marked = false) {
  const names = [...new Set(page.runs.flatMap((run) => pairsOf(run).map(([name]) => name)))];
  const rows = names.map((name) => {
    const cells = page.runs.map((run) => pairsOf(run).find(([key]) => key === name)?.[1] ?? "–");
    const row = [name, ...cells];
    row.differs = cells.some((cell) => cell !== cells[0]);
    return row;
  });
  const made = table(page.runs.length > 1 ? ["", ...page.runs.map(page.nameOf)] : null, rows, label);
  made.classList.add("pairs");
  made.querySelectorAll("tbody tr").forEach((tr, i) => tr.classList.toggle("differs", marked && rows[i].differs));
  parent.append(made);
}
