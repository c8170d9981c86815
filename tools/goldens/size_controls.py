"""Tokens of images under a request's mm_processor_kwargs, from the real processors: tests/golden/FAMILY/size_controls.tsv.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/size_controls.py

The first line is that of token_counts.tsv. Then a line an image: height, width, mm_processor_kwargs, tokens. Phi-3-vision's
one control, num_crops, is its processor's own: token_counts.tsv and num_crops_4/token_counts.tsv hold what it does.
"""

import functools
import json
from types import SimpleNamespace

from PIL import Image
from transformers import LlavaOnevisionProcessor
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from token_counts import GOLDEN

SIZES = [(1, 1), (28, 28), (100, 700), (700, 100), (333, 1000), (384, 768), (448, 448), (480, 640), (640, 480),
         (768, 767), (911, 911), (1080, 1920)]


def write(family: str, controls: list[dict], count) -> None:
    first = (GOLDEN / family / "token_counts.tsv").read_text().split("\n")[0]
    lines = [first] + [f"{height}\t{width}\t{json.dumps(kwargs)}\t{count(height, width, kwargs)}"
                       for kwargs in controls for height, width in SIZES]
    (GOLDEN / family / "size_controls.tsv").write_text("\n".join(lines) + "\n")
    print(family, len(lines) - 1, "lines")


def black(height: int, width: int) -> Image.Image:
    return Image.new("RGB", (width, height))


def qwen(family: str) -> None:
    preprocessor = json.loads((GOLDEN / family / "token_counts.tsv").read_text().split("\n")[0])["preprocessor"]

    def count(height: int, width: int, kwargs: dict) -> int:
        # A call heeds min_pixels and max_pixels only together; a processor that is made with them heeds each.
        made = {name: value for name, value in kwargs.items() if name != "size"}
        processor = Qwen2VLImageProcessorPil(**{**preprocessor, **made})
        batch = processor(black(height, width), return_tensors="np", **(kwargs if len(kwargs) != len(made) else {}))
        return int(batch["image_grid_thw"].prod()) // 4

    write(family, [{"max_pixels": 50176}, {"max_pixels": 4000}, {"min_pixels": 313600},
                   {"min_pixels": 100352, "max_pixels": 200704},
                   {"size": {"shortest_edge": 100352, "longest_edge": 200704}}], count)


def internvl2() -> None:
    processor = GotOcr2ImageProcessorPil(size={"height": 448, "width": 448}, crop_to_patches=True, max_patches=12)

    def count(height: int, width: int, kwargs: dict) -> int:
        return 256 * processor.get_number_of_image_patches(height, width, kwargs)

    write("internvl2", [{"max_patches": each} for each in (1, 2, 5, 6)]
          + [{"min_patches": 4}, {"min_patches": 3, "max_patches": 6}, {"crop_to_patches": False}], count)


def llava_onevision() -> None:
    def count(height: int, width: int, kwargs: dict) -> int:
        images = LlavaOnevisionImageProcessorPil(**kwargs)
        processor = SimpleNamespace(image_processor=images, num_image_tokens=729, vision_aspect_ratio="anyres_max_9")
        processor._get_unpadded_features = functools.partial(LlavaOnevisionProcessor._get_unpadded_features, processor)
        tokens = LlavaOnevisionProcessor._get_number_of_features(processor, height, width, 384, 384)
        # The control of a call is the control of a processor.
        tiles = LlavaOnevisionImageProcessorPil()(black(height, width), return_tensors="np", **kwargs)["pixel_values"]
        again = images(black(height, width), return_tensors="np")["pixel_values"]
        assert tiles.shape == again.shape
        return tokens

    write("llava_onevision", [{"image_grid_pinpoints": each} for each in (
        [[384, 384]], [[768, 768], [384, 768], [768, 384]], [[384 * h, 384 * w] for h in (1, 2, 3) for w in (1, 2, 3)],
        [[1152, 384], [384, 2304]])], count)


def smolvlm2() -> None:
    processor = SmolVLMImageProcessorPil(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512})

    def count(height: int, width: int, kwargs: dict) -> int:
        batch = processor([[black(height, width)]], return_tensors="np", **kwargs)
        return 64 * batch["pixel_values"].shape[1]

    write("smolvlm2", [{"size": {"longest_edge": edge}} for edge in (2048, 1536, 1100, 1024, 1023, 512, 300, 1)]
          + [{"do_image_splitting": False}, {"do_image_splitting": False, "size": {"longest_edge": 700}},
             {"max_image_size": {"longest_edge": 512}}], count)


if __name__ == "__main__":
    qwen("qwen2_vl")
    qwen("qwen2_5_vl")
    internvl2()
    llava_onevision()
    smolvlm2()
