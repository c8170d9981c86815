"""Golden files of a vision-language family of patches: what tools/goldens/qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py and glm4v.py share."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

import golden
import tiny_tokenizer


# ChatML with image parts: what Qwen2-VL's own template gives for the messages below.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if loop.first and message.role != 'system' -%}"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}"
    "{%- endif -%}"
    "{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.content is string -%}"
    "{{- message.content -}}"
    "{%- else -%}"
    "{%- for part in message.content -%}"
    "{%- if part.type in ['image', 'image_url'] -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part.type == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}"
    "{%- elif part.type == 'text' -%}{{- part.text -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

PICTURES = {"wide.png": (131, 61, 1), "tall.png": (40, 117, 2), "square.png": (90, 90, 3), "small.png": (33, 20, 4)}
PREPROCESSOR = {
    "min_pixels": 56 * 56, "max_pixels": 28 * 28 * 12, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor"}

# case -> turns; "{}" in a text is filled with one of WORDS until the prompt has no near-tie.
CASES = {
    "text": [("system", ["You answer in one short sentence."]), ("user", ["How many {} are there in 12 + 345? über 图片"])],
    "one_image": [("user", ["wide.png", "What is shown in this {}?"])],
    "three_images": [("user", ["tall.png", "First {}. ", "wide.png", " Second: ", "square.png", "Compare them."])],
    "multi_turn": [
        ("user", ["small.png", "Describe the {}."]),
        ("assistant", ["A blue circle, left of the line."]),
        ("user", ["And here?", "square.png"]),
        ("assistant", ["There are 3 squares."]),
        ("user", ["Which of them is darker?"]),
    ],
}
WORDS = ["picture", "squares", "lines", "image", "house", "sentence", "circle", "point", "question", "eye", "street",
         "red square", "blue line", "quick circle", "third image", "green house", "values", "user", "rows", "total"]


@dataclass
class Family:
    name: str           # --family
    out: Path           # tests/golden/FAMILY
    config_class: type
    model_class: type
    model_type: str
    processor_class: str
    vision: dict        # fields of vision_config that all its checkpoints have
    preprocessor: dict = field(default_factory=lambda: PREPROCESSOR)
    chat_template: str = CHAT_TEMPLATE
    published_template: str = ""  # what prompts are rendered with, where it is at hand
    # (family, spec, tokenizer) -> config.json as published; absent: flat_config
    published_config: Callable[["Family", dict, object], dict] | None = None
    # (name, tensor) -> the tensor as a checkpoint in the hub's form has it, where transformers saves it otherwise
    published_tensor: Callable[[str, torch.Tensor], torch.Tensor] | None = None
    image_processor: type = Qwen2VLImageProcessorPil
    resize_options: dict = field(default_factory=dict)  # of its resize(), besides the factor
    image_token: str = "<|image_pad|>"
    pattern: str = tiny_tokenizer.QWEN2_PATTERN
    special: list[str] = field(default_factory=lambda: tiny_tokenizer.QWEN2_VL_SPECIAL)
    nfc: bool = True
    end_of_turn: str = "<|im_end|>"
    tokenizer_class: str = "Qwen2Tokenizer"


def flat_config(family: Family, spec: dict, tokenizer) -> dict:
    """config.json as published: text fields at the top, rope_scaling, torch_dtype, in_chans."""
    token = tokenizer.token_to_id
    return {
        "architectures": [family.model_class.__name__], "model_type": family.model_type,
        "bos_token_id": token("<|endoftext|>"), "eos_token_id": token("<|im_end|>"),
        "vision_start_token_id": token("<|vision_start|>"), "vision_end_token_id": token("<|vision_end|>"),
        "vision_token_id": token("<|vision_pad|>"), "image_token_id": token("<|image_pad|>"),
        "video_token_id": token("<|video_pad|>"), "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_dropout": 0.0,
        "torch_dtype": str(spec["dtype"]).removeprefix("torch."), "use_cache": True,
        **spec["config"],
        "vision_config": {"in_chans": 3, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
                          "temporal_patch_size": 2, **family.vision, **spec["vision"]},
    }


def write_checkpoint(family: Family, name: str, spec: dict) -> Path:
    directory = golden.fresh(family.out / name)
    special = family.special
    tokenizer = tiny_tokenizer.byte_level_bpe(family.pattern, special, 460, nfc=family.nfc)
    tiny_tokenizer.write_tokenizer(tokenizer, special, directory, {
        "bos_token": None, "eos_token": family.end_of_turn, "pad_token": "<|endoftext|>", "unk_token": None,
        "model_max_length": 2048, "tokenizer_class": family.tokenizer_class})
    golden.write_json(directory / "chat_template.json", {"chat_template": family.chat_template})
    golden.write_json(directory / "preprocessor_config.json",
                      {**family.preprocessor, "processor_class": family.processor_class})
    golden.write_json(directory / "generation_config.json", {
        "bos_token_id": tokenizer.token_to_id("<|endoftext|>"), "pad_token_id": tokenizer.token_to_id("<|endoftext|>"),
        "do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05,
        "eos_token_id": [tokenizer.token_to_id(family.end_of_turn), tokenizer.token_to_id("<|endoftext|>")]})

    published = (family.published_config or flat_config)(family, spec, tokenizer)
    config = family.config_class(**json.loads(json.dumps(published)))
    model = family.model_class(config)
    golden.condition(model, spec["seed"])
    model = model.to(spec["dtype"])

    with tempfile.TemporaryDirectory() as scratch:
        forms = {True: Path(scratch) / "hub", False: Path(scratch) / "current"}
        for hub, path in forms.items():
            model.save_pretrained(path, save_original_format=hub, max_shard_size=spec["shard"])
        for file in forms[spec["hub_form"]].glob("model*"):
            (directory / file.name).write_bytes(file.read_bytes())
        current = json.loads((forms[False] / "config.json").read_text())
        golden.write_json(directory / "config.json", published if spec["hub_form"] else current)
        other = directory / "other_form"
        golden.write_json(other / "config.json", current if spec["hub_form"] else published)
        golden.write_json(other / "names.json", golden.other_names(directory, forms[not spec["hub_form"]]))
        if spec["hub_form"] and family.published_tensor:
            for file in directory.glob("model*.safetensors"):
                tensors = {key: family.published_tensor(key, tensor).contiguous()
                           for key, tensor in golden.read_file(file).items()}
                file.write_bytes(golden.save(tensors, {"format": "pt"}))
    return directory


class Reference:
    """The checkpoint in transformers, in float32."""

    def __init__(self, family: Family, directory: Path):
        self.family = family
        self.directory = directory
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))
        self.processor = family.image_processor.from_pretrained(directory)
        self.model = family.model_class.from_pretrained(
            directory, **golden.EXACTLY).eval()
        self.image_token = self.model.config.image_token_id
        self.routers = golden.Routers(self.model)

    def render(self, messages: list) -> str:
        return self.tokenizer.apply_chat_template(
            messages, chat_template=self.family.published_template or self.family.chat_template, tokenize=False,
            add_generation_prompt=True)

    def tokenize(self, rendered: str, grids: np.ndarray) -> list[int]:
        parts = rendered.split(self.family.image_token)
        text = parts[0]
        for grid, part in zip(grids, parts[1:], strict=True):
            text += self.family.image_token * (int(grid.prod()) // 4) + part
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def forward(self, ids: list[int], images, **options):
        tensor = torch.tensor([ids])
        vision = {}
        if images is not None:
            vision = dict(pixel_values=images["pixel_values"], image_grid_thw=images["image_grid_thw"],
                          mm_token_type_ids=(tensor == self.image_token).int())
        return self.model(input_ids=tensor, use_cache=False, **vision, **options)

    def positions(self, ids: list[int], images) -> torch.Tensor:
        tensor = torch.tensor([ids])
        if images is None:
            return torch.arange(len(ids))[None].expand(3, -1)
        positions, _ = self.model.model.get_rope_index(
            tensor, (tensor == self.image_token).int(), images["image_grid_thw"])
        return positions[:, 0]


def resized(processor, image: Image.Image, **options) -> Image.Image:
    """The reference's pixels after resizing, before rescaling and normalising."""
    array = processor.resize(np.array(image).transpose(2, 0, 1), processor.size, processor.resample,
                             factor=processor.patch_size * processor.merge_size, **options)
    assert array.dtype == np.uint8
    return Image.fromarray(array.transpose(1, 2, 0))


@torch.no_grad()
def record(reference: Reference, case: str, turns: list) -> None:
    out = reference.family.out
    names = [part for _, parts in turns for part in parts if part in PICTURES]
    pictures = [Image.open(out / "images" / name).convert("RGB") for name in names]
    images = reference.processor(pictures, return_tensors="pt") if pictures else None
    grids = images["image_grid_thw"].numpy() if images else np.zeros((0, 3), int)

    for word in WORDS:
        messages = [{"role": role, "content": [
            {"type": "image"} if part in PICTURES else {"type": "text", "text": part.replace("{}", word)}
            for part in parts]} for role, parts in turns]
        rendered = reference.render(messages)
        ids = reference.tokenize(rendered, grids)
        reference.routers.take()
        try:
            tokens, gap = golden.greedy(lambda so_far: reference.forward(so_far, images).logits[:, -1], ids)
        except ValueError as error:  # the answer has a placeholder of its own
            print(f"  {case} ({word}): {error}", flush=True)
            continue
        print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP and reference.routers.take() >= golden.MIN_ROUTER_GAP:
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

    taps = golden.Taps()
    if images is not None:
        visual = reference.model.model.visual
        taps.input("vision.patch_embed", visual.blocks[0])  # by window, where there are windows
        for index, block in enumerate(visual.blocks):
            taps.output(f"vision.layer.{index}", block)
        taps.output("vision.merged", visual.merger)
        for index, merger in enumerate(getattr(visual, "deepstack_merger_list", [])):
            taps.output(f"vision.deepstack.{index}", merger)
            # What the next layer sees; after the last one it is the last norm's input.
            layers = [*reference.model.model.language_model.layers, reference.model.model.language_model.norm]
            taps.input(f"text.deepstack.{index}", layers[index + 1])
    taps.text(reference.model.model.language_model)
    logits = reference.forward(ids, images, logits_to_keep=3).logits[0]
    taps.close()
    order = [*taps.values, "logits"]
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = reference.positions(ids, images).int()
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)

    described = []
    for index, (name, source) in enumerate(zip(names, pictures)):
        pixels = resized(reference.processor, source, **reference.family.resize_options)
        file = f"pixels/{name.removesuffix('.png')}.png"
        (out / "pixels").mkdir(exist_ok=True)
        pixels.save(out / file, optimize=True)
        described.append({"source": f"../../images/{name}", "pixels": f"../../{file}",
                          "grid": [int(n) for n in grids[index]]})
    if case == "multi_turn":  # the smallest picture's patches, whole
        tensors["patches.0"] = images["pixel_values"][: int(grids[0].prod())]
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, order, {
        "family": reference.family.name, "case": case, "messages": messages, "rendered": rendered, "images": described})


def check_other_form(reference: Reference) -> None:
    """Both forms are one model to transformers."""
    names = json.loads((reference.directory / "other_form/names.json").read_text())
    tensors = golden.read_tensors(reference.directory)
    with tempfile.TemporaryDirectory() as scratch:
        golden.save_file({other: tensors[name] for other, name in names.items()},
                         f"{scratch}/model.safetensors", {"format": "pt"})
        (Path(scratch) / "config.json").write_bytes((reference.directory / "other_form/config.json").read_bytes())
        other = reference.family.model_class.from_pretrained(
            scratch, **golden.EXACTLY).eval()
        ids = torch.arange(40)[None]
        with torch.no_grad():
            assert torch.equal(other(ids).logits, reference.model(ids).logits)


def make(family: Family, checkpoints: dict[str, dict]) -> None:
    torch.set_num_threads(1)
    golden.fresh(family.out / "images")
    golden.fresh(family.out / "pixels")
    for name, (width, height, seed) in PICTURES.items():
        golden.picture(width, height, seed).save(family.out / "images" / name, optimize=True)
    for name, spec in checkpoints.items():
        print(name)
        reference = Reference(family, write_checkpoint(family, name, spec))
        check_other_form(reference)
        for case, turns in CASES.items():
            record(reference, case, turns)
