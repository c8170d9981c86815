"""/v1/messages through the official Anthropic client: the real binary, checkpoints that say what a test wants, and a vision
model with images. Run by tests/e2e/clients/run."""

import base64
import inspect
import json
import shutil
import tempfile
import unittest
from pathlib import Path

import anthropic
import openai
import pydantic
from anthropic.types import Message, RawMessageStreamEvent

import scripted_checkpoint
from openai_python_test import post
from openai_tools_test import ARGUMENTS, CALL, SCRIPTS, ScriptedServer
from server_under_test import CHECKPOINT, Server, data_url

WEATHER = {"name": "get_weather", "description": "The weather of a city.",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                            "required": ["city"]}}
SEARCH = {"name": "search", "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}}}
TOOLS = [WEATHER, SEARCH]
ASK = [{"role": "user", "content": "Weather in Zürich?"}]
EVENT = pydantic.TypeAdapter(RawMessageStreamEvent)
IMAGES = CHECKPOINT.parent / "images"


class Town(pydantic.BaseModel):
    name: str
    population: int


def checked(answer):
    Message.model_validate_json(answer.model_dump_json(exclude_unset=True), strict=True)
    return answer


def asked(**options):
    """What the client's newest version has no parameter for goes beside what it has."""
    more = {name: options.pop(name) for name in list(options)
            if name not in inspect.signature(anthropic.resources.Messages.create).parameters}
    return {**options, "extra_body": more}


def image_block(path):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                        "data": base64.b64encode(Path(path).read_bytes()).decode()}}


def prompt_tokens(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


class Scripted(ScriptedServer):
    FLAGS = ("--reasoning-parser", "qwen3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.anthropic = anthropic.Anthropic(base_url=cls.server.url, api_key="none", max_retries=0)

    def options(self, name, **options):
        return asked(**{"model": "scripted", "messages": ASK, "max_tokens": 400,
                        "chat_template_kwargs": {"script": f"[{name}]"}, **options})

    def create(self, name, **options):
        return checked(self.anthropic.messages.create(**self.options(name, **options)))

    def both(self, name, **options):
        """The whole answer; the stream's events say the same, to the client's own accumulation too."""
        whole = self.create(name, **options)
        events = list(self.anthropic.messages.create(stream=True, **self.options(name, **options)))
        for event in events:
            EVENT.validate_json(event.model_dump_json(exclude_unset=True), strict=True)
        self.assertEqual(events[0].type, "message_start")
        self.assertEqual([event.type for event in events[-2:]], ["message_delta", "message_stop"])
        self.assertEqual(prompt_tokens(events[0].message.usage), prompt_tokens(whole.usage))
        with self.anthropic.messages.stream(**self.options(name, **options)) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.stop_reason, whole.stop_reason)
        self.assertEqual(final.stop_sequence, whole.stop_sequence)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
        plain = [{k: v for k, v in block.model_dump().items() if k in ("type", "text", "thinking", "name", "input")}
                 for block in final.content]
        self.assertEqual(plain, [{k: v for k, v in block.model_dump().items() if k in plain[i]}
                                 for i, block in enumerate(whole.content)])
        return whole, events

    def test_text(self):
        answer, events = self.both("plain", system="Be brief.", temperature=0.5, metadata={"user_id": "u"})
        self.assertEqual([block.text for block in answer.content], [SCRIPTS["plain"]])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("end_turn", None))
        self.assertEqual(answer.usage.output_tokens, self.tokens["plain"])
        self.assertTrue(answer.id.startswith("msg_"))
        self.assertGreater(len([e for e in events if e.type == "content_block_delta"]), 3)
        longer = self.create("plain", system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
                                              {"type": "text", "text": "Always."}])
        self.assertGreater(prompt_tokens(longer.usage), prompt_tokens(answer.usage))

    def test_ends(self):
        answer, _ = self.both("plain", max_tokens=2)
        self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 2))
        answer, _ = self.both("plain", stop_sequences=["nowhere", "-3"])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", "-3"))
        self.assertEqual(answer.content[0].text, "It is cold, and ")

    def test_the_cache_is_counted_apart(self):
        long = [{"role": "user", "content": "x" * 600}]
        self.create("plain", messages=long)
        again, events = self.both("plain", messages=long)
        self.assertGreaterEqual(again.usage.cache_read_input_tokens, 512)
        counted = self.anthropic.messages.count_tokens(
            model="scripted", messages=long, extra_body={"chat_template_kwargs": {"script": "[plain]"}})
        self.assertEqual(prompt_tokens(again.usage), counted.input_tokens)

    def test_calls(self):
        answer, events = self.both("two", tools=TOOLS)
        self.assertEqual([block.type for block in answer.content], ["text", "tool_use", "tool_use"])
        self.assertEqual(answer.stop_reason, "tool_use")
        self.assertEqual(answer.content[0].text, "I will look it up.")
        self.assertEqual((answer.content[1].name, answer.content[1].input), ("get_weather", json.loads(ARGUMENTS)))
        self.assertEqual(answer.content[2].input, {"query": 'snow </tool_call> "now"'})
        self.assertNotEqual(answer.content[1].id, answer.content[2].id)
        self.assertGreater(len([e for e in events if e.type == "content_block_delta"
                                and e.delta.type == "input_json_delta"]), 6)
        one, _ = self.both("two", tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.assertEqual([block.type for block in one.content], ["text", "tool_use"])
        text, _ = self.both("one", tools=TOOLS, tool_choice={"type": "none"})
        self.assertEqual(([block.text for block in text.content], text.stop_reason), ([CALL], "end_turn"))

    def test_calls_on_demand(self):
        answer, _ = self.both("plain", tools=[SEARCH], tool_choice={"type": "tool", "name": "search"}, temperature=0)
        self.assertEqual([(block.type, block.name) for block in answer.content], [("tool_use", "search")])
        answer = self.create("plain", tools=TOOLS, tool_choice={"type": "any", "disable_parallel_tool_use": True},
                             temperature=0)
        self.assertEqual([block.type for block in answer.content], ["tool_use"])

    def test_history_of_calls(self):
        """What was called and answered is in the next prompt: as chat has it, token for token."""
        first = self.create("two", tools=TOOLS)
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": f"result {i}"}
                   for i, block in enumerate(first.content) if block.type == "tool_use"]
        history = ASK + [{"role": "assistant", "content": first.content},
                         {"role": "user", "content": [*results, {"type": "text", "text": "So?"}]}]
        second = self.create("plain", tools=TOOLS, messages=history)
        self.assertEqual(second.content[0].text, SCRIPTS["plain"])
        chat = self.client.chat.completions.create(
            model="scripted", tools=[{"type": "function", "function": {
                "name": tool["name"], **({"description": tool["description"]} if "description" in tool else {}),
                "parameters": tool["input_schema"]}} for tool in TOOLS],
            messages=ASK + [
                {"role": "assistant", "content": "I will look it up.", "tool_calls": [
                    {"id": block.id, "type": "function",
                     "function": {"name": block.name, "arguments": json.dumps(block.input, ensure_ascii=False)}}
                    for block in first.content[1:]]},
                {"role": "tool", "tool_call_id": first.content[1].id, "content": "result 1"},
                {"role": "tool", "tool_call_id": first.content[2].id, "content": "result 2"},
                {"role": "user", "content": [{"type": "text", "text": "So?"}]}],
            extra_body={"chat_template_kwargs": {"script": "[plain]"}})
        self.assertEqual(prompt_tokens(second.usage), chat.usage.prompt_tokens)

    def test_thoughts(self):
        answer, events = self.both("thoughts", tools=TOOLS)
        self.assertEqual([block.type for block in answer.content], ["thinking", "text", "tool_use"])
        self.assertEqual(answer.content[0].thinking, "Which city? It was Zürich.")
        self.assertEqual(answer.content[1].text, "So:")
        self.assertGreater(answer.usage.output_tokens_details.thinking_tokens, 3)
        self.assertLess(answer.usage.output_tokens_details.thinking_tokens, answer.usage.output_tokens)
        self.assertIn("thinking_delta", [e.delta.type for e in events if e.type == "content_block_delta"])
        history = ASK + [{"role": "assistant", "content": answer.content},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": answer.content[2].id}]}]
        self.assertEqual(self.create("plain", tools=TOOLS, messages=history).stop_reason, "end_turn")

    def test_words_put_into_the_models_mouth(self):
        """A last message of the assistant's is gone on from."""
        first = self.anthropic.messages.create(model="scripted", max_tokens=400, messages=[
            *ASK, {"role": "assistant", "content": "It is [plain]"}])
        # The script begins where its own token is the prompt's last.
        self.assertEqual(first.content[0].text, SCRIPTS["plain"])

    def test_structured(self):
        schema = Town.model_json_schema()
        answer = self.create("json", output_config={"format": {"type": "json_schema", "schema": schema}})
        self.assertEqual(Town.model_validate_json(answer.content[0].text), Town(name="Zürich", population=400000))
        # What the model would not say.
        held = self.create("plain", temperature=0, output_config={"format": {"type": "json_schema",
                                                                             "schema": {"enum": ["left", "right"]}}})
        self.assertIn(json.loads(held.content[0].text), ["left", "right"])

    def test_errors(self):
        for options, words in (({"temperature": -1}, "'temperature' is -1"), ({"messages": []}, "'messages' is empty"),
                               ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
                               ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]},
                                "messages[0].content[0]"),
                               ({"max_tokens": 5000}, "4096"),
                               ({"stop": ["x"]}, "stop_sequences")):
            for stream in (False, True):
                with self.assertRaises(anthropic.BadRequestError) as refused:
                    self.anthropic.messages.create(**self.options("plain", **options), stream=stream)
                body = refused.exception.body
                self.assertEqual((body["type"], body["error"]["type"]), ("error", "invalid_request_error"))
                self.assertIn(words, body["error"]["message"])
        with self.assertRaises(anthropic.NotFoundError) as missing:
            self.create("plain", model="nobody")
        self.assertEqual(missing.exception.body["error"]["type"], "not_found_error")
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            status, body = post(self.server.url, path, b"{")
            self.assertEqual((status, body["type"]), (400, "error"))


class Images(unittest.TestCase):
    def test_an_image_is_what_chat_sees(self):
        server = Server("--served-model-name", "tiny", "--dtype", "float32")
        try:
            client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
            chats = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            path = IMAGES / "wide.png"
            more = {"repetition_penalty": 1.0, "ignore_eos": True}
            chat = chats.chat.completions.create(
                model="tiny", max_tokens=12, temperature=0, extra_body=more, messages=[{"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": data_url(path)}}, {"type": "text", "text": "What?"}]}])
            ask = [{"role": "user", "content": [image_block(path), {"type": "text", "text": "What?"}]}]
            for source in (image_block(path)["source"], {"type": "url", "url": data_url(path)}):
                ask[0]["content"][0]["source"] = source
                answer = checked(client.messages.create(**asked(model="tiny", max_tokens=12, temperature=0, messages=ask,
                                                                **more)))
                self.assertEqual(answer.content[0].text, chat.choices[0].message.content)
                self.assertEqual(prompt_tokens(answer.usage), chat.usage.prompt_tokens)
                self.assertEqual(answer.stop_reason, "max_tokens")
            counted = client.messages.count_tokens(model="tiny", messages=ask)
            self.assertEqual(counted.input_tokens, chat.usage.prompt_tokens)
            bad = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
            with self.assertRaises(anthropic.UnprocessableEntityError) as refused:
                client.messages.create(model="tiny", max_tokens=1, messages=[{"role": "user", "content": [bad]}])
            self.assertEqual(refused.exception.body["error"]["type"], "invalid_request_error")
        finally:
            self.assertEqual(server.stop(), 0)

    def test_an_agent_with_images_in_results(self):
        """Six turns, each with an image in the result of a tool; all but the last is read from the cache."""
        with tempfile.TemporaryDirectory() as folder:
            for file in CHECKPOINT.iterdir():  # the same checkpoint, with more positions
                if file.is_file():
                    shutil.copy(file, folder)
            config = json.loads((CHECKPOINT / "config.json").read_text())
            config.get("text_config", config)["max_position_embeddings"] = 4096
            (Path(folder) / "config.json").write_text(json.dumps(config))
            (Path(folder) / "tools.jinja").write_text(scripted_checkpoint.TEMPLATE)
            server = Server("--served-model-name", "tiny", "--dtype", "float32", "--chat-template",
                            Path(folder) / "tools.jinja", model=folder)
            try:
                self.walk(anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0))
            finally:
                self.assertEqual(server.stop(), 0)

    def walk(self, client):
        history, before = [{"role": "user", "content": "Look at everything."}], 0
        for turn in range(6):
            answer = checked(client.messages.create(**asked(
                model="tiny", max_tokens=4, temperature=0, messages=history, tools=TOOLS,
                chat_template_kwargs={"script": ""})))
            now = prompt_tokens(answer.usage)
            if turn > 0:
                self.assertGreater(now, before + 20)
                self.assertGreaterEqual(answer.usage.cache_read_input_tokens, before - 32)
            before = now
            picture = image_block(IMAGES / ("small.png", "wide.png")[turn % 2])
            history += [
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": f"t{turn}", "name": "search", "input": {"query": f"picture {turn}"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": [
                    {"type": "text", "text": f"Picture {turn}:"}, picture]}]}]


class Keys(unittest.TestCase):
    def test_keys_and_their_errors(self):
        server = Server("--served-model-name", "tiny", "--api-key", "one")
        try:
            ask = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
            client = anthropic.Anthropic(base_url=server.url, api_key="one", max_retries=0)
            self.assertEqual(client.messages.create(**ask).usage.output_tokens, 1)
            bearer = anthropic.Anthropic(base_url=server.url, auth_token="one", max_retries=0)
            self.assertEqual(bearer.messages.create(**ask).usage.output_tokens, 1)
            with self.assertRaises(anthropic.AuthenticationError) as refused:
                anthropic.Anthropic(base_url=server.url, api_key="two", max_retries=0).messages.create(**ask)
            self.assertEqual(refused.exception.body["error"]["type"], "authentication_error")
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
