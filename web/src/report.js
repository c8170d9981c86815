// The HTML report of `saccade bench report --html`: everything it shows is in the JSON beside it. No network, no state
// but the page's own.
import { redraw } from "./charts.js";
import { distributions } from "./distributions.js";
import { element, runColour, themeButton } from "./page.js";
import { againstImages, overTime, stages } from "./requests.js";
import { server } from "./server.js";
import { differences, figures, headline, percentiles, sideBySide, verdicts } from "./tables.js";

const data = JSON.parse(document.getElementById("saccade-data").textContent);
const several = data.runs.length > 1;
const hidden = new Set();
const dots = []; // coloured marks of the runs outside the charts
const page = {
  runs: data.runs.map((run, index) => ({ ...run, index })),
  visible: () => page.runs.filter((run) => !hidden.has(run.index)),
  nameOf: (run) => {
    const dot = element("i", { class: "dot", "data-run": run.index });
    dots.push(dot);
    return element("span", { class: "run" }, several ? dot : "", run.name);
  },
};

function draw() {
  for (const dot of dots) dot.style.background = runColour(+dot.dataset.run);
  redraw();
}

// Which runs the charts show.
function runSwitches() {
  return element("fieldset", { class: "runs" }, element("legend", {}, "Runs in the charts"), page.runs.map((run) => {
    const box = element("input", { type: "checkbox", checked: "", onchange: () => {
      if (box.checked) hidden.delete(run.index);
      else hidden.add(run.index);
      if (hidden.size === page.runs.length) hidden.clear();
      document.querySelectorAll(".runs input").forEach((other, i) => { other.checked = !hidden.has(i); });
      draw();
    } });
    return element("label", {}, box, page.nameOf(run), element("small", {}, ` ${run.load}`));
  }));
}

function section(title, id, fill, intro) {
  const made = element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), intro ? element("p", { class: "note" }, intro) : null);
  document.querySelector("main").append(made);
  document.querySelector("nav div").append(element("a", { href: "#" + id }, title));
  fill(made);
}

function inGrid(fill) {
  return (parent) => {
    const grid = element("div", { class: "grid" });
    parent.append(grid);
    fill(grid, page);
  };
}

const models = [...new Set(page.runs.map((run) => run.model))].join(", ");
document.title = `Benchmark of ${models}`;
document.body.prepend(
  element("a", { class: "skip", href: "#summary" }, "Skip to the summary"),
  element("header", {}, element("h1", {}, `Benchmark of ${models}`),
    several ? runSwitches() : element("p", { class: "lead" }, [page.runs[0].load, page.runs[0].dataset, page.runs[0].began].filter(Boolean).join(" · "))),
  element("nav", { "aria-label": "Sections" }, element("div", {}), themeButton(draw)),
  element("main"));

section("Summary", "summary", (parent) => {
  if (several) {
    verdicts(parent, page);
    figures(parent, page);
  } else {
    headline(parent, page.runs[0]);
    verdicts(parent, page);
    figures(parent, page);
  }
});
if (several) section("Differences", "differences", (parent) => differences(parent, page));
section("Distributions", "distributions", inGrid(distributions),
  "How to read: at height 90 % the line says within how many milliseconds 90 % of the values lie. Further left is faster. Dashed: 50, 90 and 99 %.");
section("Percentiles", "percentiles", (parent) => percentiles(parent, page));
section("Over time", "timeline", (parent) => overTime(parent, page));
section("Stages", "stages", (parent) => stages(parent, page));
section("Images", "images", (parent) => againstImages(parent, page));
section("Server", "server", (parent) => server(parent, page));
section("Client", "client", (parent) => sideBySide(parent, page, (run) => run.client, "Health of the client"),
  "Whether the load generator itself can have distorted what it measured: it should start requests on time and have processor time to spare.");
section("Configuration", "configuration", (parent) => sideBySide(parent, page, (run) => run.configuration, "Configuration", true),
  several ? "Rows in which the runs differ are marked." : "");
document.body.append(element("footer", { class: "note" }, `Made by ${data.generator} from the runs' logs: saccade bench report recomputes every figure.`));

draw();
document.documentElement.dataset.drawn = "true";
let width = window.innerWidth;
let waiting = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(draw, 120);
});
