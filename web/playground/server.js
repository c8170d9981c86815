// The server as it is now, from /metrics once a second while somebody looks.
import { bytes, element, number, time } from "../src/page.js";
import { send } from "./requests.js";

const period = 1000; // ms
const kept = 90; // readings of the curve

// Prometheus text to {name, labels, value}.
export function parseMetrics(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([\w:]+)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!match || line.startsWith("#")) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

class Reading {
  constructor(text) {
    this.at = performance.now();
    this.samples = Map.groupBy ? Map.groupBy(parseMetrics(text), (sample) => sample.name) : new Map();
    if (!Map.groupBy) for (const sample of parseMetrics(text)) this.samples.set(sample.name, [...(this.samples.get(sample.name) ?? []), sample]);
  }
  all(name) {
    return this.samples.get(name) ?? [];
  }
  get(name) {
    const found = this.all(name);
    return found.length ? found.reduce((sum, sample) => sum + sample.value, 0) : undefined;
  }
}

// The terms of saccade:memory_bytes (docs/memory.md) by who has the bytes.
const owners = [
  ["in use", "useful", ["useful"]],
  ["held and not filled", "rest", ["tail", "overhold", "slack", "pad"]],
  ["kept for later prompts", "cached", ["cached"]],
  ["set aside", "reserve", ["reserve"]],
  ["free", "free", ["free"]],
];
const stageWords = { media: "fetch images", preprocess: "prepare", encoder_queue: "wait for the encoder", encoder_run: "encode", plan: "plan a step", forward: "forward", sample: "sample" };

export class ServerView {
  constructor(place, { onState }) {
    this.place = place;
    this.onState = onState;
    this.readings = [];
    this.figures = Object.fromEntries(["running", "waiting", "in", "out"].map((name) => [name, element("dd", {}, "–")]));
    const figure = (name, words) => element("div", {}, element("dt", {}, words), this.figures[name]);
    this.curve = element("div", { class: "curve" });
    this.memory = element("div");
    this.caches = element("div");
    this.stages = element("div");
    place.append(element("dl", { class: "figures" }, figure("running", "running"), figure("waiting", "waiting"), figure("in", "tokens/s in"), figure("out", "tokens/s out")),
      this.curve, element("h2", {}, "Cache memory by owner"), this.memory, element("h2", {}, "Found in caches"), this.caches,
      element("h2", {}, "Time by stage"), this.stages, element("p", { class: "note" }, "Sums and means since the server started."));
  }

  start() {
    const read = async () => {
      if (!document.hidden) await this.read();
      setTimeout(read, period);
    };
    read();
  }

  async read() {
    try {
      this.readings.push(new Reading(await (await send("metrics")).text()));
      if (this.readings.length > kept) this.readings.shift();
      this.onState(true);
    } catch {
      return this.onState(false);
    }
    if (this.place.offsetParent !== null) this.draw();
  }

  get last() {
    return this.readings.at(-1);
  }

  // Tokens a second of work that the server has measured itself doing; undefined before it did any.
  rates() {
    const rate = (tokens, busy) => (this.last?.get(busy) > 0 ? this.last.get(tokens) / this.last.get(busy) : undefined);
    return { prefill: rate("saccade:prefill_tokens_total", "saccade:prefill_busy_seconds_total"),
      encode: rate("saccade:encoder_tokens_computed_total", "saccade:encoder_busy_seconds_total") };
  }

  // Per second, between one reading and the next.
  speed(name) {
    return this.readings.slice(1).map((reading, i) => {
      const before = this.readings[i];
      return Math.max(0, ((reading.get(name) ?? 0) - (before.get(name) ?? 0)) / ((reading.at - before.at) / 1000));
    });
  }

  draw() {
    const { last } = this;
    const [inward, outward] = ["saccade:prefill_tokens_total", "vllm:generation_tokens_total"].map((name) => this.speed(name));
    const whole = (x) => number(x, 0);
    this.figures.running.textContent = whole(last.get("vllm:num_requests_running"));
    this.figures.waiting.textContent = whole(last.get("vllm:num_requests_waiting"));
    this.figures.in.textContent = whole(inward.at(-1));
    this.figures.out.textContent = whole(outward.at(-1));
    this.drawCurve(inward, outward);
    this.drawMemory();
    this.drawCaches();
    this.drawStages();
  }

  drawCurve(inward, outward) {
    const line = (values, name) => {
      const most = Math.max(1, ...values);
      const points = values.map((value, i) => `${(((i + kept - 1 - values.length) / (kept - 2)) * 300).toFixed(1)},${(42 - (value / most) * 38).toFixed(1)}`);
      return `<polyline data-curve="${name}" points="${points.join(" ")}"/>`;
    };
    this.curve.innerHTML = `<svg viewBox="0 0 300 44" preserveAspectRatio="none" role="img" aria-label="Tokens per second in and out, the last minute and a half">${line(inward, "in")}${line(outward, "out")}</svg>`;
  }

  drawMemory() {
    const uses = new Map(this.last.all("saccade:memory_bytes").map(({ labels, value }) => [labels.use, value]));
    const rows = owners.map(([words, name, terms]) => [words, name, terms.reduce((sum, term) => sum + (uses.get(term) ?? 0), 0)]);
    const all = rows.reduce((sum, [, , size]) => sum + size, 0);
    const bar = element("div", { class: "stage-bar thick", "aria-hidden": "true" }, rows.filter(([, , size]) => size > 0).map(([, name, size]) => {
      const part = element("i", { "data-owner": name });
      part.style.flexGrow = size / all;
      return part;
    }));
    this.memory.replaceChildren(bar, element("ul", { class: "legend" }, rows.map(([words, name, size]) =>
      element("li", {}, element("i", { class: "dot", "data-owner": name }), element("span", {}, words), element("b", {}, bytes(size))))));
  }

  drawCaches() {
    const row = (words, hits, asked) => {
      const [found, all] = [this.last.get(hits) ?? 0, this.last.get(asked) ?? 0];
      const share = element("i", {});
      share.style.width = `${all > 0 ? (found / all) * 100 : 0}%`;
      return element("li", {}, element("span", {}, words), element("span", { class: "meter", "aria-hidden": "true" }, share),
        element("b", {}, all > 0 ? `${number((found / all) * 100, 0)} % of ${number(all, 0)}` : "none asked"));
    };
    this.caches.replaceChildren(element("ul", { class: "legend" }, row("prompt tokens", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
      row("images", "vllm:mm_cache_hits_total", "vllm:mm_cache_queries_total")));
  }

  drawStages() {
    const counts = new Map(this.last.all("saccade:stage_seconds_count").map(({ labels, value }) => [labels.stage, value]));
    const rows = this.last.all("saccade:stage_seconds_sum").map(({ labels, value }) => ({ stage: labels.stage, sum: value, count: counts.get(labels.stage) ?? 0 })).filter(({ count }) => count > 0);
    const most = Math.max(...rows.map(({ sum }) => sum), 1e-9);
    this.stages.replaceChildren(rows.length ? element("ul", { class: "legend" }, rows.map(({ stage, sum, count }) => {
      const share = element("i", {});
      share.style.width = `${(sum / most) * 100}%`;
      return element("li", { title: `${number(count, 0)} times, ${time(sum * 1000)} in all` }, element("span", {}, stageWords[stage] ?? stage),
        element("span", { class: "meter", "aria-hidden": "true" }, share), element("b", {}, time((sum / count) * 1000)));
    })) : element("p", { class: "note" }, "Nothing has been asked yet."));
  }
}
