// One answer on the page: its text as it comes, thoughts, calls of tools, and what it cost.
import markdownIt from "markdown-it";
import { element, number, time } from "../src/page.js";
import { seenStages, stageBar, toldStages } from "./stages.js";
import { Tokens } from "./tokens.js";

// HTML in an answer stays text, and pictures that it names are not fetched.
const markdown = markdownIt({ html: false, breaks: true, linkify: false }).disable("image");
markdown.renderer.rules.link_open = (tokens, index, options, env, self) => {
  tokens[index].attrSet("target", "_blank");
  tokens[index].attrSet("rel", "noopener noreferrer");
  return self.renderToken(tokens, index, options);
};
const isFormatted = (text) => /^(#{1,6} |[-*+] |\d+[.)] |> |\|.+\|$|```)|\*\*\S|`[^`\n]+`|\]\(\w/m.test(text);

const finishWords = { length: "cut: the token limit was reached", abort: "stopped", stopped: "stopped", content_filter: "withheld" };

export class Answer {
  constructor(tip, { onCall, onWalk }) {
    this.text = "";
    this.thoughts = "";
    this.calls = [];
    this.seen = { begun: performance.now() };
    this.onCall = onCall;
    this.tokens = new Tokens(tip);
    this.tokens.onWalk = onWalk;
    this.body = element("div", { class: "text" }, this.tokens.element);
    this.foot = element("div", { class: "foot" });
    this.element = element("article", { class: "answer waiting", "aria-label": "Answer", "aria-busy": "true" }, this.body, this.foot);
  }

  // An event of the stream.
  take(event) {
    if (event.usage) this.usage = event.usage;
    if (event.metrics) this.metrics = event.metrics;
    const choice = event.choices?.[0];
    if (!choice) return;
    const delta = choice.delta ?? {};
    const thought = delta.reasoning_content ?? delta.reasoning;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    if (delta.content || thought || delta.tool_calls || choice.logprobs) {
      this.seen.first ??= performance.now();
      this.element.classList.remove("waiting");
    }
    if (thought) this.think(thought);
    if (delta.content || choice.logprobs) {
      this.text += delta.content ?? "";
      this.tokens.add(delta.content ?? "", thought || delta.tool_calls ? null : choice.logprobs);
    }
    for (const part of delta.tool_calls ?? []) this.call(part);
  }

  think(piece) {
    if (!this.thoughts) {
      this.thoughtText = element("div", { class: "thoughts-text" });
      this.element.prepend(element("details", { class: "thoughts", open: "" }, element("summary", {}, "Thoughts"), this.thoughtText));
    }
    this.thoughts += piece;
    this.thoughtText.append(piece);
  }

  call({ index = 0, id, function: said = {} }) {
    this.calls[index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
    const call = this.calls[index];
    if (id) call.id = id;
    call.function.name += said.name ?? "";
    call.function.arguments += said.arguments ?? "";
    call.view ??= this.body.appendChild(element("div", { class: "call" }, element("b", {}), element("code", {})));
    call.view.firstChild.textContent = call.function.name;
    call.view.lastChild.textContent = call.function.arguments;
  }

  // As the next request brings it along.
  message() {
    const calls = this.calls.filter(Boolean).map(({ id, type, function: said }) => ({ id, type, function: said }));
    return { role: "assistant", content: this.text || (calls.length ? null : ""), ...(calls.length ? { tool_calls: calls } : {}) };
  }

  fail(error) {
    this.element.append(element("div", { class: "error", role: "alert" }, element("b", {}, error.status ? `${error.status} ${error.type || ""}`.trim() : "No answer"),
      element("p", {}, error.message), error.param ? element("small", {}, `param: ${error.param}`) : null));
  }

  end({ scale } = {}) {
    this.seen.ended = performance.now();
    this.element.classList.remove("waiting");
    this.element.removeAttribute("aria-busy");
    if (isFormatted(this.text)) this.format();
    for (const call of this.calls.filter(Boolean)) this.askForResult(call);
    const told = toldStages(this.metrics);
    const bar = this.seen.first === undefined ? null : stageBar(told ?? seenStages(this.seen), told !== null);
    if (bar) this.foot.append(bar);
    this.foot.append(element("p", { class: "facts" }, this.facts(scale)), this.buttons ?? "");
  }

  facts(scale) {
    const { seen, usage } = this;
    const facts = [];
    if (usage) {
      const parts = [];
      const { image_tokens: image, cached_tokens: cached } = usage.prompt_tokens_details ?? {};
      if (image) parts.push(`${number(image)} of images`);
      if (cached) parts.push(`${number(cached)} from the cache`);
      facts.push(`${number(usage.prompt_tokens)} tokens in${parts.length ? ` (${parts.join(", ")})` : ""}, ${number(usage.completion_tokens)} out`);
    }
    if (seen.first !== undefined) facts.push(`first token after ${time(seen.first - seen.begun)}`);
    const { first_token: first, finished } = this.metrics ?? {};
    const decoding = finished > first ? (finished - first) / 1e9 : (seen.ended - seen.first) / 1000;
    if (usage?.completion_tokens > 1 && decoding > 0) facts.push(`${number((usage.completion_tokens - 1) / decoding, 1)} tokens/s`);
    if (scale) facts.push(`the server made the images smaller (scale ${scale})`);
    if (finishWords[this.finish]) facts.push(finishWords[this.finish]);
    return facts.map((fact) => element("span", {}, fact));
  }

  // Markdown in place of the tokens, which stay a button away.
  format() {
    const formatted = element("div", { class: "formatted" });
    formatted.innerHTML = markdown.render(this.text);
    for (const block of formatted.querySelectorAll("pre, table")) block.tabIndex = 0;
    this.tokens.element.hidden = true;
    this.tokens.element.before(formatted);
    if (!this.tokens.count) return;
    const button = element("button", { type: "button", "aria-pressed": "false", onclick: () => {
      const plain = button.getAttribute("aria-pressed") === "false";
      button.setAttribute("aria-pressed", plain);
      formatted.hidden = plain;
      this.tokens.element.hidden = !plain;
    } }, "Tokens");
    this.buttons = button;
  }

  askForResult(call) {
    const field = element("input", { type: "text", placeholder: "its result", "aria-label": `Result of ${call.function.name}` });
    const form = element("form", { onsubmit: (event) => {
      event.preventDefault();
      form.remove();
      call.view.append(element("output", {}, field.value));
      this.onCall(call, field.value, this.calls.filter(Boolean).every((each) => each.view.querySelector("output")));
    } }, field, element("button", { type: "submit" }, "Return"));
    call.view.append(form);
  }
}
