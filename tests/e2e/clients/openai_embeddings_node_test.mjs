// /v1/embeddings with the official npm client: node openai_embeddings_node_test.mjs URL
import assert from "node:assert/strict";
import OpenAI from "openai";

const url = process.argv[2];
const dimensions = 48;  // of tests/golden/minilm/mean_short, as is the limit of 24 tokens
const sent = [];
const client = new OpenAI({
  baseURL: url + "/v1", apiKey: "none", maxRetries: 0,
  fetch: (to, options) => {
    sent.push(JSON.parse(options.body));
    return fetch(to, options);
  },
});
const create = (input, options = {}) => client.embeddings.create({ model: "encoder", input, ...options });
const vectors = async (input, options) => {
  const answer = await create(input, options);
  assert.deepEqual(answer.data.map((entry) => entry.index), answer.data.map((_, i) => i));
  for (const entry of answer.data) assert.equal(entry.embedding.length, dimensions);
  return answer.data.map((entry) => Array.from(entry.embedding));
};
const text = "A saccade is the jump of the eye.";
const tokenized = await fetch(url + "/tokenize", { method: "POST", body: JSON.stringify({ prompt: text }) });
const ids = (await tokenized.json()).tokens;

// Unasked, the client sends for base64 and decodes it itself.
const answer = await create(text);
assert.equal(sent.at(-1).encoding_format, "base64");
assert.equal(answer.object, "list");
assert.equal(answer.data[0].object, "embedding");
assert.deepEqual([answer.usage.prompt_tokens, answer.usage.total_tokens], [ids.length, ids.length]);
const one = Array.from(answer.data[0].embedding);
assert.ok(Math.abs(Math.hypot(...one) - 1) < 1e-5);
const coded = (await create(text, { encoding_format: "base64" })).data[0].embedding;
assert.equal(Buffer.from(coded, "base64").length, 4 * dimensions);
const written = (await vectors(text, { encoding_format: "float" }))[0];
assert.deepEqual(written.map(Math.fround), one);

assert.deepEqual(await vectors([text]), [one]);
assert.deepEqual(await vectors(ids), [one]);
const [other] = await vectors("Something else");
assert.notDeepEqual(other, one);
assert.deepEqual(await vectors(["Something else", text]), [other, one]);
assert.deepEqual(await vectors([ids, ids]), [one, one]);
assert.deepEqual(await vectors(text, { dimensions }), [one]);
assert.equal((await create("")).usage.prompt_tokens, 2);

const many = Array.from({ length: 2048 }, (_, i) => [2, 5 + i % 200, 5 + Math.floor(i / 200), 3]);
const [together, beside] = await Promise.all([vectors(many), vectors(many)]);
assert.equal(new Set(together.map(String)).size, 2048);
assert.deepEqual(together, beside);
assert.deepEqual((await vectors(many[2047]))[0], together[2047]);

const refused = (promise, param, words) =>
  assert.rejects(promise, (error) => error instanceof OpenAI.BadRequestError && error.status === 400 &&
    error.type === "BadRequestError" && error.param === param && words.test(error.message));
await refused(create("the picture ".repeat(40)), "input", /maximum context length is 24 tokens.*requested 82/);
await refused(create([...many, [5]]), "input", /2048/);
await refused(create([[]]), "input", /no tokens/);
await refused(create([]), "input", /input/);
await refused(create([999999]), "input", /999999/);
await refused(create(text, { dimensions: 12 }), "dimensions", /12/);
await refused(create(text, { encoding_format: "int8" }), "encoding_format", /int8/);
await assert.rejects(client.embeddings.create({ model: "another", input: "x" }),
  (error) => error instanceof OpenAI.NotFoundError && /another/.test(error.message));
console.log("npm client, embeddings: all passed");
