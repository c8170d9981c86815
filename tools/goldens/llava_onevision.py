"""Golden files of LLaVA-OneVision: tests/golden/llava_onevision.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/llava_onevision.py

Two tiny random checkpoints, saved by transformers:
  newlines  the hub's tensor names and config, bfloat16, tied head, tiles of 44 pixels (3 x 3 patches and two pixels
            left over), up to 3 x 3 of them, no scaling down
  scaled    current transformers' names and config, float16, two shards, anyres_max_2: joined features of more than
            two tiles are scaled down
Every image of a prompt is tiled, as when the processor gets a flat list of images.
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import LlavaOnevisionConfig, LlavaOnevisionForConditionalGeneration
from transformers.image_utils import PILImageResampling
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil

import golden
import tile_family
import tiny_tokenizer

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>"]

# ChatML whose images and then videos come before the text of their message, as published.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.content is string -%}"
    "{{- message.content -}}"
    "{%- else -%}"
    "{%- for part in message.content -%}{%- if part.type == 'image' -%}{{- '<image>\\n' -}}{%- endif -%}{%- endfor -%}"
    "{%- for part in message.content -%}{%- if part.type == 'video' -%}{{- '<video>\\n' -}}{%- endif -%}{%- endfor -%}"
    "{%- for part in message.content -%}{%- if part.type == 'text' -%}{{- part.text -}}{%- endif -%}{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


class LlavaOnevision(tile_family.TileFamily):
    name = "llava-onevision"
    out = Path(__file__).resolve().parents[2] / "tests/golden/llava_onevision"
    config_class = LlavaOnevisionConfig
    model_class = LlavaOnevisionForConditionalGeneration
    checkpoints = {
        "newlines": dict(
            seed=31, dtype=torch.bfloat16, hub_form=True, shard="1GB", tile=44, ratio="anyres_max_9", tied=True,
            text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=6,
                      num_key_value_heads=2, vocab_size=481),
            vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3)),
        "scaled": dict(
            seed=32, dtype=torch.float16, hub_form=False, shard="400KB", tile=56, ratio="anyres_max_2", tied=False,
            text=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=4, num_attention_heads=3,
                      num_key_value_heads=1, vocab_size=480),
            vision=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)),
    }

    @staticmethod
    def pinpoints(spec: dict) -> list:
        return [[h * spec["tile"], w * spec["tile"]] for h in (1, 2, 3) for w in (1, 2, 3)]

    def hub_config(self, spec: dict) -> dict:
        return {
            "architectures": ["LlavaOnevisionForConditionalGeneration"], "model_type": "llava_onevision",
            "image_grid_pinpoints": self.pinpoints(spec), "image_token_index": 463, "video_token_index": 464,
            "projector_hidden_act": "gelu",
            "text_config": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "bos_token_id": 460,
                            "eos_token_id": 462, "max_position_embeddings": 2048, "rope_theta": 10000.0,
                            "rms_norm_eps": 1e-6, "tie_word_embeddings": spec["tied"], **spec["text"]},
            "tie_word_embeddings": spec["tied"], "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "use_image_newline_parameter": True, "vision_aspect_ratio": spec["ratio"],
            "vision_config": {"model_type": "siglip_vision_model", "image_size": spec["tile"], "patch_size": 14,
                              "vision_use_head": False, **spec["vision"]},
            "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
        }

    def write_small_files(self, directory: Path, spec: dict) -> None:
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.QWEN2_PATTERN, SPECIAL, 460, nfc=True)
        assert tokenizer.token_to_id("<image>") == 463
        tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
            "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
            "model_max_length": 2048, "tokenizer_class": "Qwen2Tokenizer"})
        golden.write_json(directory / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
        golden.write_json(directory / "preprocessor_config.json", {
            "do_convert_rgb": True, "do_normalize": True, "do_pad": True, "do_rescale": True, "do_resize": True,
            "image_grid_pinpoints": self.pinpoints(spec), "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            "resample": 3, "rescale_factor": 0.00392156862745098,
            "size": {"height": spec["tile"], "width": spec["tile"]},
            "image_processor_type": "LlavaOnevisionImageProcessor", "processor_class": "LlavaOnevisionProcessor"})
        golden.write_json(directory / "generation_config.json", {"bos_token_id": 460, "eos_token_id": 462})

    def load_processor(self, directory: Path):
        return LlavaOnevisionImageProcessorPil.from_pretrained(directory)

    def render(self, tokenizer, messages: list) -> str:
        return tokenizer.apply_chat_template(
            messages, chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)

    def inputs(self, reference, pictures: list) -> dict:
        batch = reference.processor(pictures, return_tensors="pt")
        return {"pixel_values": batch["pixel_values"], "image_sizes": batch["image_sizes"]}

    def tokenize(self, reference, rendered: str, pictures: list) -> list[int]:
        counts = []
        if pictures:
            features = reference.model.model.get_image_features(**self.inputs(reference, pictures)).pooler_output
            counts = [len(each) for each in features]
        parts = rendered.split("<image>")
        text = parts[0] + "".join("<image>" * count + part for count, part in zip(counts, parts[1:], strict=True))
        return reference.tokenizer(text, add_special_tokens=False)["input_ids"]

    def stacked(self, reference, picture) -> tuple[np.ndarray, list[int]]:
        tile = reference.processor.size["height"]
        tiles = reference.processor.get_image_patches(
            np.array(picture).transpose(2, 0, 1), reference.processor.image_grid_pinpoints, size=(tile, tile),
            patch_size=tile, resample=PILImageResampling.BICUBIC)
        return np.concatenate([each.transpose(1, 2, 0) for each in tiles]), [len(tiles), tile // 14, tile // 14]


if __name__ == "__main__":
    tile_family.make(LlavaOnevision())
