"""/openapi.json against what the real binary answers. Run by tests/e2e/clients/run."""

import json
import unittest
import urllib.error
import urllib.request

from server_under_test import CHECKPOINT, ROOT, Server

METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH")


def ask(url, method):
    """(status, message) of a request without a body."""
    data = b"{}" if method in ("POST", "PUT", "PATCH") else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as response:
            response.read()
            return response.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Description:
    def test_every_path_is_there_with_its_methods(self):
        server = Server("--served-model-name", "tiny", *self.FLAGS, model=self.MODEL)
        try:
            with urllib.request.urlopen(server.url + "/openapi.json") as response:
                document = json.load(response)
            self.assertEqual(document["openapi"], "3.1.0")
            self.assertLessEqual(self.PATHS, set(document["paths"]))
            schemas = document["components"]["schemas"]
            for path, operations in document["paths"].items():
                for method in METHODS:
                    status, message = ask(server.url + path.replace("{id}", "nobody"), method)
                    if method.lower() not in operations:
                        # A path that an id fits too is the id's for its methods.
                        of_id = document["paths"].get(path.rsplit("/", 1)[0] + "/{id}", {})
                        if path.rsplit("/", 1)[1] != "{id}" and method.lower() in of_id:
                            continue
                        self.assertEqual(status, 405, f"{method} {path}: {message}")
                        continue
                    self.assertNotEqual(status, 405, f"{method} {path}")
                    self.assertNotIn("there is no /", message)
                    self.assertLess(status, 500, message)
                    operation = operations[method.lower()]
                    self.assertTrue(operation["summary"], path)
                    if "400" in operation["responses"]:
                        self.assertIn("does not support", message)
                    if "requestBody" in operation:
                        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                        self.assertIn("model", schemas[reference.rsplit("/", 1)[1]]["properties"])
            self.assertIn("there is no /nowhere", ask(server.url + "/nowhere", "GET")[1])
        finally:
            self.assertEqual(server.stop(), 0)


class Generation(Description, unittest.TestCase):
    MODEL = CHECKPOINT
    FLAGS = ()
    PATHS = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/{id}", "/v1/messages",
             "/v1/responses/{id}/input_items", "/tokenize", "/v1/models/{id}", "/load", "/metrics", "/openapi.json"}


class Embedding(Description, unittest.TestCase):
    MODEL = ROOT / "tests/golden/minilm/mean_short"
    FLAGS = ()
    PATHS = {"/v1/embeddings", "/v1/score", "/rerank", "/v2/rerank", "/v1/chat/completions", "/load", "/openapi.json"}


if __name__ == "__main__":
    unittest.main(verbosity=1)
