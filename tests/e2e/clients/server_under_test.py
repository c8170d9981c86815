"""Starts the real binary on a free port for the client tests, and reads the golden files they compare with."""

import base64
import json
import os
import re
import struct
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHECKPOINT = ROOT / "tests/golden/qwen2_vl/odd_heads"


class Server:
    """`saccade serve` with the given flags; .url once it takes requests."""

    def __init__(self, *flags, model=CHECKPOINT, environment=None):
        binary = os.environ["SACCADE_BINARY"]
        argv = [binary, "serve", "--model", str(model), "--port", "0", *map(str, flags)]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        self.log = []
        self.url = None
        ready = threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                found = re.search(r"http://127\.0\.0\.1:\d+", line)
                if found:
                    self.url = found.group(0)
                if "Application startup complete." in line:
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        ready.wait(300)
        if self.process.poll() is not None or self.url is None:
            raise RuntimeError("the server did not start:\n" + "".join(self.log))

    def stop(self):
        self.process.terminate()
        code = self.process.wait(180)
        self.reader.join(10)
        self.process.stderr.close()
        return code


def tensors(path):
    """The 4-byte tensors of a safetensors file as flat lists, and its "golden" record under None."""
    raw = Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    values = {None: json.loads(header.pop("__metadata__")["golden"])}
    for name, entry in header.items():
        kind = {"I32": "i", "F32": "f"}.get(entry["dtype"])
        if kind is None:
            continue
        begin, end = entry["data_offsets"]
        values[name] = list(struct.unpack(f"<{(end - begin) // 4}{kind}", raw[8 + length + begin:8 + length + end]))
    return values


def golden(case, checkpoint=CHECKPOINT):
    """The record of a golden case with its greedy tokens."""
    values = tensors(checkpoint / "golden" / f"{case}.safetensors")
    record = {**values[None], "greedy": values["greedy"], "ids": values["ids"]}
    record["videos"] = [[checkpoint / "golden" / source for source in image["source"]]
                        for image in record["images"] if "fps" in image]
    record["images"] = [checkpoint / "golden" / image["source"] for image in record["images"] if "fps" not in image]
    return record


def data_url(path):
    return "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode()


def messages_of(record):
    """The golden's messages as a client writes them, images as data URLs."""
    images = iter(record["images"])
    made = []
    for message in record["messages"]:
        content = message["content"]
        if not isinstance(content, str):
            content = [{"type": "image_url", "image_url": {"url": data_url(next(images))}}
                       if part["type"] == "image" else part for part in content]
        made.append({"role": message["role"], "content": content})
    return made
