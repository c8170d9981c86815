"""Golden files of Qwen2 and Qwen2.5 text models: tests/golden/qwen2.

  odd_heads     the hub's config form, float32, tied head, 6 query heads over 2 key heads of 16
  mixed_window  current transformers' form, bfloat16, two shards, every other layer sees 24 tokens
"""

from pathlib import Path

import torch

import text_family
import tiny_tokenizer
from text_family import Spec, TextFamily

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if loop.first and message.role != 'system' -%}"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}"
    "{%- endif -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
FAMILY = TextFamily(
    name="qwen2", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen2",
    pattern=tiny_tokenizer.QWEN2_PATTERN, special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], nfc=True,
    end_of_turn="<|im_end|>", chat_template=CHAT_TEMPLATE, tokenizer_class="Qwen2Tokenizer")

BASE = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048, "rope_theta": 1000000.0, "use_cache": True}
CHECKPOINTS = {
    "odd_heads": Spec(21, torch.float32, True, {
        **BASE, "hidden_size": 96, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 64,
        "max_window_layers": 3, "vocab_size": 470}),
    "mixed_window": Spec(22, torch.bfloat16, False, {
        **BASE, "hidden_size": 72, "intermediate_size": 88, "num_hidden_layers": 4, "num_attention_heads": 3,
        "num_key_value_heads": 1, "tie_word_embeddings": False, "use_sliding_window": True, "sliding_window": 24,
        "max_window_layers": 4, "vocab_size": 464,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]},
        shard="200KB"),
}

if __name__ == "__main__":
    text_family.make(FAMILY, CHECKPOINTS)
