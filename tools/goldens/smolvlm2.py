"""Golden files of SmolVLM2: tests/golden/smolvlm2.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/smolvlm2.py

Three tiny random checkpoints, saved by transformers:
  thirds  bfloat16, tied head, tiles of 42 pixels (3 x 3 patches, one token each), up to 3 tiles along the longer side
  halves  float16, two shards, its own head, tiles of 56 pixels (4 x 4 patches, 2 x 2 tokens), up to 2
  fifths  bfloat16, tied head, tiles of 50 pixels in patches of 2: 25 a side, where rounding gives ten patches the position of
          the one before (positions.tsv), 5 x 5 patches a token, up to 2 tiles
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.smolvlm.configuration_smolvlm import SmolVLMVisionConfig
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.modeling_smolvlm import SmolVLMVisionEmbeddings
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_CHAT_TEMPLATE, get_image_prompt_string

import golden
import tile_family
import tiny_tokenizer
import token_counts

SPECIAL = (["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<global-img>"]
           + [f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)]
           + ["<fake_token_around_image>", "<image>", "<end_of_utterance>"])
IMAGE = 460 + SPECIAL.index("<image>")


class SmolVlm2(tile_family.TileFamily):
    name = "smolvlm2"
    out = Path(__file__).resolve().parents[2] / "tests/golden/smolvlm2"
    config_class = SmolVLMConfig
    model_class = SmolVLMForConditionalGeneration
    checkpoints = {
        "thirds": dict(
            seed=61, dtype=torch.bfloat16, hub_form=True, shard="1GB", tile=42, longest=126, factor=3, tied=True,
            text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=6,
                      num_key_value_heads=2, vocab_size=481),
            vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3)),
        "halves": dict(
            seed=62, dtype=torch.float16, hub_form=False, shard="400KB", tile=56, longest=112, factor=2, tied=False,
            text=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=4, num_attention_heads=3,
                      num_key_value_heads=1, vocab_size=480),
            vision=dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)),
        "fifths": dict(
            seed=63, dtype=torch.bfloat16, hub_form=True, shard="1GB", tile=50, longest=100, factor=5, tied=True,
            patch=2, text=dict(hidden_size=64, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
                               num_key_value_heads=2, vocab_size=481),
            vision=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2)),
    }

    def tower(self, model):
        return model.model.vision_model

    def decoder(self, model):
        return model.model.text_model

    def hub_config(self, spec: dict) -> dict:
        return {
            "architectures": ["SmolVLMForConditionalGeneration"], "model_type": "smolvlm", "image_token_id": IMAGE,
            "pad_token_id": 462, "scale_factor": spec["factor"], "tie_word_embeddings": spec["tied"],
            "text_config": {"architectures": ["VLlama3ForCausalLM"], "model_type": "llama", "bos_token_id": 461,
                            "eos_token_id": 475, "pad_token_id": 462, "max_position_embeddings": 2048,
                            "rope_theta": 100000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": spec["tied"],
                            **spec["text"]},
            "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "vision_config": {"model_type": "smolvlm_vision", "image_size": spec["tile"],
                              "patch_size": spec.get("patch", 14), "max_image_size": {"longest_edge": spec["tile"]},
                              **spec["vision"]},
        }

    def write_small_files(self, directory: Path, spec: dict) -> None:
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.QWEN2_PATTERN, SPECIAL, 460, nfc=False)
        assert tokenizer.token_to_id("<image>") == IMAGE
        tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
            "bos_token": "<|im_start|>", "eos_token": "<end_of_utterance>", "pad_token": "<|im_end|>",
            "unk_token": "<|endoftext|>", "model_max_length": 2048, "tokenizer_class": "GPT2Tokenizer"})
        golden.write_json(directory / "chat_template.json", {"chat_template": DEFAULT_CHAT_TEMPLATE})
        golden.write_json(directory / "preprocessor_config.json", {
            "do_convert_rgb": True, "do_image_splitting": True, "do_normalize": True, "do_pad": True,
            "do_rescale": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            "max_image_size": {"longest_edge": spec["tile"]}, "resample": 1, "rescale_factor": 0.00392156862745098,
            "size": {"longest_edge": spec["longest"]},
            "image_processor_type": "SmolVLMImageProcessor", "processor_class": "SmolVLMProcessor"})
        golden.write_json(directory / "generation_config.json",
                          {"bos_token_id": 461, "eos_token_id": 475, "pad_token_id": 462})

    def load_processor(self, directory: Path):
        return SmolVLMImageProcessorPil.from_pretrained(directory)

    def render(self, tokenizer, messages: list) -> str:
        return tokenizer.apply_chat_template(
            messages, chat_template=DEFAULT_CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)

    def inputs(self, reference, pictures: list) -> dict:
        batch = reference.processor([pictures], return_tensors="pt")
        return {"pixel_values": batch["pixel_values"], "pixel_attention_mask": batch["pixel_attention_mask"]}

    def tokenize(self, reference, rendered: str, pictures: list) -> list[int]:
        config = reference.model.config
        count = (config.vision_config.image_size // config.vision_config.patch_size // config.scale_factor) ** 2
        parts = rendered.split("<image>")
        text = parts[0]
        if pictures:
            shapes = reference.processor([pictures], return_tensors="pt", return_row_col_info=True)
            for rows, columns, part in zip(shapes["rows"][0], shapes["cols"][0], parts[1:], strict=True):
                text += get_image_prompt_string(int(rows), int(columns), count, "<fake_token_around_image>", "<image>",
                                                "<global-img>") + part
        return reference.tokenizer(text, add_special_tokens=False)["input_ids"]

    def stacked(self, reference, picture) -> tuple[np.ndarray, list[int]]:
        processor = reference.processor
        tile = processor.max_image_size["longest_edge"]
        pixels = processor.resize(np.array(picture).transpose(2, 0, 1), processor.size, processor.resample)
        pixels = processor.resize_for_vision_encoder(pixels, tile, resample=processor.resample)
        tiles, _, _ = processor.split_images(pixels, {"longest_edge": tile}, resample=processor.resample)
        side = tile // reference.model.config.vision_config.patch_size
        return np.concatenate([each.transpose(1, 2, 0) for each in tiles]), [len(tiles), side, side]


def count_tokens() -> None:
    """Of the embeddings; the text between them is not counted."""
    processor = SmolVLMImageProcessorPil(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512})
    family = SmolVlm2()
    config = family.hub_config(family.checkpoints["thirds"])
    config["scale_factor"] = 4
    config["vision_config"] |= {"image_size": 512, "patch_size": 16}

    def count(height: int, width: int) -> int:
        image = np.zeros((3, height, width), np.uint8)
        image = processor.resize(image, processor.size, processor.resample)
        image = processor.resize_for_vision_encoder(image, 512, resample=processor.resample)
        return 64 * len(processor.split_images(image, {"longest_edge": 512}, resample=processor.resample)[0])

    token_counts.write("smolvlm2", config, {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}},
                       count)


@torch.no_grad()
def list_positions() -> None:
    """positions.tsv, by patches a side of a tile: those whose row of learnt positions is another than their place along
    the side, as place:row. The reference's own embeddings, made to say which row they take."""
    lines = []
    for side in range(1, 129):
        embeddings = SmolVLMVisionEmbeddings(SmolVLMVisionConfig(hidden_size=1, image_size=side, patch_size=1))
        for parameter in embeddings.patch_embedding.parameters():
            parameter.zero_()
        embeddings.position_embedding.weight.copy_(torch.arange(side * side)[:, None])
        rows = embeddings(torch.zeros(1, 3, side, side), torch.ones(1, side, side, dtype=torch.bool))[0, :, 0].int()
        along = rows[:side]
        assert torch.equal(rows, (along[:, None] * side + along).flatten())
        lines.append(f"{side}\t" + " ".join(f"{at}:{row}" for at, row in enumerate(along.tolist()) if at != row))
    (SmolVlm2.out / "positions.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    tile_family.make(SmolVlm2())
    count_tokens()
    list_positions()
