"""Tools and thoughts through the official Python client: a checkpoint that is written to call them, and an agent's
history with images. Run by tests/e2e/clients/run."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import scripted_checkpoint
from server_under_test import CHECKPOINT, Server, data_url

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                   "required": ["city"]}}}
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {
    "type": "object", "properties": {"query": {"type": "string"}}}}}
TOOLS = [WEATHER, SEARCH]
ARGUMENTS = '{"city": "Zürich", "days": 2}'
CALL = '<tool_call>\n{"name": "get_weather", "arguments": ' + ARGUMENTS + "}\n</tool_call>"
SECOND = '<tool_call>\n{"name": "search", "arguments": {"query": "snow </tool_call> \\"now\\""}}\n</tool_call>'

SCRIPTS = {
    "one": CALL,
    "two": "I will look it up.\n\n" + CALL + "\n" + SECOND,
    "broken": "<tool_call>\n{name: get_weather}\n</tool_call> is what I meant.",
    "thoughts": "<think>\nWhich city? It was Zürich.\n</think>\n\nSo:\n" + CALL,
    "plain": "It is cold, and -3 <tool degrees.\n",
    "json": '{"name": "Zürich", "population": 400000}',
}
ASK = [{"role": "user", "content": "Weather in Zürich?"}]


class ScriptedServer(unittest.TestCase):
    FLAGS = ()
    SCRIPTS = SCRIPTS
    SPECIAL = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.tokens = scripted_checkpoint.write(Path(cls.folder.name), cls.SCRIPTS, cls.SPECIAL)
        cls.server = Server("--served-model-name", "scripted", *cls.FLAGS, model=cls.folder.name)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, f"the server ended with {code}:\n" + "".join(cls.server.log)

    def request(self, script, **options):
        return {"model": "scripted", "messages": ASK, "tools": TOOLS,
                "extra_body": {"chat_template_kwargs": {"script": f"[{script}]"}}, **options}

    def ask(self, script, **options):
        answer = self.client.chat.completions.create(**self.request(script, **options))
        ChatCompletion.model_validate_json(answer.model_dump_json(exclude_unset=True), strict=True)
        return answer

    def stream(self, script, **options):
        """The chunks, and per choice what they come to: (content, reasoning, [[id, name, arguments]], finish)."""
        chunks = list(self.client.chat.completions.create(stream=True, **self.request(script, **options)))
        said = {}
        for chunk in chunks:
            ChatCompletionChunk.model_validate_json(chunk.model_dump_json(exclude_unset=True), strict=True)
            for choice in chunk.choices:
                state = said.setdefault(choice.index, ["", "", [], None])
                state[0] += choice.delta.content or ""
                state[1] += getattr(choice.delta, "reasoning_content", None) or ""
                state[3] = choice.finish_reason or state[3]
                for call in choice.delta.tool_calls or []:
                    if call.id is not None:
                        self.assertEqual(call.index, len(state[2]))
                        self.assertEqual(call.type, "function")
                        state[2].append([call.id, call.function.name, ""])
                    state[2][call.index][2] += call.function.arguments
        return chunks, said

    def expect_same(self, script, **options):
        """The stream says what the whole answer says; returns the whole's first choice."""
        whole = self.ask(script, **options)
        _, said = self.stream(script, **options)
        for choice in whole.choices:
            content, reasoning, calls, finish = said[choice.index]
            message = choice.message
            self.assertEqual(content, message.content or "")
            self.assertEqual(reasoning, getattr(message, "reasoning_content", None) or "")
            self.assertEqual([(name, arguments) for _, name, arguments in calls],
                             [(c.function.name, c.function.arguments) for c in message.tool_calls or []])
            self.assertEqual(finish, choice.finish_reason)
        return whole.choices[0]


class Calls(ScriptedServer):
    def test_one_call(self):
        answer = self.ask("one")
        message = answer.choices[0].message
        self.assertIsNone(message.content)
        self.assertEqual(len(message.tool_calls), 1)
        self.assertEqual(message.tool_calls[0].type, "function")
        self.assertTrue(message.tool_calls[0].id.startswith("call_"))
        self.assertEqual(message.tool_calls[0].function.name, "get_weather")
        self.assertEqual(message.tool_calls[0].function.arguments, ARGUMENTS)
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        self.assertEqual(answer.usage.completion_tokens, self.tokens["one"])
        self.expect_same("one")

    def test_arguments_come_in_pieces(self):
        chunks, said = self.stream("one", stream_options={"include_usage": True})
        self.assertEqual(chunks[-1].usage.completion_tokens, self.tokens["one"])
        deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
        self.assertEqual(sum(delta.role is not None for delta in deltas), 1)
        self.assertEqual(len(deltas), self.tokens["one"])  # a chunk a token
        fragments = [call.function.arguments for delta in deltas for call in delta.tool_calls or []]
        self.assertGreater(len([f for f in fragments if f]), 3)
        self.assertEqual("".join(fragments), ARGUMENTS)
        self.assertEqual(len(said[0][2]), 1)

    def test_two_calls_beside_content(self):
        choice = self.expect_same("two")
        self.assertEqual(choice.message.content, "I will look it up.")
        self.assertEqual([c.function.name for c in choice.message.tool_calls], ["get_weather", "search"])
        self.assertEqual(json.loads(choice.message.tool_calls[1].function.arguments),
                         {"query": 'snow </tool_call> "now"'})
        self.assertNotEqual(choice.message.tool_calls[0].id, choice.message.tool_calls[1].id)

    def test_one_call_where_they_may_not_be_parallel(self):
        choice = self.expect_same("two", parallel_tool_calls=False)
        self.assertEqual([c.function.name for c in choice.message.tool_calls], ["get_weather"])
        self.assertEqual(choice.finish_reason, "tool_calls")

    def test_several_choices(self):
        answer = self.ask("two", n=3)
        ids = [call.id for choice in answer.choices for call in choice.message.tool_calls]
        self.assertEqual(len(set(ids)), 6)
        self.expect_same("two", n=3)

    def test_text_stays_text(self):
        for options in ({"tool_choice": "none"}, {"tools": openai.omit}):
            choice = self.expect_same("one", **options)
            self.assertEqual(choice.message.content, CALL)
            self.assertIsNone(choice.message.tool_calls)
            self.assertEqual(choice.finish_reason, "stop")
        for script in ("plain", "broken", "json", "thoughts"):
            choice = self.expect_same(script)
            if script != "thoughts":
                self.assertEqual(choice.message.content, SCRIPTS[script])
                self.assertEqual(choice.finish_reason, "stop")

    def test_ends_within_a_call(self):
        choice = self.expect_same("one", max_tokens=self.tokens["one"] - 8)
        self.assertEqual(choice.finish_reason, "length")
        partial = choice.message.tool_calls[0].function.arguments
        self.assertTrue(partial and ARGUMENTS.startswith(partial), partial)
        choice = self.expect_same("one", stop=["days"])
        self.assertEqual(choice.message.tool_calls[0].function.arguments, '{"city": "Zürich", "')
        self.assertEqual(choice.finish_reason, "tool_calls")
        choice = self.expect_same("one", stop=["</tool_call>"])
        self.assertEqual(choice.message.tool_calls[0].function.arguments, ARGUMENTS)

    def test_the_clients_own_accumulation(self):
        with self.client.chat.completions.stream(**self.request("two")) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion().choices[0]
        self.assertEqual(final.finish_reason, "tool_calls")
        self.assertEqual([c.function.arguments for c in final.message.tool_calls],
                         [ARGUMENTS, '{"query": "snow </tool_call> \\"now\\""}'])

    def test_history(self):
        """What was called and answered is in the next prompt, and the model's own text stands in the prefix cache."""
        first = self.ask("one")
        call = first.choices[0].message.tool_calls[0]
        history = ASK + [first.choices[0].message.model_dump(exclude_none=True),
                         {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": -3}'}]
        again = self.ask("plain", messages=history)
        self.assertGreater(again.usage.prompt_tokens, first.usage.prompt_tokens)
        self.assertGreaterEqual(again.usage.prompt_tokens_details.cached_tokens, 128)

    def test_refusals(self):
        for options, param, words in (
                ({"tools": [{"type": "web_search"}]}, "tools", "web_search"),
                ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools", "'a b'"),
                ({"tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "tool_choice", "nobody"),
                ({"functions": [{"name": "f"}]}, "functions", "'tools'")):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.ask("one", **options)
            self.assertEqual(refused.exception.param, param)
            self.assertIn(words, str(refused.exception))

    def test_the_card_says_so(self):
        self.assertTrue(self.client.models.retrieve("scripted").model_extra["capabilities"]["tools"])


BOUNDED = {"type": "function", "function": {
    "name": "book", "parameters": {"type": "object", "additionalProperties": False, "required": ["city", "nights"],
                                   "properties": {"city": {"enum": ["Zürich", "]}</tool_call>"]},
                                                  "nights": {"type": "integer", "minimum": 1, "maximum": 9}}}}}
CANCEL = {"type": "function", "function": {"name": "cancel"}}


def check_bounded(test, calls):
    for call in calls:
        arguments = json.loads(call.function.arguments)
        if call.function.name == "cancel":
            test.assertEqual(arguments, {})
        else:
            test.assertEqual(call.function.name, "book")
            test.assertEqual(list(arguments), ["city", "nights"])
            test.assertIn(arguments["city"], ["Zürich", "]}</tool_call>"])
            test.assertIn(arguments["nights"], range(1, 10))


class Demands(ScriptedServer):
    """Calls that the model would not make: the grammar holds it to them, whatever it would say."""
    FLAGS = ("--reasoning-parser", "qwen3")

    def test_required(self):
        choice = self.ask("plain", tools=[BOUNDED, CANCEL], tool_choice="required", n=4, seed=3).choices[0]
        self.assertIsNone(choice.message.content)
        names = set()
        for seed in range(6):
            answer = self.ask("thoughts", tools=[BOUNDED, CANCEL], tool_choice="required", seed=seed)
            choice = answer.choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertIsNone(choice.message.content)
            check_bounded(self, choice.message.tool_calls)
            names |= {call.function.name for call in choice.message.tool_calls}
        self.assertEqual(names, {"book", "cancel"})
        self.expect_same("plain", tools=[BOUNDED, CANCEL], tool_choice="required", seed=5)

    def test_named(self):
        for name in ("book", "cancel"):
            choice = self.expect_same("plain", tools=[CANCEL, BOUNDED], seed=1,
                                      tool_choice={"type": "function", "function": {"name": name}})
            self.assertEqual([call.function.name for call in choice.message.tool_calls], [name])
            check_bounded(self, choice.message.tool_calls)
            self.assertEqual(choice.finish_reason, "tool_calls")

    def test_one_where_they_may_not_be_parallel(self):
        for seed in range(4):
            choice = self.ask("plain", tools=[BOUNDED, CANCEL], tool_choice="required", seed=seed,
                              parallel_tool_calls=False).choices[0]
            self.assertEqual(len(choice.message.tool_calls), 1)

    def test_what_the_model_would_call_anyway(self):
        choice = self.expect_same("one", tool_choice="required")
        self.assertEqual(choice.message.tool_calls[0].function.arguments, ARGUMENTS)

    def test_schemas_that_cannot_be_held_to(self):
        broken = {"type": "function", "function": {"name": "f", "parameters": {"type": "nobody"}}}
        with self.assertRaises(openai.BadRequestError) as refused:
            self.ask("plain", tools=[broken], tool_choice="required")
        self.assertEqual(refused.exception.param, "tools")
        self.assertIn('"f"', str(refused.exception))
        self.assertEqual(len(self.ask("plain", tools=[broken], max_tokens=1).choices), 1)


class Thoughts(ScriptedServer):
    FLAGS = ("--reasoning-parser", "qwen3", "--enable-auto-tool-choice")

    def test_thoughts_are_apart(self):
        choice = self.expect_same("thoughts")
        self.assertEqual(choice.message.reasoning_content, "Which city? It was Zürich.")
        self.assertEqual(choice.message.content, "So:")
        self.assertEqual(choice.message.tool_calls[0].function.arguments, ARGUMENTS)

    def test_thoughts_without_tools(self):
        choice = self.expect_same("thoughts", tools=openai.omit)
        self.assertEqual(choice.message.reasoning_content, "Which city? It was Zürich.")
        self.assertEqual(choice.message.content, "So:\n" + CALL)

    def test_thoughts_that_the_prompt_opened(self):
        options = {"extra_body": {"chat_template_kwargs": {"script": "<think>\n"}}, "max_tokens": 3, "temperature": 0}
        message = self.ask("one", **options).choices[0].message
        self.assertFalse(message.content)
        self.assertTrue(message.reasoning_content)


class SpecialMarkers(ScriptedServer):
    """Markers that are special tokens, which decoding leaves out of text."""
    FLAGS = ("--tool-call-parser", "internlm")
    SPECIAL = ("<|action_start|>", "<|plugin|>", "<|action_end|>")
    SCRIPTS = {"call": 'Wait.<|action_start|><|plugin|>\n{"name": "search", "parameters": {"query": "x"}}<|action_end|>'}

    def test_they_are_seen(self):
        choice = self.expect_same("call")
        self.assertEqual(choice.message.content, "Wait.")
        self.assertEqual(choice.message.tool_calls[0].function.name, "search")
        self.assertEqual(choice.message.tool_calls[0].function.arguments, '{"query": "x"}')

    def test_they_are_left_out_where_nothing_is_called(self):
        choice = self.expect_same("call", tools=openai.omit)
        self.assertEqual(choice.message.content, 'Wait.\n{"name": "search", "parameters": {"query": "x"}}')


class Agent(unittest.TestCase):
    """A vision model's loop: tools that answer with images, turn after turn."""

    def test_twenty_turns_with_images(self):
        with tempfile.TemporaryDirectory() as folder:
            for file in CHECKPOINT.iterdir():  # the same checkpoint, with more positions
                if file.is_file():
                    shutil.copy(file, folder)
            config = json.loads((CHECKPOINT / "config.json").read_text())
            text = config.get("text_config", config)
            text["max_position_embeddings"] = 8192
            (Path(folder) / "config.json").write_text(json.dumps(config))
            (Path(folder) / "tools.jinja").write_text(scripted_checkpoint.TEMPLATE)
            server = Server("--served-model-name", "tiny", "--dtype", "float32", "--chat-template",
                            Path(folder) / "tools.jinja", "--max-model-len", "8192", model=folder)
            try:
                client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
                self.walk(client)
                self.demand(client)
            finally:
                self.assertEqual(server.stop(), 0)

    def walk(self, client):
        history = [{"role": "user", "content": "Look at everything."}]
        images = [CHECKPOINT.parent / "images" / name for name in ("small.png", "wide.png")]
        before = 0
        for turn in range(20):
            answer = client.chat.completions.create(model="tiny", messages=history, tools=TOOLS, max_tokens=4,
                                                    temperature=0, extra_body={"chat_template_kwargs": {"script": ""}})
            usage = answer.usage
            self.assertEqual(usage.prompt_tokens_details.image_tokens > 0, turn > 0)
            # All but the last block of what was asked before is not computed again.
            cached = usage.prompt_tokens_details.cached_tokens
            if turn > 0:
                self.assertGreaterEqual(cached, before - 32, turn)
                self.assertLess(cached, usage.prompt_tokens)
            before = usage.prompt_tokens
            arguments = json.dumps({"query": f"picture {turn} <|image_pad|>"})  # a literal placeholder is text
            history += [
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": f"call_{turn}", "type": "function", "function": {"name": "search", "arguments": arguments}}]},
                {"role": "tool", "tool_call_id": f"call_{turn}", "content": [
                    {"type": "text", "text": f"Picture {turn}:"},
                    {"type": "image_url", "image_url": {"url": data_url(images[turn % 2])}}]}]
        self.assertGreater(before, 2000)


    def demand(self, client):
        """Random weights, held to a call about an image."""
        image = {"type": "image_url", "image_url": {"url": data_url(CHECKPOINT.parent / "images/small.png")}}
        answer = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": [image]}], tools=[BOUNDED], tool_choice="required",
            parallel_tool_calls=False, seed=1, extra_body={"chat_template_kwargs": {"script": ""}})
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        check_bounded(self, answer.choices[0].message.tool_calls)


class Templates(unittest.TestCase):
    def test_one_that_cannot_show_tools_is_said(self):
        server = Server("--served-model-name", "tiny")
        try:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            with self.assertRaises(openai.BadRequestError) as refused:
                client.chat.completions.create(model="tiny", messages=ASK, tools=TOOLS)
            self.assertEqual(refused.exception.param, "tools")
            self.assertIn("does not show 'tools'", str(refused.exception))
            self.assertFalse(client.models.retrieve("tiny").model_extra["capabilities"]["tools"])
            answer = client.chat.completions.create(model="tiny", messages=ASK, tools=TOOLS, tool_choice="none",
                                                    max_tokens=1)
            self.assertEqual(len(answer.choices), 1)
        finally:
            server.stop()

    def test_parsers_have_names(self):
        for flag in ("--tool-call-parser", "--reasoning-parser"):
            ended = subprocess.run([os.environ["SACCADE_BINARY"], "serve", "--model", str(CHECKPOINT), flag, "nobody"],
                                   capture_output=True, text=True, timeout=240)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(f"{flag} 'nobody' is not known; ", ended.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
