// The form that an answer must have, and the tools it may call: edited as JSON, checked before it is sent.
import { element } from "../src/page.js";

const exampleSchema = { type: "object", properties: { total: { type: "string" }, date: { type: "string" } }, required: ["total", "date"], additionalProperties: false };
const exampleTool = [{ type: "function", function: { name: "look_up", description: "Finds a receipt by its number.",
  parameters: { type: "object", properties: { number: { type: "string" } }, required: ["number"] } } }];
const pretty = (value) => JSON.stringify(value, null, 2);

const forms = {
  text: { words: "free text" },
  json_object: { words: "a JSON object", member: () => ({ response_format: { type: "json_object" } }) },
  json_schema: { words: "JSON of a schema", example: pretty(exampleSchema), json: true, label: "JSON schema",
    member: (schema) => ({ response_format: { type: "json_schema", json_schema: { name: "answer", schema } } }) },
  regex: { words: "a regular expression", example: "[0-9]+", label: "Regular expression", member: (regex) => ({ structured_outputs: { regex } }) },
  choice: { words: "one of some answers", example: "red\ngreen\nblue", label: "Answers, one a line",
    member: (text) => ({ structured_outputs: { choice: text.split("\n").map((line) => line.trim()).filter(Boolean) } }) },
};

// A text of JSON with a line that says what is wrong with it.
class JsonField {
  constructor(id, label, onInput) {
    this.input = element("textarea", { id, rows: "9", class: "code", spellcheck: "false", "aria-describedby": `${id}-wrong`, oninput: () => {
      this.check();
      onInput?.();
    } });
    this.label = element("label", { for: id }, label);
    this.wrong = element("small", { id: `${id}-wrong`, class: "wrong", role: "status" });
    this.json = true;
    this.element = element("div", { class: "field" }, this.label, this.input, this.wrong);
  }

  // The value, undefined where there is none. Throws where it is no JSON.
  value() {
    const text = this.input.value.trim();
    if (!text) return undefined;
    return this.json ? JSON.parse(text) : text;
  }

  check() {
    try {
      this.value();
      this.wrong.textContent = "";
    } catch (error) {
      this.wrong.textContent = error.message;
    }
    this.input.setAttribute("aria-invalid", this.wrong.textContent !== "");
  }
}

export class AnswerForm {
  constructor(place, onChange) {
    this.kind = element("select", { id: "form-kind", onchange: () => this.choose() }, Object.entries(forms).map(([name, { words }]) => element("option", { value: name }, words)));
    this.definition = new JsonField("form-definition", "JSON schema");
    this.tools = new JsonField("form-tools", "Tools", onChange);
    this.tools.input.placeholder = "a JSON list of functions";
    this.choice = element("select", { id: "form-choice" }, [["auto", "as the model likes"], ["required", "at least one"], ["none", "none"]].map(([value, words]) => element("option", { value }, words)));
    place.append(
      element("div", { class: "field" }, element("label", { for: "form-kind" }, "The answer is"), this.kind), this.definition.element,
      element("hr"), this.tools.element,
      element("div", { class: "row" }, element("button", { type: "button", onclick: () => {
        this.tools.input.value = pretty(exampleTool);
        this.tools.check();
        onChange();
      } }, "Example"), element("label", { for: "form-choice" }, "calls"), this.choice));
    this.choose();
  }

  choose() {
    const form = forms[this.kind.value];
    const examples = Object.values(forms).map((each) => each.example);
    this.definition.element.hidden = !form.example;
    this.definition.json = Boolean(form.json);
    if (!form.example) return;
    this.definition.label.textContent = form.label;
    if (!this.definition.input.value || examples.includes(this.definition.input.value)) this.definition.input.value = form.example;
    this.definition.check();
  }

  // Members of a request. Throws an Error that says which field is no JSON.
  request() {
    const read = (field) => {
      try {
        return field.value();
      } catch (error) {
        throw new Error(`${field.label.textContent}: ${error.message}`);
      }
    };
    const form = forms[this.kind.value];
    const tools = read(this.tools);
    return { ...(form.member ? form.member(form.example ? read(this.definition) : undefined) : {}), ...(tools ? { tools, tool_choice: this.choice.value } : {}) };
  }

  // What the prompt is made of besides messages; nothing where it is no JSON yet.
  counted() {
    try {
      const tools = this.tools.value();
      return tools ? { tools } : {};
    } catch {
      return {};
    }
  }
}
