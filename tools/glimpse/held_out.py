"""Writes the held-out set: pictures that training never saw, with questions and answers.

python tools/glimpse/held_out.py --out data/glimpse
Four levels of difficulty (data.py's stage), five pictures in ten of a line to read, the rest of the other tasks. Its
answers.jsonl is also a dataset of `saccade bench serve --dataset-name custom`. The same files come out every time,
given the same Pillow and fonts.
"""

import argparse
import io
import json
import random
from pathlib import Path

import data

LEVELS = [0.1, 0.25, 0.4, 0.6]  # what training reached is the last
OTHERS = [data.COUNT, data.COLOUR, data.TOTAL, data.DATE, data.NUMBER]
LARGEST_PNG = 14_000  # bytes; noise does not compress, so such pictures are JPEGs of high quality


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("data/glimpse"))
    parser.add_argument("--pictures", type=int, default=200)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for old in [*args.out.glob("*.png"), *args.out.glob("*.jpg")]:
        old.unlink()
    rows = []
    for i in range(args.pictures):
        rng = random.Random(f"glimpse, held out, {i}")  # training seeds with integers
        level = LEVELS[i % len(LEVELS)]
        task = data.READ if (i // len(LEVELS)) % 2 == 0 else OTHERS[(i // (2 * len(LEVELS))) % len(OTHERS)]
        sample = data.make_sample(rng, level, task)
        encoded = io.BytesIO()
        sample.image.save(encoded, "PNG", optimize=True)
        name = f"{i:03d}-{task}.png"
        if encoded.tell() > LARGEST_PNG:
            encoded = io.BytesIO()
            sample.image.save(encoded, "JPEG", quality=92)
            name = f"{i:03d}-{task}.jpg"
        (args.out / name).write_bytes(encoded.getvalue())
        rows.append({"id": f"{i:03d}", "label": task, "level": level, "image_files": [name],
                     "size": list(sample.image.size), "prompt": sample.question, "reference": sample.answer,
                     "output_tokens": 24})
    (args.out / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    total = sum(f.stat().st_size for f in args.out.iterdir())
    print(f"{args.out}: {len(rows)} pictures, {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
