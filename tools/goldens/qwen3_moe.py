"""Golden files of Qwen3's text models with experts: tests/golden/qwen3_moe.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen3_moe.py [TEMPLATE]

  every_layer  the hub's config form, bfloat16, 3 of 7 experts a token whose weights sum to 1, in every layer
  some_layers  current transformers' form, float16, two shards, tied head, 2 of 5 experts whose weights are their
               probabilities; one layer of four has an MLP of its own, YaRN

TEMPLATE as for qwen3.py: the published one is the same file. Both forms store each expert's matrices by themselves.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

import qwen3
import text_family
from text_family import Spec

FAMILY = replace(qwen3.FAMILY, name="qwen3-moe", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen3_moe")
BASE = {**qwen3.BASE, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": False,
        "router_aux_loss_coef": 0.001, "use_sliding_window": False, "sliding_window": None, "decoder_sparse_step": 1}
CHECKPOINTS = {
    "every_layer": Spec(65, torch.bfloat16, True, {
        **BASE, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 20, "tie_word_embeddings": False, "vocab_size": 470,
        "max_position_embeddings": 2048, "rope_scaling": None, "mlp_only_layers": [], "moe_intermediate_size": 26,
        "norm_topk_prob": True, "num_experts": 7, "num_experts_per_tok": 3, "max_window_layers": 3}),
    "some_layers": Spec(66, torch.float16, False, {
        **BASE, "hidden_size": 56, "intermediate_size": 72, "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 24, "tie_word_embeddings": True, "vocab_size": 466,
        "max_position_embeddings": 256, "mlp_only_layers": [2], "moe_intermediate_size": 32, "norm_topk_prob": False,
        "num_experts": 5, "num_experts_per_tok": 2, "max_window_layers": 4,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
        shard="200KB"),
}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        FAMILY.published_template = Path(sys.argv[1]).read_text()
    text_family.make(FAMILY, CHECKPOINTS)
