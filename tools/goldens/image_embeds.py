"""Rows that transformers' encoders make of a picture, as vLLM's clients send them: tests/golden/image_embeds.

V/bin/python tools/goldens/image_embeds.py   (V as for the other goldens: tools/goldens/qwen2_vl.py says how)

Of checkpoints NAME: NAME.pt, torch.save of the rows [rows, hidden] in float32; NAME_grid.pt, of image_grid_thw,
where the family has one; NAME.safetensors, both in one file; of most one of the two forms. For one of them, forms that are
refused.
"""

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import (CLIPVisionModel, Gemma3ForConditionalGeneration, Glm4vForConditionalGeneration,
                          InternVLForConditionalGeneration, LlavaOnevisionForConditionalGeneration, LlavaOnevisionImageProcessorPil,
                          PaliGemmaForConditionalGeneration, Qwen2_5_VLForConditionalGeneration,
                          Qwen2VLForConditionalGeneration, Qwen3VLForConditionalGeneration,
                          Qwen3VLMoeForConditionalGeneration)
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

import golden
import phi_3_vision

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"
OUT = GOLDEN / "image_embeds"
EXACTLY = {"dtype": torch.float32, "attn_implementation": "eager"}


def features(found):
    found = getattr(found, "pooler_output", found)
    return torch.cat(list(found)) if isinstance(found, (list, tuple)) else found


def picture(family):
    return Image.open(GOLDEN / family / "images/wide.png").convert("RGB")


def patches(checkpoint, model_class, processor_class=Qwen2VLImageProcessorPil):
    folder = GOLDEN / checkpoint
    model = model_class.from_pretrained(folder, **EXACTLY).eval()
    inputs = processor_class.from_pretrained(folder)(images=[picture(folder.parent)], return_tensors="pt")
    found = model.model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"])
    # DeepStack's slices stand beside the first, as vLLM's clients send them.
    slices = [features(found), *(getattr(found, "deepstack_features", None) or [])]
    return torch.cat(slices, dim=-1), inputs["image_grid_thw"]


def tiles(checkpoint, model_class, processor_class, **options):
    folder = GOLDEN / checkpoint
    model = model_class.from_pretrained(folder, **EXACTLY).eval()
    processor = processor_class.from_pretrained(folder)
    pixels = processor([picture(folder.parent)], return_tensors="pt", **options)["pixel_values"]
    rows = features(model.model.get_image_features(pixel_values=pixels))
    return rows.reshape(-1, rows.shape[-1]), None


def phi_3():
    """Of the published padding's pixels, by transformers' CLIP and phi_3_vision.Composed, which the published code was held to."""
    spec, folder = phi_3_vision.CHECKPOINTS["su"], GOLDEN / "phi_3_vision/su"
    prefix = "model.vision_embed_tokens."
    state = {key.removeprefix(prefix): value.float() for key, value in golden.read_tensors(folder).items()
             if key.startswith(prefix)}
    clip = CLIPVisionModel(phi_3_vision.clip_config(spec)).eval()
    missing = clip.load_state_dict({key.removeprefix("img_processor.vision_model."): value for key, value in state.items()
                                    if key.startswith("img_processor.")}, strict=False)
    assert not missing.unexpected_keys, missing
    composed = phi_3_vision.Composed.__new__(phi_3_vision.Composed)
    tile = composed.tile = spec["tile"]
    composed.side = tile // phi_3_vision.PATCH
    composed.glb, composed.sub = state["glb_GN"].reshape(1, -1), state["sub_GN"].reshape(1, -1)
    padded = np.asarray(Image.open(GOLDEN / "phi_3_vision/pixels/su_wide.png").convert("RGB"), dtype=np.float32) / 255
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    pixels = torch.tensor((padded - np.float32(mean)) / np.float32(std)).permute(2, 0, 1)
    down, across = pixels.shape[1] // tile, pixels.shape[2] // tile
    whole = torch.nn.functional.interpolate(pixels[None], size=(tile, tile), mode="bicubic")
    pieces = pixels.reshape(3, down, tile, across, tile).permute(1, 3, 0, 2, 4).reshape(-1, 3, tile, tile)
    hidden = clip(torch.cat([whole, pieces]), output_hidden_states=True).hidden_states[-2][:, 1:]
    rows = torch.cat([composed.view(hidden[1:], down, across), composed.glb, composed.view(hidden[:1], 1, 1)])
    for layer in (0, 2):
        rows = torch.nn.functional.gelu(rows) if layer > 0 else rows
        rows = torch.nn.functional.linear(rows, state[f"img_projection.{layer}.weight"],
                                          state[f"img_projection.{layer}.bias"])
    return rows, None


def llava_onevision():
    folder = GOLDEN / "llava_onevision/newlines"
    model = LlavaOnevisionForConditionalGeneration.from_pretrained(folder, **EXACTLY).eval()
    image = Image.open(GOLDEN / "llava_onevision/images/wide.png").convert("RGB")
    inputs = LlavaOnevisionImageProcessorPil.from_pretrained(folder)(images=[image], return_tensors="pt")
    inputs.pop("batch_num_images", None)
    return features(model.model.get_image_features(**inputs)), None


def keep(checkpoint, rows, grid, forms=("pt", "safetensors")):
    name = Path(checkpoint).parent.name
    rows = rows.detach().to(torch.float32).contiguous()
    known = golden.read_file(GOLDEN / checkpoint / "golden/one_image.safetensors")
    known = known["vision.merged"]  # in the tower's order, which is not each family's own
    apart = (rows[:, None, :known.shape[1]] - known).abs().amax(-1).amin(0)
    assert float(apart.max()) < 1e-5 * float(known.abs().max()), (name, apart)
    tensors = {"image_embeds": rows}
    if grid is not None:
        tensors["image_grid_thw"] = grid.contiguous()
    if "pt" in forms:
        torch.save(rows, OUT / f"{name}.pt")
        if grid is not None:
            torch.save(grid, OUT / f"{name}_grid.pt")
    if "safetensors" in forms:
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
        rows, grid = patches("qwen2_vl/odd_heads", Qwen2VLForConditionalGeneration)
        keep("qwen2_vl/odd_heads", rows, grid)
        refused(rows[:6].detach())
        keep("llava_onevision/newlines", *llava_onevision())
        for checkpoint, model_class in (("qwen2_5_vl/odd_heads", Qwen2_5_VLForConditionalGeneration),
                                        ("qwen3_vl/odd_heads", Qwen3VLForConditionalGeneration),
                                        ("qwen3_vl_moe/every_layer", Qwen3VLMoeForConditionalGeneration)):
            keep(checkpoint, *patches(checkpoint, model_class), forms=["safetensors"])
        keep("glm4v/odd_heads", *patches("glm4v/odd_heads", Glm4vForConditionalGeneration, Glm4vImageProcessorPil),
             forms=["safetensors"])
        for checkpoint, found in (
                ("internvl3/hf3", tiles("internvl3/hf3", InternVLForConditionalGeneration, GotOcr2ImageProcessorPil,
                                        crop_to_patches=True)),
                ("paligemma/first", tiles("paligemma/first", PaliGemmaForConditionalGeneration,
                                          SiglipImageProcessorPil)),
                ("gemma3/pooled", tiles("gemma3/pooled", Gemma3ForConditionalGeneration, SiglipImageProcessorPil)),
                ("phi_3_vision/su", phi_3())):
            keep(checkpoint, *found, forms=["pt"])
