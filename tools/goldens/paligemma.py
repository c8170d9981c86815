"""Golden files of PaliGemma and PaliGemma 2: tests/golden/paligemma.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/paligemma.py

Two tiny random checkpoints, saved by transformers:
  first   the hub's tensor names and config, bfloat16: a Gemma of one key head, head width apart from hidden / heads
  second  current transformers' names and config, float16, two shards: a Gemma 2 with soft caps, whose layers 0 and 2
          see a window shorter than the prefix
Prompts attend both ways over all their tokens (token_type_ids 0), what is generated is causal (1).
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

import golden
import tile_family
import tiny_tokenizer

SPECIAL = ["<pad>", "<eos>", "<bos>", "<image>"]


class Paligemma(tile_family.TileFamily):
    name = "paligemma"
    out = Path(__file__).resolve().parents[2] / "tests/golden/paligemma"
    config_class = PaliGemmaConfig
    model_class = PaliGemmaForConditionalGeneration
    first_position = 1
    cases = {
        "text": [("user", ["How many {} are there in 12 + 345? über 图片"])],
        "one_image": [("user", ["wide.png", "What is shown in this {}?"])],
        "three_images": [("user", ["tall.png", "wide.png", "square.png", "Compare the {} of them."])],
        "multi_turn": [
            ("user", ["small.png", "Describe the {}."]),
            ("assistant", ["A blue circle, left of the line."]),
            ("user", ["square.png", "And here?"]),
        ],
    }
    checkpoints = {
        "first": dict(
            seed=41, dtype=torch.bfloat16, hub_form=True, shard="1GB", image=44,
            text=dict(model_type="gemma", hidden_size=96, intermediate_size=112, num_hidden_layers=3,
                      num_attention_heads=4, num_key_value_heads=1, head_dim=32, vocab_size=481),
            vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3)),
        "second": dict(
            seed=42, dtype=torch.float16, hub_form=False, shard="400KB", image=56,
            text=dict(model_type="gemma2", hidden_size=72, intermediate_size=88, num_hidden_layers=4,
                      num_attention_heads=3, num_key_value_heads=1, head_dim=16, vocab_size=480, sliding_window=24,
                      query_pre_attn_scalar=20, attn_logit_softcapping=10.0, final_logit_softcapping=30.0,
                      hidden_activation="gelu_pytorch_tanh"),
            vision=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)),
    }

    def hub_config(self, spec: dict) -> dict:
        return {
            "architectures": ["PaliGemmaForConditionalGeneration"], "model_type": "paligemma",
            "bos_token_id": 462, "eos_token_id": 461, "pad_token_id": 460, "image_token_index": 463,
            "projection_dim": spec["text"]["hidden_size"], "hidden_size": spec["text"]["hidden_size"],
            "tie_word_embeddings": True, "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "text_config": {"bos_token_id": 462, "eos_token_id": 461, "pad_token_id": 460,
                            "max_position_embeddings": 2048, "tie_word_embeddings": True, **spec["text"]},
            "vision_config": {"model_type": "siglip_vision_model", "image_size": spec["image"], "patch_size": 14,
                              "projection_dim": spec["text"]["hidden_size"], "vision_use_head": False,
                              **spec["vision"]},
        }

    def write_small_files(self, directory: Path, spec: dict) -> None:
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.QWEN2_PATTERN, SPECIAL, 460, nfc=True)
        assert tokenizer.token_to_id("<image>") == 463
        tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
            "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": None,
            "model_max_length": 2048, "tokenizer_class": "GemmaTokenizer"})
        golden.write_json(directory / "preprocessor_config.json", {
            "do_convert_rgb": None, "do_normalize": True, "do_rescale": True, "do_resize": True,
            "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3,
            "rescale_factor": 0.00392156862745098, "size": {"height": spec["image"], "width": spec["image"]},
            "image_seq_length": (spec["image"] // 14) ** 2,
            "image_processor_type": "SiglipImageProcessor", "processor_class": "PaliGemmaProcessor"})
        golden.write_json(directory / "generation_config.json",
                          {"bos_token_id": 462, "eos_token_id": 461, "pad_token_id": 460})

    def load_processor(self, directory: Path):
        return SiglipImageProcessorPil.from_pretrained(directory)

    def render(self, tokenizer, messages: list) -> str:
        """What the processor makes of images and a text: images, <bos>, text, newline."""
        images = "".join("<image>" for m in messages for part in m["content"] if part["type"] == "image")
        texts = ["".join(part.get("text", "") for part in m["content"]) for m in messages]
        return images + "<bos>" + "\n".join(texts) + "\n"

    def inputs(self, reference, pictures: list) -> dict:
        return {"pixel_values": reference.processor(pictures, return_tensors="pt")["pixel_values"]}

    def tokenize(self, reference, rendered: str, pictures: list) -> list[int]:
        count = (reference.model.config.vision_config.image_size // 14) ** 2
        assert rendered.count("<image>") == len(pictures)
        return reference.tokenizer(rendered.replace("<image>", "<image>" * count), add_special_tokens=False)["input_ids"]

    def stacked(self, reference, picture) -> tuple[np.ndarray, list[int]]:
        processor = reference.processor
        pixels = processor.resize(np.array(picture).transpose(2, 0, 1), processor.size, processor.resample)
        side = processor.size["height"] // 14
        return pixels.transpose(1, 2, 0), [1, side, side]

    def logits(self, reference, logits: torch.Tensor) -> torch.Tensor:
        """Gemma 2's cap of the final logits, as Gemma2ForCausalLM has it: today's PaliGemma class forgot it when it took
        the head over from there. It moves no maximum, so greedy tokens are the same."""
        cap = getattr(reference.model.config.text_config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def prompt_options(self, prompt: list[int], length: int) -> dict:
        return {"token_type_ids": torch.tensor([[0] * len(prompt) + [1] * (length - len(prompt))])}


if __name__ == "__main__":
    tile_family.make(Paligemma())
