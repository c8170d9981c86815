"""Tokens of an image by its size, from the real processors: tests/golden/FAMILY/token_counts.tsv.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/token_counts.py

The first line is JSON: a small config.json of the family and the preprocessor's configuration as published. Then a
line a size: height, width, tokens; 0 where the processor refuses the size.
"""

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"

# (height, width): usual ones, portrait and landscape, exact ties, extreme ratios, single pixels.
SIZES = [
    (1, 1), (1, 2), (2, 1), (1, 100), (100, 1), (1, 3000), (3000, 1), (7, 7), (13, 14), (14, 13), (27, 28), (28, 27),
    (28, 28), (42, 42), (42, 70), (70, 42), (56, 56), (98, 98), (100, 2000), (2000, 100), (200, 40), (40, 200),
    (224, 224), (240, 320), (336, 336), (336, 672), (384, 384), (384, 768), (383, 768), (385, 768), (768, 384),
    (448, 448), (449, 447), (448, 896), (480, 640), (640, 480), (500, 333), (512, 512), (576, 384), (600, 800),
    (720, 1280), (768, 1024), (1000, 1000), (1024, 1024), (1080, 1920), (1152, 1152), (1200, 1199), (1280, 720),
    (1333, 4000), (1344, 1344), (1536, 1536), (1536, 2304), (1700, 1700), (1920, 1080), (2160, 3840), (2304, 2304),
    (2305, 2303), (2448, 3264), (3000, 2000), (3584, 3584), (3840, 2160), (3840, 3840), (28, 5600), (28, 5629),
    (333, 1000), (777, 1111), (123, 457), (911, 911), (1153, 767), (767, 1153), (691, 2073), (5000, 700), (97, 1553),
]


def write(family: str, config: dict, preprocessor: dict, count, sizes=SIZES) -> None:
    lines = [json.dumps({"config": config, "preprocessor": preprocessor})]
    for height, width in sizes:
        lines.append(f"{height}\t{width}\t{count(height, width)}")
    (GOLDEN / family / "token_counts.tsv").write_text("\n".join(lines) + "\n")
    print(family, len(sizes), "sizes")


def qwen(family: str, preprocessor: dict, sizes=SIZES, checkpoint: str = "odd_heads") -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    processor = Qwen2VLImageProcessorPil(**preprocessor)

    def count(height: int, width: int) -> int:
        try:
            return processor.get_number_of_image_patches(height, width, {}) // 4
        except ValueError:
            return 0

    config = json.loads((GOLDEN / family / checkpoint / "config.json").read_text())
    write(family, config, preprocessor, count, sizes)


def qwen2() -> None:
    preprocessor = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2,
                    "merge_size": 2}
    qwen("qwen2_vl", preprocessor)
    qwen("qwen2_5_vl", preprocessor)


def qwen3() -> None:
    preprocessor = {"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16,
                    "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    # Half way between multiples of 32, and on both sides of the two bounds.
    ties = [(16 + 32 * n, 16 + 32 * m) for n in (8, 9, 20, 31) for m in (10, 11, 40)]
    bounds = [(256, 256), (255, 257), (240, 272), (240, 271), (4096, 4096), (4096, 4112), (4112, 4113), (4095, 4200),
              (32, 6400), (32, 6401), (6400, 32), (48, 9599), (200, 1), (201, 1)]
    qwen("qwen3_vl", preprocessor, SIZES + ties + bounds)
    qwen("qwen3_vl_moe", preprocessor, SIZES + ties + bounds, "every_layer")
    qwen("qwen3_5_vl", preprocessor, SIZES + ties + bounds)


def glm4v() -> None:
    from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil

    preprocessor = {"size": {"shortest_edge": 12544, "longest_edge": 9633792}, "patch_size": 14,
                    "temporal_patch_size": 2, "merge_size": 2}
    processor = Glm4vImageProcessorPil(**preprocessor)

    def count(height: int, width: int) -> int:
        try:
            return processor.get_number_of_image_patches(height, width, {}) // 4
        except ValueError:
            return 0

    # Half way between multiples of 28, and on both sides of the two bounds, which are of two frames.
    ties = [(14 + 28 * n, 14 + 28 * m) for n in (2, 3, 20, 31) for m in (4, 5, 40)]
    bounds = [(84, 84), (79, 79), (80, 79), (56, 112), (28, 224), (2184, 2184), (2198, 2198), (2194, 2195), (2212, 2184),
              (28, 5601), (3, 600), (3, 601), (1, 200), (201, 1)]
    config = json.loads((GOLDEN / "glm4v/odd_heads/config.json").read_text())
    write("glm4v", config, preprocessor, count, SIZES + ties + bounds)


def llava_onevision() -> None:
    import functools
    from types import SimpleNamespace

    from transformers import LlavaOnevisionProcessor
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
        LlavaOnevisionImageProcessorPil,
    )

    processor = SimpleNamespace(image_processor=LlavaOnevisionImageProcessorPil(), num_image_tokens=729,
                                vision_aspect_ratio="anyres_max_9")
    processor._get_unpadded_features = functools.partial(LlavaOnevisionProcessor._get_unpadded_features, processor)
    config = json.loads((GOLDEN / "llava_onevision/newlines/config.json").read_text())
    config["vision_config"] |= {"image_size": 384}
    config["image_grid_pinpoints"] = processor.image_processor.image_grid_pinpoints
    preprocessor = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
                    "size": {"height": 384, "width": 384}}
    write("llava_onevision", config, preprocessor,
          lambda h, w: LlavaOnevisionProcessor._get_number_of_features(processor, h, w, 384, 384))


def paligemma() -> None:
    from types import SimpleNamespace

    from transformers import PaliGemmaProcessor

    processor = SimpleNamespace(image_seq_length=1024)
    config = json.loads((GOLDEN / "paligemma/first/config.json").read_text())
    config["vision_config"] |= {"image_size": 448}
    preprocessor = {"image_seq_length": 1024, "size": {"height": 448, "width": 448}}
    write("paligemma", config, preprocessor, lambda h, w: PaliGemmaProcessor._get_num_multimodal_tokens(
        processor, image_sizes=[(h, w)])["num_image_tokens"][0])


def internvl2() -> None:
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    processor = GotOcr2ImageProcessorPil(size={"height": 448, "width": 448}, crop_to_patches=True, max_patches=12)
    config = json.loads((GOLDEN / "internvl2/internlm2/config.json").read_text())
    config["vision_config"] |= {"image_size": 448}
    config |= {"force_image_size": 448, "max_dynamic_patch": 12}
    # Aspects half way between two grids, where the area decides, on both sides of where it does.
    ties = [(8 * n, 7 * n) for n in (20, 39, 40, 55, 56, 57, 85, 120, 160, 161)]
    ties += [(8 * n, 9 * n) for n in (60, 110)] + [(6 * n, 7 * n) for n in (60, 91, 92)] + [(2 * n, 5 * n) for n in (50, 300)]
    ties += [(633, 633), (634, 634), (896, 896), (1097, 1097), (1098, 1098), (448, 897), (896, 448), (1267, 633)]
    write("internvl2", config, {}, lambda h, w: 256 * processor.get_number_of_image_patches(h, w), SIZES + ties)

    # Transformers' form, whose file says that nothing is cut and whose processor cuts all the same.
    from transformers.models.internvl.processing_internvl import InternVLProcessorKwargs

    preprocessor = {"crop_to_patches": False, "image_processor_type": "GotOcr2ImageProcessorFast", "max_patches": 12,
                    "min_patches": 1, "resample": 3, "size": {"height": 448, "width": 448}}
    processor = GotOcr2ImageProcessorPil(**preprocessor)
    kwargs = InternVLProcessorKwargs._defaults["images_kwargs"]
    config = json.loads((GOLDEN / "internvl3/hf35/config.json").read_text())
    config["vision_config"] |= {"image_size": [448, 448]}
    write("internvl3", config, preprocessor,
          lambda h, w: 256 * processor.get_number_of_image_patches(h, w, dict(kwargs)), SIZES + ties)


def gemma3() -> None:
    from types import SimpleNamespace

    from transformers import Gemma3Processor

    processor = SimpleNamespace(image_seq_length=256)
    config = json.loads((GOLDEN / "gemma3/pooled/config.json").read_text())
    config["vision_config"] |= {"image_size": 896}
    config["mm_tokens_per_image"] = 256
    preprocessor = {"image_seq_length": 256, "size": {"height": 896, "width": 896}}
    write("gemma3", config, preprocessor, lambda h, w: Gemma3Processor._get_num_multimodal_tokens(
        processor, image_sizes=[(h, w)])["num_image_tokens"][0])


def mllama() -> None:
    from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil

    preprocessor = {"max_image_tiles": 4, "resample": 2, "size": {"height": 560, "width": 560}}
    processor = MllamaImageProcessorPil(**preprocessor)
    config = json.loads((GOLDEN / "mllama/quarters/config.json").read_text())
    config["vision_config"] |= {"image_size": 560, "patch_size": 14}

    def count(height: int, width: int) -> int:
        tiles = processor.resize(np.zeros((3, height, width), np.uint8), processor.size, 4, processor.resample)[1]
        return 1601 * tiles[0] * tiles[1]

    # What just fits some tiles and what is a pixel over, and the ties of two arrangements.
    edges = [(560, 560), (561, 560), (560, 561), (560, 1120), (561, 1121), (1120, 1120), (1121, 1120), (1680, 560),
             (1681, 560), (560, 2240), (560, 2241), (2240, 560), (1120, 1121), (840, 840), (1121, 1121)]
    write("mllama", config, preprocessor, count, SIZES + edges)


if __name__ == "__main__":
    qwen2()
    qwen3()
    glm4v()
    llava_onevision()
    paligemma()
    internvl2()
    gemma3()
    mllama()
