"""Golden files of MiniCPM-V 4.6: tests/golden/minicpmv.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/pip install --no-deps torchvision==0.28.0
V/bin/python tools/goldens/minicpmv.py          (after qwen_video.py, whose frames and cases it takes)

Three tiny random checkpoints, saved by transformers:
  slices  bfloat16, tied head, patches of 7, 5 x 5 positions, up to nine slices of about 56 pixels a side, of other sizes than
          the whole image; videos go by the file of images
  plain   float16, two shards, its own head, patches of 14, 4 x 4 positions, patches joined after the first layer, images and
          frames whole, without numbers, and videos by a file of their own
  fine    bfloat16, tied head, as slices with downsample_mode 4x: patches joined once, four tokens a square

The whole image and its slices go through the tower one by one: joining patches, transformers 5.17 takes the size of the first for
all (vision_utils.get_vision_merged_shape), and so raises for others. What it makes of each alone is what the model was trained with;
where all have one size, this is checked to be the same. The text around embeddings is the real processor's replace_image_token,
replace_video_token and _prepend_local_ids. Frames are resized by Pillow, as images are (qwen_video.py says why); sizes and
slices are checked to be the real MiniCPMV4_6VideoProcessor's.

token_counts.tsv, size_controls.tsv, video_counts.tsv and positions.tsv (the position that a patch takes: side of the square, number of
patches, sum((i + 1) * position)) are of the real processors and vision_utils.get_vision_nearest_position_ids.
"""

import json
import types
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import qwen_video  # declares what torchvision wants declared
from PIL import Image
from transformers import MiniCPMV4_6Config, MiniCPMV4_6ForConditionalGeneration
from transformers.image_transforms import divide_to_patches
from transformers.image_utils import SizeDict
from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import MiniCPMV4_6ImageProcessorPil
from transformers.models.minicpmv4_6.processing_minicpmv4_6 import MiniCPMV4_6Processor
from transformers.models.minicpmv4_6.video_processing_minicpmv4_6 import MiniCPMV4_6VideoProcessor
from transformers.vision_utils import get_vision_nearest_position_ids

import golden
import qwen3_5
import tile_family
import tiny_tokenizer
import token_counts

OUT = Path(__file__).resolve().parents[2] / "tests/golden"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>", "<image>", "</image>", "<slice>",
           "</slice>", "<image_id>", "</image_id>", "<think>", "</think>"]
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"
TOKENS = {IMAGE: 460 + SPECIAL.index(IMAGE), VIDEO: 460 + SPECIAL.index(VIDEO)}
# What the published template makes of messages without tools, thoughts not asked for.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.content is string -%}{{- message.content -}}{%- else -%}"
    "{%- for part in message.content -%}{%- if not loop.first -%}{{- '\\n' -}}{%- endif -%}"
    "{%- if part.type == 'image' -%}{{- '<|image_pad|>' -}}{%- elif part.type == 'video' -%}{{- '<|video_pad|>' -}}"
    "{%- else -%}{{- part.text -}}{%- endif -%}{%- endfor -%}{%- endif -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
)
WORDS = SimpleNamespace(image_start_token="<image>", image_end_token="</image>", slice_start_token="<slice>",
                        slice_end_token="</slice>", image_id_start_token="<image_id>", image_id_end_token="</image_id>",
                        image_token=IMAGE, video_token=VIDEO, slice_mode=True, video_slice_mode=True)


class MiniCpmv(tile_family.TileFamily):
    name = "minicpm-v-4.6"
    out = OUT / "minicpmv"
    config_class = MiniCPMV4_6Config
    model_class = MiniCPMV4_6ForConditionalGeneration
    checkpoints = {
        "slices": dict(
            seed=101, dtype=torch.bfloat16, hub_form=True, shard="1GB", tied=True, joined_after=1,
            images=dict(patch_size=7, scale_resolution=56, max_slice_nums=9, use_image_id=True),
            text=dict(hidden_size=64, intermediate_size=88, num_hidden_layers=4, num_attention_heads=4,
                      num_key_value_heads=2, head_dim=24, vocab_size=481, full_attention_interval=4,
                      linear_conv_kernel_dim=4, linear_num_key_heads=2, linear_num_value_heads=4,
                      linear_key_head_dim=16, linear_value_head_dim=20, layer_types=["linear_attention"] * 3 + ["full_attention"]),
            vision=dict(hidden_size=48, intermediate_size=60, num_hidden_layers=3, num_attention_heads=3, image_size=35,
                        patch_size=7)),
        "plain": dict(
            seed=102, dtype=torch.float16, hub_form=False, shard="300KB", tied=False, joined_after=0,
            images=dict(patch_size=14, scale_resolution=112, max_slice_nums=1, use_image_id=False),
            videos=dict(patch_size=14, scale_resolution=84, max_slice_nums=4, slice_mode=False, max_num_frames=8),
            text=dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=3,
                      num_key_value_heads=1, head_dim=16, vocab_size=480,
                      layer_types=["linear_attention", "full_attention"], linear_conv_kernel_dim=4,
                      linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=16,
                      linear_value_head_dim=16),
            vision=dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=2, image_size=56,
                        patch_size=14)),
        "fine": dict(
            seed=103, dtype=torch.bfloat16, hub_form=True, shard="1GB", tied=True, joined_after=1, mode="4x",
            images=dict(patch_size=7, scale_resolution=56, max_slice_nums=4, use_image_id=True, downsample_mode="4x"),
            text=dict(hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
                      num_key_value_heads=2, head_dim=16, vocab_size=480,
                      layer_types=["linear_attention", "full_attention"], linear_conv_kernel_dim=4,
                      linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=16,
                      linear_value_head_dim=16),
            vision=dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=35,
                        patch_size=7)),
    }

    def hub_name(self, name: str) -> str:
        return name

    def hub_config(self, spec: dict) -> dict:
        dtype = str(spec["dtype"]).removeprefix("torch.")
        return {
            "architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6",
            "drop_vision_last_layer": False, "dtype": dtype, "eos_token_id": 462, "image_size": 1120,
            "image_token_id": TOKENS[IMAGE], "video_token_id": TOKENS[VIDEO], "insert_layer_id": spec["joined_after"],
            "downsample_mode": spec.get("mode", "16x"), "merge_kernel_size": [2, 2], "merger_times": 1, "patch_size": spec["vision"]["patch_size"],
            "tie_word_embeddings": spec["tied"],
            "text_config": {
                "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True, "dtype": dtype,
                "hidden_act": "silu", "mamba_ssm_dtype": "float32", "max_position_embeddings": 2048,
                "mlp_only_layers": [], "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
                "mtp_use_dedicated_embeddings": False, "rms_norm_eps": 1e-6, "tie_word_embeddings": spec["tied"],
                "rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 10000.0, "rope_type": "default"},
                "use_cache": True, **spec["text"]},
            "vision_config": {
                "attention_dropout": 0.0, "hidden_act": "gelu_pytorch_tanh", "insert_layer_id": spec["joined_after"],
                "layer_norm_eps": 1e-6, "model_type": "minicpmv4_6_vision", "num_channels": 3,
                "window_kernel_size": [2, 2], **spec["vision"]},
        }

    def write_small_files(self, directory: Path, spec: dict) -> None:
        tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.QWEN2_PATTERN, SPECIAL, 460, nfc=True)
        assert all(tokenizer.token_to_id(word) == token for word, token in TOKENS.items())
        tiny_tokenizer.write_tokenizer(tokenizer, SPECIAL, directory, {
            "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 2048,
            "tokenizer_class": "Qwen2Tokenizer"})
        golden.write_json(directory / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
        common = {"do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
                  "downsample_mode": "16x", "resample": 3, "rescale_factor": 0.00392156862745098, "slice_mode": True}
        half = [0.5, 0.5, 0.5]
        golden.write_json(directory / "preprocessor_config.json", {
            **common, "image_mean": half, "image_std": half, "image_processor_type": "MiniCPMV4_6ImageProcessor",
            "processor_class": "MiniCPMV4_6Processor", **spec["images"]})
        if "videos" in spec:
            golden.write_json(directory / "video_preprocessor_config.json", {
                **common, "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "stack_frames": 1,
                "video_processor_type": "MiniCPMV4_6VideoProcessor", **spec["videos"]})
        golden.write_json(directory / "generation_config.json", {"bos_token_id": 460, "eos_token_id": [462, 460]})

    def load_processor(self, directory: Path):
        return MiniCPMV4_6ImageProcessorPil.from_pretrained(directory)


class Tile:
    """The whole image, or a slice."""

    def __init__(self, pixels: torch.Tensor, size: list[int]):
        self.pixels, self.size = pixels, size


def tiles_of(batch: dict, patch: int) -> list[Tile]:
    tiles, start = [], 0
    for height, width in torch.as_tensor(batch["target_sizes"]).tolist():
        end = start + height * width * patch
        tiles.append(Tile(batch["pixel_values"][..., start:end], [height, width]))
        start = end
    assert start == batch["pixel_values"].shape[-1]
    return tiles


def nested(height: int, width: int) -> torch.Tensor:
    """Patches in the order in which they are computed here: squares of 4 x 4, in these quarters, row by row."""
    order = torch.arange(height * width).view(height // 4, 2, 2, width // 4, 2, 2)
    return order.permute(0, 3, 1, 4, 2, 5).flatten()


def squares(processor, picture: Image.Image) -> tuple[np.ndarray, int, list[int] | None]:
    """The 8-bit squares below each other, their number, and the grid of slices."""
    image = np.array(picture).transpose(2, 0, 1)
    patch, scale = processor.patch_size, processor.scale_resolution
    size = image.shape[1:]
    grid = processor.get_sliced_grid(size, processor.max_slice_nums, scale) if processor.slice_mode else None

    def resized(to: tuple[int, int]) -> np.ndarray:
        return processor.resize(image, SizeDict(height=to[0], width=to[1]), processor.resample)

    whole = resized(processor.find_best_resize(size, scale, patch, allow_upscale=grid is None))
    pieces = [whole]
    if grid is not None:
        refined = resized(processor.get_refine_size(size, grid, scale, patch, allow_upscale=True))
        pieces += divide_to_patches(refined, (refined.shape[1] // grid[0], refined.shape[2] // grid[1]))
    strip = [square for piece in pieces for square in divide_to_patches(piece, 4 * patch)]
    return np.concatenate(strip, axis=1).transpose(1, 2, 0), len(strip), grid


class Reference(tile_family.Reference):
    def __init__(self, family: MiniCpmv, directory: Path):
        super().__init__(family, directory)
        self.numbered = self.processor.use_image_id
        self.patches_a_token = {"4x": 4, "16x": 16}[self.model.config.downsample_mode]
        self.patch = self.processor.patch_size
        self.videos = MiniCPMV4_6VideoProcessor.from_pretrained(directory)
        # Frames as Pillow resizes them, by what the file of videos says.
        of_videos = directory / "video_preprocessor_config.json"
        self.frames = self.processor if not of_videos.exists() else MiniCPMV4_6ImageProcessorPil(
            **{name: value for name, value in json.loads(of_videos.read_text()).items()
               if not name.endswith("_type") and name not in ("stack_frames", "max_num_frames")})
        original = self.model.model.get_image_features

        def each_alone(_self, pixel_values, target_sizes, downsample_mode=None):
            tiles = tiles_of({"pixel_values": pixel_values, "target_sizes": target_sizes}, self.patch)
            made = [original(tile.pixels, torch.tensor([tile.size])) for tile in tiles]
            features = [feature for each in made for feature in each.pooler_output]
            if len({tuple(tile.size) for tile in tiles}) == 1:  # where the reference can: the same
                whole = original(pixel_values, target_sizes).pooler_output
                assert torch.allclose(torch.cat(features), torch.cat(whole), atol=1e-5)
                self.compared += len(tiles) > 1
            made[0].pooler_output = features
            return made[0]

        self.compared = 0
        self.model.model.get_image_features = types.MethodType(each_alone, self.model.model)


class Medium:
    """A picture, or the frames of a video."""

    def __init__(self, reference: Reference, part):
        self.video = isinstance(part, tuple)
        family, directory = MiniCpmv, reference.directory
        if self.video:
            shot, count, fps = part
            names = [f"{shot}_{index}.png" for index in range(count)]
            pictures = [Image.open(OUT / "frames" / name).convert("RGB") for name in names]
            processor = reference.frames
        else:
            pictures = [Image.open(family.out / "images" / part).convert("RGB")]
            processor = reference.processor
        batch = processor(pictures, return_tensors="pt")
        self.tiles = tiles_of(batch, reference.patch)
        made = [squares(processor, picture) for picture in pictures]
        self.merged = sum(count for _, count, _ in made)
        if self.video:
            stacked = torch.from_numpy(np.stack([np.array(picture) for picture in pictures])).permute(0, 3, 1, 2)
            theirs = reference.videos([stacked], do_sample_frames=False, return_tensors="pt")
            assert torch.equal(theirs["target_sizes_videos"], torch.as_tensor(batch["target_sizes"]))
            assert theirs["grids_videos"].tolist() == [list(grid or (0, 0)) for _, _, grid in made]
            differences = (theirs["pixel_values_videos"] - batch["pixel_values"]).abs()
            assert differences.max() < 0.25 and differences.mean() < 0.002  # of 2: torchvision's resize
            self.text = MiniCPMV4_6Processor.replace_video_token(WORDS, theirs, 0, video_token_divisor=reference.patches_a_token)
            files = [f"minicpmv_{directory.name}_{name}" for name in names]
            for file, (strip, _, _) in zip(files, made):
                Image.fromarray(strip).save(OUT / "frames/pixels" / file, optimize=True)
            self.described = {"source": [f"../../../frames/{name}" for name in names],
                              "pixels": [f"../../../frames/pixels/{file}" for file in files],
                              "grid": [count, made[0][1], 16], "fps": fps}
        else:
            self.text = MiniCPMV4_6Processor.replace_image_token(WORDS, batch, 0, image_token_divisor=reference.patches_a_token)
            strip, count, _ = made[0]
            file = f"pixels/{directory.name}_{part}"
            (family.out / "pixels").mkdir(exist_ok=True)
            Image.fromarray(strip).save(family.out / file, optimize=True)
            self.described = {"source": f"../../images/{part}", "pixels": f"../../{file}", "grid": [1, count, 16]}


def replaced(rendered: str, media: list[Medium], numbered: bool) -> str:
    """As MiniCPMV4_6Processor.__call__: numbers of a kind, then each placeholder its text."""
    for token, kind in ((IMAGE, False), (VIDEO, True)):
        texts = [medium.text for medium in media if medium.video == kind]
        if numbered and texts:
            texts = MiniCPMV4_6Processor._prepend_local_ids(WORDS, [rendered], texts, token)
        pieces = rendered.split(token)
        assert len(pieces) == len(texts) + 1
        rendered = pieces[0] + "".join(text.replace(token, f"\0{int(kind)}") + piece for text, piece in zip(texts, pieces[1:]))
    return rendered.replace("\0" + "0", IMAGE).replace("\0" + "1", VIDEO)


def tower_taps(reference: Reference, tiles: list[Tile]) -> dict[str, torch.Tensor]:
    tower, joined_after = reference.model.model.vision_tower, reference.model.config.insert_layer_id
    fine = reference.patches_a_token == 4
    parts: dict[str, list[torch.Tensor]] = {}
    for tile in tiles:
        taps = golden.Taps()
        taps.output("vision.patch_embed", tower.embeddings)
        for index, block in enumerate(tower.encoder.layers):
            taps.output(f"{'vision' if index <= joined_after or fine else 'joined'}.layer.{index}", block)
            if index == joined_after and not fine:
                taps.output("joined.merger", tower.vit_merger)
        features = reference.model.model.get_image_features(tile.pixels, torch.tensor([tile.size])).pooler_output[0]
        taps.close()
        height, width = tile.size
        order = nested(height, width)
        # Of those that are joined: a place for each four.
        rows = torch.arange(height * width // 4).view(height // 4, 2, width // 4, 2).permute(0, 2, 1, 3).flatten()
        for name, value in taps.values.items():
            parts.setdefault(name, []).append(value[order if name.startswith("vision") else rows])
        parts.setdefault("vision.merged", []).append(features[rows if fine else slice(None)].float())
    return {name: torch.cat(values) for name, values in parts.items()}


@torch.no_grad()
def record(reference: Reference, case: str, turns: list) -> None:
    model = reference.model
    made = [[Medium(reference, part) if isinstance(part, tuple) or part.endswith(".png") else part for part in parts]
            for _, parts in turns]
    media = [part for parts in made for part in parts if isinstance(part, Medium)]
    features = [torch.cat([model.model.get_image_features(tile.pixels, torch.tensor([tile.size])).pooler_output[0]
                           for tile in medium.tiles]) for medium in media]
    for medium, rows in zip(media, features):
        together = model.model.get_image_features(torch.cat([tile.pixels for tile in medium.tiles], -1),
                                                  torch.tensor([tile.size for tile in medium.tiles]))
        assert torch.equal(torch.cat(together.pooler_output), rows)
        assert len(rows) == medium.merged * 16 // reference.patches_a_token

    def embedded(prompt: list[int], ids: list[int]) -> torch.Tensor:
        tensor = torch.tensor([ids])
        embeddings = model.get_input_embeddings()(tensor)
        for token, kind in ((IMAGE, False), (VIDEO, True)):
            rows = [each for medium, each in zip(media, features) if medium.video == kind]
            places = torch.zeros_like(tensor, dtype=torch.bool)
            places[0, :len(prompt)] = tensor[0, :len(prompt)] == TOKENS[token]
            assert int(places.sum()) == sum(map(len, rows))
            if rows:
                embeddings[places] = torch.cat(rows)
        return embeddings

    for word in golden.WORDS:
        messages = [{"role": role, "content": [
            {"type": "text", "text": part.replace("{}", word)} if isinstance(part, str) else
            {"type": "video" if part.video else "image"} for part in parts]} for (role, _), parts in zip(turns, made)]
        rendered = reference.tokenizer.apply_chat_template(
            messages, chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)
        ids = reference.tokenizer(replaced(rendered, media, reference.numbered), add_special_tokens=False)["input_ids"]
        tokens, gap = golden.greedy(
            lambda so_far: model(inputs_embeds=embedded(ids, so_far), use_cache=False).logits[:, -1], ids)
        print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP and not set(tokens) & set(TOKENS.values()):
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

    of_tower = tower_taps(reference, [tile for medium in media for tile in medium.tiles]) if media else {}
    taps = golden.Taps()
    taps.text(model.model.language_model)
    logits = model(inputs_embeds=embedded(ids, ids), use_cache=False).logits[0, -3:]
    taps.close()
    if media and not any(medium.video for medium in media):  # the model's own forward
        tiles = [tile for medium in media for tile in medium.tiles]
        whole = model(input_ids=torch.tensor([ids]), pixel_values=torch.cat([tile.pixels for tile in tiles], -1),
                      target_sizes=torch.tensor([tile.size for tile in tiles]), use_cache=False).logits[0, -3:]
        assert torch.allclose(whole, logits, atol=1e-5), (whole - logits).abs().max()
    values = {**of_tower, **taps.values}
    tensors = golden.pack_rows({**values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None]
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, [*values, "logits"], {
        "family": MiniCpmv.name, "case": case, "messages": messages, "rendered": rendered,
        "images": [medium.described for medium in media]})


def condition(model: torch.nn.Module, seed: int, logit_scale: float = 3.0) -> None:
    """Norms of (1 + w) are the text's alone."""
    qwen3_5.condition(model, seed, logit_scale)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight") and ("vision_tower" in name or "merger" in name):
                parameter.add_(1)


def published() -> tuple[dict, dict]:
    """A small config.json, and the preprocessor's configuration as published."""
    config = MiniCpmv().hub_config(MiniCpmv.checkpoints["slices"])
    config["vision_config"] |= {"image_size": 980, "patch_size": 14}
    return config, {"downsample_mode": "16x", "max_slice_nums": 9, "patch_size": 14, "scale_resolution": 448,
                    "slice_mode": True, "use_image_id": True}


def count_tokens() -> None:
    """0 over an aspect of 200, where the processor goes on and Saccade refuses."""
    config, preprocessor = published()

    def count(height: int, width: int, **kwargs) -> int:
        processor = MiniCPMV4_6ImageProcessorPil(**{**preprocessor, **kwargs})
        if max(height, width) > 200 * min(height, width):
            return 0
        grid = processor.get_sliced_grid((height, width), processor.max_slice_nums, 448) if processor.slice_mode else None
        high, wide = processor.find_best_resize((height, width), 448, 14, allow_upscale=grid is None)
        tokens = high * wide // 56**2
        if grid is not None:
            high, wide = processor.get_refine_size((height, width), grid, 448, 14, allow_upscale=True)
            tokens += high * wide // 56**2
        return tokens

    # Around what is cut into two, into three, and into more than nine.
    edges = [(448, 449), (447, 449), (633, 634), (634, 634), (776, 776), (775, 777), (896, 896), (1344, 1345), (448, 1792),
             (449, 1793), (1345, 1344), (600, 1500), (1500, 600), (99, 4000), (4000, 99)]
    token_counts.write("minicpmv", config, preprocessor, count, token_counts.SIZES + edges)

    lines = [json.dumps({"config": config, "preprocessor": preprocessor})]
    for height, width in [(480, 640), (1080, 1920), (1920, 1080), (3000, 2000), (1344, 1344), (900, 4000)]:
        for kwargs in [{"max_slice_nums": 1}, {"max_slice_nums": 2}, {"max_slice_nums": 3}, {"max_slice_nums": 4},
                       {"max_slice_nums": 6}, {"max_slice_nums": 8}, {"slice_mode": False},
                       {"slice_mode": True, "max_slice_nums": 5}, {}]:
            lines.append(f"{height}\t{width}\t{json.dumps(kwargs)}\t{count(height, width, **kwargs)}")
    (OUT / "minicpmv/size_controls.tsv").write_text("\n".join(lines) + "\n")

    lines = [json.dumps({"config": config, "preprocessor": preprocessor})]
    for frames in (1, 2, 3, 8, 33, 128):
        for height, width in ((61, 90), (240, 320), (448, 448), (720, 1280), (1080, 1920), (1920, 1080), (1, 3000)):
            for kwargs in ({}, {"max_slice_nums": 1}):
                lines.append(f"{frames}\t{height}\t{width}\t{frames * count(height, width, **kwargs)}\t{json.dumps(kwargs)}")
    (OUT / "minicpmv/video_counts.tsv").write_text("\n".join(lines) + "\n")


def list_positions() -> None:
    lines = []
    for side in (1, 2, 3, 4, 5, 7, 16, 27, 32, 63, 64, 70):
        for count in range(1, 129):
            ids = get_vision_nearest_position_ids(torch.tensor([[count, 1]]), side) // side
            lines.append(f"{side}\t{count}\t{int(((torch.arange(count) + 1) * ids).sum())}")
    (OUT / "minicpmv/positions.tsv").write_text("\n".join(lines) + "\n")


def main() -> None:
    torch.set_num_threads(1)
    golden.condition = condition
    family = MiniCpmv()
    golden.fresh(family.out / "images")
    golden.fresh(family.out / "pixels")
    for name, (width, height, seed) in golden.PICTURES.items():
        golden.picture(width, height, seed).save(family.out / "images" / name, optimize=True)
    count_tokens()
    list_positions()
    for name, spec in family.checkpoints.items():
        print(name)
        directory = tile_family.write_checkpoint(family, name, spec)
        reference = Reference(family, directory)
        tile_family.check_other_form(family, reference)
        for case, turns in {**golden.CASES, **qwen_video.CASES}.items():
            record(reference, case, turns)
        print("  compared with the whole:", reference.compared)


if __name__ == "__main__":
    main()
