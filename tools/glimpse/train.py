"""Trains glimpse. Resumable: run it again with the same --out and it goes on.

python tools/glimpse/train.py --out /tmp/glimpse --minutes 120
The curriculum's stage rises as long as dense and text losses keep up; see card in models/glimpse/README.md.
"""

import argparse
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import checkpoint
import data
import net
import tokens

MEAN = np.array(checkpoint.MEAN, np.float32)
STD = np.array(checkpoint.STD, np.float32)


def patches(image):
    """[patches, 588] in Qwen2-VL's order, as Qwen2VLImageProcessorPil makes them, of one frame of the two."""
    x = (np.asarray(image, np.float32) / 255 - MEAN) / STD
    rows, cols = x.shape[0] // 14, x.shape[1] // 14
    x = x.reshape(rows // 2, 2, 14, cols // 2, 2, 14, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    return x.reshape(rows * cols, -1)


def collate(samples, tokenizer):
    cells = samples[0].cells.shape[0] * samples[0].cells.shape[1]
    pad = tokenizer.token_to_id("<|endoftext|>")
    rows = []
    for sample in samples:
        prompt = tokenizer.encode(tokens.prompt_text(sample.question, cells)).ids
        answer = tokenizer.encode(sample.answer + "<|im_end|>").ids
        rows.append((prompt, answer))
    width = max(len(p) + len(a) for p, a in rows)
    ids = np.full((len(rows), width), pad)
    labels = np.full((len(rows), width), -100)
    for i, (prompt, answer) in enumerate(rows):
        ids[i, :len(prompt) + len(answer)] = prompt + answer
        labels[i, len(prompt):len(prompt) + len(answer)] = answer
    height, width_cells = samples[0].cells.shape[:2]
    return {
        "ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels),
        "pixels": torch.from_numpy(np.concatenate([patches(s.image) for s in samples])),
        "grid": torch.tensor([[1, height * 2, width_cells * 2]] * len(samples)),
        "cells": torch.from_numpy(np.stack([s.cells for s in samples]).reshape(-1, data.SLOTS)),
        "page": torch.tensor(samples[0].task == data.PAGE),
        "order": torch.from_numpy(np.stack([s.order for s in samples]).reshape(-1)),
    }


def positions(ids, grid, image_token):
    """M-RoPE positions of a batch whose rows all have one picture of one size at one place."""
    rows, cols = int(grid[0, 1]) // 2, int(grid[0, 2]) // 2
    start = int((ids[0] == image_token).nonzero()[0])
    length = ids.shape[1]
    text = torch.arange(length)
    out = text.repeat(3, 1)
    r, c = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    span = slice(start, start + rows * cols)
    out[0, span] = start
    out[1, span] = start + r.flatten()
    out[2, span] = start + c.flatten()
    after = start + rows * cols
    out[:, after:] = torch.arange(length - after) + start + max(rows, cols)
    return out[:, None].expand(3, ids.shape[0], length)


def answer_loss(model, batch, vision, image_token):
    """Cross entropy of the answers' tokens, and the share that is right."""
    language = model.model.language_model
    embeds = language.embed_tokens(batch["ids"])
    mask = (batch["ids"] == image_token)[..., None].expand_as(embeds)
    embeds = embeds.masked_scatter(mask, vision.to(embeds.dtype))
    places = positions(batch["ids"], batch["grid"], image_token).to(embeds.device)
    hidden = language(inputs_embeds=embeds, position_ids=places).last_hidden_state
    wanted = batch["labels"][:, 1:] >= 0
    logits = model.lm_head(hidden[:, :-1][wanted])
    target = batch["labels"][:, 1:][wanted]
    return F.cross_entropy(logits.float(), target), (logits.argmax(-1) == target).float().mean()


class Batches(torch.utils.data.IterableDataset):
    def __init__(self, tokenizer_json, batch, stage, seed):
        self.tokenizer_json, self.batch, self.stage, self.seed = tokenizer_json, batch, stage, seed

    def __iter__(self):
        from tokenizers import Tokenizer
        torch.set_num_threads(1)
        tokenizer = Tokenizer.from_str(self.tokenizer_json)
        info = torch.utils.data.get_worker_info()
        rng = random.Random(self.seed * 1000 + (info.id if info else 0))
        while True:
            # Easier pictures stay in the mix; a batch has one size, so tasks that share it are drawn together.
            stage = self.stage.value if rng.random() < 0.8 else rng.uniform(0, self.stage.value)
            # Full pages teach the eye; they are cheap, because the language part has nothing to do with them.
            task = data.PAGE if rng.random() < 0.25 else None
            first = data.make_sample(rng, stage, task)
            samples = [first]
            while len(samples) < self.batch:
                task = first.task
                if task in (data.TOTAL, data.DATE, data.NUMBER):
                    task = rng.choice([data.TOTAL, data.DATE, data.NUMBER])
                elif task in (data.COUNT, data.COLOUR):
                    task = rng.choice([data.COUNT, data.COUNT, data.COUNT, data.COLOUR])
                samples.append(data.make_sample(rng, stage, task, first.image.size))
            yield collate(samples, tokenizer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1.2e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--most", type=float, default=1.0, help="the curriculum's last stage")
    parser.add_argument("--cool", type=float, default=0.25, help="last share of the time, in which the rate falls to 0")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    tokenizer = tokens.build()
    (args.out / "tokenizer.json").write_text(tokenizer.to_str())
    model = net.make(tokenizer).to(device)
    heads = net.DenseHeads().to(device)
    everything = list(model.named_parameters()) + list(heads.named_parameters())
    decay = [p for n, p in everything if p.ndim > 1]
    plain = [p for n, p in everything if p.ndim <= 1]
    # Muon for the matrices inside the blocks; what maps from or to pictures, tokens and classes stays with AdamW.
    inner = [p for n, p in everything if p.ndim == 2 and (".blocks." in n or ".layers." in n or ".merger." in n)]
    chosen = {id(p) for p in inner}
    outer = [p for p in decay if id(p) not in chosen]
    optimisers = [
        torch.optim.Muon(inner, lr=args.rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([{"params": outer, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0}],
                          lr=args.rate, betas=(0.9, 0.98)),
    ]
    state = {"step": 0, "stage": 0.0, "seen": 0}
    saved = args.out / "state.pt"
    if saved.exists():
        loaded = torch.load(saved, map_location=device, weights_only=False)
        model.load_state_dict(loaded["model"])
        heads.load_state_dict(loaded["heads"])
        for optimiser, inside in zip(optimisers, loaded.get("optimisers", [])):
            optimiser.load_state_dict(inside)
        state = loaded["state"]
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters on {device}", flush=True)

    stage = torch.multiprocessing.get_context("fork").Value("d", state["stage"])
    batches = iter(torch.utils.data.DataLoader(
        Batches(tokenizer.to_str(), args.batch, stage, state["seen"] + 17), batch_size=None,
        num_workers=args.workers, prefetch_factor=4))
    image_token = tokenizer.token_to_id("<|image_pad|>")
    began, ema, last_print = time.time(), {}, time.time()

    def save():
        torch.save({"model": model.state_dict(), "heads": heads.state_dict(), "optimisers": [o.state_dict() for o in optimisers],
                    "state": state}, args.out / "state.tmp")
        (args.out / "state.tmp").rename(saved)

    while (elapsed := (time.time() - began) / 60) < args.minutes:
        batch = {k: v.to(device) for k, v in next(batches).items()}
        left = 1 - elapsed / args.minutes
        rate = args.rate * min(1.0, (state["step"] + 1) / 200) * min(1.0, left / args.cool)
        for group in [group for optimiser in optimisers for group in optimiser.param_groups]:
            group["lr"] = rate
        with torch.autocast(device, torch.bfloat16):
            vision = model.model.visual(batch["pixels"], grid_thw=batch["grid"]).pooler_output
            characters, places, hit = heads(vision, batch["cells"], batch["order"])
            text, right = torch.zeros(()), None
            if not batch["page"]:
                text, right = answer_loss(model, batch, vision, image_token)
        loss = text + 1.0 * characters + 0.3 * places
        for _, parameter in everything:
            parameter.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in everything], 1.0)
        for optimiser in optimisers:
            optimiser.step()
        state["step"] += 1
        state["seen"] += args.batch
        fresh = {"chars": characters, "order": places, "cell": hit}
        if right is not None:
            fresh |= {"text": text, "token": right}
        for name, value in fresh.items():
            value = float(value.detach())
            if value == value:
                ema[name] = 0.98 * ema.get(name, value) + 0.02 * value
        # The curriculum moves on while both halves keep up.
        if ema.get("cell", 0) > 0.8 and ema.get("token", 0) > 0.92 and state["step"] % 10 == 0:
            state["stage"] = max(state["stage"], min(args.most, state["stage"] + 0.001))
            stage.value = state["stage"]
        if time.time() - last_print > 30:
            last_print = time.time()
            print(f"{elapsed:6.1f} min  step {state['step']}  seen {state['seen']}  stage {state['stage']:.3f}  "
                  + "  ".join(f"{name} {value:.3f}" for name, value in ema.items()), flush=True)
            save()
    save()
    checkpoint.save(model, tokenizer, args.out / "checkpoint")


if __name__ == "__main__":
    main()
