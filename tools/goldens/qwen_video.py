"""Golden files of videos in Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5: golden/video_*.safetensors in each of their checkpoints.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/pip install --no-deps torchvision==0.28.0
V/bin/python tools/goldens/qwen_video.py [FAMILY [TEMPLATE]]

Run after qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py and qwen3_5_vl.py; adds to what they wrote. A video is a list of frames (tests/golden/frames). Grids,
rows and the size of frames are the real Qwen2VLVideoProcessor's, fed frames that Pillow has resized to that size, as images are.
(Its own resize is torchvision's, which differs from Pillow's by one or two of 255 in less than 1 % of the samples.)
video_counts.tsv holds how many tokens it makes of a video, by frames, height, width and controls.

Positions are given to the model, after the rule that the models were trained with and vLLM has: a group of frames stands at
time floor(index * seconds_per_grid * tokens_per_second), in float32, and what follows starts one after the largest position
of all three axes. transformers 5.17 starts it after the largest of rows and columns alone, and cuts seconds_per_grid to a
whole number. Both agree where a video is no longer than its frames are wide or tall, and its groups are a second apart:
that is checked here against transformers' own get_rope_index.

Qwen3-VL and Qwen3.5: the real Qwen3VLVideoProcessor, the text of its groups from the real Qwen3VLProcessor, positions from the model's own
get_rope_index. The groups stand in place of a video's placeholder together with the start and the end around it, as the model
was trained and as vLLM and transformers up to 4.57 have it; transformers 5.17 leaves a second start and end around them all.
One frame is refused by the processor; it is given twice here. video_times.tsv holds the texts, by frames and frames a second.
"""

import json
import math
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

# torchvision's compiled operators need another torch; nothing here calls one, but it wants them declared.
OPERATORS = torch.library.Library("torchvision", "DEF")
for operator in ("nms", "qnms"):
    OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from PIL import Image  # noqa: E402
from transformers import (  # noqa: E402
    Qwen2_5_VLForConditionalGeneration, Qwen2VLForConditionalGeneration, Qwen3_5ForConditionalGeneration,
    Qwen3VLForConditionalGeneration)
from transformers.image_utils import SizeDict  # noqa: E402
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor, smart_resize  # noqa: E402
from transformers.models.qwen3_vl import video_processing_qwen3_vl  # noqa: E402
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor  # noqa: E402
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor  # noqa: E402
from transformers.video_utils import VideoMetadata  # noqa: E402

import golden  # noqa: E402
import qwen3_vl  # noqa: E402
import qwen_vision  # noqa: E402

OUT = Path(__file__).resolve().parents[2] / "tests/golden"
FAMILIES = {
    "qwen2_vl": (Qwen2VLForConditionalGeneration, ["odd_heads", "mixed_window"]),
    "qwen2_5_vl": (Qwen2_5_VLForConditionalGeneration, ["odd_heads", "wide_window"]),
    "qwen3_vl": (Qwen3VLForConditionalGeneration, ["odd_heads", "wide_rows"]),
    "qwen3_5_vl": (Qwen3_5ForConditionalGeneration, ["odd_heads", "wide_rows"]),
}
NAMES = {"qwen2_vl": "qwen2-vl", "qwen2_5_vl": "qwen2.5-vl", "qwen3_vl": "qwen3-vl", "qwen3_5_vl": "qwen3.5"}
TIMED = {"qwen3_vl", "qwen3_5_vl"}
# Of Qwen3-VL's and Qwen3.5's odd_heads; wide_rows has none, and goes by its preprocessor_config.json.
TIMED_PREPROCESSOR = {
    "size": {"longest_edge": 32 * 32 * 40, "shortest_edge": 4 * 32 * 32}, "patch_size": 16, "temporal_patch_size": 2,
    "merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    "processor_class": "Qwen3VLProcessor", "video_processor_type": "Qwen3VLVideoProcessor"}
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
WIDE, TALL = (90, 61), (47, 100)  # width, height
SHOTS = {"wide": (WIDE, 5), "tall": (TALL, 12)}


# case -> turns; a tuple is the first frames of a shot and their rate, a name of a file an image.
CASES = {
    "video_one_frame": [("user", [("wide", 1, 2.0), "What is this {}?"])],
    "video_odd": [("user", ["Watch this: ", ("wide", 5, 1.0), "Which {} comes first?"])],
    # Longer than its frames are wide: text after it starts at a time.
    "video_even": [("user", [("tall", 12, 0.75), "Tell the {}."])],
    "video_mixed": [("user", ["small.png", ("wide", 4, 3.0), "Between {}. ", ("tall", 3, 24.0), "square.png", "Compare."])],
    "video_turns": [
        ("user", [("tall", 2, 2.0), "Describe the {}."]),
        ("assistant", ["A blue circle moves to the left."]),
        ("user", ["And here?", "wide.png", ("wide", 3, 2.0)]),
    ],
}


def timed_text(processor: Qwen3VLVideoProcessor, grid: torch.Tensor, count: int, fps: float) -> str:
    """The groups of a video, as the real processor writes them."""
    metadata = VideoMetadata(total_num_frames=count, fps=fps, frames_indices=list(range(count)))
    fields = SimpleNamespace(
        video_processor=processor, video_token="<|video_pad|>", vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>", _calculate_timestamps=partial(Qwen3VLProcessor._calculate_timestamps, None))
    return Qwen3VLProcessor.replace_video_token(fields, {"video_grid_thw": [grid], "video_metadata": [metadata]}, 0)


class Video:
    def __init__(self, processor, shot: str, count: int, fps: float):
        self.fps = fps
        self.names = [f"{shot}_{index}.png" for index in range(count)]
        pictures = [Image.open(OUT / "frames" / name).convert("RGB") for name in self.names]
        self.timed = isinstance(processor, Qwen3VLVideoProcessor)
        bounds = (processor.size.shortest_edge, processor.size.longest_edge)
        if self.timed:
            if count == 1:
                pictures *= 2
            height, width = video_processing_qwen3_vl.smart_resize(
                len(pictures), pictures[0].height, pictures[0].width, 2, 32, *bounds)
        else:
            height, width = smart_resize(pictures[0].height, pictures[0].width, 28, *bounds)
        self.resized = [picture.resize((width, height), Image.Resampling.BICUBIC) for picture in pictures]
        stacked = torch.from_numpy(np.stack([np.array(picture) for picture in self.resized])).permute(0, 3, 1, 2)
        made = processor(videos=[stacked], do_resize=False, do_sample_frames=False, cap_pixels_per_frame=False, return_tensors="pt")
        whole = processor(videos=[torch.from_numpy(np.stack([np.array(p) for p in pictures])).permute(0, 3, 1, 2)],
                          do_sample_frames=False, cap_pixels_per_frame=False, return_tensors="pt")
        assert torch.equal(made["video_grid_thw"], whole["video_grid_thw"])
        assert (made["pixel_values_videos"] - whole["pixel_values_videos"]).abs().max() < 0.05
        self.patches = made["pixel_values_videos"]
        self.grid = made["video_grid_thw"][0]
        self.tokens = int(self.grid.prod()) // 4
        self.text = timed_text(processor, self.grid, count, fps) if self.timed else "<|video_pad|>" * self.tokens
        # Qwen3-VL's size depends on how many frames there are.
        self.files = [f"qwen3_vl_{width}x{height}_{name}" if self.timed else name for name in self.names]

    def described(self) -> dict:
        return {"source": [f"../../../frames/{name}" for name in self.names],
                "pixels": [f"../../../frames/pixels/{name}" for name in self.files],
                "grid": self.grid.tolist(), "fps": self.fps}


class Picture:
    def __init__(self, reference: qwen_vision.Reference, name: str):
        self.name = name
        picture = Image.open(reference.family.out / "images" / name).convert("RGB")
        made = reference.processor([picture], return_tensors="pt")
        self.patches, self.grid = made["pixel_values"], made["image_grid_thw"][0]
        self.tokens = int(self.grid.prod()) // 4
        self.text = "<|image_pad|>" * self.tokens

    def described(self) -> dict:
        return {"source": f"../../images/{self.name}", "pixels": f"../../pixels/{self.name}", "grid": self.grid.tolist()}


def positions(ids: list[int], media: list, image_token: int, video_token: int, tokens_per_second) -> torch.Tensor:
    """As trained: see above."""
    axes = [[], [], []]
    start, index, waiting = 0, 0, iter(media)
    while index < len(ids):
        if ids[index] not in (image_token, video_token):
            for axis in axes:
                axis.append(start)
            start, index = start + 1, index + 1
            continue
        medium = next(waiting)
        time, height, width = (int(n) for n in medium.grid // torch.tensor([1, 2, 2]))
        steps = torch.arange(time)
        if tokens_per_second is not None and isinstance(medium, Video):
            steps = (steps * (2 / medium.fps) * tokens_per_second).long()
        for step in steps.tolist():
            for row in range(height):
                for column in range(width):
                    for axis, offset in zip(axes, [step, row, column]):
                        axis.append(start + offset)
        start += max(int(steps[-1]), height - 1, width - 1) + 1
        index += medium.tokens
    return torch.tensor(axes)


@torch.no_grad()
def record(reference: qwen_vision.Reference, processor, case: str, turns: list) -> None:
    config = reference.model.config
    tokens_per_second = getattr(config.vision_config, "tokens_per_second", None)
    made = [[Video(processor, *part) if isinstance(part, tuple) else
             Picture(reference, part) if part.endswith(".png") else part for part in parts] for _, parts in turns]
    media = [part for parts in made for part in parts if not isinstance(part, str)]
    videos = [medium for medium in media if isinstance(medium, Video)]
    pictures = [medium for medium in media if isinstance(medium, Picture)]

    timed = isinstance(processor, Qwen3VLVideoProcessor)

    def places(ids: list[int]) -> torch.Tensor:
        if not timed:
            return positions(ids, media, config.image_token_id, config.video_token_id, tokens_per_second)
        tensor = torch.tensor([ids])
        kinds = (tensor == config.image_token_id).int() + 2 * (tensor == config.video_token_id).int()
        theirs, _ = reference.model.model.get_rope_index(
            tensor, kinds, torch.stack([p.grid for p in pictures]) if pictures else None,
            torch.stack([v.grid for v in videos]))
        return theirs[:, 0]

    def forward(ids: list[int], **options):
        tensor = torch.tensor([ids])
        image, video = tensor == config.image_token_id, tensor == config.video_token_id
        where = places(ids)
        vision = dict(pixel_values_videos=torch.cat([v.patches for v in videos]),
                      video_grid_thw=torch.stack([v.grid for v in videos]))
        if pictures:
            vision |= dict(pixel_values=torch.cat([p.patches for p in pictures]),
                           image_grid_thw=torch.stack([p.grid for p in pictures]))
        return reference.model(input_ids=tensor, position_ids=where[:, None], use_cache=False,
                               mm_token_type_ids=image.int() + 2 * video.int(), **vision, **options)

    for word in qwen_vision.WORDS:
        messages = [{"role": role, "content": [
            {"type": "text", "text": part.replace("{}", word)} if isinstance(part, str) else
            {"type": "video" if isinstance(part, Video) else "image"} for part in parts]}
            for (role, _), parts in zip(turns, made)]
        rendered = reference.render(messages)
        text, waiting = "", iter(media)
        unframed = rendered.replace(VIDEO, "<|video_pad|>") if timed else rendered
        for piece in unframed.split("_pad|>")[:-1]:
            text += piece.removesuffix("<|image").removesuffix("<|video") + next(waiting).text
        text += unframed.split("_pad|>")[-1]
        ids = reference.tokenizer(text, add_special_tokens=False)["input_ids"]
        try:
            tokens, gap = golden.greedy(lambda so_far: forward(so_far).logits[:, -1], ids)
        except (StopIteration, TypeError, ValueError):  # the answer itself has a placeholder
            continue
        print(f"  {case} ({word}): {len(ids)} tokens, grids {[m.grid.tolist() for m in media]}, gap {gap:.1e}, "
              f"{len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP:
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the text")

    where = places(ids)
    if not timed and case in ("video_one_frame", "video_turns"):  # where transformers' rule is the same
        tensor = torch.tensor([ids])
        kinds = (tensor == config.image_token_id).int() + 2 * (tensor == config.video_token_id).int()
        theirs, _ = reference.model.model.get_rope_index(
            tensor, kinds, torch.stack([p.grid for p in pictures]) if pictures else None,
            torch.stack([v.grid for v in videos]),
            **({} if tokens_per_second is None else {"second_per_grid_ts": [2 / v.fps for v in videos]}))
        assert torch.equal(theirs[:, 0], where), case

    taps = golden.Taps()
    visual = reference.model.model.visual
    # Images and videos pass the tower one after the other: the taps are of the videos where there are no images.
    if not pictures:
        taps.input("vision.patch_embed", visual.blocks[0])  # by window, where there are windows
        for index, block in enumerate(visual.blocks):
            taps.output(f"vision.layer.{index}", block)
        taps.output("vision.merged", visual.merger)
        for index, merger in enumerate(getattr(visual, "deepstack_merger_list", [])):
            taps.output(f"vision.deepstack.{index}", merger)
    taps.text(reference.model.model.language_model)
    logits = forward(ids, logits_to_keep=3).logits[0]
    taps.close()
    order = [*taps.values, "logits"]
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = where.int()
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
    for video in videos:
        for name, picture in zip(video.files, video.resized):
            picture.save(OUT / "frames/pixels" / name, optimize=True)
    golden.save_golden(reference.directory / "golden" / f"{case}.safetensors", tensors, order, {
        "family": reference.family.name, "case": case, "messages": messages, "rendered": rendered,
        "images": [medium.described() for medium in media]})


# frames, height, width, controls: odd and even, one, many, exact ties, extreme ratios, budgets that bind and that do not.
COUNTS = [
    *[(n, 61, 90, {}) for n in (1, 2, 3, 4, 5, 8, 15, 16, 33)],
    *[(n, 240, 320, {}) for n in (1, 2, 7, 16)],
    *[(2, h, w, {}) for h, w in [(28, 28), (27, 29), (42, 42), (42, 70), (70, 42), (14, 600), (600, 14), (1, 150),
                                 (480, 640), (720, 1280), (1080, 1920), (333, 500), (97, 1553), (2160, 3840)]],
    *[(n, 120, 160, {"cap_pixels_per_frame": True}) for n in (1, 2, 31, 32, 300)],
    *[(n, 360, 640, {"cap_pixels_per_frame": True, "min_pixels": 4 * 784, "max_pixels": 768 * 784})
      for n in (2, 9, 20)],
    *[(700, 90, 120, {"cap_pixels_per_frame": True, "min_pixels": 100 * 784, "max_pixels": 768 * 784})],
    *[(n, 200, 300, {"min_pixels": 3136, "max_pixels": 50000}) for n in (1, 2, 6)],
    *[(3, 500, 333, {"size": {"shortest_edge": 100352, "longest_edge": 602112}})],
    *[(4, h, w, {"size": {"shortest_edge": 100352, "longest_edge": 602112}}) for h, w in [(61, 90), (1080, 1920)]],
]


def write_counts(family: str) -> None:
    published = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    config = json.loads((OUT / family / "odd_heads/config.json").read_text())
    lines = [json.dumps({"config": config, "preprocessor": published})]
    for count, height, width, controls in COUNTS:
        processor = Qwen2VLVideoProcessor(**published)
        video = torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(count, 3, height, width)
        size = processor.size
        if "min_pixels" in controls:
            size = SizeDict(shortest_edge=controls["min_pixels"], longest_edge=controls["max_pixels"])
        elif "size" in controls:
            size = SizeDict(**controls["size"])
        try:
            # The processor's own resize of one frame, told how many there are; then its own count.
            sizes = []
            original = Qwen2VLVideoProcessor.__mro__[1].resize
            Qwen2VLVideoProcessor.__mro__[1].resize = lambda self, image, size, **_: sizes.append(size) or image
            try:
                processor.resize(video[None], size=size, resample=None, factor=28, temporal_factor=2,
                                 cap_pixels_per_frame=controls.get("cap_pixels_per_frame", False))
            finally:
                Qwen2VLVideoProcessor.__mro__[1].resize = original
            blank = torch.zeros(1, 1, 1, 1).expand(count, 3, sizes[0].height, sizes[0].width)
            if blank.numel() > 4e7:
                grid = [-(-count // 2), sizes[0].height // 14, sizes[0].width // 14]
            else:
                _, *grid = processor.patchify(blank[None].contiguous(), 14, 2, 2)
            tokens = math.prod(grid) // 4
        except ValueError:
            tokens = 0
        lines.append(f"{count}\t{height}\t{width}\t{tokens}\t{json.dumps(controls)}")
    (OUT / family / "video_counts.tsv").write_text("\n".join(lines) + "\n")
    print(family, len(COUNTS), "videos")


# As COUNTS, with multiples of 32 and bounds of the whole volume.
TIMED_COUNTS = [
    *[(n, 61, 90, {}) for n in (1, 2, 3, 4, 5, 8, 15, 16, 33)],
    *[(n, 240, 320, {}) for n in (1, 2, 3, 7, 16, 300, 768)],
    *[(2, h, w, {}) for h, w in [(32, 32), (31, 33), (48, 48), (48, 80), (80, 48), (14, 600), (600, 14), (1, 150), (1, 250),
                                 (27, 640), (480, 640), (720, 1280), (1080, 1920), (333, 500), (97, 1553), (2160, 3840)]],
    *[(n, 720, 1280, {}) for n in (5, 13, 14, 27, 64, 255)],
    # An odd number that is rounded down, and so is within the bound.
    *[(n, h, w, {}) for n, h, w in [(12, 1080, 1920), (13, 1080, 1920), (14, 1080, 1920), (13, 1500, 1200)]],
    *[(n, 120, 160, {"cap_pixels_per_frame": True}) for n in (1, 2, 31, 32, 300)],
    *[(n, 1080, 1920, {"cap_pixels_per_frame": True}) for n in (2, 3, 31, 32, 33, 200)],
    *[(n, 360, 640, {"cap_pixels_per_frame": True, "size": {"shortest_edge": 4096, "longest_edge": 768 * 1024}})
      for n in (2, 9, 20)],
    *[(n, 200, 300, {"size": {"shortest_edge": 8192, "longest_edge": 100000}}) for n in (1, 2, 6, 7)],
    *[(4, h, w, {"size": {"shortest_edge": 131072, "longest_edge": 786432}}) for h, w in [(61, 90), (1080, 1920)]],
]


def write_timed_counts() -> None:
    out = OUT / "qwen3_vl"
    bounds = {"longest_edge": 25165824, "shortest_edge": 4096}
    published = {**TIMED_PREPROCESSOR, "size": bounds}
    config = json.loads((out / "odd_heads/config.json").read_text())
    lines = [json.dumps({"config": config, "preprocessor": published})]
    for count, height, width, controls in TIMED_COUNTS:
        processor = Qwen3VLVideoProcessor(size=bounds)
        sizes = []
        base = Qwen3VLVideoProcessor.__mro__[1]
        original, base.resize = base.resize, lambda self, image, size, **_: sizes.append(size) or image
        try:
            video = torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(max(count, 2), 3, height, width)
            processor.resize(video[None], size=SizeDict(**controls.get("size", bounds)), resample=None, factor=32,
                             temporal_factor=2, cap_pixels_per_frame=controls.get("cap_pixels_per_frame", False))
            tokens = -(-count // 2) * (sizes[0].height // 32) * (sizes[0].width // 32)
        except ValueError:
            tokens = 0
        finally:
            base.resize = original
        lines.append(f"{count}\t{height}\t{width}\t{tokens}\t{json.dumps(controls)}")
    (out / "video_counts.tsv").write_text("\n".join(lines) + "\n")

    # Rates whose inverse is no short number, and times in the middle between two tenths.
    lines = []
    for count in (1, 2, 3, 12, 50):
        for fps in (0.3, 0.75, 1.0, 2.0, 3.0, 4.0, 7.0, 7.76, 24.0, 29.97, 30000 / 1001, 60.0, 186.0):
            text = timed_text(Qwen3VLVideoProcessor(), torch.tensor([-(-count // 2), 2, 2]), count, fps)
            lines.append(f"{count}\t{fps!r}\t{text.replace(VIDEO, '|')}")
    (out / "video_times.tsv").write_text("\n".join(lines) + "\n")
    print("qwen3_vl", len(TIMED_COUNTS), "videos,", len(lines), "texts")


def make_frames() -> None:
    """A shot: one picture that moves."""
    golden.fresh(OUT / "frames")
    (OUT / "frames/pixels").mkdir()
    for seed, (shot, ((width, height), count)) in enumerate(SHOTS.items()):
        scene = golden.picture(width + 4 * count, height, 40 + seed)
        for index in range(count):
            left = 4 * index
            scene.crop((left, 0, left + width, height)).save(OUT / f"frames/{shot}_{index}.png", optimize=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) < 2:
        make_frames()
    for family_name, (model_class, checkpoints) in FAMILIES.items():
        if family_name not in (sys.argv[1:2] or FAMILIES):
            continue
        timed = family_name in TIMED
        if family_name != "qwen3_5_vl":  # whose sizes and times are Qwen3-VL's
            write_timed_counts() if timed else write_counts(family_name)
        template = qwen3_vl.CHAT_TEMPLATE if timed else qwen_vision.CHAT_TEMPLATE
        for each in checkpoints:
            print(family_name, each)
            family = qwen_vision.Family(name=NAMES[family_name], out=OUT / family_name,
                                        config_class=None, model_class=model_class, model_type="", processor_class="",
                                        vision={}, chat_template=template,
                                        published_template=Path(sys.argv[2]).read_text() if len(sys.argv) > 2 else "")
            directory = OUT / family_name / each
            # The checkpoint's template is the generator's: with a branch for videos.
            golden.write_json(directory / "chat_template.json", {"chat_template": template})
            if timed and each == "odd_heads":
                golden.write_json(directory / "video_preprocessor_config.json", TIMED_PREPROCESSOR)
            reference = qwen_vision.Reference(family, directory)
            video_processor = (Qwen3VLVideoProcessor if timed else Qwen2VLVideoProcessor).from_pretrained(directory)
            for case_name, case_turns in CASES.items():
                record(reference, video_processor, case_name, case_turns)
