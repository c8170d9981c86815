"""/v1/embeddings: the official Python client against the real binary, with a small checkpoint and, where
scripts/fetch-minilm has been, with all-MiniLM-L6-v2. Run by tests/e2e/clients/run."""

import base64
import json
import math
import os
import re
import struct
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
from openai.types import CreateEmbeddingResponse

from openai_python_test import post
from server_under_test import ROOT, Server, tensors

MINILM = ROOT / "tests/golden/minilm"
REAL = ROOT / ".cache/minilm"
TEXT = "A saccade is the jump of the eye."


def float32(values):
    return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


class Encoder:
    """What holds for every sentence encoder; a subclass names its files and figures."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--served-model-name", "encoder", "--threads", "2", "--dtype", "float32", model=cls.model)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=300)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"the server ended with {code}:\n" + "".join(cls.server.log)

    def create(self, given, **options):
        return self.client.embeddings.create(model="encoder", input=given, **options)

    def vectors(self, given, **options):
        answer = self.create(given, **options)
        self.assertEqual([entry.index for entry in answer.data], list(range(len(answer.data))))
        for entry in answer.data:
            self.assertEqual(len(entry.embedding), self.dimensions)
        return [entry.embedding for entry in answer.data]

    def ids(self, text):
        return self.client.post("/../tokenize", cast_to=object, body={"prompt": text})["tokens"]

    def refused(self, given, **options):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(given, **options)
        error = caught.exception
        self.assertEqual((error.status_code, error.body["code"], error.type), (400, 400, "BadRequestError"))
        return error

    def test_formats_are_one_vector(self):
        """Unasked, the client sends for base64 and decodes it itself."""
        raw = self.client.embeddings.with_raw_response.create(model="encoder", input=TEXT)
        self.assertIn("base64", raw.http_request.content.decode())
        sent = json.loads(raw.text)["data"][0]["embedding"]
        self.assertEqual(len(base64.b64decode(sent, validate=True)), 4 * self.dimensions)
        unasked = self.vectors(TEXT)[0]
        self.assertAlmostEqual(dot(unasked, unasked), 1, places=5)
        self.assertEqual(self.create(TEXT, encoding_format="base64").data[0].embedding, sent)
        # Decimals of the float form are those of float32, bit for bit.
        written = self.vectors(TEXT, encoding_format="float")[0]
        self.assertEqual(float32(written), tuple(unasked))

    def test_forms_of_input_are_one_vector(self):
        ids = self.ids(TEXT)
        self.assertGreater(len(ids), 4)
        answer = self.create(TEXT)
        one = answer.data[0].embedding
        self.assertEqual((answer.object, answer.model), ("list", "encoder"))
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.total_tokens), (len(ids), len(ids)))
        self.assertEqual(self.vectors([TEXT]), [one])
        self.assertEqual(self.vectors(ids), [one])
        other = self.vectors("Something else")[0]
        self.assertNotEqual(other, one)
        self.assertEqual(self.vectors(["Something else", TEXT]), [other, one])
        self.assertEqual(self.vectors([self.ids("Something else"), ids, ids]), [other, one, one])

    def test_empty_texts_are_texts(self):
        answer = self.create("")
        self.assertEqual(answer.usage.prompt_tokens, 2)  # the two special tokens
        self.assertEqual(self.vectors(["", TEXT, ""]), [answer.data[0].embedding, self.vectors(TEXT)[0],
                                                        answer.data[0].embedding])

    def test_dimensions(self):
        self.assertEqual(self.vectors(TEXT, dimensions=self.dimensions), self.vectors(TEXT))
        error = self.refused(TEXT, dimensions=self.dimensions // 2)
        self.assertEqual(error.param, "dimensions")
        self.assertIn(str(self.dimensions), error.message)

    def test_long_texts(self):
        long = "the picture " * self.longest
        error = self.refused(["short", long])
        self.assertEqual(error.param, "input")
        self.assertIn(f"maximum context length is {self.longest} tokens", error.message)
        self.assertIn(f"requested {2 * self.longest + 2} tokens", error.message)
        cut = self.create(long, extra_body={"truncate_prompt_tokens": -1})
        self.assertEqual(cut.usage.prompt_tokens, self.longest)
        fits = self.ids(long)[:self.longest]
        self.assertEqual(self.create(fits).usage.prompt_tokens, self.longest)
        self.assertEqual(self.refused(fits + [fits[1]]).param, "input")

    def test_errors_say_what_is_wrong(self):
        for given, options, param, words in (
                ([], {}, "input", "input"), ([[]], {}, "input", "no tokens"), ([10 ** 6], {}, "input", "1000000"),
                ([[-1]], {}, "input", "-1"), ([TEXT] * 2049, {}, "input", "2048"), (None, {}, "input", "input"),
                ([TEXT, 3], {}, "input", "input"), ({"a": TEXT}, {}, "input", "input"),
                (TEXT, {"encoding_format": "int8"}, "encoding_format", "int8"),
                (TEXT, {"dimensions": 0}, "dimensions", "dimensions"),
                (TEXT, {"extra_body": {"truncate_prompt_tokens": self.longest + 1}}, "truncate_prompt_tokens",
                 str(self.longest))):
            with self.subTest(given=str(given)[:40], options=options):
                error = self.refused(given, **options)
                self.assertEqual(error.param, param)
                self.assertIn(words, error.message)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.embeddings.create(model="another", input=TEXT)
        self.assertIn("another", caught.exception.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="encoder", messages=[{"role": "user", "content": "x"}])
        self.assertIn("does not support Chat Completions", caught.exception.message)

    def test_scores_are_cosines(self):
        texts = [TEXT, "The eye jumps.", "", "Bread is baked at night."]
        first, *others = self.vectors(texts)
        wanted = [cosine(first, other) for other in others]
        for path in ("/score", "/v1/score"):
            status, body = post(self.server.url, path, {"model": "encoder", "text_1": texts[0], "text_2": texts[1:]})
            self.assertEqual((status, body["object"], [entry["index"] for entry in body["data"]]), (200, "list", [0, 1, 2]))
            for entry, value in zip(body["data"], wanted):
                self.assertAlmostEqual(entry["score"], value, places=6)
            self.assertEqual(body["usage"]["prompt_tokens"], self.create(texts).usage.prompt_tokens)
        # As many and as many: each with its own.
        _, pairs = post(self.server.url, "/score", {"queries": texts[:2], "documents": [texts[0], texts[3]]})
        self.assertAlmostEqual(pairs["data"][0]["score"], 1, places=6)
        order = sorted(range(3), key=lambda i: -wanted[i])
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            status, body = post(self.server.url, path, {"model": "encoder", "query": texts[0], "documents": texts[1:],
                                                        "top_n": 2})
            self.assertEqual((status, [entry["index"] for entry in body["results"]]), (200, order[:2]))
            for entry in body["results"]:
                self.assertAlmostEqual(entry["relevance_score"], wanted[entry["index"]], places=6)
                self.assertEqual(entry["document"]["text"], texts[1 + entry["index"]])
        for path, asked, words in (("/score", {"text_1": ["a", "b"], "text_2": ["a"]}, "'text_1' has 2"),
                                   ("/rerank", {"query": "a"}, "'documents' is missing"),
                                   ("/rerank", {"query": "a", "documents": ["b"], "truncate_prompt_tokens": self.longest + 1},
                                    str(self.longest)),
                                   ("/score", {"text_1": "a", "text_2": "x " * 4 * self.longest}, str(self.longest))):
            status, body = post(self.server.url, path, asked)
            self.assertEqual(status, 400, body)
            self.assertIn(words, body["error"]["message"])
        self.assertEqual(post(self.server.url, "/rerank", {"model": "another", "query": "a", "documents": ["b"]})[0], 404)

    def test_clients_share_steps_and_keep_their_own(self):
        texts = [f"client {i} asks" for i in range(16)]
        alone = [self.vectors(text)[0] for text in texts]
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda text: self.vectors(text)[0], texts * 4))
        self.assertEqual(given, alone * 4)

    def test_bodies_fit_the_published_types(self):
        """Strictly: a number in place of a string, or a missing member, is an error."""
        raw = self.client.embeddings.with_raw_response.create(
            model="encoder", input=[TEXT, ""], encoding_format="float")
        CreateEmbeddingResponse.model_validate_json(raw.text, strict=True)

    def test_bench_similarity_asks_the_server(self):
        pairs = [("Three red squares.", "There are three squares, all red."), ("A blue circle.", "A blue circle."),
                 ("", "A house.")]
        rows = [{"generated_text": given, "answer_text": wanted} for given, wanted in pairs]
        mean = sum(cosine(*self.vectors(list(pair))) for pair in pairs) / len(pairs)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pairs.json"
            path.write_text(json.dumps({"individual_request_metrics": rows}))
            done = subprocess.run([os.environ["SACCADE_BINARY"], "bench", "similarity", str(path), "--embedding-url",
                                   self.server.url], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        figure = re.search(r"embedding cosine\s+(\S+)", done.stdout)
        self.assertIsNotNone(figure, done.stdout)
        self.assertAlmostEqual(float(figure.group(1)), mean, delta=6e-5)


class SmallEncoder(Encoder, unittest.TestCase):
    model = MINILM / "mean_short"
    dimensions = 48
    longest = 24
    batch = [[2, 5 + i % 200, 5 + i // 200, 3] for i in range(2048)]

    def test_the_largest_batch_keeps_its_order(self):
        together = self.vectors(self.batch)
        self.assertEqual(len({tuple(row) for row in together}), 2048)
        for i in (0, 1, 1023, 2047):
            self.assertEqual(self.vectors(self.batch[i])[0], together[i])

    def test_large_batches_wait_for_each_other(self):
        """The queue counts requests: one of 2,048 texts leaves room for the next, without a retry."""
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: self.vectors(self.batch), range(4)))
        for answer in answers:
            self.assertEqual(answer, answers[0])


@unittest.skipUnless((REAL / "model.safetensors").exists(), "the real model is not here; scripts/fetch-minilm gets it")
class RealEncoder(Encoder, unittest.TestCase):
    model = REAL
    dimensions = 384
    longest = 256

    def test_one_hundred_sentences_are_the_references(self):
        sentences = json.loads((MINILM / "sentences.json").read_text())
        stored = tensors(MINILM / "reference.safetensors")
        wanted = [stored["embeddings"][i:i + 384] for i in range(0, 38400, 384)]
        answer = self.create(sentences, extra_body={"truncate_prompt_tokens": -1})
        self.assertEqual(answer.usage.prompt_tokens, sum(stored["lengths"]))
        worst = max(abs(x - y) for entry, row in zip(answer.data, wanted) for x, y in zip(entry.embedding, row))
        self.assertLess(worst, 1e-5)

    def test_likeness_is_likeness(self):
        happy, dog, sunny = self.vectors(["That is a happy person", "That is a happy dog", "Today is a sunny day"])
        self.assertGreater(cosine(happy, dog), cosine(happy, sunny))


if __name__ == "__main__":
    unittest.main(verbosity=1)
