"""Golden files of Gemma 3: tests/golden/gemma3.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/gemma3.py

Tiny random checkpoints, saved by transformers; windows of 24 tokens, shorter than every prompt:
  pooled   the hub's tensor names and config, bfloat16: every third layer full, 4 tokens an image of 36 patches
  classes  current transformers' names and config, float16, two shards: the class's own defaults, 4 tokens of 64 patches
  text     a text model as published (Gemma3ForCausalLM), tied head, no vision
An image's tokens see each other both ways (token_type_ids 1), everything else is causal (0).
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import Gemma3Config, Gemma3ForConditionalGeneration
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

import golden
import text_family
import tile_family
import tiny_tokenizer

OUT = Path(__file__).resolve().parents[2] / "tests/golden/gemma3"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>",
           "<image_soft_token>"]
CHAT_TEMPLATE = (
    "{{- '<bos>' -}}"
    "{%- for message in messages -%}"
    "{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' -}}"
    "{%- if message.content is string -%}{{- message.content | trim -}}"
    "{%- else -%}"
    "{%- for part in message.content -%}"
    "{%- if part.type in ['image', 'image_url'] -%}{{- '<start_of_image>' -}}"
    "{%- elif part.type == 'text' -%}{{- part.text | trim -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<end_of_turn>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"
)


class Gemma3(tile_family.TileFamily):
    name = "gemma-3"
    out = OUT
    config_class = Gemma3Config
    model_class = Gemma3ForConditionalGeneration
    cases = {
        "text": [("user", ["How many {} are there in 12 + 345? über 图片"])],
        "one_image": [("user", ["wide.png", "What is shown in this {}?"])],
        "three_images": [("user", ["tall.png", "First {}. ", "wide.png", " Second: ", "square.png", "Compare them."])],
        "multi_turn": [
            ("user", ["small.png", "Describe the {}."]),
            ("assistant", ["A blue circle, left of the line."]),
            ("user", ["And here?", "square.png"]),
        ],
    }
    checkpoints = {
        "pooled": dict(
            seed=51, dtype=torch.bfloat16, hub_form=True, shard="1GB", image=84, tokens=4,
            text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=4, num_attention_heads=4,
                      num_key_value_heads=2, head_dim=32, vocab_size=481, sliding_window=24, query_pre_attn_scalar=20,
                      rope_scaling={"factor": 8.0, "rope_type": "linear"}, rope_theta=1000000.0,
                      rope_local_base_freq=10000.0, sliding_window_pattern=3),
            vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3)),
        "classes": dict(
            seed=52, dtype=torch.float16, hub_form=False, shard="400KB", image=112, tokens=4,
            text=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=7, num_attention_heads=3,
                      num_key_value_heads=1, head_dim=16, vocab_size=480, sliding_window=24),
            vision=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)),
    }

    def hub_config(self, spec: dict) -> dict:
        return {
            "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "boi_token_index": 465,
            "eoi_token_index": 466, "image_token_index": 467, "eos_token_id": [461, 464], "bos_token_id": 462,
            "pad_token_id": 460, "mm_tokens_per_image": spec["tokens"], "tie_word_embeddings": True,
            "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "text_config": {"model_type": "gemma3_text", "max_position_embeddings": 2048, **spec["text"]},
            "vision_config": {"model_type": "siglip_vision_model", "image_size": spec["image"], "patch_size": 14,
                              "vision_use_head": False, **spec["vision"]},
        }

    def write_small_files(self, directory: Path, spec: dict) -> None:
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.QWEN2_PATTERN, SPECIAL, 460, nfc=True)
        assert tokenizer.token_to_id("<image_soft_token>") == 467
        tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
            "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": None,
            "model_max_length": 2048, "tokenizer_class": "GemmaTokenizer"})
        golden.write_json(directory / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
        golden.write_json(directory / "preprocessor_config.json", {
            "do_convert_rgb": None, "do_normalize": True, "do_pan_and_scan": None, "do_rescale": True,
            "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 2,
            "rescale_factor": 0.00392156862745098, "size": {"height": spec["image"], "width": spec["image"]},
            "image_seq_length": spec["tokens"], "image_processor_type": "Gemma3ImageProcessor",
            "processor_class": "Gemma3Processor"})
        golden.write_json(directory / "generation_config.json",
                          {"bos_token_id": 462, "eos_token_id": [461, 464], "pad_token_id": 460})

    def load_processor(self, directory: Path):
        return Gemma3ImageProcessorPil.from_pretrained(directory)

    def render(self, tokenizer, messages: list) -> str:
        return tokenizer.apply_chat_template(
            messages, chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)

    def inputs(self, reference, pictures: list) -> dict:
        return {"pixel_values": reference.processor(pictures, return_tensors="pt")["pixel_values"]}

    def tokenize(self, reference, rendered: str, pictures: list) -> list[int]:
        """As Gemma3Processor: blank lines and soft tokens written into the text, then tokens."""
        count = reference.model.config.mm_tokens_per_image
        assert rendered.count("<start_of_image>") == len(pictures)
        whole = "\n\n<start_of_image>" + "<image_soft_token>" * count + "<end_of_image>\n\n"
        text = rendered.replace("<start_of_image>", whole)
        return reference.tokenizer(text, add_special_tokens=False)["input_ids"]

    def stacked(self, reference, picture) -> tuple[np.ndarray, list[int]]:
        processor = reference.processor
        pixels = processor.resize(np.array(picture).transpose(2, 0, 1), processor.size, processor.resample)
        side = processor.size["height"] // 14
        return pixels.transpose(1, 2, 0), [1, side, side]

    def prompt_options(self, prompt: list[int], length: int) -> dict:
        kinds = [int(token == 467) for token in prompt] + [0] * (length - len(prompt))
        return {"token_type_ids": torch.tensor([kinds])} if any(kinds) else {}


TEXT = text_family.TextFamily(
    name="gemma-3", out=OUT, pattern=tiny_tokenizer.QWEN2_PATTERN, special=["<eos>", "<bos>", "<start_of_turn>",
                                                                            "<end_of_turn>"], nfc=True,
    end_of_turn="<end_of_turn>", chat_template=CHAT_TEMPLATE, tokenizer_class="GemmaTokenizer")
TEXT_CHECKPOINT = text_family.Spec(53, torch.bfloat16, True, {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 72, "intermediate_size": 104,
    "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 40, "vocab_size": 466,
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 2048, "query_pre_attn_scalar": 40,
    "rms_norm_eps": 1e-6, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0, "sliding_window": 24,
    "sliding_window_pattern": 2, "tie_word_embeddings": True, "pad_token_id": 0})


if __name__ == "__main__":
    tile_family.make(Gemma3())
    print("text")
    text_family.record(TEXT, text_family.write_checkpoint(TEXT, "text", TEXT_CHECKPOINT))
