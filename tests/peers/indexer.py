"""Dynamo's KV indexer hears two Saccade servers, and says which of them has how much of a prompt.

    indexer.py SACCADE MODEL WORK

The indexer (PyPI: ai-dynamo-runtime) is what a KV-aware router asks: it subscribes to the events of
each engine and keeps a tree of blocks by hashes of its own, made of the token ids that it is told.
So its answer is right only if ids, parents, order, removals and block sizes are. It is held to what
each server itself says of the same prompt: `cached_tokens` of asking again.
"""
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

saccade, model, work = sys.argv[1:]
work = pathlib.Path(work)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(url, body=None, seconds=60):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        text = answer.read()
    return json.loads(text) if text else {}


def until(done, seconds, what):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if done():
                return
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.1)
    sys.exit(f"after {seconds} s: {what}")


class Server:
    """A server whose cache holds some 600 tokens, so that it has to give some back."""

    def __init__(self, number):
        self.number = number
        self.port, self.events, self.replay = free_port(), free_port(), free_port()
        config = {"enable_kv_cache_events": True, "endpoint": f"tcp://127.0.0.1:{self.events}",
                  "replay_endpoint": f"tcp://127.0.0.1:{self.replay}"}
        self.process = subprocess.Popen(
            [saccade, "serve", model, "--served-model-name", "m", "--port", str(self.port), "--threads", "1",
             "--max-model-len", "256", "--enable-prompt-tokens-details", "--kv-cache-bytes", "640KiB", "--block-size", "16",
             "--kv-events-config", json.dumps(config)],
            stdout=open(work / f"indexed-{number}.log", "w"), stderr=subprocess.STDOUT)
        until(lambda: fetch(f"{self.url()}/v1/models"), 120, f"server {number} is not there")

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, ids):
        body = {"model": "m", "prompt": ids, "max_tokens": 1, "temperature": 0, "ignore_eos": True}
        usage = fetch(f"{self.url()}/v1/completions", body)["usage"]
        return (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


failed = 0


def expect(what, had, wanted):
    global failed
    print(f"{'ok    ' if had == wanted else 'FAILED'}  {what}: {had}" + ("" if had == wanted else f", not {wanted}"))
    failed += had != wanted


servers = [Server(1), Server(2)]
indexer_port = free_port()
indexer = subprocess.Popen([sys.executable, "-m", "dynamo.indexer", "--port", str(indexer_port)],
                           stdout=open(work / "dynamo.log", "w"), stderr=subprocess.STDOUT)
url = f"http://127.0.0.1:{indexer_port}"
BLOCK = 16


def known(ids):
    """Tokens of the beginning of `ids` that each server has, by the indexer."""
    scores = fetch(f"{url}/query", {"model_name": "m", "token_ids": ids})["scores"]
    return {server.number: scores.get(str(server.number), {}).get("0", 0) for server in servers}


def prompt(seed, tokens=96):
    return [(seed * 7919 + 31 * i) % 200 + 3 for i in range(tokens)]


try:
    until(lambda: fetch(f"{url}/workers") == [], 30, "the indexer is not there")
    # One is known before it has anything, the other is asked to tell again what has been.
    first, second = servers
    missed = prompt(1)
    second.ask(missed)
    for server in servers:
        fetch(f"{url}/register", {"instance_id": server.number, "model_name": "m", "block_size": BLOCK,
                                  "endpoint": f"tcp://127.0.0.1:{server.events}",
                                  "replay_endpoint": f"tcp://127.0.0.1:{server.replay}"})
    time.sleep(1)
    shared, own = prompt(2), prompt(2, 48) + prompt(3, 48)
    first.ask(shared)
    second.ask(own)
    until(lambda: known(shared)[1] > 0 and known(own)[2] > 0, 10, "nothing is heard")
    time.sleep(0.5)
    expect("a prompt that one has, and its first half, which both have", known(shared), {1: 96, 2: 48})
    expect("the other's", known(own), {1: 48, 2: 96})
    expect("a prompt that nobody has", known(prompt(4)), {1: 0, 2: 0})
    expect("a prompt of before the indexer came", known(missed), {1: 0, 2: 96})
    # Eighty prompts through a cache of 640 tokens: blocks go and come, and both sides agree on which.
    for seed in range(10, 90):
        servers[seed % 2].ask(prompt(seed))
    time.sleep(1)
    agreed, held = 0, 0
    for seed in range(89, 9, -1):
        ids, server = prompt(seed), servers[seed % 2]
        there = known(ids)[server.number]
        if there == 0 and held > 0:
            continue  # asking for what is not there would push out what is
        # The last token of a prompt is always computed.
        cached = server.ask(ids)
        held += there > 0
        agreed += cached == min(there, len(ids) - 1)
        if held == 6:
            break
    expect("of prompts that the indexer knows, those whose cached tokens are as many as it says", agreed, held)
    expect("some were known", held > 2, True)
    gone = sum(known(prompt(seed))[1 + seed % 2] == 0 for seed in range(10, 90))
    expect("most of eighty are not held any more", gone > 60, True)
finally:
    for process in [indexer] + [server.process for server in servers]:
        process.terminate()
    for process in [indexer] + [server.process for server in servers]:
        process.wait(30)
sys.exit(1 if failed else 0)
