// The AI SDK and the openai client of npm, each in all that a chat has:
// node node_clients.mjs TEXT_URL VISION_URL IMAGE SEEN_AS_JSON
// Prints a row of the table a client; exit status 1 where a column is not green.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [textUrl, visionUrl, imagePath, seenJson] = process.argv.slice(2);
const seen = JSON.parse(seenJson);
const image = readFileSync(imagePath);
const ask = "Weather in Zürich?";
const plain = "It is cold, and -3 degrees.\n";
const told = "Snow: the tool says so.\n";
const wanted = { city: "Zürich", days: 2 };
const townSchema = {
  type: "object", additionalProperties: false, required: ["name", "size"],
  properties: { name: { type: "string", enum: ["Bern", "Zürich"] }, size: { type: "integer", enum: [1, 2, 3] } },
};
const weatherSchema = {
  type: "object", properties: { city: { type: "string" }, days: { type: "integer" } }, required: ["city", "days"],
};
const isTown = (town) => assert.ok(["Bern", "Zürich"].includes(town.name) && [1, 2, 3].includes(town.size));
const joined = (pieces) => {
  assert.equal(pieces.join(""), plain);
  assert.ok(pieces.filter(Boolean).length > 3);
};

async function openai() {
  const { default: OpenAI } = await import("openai");
  const [text, vision] = [textUrl, visionUrl].map(
    (url) => new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 }));
  const create = (options) =>
    text.chat.completions.create({ model: "tiny", messages: [{ role: "user", content: ask }], ...options });
  const tools = [{ type: "function", function: { name: "get_weather", parameters: weatherSchema } }];
  return {
    chat: async () => assert.equal((await create({})).choices[0].message.content, plain),
    image: async () => {
      const content = [{ type: "text", text: "What is shown?" },
        { type: "image_url", image_url: { url: "data:image/png;base64," + image.toString("base64") } }];
      const answer = await vision.chat.completions.create(
        { model: "tiny", messages: [{ role: "user", content }], max_tokens: 12, temperature: 0 });
      assert.equal(answer.choices[0].message.content, seen);
    },
    stream: async () => {
      const pieces = [];
      for await (const chunk of await create({ stream: true })) pieces.push(chunk.choices[0]?.delta?.content ?? "");
      joined(pieces);
    },
    schema: async () => {
      const answer = await text.chat.completions.parse({
        model: "tiny", messages: [{ role: "user", content: ask }],
        response_format: { type: "json_schema", json_schema: { name: "town", strict: true, schema: townSchema } } });
      isTown(answer.choices[0].message.parsed ?? JSON.parse(answer.choices[0].message.content));
    },
    tools: async () => {
      for (const choice of ["auto", "required"]) {
        const call = (await create({ tools, tool_choice: choice })).choices[0].message.tool_calls[0];
        assert.equal(call.function.name, "get_weather");
        assert.deepEqual(JSON.parse(call.function.arguments), wanted);
      }
    },
    history: async () => {
      const runner = text.chat.completions.runTools({
        model: "tiny", messages: [{ role: "user", content: ask }],
        tools: [{ type: "function", function: {
          name: "get_weather", parameters: weatherSchema, parse: JSON.parse,
          function: (given) => { assert.deepEqual(given, wanted); return '{"temperature": -3}'; } } }] });
      assert.equal(await runner.finalContent(), told);
    },
  };
}

async function aiSdk() {
  const { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } = await import("ai");
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const [text, vision] = [textUrl, visionUrl].map((url) => createOpenAICompatible(
    { name: "saccade", baseURL: url + "/v1", apiKey: "none", supportsStructuredOutputs: true })("tiny"));
  const tools = (execute) => ({
    get_weather: tool({ description: "The weather of a city.", inputSchema: jsonSchema(weatherSchema), execute }) });
  return {
    chat: async () => assert.equal((await generateText({ model: text, prompt: ask, maxRetries: 0 })).text, plain),
    image: async () => {
      const content = [{ type: "text", text: "What is shown?" }, { type: "image", image, mediaType: "image/png" }];
      const answer = await generateText({ model: vision, messages: [{ role: "user", content }], maxOutputTokens: 12,
                                          temperature: 0, maxRetries: 0 });
      assert.equal(answer.text, seen);
    },
    stream: async () => {
      const pieces = [];
      for await (const piece of streamText({ model: text, prompt: ask, maxRetries: 0 }).textStream) pieces.push(piece);
      joined(pieces);
    },
    schema: async () => isTown((await generateObject(
      { model: text, prompt: ask, schema: jsonSchema(townSchema), maxRetries: 0 })).object),
    tools: async () => {
      for (const toolChoice of ["auto", "required"]) {
        const answer = await generateText({ model: text, prompt: ask, tools: tools(), toolChoice, maxRetries: 0 });
        assert.equal(answer.toolCalls[0].toolName, "get_weather");
        assert.deepEqual(answer.toolCalls[0].input, wanted);
      }
      const streamed = streamText({ model: text, prompt: ask, tools: tools(), maxRetries: 0 });
      assert.deepEqual((await streamed.toolCalls)[0].input, wanted);
    },
    history: async () => {
      const execute = (given) => { assert.deepEqual(given, wanted); return { temperature: -3 }; };
      const answer = await generateText(
        { model: text, prompt: ask, tools: tools(execute), stopWhen: stepCountIs(3), maxRetries: 0 });
      assert.equal(answer.text, told);
      assert.equal(answer.steps.length, 2);
    },
  };
}

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
for (const [name, pack, make] of [["openai (npm)", "openai", openai], ["AI SDK", "ai", aiSdk]]) {
  let row;
  try {
    row = await make();
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    console.log(`| ${name} | skipped: ${pack} is not installed |`);
    continue;
  }
  const cells = [];
  for (const [column, test] of Object.entries(row)) {
    try {
      await test();
      cells.push("yes");
    } catch (error) {
      cells.push("no");
      process.exitCode = 1;
      console.error(`${name}, ${column}:`, error);
    }
  }
  console.log(`| ${name} ${versionOf(pack)} | ${cells.join(" | ")} |`);
}
