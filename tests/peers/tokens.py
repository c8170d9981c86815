"""Greedy tokens of two servers of one checkpoint, by id: tokens.py REFERENCE_URL URL MODEL

Text and an image that no processor resizes must give the same ids. A resized one is shown and not judged: vLLM's
processor resizes with torch, Saccade as Pillow does, and logprobs then differ by up to 6e-3.
"""
import base64
import json
import struct
import sys
import urllib.request
import zlib


def png(width, height, seed):
    """Noise in large blocks, made without a library."""
    state, rows = seed, []
    for y in range(height):
        row = bytearray([0])
        for x in range(width):
            value = (x // 16 * 73856093 ^ y // 16 * 19349663 ^ state) & 0xFFFFFF
            row += bytes([value >> 16, value >> 8 & 255, value & 255])
        rows.append(bytes(row))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")


def ask(url, model, content):
    body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 64, "temperature": 0,
            "ignore_eos": True, "logprobs": True, "return_token_ids": True}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as response:
        answer = json.load(response)
    choice = answer["choices"][0]
    return (answer["usage"]["prompt_tokens"], choice["token_ids"],
            [entry["logprob"] for entry in choice["logprobs"]["content"]])


def image(width, height, seed):
    data = base64.b64encode(png(width, height, seed)).decode()
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}


def main():
    reference, url, model = sys.argv[1:4]
    text = {"type": "text", "text": "Tell me what a saccade is, and why eyes make them."}
    cases = [("text", [text], True), ("image 224x224, not resized", [image(224, 224, 1), text], True),
             ("two images, not resized", [image(112, 56, 2), image(56, 112, 3), text], True),
             ("image 300x200, resized", [image(300, 200, 4), text], False)]
    print("| request | prompt tokens | equal ids | largest logprob difference |\n|---|---|---|---|")
    wrong = 0
    for name, content, exact in cases:
        expected, got = ask(reference, model, content), ask(url, model, content)
        equal = next((i for i, (a, b) in enumerate(zip(expected[1], got[1])) if a != b), min(len(expected[1]), len(got[1])))
        difference = max((abs(a - b) for a, b in zip(expected[2][:equal], got[2][:equal])), default=float("nan"))
        print(f"| {name} | {expected[0]}/{got[0]} | {equal} of {len(expected[1])} | {difference:.1e} |")
        if expected[0] != got[0] or (exact and expected[1] != got[1]):
            wrong += 1
    sys.exit(f"{wrong} requests differ" if wrong else 0)


if __name__ == "__main__":
    main()
