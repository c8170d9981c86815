"""Tokens of thin and small images under small bounds, from the real processors: tests/golden/FAMILY/small_bounds.tsv.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/small_bounds.py

The first line is that of token_counts.tsv. Then a line an image: height, width, what a checkpoint says otherwise
({"config": ..., "preprocessor": ...}), tokens; 0 where the processor refuses the size.
"""

import functools
import json
from types import SimpleNamespace

from PIL import Image
from transformers import LlavaOnevisionProcessor
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from token_counts import GOLDEN

SIZES = [(40, 3000), (3000, 40), (28, 5600), (5600, 28), (1, 199), (200, 1), (10, 1990), (7, 1393), (1000, 5), (5, 1000),
         (13, 2599), (600, 3), (33, 20), (57, 57), (29, 57), (30, 31), (64, 64), (1000, 1000), (700, 1400)]


def write(family: str, changes: list[dict], count, sizes=SIZES) -> None:
    first = (GOLDEN / family / "token_counts.tsv").read_text().split("\n")[0]
    about = json.loads(first)
    lines = [first]
    for change in changes:
        for height, width in sizes:
            preprocessor = {**about["preprocessor"], **change.get("preprocessor", {})}
            tokens = count(height, width, preprocessor, {**about["config"], **change.get("config", {})})
            lines.append(f"{height}\t{width}\t{json.dumps(change)}\t{tokens}")
    (GOLDEN / family / "small_bounds.tsv").write_text("\n".join(lines) + "\n")
    print(family, len(lines) - 1, "lines")


def patches(family: str, unit: int, in_size: bool, kind: type = Qwen2VLImageProcessorPil) -> None:
    def count(height: int, width: int, preprocessor: dict, config: dict) -> int:
        try:
            return kind(**preprocessor).get_number_of_image_patches(height, width, {}) // 4
        except ValueError:
            return 0

    # In squares of one token.
    bounds = [(1, 1), (4, 4), (1, 2), (4, 8), (1, 16), (3, 20), (60, 60), (5, 64), (64, 65), (130, 131), (200, 201)]
    bounds = [(least * unit * unit, most * unit * unit) for least, most in bounds] + [(1, 100_000), (40_000, 40_001)]
    write(family, [{"preprocessor": {"size": {"shortest_edge": least, "longest_edge": most}} if in_size
                    else {"min_pixels": least, "max_pixels": most}} for least, most in bounds], count)


def internvl2() -> None:
    def count(height: int, width: int, preprocessor: dict, config: dict) -> int:
        processor = GotOcr2ImageProcessorPil(
            size={"height": 448, "width": 448}, crop_to_patches=True, min_patches=config["min_dynamic_patch"],
            max_patches=config["max_dynamic_patch"])
        return 256 * processor.get_number_of_image_patches(height, width)

    write("internvl2", [{"config": {"min_dynamic_patch": least, "max_dynamic_patch": most}}
                        for least, most in ((1, 1), (1, 2), (2, 2), (1, 5), (4, 7), (1, 24))], count)


def llava_onevision() -> None:
    def count(height: int, width: int, preprocessor: dict, config: dict) -> int:
        images = LlavaOnevisionImageProcessorPil(image_grid_pinpoints=config["image_grid_pinpoints"])
        processor = SimpleNamespace(image_processor=images, num_image_tokens=729,
                                    vision_aspect_ratio=config["vision_aspect_ratio"])
        processor._get_unpadded_features = functools.partial(LlavaOnevisionProcessor._get_unpadded_features, processor)
        return LlavaOnevisionProcessor._get_number_of_features(processor, height, width, 384, 384)

    grids = [[[384, 384]], [[384, 2304], [2304, 384]], [[384 * h, 384 * w] for h in (1, 2, 3) for w in (1, 2, 3)]]
    write("llava_onevision", [{"config": {"image_grid_pinpoints": grid, "vision_aspect_ratio": f"anyres_max_{most}"}}
                              for grid in grids for most in (1, 4, 9)], count)


def smolvlm2() -> None:
    def count(height: int, width: int, preprocessor: dict, config: dict) -> int:
        batch = SmolVLMImageProcessorPil(**preprocessor)([[Image.new("RGB", (width, height))]], return_tensors="np")
        return 64 * batch["pixel_values"].shape[1]

    write("smolvlm2", [{"preprocessor": change} for change in (
        {"size": {"longest_edge": 512}}, {"size": {"longest_edge": 1024}}, {"size": {"longest_edge": 600}},
        {"do_image_splitting": False})], count, SIZES[:2] + SIZES[4:])


def one_size(family: str) -> None:
    tokens = json.loads((GOLDEN / family / "token_counts.tsv").read_text().split("\n")[0])["preprocessor"]["image_seq_length"]
    write(family, [{}], lambda *_: tokens)


if __name__ == "__main__":
    patches("qwen2_vl", 28, False)
    patches("qwen2_5_vl", 28, False)
    patches("qwen3_vl", 32, True)
    patches("glm4v", 28, True, Glm4vImageProcessorPil)
    internvl2()
    llava_onevision()
    smolvlm2()
    one_size("paligemma")
    one_size("gemma3")
