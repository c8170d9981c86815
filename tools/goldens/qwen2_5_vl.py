"""Golden files of Qwen2.5-VL: tests/golden/qwen2_5_vl.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen2_5_vl.py

Two tiny random checkpoints, saved by transformers:
  odd_heads     the hub's tensor names and flat config, bfloat16, tied head, windows of 2 x 2 embedding rows that the
                pictures do not divide into, the middle of its vision layers sees the whole image
  wide_window   current transformers' names and nested config, float16, two shards, windows of 4 x 4, an MLP of odd
                width, the upper half of its text layers sees a window of 24 tokens
Each brings the other naming as well (other_form/: the config, and which name is which tensor).
"""

from pathlib import Path

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

import qwen_vision

FAMILY = qwen_vision.Family(
    name="qwen2.5-vl", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen2_5_vl",
    config_class=Qwen2_5_VLConfig, model_class=Qwen2_5_VLForConditionalGeneration, model_type="qwen2_5_vl",
    processor_class="Qwen2_5_VLProcessor", vision={"hidden_act": "silu", "tokens_per_second": 2})

CHECKPOINTS = {
    "odd_heads": dict(
        seed=21, dtype=torch.bfloat16, hub_form=True, shard="1GB",
        config=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=6,
                    num_key_value_heads=2, tie_word_embeddings=True, use_sliding_window=False, sliding_window=64,
                    max_window_layers=3, vocab_size=481,
                    rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}),
        vision=dict(depth=3, hidden_size=48, num_heads=3, intermediate_size=76, out_hidden_size=96, window_size=56,
                    fullatt_block_indexes=[1])),
    "wide_window": dict(
        seed=22, dtype=torch.float16, hub_form=False, shard="400KB",
        config=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=4, num_attention_heads=3,
                    num_key_value_heads=1, tie_word_embeddings=False, use_sliding_window=True, sliding_window=24,
                    max_window_layers=2, vocab_size=480,
                    rope_scaling={"type": "mrope", "mrope_section": [4, 4, 4]}),
        vision=dict(depth=2, hidden_size=48, num_heads=2, intermediate_size=57, out_hidden_size=72, window_size=112,
                    fullatt_block_indexes=[0])),
}

if __name__ == "__main__":
    qwen_vision.make(FAMILY, CHECKPOINTS)
