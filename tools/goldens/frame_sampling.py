"""Indices that transformers' video processors take of a file: tests/golden/tables/frame_sampling.json.

    python tools/goldens/frame_sampling.py tests/golden/tables/frame_sampling.json      (packages as for qwen_video.py)

Rows: rule, frames and rate of the file, what is asked (fps or num_frames), min_frames, max_frames, and the indices, as a
list where they are few, else their number and a checksum, sum((i + 1) * index) mod 1000003.
"""
import json
import sys
import types

import torch

# As qwen_video.py: nothing here calls torchvision's operators, but it wants them declared.
OPERATORS = torch.library.Library("torchvision", "DEF")
for operator in ("nms", "qnms"):
    OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import transformers  # noqa: E402
from transformers.models.glm4v.video_processing_glm4v import Glm4vVideoProcessor  # noqa: E402
from transformers.models.minicpmv4_6.video_processing_minicpmv4_6 import MiniCPMV4_6VideoProcessor  # noqa: E402
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor  # noqa: E402
from transformers.models.llava_onevision.video_processing_llava_onevision import LlavaOnevisionVideoProcessor  # noqa: E402
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor  # noqa: E402
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor  # noqa: E402
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor  # noqa: E402
from transformers.video_utils import VideoMetadata  # noqa: E402


def indices(rule, frames, rate, fps, number, least, most):
    metadata = VideoMetadata(total_num_frames=frames, fps=rate, duration=frames / rate)
    if rule == "times":
        own = types.SimpleNamespace(fps=2, max_duration=300)
        return [int(index) for index in Glm4vVideoProcessor.sample_frames(own, metadata, fps=fps)]
    if rule == "seconds":
        own = types.SimpleNamespace(max_num_frames=most, stack_frames=1)
        return [int(index) for index in MiniCPMV4_6VideoProcessor.sample_frames(own, metadata)]
    own = types.SimpleNamespace(num_frames=None, fps=None, temporal_patch_size=2, min_frames=least, max_frames=most,
                                initial_shift=True)
    kind = KINDS[rule]
    taken = kind.sample_frames(own, metadata, fps=fps, num_frames=number)
    return [int(index) for index in taken]


KINDS = {"steps": Qwen2VLVideoProcessor, "ends": Qwen3VLVideoProcessor, "single": LlavaOnevisionVideoProcessor,
         "middles": InternVLVideoProcessor, "inner": SmolVLMVideoProcessor}
rows = []
RATES = (10, 12.5, 15, 23.976023976023978, 24, 25, 29.97002997002997, 30, 50, 60)
for rule in ("steps", "ends"):
    for frames in (2, 3, 4, 5, 7, 8, 11, 30, 59, 60, 61, 100, 151, 299, 300, 301, 720, 1001, 1800, 9000, 23999, 107892):
        for rate in RATES:
            for fps, least, most in ((2, 4, 768), (1, 4, 768), (0.5, 2, 16), (3.3, 4, 768), (24, 4, 60)):
                if rule == "steps" and min(most, frames) < 2:
                    continue
                rows.append((rule, frames, rate, fps, None, least, most))
        for number in (1, 2, 3, 5, 8, 9, 31, 32, 100):
            rounded = round(number / 2) * 2 if rule == "steps" else number
            if 0 < rounded <= frames:
                rows.append((rule, frames, 30, None, number, 4, 768))
# Rules without bounds of their own: more frames than 768 are cut by the server alone.
for rule in ("single", "middles"):
    for frames in (1, 2, 3, 4, 5, 7, 8, 11, 30, 59, 61, 100, 151, 299, 301, 720, 1001, 1800, 9000, 23999, 107892):
        for rate in RATES:
            for fps in (2, 1, 0.5, 3.3):
                if 1 <= int(frames / rate * fps) <= min(768, frames):
                    rows.append((rule, frames, rate, fps, None, 1, 768))
        for number in (1, 2, 3, 5, 7, 8, 9, 31, 32, 64, 100):
            if number <= frames:
                rows.append((rule, frames, 30, None, number, 1, 768))
for frames in (1, 2, 3, 5, 8, 11, 30, 59, 61, 100, 151, 299, 301, 720, 1001, 1800, 9000, 23999, 107892):
    for rate in RATES:
        for fps, number in ((1, 64), (2, 64), (0.5, 8), (1, 1), (3.3, 100), (0.01, 16), (7.5, 768)):
            rows.append(("inner", frames, rate, fps, number, 1, 768))
# Of GLM-4.1V no bounds: those that are said here leave its frames alone. 300 seconds, to the frame and beyond.
for frames in (1, 2, 3, 4, 5, 7, 8, 11, 30, 59, 60, 61, 100, 151, 299, 300, 301, 720, 1001, 1800, 7200, 8999, 9000, 9001, 23999, 107892):
    for rate in RATES:
        for fps in (2, 1, 0.5, 3.3, 24):
            rows.append(("times", frames, rate, fps, None, 1, 65536))
# Of MiniCPM-V a bound alone.
for frames in (1, 2, 3, 5, 8, 11, 30, 59, 61, 100, 151, 299, 301, 720, 1001, 1800, 3000, 3200, 9000, 23999, 107892):
    for rate in (*RATES, 0.5, 1, 2.5):
        for most in (128, 64, 7, 1):
            rows.append(("seconds", frames, rate, None, None, None, most))
out, beyond = [], 0
for row in rows:
    taken = indices(*row)
    # torch.arange may round up to one index too many, which names no frame: the reference's readers drop it or raise.
    beyond += taken[-1] >= row[1]
    taken = [index for index in taken if index < row[1]]
    if len(taken) <= 8:
        out.append([*row, taken])
    else:
        out.append([*row, len(taken), sum((i + 1) * index for i, index in enumerate(taken)) % 1000003])
print(transformers.__version__, len(out), "rows,", beyond, "beyond the last frame", file=sys.stderr)
with open(sys.argv[1], "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in out) + "\n]\n")
