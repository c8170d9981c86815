"""Golden files of Qwen3 text models: tests/golden/qwen3.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/qwen3.py [TEMPLATE]

  odd_heads  the hub's config form, bfloat16, tied head, 4 heads of 40 over a width of 96
  stretched  current transformers' form, float16, two shards, its own head, biased queries, keys, values and output,
             every other layer sees 24 tokens, YaRN over an original length that the prompts pass

TEMPLATE is the chat template as published, which belongs to its makers and is not in this repository: with it every
prompt is what real Jinja2 renders of that file, and the checkpoints' own template is held to it.
"""

import sys
from pathlib import Path

import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment

import text_family
import tiny_tokenizer
from text_family import Spec, TextFamily

# What the published template gives for messages without tools: thoughts of earlier turns are left out.
CHAT_TEMPLATE = (
    "{%- set ns = namespace(last=messages|length - 1) -%}"
    "{%- for message in messages -%}{%- if message.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.role == 'assistant' -%}"
    "{%- set parts = message.content.split('</think>') -%}"
    "{%- set thought = message.reasoning_content if message.reasoning_content else "
    "(parts[0].split('<think>')[-1] if parts|length > 1 else '') -%}"
    "{%- set answer = message.content if message.reasoning_content or parts|length == 1 else parts[-1].lstrip('\\n') -%}"
    "{%- if loop.index0 > ns.last and (loop.last or thought) -%}"
    "{{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + answer.lstrip('\\n') -}}"
    "{%- else -%}{{- answer -}}{%- endif -%}"
    "{%- else -%}{{- message.content -}}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
    "{%- endif -%}"
)
FAMILY = TextFamily(
    name="qwen3", out=Path(__file__).resolve().parents[2] / "tests/golden/qwen3",
    pattern=tiny_tokenizer.QWEN2_PATTERN, special=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
    nfc=True, end_of_turn="<|im_end|>", chat_template=CHAT_TEMPLATE, tokenizer_class="Qwen2Tokenizer")

BASE = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "use_cache": True, "attention_dropout": 0.0}
CHECKPOINTS = {
    "odd_heads": Spec(61, torch.bfloat16, True, {
        **BASE, "attention_bias": False, "hidden_size": 96, "intermediate_size": 112, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 40, "tie_word_embeddings": True,
        "use_sliding_window": False, "sliding_window": None, "max_window_layers": 3, "vocab_size": 470,
        "max_position_embeddings": 2048, "rope_scaling": None}),
    "stretched": Spec(62, torch.float16, False, {
        **BASE, "attention_bias": True, "hidden_size": 72, "intermediate_size": 88, "num_hidden_layers": 4,
        "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16, "tie_word_embeddings": False,
        "use_sliding_window": True, "sliding_window": 24, "max_window_layers": 4, "vocab_size": 468,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
        "max_position_embeddings": 256,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
        shard="200KB"),
}

# Thoughts kept and left out, answers that go on, several system messages.
MORE_TURNS = [
    [("user", "a")],
    [("system", "s"), ("user", "a")],
    [("user", "a"), ("assistant", "<think>\nwhy\n</think>\n\nb"), ("user", "c")],
    [("user", "a"), ("assistant", "<think>\nwhy\n</think>\n\nb"), ("user", "c"), ("assistant", "\nd")],
    [("user", "a"), ("assistant", "<think>why</think>b"), ("assistant", "c")],
    [("system", "s"), ("user", "a"), ("assistant", "b"), ("system", "t"), ("user", "c")],
]


def check_template(published: str) -> None:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    theirs, ours = (environment.from_string(source) for source in (published, CHAT_TEMPLATE))
    conversations = [[{"role": role, "content": text} for role, text in turns]
                     for turns in [*text_family.CASES.values(), *MORE_TURNS]]
    conversations.append([{"role": "user", "content": "a"},
                          {"role": "assistant", "content": "b", "reasoning_content": "\nwhy\n"}])
    checked = 0
    for messages in conversations:
        for options in ({"add_generation_prompt": True}, {}, {"add_generation_prompt": True, "enable_thinking": False}):
            assert theirs.render(messages=messages, **options) == ours.render(messages=messages, **options), messages
            checked += 1
    print(f"the published template renders {checked} conversations as ours does")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        FAMILY.published_template = Path(sys.argv[1]).read_text()
        check_template(FAMILY.published_template)
    text_family.make(FAMILY, CHECKPOINTS)
