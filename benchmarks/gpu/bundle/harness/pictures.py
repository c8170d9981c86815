"""Folders of pictures that nobody has seen: each another one. JPEG where Pillow is, PNG elsewhere."""
import json
import random
import struct
import subprocess
import sys
import zlib

from .machine import last_line

# In the Python that has Pillow: blurred noise, so that a file is as large as a photograph's and no two are alike.
JPEGS = """
import concurrent.futures, os, random, sys
from PIL import Image
def one(at):
    folder, sides, seed = sys.argv[1], [tuple(map(int, each.split('x'))) for each in sys.argv[3].split(',')], int(sys.argv[4])
    chance = random.Random(seed * 1000003 + at)
    width, height = sides[at % len(sides)]
    small = (max(1, width // 8), max(1, height // 8))
    noise = Image.frombytes('RGB', small, chance.randbytes(3 * small[0] * small[1]))
    noise.resize((width, height), Image.BICUBIC).save(f'{folder}/{at:04}.jpg', quality=85)
with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
    list(pool.map(one, range(int(sys.argv[2])), chunksize=4))
"""


def png(width, height, seed):
    chance = random.Random(seed)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    # One row of noise, again and again with another row's first bytes: small, and another picture for each seed.
    row = chance.randbytes(3 * width)
    rows = b"".join(b"\0" + row[at % 97:] + row[:at % 97] for at in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def make(machine, folder, count, sides, seed=1):
    """`count` pictures of `sides` in turn. Names, in order; what is there already stays."""
    if folder.exists():
        return sorted(each.name for each in folder.iterdir())
    folder.mkdir(parents=True)
    said = subprocess.run([machine.python, "-c", JPEGS, str(folder), str(count),
                           ",".join(f"{width}x{height}" for width, height in sides), str(seed)],
                          capture_output=True, text=True, timeout=120)
    if said.returncode != 0:
        machine.log.write(f"no JPEG by {machine.python} ({last_line(said.stderr)}): pictures are PNG\n")
        for at in range(count):
            (folder / f"{at:04}.png").write_bytes(png(*sides[at % len(sides)], seed * 1000003 + at))
    return sorted(each.name for each in folder.iterdir())


def questions(path, count, words):
    """DocVQA's form: a conversation a line, each of one question and its answer; no two questions are alike."""
    chance = random.Random(5)
    with open(path, "w") as file:
        for at in range(count):
            text = " ".join(chance.choice(WORDS) for _ in range(words))
            file.write(json.dumps({"id": at, "conversations": [
                {"from": "human", "value": f"<image>\n{at}: {text}?"}, {"from": "gpt", "value": "An answer."}]}) + "\n")
    return path


WORDS = "page line word left right above below total name date price colour first last number sum title".split()
assert sys.version_info >= (3, 9), "randbytes"
