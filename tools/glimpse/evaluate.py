"""How well glimpse answers, asked over HTTP, and whether Saccade answers as transformers does.

python tools/glimpse/evaluate.py --saccade build/release/saccade --model models/glimpse --json FILE [--card] [--against-transformers]
Exact match on the held-out set by task, difficulty and picture size; and of its lines to read with the picture at its
own size, at 1/2 and at 1/4 of its area. --card writes the model's README.md from the figures.
"""

import argparse
import base64
import collections
import datetime
import io
import json
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from PIL import Image

import card

SCALES = {"1": 1.0, "1/2": 0.5, "1/4": 0.25}  # of the area
MOST_TOKENS = 24


class Server:
    """`saccade serve` for as long as the `with` lasts."""

    def __init__(self, saccade, model, *flags):
        self.command = [saccade, "serve", "--model", str(model), "--port", "0", "--kv-cache-bytes", "64MiB", *flags]

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT)
        while "startup complete" not in (text := Path(self.log.name).read_text()):
            try:
                self.process.wait(0.1)
                raise SystemExit(f"the server ended:\n{text}")
            except subprocess.TimeoutExpired:
                pass
        self.url = re.search(r"http://[0-9.:]+", text).group()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def answer(self, question, image: bytes):
        body = {"temperature": 0, "max_tokens": MOST_TOKENS, "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(image).decode()}},
            {"type": "text", "text": question}]}]}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)["choices"][0]["message"]["content"]


def shrunk(path, area):
    image = Image.open(path).convert("RGB")
    if area != 1.0:
        side = area ** 0.5
        image = image.resize([max(1, round(s * side)) for s in image.size], Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def share(outcomes):
    return {"n": len(outcomes), "right": sum(outcomes), "exact": sum(outcomes) / len(outcomes)}


def grouped(rows, right, key):
    groups = collections.defaultdict(list)
    for row, outcome in zip(rows, right):
        groups[key(row)].append(outcome)
    return {name: share(outcomes) for name, outcomes in sorted(groups.items())}


def accuracy(server, rows, folder):
    answers = {name: [server.answer(row["prompt"], shrunk(folder / row["image_files"][0], area)) for row in rows]
               for name, area in SCALES.items()}
    figures = {"by_scale": {}}
    for name, given in answers.items():
        right = [a == row["reference"] for a, row in zip(given, rows)]
        figures["by_scale"][name] = {"all": share(right), **grouped(rows, right, lambda row: row["label"])}
    right = [a == row["reference"] for a, row in zip(answers["1"], rows)]
    figures["by_task_and_level"] = grouped(rows, right, lambda row: f"{row['label']}, {row['level']}")
    figures["by_task_and_size"] = grouped(rows, right, lambda row: f"{row['label']}, {row['size'][0]}x{row['size'][1]}")
    return figures, answers["1"]


def transformers_answers(model_path, rows, folder):
    import torch
    from transformers import Qwen2VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    from tokenizers import Tokenizer

    import tokens

    model = Qwen2VLForConditionalGeneration.from_pretrained(model_path, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(model_path / "tokenizer.json"))
    processor = Qwen2VLImageProcessorPil.from_pretrained(model_path)
    end = tokenizer.token_to_id("<|im_end|>")
    answers = []
    for row in rows:
        pixels = processor(images=[Image.open(folder / row["image_files"][0]).convert("RGB")], return_tensors="pt")
        cells = int(pixels["image_grid_thw"].prod()) // 4
        ids = torch.tensor([tokenizer.encode(tokens.prompt_text(row["prompt"], cells)).ids])
        kinds = (ids == model.config.image_token_id).int()
        with torch.no_grad():
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=kinds,
                                 pixel_values=pixels["pixel_values"], image_grid_thw=pixels["image_grid_thw"],
                                 do_sample=False, max_new_tokens=MOST_TOKENS, eos_token_id=end, pad_token_id=end)
        answers.append(tokenizer.decode(out[0, ids.shape[1]:].tolist()))
    return answers


def against_transformers(args, rows, folder, default_answers):
    with Server(args.saccade, args.model, "--dtype", "float32") as server:
        exact = [server.answer(row["prompt"], (folder / row["image_files"][0]).read_bytes()) for row in rows]
    wanted = transformers_answers(args.model, rows, folder)
    differing = [row["id"] for row, a, b in zip(rows, exact, wanted) if a != b]
    return {"pictures": len(rows), "float32_differs": differing,
            "default_dtype_differs": [row["id"] for row, a, b in zip(rows, default_answers, wanted) if a != b]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saccade", default="build/release/saccade")
    parser.add_argument("--model", type=Path, default=Path("models/glimpse"))
    parser.add_argument("--held-out", type=Path, default=Path("data/glimpse"))
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--card", action="store_true", help="write MODEL/README.md")
    parser.add_argument("--against-transformers", action="store_true")
    parser.add_argument("--limit", type=int, help="only the first pictures")
    args = parser.parse_args()
    rows = [json.loads(line) for line in (args.held_out / "answers.jsonl").read_text().splitlines()][:args.limit]
    with Server(args.saccade, args.model) as server:
        figures, answers = accuracy(server, rows, args.held_out)
    figures |= {"pictures": len(rows), "date": datetime.date.today().isoformat(),
                "bytes": (args.model / "model.safetensors").stat().st_size}
    if args.against_transformers:
        figures["against_transformers"] = against_transformers(args, rows, args.held_out, answers)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    text = card.written(figures)
    if args.card:
        (args.model / "README.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
