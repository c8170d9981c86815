"""Golden files of Qwen3-VL: tests/golden/qwen3_vl.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen3_vl.py

Two tiny random checkpoints, saved by transformers:
  odd_heads  the hub's config, bfloat16, tied head, heads that are together narrower than the text, 5 x 5 positions,
             deepstack after the first and the last of three vision layers
  wide_rows  current transformers' config, float16, two shards, its own head, 4 x 4 positions, deepstack after three of
             four vision layers: embedding rows four times as wide as the text
The tensors have one naming; each brings the other form of the config (other_form/).
"""

from pathlib import Path

import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

import qwen_vision

# What Qwen3-VL's own template gives for the messages of qwen_vision.CASES: no default system message.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.content is string -%}"
    "{{- message.content -}}"
    "{%- else -%}"
    "{%- for part in message.content -%}"
    "{%- if part.type in ['image', 'image_url'] -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part.type == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}"
    "{%- elif part.type == 'text' -%}{{- part.text -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def published_config(family: qwen_vision.Family, spec: dict, tokenizer) -> dict:
    """config.json as published: sections, rope_scaling beside rope_theta."""
    token = tokenizer.token_to_id
    tied = spec["tied"]
    return {
        "architectures": [family.model_class.__name__], "model_type": family.model_type,
        "image_token_id": token("<|image_pad|>"), "video_token_id": token("<|video_pad|>"),
        "vision_start_token_id": token("<|vision_start|>"), "vision_end_token_id": token("<|vision_end|>"),
        "tie_word_embeddings": tied,
        "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": token("<|endoftext|>"),
            "dtype": str(spec["dtype"]).removeprefix("torch."), "eos_token_id": token("<|im_end|>"),
            "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 2048,
            "model_type": "qwen3_vl_text", "rms_norm_eps": 1e-6,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": spec["sections"], "rope_type": "default"},
            "rope_theta": 10000.0, "tie_word_embeddings": tied, "use_cache": True, **spec["text"],
        },
        "vision_config": {
            "hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "initializer_range": 0.02, "model_type": "qwen3_vl",
            "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, **family.vision, **spec["vision"],
        },
    }


FAMILY = qwen_vision.Family(
    name="qwen3-vl", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen3_vl", config_class=Qwen3VLConfig,
    model_class=Qwen3VLForConditionalGeneration, model_type="qwen3_vl", processor_class="Qwen3VLProcessor", vision={},
    preprocessor={
        "size": {"longest_edge": 32 * 32 * 12, "shortest_edge": 64 * 64}, "patch_size": 16, "temporal_patch_size": 2,
        "merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "image_processor_type": "Qwen2VLImageProcessorFast"},
    chat_template=CHAT_TEMPLATE, published_config=published_config)

CHECKPOINTS = {
    "odd_heads": dict(
        seed=71, dtype=torch.bfloat16, hub_form=True, shard="1GB", tied=True, sections=[4, 2, 2],
        text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=16, vocab_size=481),
        vision=dict(depth=3, hidden_size=48, num_heads=3, intermediate_size=76, out_hidden_size=96,
                    num_position_embeddings=25, deepstack_visual_indexes=[0, 2])),
    "wide_rows": dict(
        seed=72, dtype=torch.float16, hub_form=False, shard="400KB", tied=False, sections=[4, 4, 4],
        text=dict(hidden_size=64, intermediate_size=88, num_hidden_layers=4, num_attention_heads=3,
                  num_key_value_heads=3, head_dim=24, vocab_size=480),
        vision=dict(depth=4, hidden_size=48, num_heads=2, intermediate_size=57, out_hidden_size=64,
                    num_position_embeddings=16, deepstack_visual_indexes=[0, 1, 3])),
}

if __name__ == "__main__":
    qwen_vision.make(FAMILY, CHECKPOINTS)
