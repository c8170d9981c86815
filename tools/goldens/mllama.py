"""Golden files of Llama 3.2 Vision: tests/golden/mllama.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/mllama.py

Two tiny random checkpoints, saved by transformers:
  quarters  the hub's tensor names and config, bfloat16, up to 4 tiles of 28 pixels (patches of 7), two layers that
            attend to images, the first of them right after one layer of text
  thirds    current transformers' names and config, float16, two shards, up to 3 tiles of 42 pixels, other head counts,
            rope without scaling

transformers 5.17 lets a token before the first image attend to all images of the prompt, padding tiles included, and
zeroes only the MLP for it. Meta's own code (llama-models, CrossAttention.forward), for which the weights were made,
zeroes the attention too, as vLLM and SGLang do. Text before an image would else depend on the image that comes after
it. The reference here does as Meta's; `first`, whose prompts begin with the image, is transformers untouched.
"""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import MllamaConfig, MllamaForConditionalGeneration
from transformers.image_utils import SizeDict
from transformers.models.mllama import modeling_mllama
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil, split_to_tiles_np
from transformers.models.mllama.processing_mllama import (
    convert_sparse_cross_attention_mask_to_dense,
    get_cross_attention_token_mask,
)

import golden
import tile_family
import tiny_tokenizer

SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
           "<|eot_id|>", "<|finetune_right_pad_id|>", "<|python_tag|>"]
LEARNT = 460
VOCAB = LEARNT + len(SPECIAL)
IMAGE = VOCAB  # as published: the first id that has no logit
CHAT_TEMPLATE = (Path(__file__).parent / "mllama_chat_template.jinja").read_text().removesuffix("\n")
MEAN = [0.48145466, 0.4578275, 0.40821073]
STD = [0.26862954, 0.26130258, 0.27577711]

CASES = {
    "text": [("system", ["You answer in one short sentence."]),
             ("user", ["How many {} are there in 12 + 345? über 图片"])],
    "one_image": [("user", ["wide.png", "What is shown in this {}?"])],
    # Images in a row are seen together; one after text is seen alone.
    "three_images": [("user", ["tall.png", "wide.png", "Compare the {} of them", "square.png", " with this one."])],
    "multi_turn": [
        ("user", ["small.png", "Describe the {}."]),
        ("assistant", ["A blue circle, left of the line."]),
        ("user", ["square.png", "And here?"]),
        ("assistant", ["There are 3 squares."]),
        ("user", ["Which of them is darker?"]),
    ],
    # A prompt that begins with its image, as for the base models: no token sees none.
    "first": [("user", ["square.png", "The {} of this is"])],
}


def as_meta(block: modeling_mllama.MllamaTextCrossAttention) -> None:
    """What a token that sees no image gets of the attention is zeroed."""
    inner = block.cross_attn.forward

    def forward(*arguments, **keywords):
        attended, weights = inner(*arguments, **keywords)
        mask = as_meta.rows
        return attended if mask is None else attended * mask, weights

    block.cross_attn.forward = forward


as_meta.rows = None


class Mllama(tile_family.TileFamily):
    name = "llama-3.2-vision"
    out = Path(__file__).resolve().parents[2] / "tests/golden/mllama"
    config_class = MllamaConfig
    model_class = MllamaForConditionalGeneration
    cases = CASES
    named = {"bos_token": "<|begin_of_text|>"}
    checkpoints = {
        "quarters": dict(
            seed=71, dtype=torch.bfloat16, hub_form=True, shard="1GB", tile=28, patch=7, tiles=4,
            text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=5, num_attention_heads=6,
                      num_key_value_heads=2, cross_attention_layers=[1, 3],
                      rope_scaling={"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 64, "rope_type": "llama3"}),
            vision=dict(hidden_size=48, attention_heads=3, intermediate_size=76, num_hidden_layers=4,
                        num_global_layers=2, intermediate_layers_indices=[0, 2])),
        "thirds": dict(
            seed=72, dtype=torch.float16, hub_form=False, shard="400KB", tile=42, patch=14, tiles=3,
            text=dict(hidden_size=72, intermediate_size=88, num_hidden_layers=4, num_attention_heads=3,
                      num_key_value_heads=1, cross_attention_layers=[2], rope_scaling=None),
            vision=dict(hidden_size=40, attention_heads=2, intermediate_size=64, num_hidden_layers=3,
                        num_global_layers=1, intermediate_layers_indices=[1, 2, 0])),
    }

    def hub_config(self, spec: dict) -> dict:
        ratios = [[w, h] for w in range(1, spec["tiles"] + 1) for h in range(1, spec["tiles"] + 1)
                  if w * h <= spec["tiles"]]
        vision = spec["vision"]
        width = vision["hidden_size"] * (1 + len(vision["intermediate_layers_indices"]))
        return {
            "architectures": ["MllamaForConditionalGeneration"], "model_type": "mllama", "image_token_index": IMAGE,
            "text_config": {"model_type": "mllama_text_model", "bos_token_id": LEARNT, "eos_token_id": LEARNT + 5,
                            "pad_token_id": LEARNT + 6, "hidden_act": "silu", "max_position_embeddings": 2048,
                            "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
                            "vocab_size": VOCAB, "dropout": 0, **spec["text"]},
            "tie_word_embeddings": False, "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "vision_config": {"model_type": "mllama_vision_model", "hidden_act": "gelu", "image_size": spec["tile"],
                              "patch_size": spec["patch"], "max_num_tiles": spec["tiles"], "norm_eps": 1e-5,
                              "num_channels": 3, "supported_aspect_ratios": ratios, "vision_output_dim": width,
                              **vision},
        }

    def hub_name(self, name: str) -> str:
        return name

    def write_small_files(self, directory: Path, spec: dict) -> None:
        special = [*SPECIAL, "<|image|>"]
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.LLAMA3_PATTERN, special, LEARNT, nfc=False)
        assert tokenizer.token_to_id("<|image|>") == IMAGE
        tiny_tokenizer.write_tokenizer(tokenizer, special, directory, {
            "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "pad_token": "<|finetune_right_pad_id|>",
            "model_max_length": 2048, "tokenizer_class": "PreTrainedTokenizerFast"})
        golden.write_json(directory / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
        golden.write_json(directory / "preprocessor_config.json", {
            "do_convert_rgb": True, "do_normalize": True, "do_pad": True, "do_rescale": True, "do_resize": True,
            "image_mean": MEAN, "image_std": STD, "max_image_tiles": spec["tiles"], "resample": 2,
            "rescale_factor": 0.00392156862745098, "size": {"height": spec["tile"], "width": spec["tile"]},
            "image_processor_type": "MllamaImageProcessor"})
        golden.write_json(directory / "generation_config.json",
                          {"bos_token_id": LEARNT, "eos_token_id": [LEARNT + 1, LEARNT + 4, LEARNT + 5]})

    def load_processor(self, directory: Path):
        return MllamaImageProcessorPil.from_pretrained(directory)

    def render(self, tokenizer, messages: list) -> str:
        for message in messages:  # the published template takes a system message as a plain string alone
            if message["role"] == "system":
                message["content"] = message["content"][0]["text"]
        return tokenizer.apply_chat_template(messages, chat_template=CHAT_TEMPLATE, tokenize=False,
                                             add_generation_prompt=True, date_string="26 Jul 2024")

    def tokenize(self, reference, rendered: str, pictures: list) -> list[int]:
        return reference.tokenizer(rendered, add_special_tokens=False)["input_ids"]

    def inputs(self, reference, pictures: list) -> dict:
        batch = reference.processor([pictures], return_tensors="pt")
        self.num_tiles = batch.pop("num_tiles")
        return dict(batch)

    def prompt_options(self, prompt: list[int], length: int) -> dict:
        """The processor's mask of the prompt; every generated token sees what the prompt's last one does."""
        if IMAGE not in prompt:
            as_meta.rows = None
            return {}
        mask = torch.from_numpy(convert_sparse_cross_attention_mask_to_dense(
            [get_cross_attention_token_mask(prompt, IMAGE)], self.num_tiles, self.tiles, len(prompt)))
        mask = torch.cat([mask, mask[:, -1:].expand(-1, length - len(prompt), -1, -1)], dim=1)
        as_meta.rows = mask.flatten(2).any(-1)[..., None].float()
        return {"cross_attention_mask": mask}

    def stacked(self, reference, picture: Image.Image) -> tuple[np.ndarray, list[int]]:
        processor = reference.processor
        side = processor.size["height"]
        image, ratio = processor.resize(np.array(picture).transpose(2, 0, 1), SizeDict(height=side, width=side),
                                        processor.max_image_tiles, processor.resample)
        image = processor.pad(image, {"height": side, "width": side}, ratio)
        tiles = split_to_tiles_np(image, *ratio)
        patches = side // self.patch
        return np.concatenate([each.transpose(1, 2, 0) for each in tiles]), [len(tiles), patches, patches]

    def decoder(self, model):
        return model.model.language_model


class Reference(tile_family.Reference):
    def __init__(self, family: Mllama, directory: Path):
        super().__init__(family, directory)
        vision = self.model.config.vision_config
        family.tiles, family.patch = vision.max_num_tiles, vision.patch_size
        for index in self.model.config.text_config.cross_attention_layers:
            as_meta(self.model.model.language_model.layers[index])


def condition(model: torch.nn.Module, seed: int) -> None:
    """As golden.condition; gates of one number are each another, and of both signs."""
    plain_condition(model, seed)
    gates = [parameter for _, parameter in sorted(model.named_parameters()) if parameter.numel() == 1]
    with torch.no_grad():
        for index, gate in enumerate(gates):
            gate.fill_((0.5 + index / 16) * (-1) ** index)


plain_condition = golden.condition
golden.condition = condition


@torch.no_grad()
def record(family: Mllama, reference: Reference, case: str, turns: list) -> None:
    names = [part for _, parts in turns for part in parts if part in golden.PICTURES]
    pictures = [Image.open(family.out / "images" / name).convert("RGB") for name in names]
    images = family.inputs(reference, pictures) if pictures else {}
    core = reference.model.model

    def forward(prompt: list[int], ids: list[int], **options):
        return reference.model(input_ids=torch.tensor([ids]), use_cache=False, **images,
                               **family.prompt_options(prompt, len(ids)), **options)

    for word in golden.WORDS:
        messages = [{"role": role, "content": [
            {"type": "image"} if part in golden.PICTURES else {"type": "text", "text": part.replace("{}", word)}
            for part in parts]} for role, parts in turns]
        rendered = family.render(reference.tokenizer, messages)
        if case == "first":
            rendered = "<|image|><|begin_of_text|>" + messages[0]["content"][1]["text"]
            messages = []
        ids = family.tokenize(reference, rendered, pictures)
        tokens, gap = golden.greedy(lambda so_far: forward(ids, so_far).logits[:, -1], ids)
        print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP:
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

    taps = golden.Taps()
    if pictures:
        tower = core.vision_model
        rows = tower.num_patches
        kept = [(image, tile) for image, count in enumerate(family.num_tiles[0]) for tile in range(count)]

        def own_rows(value: torch.Tensor) -> torch.Tensor:
            """[images * all rows of all tiles, width] to the rows of patches and class tokens of real tiles."""
            tiles = value.reshape(len(pictures), family.tiles, -1, value.shape[-1])
            return torch.cat([tiles[image, tile, :rows] for image, tile in kept])

        taps.output("vision.patch_embed", tower.layernorm_pre)
        for index, block in enumerate([*tower.transformer.layers, *tower.global_transformer.layers]):
            taps.output(f"vision.layer.{index}", block)
        taps.output("vision.merged", core.multi_modal_projector)
    taps.text(family.decoder(reference.model))
    logits = forward(ids, ids, logits_to_keep=3).logits[0]
    taps.close()
    for name in taps.values:
        if name.startswith("vision."):
            taps.values[name] = own_rows(taps.values[name])
    if case == "first":  # nobody is without an image: transformers as it is
        as_meta.rows = None
        plain = reference.model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=3, **images,
                                cross_attention_mask=family.prompt_options(ids, len(ids))["cross_attention_mask"])
        assert as_meta.rows.all() and torch.equal(plain.logits[0], logits)
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None]
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)

    described = []
    for name, picture in zip(names, pictures):
        pixels, grid = family.stacked(reference, picture)
        assert pixels.dtype == np.uint8, pixels.dtype
        file = f"pixels/{reference.directory.name}_{name}"
        (family.out / "pixels").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(family.out / file, optimize=True)
        described.append({"source": f"../../images/{name}", "pixels": f"../../{file}", "grid": grid})
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, [*taps.values, "logits"], {
        "family": family.name, "case": case, "messages": messages, "rendered": rendered, "images": described})


def make(family: Mllama) -> None:
    torch.set_num_threads(1)
    golden.fresh(family.out / "images")
    golden.fresh(family.out / "pixels")
    for name, (width, height, seed) in golden.PICTURES.items():
        golden.picture(width, height, seed).save(family.out / "images" / name, optimize=True)
    for name, spec in family.checkpoints.items():
        print(name)
        reference = Reference(family, tile_family.write_checkpoint(family, name, spec))
        tile_family.check_other_form(family, reference)
        for case, turns in family.cases.items():
            record(family, reference, case, turns)


if __name__ == "__main__":
    make(Mllama())
