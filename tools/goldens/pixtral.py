"""Golden files of Mistral 3 and Pixtral: tests/golden/mistral3 and tests/golden/pixtral.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/pixtral.py [TEMPLATE]

Four tiny random checkpoints, saved by transformers:
  mistral3/squares  the hub's form, bfloat16, its own head, 2 x 2 patches of 14 a token, a projector without biases
  mistral3/ninths   current transformers' form, float16, two shards, tied head, 3 x 3 patches a token, a projector with
                    biases, every text layer sees 40 tokens
  pixtral/rows      the hub's form, bfloat16, its own head, a token a patch of 16, a projector with biases
  pixtral/short     current transformers' form, float16, two shards, tied head, a projector without biases

TEMPLATE is the chat template as published with Mistral Small 3.2: see mistral.py. token_counts.tsv, size_controls.tsv
and small_bounds.tsv are of the image processor with what the two publish.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from transformers import LlavaConfig, LlavaForConditionalGeneration, Mistral3Config, Mistral3ForConditionalGeneration
from transformers.image_utils import ChannelDimension
from transformers.models.pixtral.image_processing_pil_pixtral import (
    PixtralImageProcessorPil,
    get_resize_output_image_size,
)

import golden
import mistral
import size_controls
import small_bounds
import tile_family
import tiny_tokenizer
import token_counts

SPECIAL = mistral.SPECIAL
IMAGE = 460 + SPECIAL.index("[IMG]")
CASES = {name: turns if turns[0][0] == "system" else [("system", [mistral.SYSTEM[1]]), *turns]
         for name, turns in golden.CASES.items()}
PUBLISHED: dict[str, str] = {}  # the template's source, where it is at hand


class Pixtral(tile_family.TileFamily):
    name = "pixtral"
    out = Path(__file__).resolve().parents[2] / "tests/golden/pixtral"
    config_class = LlavaConfig
    model_class = LlavaForConditionalGeneration
    cases = CASES
    named = mistral.NAMED
    around = {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "image_seq_length": 1,
              "vision_feature_select_strategy": "full"}
    checkpoints = {
        "rows": dict(
            seed=121, dtype=torch.bfloat16, hub_form=True, shard="1GB", patch=16, merge=1, edge=96, tied=False,
            more={},
            text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=3,
                      num_key_value_heads=1, head_dim=40, vocab_size=481, sliding_window=None),
            vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3)),
        "short": dict(
            seed=122, dtype=torch.float16, hub_form=False, shard="400KB", patch=16, merge=1, edge=64, tied=True,
            more={"multimodal_projector_bias": False},
            text=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=4, num_attention_heads=6,
                      num_key_value_heads=2, head_dim=12, vocab_size=480, sliding_window=None),
            vision=dict(hidden_size=64, intermediate_size=72, num_hidden_layers=2, num_attention_heads=2)),
    }

    def hub_name(self, name: str) -> str:
        return name

    def embeddings(self, tower):
        return tower.ln_pre

    def layers(self, tower):
        return tower.transformer.layers

    def hub_config(self, spec: dict) -> dict:
        return {
            **self.around, "image_token_index": IMAGE, "projector_hidden_act": "gelu", "vision_feature_layer": -1,
            "tie_word_embeddings": spec["tied"], "torch_dtype": str(spec["dtype"]).removeprefix("torch."), **spec["more"],
            "text_config": {"model_type": "mistral", "hidden_act": "silu", "max_position_embeddings": 2048,
                            "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "bos_token_id": 460, "eos_token_id": 461,
                            "tie_word_embeddings": spec["tied"], **spec["text"]},
            "vision_config": {"model_type": "pixtral", "hidden_act": "silu", "num_channels": 3, "rope_theta": 10000.0,
                              "image_size": spec["edge"], "patch_size": spec["patch"], **spec["vision"]},
        }

    def write_small_files(self, directory: Path, spec: dict) -> None:
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.TEKKEN_PATTERN, SPECIAL, 460, nfc=False)
        assert tokenizer.token_to_id("[IMG]") == IMAGE
        tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
            **self.named, "pad_token": "<pad>", "model_max_length": 2048, "tokenizer_class": "PreTrainedTokenizerFast"})
        golden.write_json(directory / "chat_template.json", {"chat_template": mistral.CHAT_TEMPLATE})
        golden.write_json(directory / "preprocessor_config.json", self.preprocessor(spec["patch"], spec["edge"]))
        golden.write_json(directory / "generation_config.json", {"bos_token_id": 460, "eos_token_id": 461})

    @staticmethod
    def preprocessor(patch: int, edge: int) -> dict:
        return {"do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
                "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_processor_type": "PixtralImageProcessor",
                "image_std": [0.26862954, 0.26130258, 0.27577711], "patch_size": {"height": patch, "width": patch},
                "processor_class": "PixtralProcessor", "resample": 3, "rescale_factor": 0.00392156862745098,
                "size": {"longest_edge": edge}}

    def load_processor(self, directory: Path):
        return PixtralImageProcessorPil.from_pretrained(directory)

    def render(self, tokenizer, messages: list) -> str:
        template = PUBLISHED.get("mistral") or mistral.CHAT_TEMPLATE
        return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)

    @staticmethod
    def units(reference) -> tuple[int, int]:
        """Pixels a side of a patch, and patches a side of a token."""
        config = reference.model.config
        return config.vision_config.patch_size, getattr(config, "spatial_merge_size", 1)

    def inputs(self, reference, pictures: list) -> dict:
        patch, self.merge = self.units(reference)
        self.patch = patch
        batch = reference.processor(pictures, patch_size=patch * self.merge, return_tensors="pt")
        return {"pixel_values": batch["pixel_values"], "image_sizes": batch["image_sizes"]}

    def in_order(self, rows: torch.Tensor, images: dict) -> torch.Tensor:
        """The patches of each square together."""
        sizes = [(int(h) // self.patch, int(w) // self.patch) for h, w in images["image_sizes"]]
        ordered, m = [], self.merge
        for (h, w), part in zip(sizes, rows.split([h * w for h, w in sizes]), strict=True):
            squares = part.reshape(h // m, m, w // m, m, -1).permute(0, 2, 1, 3, 4)
            ordered.append(squares.reshape(h * w, -1))
        return torch.cat(ordered)

    def tokenize(self, reference, rendered: str, pictures: list) -> list[int]:
        parts = rendered.split("[IMG]")
        text = parts[0]
        if pictures:
            patch, merge = self.units(reference)
            for (height, width), part in zip(self.inputs(reference, pictures)["image_sizes"], parts[1:], strict=True):
                line = "[IMG]" * (int(width) // (patch * merge))
                text += "[IMG_BREAK]".join([line] * (int(height) // (patch * merge))) + "[IMG_END]" + part
        return reference.tokenizer(text, add_special_tokens=False)["input_ids"]

    def stacked(self, reference, picture) -> tuple[np.ndarray, list[int]]:
        processor = reference.processor
        patch, merge = self.units(reference)
        pixels = processor.resize(np.array(picture).transpose(2, 0, 1), processor.size,
                                  type(processor.size)(height=patch * merge, width=patch * merge), processor.resample)
        _, height, width = pixels.shape
        return pixels.transpose(1, 2, 0), [1, height // patch, width // patch]


class Mistral3(Pixtral):
    name = "mistral-3"
    out = Path(__file__).resolve().parents[2] / "tests/golden/mistral3"
    config_class = Mistral3Config
    model_class = Mistral3ForConditionalGeneration
    around = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3"}
    checkpoints = {
        "squares": dict(
            seed=123, dtype=torch.bfloat16, hub_form=True, shard="1GB", patch=14, merge=2, edge=112, tied=False,
            more={"multimodal_projector_bias": False, "spatial_merge_size": 2},
            text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=3,
                      num_key_value_heads=1, head_dim=40, vocab_size=481, sliding_window=None),
            vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3, head_dim=16)),
        "ninths": dict(
            seed=124, dtype=torch.float16, hub_form=False, shard="400KB", patch=14, merge=3, edge=126, tied=True,
            more={"multimodal_projector_bias": True, "spatial_merge_size": 3},
            text=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=3, num_attention_heads=6,
                      num_key_value_heads=2, head_dim=12, vocab_size=480, sliding_window=40),
            vision=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=1)),
    }


def count_at(unit: int, edge: int, height: int, width: int) -> int:
    """Of the embeddings; what stands after each row is not counted. 0: nothing is left of a side."""
    down, across = get_resize_output_image_size(
        np.broadcast_to(np.zeros(1, np.uint8), (height, width, 3)), (edge, edge), (unit, unit), ChannelDimension.LAST)
    return down // unit * (across // unit)


def count_tokens(family: Pixtral, checkpoint: str, patch: int, merge: int, edge: int) -> None:
    folder, unit = family.out.name, patch * merge
    config = family.hub_config(family.checkpoints[checkpoint])
    config["vision_config"] |= {"patch_size": patch, "image_size": edge}
    # On both sides of whole squares and of the limit.
    more = [(edge + n, edge + m) for n in (-1, 0, 1) for m in (-unit, -1, 0, 1, unit)]
    more += [(unit * n + k, 2 * edge - 1) for n in (1, 7, 40) for k in (-1, 0, 1)]
    more += [(1, edge), (1, edge + 1), (edge + 1, 1), (2, 2 * edge), (2, 2 * edge + 1)]
    token_counts.write(folder, config, family.preprocessor(patch, edge), lambda h, w: count_at(unit, edge, h, w),
                       token_counts.SIZES + more)
    small_bounds.write(folder, [{"preprocessor": {"size": {"longest_edge": each}}}
                                for each in (1, unit - 1, unit, unit + 1, 100, 333)],
                       lambda h, w, preprocessor, _: count_at(unit, preprocessor["size"]["longest_edge"], h, w))
    size_controls.write(folder, [{"size": {"longest_edge": each}} for each in (edge, edge - 1, 500, unit, 8)],
                        lambda h, w, kwargs: count_at(unit, kwargs["size"]["longest_edge"], h, w))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PUBLISHED["mistral"] = Path(sys.argv[1]).read_text()
        mistral.check_template(PUBLISHED["mistral"])
    for family in (Mistral3(), Pixtral()):
        tile_family.make(family)
    count_tokens(Mistral3(), "squares", 14, 2, 1540)
    count_tokens(Pixtral(), "rows", 16, 1, 1024)
