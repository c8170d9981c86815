// How answers are sampled, and the key. A field that is empty is not sent: the server's default holds.
import { element } from "../src/page.js";
import { apiKey } from "./requests.js";

const fields = [
  ["temperature", "Temperature", { min: 0, step: 0.05 }],
  ["top_p", "Top p", { min: 0, max: 1, step: 0.05 }],
  ["top_k", "Top k", { min: -1, step: 1 }],
  ["min_p", "Min p", { min: 0, max: 1, step: 0.01 }],
  ["repetition_penalty", "Repetition penalty", { min: 0, step: 0.05 }],
  ["max_tokens", "Most tokens", { min: 1, step: 1 }],
  ["seed", "Seed", { step: 1 }],
];

export class Settings {
  constructor(place, { onKey, onChange }) {
    this.inputs = new Map(fields.map(([name, , limits]) => [name, element("input", { type: "number", id: `set-${name}`, placeholder: "default", inputmode: "decimal", ...limits })]));
    this.system = element("textarea", { id: "set-system", rows: "3", placeholder: "none", oninput: onChange });
    this.stop = element("input", { type: "text", id: "set-stop", placeholder: "none" });
    this.logprobs = element("input", { type: "checkbox", id: "set-logprobs", checked: "" });
    this.key = element("input", { type: "password", id: "set-key", autocomplete: "off", placeholder: "none", onchange: () => {
      apiKey.set(this.key.value.trim());
      onKey();
    } });
    this.key.value = apiKey.get();
    const row = (input, words, note) => element("div", { class: "field" }, element("label", { for: input.id }, words), input, note ? element("small", {}, note) : null);
    place.append(
      row(this.system, "System message"),
      element("div", { class: "pairs" }, fields.map(([name, words]) => row(this.inputs.get(name), words)), row(this.stop, "Stop at")),
      element("div", { class: "field check" }, this.logprobs, element("label", { for: "set-logprobs" }, "Token probabilities")),
      element("form", { onsubmit: (event) => event.preventDefault() }, row(this.key, "API key", "Kept in this tab alone, and sent to this server alone.")));
  }

  focusKey() {
    this.key.focus();
  }

  // Members of a request.
  request() {
    const members = {};
    for (const [name, input] of this.inputs) if (input.value !== "") members[name] = Number(input.value);
    if (this.stop.value) members.stop = this.stop.value;
    if (this.logprobs.checked) Object.assign(members, { logprobs: true, top_logprobs: 5 });
    return members;
  }
}
