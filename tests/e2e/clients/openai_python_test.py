"""The official Python client against the real binary. Run by tests/e2e/clients/run."""

import base64
import http.client
import io
import json
import os
import signal
import socket
import threading
import time
import unittest
import urllib.error
import urllib.request
from typing import Annotated, Literal

import openai
import pydantic
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from PIL import Image

from server_under_test import CHECKPOINT, Server, data_url, golden, messages_of

GREEDY = {"temperature": 0, "max_tokens": 64, "extra_body": {"repetition_penalty": 1.0, "ignore_eos": True,
                                                             "return_token_ids": True}}


def post(url, path, body, headers=None):
    """(status, parsed body) of a raw POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=300) as response:
            return response.status, json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def events(url, path, body):
    """The parsed events of a raw stream, which ends in [DONE]."""
    request = urllib.request.Request(url + path, json.dumps({**body, "stream": True}).encode())
    with urllib.request.urlopen(request, timeout=300) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream"), response.headers
        lines = [line[6:] for line in response.read().decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]", lines[-1]
    return [json.loads(line) for line in lines[:-1]]


class Toy(pydantic.BaseModel):
    color: Literal["red", "blue"]
    price: Annotated[int, pydantic.Field(ge=0, le=99)]


class Pet(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: Annotated[int, pydantic.Field(ge=0, le=30)]
    vaccinated: bool
    toys: Annotated[list[Toy], pydantic.Field(max_length=2)]


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--dtype", "float32", "--served-model-name", "tiny", "--allowed-local-media-path",
                            CHECKPOINT.parent / "images", "--max-model-len", "512")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"the server ended with {code}:\n" + "".join(cls.server.log)

    def chat(self, messages, **options):
        return self.client.chat.completions.create(model="tiny", messages=messages, **options)

    def test_answers_are_the_goldens(self):
        for case in ("text", "one_image", "three_images", "multi_turn"):
            record = golden(case)
            answer = self.chat(messages_of(record), **GREEDY)
            self.assertEqual(answer.choices[0].model_extra["token_ids"], record["greedy"], case)
            self.assertEqual(answer.usage.prompt_tokens, len(record["ids"]), case)
            self.assertEqual(answer.usage.completion_tokens, 64)
            self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_videos_are_lists_of_frames(self):
        """vLLM's form and Qwen's, as clients build them; the golden's answer, and a stream that is the same."""
        record = golden("video_odd")
        frames = [base64.b64encode(path.read_bytes()).decode() for path in record["videos"][0]]
        forms = [{"type": "video_url", "video_url": {"url": "data:video/jpeg;base64," + ",".join(frames)}},
                 {"type": "video", "video": ["data:image/png;base64," + frame for frame in frames], "fps": 2.0}]
        for form in forms:
            content = [form if part["type"] == "video" else part for part in record["messages"][0]["content"]]
            messages = [{"role": "user", "content": content}]
            answer = self.chat(messages, **GREEDY)
            self.assertEqual(answer.choices[0].model_extra["token_ids"], record["greedy"])
            self.assertEqual(answer.usage.prompt_tokens_details.model_extra["video_tokens"], 18)
            chunks = self.chat(messages, stream=True, **GREEDY)
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks),
                             answer.choices[0].message.content)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat([{"role": "user", "content": [
                {"type": "video_url", "video_url": {"url": "https://example.org/film.mp4"}}]}])
        self.assertIn("film.mp4", str(refused.exception))

    def test_stream_is_the_whole_answer(self):
        record = golden("one_image")
        whole = self.chat(messages_of(record), **GREEDY)
        text, roles, usage, finish = "", [], None, None
        for chunk in self.chat(messages_of(record), stream=True, stream_options={"include_usage": True}, **GREEDY):
            if not chunk.choices:
                usage = chunk.usage
                continue
            delta = chunk.choices[0].delta
            if delta.role:
                roles.append(delta.role)
            text += delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(roles, ["assistant"])
        self.assertEqual(finish, "length")
        self.assertEqual(usage.completion_tokens, 64)
        self.assertGreater(usage.prompt_tokens_details.image_tokens, 0)

    def test_no_usage_chunk_unless_asked(self):
        for chunk in self.chat([{"role": "user", "content": "Hi"}], stream=True, max_tokens=3):
            self.assertEqual(len(chunk.choices), 1)

    def test_several_choices(self):
        answer = self.chat([{"role": "user", "content": "Hi"}], n=2, seed=5, temperature=1.0, max_tokens=8,
                           extra_body={"ignore_eos": True})
        self.assertEqual([c.index for c in answer.choices], [0, 1])
        self.assertEqual(answer.usage.completion_tokens, 16)
        again = self.chat([{"role": "user", "content": "Hi"}], n=2, seed=5, temperature=1.0, max_tokens=8,
                          extra_body={"ignore_eos": True})
        self.assertEqual([c.message.content for c in answer.choices], [c.message.content for c in again.choices])

    def test_bodies_fit_the_published_types(self):
        """Strictly: a number in place of a string, or a missing member, is an error."""
        image = {"type": "image_url", "image_url": {"url": data_url(CHECKPOINT.parent / "images/small.png")}}
        chat = {"messages": [{"role": "user", "content": [image, {"type": "text", "text": "?"}]}], "max_tokens": 4,
                "temperature": 0, "n": 2, "logprobs": True, "top_logprobs": 2, "ignore_eos": True}
        text = {"prompt": ["one", "two"], "max_tokens": 4, "temperature": 0, "logprobs": 2, "ignore_eos": True}
        usage = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        for extra in ({}, {"metrics": True, "return_token_ids": True}):
            status, body = post(self.server.url, "/v1/chat/completions", {**chat, **extra})
            self.assertEqual(status, 200, body)
            ChatCompletion.model_validate_json(json.dumps(body), strict=True)
            status, body = post(self.server.url, "/v1/completions", {**text, **extra})
            self.assertEqual(status, 200, body)
            Completion.model_validate_json(json.dumps(body), strict=True)
            for options in ({}, usage):
                for event in events(self.server.url, "/v1/chat/completions", {**chat, **extra, **options}):
                    ChatCompletionChunk.model_validate_json(json.dumps(event), strict=True)
                for event in events(self.server.url, "/v1/completions", {**text, **extra, **options}):
                    for choice in event["choices"]:  # published streams have null there, the type does not
                        choice["finish_reason"] = choice["finish_reason"] or "stop"
                    Completion.model_validate_json(json.dumps(event), strict=True)
        card = json.loads(urllib.request.urlopen(self.server.url + "/v1/models/tiny").read())
        Model.model_validate_json(json.dumps(card), strict=True)

    def test_streamed_choices_with_logprobs(self):
        options = dict(n=2, seed=5, temperature=1.0, max_tokens=8, logprobs=True, top_logprobs=1,
                       extra_body={"ignore_eos": True})
        whole = self.chat([{"role": "user", "content": "Hi"}], **options)
        texts, tokens, roles = ["", ""], [[], []], [0, 0]
        for chunk in self.chat([{"role": "user", "content": "Hi"}], stream=True, **options):
            choice = chunk.choices[0]
            texts[choice.index] += choice.delta.content or ""
            roles[choice.index] += choice.delta.role is not None
            tokens[choice.index] += [entry.token for entry in choice.logprobs.content]
        self.assertEqual(roles, [1, 1])
        for i in range(2):
            self.assertEqual(texts[i], whole.choices[i].message.content)
            self.assertEqual(tokens[i], [entry.token for entry in whole.choices[i].logprobs.content])
            self.assertEqual(len(tokens[i]), 8)

    def test_streamed_offsets_are_the_whole_ones(self):
        options = dict(model="tiny", prompt="one two", temperature=0, max_tokens=24, logprobs=1,
                       extra_body={"repetition_penalty": 1.0, "ignore_eos": True})
        whole = self.client.completions.create(**options).choices[0].logprobs.text_offset
        streamed = []
        for chunk in self.client.completions.create(stream=True, **options):
            streamed += chunk.choices[0].logprobs.text_offset
        self.assertEqual(streamed, whole)

    def test_stop_in_a_stream(self):
        record = golden("text")
        whole = self.chat(messages_of(record), **GREEDY).choices[0].message.content
        stop, text, finish = whole[6:9], "", None
        for chunk in self.chat(messages_of(record), stop=[stop], stream=True, **GREEDY):
            text += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual(text, whole[:whole.index(stop)])
        self.assertEqual(finish, "stop")

    def test_stop(self):
        record = golden("text")
        whole = self.chat(messages_of(record), **GREEDY).choices[0].message.content
        stop = whole[6:8]
        cut = self.chat(messages_of(record), stop=stop, **GREEDY).choices[0]
        self.assertEqual(cut.message.content, whole[:whole.index(stop)])
        self.assertEqual(cut.finish_reason, "stop")
        self.assertEqual(cut.model_extra["stop_reason"], stop)

    def test_logprobs(self):
        answer = self.chat(messages_of(golden("text")), logprobs=True, top_logprobs=3, temperature=0, max_tokens=4,
                           extra_body={"repetition_penalty": 1.0, "ignore_eos": True})
        entries = answer.choices[0].logprobs.content
        self.assertEqual(len(entries), 4)
        for entry in entries:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertEqual(entry.logprob, entry.top_logprobs[0].logprob)
            self.assertLessEqual(entry.top_logprobs[1].logprob, entry.top_logprobs[0].logprob)
            self.assertLess(sum(2.718281828 ** t.logprob for t in entry.top_logprobs), 1.0001)

    def test_completions_take_all_four_prompt_forms(self):
        ids = [1, 2, 3, 4]
        create = lambda prompt: self.client.completions.create(
            model="tiny", prompt=prompt, temperature=0, max_tokens=5, extra_body={"repetition_penalty": 1.0})
        self.assertEqual(len(create("abc").choices), 1)
        self.assertEqual(len(create(["abc", "de"]).choices), 2)
        one, two = create(ids), create([ids, ids])
        self.assertEqual(one.choices[0].text, two.choices[1].text)
        self.assertEqual(one.usage.prompt_tokens, 4)
        self.assertEqual(two.usage.prompt_tokens, 8)

    def test_streamed_completion(self):
        options = dict(model="tiny", prompt="one two", temperature=0, max_tokens=12,
                       extra_body={"repetition_penalty": 1.0, "ignore_eos": True})
        whole = self.client.completions.create(**options).choices[0].text
        streamed = "".join(c.choices[0].text for c in self.client.completions.create(stream=True, **options) if c.choices)
        self.assertEqual(streamed, whole)

    def test_local_file_and_its_limits(self):
        ask = lambda url: self.chat([{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "?"}]}], max_tokens=2)
        self.assertEqual(len(ask(f"file://{CHECKPOINT.parent}/images/small.png").choices), 1)
        for url in ("file:///etc/hostname", f"file://{CHECKPOINT.parent}/images/../odd_heads/config.json",
                    "http://127.0.0.1:1/x.png", "http://10.0.0.1/x.png", "ftp://x/y"):
            with self.assertRaises(openai.APIStatusError) as caught:
                ask(url)
            self.assertEqual(caught.exception.status_code, 400, url)

    def test_models(self):
        card = self.client.models.list().data[0]
        self.assertEqual(card.id, "tiny")
        self.assertEqual(card.model_extra["max_model_len"], 512)
        self.assertEqual(self.client.models.retrieve("tiny").id, "tiny")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_errors_name_the_thing(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="other", messages=[{"role": "user", "content": "x"}])
        self.assertIn("other", str(caught.exception))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat([{"role": "user", "content": "word " * 4000}])
        self.assertIn("512", str(caught.exception))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat([{"role": "user", "content": "x"}], temperature=-1)
        self.assertIn("temperature", str(caught.exception))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat([{"role": "user", "content": "x"}], response_format={"type": "yaml"})
        self.assertIn("response_format", str(caught.exception))

    def test_answers_parse_as_the_models_of_response_format(self):
        for seed in range(6):  # weights of chance would go on writing blanks, which JSON lets them
            answer = self.client.chat.completions.parse(
                model="tiny", messages=[{"role": "user", "content": "A pet."}], response_format=Pet, seed=seed,
                temperature=1, max_tokens=300, extra_body={"structured_outputs": {"disable_any_whitespace": True}})
            self.assertIsInstance(answer.choices[0].message.parsed, Pet)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
        with self.client.chat.completions.stream(
                model="tiny", messages=[{"role": "user", "content": "x"}], max_tokens=50,
                extra_body={"structured_outputs": {"choice": ["red", "green"]}}) as stream:
            text = "".join(event.delta for event in stream if event.type == "content.delta")
        self.assertIn(text, ("red", "green"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat([{"role": "user", "content": "x"}], response_format={"type": "json_schema", "json_schema": {
                "name": "n", "schema": {"type": "array", "contains": {"const": 1}}}})
        self.assertEqual(caught.exception.param, "response_format")
        self.assertIn("contains", str(caught.exception))

    def test_errors_before_a_stream_are_errors(self):
        broken = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]
        with self.assertRaises(openai.UnprocessableEntityError) as caught:
            self.chat([{"role": "user", "content": broken}], stream=True)
        self.assertIn("image 0", caught.exception.body["message"])
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat([{"role": "user", "content": "x"}], stream=True, top_p=2)
        self.assertEqual(caught.exception.param, "top_p")
        self.assertEqual(caught.exception.type, "BadRequestError")

    def test_bad_bodies(self):
        url = self.server.url
        for body, status in ((b"{", 400), (b"[]", 400), (b'{"messages": 3}', 400), (b'{"messages": []}', 400),
                             (b"\xff\xfe", 400), (b'{"messages": [{"role": "user"}]}', 400)):
            self.assertEqual(post(url, "/v1/chat/completions", body)[0], status, body)
        status, body = post(url, "/v1/nowhere", {})
        self.assertEqual(status, 404)
        self.assertIn("message", body["error"])

    def test_bad_images(self):
        png = io.BytesIO()
        Image.new("RGB", (40, 40)).save(png, "PNG")
        huge = bytearray(png.getvalue())
        huge[16:24] = (100000).to_bytes(4, "big") * 2
        jpeg = io.BytesIO()
        Image.effect_noise((64, 64), 60).convert("RGB").save(jpeg, "JPEG")
        encode = lambda data: "data:image/png;base64," + base64.b64encode(bytes(data)).decode()
        for url, words in ((encode(huge), "100000"), (encode(jpeg.getvalue()[:400]), "JPEG"), (encode(b"hello"), "image"),
                           ("data:image/png;base64,@@@@", "base64")):
            status, body = post(self.server.url, "/v1/chat/completions", {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}}]}]})
            self.assertIn(status, (400, 413, 422), body)
            self.assertIn(words.lower(), body["error"]["message"].lower())

    def test_tokenize_expands_images(self):
        record = golden("three_images")
        status, body = post(self.server.url, "/tokenize", {"messages": messages_of(record)})
        self.assertEqual(status, 200)
        self.assertEqual(body["tokens"], record["ids"])
        self.assertEqual(body["count"], len(record["ids"]))
        status, body = post(self.server.url, "/tokenize", {"prompt": "How many?"})
        self.assertEqual(post(self.server.url, "/detokenize", {"tokens": body["tokens"]})[1]["prompt"], "How many?")

    def test_literal_placeholder_is_text(self):
        answer = self.chat([{"role": "user", "content": "what is <|image_pad|> or <|vision_start|>?"}], max_tokens=2)
        self.assertEqual(len(answer.choices), 1)

    def test_stage_times(self):
        png = io.BytesIO()  # an image that no other test has sent, so that it is encoded here
        Image.new("RGB", (60, 40), (10, 200, 30)).save(png, "PNG")
        content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"
                                                              + base64.b64encode(png.getvalue()).decode()}}]
        status, body = post(self.server.url, "/v1/chat/completions",
                            {"messages": [{"role": "user", "content": content}], "max_tokens": 2, "metrics": True})
        self.assertEqual(status, 200)
        times = body["metrics"]
        order = ["arrival", "media_done", "preprocessed", "queued", "first_scheduled", "first_token", "finished"]
        values = [times[name] for name in order]
        self.assertEqual(values, sorted(values))
        self.assertLessEqual(times["encode_start"], times["encode_end"])

    def test_metrics_page(self):
        self.chat([{"role": "user", "content": "x"}], max_tokens=1)
        page = urllib.request.urlopen(self.server.url + "/metrics").read().decode()
        for name in ("vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket",
                     "vllm:generation_tokens_total", "saccade:stage_seconds_bucket", "saccade:memory_bytes"):
            self.assertIn(name, page)

    def test_disconnect_frees_the_pages(self):
        host, port = self.server.url[7:].split(":")
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 400, "stream": True,
                           "ignore_eos": True}).encode()
        for _ in range(8):
            connection = socket.create_connection((host, int(port)))
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                               + body)
            connection.recv(100)
            connection.close()
        deadline = time.time() + 300
        while time.time() < deadline:
            page = urllib.request.urlopen(self.server.url + "/metrics").read().decode()
            running = [l for l in page.splitlines() if l.startswith("vllm:num_requests_running")][0]
            if float(running.split()[-1]) == 0:
                return
            time.sleep(0.1)
        self.fail("requests of clients that left still run")


class Flags(unittest.TestCase):
    def test_api_key(self):
        server = Server("--api-key", "secret")
        try:
            self.assertEqual(post(server.url, "/v1/completions", {"prompt": "x", "max_tokens": 1})[0], 401)
            status, _ = post(server.url, "/v1/completions", {"prompt": "x", "max_tokens": 1},
                             {"Authorization": "Bearer secret"})
            self.assertEqual(status, 200)
            self.assertEqual(urllib.request.urlopen(server.url + "/health").status, 200)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_body_limit(self):
        server = Server("--max-body-mib", "1")
        try:
            host = server.url[7:]
            connection = http.client.HTTPConnection(host, timeout=300)
            try:
                connection.request("POST", "/v1/completions", b"x" * (3 << 20))
            except (BrokenPipeError, ConnectionResetError):
                pass  # the answer may come before the body has gone
            self.assertEqual(connection.getresponse().status, 413)
        finally:
            server.stop()

    def test_published_command_lines_start(self):
        lines = [
            ["--trust_remote_code", "--enable_chunked_prefill", "--max_num_batched_tokens", "1024",
             "--disable-log-requests"],
            ["--enable_chunked_prefill", "--max_num_batched_tokens", "1024", "--disable-log-requests",
             "--disable-v2-block-manager", "--use-per-layer-block-manager"],
            ["--block-size", "128", "--max-model-len", "2048", "--enable-prefix-caching", "--enforce-eager"],
            ["--allowed-local-media-path", str(CHECKPOINT), "--limit-mm-per-prompt", "image=10"],
        ]
        for flags in lines:
            server = Server(*flags)
            self.assertEqual(server.stop(), 0, flags)

    def test_running_answer_survives_sigterm(self):
        server = Server()
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        stream = client.completions.create(model=str(CHECKPOINT), prompt="x", max_tokens=200, stream=True,
                                           extra_body={"ignore_eos": True})
        count, finish = 0, None
        for chunk in stream:
            if count == 0:
                server.process.send_signal(signal.SIGTERM)
            count += 1
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual(finish, "length")
        self.assertEqual(server.process.wait(60), 0)
        server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=1)
