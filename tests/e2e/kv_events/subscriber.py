"""Events of the prefix cache as a router hears them: a subscriber believes what it is told, and the
server's own count of cached tokens says whether it is so."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import msgpack
import zmq

binary, model = sys.argv[1:]
folder = tempfile.mkdtemp()
endpoint = f"ipc://{folder}/events"
replay = f"ipc://{folder}/replay"
config = {"enable_kv_cache_events": True, "endpoint": endpoint, "replay_endpoint": replay, "topic": "kv@here"}

context = zmq.Context()
subscriber = context.socket(zmq.SUB)
subscriber.setsockopt(zmq.SUBSCRIBE, b"kv@")
subscriber.connect(endpoint)

log = open(f"{folder}/log", "w+")
server = subprocess.Popen(
    [binary, "serve", model, "--port", "0", "--threads", "1", "--kv-cache-bytes", "2MiB", "--max-model-len", "512",
     "--kv-events-config", json.dumps(config)],
    stderr=log, stdout=log)


def said():
    log.seek(0)
    return log.read()


for _ in range(3000):
    if "Application startup complete." in said():
        break
    if server.poll() is not None:
        print(said())
        sys.exit(77 if "has no ZeroMQ" in said() else 1)
    time.sleep(0.1)
port = re.search(r"listening on http://127.0.0.1:(\d+)", said()).group(1)


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        text = answer.read()
    return json.loads(text) if text else {}


def complete(prompt, salt=None):
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    if salt:
        body["cache_salt"] = salt
    return post("/v1/completions", body)


held, heard, clears = {}, [], 0
last = None


def believe(event):
    global clears
    kind = event["type"]
    if kind == "BlockStored":
        size = event["block_size"]
        assert len(event["token_ids"]) == size * len(event["block_hashes"]), event
        assert len(event["extra_keys"]) == len(event["block_hashes"]), event
        parent = event["parent_block_hash"]
        for i, name in enumerate(event["block_hashes"]):
            assert (event["group_idx"], name) not in held, "stored twice"
            held[event["group_idx"], name] = (parent, event["token_ids"][i * size:(i + 1) * size], event["extra_keys"][i])
            parent = name
    elif kind == "BlockRemoved":
        for name in event["block_hashes"]:
            del held[event["group_idx"], name]
    else:
        assert kind == "AllBlocksCleared", kind
        clears += 1
        held.clear()


def listen(enough=lambda: True):
    """Believes what comes until it is enough and nothing more has come for a second; two minutes at most."""
    global last
    until = time.monotonic() + 120
    while subscriber.poll(1000) or (not enough() and time.monotonic() < until):
        if not subscriber.poll(0):
            continue
        topic, sequence, payload = subscriber.recv_multipart()
        assert topic == b"kv@here", topic
        number = struct.unpack(">Q", sequence)[0]
        assert last is None or number == last + 1, f"{number} after {last}"
        last = number
        stamp, events, rank = msgpack.unpackb(payload)
        assert abs(stamp - time.time()) < 300 and rank == 0, (stamp, rank)
        heard.append((number, payload))
        for event in events:
            assert event.get("medium", "GPU") == "GPU", event
            believe(event)


def chain(name):
    """The tokens from the prompt's beginning to the end of this block, by what has been told."""
    group, _ = name
    tokens = []
    while name[1] is not None:
        parent, own, _ = held[name]
        tokens = own + tokens
        name = (group, parent)
    return tokens


def longest_chain():
    return max((chain(name) for name in held), key=len, default=[])


try:
    # What is told before the subscription is there is lost; then it begins anew.
    for i in range(120):
        complete(" ".join(f"hello {i * k}" for k in range(30)))
        if subscriber.poll(500):
            break
    post("/reset_prefix_cache", {})
    listen(lambda: clears)
    assert not held, len(held)
    heard, clears = [], 0
    prompt = " ".join(f"word {i}" for i in range(60))
    answer = complete(prompt)
    tokens = post("/tokenize", {"prompt": prompt})["tokens"]
    listen(lambda: len(longest_chain()) >= len(tokens) - 16)
    assert held, "nothing was told"
    longest = longest_chain()
    known = (tokens + answer["choices"][0]["token_ids"])[:len(longest)]
    assert longest == known, "other tokens than those of the prompt"
    assert len(longest) >= len(tokens) - 16, (len(longest), len(tokens))
    # What is believed is there: all of it but the last token, as the server counts.
    cached = complete(prompt)["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= min(len(longest), len(tokens) - 1) // 16 * 16, (cached, len(longest))
    listen()
    before = len(held)
    # Another tenant's blocks have other names.
    complete(prompt, salt="tenant")
    listen(lambda: len(held) >= 2 * before - 1)
    assert len(held) >= 2 * before - 1, (before, len(held))
    # An image's identity stands beside its blocks.
    picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
    post("/v1/chat/completions", {"max_tokens": 24, "ignore_eos": True, "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
        {"type": "text", "text": prompt}]}]})
    listen(lambda: any(keys for _, _, keys in held.values()))
    assert any(keys for _, _, keys in held.values()), "no image was told of"
    # In 2 MiB older blocks make room: they are told of, each of them once.
    for i in range(160):
        complete(f"{i} " + " ".join(f"again {i * k}" for k in range(16)))
    removed = lambda: b"BlockRemoved" in b"".join(payload for _, payload in heard)
    listen(removed)
    assert removed(), "nothing was removed"
    # What was missed can be had again.
    dealer = context.socket(zmq.DEALER)
    dealer.connect(replay)
    dealer.send_multipart([b"", struct.pack(">Q", heard[2][0])])
    again = []
    while True:
        _, number, payload = dealer.recv_multipart()
        if number == b"\xff" * 8:
            assert payload == b""
            break
        again.append((struct.unpack(">Q", number)[0], payload))
    listen(lambda: len(heard) >= len(again) + 2)
    assert again == heard[2:], (len(again), len(heard))
    post("/reset_prefix_cache", {})
    listen(lambda: clears)
    assert clears == 1 and not held, (clears, len(held))
    print(f"{len(heard)} batches, all believed")
finally:
    server.terminate()
    status = server.wait(180)
assert status == 0, said()
