// Where the time of an answer went: from the server's own instants, or, where it sends none, as seen from here.
import { element, stageMeaning, time } from "../src/page.js";

const order = ["media", "queue", "encode", "prefill", "first token", "decode"];

// Instants in nanoseconds since the request's arrival (docs/api.md, "metrics") to [stage, milliseconds].
export function toldStages(metrics) {
  if (!metrics || metrics.first_token === undefined) return null;
  const spans = new Map();
  let before = metrics.arrival ?? 0;
  const until = (stage, instant) => {
    if (instant === undefined) return;
    spans.set(stage, (spans.get(stage) ?? 0) + Math.max(0, instant - before) / 1e6);
    before = Math.max(before, instant);
  };
  until("media", metrics.preprocessed ?? metrics.media_done);
  if (metrics.encode_start !== undefined) {
    until("queue", Math.min(metrics.encode_start, metrics.first_token));
    until("encode", Math.min(metrics.encode_end ?? metrics.encode_start, metrics.first_token));
  }
  until("queue", metrics.first_scheduled);
  until("prefill", metrics.first_token);
  until("decode", metrics.finished);
  return order.filter((stage) => spans.get(stage) > 0).map((stage) => [stage, spans.get(stage)]);
}

// `seen`: instants of this page in milliseconds: begun, first, ended.
export function seenStages({ begun, first, ended }) {
  if (first === undefined) return [];
  return [["first token", first - begun], ["decode", ended - first]];
}

export function stageBar(stages, told) {
  const all = stages.reduce((sum, [, ms]) => sum + ms, 0);
  if (!(all > 0)) return null;
  const bar = element("div", { class: "stage-bar", "aria-hidden": "true" }, stages.map(([stage, ms]) => {
    const part = element("i", { "data-stage": stage, title: `${stage}: ${time(ms)}, ${stageMeaning[stage]}` });
    part.style.flexGrow = Math.max(ms / all, 0.006);
    return part;
  }));
  return element("figure", { class: "stages" }, bar, element("figcaption", {}, stages.map(([stage, ms]) =>
    element("span", { title: stageMeaning[stage] }, element("i", { class: "dot", "data-stage": stage }), `${stage} `, element("b", {}, time(ms)))),
    told ? null : element("span", {}, "as seen by this page")));
}
