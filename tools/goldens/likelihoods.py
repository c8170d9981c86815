"""Log-probabilities of prompts' own tokens, and beams: tests/golden/likelihoods.json.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/likelihoods.py

Of the prompts of checkpoints that the other generators made, all from transformers' logits in float32:
  tokens   of each token of the prompt but the first, its log-probability, how many tokens are as likely or likelier, and
           the five likeliest
  beams    what vLLM's beam search makes of these logits: in each step every beam gives its 2 x width likeliest tokens;
           those that end an answer complete one, the `width` best of the others go on; at the end the best of all by
           (sum of log-probabilities) / (tokens of prompt and answer, without the ending one) ^ length_penalty
"""

import json
from pathlib import Path

import torch
import transformers
from PIL import Image
from transformers import AutoModelForCausalLM

import golden
import qwen2_vl
import qwen_vision

ROOT = Path(__file__).resolve().parents[2] / "tests/golden"
LISTED = 5
TEXTS = ["llama3/plain", "qwen2/odd_heads"]
CASES = ["text", "multi_turn"]
BEAMS = [(2, 10, 1.0), (3, 14, 0.0), (4, 8, 2.0)]  # width, max_tokens, length_penalty


def scored(logits: torch.Tensor, ids: list[int]) -> list:
    rows = logits.float().log_softmax(-1)
    tokens = []
    for row, token in zip(rows[:-1], ids[1:], strict=True):
        likeliest = row.topk(LISTED)
        tokens.append({"logprob": round(float(row[token]), 5), "rank": int((row >= row[token]).sum()),
                       "top": likeliest.indices.tolist(), "top_logprobs": [round(x, 5) for x in likeliest.values.tolist()]})
    return tokens


def beams(last_row, ids: list[int], ends: list[int], width: int, length: int, penalty: float) -> dict:
    """last_row(ids so far) -> logits [vocab]. `gap`: how near two candidates ever came to changing places."""
    live, complete, gap = [([], 0.0)], [], 1.0
    for _ in range(length):
        candidates = []
        for tokens, total in live:
            likeliest = last_row(ids + tokens).float().log_softmax(-1).topk(2 * width)
            for token, logprob in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
                if token in ends:
                    complete.append((tokens, total + logprob, "stop"))
                else:
                    candidates.append((tokens + [token], total + logprob))
        candidates.sort(key=lambda beam: -beam[1])
        gap = min(gap, candidates[width - 1][1] - candidates[width][1])
        live = candidates[:width]
    complete += [(tokens, total, "length") for tokens, total in live]
    score = {id(beam): beam[1] / (len(ids) + len(beam[0])) ** penalty for beam in complete}
    complete.sort(key=lambda beam: -score[id(beam)])
    order = [score[id(beam)] for beam in complete[:width + 1]]
    gap = min([gap, *((a - b) / abs(a) for a, b in zip(order, order[1:]))])
    return {"width": width, "max_tokens": length, "length_penalty": penalty, "gap": gap,
            "best": [{"tokens": tokens, "logprob": round(total, 4), "finish_reason": reason}
                     for tokens, total, reason in complete[:width]]}


def made(checkpoint: str, case: str, ids: list[int], forward, ends: list[int]) -> dict:
    """forward(ids) -> logits [ids, vocab]."""
    found = []
    for form in BEAMS:
        try:
            found.append(beams(lambda so_far: forward(so_far)[-1], ids, ends, *form))
        except ValueError as error:  # a beam came to an image's placeholder, which transformers does not embed
            print(f"{checkpoint} {case}: {error}")
    print(f"{checkpoint} {case}: {len(ids)} tokens, gaps {[format(beam['gap'], '.1e') for beam in found]}, "
          f"ends {[[beam['finish_reason'] for beam in form['best']] for form in found]}", flush=True)
    return {"checkpoint": checkpoint, "case": case, "ids": ids, "tokens": scored(forward(ids), ids),
            "beams": [{key: value for key, value in form.items() if key != "gap"} for form in found if form["gap"] > 5e-4]}


@torch.no_grad()
def main() -> None:
    prompts = []
    for checkpoint in TEXTS:
        model = AutoModelForCausalLM.from_pretrained(ROOT / checkpoint, **golden.EXACTLY).eval()
        ends = json.loads((ROOT / checkpoint / "generation_config.json").read_text())["eos_token_id"]
        for case in CASES:
            ids = golden.read_file(ROOT / checkpoint / f"golden/{case}.safetensors")["ids"].tolist()
            prompts.append(made(checkpoint, case, ids,
                                lambda so_far: model(torch.tensor([so_far]), use_cache=False).logits[0], ends))
    checkpoint = "qwen2_vl/odd_heads"
    reference = qwen_vision.Reference(qwen2_vl.FAMILY, ROOT / checkpoint)
    ends = json.loads((ROOT / checkpoint / "generation_config.json").read_text())["eos_token_id"]
    for case in ("one_image", "three_images"):
        names = [part for _, parts in qwen_vision.CASES[case] for part in parts if part in qwen_vision.PICTURES]
        pictures = [Image.open(ROOT / "qwen2_vl/images" / name).convert("RGB") for name in names]
        images = reference.processor(pictures, return_tensors="pt")
        ids = golden.read_file(ROOT / checkpoint / f"golden/{case}.safetensors")["ids"].tolist()
        prompts.append(made(checkpoint, case, ids, lambda so_far: reference.forward(so_far, images).logits[0], ends))
    record = {"transformers": transformers.__version__, "torch": torch.__version__, "prompts": prompts}
    text = json.dumps(record, separators=(",", ":")).replace('{"logprob"', '\n{"logprob"').replace('{"checkpoint"', '\n{"checkpoint"')
    (ROOT / "likelihoods.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
