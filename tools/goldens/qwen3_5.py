"""Golden files of Qwen3.5 text models: tests/golden/qwen3_5.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen3_5.py [TEMPLATE]

  odd_heads  the hub's config form, bfloat16, tied head: gated delta nets with two value heads a key head, keys of 24 and
             values of 20, every fourth layer attends with 10 of a head's 40 dimensions turned
  stretched  current transformers' form, float16, two shards, its own head, biased queries, keys, values and output,
             the first and the last layer attend, a convolution over 3 tokens, values of 33, YaRN over an original
             length that the prompts pass
The longest prompt is several times as long as the checkpoints that the tests keep are apart, and the decays of its
heads forget in 2 to 200 tokens: a state that is wrong at a checkpoint shows in the answer.
TEMPLATE, as published, renders the prompts; it is its maker's and not in this repository.
"""

import sys
from pathlib import Path

import torch

import golden
import text_family
import tiny_tokenizer
from text_family import Spec, TextFamily

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
FAMILY = TextFamily(
    name="qwen3.5", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen3_5",
    pattern=tiny_tokenizer.QWEN2_PATTERN, special=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
    nfc=True, end_of_turn="<|im_end|>", chat_template=CHAT_TEMPLATE, tokenizer_class="Qwen2Tokenizer")

BASE = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_act": "silu",
        "rms_norm_eps": 1e-6, "use_cache": True, "attention_dropout": 0.0, "attn_output_gate": True,
        "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
        "mlp_only_layers": []}
CHECKPOINTS = {
    "odd_heads": Spec(81, torch.bfloat16, True, {
        **BASE, "attention_bias": False, "hidden_size": 96, "intermediate_size": 112, "num_hidden_layers": 5,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 40, "tie_word_embeddings": True,
        "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 24, "linear_value_head_dim": 20, "vocab_size": 470,
        "max_position_embeddings": 2048,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 2, 1], "partial_rotary_factor": 0.25,
                            "rope_theta": 10000.0, "rope_type": "default"}}),
    "stretched": Spec(82, torch.float16, False, {
        **BASE, "attention_bias": True, "hidden_size": 72, "intermediate_size": 88, "num_hidden_layers": 4,
        "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16, "tie_word_embeddings": False,
        "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
        "linear_conv_kernel_dim": 3, "linear_num_key_heads": 3, "linear_num_value_heads": 3,
        "linear_key_head_dim": 16, "linear_value_head_dim": 33, "vocab_size": 468, "max_position_embeddings": 256,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5,
                            "rope_theta": 10000.0, "rope_type": "yarn", "factor": 4.0,
                            "original_max_position_embeddings": 64}},
        shard="200KB"),
}


def condition(model: torch.nn.Module, seed: int, logit_scale: float = 3.0) -> None:
    """Norms of (1 + w) near one, and heads that forget at rates of their own."""
    usual(model, seed, logit_scale)
    generator = torch.Generator().manual_seed(seed + 1000)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if name.endswith("A_log"):
                spread = torch.linspace(-5, 0.5, len(parameter))[torch.randperm(len(parameter), generator=generator)]
                parameter.copy_(spread + 0.1 * torch.randn(len(parameter), generator=generator))
            elif (name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight")
                  and "visual" not in name):
                parameter.sub_(1)


usual, golden.condition = golden.condition, condition

if __name__ == "__main__":
    if len(sys.argv) > 1:
        FAMILY.published_template = Path(sys.argv[1]).read_text()
    text_family.make(FAMILY, CHECKPOINTS)
