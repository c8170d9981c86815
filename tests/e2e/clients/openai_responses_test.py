"""/v1/responses through the official Python client: the real binary, checkpoints that say what a test wants, and a vision
model with images. Run by tests/e2e/clients/run."""

import json
import unittest

import openai
import pydantic
from openai.types.responses import Response, ResponseStreamEvent

from openai_python_test import post
from openai_tools_test import ARGUMENTS, CALL, SECOND, ScriptedServer
from server_under_test import CHECKPOINT, Server, data_url

WEATHER = {"type": "function", "name": "get_weather", "description": "The weather of a city.", "strict": False,
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                          "required": ["city"]}}
SEARCH = {"type": "function", "name": "search", "strict": False,
          "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
TOOLS = [WEATHER, SEARCH]
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)


class Town(pydantic.BaseModel):
    name: str
    population: int


def script(name):
    return {"extra_body": {"chat_template_kwargs": {"script": f"[{name}]"}}}


class Scripted(ScriptedServer):
    FLAGS = ("--reasoning-parser", "qwen3", "--response-store-bytes", "64KiB")

    def create(self, name, **options):
        answer = self.client.responses.create(**{"model": "scripted", "input": "Weather in Zürich?", **script(name), **options})
        Response.model_validate_json(answer.model_dump_json(exclude_unset=True), strict=True)
        return answer

    def stream(self, name, **options):
        """The events, each checked; the last one's response says what the deltas said."""
        events = list(self.create_stream(name, **options))
        for number, event in enumerate(events):
            EVENT.validate_json(event.model_dump_json(exclude_unset=True), strict=True)
            self.assertEqual(event.sequence_number, number)
        self.assertEqual([event.type for event in events[:2]], ["response.created", "response.in_progress"])
        said = {}
        for event in events:
            if event.type.endswith(".delta"):
                said[event.output_index] = said.get(event.output_index, "") + event.delta
        final = events[-1].response
        for index, item in enumerate(final.output):
            text = item.arguments if item.type == "function_call" else item.content[0].text
            self.assertEqual(said.get(index, ""), text)
        return events

    def create_stream(self, name, **options):
        return self.client.responses.create(**{"model": "scripted", "input": "Weather in Zürich?", "stream": True,
                                               **script(name), **options})

    def test_text(self):
        answer = self.create("plain", instructions="Be brief.", metadata={"a": "b"}, temperature=0.5)
        self.assertEqual(answer.output_text, "It is cold, and -3 <tool degrees.\n")
        self.assertEqual(answer.status, "completed")
        self.assertEqual(answer.usage.output_tokens, self.tokens["plain"])
        self.assertEqual((answer.instructions, answer.metadata, answer.temperature), ("Be brief.", {"a": "b"}, 0.5))
        self.assertTrue(answer.id.startswith("resp_"))
        events = self.stream("plain")
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual(events[-1].response.output_text, answer.output_text)

    def test_cut(self):
        answer = self.create("plain", max_output_tokens=2)
        self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(answer.usage.output_tokens, 2)
        self.assertEqual(self.stream("plain", max_output_tokens=2)[-1].type, "response.incomplete")

    def test_calls(self):
        answer = self.create("two", tools=TOOLS)
        self.assertEqual([item.type for item in answer.output], ["message", "function_call", "function_call"])
        self.assertEqual(answer.output_text, "I will look it up.")
        self.assertEqual(answer.output[1].arguments, ARGUMENTS)
        self.assertEqual(json.loads(answer.output[2].arguments), {"query": 'snow </tool_call> "now"'})
        events = self.stream("two", tools=TOOLS)
        names = [event.type for event in events]
        self.assertEqual(names.count("response.function_call_arguments.done"), 2)
        self.assertGreater(names.count("response.function_call_arguments.delta"), 6)
        one = self.create("two", tools=TOOLS, parallel_tool_calls=False)
        self.assertEqual([item.type for item in one.output], ["message", "function_call"])
        self.assertEqual(self.create("one", tools=TOOLS, tool_choice="none").output_text, CALL)

    def test_a_call_by_name(self):
        answer = self.create("plain", tools=[SEARCH], tool_choice={"type": "function", "name": "search"},
                             max_output_tokens=200, temperature=0)
        self.assertEqual([item.name for item in answer.output], ["search"])

    def test_thoughts(self):
        answer = self.create("thoughts", tools=TOOLS)
        self.assertEqual([item.type for item in answer.output], ["reasoning", "message", "function_call"])
        self.assertEqual(answer.output[0].content[0].text, "Which city? It was Zürich.")
        self.assertGreater(answer.usage.output_tokens_details.reasoning_tokens, 3)
        self.assertLess(answer.usage.output_tokens_details.reasoning_tokens, answer.usage.output_tokens)
        self.assertIn("response.reasoning_text.delta", [event.type for event in self.stream("thoughts", tools=TOOLS)])

    def test_structured(self):
        answer = self.client.responses.parse(model="scripted", input="x", text_format=Town, **script("json"))
        self.assertEqual(answer.output_parsed, Town(name="Zürich", population=400000))
        with self.client.responses.stream(model="scripted", input="x", text_format=Town, **script("json")) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_response().output_parsed.population, 400000)
        form = {"format": {"type": "json_object"}}
        self.assertEqual(json.loads(self.create("json", text=form).output_text)["name"], "Zürich")

    def test_conversation_by_id(self):
        first = self.create("one", tools=TOOLS)
        call = first.output[0]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "-3"}
        second = self.create("plain", tools=TOOLS, input=[output], previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        # The same as to send all of it.
        items = [{"role": "user", "content": "Weather in Zürich?"}, call.model_dump(exclude_unset=True), output]
        self.assertEqual(self.create("plain", tools=TOOLS, input=items).usage.input_tokens, second.usage.input_tokens)
        third = self.stream("plain", tools=TOOLS, input="And tomorrow?", previous_response_id=second.id)[-1].response
        self.assertGreater(third.usage.input_tokens, second.usage.input_tokens)
        fourth = self.create("plain", tools=TOOLS, input="And then?", previous_response_id=third.id)
        self.assertGreater(fourth.usage.input_tokens, third.usage.input_tokens)

    def test_what_is_stored(self):
        answer = self.create("plain")
        self.assertEqual(self.client.responses.retrieve(answer.id).model_dump(), answer.model_dump())
        self.client.responses.delete(answer.id)
        for gone in (answer.id, self.create("plain", store=False).id, "resp_nobody"):
            with self.assertRaises(openai.NotFoundError):
                self.client.responses.retrieve(gone)
            with self.assertRaises(openai.NotFoundError) as missing:
                self.create("plain", previous_response_id=gone)
            self.assertEqual(missing.exception.param, "previous_response_id")
            self.assertIn(gone, str(missing.exception))
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.delete(answer.id)

    def test_input_items(self):
        first = self.create("one", tools=TOOLS)
        output = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "-3"}
        second = self.create("plain", tools=TOOLS, input=[output, {"role": "user", "content": "So?"}],
                             previous_response_id=first.id)
        items = list(self.client.responses.input_items.list(second.id, order="asc"))
        self.assertEqual([item.type for item in items], ["message", "function_call", "function_call_output", "message"])
        self.assertEqual((items[0].content[0].text, items[3].content[0].text), ("Weather in Zürich?", "So?"))
        self.assertEqual(items[1].arguments, ARGUMENTS)
        self.assertEqual(len({item.id for item in items}), 4)
        # The client asks page by page.
        paged = list(self.client.responses.input_items.list(second.id, limit=1))
        self.assertEqual([item.id for item in paged], [item.id for item in reversed(items)])
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.input_items.list("resp_nobody")
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.responses.input_items.list(second.id, limit=0)
        self.assertEqual(refused.exception.param, "limit")

    def test_what_has_ended_is_not_cancelled(self):
        answer = self.create("plain")
        with self.assertRaises(openai.BadRequestError):
            self.client.responses.cancel(answer.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.cancel("resp_nobody")
        self.assertEqual(self.client.responses.retrieve(answer.id).id, answer.id)

    def test_logprobs(self):
        options = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "temperature": 0}
        for name, tools in (("plain", openai.omit), ("thoughts", TOOLS)):
            answer = self.create(name, tools=tools, **options)
            part = next(item for item in answer.output if item.type == "message").content[0]
            if name == "plain":
                self.assertTrue("".join(entry.token for entry in part.logprobs).startswith(part.text), part.logprobs)
            for entry in part.logprobs:
                self.assertEqual(len(entry.top_logprobs), 2)
                self.assertEqual(entry.top_logprobs[0].token, entry.token)
                self.assertAlmostEqual(entry.top_logprobs[0].logprob, entry.logprob, places=5)
            events = self.stream(name, tools=tools, **options)
            said = [entry.token for event in events if event.type == "response.output_text.delta" for entry in event.logprobs]
            self.assertEqual(said, [entry.token for entry in part.logprobs][:len(said)])
            self.assertGreater(len(said), 0)
        self.assertEqual(self.create("plain").output[0].content[0].logprobs, [])
        with self.assertRaises(openai.BadRequestError) as refused:
            self.create("plain", top_logprobs=2)
        self.assertEqual(refused.exception.param, "top_logprobs")

    def test_the_store_is_bounded(self):
        first = self.create("plain", input="x" * 1500)
        self.client.responses.retrieve(first.id)
        for _ in range(20):
            last = self.create("plain", input="y" * 1500)
        self.client.responses.retrieve(last.id)
        with self.assertRaises(openai.NotFoundError) as gone:
            self.client.responses.retrieve(first.id)
        self.assertIn("--response-store-bytes", str(gone.exception))

    def test_errors(self):
        for options, param in (({"background": True}, "background"), ({"truncation": "auto"}, "truncation"),
                               ({"tools": [{"type": "web_search"}]}, "tools"), ({"input": []}, "input"),
                               ({"extra_body": {"max_tokens": 3}}, "max_tokens"),
                               ({"temperature": -1}, "temperature")):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.create("plain", **options)
            self.assertEqual(refused.exception.param, param)
        with self.assertRaises(openai.NotFoundError):
            self.create("plain", model="nobody")
        status, body = post(self.server.url, "/v1/responses", b"{")
        self.assertEqual(status, 400)
        self.assertIn("message", body["error"])


class Images(unittest.TestCase):
    def test_an_image_is_what_chat_sees(self):
        server = Server("--served-model-name", "tiny", "--dtype", "float32")
        try:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            url = data_url(CHECKPOINT.parent / "images/wide.png")
            options = {"model": "tiny", "temperature": 0, "extra_body": {"repetition_penalty": 1.0, "ignore_eos": True}}
            chat = client.chat.completions.create(max_tokens=12, messages=[{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]}], **options)
            asked = [{"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"},
                                                  {"type": "input_text", "text": "What?"}]}]
            answer = client.responses.create(input=asked, max_output_tokens=12, **options)
            self.assertEqual(answer.output_text, chat.choices[0].message.content)
            self.assertEqual(answer.usage.input_tokens, chat.usage.prompt_tokens)
            again = client.responses.create(input="And?", previous_response_id=answer.id, max_output_tokens=1, **options)
            self.assertEqual(again.usage.input_tokens_details.model_extra["image_tokens"],
                             chat.usage.prompt_tokens_details.image_tokens)
            bad = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
            with self.assertRaises(openai.UnprocessableEntityError):
                client.responses.create(model="tiny", input=bad)
        finally:
            self.assertEqual(server.stop(), 0)


class Keys(unittest.TestCase):
    def test_a_response_is_its_keys(self):
        server = Server("--served-model-name", "tiny", "--api-key", "one", "two")
        try:
            one, two = (openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0) for key in ("one", "two"))
            answer = one.responses.create(model="tiny", input="x", max_output_tokens=1)
            with self.assertRaises(openai.NotFoundError):
                two.responses.retrieve(answer.id)
            with self.assertRaises(openai.NotFoundError):
                two.responses.create(model="tiny", input="x", previous_response_id=answer.id)
            with self.assertRaises(openai.NotFoundError):
                two.responses.delete(answer.id)
            one.responses.delete(answer.id)
            with self.assertRaises(openai.AuthenticationError):
                openai.OpenAI(base_url=server.url + "/v1", api_key="three", max_retries=0).responses.retrieve(answer.id)
            status, _ = post(server.url, "/v1/responses", {"input": "x", "max_output_tokens": 1}, {"x-api-key": "two"})
            self.assertEqual(status, 200)
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
