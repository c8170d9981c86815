"""Golden files of Phi-3-vision: tests/golden/phi_3_vision.

python3 -m venv V && V/bin/pip install -r tools/goldens/phi_3_vision.requirements.txt
V/bin/python tools/goldens/phi_3_vision.py REMOTE OLDER

The reference is the code that Microsoft publishes with the checkpoints, from public copies on GitHub (not committed):
  REMOTE  Aritra02091998/Phi-3-vision-128k-instruct-Improvised-for-QLORA-Training, commit
          16e16b08556652bc108b7c5d7e3ce94881148246 (the release of July 2024, whose features are Phi-3.5-vision's)
  OLDER   lamm-mit/Cephalo-Phi-3-Vision-MoE, commit 29fbb3859ef233ee41848e82e7363a75dc2bbb67, folder Phi_3V_MoE
          (the first release; image embeddings must be equal to REMOTE's)
Whatever it computes is computed again from transformers' own CLIPVisionModel and Phi3ForCausalLM, put together here;
logits must agree. There is no cache anywhere: every token is a forward over all of them, and so a sequence that grows
longer than original_max_position_embeddings turns by long_factor from its first token on.

The code has the numbers of its tower as literals (336 pixels, 144 tokens, 24 patches, 12, 1024 wide): they are replaced,
token by token, by those of a tiny tower.

Two tiny random checkpoints:
  su        bfloat16, up to 16 tiles of 56 pixels, grouped key heads
  longrope  float16, two shards, up to 4 tiles of 84 pixels; the other form says longrope as transformers does today
"""

import importlib
import io
import json
import sys
import tempfile
import tokenize
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image
from transformers import CLIPVisionConfig, CLIPVisionModel, Phi3Config, Phi3ForCausalLM, PreTrainedTokenizerFast

import golden
import tiny_tokenizer
import token_counts

OUT = Path(__file__).resolve().parents[2] / "tests/golden/phi_3_vision"
SOURCES = ["configuration_phi3_v", "image_embedding_phi3_v", "image_processing_phi3_v", "modeling_phi3_v",
           "processing_phi3_v"]
PIECES = 460
SPECIAL = ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>", "<|image|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}{{- '<|assistant|>\n' -}}"
    "{% endif %}"
)
CHECKPOINTS = {
    "su": dict(
        seed=51, dtype=torch.bfloat16, shards=1, tile=56, crops=16, original=128,
        clip=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=4, num_attention_heads=3),
        text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=6,
                  num_key_value_heads=2, vocab_size=481)),
    "longrope": dict(
        seed=52, dtype=torch.float16, shards=2, tile=84, crops=4, original=112,
        clip=dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2),
        text=dict(hidden_size=64, intermediate_size=88, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=4, vocab_size=480)),
}
PATCH = 14


def import_remote(folder: Path, spec: dict, scratch: Path, name: str) -> SimpleNamespace:
    """The published modules with the tower's numbers replaced."""
    side = spec["tile"] // PATCH
    numbers = {"336": spec["tile"], "144": (side // 2) ** 2, "24": side, "12": side // 2,
               "1024": spec["clip"]["hidden_size"]}
    package = scratch / name
    package.mkdir()
    (package / "__init__.py").touch()
    for module in SOURCES:
        source = (folder / f"{module}.py").read_text()
        if not module.startswith(("modeling", "configuration")):
            tokens = [(kind, str(numbers.get(text, text)) if kind == tokenize.NUMBER else text)
                      for kind, text, *_ in tokenize.generate_tokens(io.StringIO(source).readline)]
            source = tokenize.untokenize(tokens)
        (package / f"{module}.py").write_text(source)
    modules = {module: importlib.import_module(f"{name}.{module}") for module in SOURCES}
    if name != "published":
        modules["image_embedding_phi3_v"].CLIP_VIT_LARGE_PATCH14_336_CONFIG = clip_config(spec)
    return SimpleNamespace(**modules)


def clip_config(spec: dict) -> CLIPVisionConfig:
    return CLIPVisionConfig(image_size=spec["tile"], patch_size=PATCH, hidden_act="quick_gelu", layer_norm_eps=1e-5,
                            attn_implementation="eager", **spec["clip"])


def hub_config(spec: dict) -> dict:
    pairs = spec["text"]["hidden_size"] // spec["text"]["num_attention_heads"] // 2
    side = spec["tile"] // PATCH // 2
    return {
        "architectures": ["Phi3VForCausalLM"], "model_type": "phi3_v", "bos_token_id": 1, "eos_token_id": 2,
        "embd_layer": {"embedding_cls": "image", "hd_transform_order": "sub_glb", "projection_cls": "mlp",
                       "use_hd_transform": True, "with_learnable_separator": True},
        "hidden_act": "silu",
        "img_processor": {"image_dim_out": spec["clip"]["hidden_size"],
                          "model_name": "openai/clip-vit-large-patch14-336", "name": "clip_vision_model",
                          "num_img_tokens": side * side, "image_size": spec["tile"], "patch_size": PATCH,
                          **spec["clip"]},
        "max_position_embeddings": 2048, "original_max_position_embeddings": spec["original"], "pad_token_id": PIECES,
        "rms_norm_eps": 1e-5,
        "rope_scaling": {"long_factor": [round(1 + 1.7 * i, 3) for i in range(pairs)],
                         "short_factor": [round(1 + 0.15 * i, 3) for i in range(pairs)], "type": "su"},
        "rope_theta": 10000.0, "sliding_window": 2048, "tie_word_embeddings": False,
        "torch_dtype": str(spec["dtype"]).removeprefix("torch."), **spec["text"],
    }


def other_config(hub: dict) -> dict:
    """As transformers of today writes rope."""
    other = {name: value for name, value in hub.items()
             if name not in ("rope_scaling", "rope_theta", "original_max_position_embeddings", "torch_dtype")}
    scaling = {name: hub["rope_scaling"][name] for name in ("long_factor", "short_factor")}
    return {**other, "dtype": hub["torch_dtype"],
            "rope_parameters": {"rope_type": "longrope", "rope_theta": hub["rope_theta"],
                                "original_max_position_embeddings": hub["original_max_position_embeddings"],
                                **scaling}}


def write_checkpoint(name: str, spec: dict, remote: SimpleNamespace):
    directory = golden.fresh(OUT / name)
    tokenizer = tiny_tokenizer.llama_bpe(SPECIAL, PIECES, rstrip={"<|assistant|>"})
    tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
        "add_bos_token": True, "bos_token": "<s>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
        "unk_token": "<unk>", "chat_template": CHAT_TEMPLATE, "model_max_length": 2048,
        "tokenizer_class": "LlamaTokenizer"})
    golden.write_json(directory / "preprocessor_config.json", {
        "num_crops": spec["crops"], "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_processor_type": "Phi3VImageProcessor", "image_std": [0.26862954, 0.26130258, 0.27577711],
        "processor_class": "Phi3VProcessor", "num_img_tokens": (spec["tile"] // PATCH // 2) ** 2})
    golden.write_json(directory / "generation_config.json", {
        "bos_token_id": 1, "eos_token_id": [PIECES, PIECES + 1, PIECES + 3], "pad_token_id": PIECES})

    hub = hub_config(spec)
    config = remote.configuration_phi3_v.Phi3VConfig(**json.loads(json.dumps(hub)))
    config._attn_implementation = "eager"
    model = remote.modeling_phi3_v.Phi3VForCausalLM(config).eval()
    golden.condition(model, spec["seed"])
    model = model.to(spec["dtype"]).float()  # the values that are stored
    tensors = {key: value.to(spec["dtype"]) for key, value in model.state_dict().items()
               if not key.endswith(("vision_embed_tokens.wte.weight", "position_ids"))}
    golden.write_json(directory / "config.json", hub)
    golden.write_json(directory / "other_form/config.json", other_config(hub))
    golden.write_json(directory / "other_form/names.json", {key: key for key in tensors})
    keys = sorted(tensors)
    for index in range(spec["shards"]):
        part = keys[index::spec["shards"]]
        file = "model.safetensors" if spec["shards"] == 1 else f"model-{index + 1:05}-of-{spec['shards']:05}.safetensors"
        golden.save_file({key: tensors[key].contiguous() for key in part}, str(directory / file), {"format": "pt"})
        if spec["shards"] > 1:
            path = directory / "model.safetensors.index.json"
            index_file = json.loads(path.read_text()) if path.exists() else {"metadata": {}, "weight_map": {}}
            index_file["weight_map"] |= {key: file for key in part}
            golden.write_json(path, index_file)
    return directory, model


class Composed:
    """The second implementation: transformers' CLIP and Phi-3, and the joining of tiles said once more."""

    def __init__(self, spec: dict, model):
        state = model.state_dict()
        prefix = "model.vision_embed_tokens."
        self.tile, self.side = spec["tile"], spec["tile"] // PATCH
        self.clip = CLIPVisionModel(clip_config(spec)).eval()
        missing = self.clip.load_state_dict(
            {key.removeprefix(prefix + "img_processor."): value for key, value in state.items()
             if key.startswith(prefix + "img_processor.")}, strict=False)
        assert not missing.unexpected_keys, missing
        self.glb, self.sub = state[prefix + "glb_GN"].reshape(1, -1), state[prefix + "sub_GN"].reshape(1, -1)
        self.projection = model.model.vision_embed_tokens.img_projection
        hub = hub_config(spec)
        hub["rope_scaling"]["type"] = "longrope"
        config = Phi3Config(**{key: value for key, value in hub.items()
                               if key not in ("architectures", "model_type", "embd_layer", "img_processor")})
        config._attn_implementation = "eager"
        self.text = Phi3ForCausalLM(config).eval()
        missing = self.text.load_state_dict(
            {key: value for key, value in state.items() if "vision_embed_tokens" not in key}, strict=False)
        assert not missing.unexpected_keys and not missing.missing_keys, missing

    def view(self, features: torch.Tensor, down: int, across: int) -> torch.Tensor:
        """[tiles, side * side, width] -> rows of 2 x 2 features, each row of tokens with its separator."""
        half, width = self.side // 2, features.shape[-1]
        grid = torch.zeros(down * self.side, across * self.side, width)
        for index, tile in enumerate(features):
            top, left = index // across * self.side, index % across * self.side
            grid[top:top + self.side, left:left + self.side] = tile.reshape(self.side, self.side, width)
        rows = []
        for y in range(down * half):
            for x in range(across * half):
                rows.append(grid[2 * y:2 * y + 2, 2 * x:2 * x + 2].reshape(1, -1))
            rows.append(self.sub)
        return torch.cat(rows)

    def logits(self, ids: list[int], images: dict, keep: int) -> torch.Tensor:
        tokens = torch.tensor(ids)
        embeds = self.text.model.embed_tokens(tokens.clamp_min(0))
        for index, (height, width) in enumerate(images.get("image_sizes", [])):
            down, across = int(height) // self.tile, int(width) // self.tile
            pixels = images["pixel_values"][index][:1 + down * across]
            features = self.clip(pixels, output_hidden_states=True).hidden_states[-2][:, 1:]
            joined = torch.cat([self.view(features[1:], down, across), self.glb, self.view(features[:1], 1, 1)])
            embeds[tokens == -(index + 1)] = self.projection(joined)
        return self.text(inputs_embeds=embeds[None], use_cache=False).logits[0, -keep:]


class Reference:
    def __init__(self, directory: Path, spec: dict, model, remote: SimpleNamespace, older: SimpleNamespace):
        self.directory, self.spec, self.model, self.remote = directory, spec, model, remote
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))
        self.images = remote.image_processing_phi3_v.Phi3VImageProcessor(num_crops=spec["crops"])
        self.older_images = older.image_processing_phi3_v.Phi3VImageProcessor(num_crops=spec["crops"])
        config = model.config
        self.older = older.image_embedding_phi3_v.Phi3ImageEmbedding(
            config, wte=model.model.embed_tokens, **config.embd_layer).eval()
        missing = self.older.load_state_dict(model.model.vision_embed_tokens.state_dict(), strict=False)
        assert not missing.unexpected_keys and not missing.missing_keys, missing
        self.composed = Composed(spec, model)

    def inputs(self, pictures: list) -> dict:
        if not pictures:
            return {}
        batch = self.images(pictures, return_tensors="pt")
        again = self.older_images(pictures, return_tensors="pt")
        for field in ("pixel_values", "image_sizes"):
            assert torch.equal(batch[field], again[field])
        return dict(batch)

    def tokenize(self, rendered: str, images: dict) -> list[int]:
        processor = SimpleNamespace(tokenizer=self.tokenizer, num_img_tokens=None)
        made = self.remote.processing_phi3_v.Phi3VProcessor._convert_images_texts_to_inputs(
            processor, images, rendered, return_tensors="pt")
        return made["input_ids"][0].tolist()

    def logits(self, ids: list[int], images: dict, keep: int) -> torch.Tensor:
        arguments = {key: images[key] for key in ("pixel_values", "image_sizes") if key in images}
        # The model writes over the ids it is given.
        return self.model(input_ids=torch.tensor([ids]), use_cache=False, **arguments).logits[0, -keep:]


def rows_of_tiles(images: dict, spec: dict) -> torch.Tensor:
    """Which tiles of the padded batch there are, as rows of a tile's tokens."""
    rows_per_tile = (spec["tile"] // PATCH) ** 2 + 1
    tiles = []
    for index, (height, width) in enumerate(images["image_sizes"]):
        count = 1 + int(height) // spec["tile"] * (int(width) // spec["tile"])
        tiles += [index * (spec["crops"] + 1) + tile for tile in range(count)]
    return torch.cat([torch.arange(tile * rows_per_tile, (tile + 1) * rows_per_tile) for tile in tiles])


def record_taps(reference: Reference, ids: list[int], images: dict) -> dict:
    taps = golden.Taps()
    embedding = reference.model.model.vision_embed_tokens
    if images:
        tower = embedding.img_processor.vision_model
        taps.output("vision.patch_embed", tower.pre_layrnorm)
        for index, block in enumerate(tower.encoder.layers[:-1]):
            taps.output(f"vision.layer.{index}", block)
        taps.output("vision.merged", embedding.img_projection)
    taps.text(reference.model.model)
    logits = reference.logits(ids, images, 3)
    taps.close()
    if images:
        rows = rows_of_tiles(images, reference.spec)
        for name in taps.values:
            if name.startswith(("vision.patch", "vision.layer")):
                taps.values[name] = taps.values[name][rows]
        older = reference.older(torch.tensor([ids]), images["pixel_values"], images["image_sizes"])
        assert torch.allclose(older[0].float(), taps.values["text.embed"], atol=1e-5, rtol=1e-5)
    return {**taps.values, "logits": logits}


@torch.no_grad()
def record(reference: Reference, case: str, turns: list) -> tuple[int, int]:
    names = [part for _, parts in turns for part in parts if part in golden.PICTURES]
    pictures = [Image.open(OUT / "images" / name).convert("RGB") for name in names]
    images = reference.inputs(pictures)
    for word in golden.WORDS:
        numbered, messages = 0, []
        for role, parts in turns:
            text = ""
            for part in parts:
                numbered += part in golden.PICTURES
                text += f"<|image_{numbered}|>\n" if part in golden.PICTURES else part.replace("{}", word)
            messages.append({"role": role, "content": text})
        rendered = reference.tokenizer.apply_chat_template(
            messages, chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)
        ids = reference.tokenize(rendered, images)
        tokens, gap = golden.greedy(lambda so_far: reference.logits(so_far, images, 1), ids)
        print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP:
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

    # Before the boundary, at it and after it.
    for count in (0, 1, 20, 40, 63):
        again = reference.composed.logits(ids + tokens[:count], images, 1)
        first = reference.logits(ids + tokens[:count], images, 1)
        error = float(((again - first).abs().amax(-1) / first.abs().amax(-1)).max())
        assert error < 1e-5, f"{case}: transformers' classes differ by {error} after {count} tokens"
        assert int(again.argmax()) == tokens[count]

    values = record_taps(reference, ids, images)
    tensors = golden.pack_rows(values)
    # The reference's ids are negative where images stand.
    image_id = reference.model.config.vocab_size - 1
    tensors["ids"] = torch.tensor([image_id if each < 0 else each for each in ids], dtype=torch.int32)
    tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None]
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
    described = []
    for name, picture in zip(names, pictures):
        hd = reference.remote.image_processing_phi3_v.HD_transform(picture, hd_num=reference.spec["crops"])
        file = f"pixels/{reference.directory.name}_{name}"
        (OUT / "pixels").mkdir(exist_ok=True)
        hd.save(OUT / file, optimize=True)
        tile = reference.spec["tile"]
        described.append({"source": f"../../images/{name}", "pixels": f"../../{file}",
                          "grid": [1 + hd.width // tile * (hd.height // tile), tile // PATCH, tile // PATCH]})
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, list(values), {
        "family": "phi-3-vision", "case": case, "messages": messages, "rendered": rendered, "images": described})
    return len(ids), len(ids) + len(tokens)


def count_tokens(remote_folder: Path, scratch: Path) -> None:
    """Tokens by image size with the published tower, for both numbers of crops that are in use."""
    published = {"tile": 336, "clip": {"hidden_size": 1024}}
    processing = import_remote(remote_folder, published, scratch, "published").image_processing_phi3_v
    for folder, crops in (("phi_3_vision", 16), ("phi_3_vision/num_crops_4", 4)):
        processor = processing.Phi3VImageProcessor(num_crops=crops)

        def count(height: int, width: int) -> int:
            try:
                return processor.calc_num_image_tokens([Image.new("RGB", (width, height))])[0]
            except ValueError:  # no row is left of the shorter side
                return 0

        config = hub_config(CHECKPOINTS["su"])
        config["img_processor"] = {"image_dim_out": 1024, "model_name": "openai/clip-vit-large-patch14-336",
                                   "name": "clip_vision_model", "num_img_tokens": 144}
        (token_counts.GOLDEN / folder).mkdir(exist_ok=True)
        token_counts.write(folder, config, {"num_crops": crops}, count)


def main(remote_folder: Path, older_folder: Path) -> None:
    torch.set_num_threads(1)
    golden.fresh(OUT / "images")
    golden.fresh(OUT / "pixels")
    for name, (width, height, seed) in golden.PICTURES.items():
        golden.picture(width, height, seed).save(OUT / "images" / name, optimize=True)
    with tempfile.TemporaryDirectory() as scratch:
        sys.path.insert(0, scratch)
        for name, spec in CHECKPOINTS.items():
            print(name)
            remote = import_remote(remote_folder, spec, Path(scratch), f"remote_{name}")
            older = import_remote(older_folder, spec, Path(scratch), f"older_{name}")
            directory, model = write_checkpoint(name, spec, remote)
            reference = Reference(directory, spec, model, remote, older)
            lengths = [record(reference, case, turns) for case, turns in golden.CASES.items()]
            crossing = [begin <= spec["original"] < end - 1 for begin, end in lengths]
            assert any(crossing), f"no prompt grows over {spec['original']} tokens: {lengths}"
            assert any(begin > spec["original"] for begin, _ in lengths), lengths
        count_tokens(remote_folder, Path(scratch))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
