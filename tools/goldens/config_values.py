"""What transformers makes of fields of config.json: tests/golden/config_values.json.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/config_values.py

  tied   for each family, a checkpoint of tests/golden and tie_word_embeddings beside text_config and in it (null: not
         said): whether the model ties
  rope   a text configuration of Qwen2's class: inverse frequencies and the factor of cos and sin
"""

import itertools
import json
import tempfile
from pathlib import Path

from transformers import AutoConfig, Qwen2Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"
TIED = ["qwen2/odd_heads", "qwen3/odd_heads", "qwen3_moe/every_layer", "llama3/scaled", "gemma3/text",
        "qwen2_vl/odd_heads", "qwen2_vl/mixed_window", "qwen2_5_vl/odd_heads", "qwen2_5_vl/wide_window",
        "qwen3_vl/odd_heads", "qwen3_vl/wide_rows", "qwen3_vl_moe/some_layers", "llava_onevision/newlines",
        "llava_onevision/scaled", "internvl2/current", "paligemma/first", "paligemma/second", "smolvlm2/thirds",
        "smolvlm2/halves", "gemma3/pooled", "mistral/wide_heads", "mistral3/squares", "pixtral/rows", "glm4v/odd_heads",
        "glm4v/biased_tower", "minicpmv/slices", "minicpmv/plain"]

BASE = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 32768}
ROPES = [
    {"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    {"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
                                         "mscale": 1.0, "mscale_all_dim": 0.5}},
    {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
                                         "mscale": 0.707, "mscale_all_dim": 0}},
    {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 8192,
                                         "beta_fast": 16, "beta_slow": 2}},
    {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 8192,
                                         "beta_fast": None, "beta_slow": 0, "truncate": False}},
    {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 128,
                                         "attention_factor": 0.5, "truncate": True}},
    {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 0.5, "original_max_position_embeddings": 65536}},
    {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": None, "original_max_position_embeddings": 8192}},
    {"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 100,
                                         "beta_fast": 1, "beta_slow": 1}},
    {"rope_theta": 1e6, "head_dim": 20,
     "rope_parameters": {"rope_type": "yarn", "rope_theta": 2e4, "factor": 4.0, "original_max_position_embeddings": 512}},
    {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
]


def tied(name: str) -> list:
    config = json.loads((GOLDEN / name / "config.json").read_text())
    rows = []
    for outer, inner in itertools.product((None, False, True), repeat=2):
        for section, value in ((config, outer), (config.get("text_config"), inner)):
            if section is None:
                continue
            section.pop("tie_word_embeddings", None)
            if value is not None:
                section["tie_word_embeddings"] = value
        if "text_config" not in config and inner is not None:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "config.json").write_text(json.dumps(config))
            rows.append([outer, inner, bool(AutoConfig.from_pretrained(scratch).tie_word_embeddings)])
    return rows


def rope(fields: dict) -> dict:
    config = Qwen2Config(**json.loads(json.dumps({**BASE, **fields})))
    inv_freq, scale = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, "cpu")
    return {"config": {**BASE, **fields}, "inv_freq": inv_freq.tolist(), "scale": scale}


def main() -> None:
    def lines(rows):
        return ",\n".join(rows)

    text = '{"tied": {\n%s},\n"rope": [\n%s]}\n' % (
        lines(f"{json.dumps(name)}: {json.dumps(tied(name))}" for name in TIED),
        lines(json.dumps(rope(fields)) for fields in ROPES))
    json.loads(text)
    (GOLDEN / "config_values.json").write_text(text)


if __name__ == "__main__":
    main()
