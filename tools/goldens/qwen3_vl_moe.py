"""Golden files of Qwen3-VL with experts: tests/golden/qwen3_vl_moe.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen3_vl_moe.py

Two tiny random checkpoints. All experts of a layer are one tensor: inputs by outputs as published (transformers 4.57
wrote them), outputs by inputs as transformers 5.17 writes them; it reads both, by their shapes.
  every_layer  the hub's form, bfloat16, 2 of 6 experts in every layer, heads that are together wider than the text
  some_layers  current transformers' form, float16, two shards, tied head, 3 of 4 experts in two of three layers
"""

import dataclasses
from pathlib import Path

import torch
from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration

import qwen3_vl
import qwen_vision


def published_config(family: qwen_vision.Family, spec: dict, tokenizer) -> dict:
    config = qwen3_vl.published_config(family, spec, tokenizer)
    config["text_config"] |= {"model_type": "qwen3_vl_moe_text", "decoder_sparse_step": 1, "norm_topk_prob": True}
    config["text_config"] |= spec["text"]
    config["vision_config"]["model_type"] = "qwen3_vl_moe"
    return config


def published_tensor(name: str, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(1, 2) if ".experts." in name else tensor


FAMILY = dataclasses.replace(
    qwen3_vl.FAMILY, name="qwen3-vl-moe", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen3_vl_moe",
    config_class=Qwen3VLMoeConfig, model_class=Qwen3VLMoeForConditionalGeneration, model_type="qwen3_vl_moe",
    published_config=published_config, published_tensor=published_tensor)

CHECKPOINTS = {
    "every_layer": dict(
        seed=75, dtype=torch.bfloat16, hub_form=True, shard="1GB", tied=False, sections=[4, 2, 2],
        text=dict(hidden_size=48, intermediate_size=60, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=16, vocab_size=481, mlp_only_layers=[], moe_intermediate_size=22,
                  num_experts=6, num_experts_per_tok=2),
        vision=dict(depth=3, hidden_size=32, num_heads=2, intermediate_size=52, out_hidden_size=48,
                    num_position_embeddings=25, deepstack_visual_indexes=[0, 2])),
    "some_layers": dict(
        seed=76, dtype=torch.float16, hub_form=False, shard="200KB", tied=True, sections=[4, 2, 2],
        text=dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=2,
                  num_key_value_heads=1, head_dim=16, vocab_size=480, mlp_only_layers=[1], moe_intermediate_size=30,
                  num_experts=4, num_experts_per_tok=3),
        vision=dict(depth=2, hidden_size=32, num_heads=2, intermediate_size=40, out_hidden_size=40,
                    num_position_embeddings=16, deepstack_visual_indexes=[1])),
}

if __name__ == "__main__":
    qwen_vision.make(FAMILY, CHECKPOINTS)
