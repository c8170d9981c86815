"""Frameworks over the API, each in all that a chat has: answers, images, streams, schemas, tools, a history of calls.
Run by tests/e2e/clients/run; a framework that is not installed is skipped, and the table at the end says so."""

import asyncio
import importlib.metadata
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path
from typing import Literal

import pydantic

from world import (ARGUMENTS, ASK, IMAGE, LOOK, PLAIN, TOLD, TOOL_RESULT, World, image_base64)
from server_under_test import data_url

COLUMNS = ("chat", "image", "stream", "schema", "tools", "history")
WORLD = None
TABLE = {}


def setUpModule():
    global WORLD
    WORLD = World()


def tearDownModule():
    WORLD.close()
    print("\n| client | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    for name, row in TABLE.items():
        print(f"| {name} | " + " | ".join(row.get(column, "-") for column in COLUMNS) + " |")


class Town(pydantic.BaseModel):
    """A town."""
    name: Literal["Bern", "Zürich"]
    size: Literal[1, 2, 3]


TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                   "required": ["city", "days"]}}}


def get_weather(city: str, days: int) -> str:
    """The weather of a city."""
    return json.dumps({"temperature": -3, "city": city, "days": days})


class Framework:
    """Six tests; a subclass says how its client does each. The base is no test by itself."""
    PACKAGE = ""

    @classmethod
    def setUpClass(cls):
        try:
            cls.row = TABLE.setdefault(f"{cls.NAME} {cls.version()}", {})
        except importlib.metadata.PackageNotFoundError:
            TABLE[cls.NAME] = {}
            raise unittest.SkipTest(f"{cls.PACKAGE} is not installed") from None
        cls.begin()

    @classmethod
    def version(cls):
        return importlib.metadata.version(cls.PACKAGE)

    @classmethod
    def begin(cls):
        pass

    def done(self, column):
        self.row[column] = "yes"

    def setUp(self):
        self.row[self._testMethodName.removeprefix("test_")] = "no"

    def test_chat(self):
        self.assertEqual(self.chat(), PLAIN)
        self.done("chat")

    def test_image(self):
        self.assertNotEqual(WORLD.seen(), WORLD.seen(with_image=False))
        self.assertEqual(self.image(), WORLD.seen())
        self.done("image")

    def test_stream(self):
        pieces = [piece for piece in self.stream() if piece]
        self.assertEqual("".join(pieces), PLAIN)
        self.assertGreater(len(pieces), 3)
        self.done("stream")

    def test_schema(self):
        for town in self.schema():
            self.assertIsInstance(Town.model_validate(town if isinstance(town, dict) else town.model_dump()), Town)
        self.done("schema")

    def test_tools(self):
        for name, arguments in self.tools():
            self.assertEqual((name, arguments), ("get_weather", ARGUMENTS))
        self.done("tools")

    def test_history(self):
        self.assertEqual(self.history(), TOLD)
        self.done("history")


class OpenAi(Framework, unittest.TestCase):
    NAME, PACKAGE = "openai (Python)", "openai"

    @classmethod
    def begin(cls):
        cls.text, cls.vision = cls.clients()

    @classmethod
    def clients(cls):
        import openai
        return [openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
                for url in (WORLD.text, WORLD.vision)]

    def ask(self, **options):
        return self.text.chat.completions.create(
            **{"model": "tiny", "messages": [{"role": "user", "content": ASK}], **options})

    def chat(self):
        return self.ask().choices[0].message.content

    def image(self):
        content = [{"type": "text", "text": LOOK}, {"type": "image_url", "image_url": {"url": data_url(IMAGE)}}]
        answer = self.vision.chat.completions.create(model="tiny", messages=[{"role": "user", "content": content}],
                                                     max_tokens=12, temperature=0)
        return answer.choices[0].message.content

    def stream(self):
        return [chunk.choices[0].delta.content for chunk in self.ask(stream=True) if chunk.choices]

    def schema(self):
        parsed = self.text.chat.completions.parse(model="tiny", messages=[{"role": "user", "content": ASK}],
                                                  response_format=Town)
        yield parsed.choices[0].message.parsed
        parsed = self.text.responses.parse(model="tiny", input=ASK, text_format=Town) if self.RESPONSES else parsed
        if self.RESPONSES:
            yield parsed.output_parsed

    RESPONSES = True

    def tools(self):
        for choice in ("auto", "required", {"type": "function", "function": {"name": "get_weather"}}):
            call = self.ask(tools=[TOOL], tool_choice=choice).choices[0].message.tool_calls[0]
            yield call.function.name, json.loads(call.function.arguments)
        name, arguments = "", ""
        for chunk in self.ask(tools=[TOOL], stream=True):
            for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
        yield name, json.loads(arguments)

    def history(self):
        first = self.ask(tools=[TOOL]).choices[0].message
        messages = [{"role": "user", "content": ASK}, first.model_dump(exclude_none=True),
                    {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": TOOL_RESULT}]
        return self.ask(messages=messages, tools=[TOOL]).choices[0].message.content


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class LiteLlmProxy(OpenAi):
    """The openai client through litellm's gateway."""
    NAME, PACKAGE = "litellm (proxy)", "litellm-proxy-extras"
    RESPONSES = False

    @classmethod
    def clients(cls):
        import openai
        cls.folder = tempfile.TemporaryDirectory()
        cls.port, key = free_port(), "sk-" + secrets.token_hex(16)
        models = [{"model_name": name, "litellm_params": {"model": "openai/tiny", "api_base": url + "/v1",
                                                          "api_key": "none"}}
                  for name, url in (("tiny", WORLD.text), ("eyes", WORLD.vision))]
        config = Path(cls.folder.name, "config.yaml")
        config.write_text(json.dumps({"model_list": models}))
        with open(Path(cls.folder.name, "log"), "w") as log:
            cls.process = subprocess.Popen(
                [Path(sys.executable).with_name("litellm"), "--config", config, "--host", "127.0.0.1", "--port",
                 str(cls.port)], stdout=log, stderr=log,
                env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key})
        cls.addClassCleanup(cls.stop)
        for _ in range(1500):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{cls.port}/health/liveliness", timeout=5)
                break
            except OSError:
                if cls.process.poll() is not None:
                    break
                time.sleep(0.2)
        else:
            cls.process.kill()
        if cls.process.poll() is not None:
            raise RuntimeError("litellm did not start:\n" + Path(cls.folder.name, "log").read_text()[-2000:])
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.port}/v1", api_key=key, max_retries=0)
        return client, client

    @classmethod
    def stop(cls):
        cls.process.terminate()
        cls.process.wait(60)
        cls.folder.cleanup()

    def image(self):
        content = [{"type": "text", "text": LOOK}, {"type": "image_url", "image_url": {"url": data_url(IMAGE)}}]
        answer = self.vision.chat.completions.create(model="eyes", messages=[{"role": "user", "content": content}],
                                                     max_tokens=12, temperature=0)
        return answer.choices[0].message.content


class LiteLlm(Framework, unittest.TestCase):
    NAME, PACKAGE = "litellm (SDK)", "litellm"

    @classmethod
    def begin(cls):
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm
        cls.litellm = litellm

    def ask(self, url=None, **options):
        return self.litellm.completion(**{
            "model": "hosted_vllm/tiny", "api_base": (url or WORLD.text) + "/v1", "api_key": "none", "num_retries": 0,
            "messages": [{"role": "user", "content": ASK}], **options})

    def chat(self):
        answers = {self.ask(model=f"{provider}/tiny").choices[0].message.content
                   for provider in ("hosted_vllm", "openai")}
        return answers.pop() if len(answers) == 1 else answers

    def image(self):
        content = [{"type": "text", "text": LOOK}, {"type": "image_url", "image_url": {"url": data_url(IMAGE)}}]
        return self.ask(WORLD.vision, messages=[{"role": "user", "content": content}], max_tokens=12,
                        temperature=0).choices[0].message.content

    def stream(self):
        return [chunk.choices[0].delta.content for chunk in self.ask(stream=True) if chunk.choices]

    def schema(self):
        yield json.loads(self.ask(response_format=Town).choices[0].message.content)

    def tools(self):
        for choice in ("auto", "required"):
            call = self.ask(tools=[TOOL], tool_choice=choice).choices[0].message.tool_calls[0]
            yield call.function.name, json.loads(call.function.arguments)
        whole = self.litellm.stream_chunk_builder(list(self.ask(tools=[TOOL], stream=True)))
        call = whole.choices[0].message.tool_calls[0]
        yield call.function.name, json.loads(call.function.arguments)

    def history(self):
        first = self.ask(tools=[TOOL]).choices[0].message
        messages = [{"role": "user", "content": ASK}, first,
                    {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": TOOL_RESULT}]
        return self.ask(messages=messages, tools=[TOOL]).choices[0].message.content


class LangChain(Framework, unittest.TestCase):
    NAME, PACKAGE = "langchain-openai", "langchain-openai"

    def model(self, url=None, **options):
        from langchain_openai import ChatOpenAI
        return ChatOpenAI(model="tiny", base_url=(url or WORLD.text) + "/v1", api_key="none", max_retries=0, **options)

    def chat(self):
        return self.model().invoke(ASK).content

    def image(self):
        from langchain_core.messages import HumanMessage
        message = HumanMessage(content=[
            {"type": "text", "text": LOOK},
            {"type": "image", "base64": image_base64(), "mime_type": "image/png"}])
        return self.model(WORLD.vision, max_tokens=12, temperature=0).invoke([message]).content

    def stream(self):
        return [chunk.content for chunk in self.model().stream(ASK)]

    def schema(self):
        for method in ("json_schema", "function_calling"):
            yield self.model().with_structured_output(Town, method=method).invoke(ASK)

    def tools(self):
        from langchain_core.tools import tool
        for options in ({}, {"tool_choice": "required"}, {"tool_choice": "get_weather"}):
            answer = self.model().bind_tools([tool(get_weather)], **options).invoke(ASK)
            yield answer.tool_calls[0]["name"], answer.tool_calls[0]["args"]
        whole = None
        for chunk in self.model().bind_tools([tool(get_weather)]).stream(ASK):
            whole = chunk if whole is None else whole + chunk
        yield whole.tool_calls[0]["name"], whole.tool_calls[0]["args"]

    def history(self):
        from langchain_core.messages import HumanMessage
        from langchain_core.tools import tool
        wrapped = tool(get_weather)
        model = self.model().bind_tools([wrapped])
        messages = [HumanMessage(ASK)]
        messages.append(model.invoke(messages))
        messages.append(wrapped.invoke(messages[-1].tool_calls[0]))
        return model.invoke(messages).content


class Instructor(Framework, unittest.TestCase):
    """Schemas are what it is for; the rest goes through the client that it wraps."""
    NAME, PACKAGE = "instructor", "instructor"

    def wrapped(self, mode, url=None):
        import instructor
        import openai
        return instructor.from_openai(openai.OpenAI(base_url=(url or WORLD.text) + "/v1", api_key="none",
                                                    max_retries=0), mode=mode)

    def ask(self, mode=None, url=None, **options):
        import instructor
        return self.wrapped(mode or instructor.Mode.TOOLS, url).chat.completions.create(**{
            "model": "tiny", "messages": [{"role": "user", "content": ASK}], "max_retries": 0, "response_model": None,
            **options})

    def chat(self):
        return self.ask().choices[0].message.content

    def image(self):
        import instructor
        content = [LOOK, instructor.Image.from_path(IMAGE)]
        answer = self.ask(url=WORLD.vision, messages=[{"role": "user", "content": content}], max_tokens=12,
                          temperature=0)
        return answer.choices[0].message.content

    def stream(self):
        return [chunk.choices[0].delta.content for chunk in self.ask(stream=True) if chunk.choices]

    def schema(self):
        import instructor
        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
            yield self.ask(mode, response_model=Town)
        parts = self.wrapped(instructor.Mode.TOOLS).chat.completions.create_partial(
            model="tiny", messages=[{"role": "user", "content": ASK}], max_retries=0, response_model=Town)
        yield list(parts)[-1].model_dump()

    def tools(self):
        call = self.ask(tools=[TOOL]).choices[0].message.tool_calls[0]
        yield call.function.name, json.loads(call.function.arguments)

    def history(self):
        first = self.ask(tools=[TOOL]).choices[0].message
        messages = [{"role": "user", "content": ASK}, {"content": None, **first.model_dump(exclude_none=True)},
                    {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": TOOL_RESULT}]
        return self.ask(messages=messages, tools=[TOOL]).choices[0].message.content


class LlamaIndex(Framework, unittest.TestCase):
    NAME, PACKAGE = "llama-index", "llama-index-llms-openai-like"

    def model(self, url=None, **options):
        from llama_index.llms.openai_like import OpenAILike
        return OpenAILike(model="tiny", api_base=(url or WORLD.text) + "/v1", api_key="none", is_chat_model=True,
                          is_function_calling_model=True, should_use_structured_outputs=True, max_retries=0, **options)

    def chat(self):
        from llama_index.core.llms import ChatMessage
        return self.model().chat([ChatMessage(role="user", content=ASK)]).message.content

    def image(self):
        from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
        message = ChatMessage(role="user", blocks=[TextBlock(text=LOOK), ImageBlock(path=IMAGE,
                                                                                   image_mimetype="image/png")])
        return self.model(WORLD.vision, max_tokens=12, temperature=0).chat([message]).message.content

    def stream(self):
        from llama_index.core.llms import ChatMessage
        return [part.delta for part in self.model().stream_chat([ChatMessage(role="user", content=ASK)])]

    def schema(self):
        from llama_index.core.llms import ChatMessage
        from llama_index.core.prompts import PromptTemplate
        yield self.model().structured_predict(Town, PromptTemplate(ASK))
        yield self.model().as_structured_llm(Town).chat([ChatMessage(role="user", content=ASK)]).raw

    def tool(self):
        from llama_index.core.tools import FunctionTool
        return FunctionTool.from_defaults(get_weather)

    def tools(self):
        model = self.model()
        for options in ({}, {"tool_required": True}):
            answer = model.chat_with_tools([self.tool()], user_msg=ASK, **options)
            call = model.get_tool_calls_from_response(answer)[0]
            yield call.tool_name, call.tool_kwargs

    def history(self):
        """Its own agent: it asks, calls, and asks again."""
        from llama_index.core.agent.workflow import FunctionAgent

        async def walk():
            agent = FunctionAgent(tools=[self.tool()], llm=self.model(), streaming=True)
            return await agent.run(ASK)
        return str(asyncio.run(walk()))


class LlmCommand(Framework, unittest.TestCase):
    NAME, PACKAGE = "llm (command)", "llm"
    PROGRAM = os.environ.get("SACCADE_LLM", "llm")

    @classmethod
    def version(cls):
        try:
            return subprocess.run([cls.PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        except (FileNotFoundError, subprocess.CalledProcessError):
            raise importlib.metadata.PackageNotFoundError(cls.PACKAGE) from None

    @classmethod
    def begin(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        models = [{"model_id": name, "model_name": "tiny", "api_base": url + "/v1", "vision": True,
                   "supports_tools": True, "supports_schema": True, "api_key_name": "none"}
                  for name, url in (("tiny", WORLD.text), ("eyes", WORLD.vision))]
        Path(cls.folder.name, "extra-openai-models.yaml").write_text(json.dumps(models))
        Path(cls.folder.name, "keys.json").write_text('{"none": "none", "openai": "none"}')
        Path(cls.folder.name, "tools.py").write_text(
            'def get_weather(city: str, days: int) -> str:\n    "The weather of a city."\n'
            '    return \'{"temperature": -3}\'\n')

    def command(self, *arguments, model="tiny"):
        ended = subprocess.run([self.PROGRAM, "-m", model, *map(str, arguments)],
                               capture_output=True, text=True, timeout=120,
                               env={**os.environ, "LLM_USER_PATH": self.folder.name}, stdin=subprocess.DEVNULL)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended

    @staticmethod
    def line(text):
        return text.rstrip("\n") + "\n"  # it ends what it prints with a line's end

    def chat(self):
        return self.line(self.command(ASK, "--no-stream").stdout)

    def image(self):
        text = self.command(LOOK, "-a", IMAGE, "--no-stream", "-o", "max_tokens", "12", "-o", "temperature", "0",
                            model="eyes").stdout
        return text[:-1]

    def stream(self):
        process = subprocess.Popen([self.PROGRAM, "-m", "tiny", ASK], stdout=subprocess.PIPE,
                                   env={**os.environ, "LLM_USER_PATH": self.folder.name}, stdin=subprocess.DEVNULL)
        pieces = [piece.decode() for piece in iter(lambda: os.read(process.stdout.fileno(), 7), b"")]
        process.stdout.close()
        self.assertEqual(process.wait(60), 0)
        return [*pieces[:-1], pieces[-1].rstrip("\n") + "\n"] if pieces[-1].strip() else [*pieces[:-2],
                                                                                         self.line(pieces[-2])]

    def schema(self):
        yield json.loads(self.command(ASK, "--schema", json.dumps(Town.model_json_schema()), "--no-stream").stdout)
        yield json.loads(self.command(ASK, "--schema", json.dumps(Town.model_json_schema())).stdout)

    def tools(self):
        for stream in ((), ("--no-stream",)):
            said = self.command(ASK, "--functions", Path(self.folder.name, "tools.py"), "--td", *stream).stderr
            self.assertIn("get_weather(", said)
            self.assertIn("Zürich", said)
            yield "get_weather", ARGUMENTS

    def history(self):
        return self.line(self.command(ASK, "--functions", Path(self.folder.name, "tools.py")).stdout)


class Anthropic(Framework, unittest.TestCase):
    NAME, PACKAGE = "anthropic", "anthropic"
    TOOL = {"name": "get_weather", "description": "The weather of a city.",
            "input_schema": TOOL["function"]["parameters"]}

    @classmethod
    def begin(cls):
        import anthropic
        cls.text, cls.vision = [anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
                                for url in (WORLD.text, WORLD.vision)]

    def ask(self, **options):
        return self.text.messages.create(**{"model": "tiny", "max_tokens": 200,
                                            "messages": [{"role": "user", "content": ASK}], **options})

    def chat(self):
        return self.ask().content[0].text

    def image(self):
        content = [{"type": "text", "text": LOOK}, {"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": image_base64()}}]
        return self.vision.messages.create(model="tiny", max_tokens=12, extra_body={"temperature": 0},
                                           messages=[{"role": "user", "content": content}]).content[0].text

    def stream(self):
        with self.text.messages.stream(model="tiny", max_tokens=200,
                                       messages=[{"role": "user", "content": ASK}]) as stream:
            return list(stream.text_stream)

    def schema(self):
        town = {"name": "town", "input_schema": Town.model_json_schema()}
        yield self.ask(tools=[town], tool_choice={"type": "tool", "name": "town"}).content[0].input
        form = {"format": {"type": "json_schema", "schema": Town.model_json_schema()}}
        yield json.loads(self.ask(extra_body={"output_config": form}).content[0].text)

    def tools(self):
        for choice in ("auto", "any"):
            block = self.ask(tools=[self.TOOL], tool_choice={"type": choice}).content[0]
            yield block.name, block.input

    def history(self):
        first = self.ask(tools=[self.TOOL])
        messages = [{"role": "user", "content": ASK}, {"role": "assistant", "content": first.content},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": first.content[0].id,
                                                  "content": TOOL_RESULT}]}]
        return self.ask(messages=messages, tools=[self.TOOL]).content[0].text


if __name__ == "__main__":
    unittest.main(verbosity=1)
