"""What a step launches, as text_decoder.cc, vision_stack.cc and patch_tower.cc ask for it."""
import math
from dataclasses import dataclass

from tools.gpu_cost import attention, products, rows
from tools.gpu_cost.attention import Heads
from tools.gpu_cost.products import Shape
from tools.gpu_cost.sources import models

MLP_ROWS = 2048  # blocks.h: kMlpRows, held by the test
# Qwen2-VL's tower, the same of every size: patch_tower.cc reads it from the checkpoint.
TOWER = {"layers": 32, "embed": 1280, "heads": 16, "dim": 80, "inner": 5120, "patch": 3 * 2 * 14 * 14, "merge": 4}


@dataclass
class Step:
    """`kernels`: how often, and which."""
    name: str
    kernels: list
    graph: bool = False

    def launches(self):
        return sum(times * kernel.launches for times, kernel in self.kernels)

    def seconds(self, gpu):
        return sum(times * kernel.seconds(gpu, self.graph) for times, kernel in self.kernels)

    # What has to move and to be multiplied, of the step as a whole.
    def roof(self, gpu):
        return max(sum(times * kernel.useful_bytes for times, kernel in self.kernels) / gpu.memory,
                   sum(times * kernel.useful_flops for times, kernel in self.kernels) / gpu.tensor)


def heads_of(w, cache=None):
    return Heads(w["heads"], w["kv_heads"], w["dim"], cache)


def layer(counts, w, count, mixed):
    """One layer of the language model over `count` rows; `mixed`: its attention's kernels."""
    heads = w["heads"] + 2 * w["kv_heads"]
    q_width = w["heads"] * w["dim"]
    norm = rows.norm(counts, "norm", count, w["hidden"])
    to_qkv = Shape(count, w["hidden"], heads * w["dim"])
    fused = products.few(counts, "norm, qkv", to_qkv, normed=True)
    before = [fused] if fused else [norm, products.product(counts, "qkv", to_qkv)]
    return [*before,
            rows.qkv(counts, "rope, KV write", count, heads, w["dim"]),
            *mixed,
            products.product(counts, "out", Shape(count, q_width, w["hidden"], residual=True)),
            *gate_and_up(counts, w, count, norm),
            products.product(counts, "down", Shape(count, w["inner"], w["hidden"], residual=True))]


def gate_and_up(counts, w, count, norm):
    """As cuda_fused.cc asks: with the norm, else without it, else apart."""
    shape = Shape(count, w["hidden"], 2 * w["inner"])
    if all_of := products.few(counts, "norm, gate_up, gated", shape, normed=True, gated=True):
        return [all_of]
    if without := products.few(counts, "gate_up, gated", shape, gated=True):
        return [norm, without]
    return [norm, products.product(counts, "gate_up", shape), rows.gated(counts, "gated", count, w["inner"])]


def around(counts, w, count, logits):
    """What comes before the layers and after them."""
    return [(1, rows.embed(counts, "embed", count, w["hidden"])), (1, rows.rope_table(counts, "rope table", count, w["dim"])),
            (1, rows.mix(counts, "last rows", logits, w["hidden"])), (1, rows.norm(counts, "norm", logits, w["hidden"])),
            (1, products.product(counts, "head", Shape(logits, w["hidden"], w["vocab"], result="float")))]


def decode(counts, which, sequences, context=1024):
    w = models()[which]
    mixed = attention.decode(counts, "attention", [context] * sequences, heads_of(w))
    kernels = [(w["layers"], kernel) for kernel in layer(counts, w, sequences, mixed)]
    return Step(f"{which} decode of {sequences} after {context:,}", kernels + around(counts, w, sequences, sequences), graph=True)


def prefill(counts, which, length):
    w = models()[which]
    mixed = [attention.flash("attention", "paged", [(length, 0)], heads_of(w))]
    kernels = [(w["layers"], kernel) for kernel in layer(counts, w, length, mixed)]
    return Step(f"{which} prefill of {length:,}", kernels + around(counts, w, length, 1))


def sampled(counts, which, count, way):
    """What sampling adds to a decode step."""
    vocab = models()[which]["vocab"]
    return Step(f"{which} sampling {count} by {way}", [(1, rows.row_stats(counts, "row_stats", count, vocab)),
                                                       (1, rows.sample(counts, f"sample {way}", count, vocab, way))])


def tower(counts, patches, hidden=1536):
    t = TOWER
    slices = [min(MLP_ROWS, patches - first) for first in range(0, patches, MLP_ROWS)]
    kernels = [(1, rows.patches(counts, "patches", patches, t["patch"])),
               (1, products.product(counts, "patch embedding", Shape(patches, t["patch"], t["embed"])))]
    each = [rows.norm(counts, "norm", patches, t["embed"]),
            products.product(counts, "tower qkv, bias", Shape(patches, t["embed"], 3 * t["embed"])),
            rows.qkv(counts, "rope", patches, 2 * t["heads"], t["dim"]),
            attention.flash("attention", "rows", [(patches, 0)], Heads(t["heads"], t["heads"], t["dim"])),
            products.product(counts, "tower out, bias, residual", Shape(patches, t["embed"], t["embed"], residual=True))]
    for count in slices:
        each += [rows.norm(counts, "norm", count, t["embed"]),
                 products.product(counts, "tower fc1, bias", Shape(count, t["embed"], t["inner"])),
                 rows.gated(counts, "quick GELU", count, t["inner"], alone=True),
                 products.product(counts, "tower fc2, bias, residual", Shape(count, t["inner"], t["embed"], residual=True))]
    kernels += [(t["layers"], kernel) for kernel in each]
    for first in range(0, patches, MLP_ROWS):
        squares = math.ceil(min(MLP_ROWS, patches - first) / t["merge"])
        wide = t["embed"] * t["merge"]
        kernels += [(1, rows.norm(counts, "norm", squares * t["merge"], t["embed"])),
                    (1, products.product(counts, "merger in", Shape(squares, wide, wide))),
                    (1, rows.gated(counts, "GELU", squares, wide, alone=True)),
                    (1, products.product(counts, "merger out", Shape(squares, wide, hidden)))]
    return Step(f"tower of {patches:,} patches", kernels)


DECODES = [(which, count) for which in ("2B", "7B") for count in (1, 8, 64)]
PREFILLS = [(which, length) for which in ("2B", "7B") for length in (512, 2048, 8192)]
TOWERS = [1024, 2704, 5476]
