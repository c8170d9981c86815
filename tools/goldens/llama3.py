"""Golden files of Llama 3, 3.1 and 3.2 text models: tests/golden/llama3.

  scaled  the hub's config form, bfloat16, tied head, "llama3" rope scaling whose original length the prompts pass,
          heads of another width than hidden_size / heads
  plain   current transformers' form, float16, no scaling, two shards
"""

from pathlib import Path

import torch

import text_family
import tiny_tokenizer
from text_family import Spec, TextFamily

CHAT_TEMPLATE = (
    "{{- '<|begin_of_text|>' -}}"
    "{%- for message in messages -%}"
    "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"
)
FAMILY = TextFamily(
    name="llama-3", out=Path(__file__).resolve().parents[2] / "tests/golden/llama3",
    pattern=tiny_tokenizer.LLAMA3_PATTERN,
    special=["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"],
    nfc=False, end_of_turn="<|eot_id|>", chat_template=CHAT_TEMPLATE, tokenizer_class="PreTrainedTokenizerFast")

BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "attention_bias": False, "mlp_bias": False, "pretraining_tp": 1, "rope_theta": 500000.0, "use_cache": True}
CHECKPOINTS = {
    "scaled": Spec(31, torch.bfloat16, True, {
        **BASE, "hidden_size": 96, "intermediate_size": 136, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 24, "tie_word_embeddings": True, "vocab_size": 470,
        "max_position_embeddings": 2048,
        "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64, "rope_type": "llama3"}}),
    "plain": Spec(32, torch.float16, False, {
        **BASE, "hidden_size": 120, "intermediate_size": 88, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 3, "tie_word_embeddings": False, "vocab_size": 468, "max_position_embeddings": 2048,
        "rope_scaling": None}, shard="300KB"),
}

if __name__ == "__main__":
    text_family.make(FAMILY, CHECKPOINTS)
