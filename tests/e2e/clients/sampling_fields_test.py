"""vLLM's fields of sampling and prompts through the official Python client: the real binary, and a checkpoint whose next
token is known. Run by tests/e2e/clients/run."""

import unittest

import openai

from openai_python_test import post
from openai_tools_test import SCRIPTS, ScriptedServer
from server_under_test import CHECKPOINT, Server, data_url


class Scripted(ScriptedServer):
    def say(self, name="plain", **options):
        more = {key: options.pop(key) for key in list(options) if key not in ("max_tokens", "n", "logprobs", "stream", "seed")}
        return self.client.completions.create(**{"model": "scripted", "prompt": f"[{name}]", "temperature": 0,
                                                 "max_tokens": 60, **options}, extra_body=more)

    def ids(self, text):
        status, answer = post(self.server.url, "/tokenize", {"prompt": text, "add_special_tokens": False})
        self.assertEqual(status, 200)
        return answer["tokens"]

    def texts(self, **options):
        return [choice.text for choice in self.say(n=8, max_tokens=40, temperature=2.0, seed=5, **options).choices]

    def test_bad_words_do_not_come(self):
        """Of one token and of several, which here are bytes."""
        letters = self.ids("abc")
        free = "".join(self.texts(allowed_token_ids=letters))
        for word in ("a", "ab", "bcb", "  ab"):
            self.assertIn(word.strip(), free)
            for text in self.texts(allowed_token_ids=letters, bad_words=[word]):
                self.assertEqual(len(text), 40)
                self.assertNotIn(word.strip(), text)
        for text in self.texts(allowed_token_ids=letters, bad_words=["ab", "ac", "b"]):
            self.assertRegex(text, "^c*a*$")

    def test_allowed_tokens_alone_come(self):
        allowed = self.ids("abc")
        self.assertEqual(len(allowed), 3)
        for seed in range(4):
            answer = self.say(allowed_token_ids=allowed, max_tokens=8, temperature=2.0, seed=seed)
            self.assertLessEqual(set(answer.choices[0].text), set("abc"))
            self.assertEqual(answer.usage.completion_tokens, 8)
        # A grammar's tokens are those that are allowed.
        held = self.say(allowed_token_ids=allowed, max_tokens=4, structured_outputs={"regex": "[a-z]+"}, temperature=2.0)
        self.assertLessEqual(set(held.choices[0].text), set("abc"))
        with self.assertRaises(openai.BadRequestError) as refused:
            self.say(allowed_token_ids=allowed[:1], bad_words=["a"])
        self.assertIn("allowed_token_ids", str(refused.exception))
        with self.assertRaises(openai.BadRequestError) as refused:
            self.say(allowed_token_ids=[10**6])
        self.assertEqual(refused.exception.param, "allowed_token_ids")

    def test_prompts_are_cut_from_the_left(self):
        answer = self.client.completions.create(model="scripted", prompt="x" * 5000 + "[plain]", max_tokens=60, temperature=0,
                                                echo=True, extra_body={"truncate_prompt_tokens": 3})
        self.assertEqual(answer.usage.prompt_tokens, 3)
        self.assertEqual(answer.choices[0].text, "xx" + SCRIPTS["plain"])  # the script's token is special
        most = self.client.completions.create(model="scripted", prompt="x" * 5000 + "[plain]", max_tokens=60, temperature=0,
                                              extra_body={"truncate_prompt_tokens": -1})
        self.assertEqual(most.usage.prompt_tokens, 4096 - 60)
        self.assertEqual(most.choices[0].text, SCRIPTS["plain"])
        for prompt in ("x" * 5000, "x"):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.client.completions.create(model="scripted", prompt=prompt, extra_body={"truncate_prompt_tokens": 4097})
            self.assertEqual(refused.exception.param, "truncate_prompt_tokens")
        chat = self.client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "x" * 5000}], max_tokens=60, temperature=0,
            extra_body={"truncate_prompt_tokens": 20, "chat_template_kwargs": {"script": "[plain]"}})
        self.assertEqual((chat.usage.prompt_tokens, chat.choices[0].message.content), (20, SCRIPTS["plain"]))

    def test_the_best_of_several(self):
        options = {"temperature": 20.0, "max_tokens": 6, "seed": 3}  # the successor is far above all others
        every = self.say(n=5, logprobs=0, **options)
        means = {choice.text: sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)
                 for choice in every.choices}
        self.assertGreater(len(means), 2)
        order = sorted(means, key=means.get, reverse=True)
        best = self.say(n=2, best_of=5, **options)
        self.assertEqual([choice.text for choice in best.choices], order[:2])
        self.assertEqual([choice.index for choice in best.choices], [0, 1])
        self.assertIsNone(best.choices[0].logprobs)
        self.assertEqual(best.usage.completion_tokens, every.usage.completion_tokens)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.say(best_of=2, stream=True)
        self.assertEqual(refused.exception.param, "best_of")


class Images(unittest.TestCase):
    def test_images_are_not_cut(self):
        server = Server("--served-model-name", "tiny")
        try:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            image = {"type": "image_url", "image_url": {"url": data_url(CHECKPOINT.parent / "images/small.png")}}
            with self.assertRaises(openai.BadRequestError) as refused:
                client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": [image]}],
                                               extra_body={"truncate_prompt_tokens": 3})
            self.assertEqual(refused.exception.param, "truncate_prompt_tokens")
            self.assertIn("images are not cut", str(refused.exception))
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
