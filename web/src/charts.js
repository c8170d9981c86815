// A chart on the page: its frame, its redrawing, its SVG file.
import * as Plot from "@observablehq/plot";
import { element, isDark, number, runColour, time } from "./page.js";

const drawn = [];
export const redraw = () => drawn.forEach((render) => render());

// `draw(width, runs)` gives a plot or null. Options that the reader can switch are [label, name] pairs; draw gets
// their state as its third argument.
export function chart(parent, page, { title, note, draw, switches = [], empty = "The runs have no such values." }) {
  const body = element("div", { class: "chart" });
  const state = {};
  const save = element("button", { type: "button", "aria-label": `Save ${title} as SVG`, onclick: () => saveSvg(body, title) }, "SVG");
  const boxes = switches.map(([label, name]) => element("label", {}, element("input", { type: "checkbox",
    onchange: (event) => { state[name] = event.target.checked; render(); } }), label));
  parent.append(element("figure", {}, element("figcaption", {}, element("h3", {}, title), element("span", { class: "tools" }, boxes, save)),
    note ? element("p", { class: "note" }, note) : null, body));
  const render = () => {
    const width = Math.max(260, Math.min(body.clientWidth || 600, 1160));
    const plot = draw(width, page.visible(), state);
    save.hidden = !plot;
    if (!plot) return body.replaceChildren(element("p", { class: "note" }, empty));
    const svg = largestSvg(plot);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", note ? `${title}. ${note}` : title);
    body.replaceChildren(plot);
  };
  drawn.push(render);
}

// A plot with a legend is a figure of several drawings; the legend's swatches are small ones.
function largestSvg(plot) {
  if (plot.tagName.toLowerCase() === "svg") return plot;
  return [...plot.querySelectorAll("svg")].reduce((a, b) => (+b.getAttribute("width") >= +a.getAttribute("width") ? b : a));
}

// The drawing alone, with its title, legend and colours, as any viewer shows it.
function saveSvg(body, title) {
  const legend = [...body.querySelectorAll("[class*=-swatch]:not([class*=-swatches])")]
    .map((swatch) => [swatch.textContent, swatch.querySelector("svg")?.getAttribute("fill")]).filter(([, colour]) => colour);
  const copy = largestSvg(body).cloneNode(true);
  const [width, height] = [+copy.getAttribute("width"), +copy.getAttribute("height")];
  const space = "http://www.w3.org/2000/svg";
  const page = getComputedStyle(document.body);
  const file = document.createElementNS(space, "svg");
  const top = 30 + (legend.length ? 22 : 0);
  for (const [name, value] of Object.entries({ xmlns: space, width: width + 20, height: height + top + 10,
    viewBox: `-10 ${-top} ${width + 20} ${height + top + 10}`, fill: page.color, color: page.color,
    "font-family": "system-ui, sans-serif", "font-size": 12 })) file.setAttribute(name, value);
  const add = (tag, attributes, text) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    file.append(made);
  };
  add("rect", { x: -10, y: -top, width: width + 20, height: height + top + 10, fill: page.backgroundColor });
  add("text", { x: 0, y: 16 - top, "font-size": 14, "font-weight": 600 }, title);
  let x = 0;
  for (const [name, colour] of legend) {
    add("rect", { x, y: 26 - top, width: 12, height: 12, fill: colour });
    add("text", { x: x + 17, y: 36 - top }, name);
    x += 34 + 7 * name.length;
  }
  copy.removeAttribute("role");
  copy.setAttribute("overflow", "visible");
  file.append(copy);
  const url = URL.createObjectURL(new Blob([file.outerHTML], { type: "image/svg+xml" }));
  element("a", { download: title.toLowerCase().replace(/[^a-z0-9]+/g, "-") + ".svg", href: url }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// --- what the charts share ---

const font = { background: "transparent", fontSize: "12px" };

// One colour a run, its name in a legend when there are several.
export function plot(width, runs, options) {
  return Plot.plot({ width, height: 250, marginLeft: 56, marginRight: 24, marginBottom: 42, style: font,
    color: { type: "categorical", domain: runs.map((run) => run.name), range: runs.map((run) => runColour(run.index)), legend: runs.length > 1 },
    ...options });
}

export const axis = (label, rest = {}) => ({ label: `${label} →`, labelAnchor: "right", labelOffset: 38, ...rest });
export const seconds = axis("seconds since the run began", { zero: true });
// Things that are counted have no halves.
export const whole = (v) => (Number.isInteger(v) ? number(v) : "");
export const tipStyle = () => ({ fill: isDark() ? "#232b34" : "#ffffff", stroke: isDark() ? "#4a5663" : "#c4ccd4" });

// A line needs two points; of a run that has one, the point is shown.
export function pathOrPoint(points, { curve = "linear", dashed = false } = {}) {
  const counts = new Map();
  for (const { run } of points) counts.set(run, (counts.get(run) ?? 0) + 1);
  const alone = points.filter(({ run }) => counts.get(run) === 1);
  return [Plot.lineY(points, { x: "at", y: "n", z: "run", stroke: "run", curve, strokeWidth: 1.7, strokeDasharray: dashed ? "4,3" : undefined }),
    Plot.dot(alone, { x: "at", y: "n", fill: dashed ? "none" : "run", stroke: "run", r: 3 })];
}

// Where every value is zero an axis of its own choice would run from -1 to 1.
export const fromZero = (y, points) => ({ grid: true, zero: true, nice: true, ...(points.some(({ n }) => n !== 0) ? {} : { domain: [0, 1] }), ...y });

// [x, y] series of each run as one line each, with the value under the pointer.
export function lines(width, runs, seriesOf, { y, value = number, curve = "linear", x = seconds, height, marginLeft = 56 }) {
  const points = runs.flatMap((run) => seriesOf(run).map(([at, n]) => ({ at, n, run: run.name })));
  if (!points.length) return null;
  return plot(width, runs, { height: height ?? 230, marginLeft, x, y: fromZero(y, points),
    marks: [Plot.ruleY([0], { strokeOpacity: 0.4 }), pathOrPoint(points, { curve }),
      Plot.tip(points, Plot.pointer({ x: "at", y: "n", stroke: "run", ...tipStyle(), maxRadius: 30,
        title: (d) => `${runs.length > 1 ? d.run + "\n" : ""}${value(d.n)} at ${number(d.at)} s` }))] });
}

export { Plot, number, time };
