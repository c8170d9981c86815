// The official npm client against a running server: node openai_node_test.mjs URL
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const url = process.argv[2];
const image = new URL("../../golden/qwen2_vl/images/wide.png", import.meta.url);
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
const ask = (content, options = {}) =>
  client.chat.completions.create({
    model: "tiny", messages: [{ role: "user", content }], temperature: 0, max_tokens: 16, ignore_eos: true,
    repetition_penalty: 1.0, ...options,
  });
const picture = [
  { type: "text", text: "What is shown?" },
  { type: "image_url", image_url: { url: "data:image/png;base64," + readFileSync(image).toString("base64") } },
];

const whole = await ask(picture);
assert.equal(whole.choices.length, 1);
assert.equal(whole.usage.completion_tokens, 16);

let text = "";
let usage = null;
for await (const chunk of await ask(picture, { stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.completion_tokens, 16);

const two = await ask("Hi", { n: 2 });
assert.deepEqual(two.choices.map((c) => c.index), [0, 1]);

const texts = ["", ""];
for await (const chunk of await ask("Hi", { n: 2, stream: true })) {
  const choice = chunk.choices[0];
  texts[choice.index] += choice.delta.content ?? "";
}
assert.deepEqual(texts, two.choices.map((c) => c.message.content));

const completion = await client.completions.create({
  model: "tiny", prompt: ["one", "two"], temperature: 0, max_tokens: 4, logprobs: 1, ignore_eos: true });
assert.equal(completion.choices.length, 2);
assert.equal(completion.choices[1].logprobs.tokens.length, 4);

const stop = whole.choices[0].message.content.slice(3, 5);
const cut = await ask(picture, { stop: [stop] });
assert.ok(!cut.choices[0].message.content.includes(stop));

const logprobs = await ask("Hi", { logprobs: true, top_logprobs: 2, max_tokens: 3 });
assert.equal(logprobs.choices[0].logprobs.content.length, 3);
assert.equal(logprobs.choices[0].logprobs.content[0].top_logprobs.length, 2);

await assert.rejects(client.chat.completions.create({ model: "other", messages: [{ role: "user", content: "x" }] }),
  (error) => error.status === 404 && /other/.test(error.message));
await assert.rejects(ask("x", { top_p: 7 }), (error) => error.status === 400 && /top_p/.test(error.message));

const broken = [{ type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } }];
await assert.rejects(ask(broken), (error) => error.status === 422 && /image 0/.test(error.message));
await assert.rejects(ask("x", { stream: true, stop: 5 }), (error) => error.status === 400 && error.param === "stop");

const models = await client.models.list();
assert.equal(models.data[0].id, "tiny");

const aborted = new AbortController();
const stream = await client.chat.completions.create(
  { model: "tiny", messages: [{ role: "user", content: "x" }], max_tokens: 300, stream: true, ignore_eos: true },
  { signal: aborted.signal });
for await (const _ of stream) {
  aborted.abort();
  break;
}
console.log("npm client: all passed");
