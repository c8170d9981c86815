"""Rows that transformers' encoders make of a picture, as vLLM's clients send them: tests/golden/image_embeds.

V/bin/python tools/goldens/image_embeds.py   (V as for the other goldens: tools/goldens/qwen2_vl.py says how)

Of each checkpoint NAME: NAME.pt, torch.save of the rows [rows, hidden] in float32; NAME_grid.pt, of image_grid_thw,
where the family has one; NAME.safetensors, both in one file; and for one of them forms that are refused.
"""

import io
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import (LlavaOnevisionForConditionalGeneration, LlavaOnevisionImageProcessorPil,
                          Qwen2VLForConditionalGeneration)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"
OUT = GOLDEN / "image_embeds"
EXACTLY = {"dtype": torch.float32, "attn_implementation": "eager"}


def features(found):
    found = getattr(found, "pooler_output", found)
    return torch.cat(list(found)) if isinstance(found, (list, tuple)) else found


def qwen2_vl():
    folder = GOLDEN / "qwen2_vl/odd_heads"
    model = Qwen2VLForConditionalGeneration.from_pretrained(folder, **EXACTLY).eval()
    image = Image.open(GOLDEN / "qwen2_vl/images/wide.png").convert("RGB")
    inputs = Qwen2VLImageProcessorPil.from_pretrained(folder)(images=[image], return_tensors="pt")
    rows = features(model.model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"]))
    return rows, inputs["image_grid_thw"]


def llava_onevision():
    folder = GOLDEN / "llava_onevision/newlines"
    model = LlavaOnevisionForConditionalGeneration.from_pretrained(folder, **EXACTLY).eval()
    image = Image.open(GOLDEN / "llava_onevision/images/wide.png").convert("RGB")
    inputs = LlavaOnevisionImageProcessorPil.from_pretrained(folder)(images=[image], return_tensors="pt")
    inputs.pop("batch_num_images", None)
    return features(model.model.get_image_features(**inputs)), None


def keep(name, rows, grid):
    rows = rows.detach().to(torch.float32).contiguous()
    torch.save(rows, OUT / f"{name}.pt")
    tensors = {"image_embeds": rows}
    if grid is not None:
        torch.save(grid, OUT / f"{name}_grid.pt")
        tensors["image_grid_thw"] = grid.contiguous()
    save_file(tensors, OUT / f"{name}.safetensors")
    print(name, list(rows.shape), None if grid is None else grid.tolist())


def refused(rows):
    """What a client may send and is told about."""
    nan = rows.clone()
    nan[3, 17] = float("nan")
    forms = {"nan": nan, "transposed": rows.t().contiguous().t(), "integers": rows.to(torch.int64),
             "two_images": torch.stack([rows, rows]), "dict": {"image_embeds": rows}, "none": None}
    for name, form in forms.items():
        torch.save(form, OUT / f"refused_{name}.pt")
    whole = io.BytesIO()
    torch.save(rows, whole, _use_new_zipfile_serialization=False)
    (OUT / "refused_bare_pickle.pt").write_bytes(whole.getvalue())


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    with torch.no_grad():
        rows, grid = qwen2_vl()
        keep("qwen2_vl", rows, grid)
        refused(rows[:6].detach())
        keep("llava_onevision", *llava_onevision())
