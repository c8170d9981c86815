"""What transformers makes of every field of every rope type: tests/golden/tables/rope_values.json.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/rope_values.py

Each row is a text configuration of Qwen2's class with the inverse frequencies at some lengths of a sequence, and the
factor of cos and sin. A field is left out, null, or each of its values, with every value of each other field.
"""

import itertools
import json
from pathlib import Path

from transformers import Qwen2Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"
BASE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 1024,
        "rope_theta": 1e4}
OUT = object()  # the field is left out
ORIGINAL = "original_max_position_embeddings"
FACTORS = {"short_factor": [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0],
           "long_factor": [1.5, 2.0, 2.5, 4.0, 6.0, 9.0, 14.0, 20.0]}
# Of each type: what it always has, and its other fields with their values.
TYPES = {
    "default": ({}, {"factor": [OUT, 3.0], "attention_factor": [OUT, 0.5]}),
    "linear": ({}, {"factor": [2, 4.0, 0.5], "attention_factor": [OUT, 0.5], ORIGINAL: [OUT, 128]}),
    "dynamic": ({}, {"factor": [2, 4.0], "attention_factor": [OUT, 0.5], ORIGINAL: [OUT, 128]}),
    "llama3": ({"low_freq_factor": 1.0, "high_freq_factor": 4.0},
               {"factor": [8, 2.0], "attention_factor": [OUT, 0.5], ORIGINAL: [OUT, 256]}),
    "longrope": (FACTORS, {"factor": [OUT, None, 3.0, 0.5], "attention_factor": [OUT, None, 1.25], ORIGINAL: [OUT, 120]}),
    "yarn": ({}, {"factor": [None, 4.0], "attention_factor": [OUT, None, 0.5], "beta_fast": [OUT, None, 0, 16],
                  "beta_slow": [OUT, None, 2], "mscale": [OUT, 0, 1.0], "mscale_all_dim": [OUT, 0.5],
                  "truncate": [OUT, None, False], ORIGINAL: [OUT, 128]}),
}
LENGTHS = {"longrope": [1, 100, 101, 120, 121, 1025], "dynamic": [1, 1024, 1025, 3000]}


def combinations(fields: dict):
    """Every pair of fields over all their values, the rest at their first: all of them where that is few."""
    sizes = 1
    for values in fields.values():
        sizes *= len(values)
    if sizes <= 64:
        yield from (dict(zip(fields, values)) for values in itertools.product(*fields.values()))
        return
    seen = []
    for one, other in itertools.combinations(fields, 2):
        for a, b in itertools.product(fields[one], fields[other]):
            row = {name: values[0] for name, values in fields.items()} | {one: a, other: b}
            if row not in seen:
                seen.append(row)
                yield row


def row(config: dict, kind: str) -> dict:
    made = Qwen2Config(**json.loads(json.dumps(config)))
    init = ROPE_INIT_FUNCTIONS.get(made.rope_parameters["rope_type"])
    at = []
    for length in LENGTHS.get(kind, [1]):
        if init is None:
            from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
            inv_freq, scale = Qwen2RotaryEmbedding.compute_default_rope_parameters(made, "cpu")
        else:
            inv_freq, scale = init(made, "cpu", seq_len=length)
        at.append({"length": length, "inv_freq": inv_freq.tolist()})
    return {"config": config, "scale": float(scale), "at": at}


def main() -> None:
    rows = []
    for kind, (always, fields) in TYPES.items():
        for chosen in combinations(fields):
            rope = {"rope_type": kind, **always, **{name: v for name, v in chosen.items() if v is not OUT}}
            rows.append(row({**BASE, "rope_scaling": rope}, kind))
            if kind in ("llama3", "longrope", "yarn") and chosen.get("mscale", OUT) is OUT:
                rows.append(row({**BASE, "rope_scaling": rope, ORIGINAL: 100}, kind))
    # Where fields are said twice.
    linear, other = {"rope_type": "linear", "factor": 2.0}, {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0}
    for config in ({"rope_scaling": linear, "rope_parameters": other}, {"rope_scaling": {}, "rope_parameters": other},
                   {"rope_scaling": None, "rope_parameters": other}, {"rope_scaling": {**linear, "type": "default"}},
                   {"rope_scaling": {"type": "linear", "factor": 2.0}}):
        rows.append(row({**BASE, **config}, "linear"))
    text = "[\n%s]\n" % ",\n".join(json.dumps(one) for one in rows)
    (GOLDEN / "tables/rope_values.json").write_text(text)
    print(len(rows), "rows")


if __name__ == "__main__":
    main()
