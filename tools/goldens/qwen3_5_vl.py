"""Golden files of Qwen3.5 with images: tests/golden/qwen3_5_vl.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen3_5_vl.py [TEMPLATE]

Two tiny random checkpoints, saved by transformers:
  odd_heads  the hub's config, bfloat16, tied head, 5 x 5 positions, three delta nets and a layer that
             attends
  wide_rows  current transformers' config, float16, two shards, its own head, 4 x 4 positions, two delta nets and two
             layers that attend
The tensors have one naming; each brings the other form of the config (other_form/). TEMPLATE, as published, renders the prompts;
it is its maker's and not in this repository.
"""

import sys
from pathlib import Path

import torch
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

import golden
import qwen3_5
import qwen3_vl
import qwen_vision


def published_config(family: qwen_vision.Family, spec: dict, tokenizer) -> dict:
    """config.json as published."""
    token = tokenizer.token_to_id
    tied = spec["tied"]
    return {
        "architectures": [family.model_class.__name__], "model_type": family.model_type,
        "image_token_id": token("<|image_pad|>"), "video_token_id": token("<|video_pad|>"),
        "vision_start_token_id": token("<|vision_start|>"), "vision_end_token_id": token("<|vision_end|>"),
        "tie_word_embeddings": tied,
        "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True,
            "bos_token_id": token("<|endoftext|>"), "dtype": str(spec["dtype"]).removeprefix("torch."),
            "eos_token_id": token("<|im_end|>"), "hidden_act": "silu", "initializer_range": 0.02,
            "mamba_ssm_dtype": "float32", "max_position_embeddings": 2048, "mlp_only_layers": [],
            "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
            "rms_norm_eps": 1e-6, "tie_word_embeddings": tied, "use_cache": True,
            "rope_parameters": {"mrope_interleaved": True, "mrope_section": spec["sections"], "rope_type": "default",
                                "partial_rotary_factor": spec["turned"], "rope_theta": 10000.0},
            **spec["text"],
        },
        "vision_config": {
            "deepstack_visual_indexes": [], "hidden_act": "gelu_pytorch_tanh", "in_channels": 3,
            "initializer_range": 0.02, "model_type": "qwen3_5", "patch_size": 16, "spatial_merge_size": 2,
            "temporal_patch_size": 2, **family.vision, **spec["vision"]},
    }


FAMILY = qwen_vision.Family(
    name="qwen3.5", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen3_5_vl", config_class=Qwen3_5Config,
    model_class=Qwen3_5ForConditionalGeneration, model_type="qwen3_5", processor_class="Qwen3VLProcessor", vision={},
    preprocessor=qwen3_vl.FAMILY.preprocessor, chat_template=qwen3_vl.CHAT_TEMPLATE,
    published_config=published_config)

CHECKPOINTS = {
    "odd_heads": dict(
        seed=91, dtype=torch.bfloat16, hub_form=True, shard="1GB", tied=True, sections=[2, 2, 1], turned=0.25,
        text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=40, vocab_size=481, full_attention_interval=4,
                  linear_conv_kernel_dim=4, linear_num_key_heads=2, linear_num_value_heads=4,
                  linear_key_head_dim=24, linear_value_head_dim=20),
        vision=dict(depth=2, hidden_size=48, num_heads=3, intermediate_size=76, out_hidden_size=96,
                    num_position_embeddings=25)),
    "wide_rows": dict(
        seed=92, dtype=torch.float16, hub_form=False, shard="400KB", tied=False, sections=[3, 2, 1], turned=0.5,
        text=dict(hidden_size=64, intermediate_size=88, num_hidden_layers=4, num_attention_heads=3,
                  num_key_value_heads=3, head_dim=24, vocab_size=480,
                  layer_types=["linear_attention", "full_attention"] * 2, linear_conv_kernel_dim=4,
                  linear_num_key_heads=1, linear_num_value_heads=3, linear_key_head_dim=16,
                  linear_value_head_dim=24),
        vision=dict(depth=3, hidden_size=48, num_heads=2, intermediate_size=57, out_hidden_size=64,
                    num_position_embeddings=16)),
}

if __name__ == "__main__":
    golden.condition = qwen3_5.condition
    if len(sys.argv) > 1:
        FAMILY.published_template = Path(sys.argv[1]).read_text()
    qwen_vision.make(FAMILY, CHECKPOINTS)
