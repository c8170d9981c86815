// Elements, numbers, colours: what every section of the page is made of.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return made;
}

export function number(x, digits = 2) {
  if (x === null || x === undefined) return "–";
  const shown = Math.abs(x) >= 1000 ? 0 : Math.abs(x) >= 100 ? Math.min(1, digits) : digits;
  return x.toLocaleString("en", { maximumFractionDigits: shown });
}

// Milliseconds as a person says them.
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  if (Math.abs(ms) >= 10000) return `${number(ms / 1000, 1)} s`;
  if (Math.abs(ms) >= 1000) return `${number(ms / 1000, 2)} s`;
  return Math.abs(ms) < 1 ? `${number(ms, 3)} ms` : `${number(ms, 1)} ms`;
}

// Decimal, as the axes' ticks are.
export function bytes(x) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(x) >= 1000 && unit < units.length - 1) [x, unit] = [x / 1000, unit + 1];
  return `${number(x, unit ? 1 : 0)} ${units[unit]}`;
}

export const percent = (share, digits = 1) => `${number(share * 100, digits)} %`;
export const signed = (share) => `${share > 0 ? "+" : ""}${percent(share)}`;

// A scrolling table that the keyboard can reach.
export function table(head, rows, label) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, element("table", {},
    head ? element("thead", {}, element("tr", {}, head.map((cell) => element("th", { scope: "col" }, cell)))) : null,
    element("tbody", {}, rows.map(([name, ...cells]) => element("tr", {},
      element("th", { scope: "row" }, name), cells.map((cell) => element("td", {}, cell)))))));
}

// --- theme: the system's until the reader chooses ---

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

export function themeButton(redraw) {
  const words = () => (isDark() ? "Light" : "Dark");
  const button = element("button", { type: "button", onclick: () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    button.textContent = words();
    redraw();
  } }, words());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    button.textContent = words();
    redraw();
  });
  return button;
}

const runColours = { light: ["#1f62d0", "#c8501b", "#0f8158", "#8a3db5", "#8c6a00", "#b82a68"],
  dark: ["#6ea2ff", "#ff9561", "#43cf97", "#cd8bf0", "#e0b53c", "#ff7fb0"] };
export const runColour = (index) => runColours[isDark() ? "dark" : "light"][index % 6];

// In the order in which a request passes them.
const stageColours = {
  "client queue": ["#98a2ad", "#67727e"], media: ["#c29a00", "#d8b53a"], queue: ["#d9682f", "#e07a45"], encode: ["#9a4cc9", "#b478e0"],
  prefill: ["#2f6fde", "#5f97f5"], "first token": ["#2f6fde", "#5f97f5"], decode: ["#15936a", "#35b98b"], failed: ["#c02b2b", "#f06464"] };
export const stageNames = Object.keys(stageColours);
export const stageColour = (name) => stageColours[name][isDark() ? 1 : 0];
export const stageMeaning = { "client queue": "held back by the client's concurrency cap", media: "image fetched, decoded, resized",
  queue: "waiting in the server", encode: "vision encoder", prefill: "prompt through the model", decode: "tokens of the answer",
  "first token": "until the first token", failed: "no output came" };
