"""Golden files of GLM-4.1V: tests/golden/glm4v.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/pip install --no-deps torchvision==0.28.0
V/bin/python tools/goldens/glm4v.py

Run after qwen_video.py, whose frames it takes. Two tiny random checkpoints, saved by transformers:
  odd_heads    a flat config, bfloat16, half of every head turns, 5 x 5 positions, a video configuration of its own
  biased_tower current transformers' config, float16, two shards, three quarters of every head turn, 4 x 4 positions,
               biased queries, keys and values in the tower
The tensors have one naming; each brings the other form of the config (other_form/). The chat template is the published one
(glm4v_chat_template.jinja, of GLM-4.1V-9B-Thinking).

Videos as qwen_video.py makes them: grids, rows and sizes of the real Glm4vVideoProcessor, the text of a video from the real
Glm4vProcessor, kinds of tokens too, positions from the model's own get_rope_index. One frame is refused by the processor; it is
given twice. The model's forward refuses images beside videos, whose tokens are one; its parts are put together here. video_counts.tsv holds how many tokens it makes of a video, video_times.tsv the texts.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

import qwen_video  # declares what torchvision wants declared
from PIL import Image
from transformers import Glm4vConfig, Glm4vForConditionalGeneration
from transformers.image_utils import SizeDict
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
from transformers.models.glm4v.processing_glm4v import Glm4vProcessor
from transformers.models.glm4v.video_processing_glm4v import Glm4vVideoProcessor, smart_resize
from transformers.video_utils import VideoMetadata

import golden
import qwen_vision
import tiny_tokenizer

OUT = Path(__file__).resolve().parents[2] / "tests/golden"
CHAT_TEMPLATE = (Path(__file__).parent / "glm4v_chat_template.jinja").read_text().removesuffix("\n")
SPECIAL = [
    "<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>",
    "<|observation|>", "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>", "<|image|>",
    "<|video|>"]
MEAN_AND_STD = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
PATCHES = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
# Areas times two: an image is two equal frames.
PREPROCESSOR = {"size": {"shortest_edge": 2 * 56 * 56, "longest_edge": 2 * 28 * 28 * 12}, **PATCHES, **MEAN_AND_STD,
                "image_processor_type": "Glm4vImageProcessor"}
# Of odd_heads; biased_tower has none, and goes by its preprocessor_config.json.
VIDEO_PREPROCESSOR = {
    "size": {"shortest_edge": 4 * 28 * 28, "longest_edge": 28 * 28 * 40}, **PATCHES, **MEAN_AND_STD,
    "max_duration": 300, "processor_class": "Glm4vProcessor", "video_processor_type": "Glm4vVideoProcessor"}


def flat_config(family: qwen_vision.Family, spec: dict, tokenizer) -> dict:
    """config.json with the text's fields at the top, rope_scaling and partial_rotary_factor among them."""
    token = tokenizer.token_to_id
    return {
        "architectures": ["Glm4vForConditionalGeneration"], "model_type": "glm4v",
        "image_start_token_id": token("<|begin_of_image|>"), "image_end_token_id": token("<|end_of_image|>"),
        "video_start_token_id": token("<|begin_of_video|>"), "video_end_token_id": token("<|end_of_video|>"),
        "image_token_id": token("<|image|>"), "video_token_id": token("<|video|>"),
        "eos_token_id": [token("<|endoftext|>"), token("<|user|>"), token("<|observation|>")],
        "pad_token_id": token("<|endoftext|>"), "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": 2048, "attention_bias": True, "attention_dropout": 0.0,
        "tie_word_embeddings": spec["tied"], "torch_dtype": str(spec["dtype"]).removeprefix("torch."), "use_cache": True,
        "rope_theta": 10000.0, "partial_rotary_factor": spec["turned"],
        "rope_scaling": {"type": "default", "mrope_section": spec["sections"]}, **spec["text"],
        "vision_config": {"hidden_dropout_prob": 0.0, "in_channels": 3, "initializer_range": 0.02, "patch_size": 14,
                          "spatial_merge_size": 2, "temporal_patch_size": 2, **spec["vision"]},
    }


FAMILY = qwen_vision.Family(
    name="glm-4.1v", out=OUT / "glm4v", config_class=Glm4vConfig, model_class=Glm4vForConditionalGeneration, model_type="glm4v",
    processor_class="Glm4vProcessor", vision={}, preprocessor=PREPROCESSOR, chat_template=CHAT_TEMPLATE,
    published_config=flat_config, image_processor=Glm4vImageProcessorPil, resize_options={"temporal_factor": 2},
    image_token="<|image|>", pattern=tiny_tokenizer.LLAMA3_PATTERN, special=SPECIAL, nfc=False, end_of_turn="<|user|>",
    tokenizer_class="PreTrainedTokenizerFast")

CHECKPOINTS = {
    "odd_heads": dict(
        seed=81, dtype=torch.bfloat16, hub_form=True, shard="1GB", tied=False, turned=0.5, sections=[1, 3, 2],
        text=dict(hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, vocab_size=481, rms_norm_eps=1e-5),
        vision=dict(depth=3, hidden_size=48, num_heads=3, intermediate_size=76, out_hidden_size=96, image_size=70,
                    attention_bias=False, hidden_act="silu", rms_norm_eps=1e-5)),
    "biased_tower": dict(
        seed=82, dtype=torch.float16, hub_form=False, shard="400KB", tied=True, turned=0.75, sections=[3, 5, 4],
        text=dict(hidden_size=64, intermediate_size=88, num_hidden_layers=3, num_attention_heads=2,
                  num_key_value_heads=1, vocab_size=480, rms_norm_eps=1e-6),
        vision=dict(depth=2, hidden_size=40, num_heads=2, intermediate_size=57, out_hidden_size=64, image_size=60,
                    attention_bias=True, hidden_act="gelu", rms_norm_eps=1e-3)),
}


def processor_fields(processor: Glm4vVideoProcessor, tokenizer) -> SimpleNamespace:
    """What methods of the real Glm4vProcessor read of it."""
    fields = SimpleNamespace(video_processor=processor, image_token="<|image|>")
    if tokenizer is not None:
        fields.image_token_id = tokenizer.convert_tokens_to_ids("<|image|>")
        fields.video_start_id = tokenizer.convert_tokens_to_ids("<|begin_of_video|>")
        fields.video_end_id = tokenizer.convert_tokens_to_ids("<|end_of_video|>")
    fields.replace_frame_token_id = lambda *args, **options: Glm4vProcessor.replace_frame_token_id(fields, *args, **options)
    return fields


def timed_text(processor: Glm4vVideoProcessor, grid: torch.Tensor, count: int, fps: float) -> str:
    """The groups of a video, as the real processor writes them."""
    metadata = VideoMetadata(total_num_frames=count, fps=fps, frames_indices=list(range(count)))
    return Glm4vProcessor.replace_video_token(
        processor_fields(processor, None), {"video_grid_thw": grid[None].numpy(), "video_metadata": [metadata]}, 0)


class Video:
    def __init__(self, processor: Glm4vVideoProcessor, shot: str, count: int, fps: float):
        self.fps = fps
        self.names = [f"{shot}_{index}.png" for index in range(count)]
        pictures = [Image.open(OUT / "frames" / name).convert("RGB") for name in self.names] * (2 if count == 1 else 1)
        height, width = smart_resize(len(pictures), pictures[0].height, pictures[0].width, 2, 28,
                                     processor.size.shortest_edge, processor.size.longest_edge)
        self.resized = [picture.resize((width, height), Image.Resampling.BICUBIC) for picture in pictures]
        stacked, given = (torch.from_numpy(np.stack([np.array(picture) for picture in frames])).permute(0, 3, 1, 2)
                          for frames in (self.resized, pictures))
        made = processor(videos=[stacked], do_resize=False, do_sample_frames=False, return_tensors="pt")
        whole = processor(videos=[given], do_sample_frames=False, return_tensors="pt")
        assert torch.equal(made["video_grid_thw"], whole["video_grid_thw"])
        assert (made["pixel_values_videos"] - whole["pixel_values_videos"]).abs().max() < 0.1
        self.patches = made["pixel_values_videos"]
        self.grid = made["video_grid_thw"][0]
        self.text = timed_text(processor, self.grid, count, fps)
        self.files = [f"glm4v_{width}x{height}_{name}" for name in self.names]  # the size depends on how many there are

    def described(self) -> dict:
        return {"source": [f"../../../frames/{name}" for name in self.names],
                "pixels": [f"../../../frames/pixels/{name}" for name in self.files],
                "grid": self.grid.tolist(), "fps": self.fps}


class Picture(qwen_video.Picture):
    def __init__(self, reference: qwen_vision.Reference, name: str):
        super().__init__(reference, name)
        self.text = "<|image|>" * self.tokens


@torch.no_grad()
def record_videos(reference: qwen_vision.Reference, processor: Glm4vVideoProcessor, case: str, turns: list) -> None:
    made = [[Video(processor, *part) if isinstance(part, tuple) else
             Picture(reference, part) if part.endswith(".png") else part for part in parts] for _, parts in turns]
    media = [part for parts in made for part in parts if not isinstance(part, str)]
    videos = [medium for medium in media if isinstance(medium, Video)]
    pictures = [medium for medium in media if isinstance(medium, Picture)]
    vision = dict(pixel_values_videos=torch.cat([v.patches for v in videos]),
                  video_grid_thw=torch.stack([v.grid for v in videos]))
    if pictures:
        vision |= dict(pixel_values=torch.cat([p.patches for p in pictures]),
                       image_grid_thw=torch.stack([p.grid for p in pictures]))
    fields = processor_fields(processor, reference.tokenizer)

    def kinds(ids: list[int]) -> torch.Tensor:
        return torch.tensor(Glm4vProcessor.create_mm_token_type_ids(fields, [ids]))

    def places(ids: list[int]) -> torch.Tensor:
        where, _ = reference.model.model.get_rope_index(
            input_ids=torch.tensor([ids]), mm_token_type_ids=kinds(ids), image_grid_thw=vision.get("image_grid_thw"),
            video_grid_thw=vision["video_grid_thw"].clone())
        return where

    def forward(ids: list[int], **options):
        tensor = torch.tensor([ids])
        if not pictures:
            return reference.model(input_ids=tensor, use_cache=False, mm_token_type_ids=kinds(ids), **vision, **options)
        # Its own forward takes the tokens of both for images; rows, their places and positions are its all the same.
        model = reference.model.model
        if not rows:
            rows[1] = torch.cat(model.get_image_features(vision["pixel_values"], vision["image_grid_thw"]).pooler_output)
            rows[2] = torch.cat(model.get_video_features(vision["pixel_values_videos"], vision["video_grid_thw"]).pooler_output)
        embeddings = model.get_input_embeddings()(tensor)
        for kind, features in rows.items():
            embeddings = embeddings.masked_scatter((kinds(ids) == kind)[..., None], features)
        return reference.model(inputs_embeds=embeddings, position_ids=places(ids), use_cache=False, **options)

    rows: dict[int, torch.Tensor] = {}

    for word in qwen_vision.WORDS:
        messages = [{"role": role, "content": [
            {"type": "text", "text": part.replace("{}", word)} if isinstance(part, str) else
            {"type": "video" if isinstance(part, Video) else "image"} for part in parts]}
            for (role, _), parts in zip(turns, made)]
        rendered = reference.render(messages)
        text, rest, waiting = "", rendered, iter(media)
        for medium in waiting:
            placeholder = "<|video|>" if isinstance(medium, Video) else "<|image|>"
            before, rest = rest.split(placeholder, 1)
            text += before + medium.text
        ids = reference.tokenizer(text + rest, add_special_tokens=False)["input_ids"]
        try:
            tokens, gap = golden.greedy(lambda so_far: forward(so_far).logits[:, -1], ids)
        except (StopIteration, TypeError, ValueError, RuntimeError) as error:  # the answer itself has a placeholder
            print(f"  {case} ({word}): {error}", flush=True)
            continue
        print(f"  {case} ({word}): {len(ids)} tokens, grids {[m.grid.tolist() for m in media]}, gap {gap:.1e}, "
              f"{len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP:
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the text")

    taps = golden.Taps()
    visual = reference.model.model.visual
    if not pictures:  # images and videos pass the tower one after the other
        taps.input("vision.patch_embed", visual.blocks[0])
        for index, block in enumerate(visual.blocks):
            taps.output(f"vision.layer.{index}", block)
        taps.output("vision.merged", visual.merger)
    taps.text(reference.model.model.language_model)
    logits = forward(ids, logits_to_keep=3).logits[0]
    taps.close()
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = places(ids)[:, 0].int()
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
    for video in videos:
        for name, picture in zip(video.files, video.resized):
            picture.save(OUT / "frames/pixels" / name, optimize=True)
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, [*taps.values, "logits"], {
        "family": reference.family.name, "case": case, "messages": messages, "rendered": rendered,
        "images": [medium.described() for medium in media]})


# frames, height, width, controls.
COUNTS = [
    *[(n, 61, 90, {}) for n in (1, 2, 3, 4, 5, 8, 15, 16, 33)],
    *[(n, 240, 320, {}) for n in (1, 2, 3, 7, 16, 300, 600)],
    *[(2, h, w, {}) for h, w in [(28, 28), (27, 29), (42, 42), (42, 70), (70, 42), (14, 600), (600, 14), (1, 150), (1, 250),
                                 (27, 640), (480, 640), (720, 1280), (1080, 1920), (333, 500), (97, 1553), (2160, 3840)]],
    *[(n, 1080, 1920, {}) for n in (5, 12, 13, 22, 23, 24, 64, 255)],
    *[(n, 200, 300, {"size": {"shortest_edge": 8192, "longest_edge": 100000}}) for n in (1, 2, 6, 7)],
    *[(4, h, w, {"size": {"shortest_edge": 131072, "longest_edge": 786432}}) for h, w in [(61, 90), (1080, 1920)]],
]


def write_counts() -> None:
    bounds = {"shortest_edge": 12544, "longest_edge": 47040000}
    config = json.loads((FAMILY.out / "odd_heads/config.json").read_text())
    lines = [json.dumps({"config": config, "preprocessor": {**VIDEO_PREPROCESSOR, "size": bounds}})]
    for count, height, width, controls in COUNTS:
        processor, sizes = Glm4vVideoProcessor(size=bounds), []
        base = Glm4vVideoProcessor.__mro__[1]
        original, base.resize = base.resize, lambda self, image, size, **_: sizes.append(size) or image
        try:
            video = torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(max(count, 2), 3, height, width)
            processor.resize(video[None], size=SizeDict(**controls.get("size", bounds)), resample=None, factor=28,
                             temporal_factor=2)
            tokens = -(-count // 2) * (sizes[0].height // 28) * (sizes[0].width // 28)
        except ValueError:
            tokens = 0
        finally:
            base.resize = original
        lines.append(f"{count}\t{height}\t{width}\t{tokens}\t{json.dumps(controls)}")
    (FAMILY.out / "video_counts.tsv").write_text("\n".join(lines) + "\n")

    lines = []
    for count in (1, 2, 3, 12, 50):
        for fps in (0.3, 0.75, 1.0, 2.0, 3.0, 4.0, 7.0, 7.76, 24.0, 29.97, 30000 / 1001, 60.0):
            text = timed_text(Glm4vVideoProcessor(), torch.tensor([-(-count // 2), 2, 2]), count, fps)
            lines.append(f"{count}\t{fps!r}\t{text.replace('<|begin_of_image|><|image|><|end_of_image|>', '|')}")
    (FAMILY.out / "video_times.tsv").write_text("\n".join(lines) + "\n")
    print(len(COUNTS), "videos,", len(lines), "texts")


if __name__ == "__main__":
    qwen_vision.make(FAMILY, CHECKPOINTS)
    for name in CHECKPOINTS:
        directory = FAMILY.out / name
        if name == "odd_heads":
            golden.write_json(directory / "video_preprocessor_config.json", VIDEO_PREPROCESSOR)
        reference = qwen_vision.Reference(FAMILY, directory)
        for case_name, case_turns in qwen_video.CASES.items():
            record_videos(reference, Glm4vVideoProcessor.from_pretrained(directory), case_name, case_turns)
    write_counts()
