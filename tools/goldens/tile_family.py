"""Golden files of a family whose images are square tiles: what llava_onevision.py and paligemma.py share."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

import golden


class TileFamily:
    """One family: subclasses say how its files look and what its processor does."""

    name: str            # --family
    out: Path            # tests/golden/FAMILY
    config_class: type
    model_class: type
    cases = golden.CASES
    named: dict = {}     # special tokens that templates know by name: bos_token
    checkpoints: dict    # name -> dict(seed, dtype, hub_form, shard, config: the hub's config.json, ...)

    def write_small_files(self, directory: Path, spec: dict) -> None:
        """Tokenizer, template, preprocessor and generation configuration."""
        raise NotImplementedError

    def hub_config(self, spec: dict) -> dict:
        raise NotImplementedError

    def load_processor(self, directory: Path):
        raise NotImplementedError

    def render(self, tokenizer, messages: list) -> str:
        raise NotImplementedError

    def tokenize(self, reference: "Reference", rendered: str, pictures: list) -> list[int]:
        raise NotImplementedError

    def inputs(self, reference: "Reference", pictures: list) -> dict:
        """What the model's get_image_features and forward take for these pictures."""
        raise NotImplementedError

    def stacked(self, reference: "Reference", picture: Image.Image) -> tuple[np.ndarray, list[int]]:
        """The 8-bit tiles below each other, and the grid: tiles, patches down, patches across."""
        raise NotImplementedError

    def prompt_options(self, prompt: list[int], length: int) -> dict:
        """More of forward's arguments for the prompt and length - len(prompt) generated tokens."""
        return {}

    def logits(self, reference: "Reference", logits: torch.Tensor) -> torch.Tensor:
        """The family's logits, where transformers' class leaves something out."""
        return logits

    def tower(self, model):
        return model.model.vision_tower

    def hub_name(self, name: str) -> str:
        """Today's transformers saves the tower without the vision_model level that published files have."""
        return name.replace("vision_tower.", "vision_tower.vision_model.")

    def embeddings(self, tower):
        """What the tower's first layer sees."""
        return tower.embeddings

    def in_order(self, rows: torch.Tensor, images: dict) -> torch.Tensor:
        """Rows of all patches in the order in which they are computed here."""
        return rows

    def layers(self, tower):
        """Of the tower, those whose features count."""
        return tower.encoder.layers

    def decoder(self, model):
        return model.model.language_model

    first_position = 0


class Reference:
    """A checkpoint in transformers, in float32."""

    def __init__(self, family: TileFamily, directory: Path):
        self.directory = directory
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(directory / "tokenizer.json"), **family.named)
        self.processor = family.load_processor(directory)
        self.model = family.model_class.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="eager").eval()


def restore_hub_names(family: TileFamily, directory: Path) -> None:
    tensors = golden.read_tensors(directory)
    for file in directory.glob("model*"):
        file.unlink()
    golden.save_file({family.hub_name(name): tensor for name, tensor in tensors.items()},
                     str(directory / "model.safetensors"), {"format": "pt"})


def write_checkpoint(family: TileFamily, name: str, spec: dict) -> Path:
    directory = golden.fresh(family.out / name)
    family.write_small_files(directory, spec)
    hub = family.hub_config(spec)
    model = family.model_class(family.config_class(**json.loads(json.dumps(hub))))
    golden.condition(model, spec["seed"])
    model = model.to(spec["dtype"])
    with tempfile.TemporaryDirectory() as scratch:
        forms = {True: Path(scratch) / "hub", False: Path(scratch) / "current"}
        for original, path in forms.items():
            model.save_pretrained(path, save_original_format=original, max_shard_size=spec["shard"])
        restore_hub_names(family, forms[True])
        for file in forms[spec["hub_form"]].glob("model*"):
            (directory / file.name).write_bytes(file.read_bytes())
        current = json.loads((forms[False] / "config.json").read_text())
        golden.write_json(directory / "config.json", hub if spec["hub_form"] else current)
        other = directory / "other_form"
        golden.write_json(other / "config.json", current if spec["hub_form"] else hub)
        golden.write_json(other / "names.json", golden.other_names(directory, forms[not spec["hub_form"]]))
    return directory


@torch.no_grad()
def record(family: TileFamily, reference: Reference, case: str, turns: list) -> None:
    names = [part for _, parts in turns for part in parts if part in golden.PICTURES]
    pictures = [Image.open(family.out / "images" / name).convert("RGB") for name in names]
    images = family.inputs(reference, pictures) if pictures else {}

    def forward(prompt: list[int], ids: list[int], **options):
        return reference.model(input_ids=torch.tensor([ids]), use_cache=False, **images,
                               **family.prompt_options(prompt, len(ids)), **options)

    for word in golden.WORDS:
        messages = [{"role": role, "content": [
            {"type": "image"} if part in golden.PICTURES else {"type": "text", "text": part.replace("{}", word)}
            for part in parts]} for role, parts in turns]
        rendered = family.render(reference.tokenizer, messages)
        ids = family.tokenize(reference, rendered, pictures)
        tokens, gap = golden.greedy(lambda so_far: family.logits(reference, forward(ids, so_far).logits[:, -1]), ids)
        print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP:
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

    taps = golden.Taps()
    if pictures:
        tower = family.tower(reference.model)
        taps.output("vision.patch_embed", family.embeddings(tower))
        for index, block in enumerate(family.layers(tower)):
            taps.output(f"vision.layer.{index}", block)
        features = reference.model.model.get_image_features(**images).pooler_output
        taps.values["vision.merged"] = torch.cat([each.reshape(-1, each.shape[-1]) for each in features]).float()
    taps.text(family.decoder(reference.model))
    logits = family.logits(reference, forward(ids, ids, logits_to_keep=3).logits[0])
    taps.close()
    for name in taps.values:
        if name == "vision.patch_embed" or name.startswith("vision.layer."):
            taps.values[name] = family.in_order(taps.values[name], images)
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None] + family.first_position
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)

    described = []
    for name, picture in zip(names, pictures):
        pixels, grid = family.stacked(reference, picture)
        assert pixels.dtype == np.uint8
        file = f"pixels/{reference.directory.name}_{name}"
        (family.out / "pixels").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(family.out / file, optimize=True)
        described.append({"source": f"../../images/{name}", "pixels": f"../../{file}", "grid": grid})
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, [*taps.values, "logits"], {
        "family": family.name, "case": case, "messages": messages, "rendered": rendered, "images": described})


def check_other_form(family: TileFamily, reference: Reference) -> None:
    """Both forms are one model to transformers."""
    names = json.loads((reference.directory / "other_form/names.json").read_text())
    tensors = golden.read_tensors(reference.directory)
    with tempfile.TemporaryDirectory() as scratch:
        golden.save_file({other: tensors[name] for other, name in names.items()},
                         f"{scratch}/model.safetensors", {"format": "pt"})
        (Path(scratch) / "config.json").write_bytes((reference.directory / "other_form/config.json").read_bytes())
        other = family.model_class.from_pretrained(scratch, dtype=torch.float32, attn_implementation="eager").eval()
        ids = torch.arange(10, 50)[None]
        with torch.no_grad():
            assert torch.equal(other(ids).logits, reference.model(ids).logits)


def make(family: TileFamily) -> None:
    torch.set_num_threads(1)
    golden.fresh(family.out / "images")
    golden.fresh(family.out / "pixels")
    for name, (width, height, seed) in golden.PICTURES.items():
        golden.picture(width, height, seed).save(family.out / "images" / name, optimize=True)
    for name, spec in family.checkpoints.items():
        print(name)
        reference = Reference(family, write_checkpoint(family, name, spec))
        check_other_form(family, reference)
        for case, turns in spec.get("cases", family.cases).items():
            record(family, reference, case, turns)
