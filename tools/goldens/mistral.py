"""Golden files of Mistral text models: tests/golden/mistral.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/mistral.py [TEMPLATE]

  wide_heads  the hub's config form, bfloat16, its own head, 3 heads of 40 over a width of 96, no window
  windowed    current transformers' form, float16, two shards, tied head, every layer sees 24 tokens

TEMPLATE is the chat template as published with Mistral Small 3.2, which belongs to its makers and is not in this
repository: with it every prompt is what real Jinja2 renders of that file, and the checkpoints' own template is held to
it. It writes a system message of its own where there is none, so that every case has one.
"""

import sys
from pathlib import Path

import torch

import text_family
import tiny_tokenizer
from text_family import Spec, TextFamily

# What the published template gives for messages that begin with a system message, without tools.
CHAT_TEMPLATE = (
    "{{- bos_token -}}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'system' -%}{{- '[SYSTEM_PROMPT]' -}}"
    "{%- elif message.role == 'user' -%}{{- '[INST]' -}}{%- endif -%}"
    "{%- if message.content is string -%}{{- message.content -}}"
    "{%- else -%}"
    "{%- for part in message.content -%}"
    "{%- if part.type in ['image', 'image_url'] -%}{{- '[IMG]' -}}"
    "{%- elif part.type == 'text' -%}{{- part.text -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{%- if message.role == 'system' -%}{{- '[/SYSTEM_PROMPT]' -}}"
    "{%- elif message.role == 'user' -%}{{- '[/INST]' -}}"
    "{%- else -%}{{- eos_token -}}{%- endif -%}"
    "{%- endfor -%}"
)
SPECIAL = ["<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
           "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[SYSTEM_PROMPT]",
           "[/SYSTEM_PROMPT]"]
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}
SYSTEM = ("system", "You answer in one short sentence.")
CASES = {name: turns if turns[0][0] == "system" else [SYSTEM, *turns] for name, turns in text_family.CASES.items()}
FAMILY = TextFamily(
    name="mistral", out=Path(__file__).resolve().parents[2] / "tests/golden/mistral",
    pattern=tiny_tokenizer.TEKKEN_PATTERN, special=SPECIAL, nfc=False, end_of_turn="</s>", chat_template=CHAT_TEMPLATE,
    tokenizer_class="PreTrainedTokenizerFast", named=NAMED)

BASE = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0, "use_cache": True, "attention_dropout": 0.0, "max_position_embeddings": 2048}
CHECKPOINTS = {
    "wide_heads": Spec(111, torch.bfloat16, True, {
        **BASE, "hidden_size": 96, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 40, "tie_word_embeddings": False, "sliding_window": None,
        "vocab_size": 481}, cases=CASES),
    "windowed": Spec(112, torch.float16, False, {
        **BASE, "hidden_size": 72, "intermediate_size": 88, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 2, "tie_word_embeddings": True, "sliding_window": 24, "vocab_size": 480},
        shard="200KB", cases=CASES),
}


def check_template(published: str) -> None:
    """Plain strings, parts, system and assistant turns; roles take turns after the system message."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    theirs, ours = (_compile_jinja_template(source) for source in (published, CHAT_TEMPLATE))
    conversations = [[{"role": role, "content": text} for role, text in turns] for turns in CASES.values()]
    conversations += [[{"role": each["role"], "content": [{"type": "text", "text": each["content"]}]}
                       for each in messages] for messages in conversations]
    picture = {"type": "image"}
    conversations += [
        [{"role": "system", "content": "s"},
         {"role": "user", "content": [picture, {"type": "text", "text": "a"}, {"type": "image_url"}]},
         {"role": "assistant", "content": [{"type": "text", "text": "b"}]}, {"role": "user", "content": "c"}],
        [{"role": "system", "content": [{"type": "text", "text": "s"}]}, {"role": "user", "content": ""}]]
    for messages in conversations:
        assert theirs.render(messages=messages, **NAMED) == ours.render(messages=messages, **NAMED), messages
    print(f"the published template renders {len(conversations)} conversations as ours does")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        FAMILY.published_template = Path(sys.argv[1]).read_text()
        check_template(FAMILY.published_template)
    text_family.make(FAMILY, CHECKPOINTS)
