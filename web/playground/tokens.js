// An answer token by token: how sure the model was of each, on hover and by the arrow keys.
import { element } from "../src/page.js";

const percent = (logprob) => {
  const share = Math.exp(logprob) * 100;
  return share >= 99.95 ? "100 %" : share >= 0.1 ? `${share.toFixed(1)} %` : "< 0.1 %";
};
const shown = (token) => (token === "" ? "(nothing)" : token.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/^ +| +$/g, (blanks) => "␣".repeat(blanks.length)));
const doubt = (logprob) => (logprob > Math.log(0.9) ? 0 : logprob > Math.log(0.5) ? 1 : 2);

// `tip`: the one element that all answers show their probabilities in.
export class Tokens {
  constructor(tip) {
    this.tip = tip;
    this.waiting = []; // tokens whose text has not come: parts of a character
    this.count = 0;
    this.current = null;
    this.element = element("div", { class: "tokens", onmouseover: (event) => this.show(event.target.closest("[data-token]")),
      onmouseleave: () => this.hide(), onblur: () => this.hide(), onkeydown: (event) => this.walk(event) });
    this.facts = new WeakMap();
  }

  // Text of one event of the stream, with what it says of its tokens.
  add(text, logprobs) {
    this.waiting.push(...(logprobs?.content ?? []));
    if (!text) return;
    if (!this.waiting.length) return this.element.append(text);
    const span = element("span", { "data-token": "", "data-doubt": Math.max(...this.waiting.map((token) => doubt(token.logprob))) }, text);
    this.facts.set(span, this.waiting);
    this.count += 1;
    this.waiting = [];
    this.element.append(span);
    if (this.count === 1) {
      this.element.tabIndex = 0;
      this.element.setAttribute("role", "group");
      this.element.setAttribute("aria-label", "Answer; the arrow keys show the probability of each token");
    }
  }

  show(span) {
    if (!span || !this.facts.has(span)) return this.hide();
    this.current?.classList.remove("current");
    this.current = span;
    span.classList.add("current");
    this.tip.replaceChildren(...this.facts.get(span).map(({ token, logprob, top_logprobs: others = [] }) => {
      const rows = others.some((other) => other.token === token) ? others : [{ token, logprob }, ...others];
      return element("table", {}, element("tbody", {}, rows.map((row) => {
        const share = element("i", {});
        share.style.width = `${Math.exp(row.logprob) * 100}%`;
        return element("tr", row.token === token ? { class: "chosen" } : {}, element("th", { scope: "row" }, shown(row.token)),
          element("td", {}, percent(row.logprob)), element("td", { "aria-hidden": "true" }, share));
      })));
    }));
    this.tip.hidden = false;
    const at = span.getBoundingClientRect();
    const own = this.tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - own.width - 8));
    const below = at.bottom + 6 + own.height < innerHeight;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - own.height - 6)}px`;
  }

  hide() {
    this.current?.classList.remove("current");
    this.current = null;
    this.tip.hidden = true;
  }

  walk(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (event.key === "Escape" && this.current) {
      event.stopPropagation();
      return this.hide();
    }
    if (!(event.key in steps) || event.target !== this.element) return;
    event.preventDefault();
    const spans = [...this.element.querySelectorAll("[data-token]")];
    const at = this.current ? spans.indexOf(this.current) + steps[event.key] : steps[event.key] > 0 && Number.isFinite(steps[event.key]) ? 0 : spans.length - 1;
    const next = spans[Math.max(0, Math.min(spans.length - 1, event.key === "Home" ? 0 : event.key === "End" ? spans.length - 1 : at))];
    next.scrollIntoView({ block: "nearest" });
    this.show(next);
    const [first] = this.facts.get(next);
    this.tip.setAttribute("aria-label", `${shown(first.token)}, ${percent(first.logprob)}`);
    this.onWalk?.(`${shown(first.token)}, ${percent(first.logprob)}`);
  }
}
