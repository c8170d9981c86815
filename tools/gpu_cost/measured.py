"""What GPUs took, and which kernels the model holds beside it."""
import functools
import json
import os
import re

from tools.gpu_cost import attention, products, rows
from tools.gpu_cost.attention import Heads
from tools.gpu_cost.products import Shape
from tools.gpu_cost.sources import ROOT, models
from tools.gpu_cost.steps import heads_of

FOLDER = "benchmarks/results/gpu/"
# What has changed since the ops were measured (h200-kernels.jsonl is of 26 November 2026, before 02:00 UTC). The first that fits.
SINCE = [
    (r"product .* down, residual rows (17|64|65|128|256)$", "a33f2f6f", "the probe takes time, and a far quicker kernel"),
    (r"product .*, bias.* rows (17|64|65|128|256|2048|8192|5476)$", "d8bfe263", "the bias in the library's epilogue"),
    (r"product .* rows (1|16)$", "69d19fc9", "copies between the products"),
    (r"attention .* (1|8) x 1 rows after 1024( |$)", "fused", "splits are joined by the last block to end, in one launch"),
    (r"attention .*(by the own kernel|x 1 rows|over )", "87c86ad4", "keys copied without branches"),
    (r"attention .* in 86", "87c86ad4", "keys copied without branches"),
    (r"(four bits|e4m3) ", "88ea0ceb", "deepened; scales with the stages"),
    (r"w8a8 ", "501aa477", "deepened"),
]
# Measured, but what is measured is no longer what a step does.
REPLACED = ("a33f2f6f", "d8bfe263")


@functools.cache
def read(file):
    found = {}
    with open(os.path.join(ROOT, FOLDER, file), encoding="utf-8") as lines:
        for line in lines:
            of = json.loads(line)
            if "seconds" in of and of["part"] in ("ops", "model"):
                found[of["name"]] = of["seconds"]
    return found


def since(name):
    return next((commit for pattern, commit, _ in SINCE if re.match(pattern, name)), "")


def replaced(name):
    return since(name) in REPLACED


def number(name, pattern):
    found = re.fullmatch(pattern, name)
    return tuple(int(each) if each and each.isdigit() else each for each in found.groups()) if found else None


def product_of(counts, name):
    found = re.fullmatch(r"product (7B|2B|tower) (\w+)([\w, ]*?) rows (\d+)", name)
    if found is None:
        return None
    which, part, ends, count = found[1], found[2], found[3], int(found[4])
    if which == "tower":
        inputs, out = {"qkv": (1280, 3840), "out": (1280, 1280), "fc1": (1280, 5120), "fc2": (5120, 1280)}[part]
    else:
        w = models()[which]
        inputs, out = {"qkv": (w["hidden"], (w["heads"] + 2 * w["kv_heads"]) * w["dim"]), "out": (w["heads"] * w["dim"], w["hidden"]),
                       "gate_up": (w["hidden"], 2 * w["inner"]), "down": (w["inner"], w["hidden"]), "head": (w["hidden"], w["vocab"])}[part]
    result = "float" if part == "head" else "saccade::Bf16"
    kernels = [products.product(counts, part, Shape(count, inputs, out, "residual" in ends, result))]
    if "GELU" in ends and "tanh" not in ends:
        kernels.append(rows.gated(counts, "activation", count, out, alone=True))
    return kernels


def attention_of(counts, name):
    if found := number(name, r"attention (7B|2B) (\d+) x 1 rows after (\d+)(?:, 1 after (\d+))?"):
        which, sequences, context, more = found
        return attention.decode(counts, "attention", [context] * sequences + ([more] if more else []), heads_of(models()[which]))
    if found := number(name, r"attention (7B|2B) (\d+) x 1 rows after (\d+) over (\w+)"):
        which, sequences, context, cache = found
        return attention.decode(counts, "attention", [context] * sequences, heads_of(models()[which], cache))
    if found := re.fullmatch(r"attention (7B|2B) (\d+) x (\d+) rows after (\d+)(?: over (\w+)|(, by the own kernel))?", name):
        heads = heads_of(models()[found[1]], found[5])
        segments = [(int(found[3]), int(found[4]))] * int(found[2])
        if found[5] or found[6]:
            return [attention.many(counts, "attention", "paged", segments, heads)]
        return [attention.flash("attention", "paged", segments, heads)]
    if found := re.fullmatch(r"attention tower (\d+) rows in (\d+), (\d+) heads of (\d+)(, by the own kernel)?", name):
        total, parts, count, dim = map(int, found.groups()[:4])
        heads = Heads(count, count, dim)
        lengths = [total * (i + 1) // parts - total * i // parts for i in range(parts)]
        segments = [(each, 0) for each in lengths]
        if found[5] or min(lengths) < attention.LEAST_FLASH_ROWS:
            return [attention.many(counts, "attention", "rows", segments, heads)]
        return [attention.flash("attention", "rows", segments, heads)]
    return None


def codes_of(counts, name):
    found = re.fullmatch(r"(four bits|bytes|e4m3|w8a8 blocks)( by the own kernel)? (gate_up|down) rows (\d+)", name)
    if found is None:
        return None
    w = models()["7B"]
    inputs, out = {"gate_up": (w["hidden"], 2 * w["inner"]), "down": (w["inner"], w["hidden"])}[found[3]]
    count = int(found[4])
    shape = Shape(count, inputs, out)
    if found[1] in ("four bits", "e4m3"):
        if count > 256 and not found[2]:
            return None  # dequantised in scratch for the library
        return [products.codes(counts, "codes", shape, "NibbleForm" if found[1] == "four bits" else "E4m3Form")]
    if found[1] == "bytes":
        rounding = rows.round_rows(counts, "round rows", count, inputs)
        return [rounding, products.own(counts, "bytes", shape, "ByteMath")]
    return [rows.round_e4m3(counts, "round rows", count, inputs), products.e4m3(counts, "E4M3", shape)]


def row_of(counts, name):
    found = re.fullmatch(r"(norm after add|gated silu|rope|row_stats|sample .*) (7B|2B) rows (\d+)", name)
    if found is None:
        return None
    w, count = models()[found[2]], int(found[3])
    if found[1].startswith("sample "):
        return [rows.sample(counts, "sample", count, w["vocab"], found[1].removeprefix("sample "))]
    return [{"norm after add": lambda: rows.norm(counts, "norm", count, w["hidden"], added=True),
             "gated silu": lambda: rows.gated(counts, "gated", count, w["inner"]),
             "rope": lambda: rows.qkv(counts, "rope", count, w["heads"], w["dim"]),
             "row_stats": lambda: rows.row_stats(counts, "row_stats", count, w["vocab"])}[found[1]]()]


def kernels_of(counts, name):
    """The kernels that the bench's op of that name launches; None: the model does not know it."""
    for of in (product_of, attention_of, codes_of, row_of):
        if (kernels := of(counts, name)) is not None:
            return kernels
    return None


# Of a step's kernels, what the bench measures them as; of fused ones each part by itself.
def ops_of(which, kernel, count, context):
    found = [op_of(which, part, count, context) for part in kernel.removesuffix(", join").split(", ")]
    return [] if None in found else found


def op_of(which, part, count, context):
    if part == "attention":
        return f"attention {which} {count} x 1 rows after {context}" if context else f"attention {which} 1 x {count} rows after 0"
    if part == "norm" and count > 64:
        return None  # it is measured with a sum before it, which of many rows is half of its bytes
    return {"norm": f"norm after add {which} rows {count}", "qkv": f"product {which} qkv, bias rows {count}",
            "rope": f"rope {which} rows {count}", "out": f"product {which} out, residual rows {count}",
            "gate_up": f"product {which} gate_up rows {count}", "gated": f"gated silu {which} rows {count}",
            "down": f"product {which} down, residual rows {count}", "head": f"product {which} head rows {count}"}.get(part)
