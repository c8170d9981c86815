"""Golden files of videos whose frames are tiles: golden/video_*.safetensors of LLaVA-OneVision, InternVL3 and SmolVLM2.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/pip install --no-deps torchvision==0.28.0 num2words==0.5.14 docopt==0.6.2
V/bin/python tools/goldens/tile_video.py

Run after llava_onevision.py, internvl3.py, smolvlm2.py and qwen_video.py; adds to what they wrote. Cases and frames are
qwen_video.py's. Rows are the real video processors', fed frames that Pillow has resized as the processor would (qwen_video.py
says why); the text of a video is the real processors' replace_video_token. Features are get_video_features's (get_image_features's
where a frame is an image to the model) of each video by itself, in the places of the prompt's placeholders: the processors stack
the videos of a request, and so take only those of one length; SmolVLM's lose images beside a video.
video_counts.tsv: tokens by frames, height, width and controls; tables/smolvlm2_video_texts.tsv: what SmolVLM2 writes for a video, by
frames, frames a second and seconds of the file (0: a list of frames).
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import qwen_video  # declares torchvision's operators
from num2words import num2words
from PIL import Image
from transformers.models.internvl.processing_internvl import InternVLProcessor
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor
from transformers.models.llava_onevision.video_processing_llava_onevision import LlavaOnevisionVideoProcessor
from transformers.models.smolvlm import processing_smolvlm
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor, get_resize_output_image_size
from transformers.video_utils import VideoMetadata

import golden
import internvl3
import internvl2_current
import llava_onevision
import smolvlm2
import tile_family
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

OUT = qwen_video.OUT
FRAMES = OUT / "frames"


def metadata(count: int, fps: float, duration: float | None = None) -> VideoMetadata:
    return VideoMetadata(total_num_frames=count, fps=fps, duration=duration, frames_indices=list(range(count)))


class Llava:
    placeholders = ("<image>", "<video>")

    def __init__(self, directory: Path):
        golden.write_json(directory / "chat_template.json", {"chat_template": llava_onevision.CHAT_TEMPLATE})
        self.family = llava_onevision.LlavaOnevision()
        self.reference = tile_family.Reference(self.family, directory)
        self.model, self.tokenizer = self.reference.model, self.reference.tokenizer
        tile = self.model.config.vision_config.image_size
        if directory.name == "scaled":  # a file of its own; the other goes by that of images
            golden.write_json(directory / "video_preprocessor_config.json", {
                "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "resample": 2, "num_frames": 3,
                "size": {"height": tile, "width": tile}, "video_processor_type": "LlavaOnevisionVideoProcessor"})
        self.processor = LlavaOnevisionVideoProcessor.from_pretrained(directory)
        assert (self.processor.size.height, self.processor.size.width) == (tile, tile)
        self.side = tile // 14
        self.tower = self.model.model.vision_tower

    def render(self, messages: list) -> str:
        return self.family.render(self.tokenizer, messages)

    def sizes(self, picture: Image.Image) -> list:
        return [(self.processor.size.width, self.processor.size.height)]

    def text(self, rows: torch.Tensor, count: int, fps: float) -> str:
        fields = SimpleNamespace(num_image_tokens=self.side**2, video_token="<video>")
        return LlavaOnevisionProcessor.replace_video_token(fields, {"pixel_values_videos": rows}, 0)

    def features(self, rows: torch.Tensor) -> torch.Tensor:
        """[rows in the prompt, width] and, for the tap, a newline after each frame."""
        pooled = self.model.model.get_video_features(rows).pooler_output[0]
        newline = self.model.model.image_newline[None]
        per_frame = pooled.reshape(rows.shape[1], -1, pooled.shape[-1])
        self.merged = torch.cat([torch.cat([each, newline]) for each in per_frame])
        return torch.cat([pooled, newline])

    def picture(self, name: str, picture: Image.Image) -> tuple[str, torch.Tensor, dict]:
        features = self.model.model.get_image_features(**self.family.inputs(self.reference, [picture])).pooler_output
        features = features[0].reshape(-1, features[0].shape[-1])
        pixels, grid = self.family.stacked(self.reference, picture)
        return "<image>" * len(features), features, {
            "source": f"../../images/{name}", "pixels": f"../../pixels/{self.reference.directory.name}_{name}",
            "grid": grid}

    def tokens(self) -> list[int]:
        return [self.model.config.image_token_id, self.model.config.video_token_id]

    def whole(self, ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, pixel_values_videos=rows, use_cache=False).logits

    def decoder(self):
        return self.model.model.language_model


class SmolVlm:
    placeholders = ("<image>", "<video>")

    def __init__(self, directory: Path):
        self.family = smolvlm2.SmolVlm2()
        self.name = directory.name
        spec = self.family.checkpoints[self.name]
        path = directory / "preprocessor_config.json"
        images = json.loads(path.read_text())
        if self.name == "thirds":  # as published: `size` of images stands over that of videos
            golden.write_json(path, images | {"video_sampling": {
                "fps": 1, "max_frames": 64, "video_size": {"longest_edge": spec["tile"]}}})
        if self.name == "halves":
            golden.write_json(directory / "video_preprocessor_config.json", {
                "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "resample": 3, "fps": 2,
                "num_frames": 3, "max_image_size": {"longest_edge": spec["tile"]},
                "size": {"longest_edge": spec["tile"]}, "video_processor_type": "SmolVLMVideoProcessor"})
        self.reference = tile_family.Reference(self.family, directory)
        self.model, self.tokenizer = self.reference.model, self.reference.tokenizer
        self.processor = SmolVLMVideoProcessor.from_pretrained(directory)
        self.tile = spec["tile"]
        assert self.processor.max_image_size["longest_edge"] == self.tile
        self.longest = dict(self.processor.size)["longest_edge"]
        print("  longest", self.longest, "frames", self.processor.num_frames, self.processor.fps)
        self.side = self.tile // spec.get("patch", 14)
        self.tower = self.model.model.vision_model

    def render(self, messages: list) -> str:
        return self.family.render(self.tokenizer, messages)

    def sizes(self, picture: Image.Image) -> list:
        blank = torch.zeros(1, 3, picture.height, picture.width)
        height, width = get_resize_output_image_size(blank, self.longest)
        return [(width, height), (self.tile, self.tile)]

    def text(self, rows: torch.Tensor, count: int, fps: float) -> str:
        length = (self.side // self.model.config.scale_factor) ** 2
        return smolvlm_text(count, metadata(count, fps), length)

    def features(self, rows: torch.Tensor) -> torch.Tensor:
        self.merged = self.model.model.get_image_features(rows).pooler_output
        self.merged = self.merged.reshape(-1, self.merged.shape[-1])
        return self.merged

    def picture(self, name: str, picture: Image.Image) -> tuple[str, torch.Tensor, dict]:
        features = self.model.model.get_image_features(**self.family.inputs(self.reference, [picture])).pooler_output
        shapes = self.reference.processor([[picture]], return_tensors="pt", return_row_col_info=True)
        length = (self.side // self.model.config.scale_factor) ** 2
        text = processing_smolvlm.get_image_prompt_string(
            int(shapes["rows"][0][0]), int(shapes["cols"][0][0]), length, "<fake_token_around_image>", "<image>",
            "<global-img>")
        _, grid = self.family.stacked(self.reference, picture)
        return text, features.reshape(-1, features.shape[-1]), {
            "source": f"../../images/{name}", "pixels": f"../../pixels/{self.name}_{name}", "grid": grid}

    def tokens(self) -> list[int]:
        return [self.model.config.image_token_id]

    def whole(self, ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, pixel_values=rows, use_cache=False).logits

    def decoder(self):
        return self.model.model.text_model


def smolvlm_text(count: int, about: VideoMetadata, length: int) -> str:
    fields = SimpleNamespace(image_seq_len=length, image_token="<image>", global_image_token="<global-img>",
                             fake_image_token="<fake_token_around_image>")
    rows = SimpleNamespace(shape=(1, count))
    return processing_smolvlm.SmolVLMProcessor.replace_video_token(
        fields, {"pixel_values": rows, "video_metadata": [about]}, 0)


class InternVl:
    placeholders = ("<IMG_CONTEXT>", "<video>")

    def __init__(self, directory: Path):
        self.name = directory.name
        hf = OUT / "internvl3" / self.name.replace("own", "hf")
        if self.name == "hf35":
            golden.write_json(directory / "video_preprocessor_config.json", {
                "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "resample": 2, "num_frames": 3,
                "size": {"height": 56, "width": 56}, "video_processor_type": "InternVLVideoProcessor"})
        self.model = internvl2_current.load(hf)
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(hf / "tokenizer.json"))
        self.images = GotOcr2ImageProcessorPil.from_pretrained(hf)
        # What OpenGVLab's files say of images holds for frames: their code has one function for both.
        of_videos = OUT / "internvl3/hf3" if self.name.startswith("own") else hf
        self.processor = InternVLVideoProcessor.from_pretrained(of_videos)
        assert self.processor.size.height == 56
        self.side = 4
        self.tower = self.model.model.vision_tower

    def render(self, messages: list) -> str:
        if self.name.startswith("own"):
            return internvl3.own_rendering(messages)
        return self.tokenizer.apply_chat_template(
            messages, chat_template=internvl2_current.CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)

    def sizes(self, picture: Image.Image) -> list:
        return [(56, 56)]

    def text(self, rows: torch.Tensor, count: int, fps: float) -> str:
        fields = SimpleNamespace(start_image_token="<img>", image_token="<IMG_CONTEXT>", image_seq_length=4,
                                 end_image_token="</img>")
        return InternVLProcessor.replace_video_token(fields, {"pixel_values_videos": rows}, 0)

    def features(self, rows: torch.Tensor) -> torch.Tensor:
        self.merged = self.model.model.get_image_features(rows[0]).pooler_output
        self.merged = self.merged.reshape(-1, self.merged.shape[-1])
        return self.merged

    def picture(self, name: str, picture: Image.Image) -> tuple[str, torch.Tensor, dict]:
        batch = self.images([picture], crop_to_patches=True, return_tensors="pt")
        features = self.model.model.get_image_features(batch["pixel_values"]).pooler_output
        features = features.reshape(-1, features.shape[-1])
        return f"<img>{'<IMG_CONTEXT>' * len(features)}</img>", features, {
            "source": f"../../images/{name}", "pixels": f"../../pixels/tiles_{name}",
            "grid": [len(batch["pixel_values"]), self.side, self.side]}

    def tokens(self) -> list[int]:
        return [self.model.config.image_token_id]

    def whole(self, ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, pixel_values=rows[0], use_cache=False).logits

    def decoder(self):
        return self.model.model.language_model


FAMILIES = {
    "llava_onevision": (Llava, ["newlines", "scaled"]),
    "smolvlm2": (SmolVlm, ["thirds", "halves", "fifths"]),
    "internvl3": (InternVl, ["hf3", "own3", "hf35", "own35"]),
}


class Medium:
    """An image, or the frames of a video."""

    def __init__(self, family, directory: Path, part):
        self.video = isinstance(part, tuple)
        if not self.video:
            picture = Image.open(directory.parent / "images" / part).convert("RGB")
            self.text, self.features, self.described = family.picture(part, picture)
            return
        shot, count, fps = part
        names = [f"{shot}_{index}.png" for index in range(count)]
        pictures = [Image.open(FRAMES / name).convert("RGB") for name in names]
        filters = {int(each): each for each in Image.Resampling}
        for size in family.sizes(pictures[0]):
            pictures = [picture.resize(size, filters[int(family.processor.resample)]) for picture in pictures]
        stacked = torch.from_numpy(np.stack([np.array(picture) for picture in pictures])).permute(0, 3, 1, 2)
        made = family.processor(videos=[stacked], do_resize=False, do_sample_frames=False, return_tensors="pt")
        self.rows = made["pixel_values_videos" if "pixel_values_videos" in made else "pixel_values"]
        assert self.rows.shape[:2] == (1, count)
        self.text = family.text(self.rows, count, fps)
        self.features = family.features(self.rows)
        files = [f"{directory.parent.name}_{directory.name}_{name}" for name in names]
        for file, picture in zip(files, pictures):
            picture.save(FRAMES / "pixels" / file, optimize=True)
        self.described = {"source": [f"../../../frames/{name}" for name in names],
                          "pixels": [f"../../../frames/pixels/{file}" for file in files],
                          "grid": [count, family.side, family.side], "fps": fps}


@torch.no_grad()
def record(family, directory: Path, case: str, turns: list) -> None:
    made = [[Medium(family, directory, part) if isinstance(part, tuple) or part.endswith(".png") else part
             for part in parts] for _, parts in turns]
    media = [part for parts in made for part in parts if isinstance(part, Medium)]

    def embedded(prompt: list[int], ids: list[int], order: list) -> torch.Tensor:
        tensor = torch.tensor([ids])
        embeddings = family.model.get_input_embeddings()(tensor)
        places = torch.zeros_like(tensor, dtype=torch.bool)
        places[0, :len(prompt)] = torch.isin(tensor[0, :len(prompt)], torch.tensor(family.tokens()))
        features = torch.cat([medium.features for medium in order])
        assert int(places.sum()) == len(features)
        embeddings[places] = features
        return embeddings

    for word in golden.WORDS:
        messages = [{"role": role, "content": [
            {"type": "text", "text": part.replace("{}", word)} if isinstance(part, str) else
            {"type": "video" if part.video else "image"} for part in parts]} for (role, _), parts in zip(turns, made)]
        rendered = family.render(messages)
        waiting = {False: iter([m for m in media if not m.video]), True: iter([m for m in media if m.video])}
        text, rest, order = "", rendered, []
        while True:
            at = [rest.find(placeholder) for placeholder in family.placeholders]
            if max(at) < 0:
                break
            video = at[0] < 0 or 0 <= at[1] < at[0]
            order.append(next(waiting[video]))
            text += rest[:at[video]] + order[-1].text
            rest = rest[at[video] + len(family.placeholders[video]):]
        assert len(order) == len(media)
        ids = family.tokenizer(text + rest, add_special_tokens=False)["input_ids"]
        logits_of = lambda so_far: family.model(  # noqa: E731
            inputs_embeds=embedded(ids, so_far, order), use_cache=False).logits[:, -1]
        tokens, gap = golden.greedy(logits_of, ids)
        print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
        if gap >= golden.MIN_GAP and not set(tokens) & set(family.tokens()):
            break
    else:
        raise SystemExit(f"{case}: every prompt comes near a tie; change the text")

    pictures = [medium for medium in media if not medium.video]
    taps = golden.Taps()
    if not pictures:
        assert len(media) == 1
        taps.output("vision.patch_embed", family.tower.embeddings)
        layers = getattr(family.tower.encoder, "layers", None) or family.tower.encoder.layer
        for index, block in enumerate(layers):
            taps.output(f"vision.layer.{index}", block)
        whole = family.whole(torch.tensor([ids]), media[0].rows)[0, -3:]
        family.features(media[0].rows)
        taps.values["vision.merged"] = family.merged.float()
    taps.text(family.decoder())
    logits = family.model(inputs_embeds=embedded(ids, ids, order), use_cache=False).logits[0, -3:]
    taps.close()
    if not pictures:
        assert torch.allclose(whole, logits, atol=1e-5), (whole - logits).abs().max()
    names = [*taps.values, "logits"]
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None]
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
    golden.save_golden(directory / "golden" / f"{case}.safetensors", tensors, names, {
        "family": directory.parent.name.replace("_", "-"), "case": case, "messages": messages, "rendered": rendered,
        "images": [medium.described for medium in media]})


def write_texts() -> None:
    lines = []
    for count in (1, 2, 3, 8, 13, 20, 21, 64, 99, 100, 101, 110, 219):
        for fps, duration in ((2.0, None), (0.3, None), (29.97, None), (1.0, count + 0.5), (0.01, 100.0 * count)):
            text = smolvlm_text(count, metadata(count, fps, duration), 1)
            lines.append(f"{count}\t{fps!r}\t{duration or 0!r}\t{json.dumps(text)}")
    (OUT / "tables/smolvlm2_video_texts.tsv").write_text("\n".join(lines) + "\n")
    words = [(number, num2words(number)) for number in
             [*range(130), 199, 200, 201, 999, *range(1000, 1020), 1100, 1101, 9999, 10_000, 12_345, 65_536, 100_001,
              999_999]]
    (OUT / "smolvlm2/number_words.tsv").write_text("".join(f"{number}\t{word}\n" for number, word in words))
    print("smolvlm2", len(lines), "texts,", len(words), "numbers")


def write_counts() -> None:
    """At the published sizes of token_counts.tsv: 27 x 27 features a tile, 64 and 256 tokens a tile."""
    def llava(count: int) -> int:
        fields = SimpleNamespace(num_image_tokens=729, video_token="x")
        return len(LlavaOnevisionProcessor.replace_video_token(fields, {"pixel_values_videos": [[None] * count]}, 0))

    def internvl(count: int) -> int:
        fields = SimpleNamespace(start_image_token="", image_token="@", image_seq_length=256, end_image_token="")
        rows = SimpleNamespace(shape=(count, 3, 448, 448))
        return InternVLProcessor.replace_video_token(fields, {"pixel_values_videos": [rows]}, 0).count("@")

    def smolvlm(count: int) -> int:
        return smolvlm_text(count, metadata(count, 1), 64).count("<image>")

    for name, counted in {"llava_onevision": llava, "smolvlm2": smolvlm, "internvl2": internvl}.items():
        published = (OUT / name / "token_counts.tsv").read_text().splitlines()[0]
        lines = [published] + [f"{count}\t{height}\t{width}\t{counted(count)}\t{{}}" for count in
                               (1, 2, 3, 5, 8, 16, 33, 64) for height, width in
                               ((61, 90), (384, 384), (1, 3000), (1080, 1920), (1920, 1080))]
        (OUT / name / "video_counts.tsv").write_text("\n".join(lines) + "\n")
        print(name, len(lines) - 1, "videos")


def main() -> None:
    torch.set_num_threads(1)
    write_texts()
    write_counts()
    for name, (kind, checkpoints) in FAMILIES.items():
        for each in checkpoints:
            print(name, each)
            directory = OUT / name / each
            family = kind(directory)
            for case, turns in qwen_video.CASES.items():
                record(family, directory, case, turns)


if __name__ == "__main__":
    main()
