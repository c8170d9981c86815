#!/usr/bin/env python3
"""Sentences a second: `saccade serve` over HTTP and sentence-transformers in its own process, the same checkpoint, the
same sentences, the same number of threads, in turns. Prints Markdown.

    compare.py --saccade build/release/saccade --model .cache/minilm --dtype float32 --batch 32

Needs sentence-transformers. Batch 1 asks for one sentence at a time and waits for it.
"""
import argparse
import base64
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import time

import numpy
import sentence_transformers
import torch

WORDS = """the of and to in is was for that on as with it by from at are this be an which have or has one not were but
their its also two first new more time people after other world year about there into would only house over water light
between river small large street market morning window garden picture answer question engine language memory station
green yellow blue white square circle line number city country school family music paper table letter summer winter
mountain island ocean history science story doctor teacher driver painter writer walks reads sees finds builds opens
quickly slowly never often perhaps because although during without against through across toward beneath beyond""".split()


def sentences(count):
    """Of 3 to 60 words, most of about 15."""
    draw = random.Random(20)
    return [" ".join(draw.choices(WORDS, k=min(60, max(3, round(draw.lognormvariate(2.7, 0.5)))))).capitalize() + "."
            for _ in range(count)]


class Saccade:
    """The server, and a client with one kept connection."""

    def __init__(self, args):
        command = [args.saccade, "serve", "--model", args.model, "--port", "0", "--threads", str(args.threads),
                   "--dtype", args.dtype]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                self.connection = http.client.HTTPConnection(found.group(1), timeout=300)
            if "startup complete" in line:
                return
        raise RuntimeError("the server did not start")

    def encode(self, texts, batch):
        rows = []
        for begin in range(0, len(texts), batch):
            body = json.dumps({"input": texts[begin:begin + batch], "encoding_format": "base64"})
            self.connection.request("POST", "/v1/embeddings", body)
            answer = json.loads(self.connection.getresponse().read())
            rows += [numpy.frombuffer(base64.b64decode(entry["embedding"]), numpy.float32) for entry in answer["data"]]
        return numpy.stack(rows)

    def tokens(self, texts):
        self.connection.request("POST", "/v1/embeddings", json.dumps({"input": texts}))
        return json.loads(self.connection.getresponse().read())["usage"]["prompt_tokens"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def reference(args):
    torch.set_num_threads(args.threads)
    model = sentence_transformers.SentenceTransformer(
        args.model, device="cpu", model_kwargs={"dtype": getattr(torch, args.dtype)})
    # As it is called by its users: it sorts by length, so that batches need little padding.
    return lambda texts, batch: numpy.float32(model.encode(
        texts, batch_size=batch, show_progress_bar=False, convert_to_tensor=True).float().numpy())


def rate(encode, texts, batch):
    begin = time.perf_counter()
    rows = encode(texts, batch)
    return len(texts) / (time.perf_counter() - begin), rows


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saccade", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"

    texts = sentences(args.sentences)
    server = Saccade(args)
    peer = reference(args)
    try:
        tokens = sum(server.tokens(texts[i:i + 500]) for i in range(0, len(texts), 500))
        rates, theirs = [], []
        for run in range(-1, args.runs):  # the first warms both up
            mine, rows = rate(server.encode, texts if run >= 0 else texts[:100], args.batch)
            other, wanted = rate(peer, texts if run >= 0 else texts[:100], args.batch)
            if run >= 0:
                rates.append(mine)
                theirs.append(other)
    finally:
        server.stop()
    cosine = (rows * wanted).sum(1) / numpy.linalg.norm(rows, axis=1) / numpy.linalg.norm(wanted, axis=1)
    ratios = [a / b for a, b in zip(rates, theirs)]
    print(f"{len(texts)} sentences, {tokens} tokens; smallest cosine between the two {cosine.min():.6f}")
    print(f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}")
    print("| dtype | batch | threads | Saccade, sentences/s | sentence-transformers | ratio of a pair |\n|---|---|---|---|---|---|")
    print(f"| {args.dtype} | {args.batch} | {args.threads} | {spread(rates)} | {spread(theirs)} "
          f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")


if __name__ == "__main__":
    main()
