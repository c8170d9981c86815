"""The second GGUF file of a vision model: its tower and projector, as llama.cpp's converter writes them for `mmproj`."""

import json
import re

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from gguf_tensors import add_tensor, finish, is_tower, layer_of, permute, read_safetensors


def write_tower(path, folder, projector, layers, wanted, convolutions=None):
    """`convolutions`: the type of the patch embedding, which llama.cpp multiplies in F16 and F32 alone."""
    config = json.loads((folder / "config.json").read_text())
    vision = config["vision_config"]
    preprocessor = json.loads((folder / "preprocessor_config.json").read_text())
    if projector == "minicpmv4_6":  # of a slice; positions have a size of their own
        vision["image_size"] = preprocessor["scale_resolution"]
    text = config.get("text_config", config)
    tensors = {n: a for n, a in read_safetensors(folder).items() if is_tower(n) and layer_of(n) < layers}
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(projector)
    writer.add_vision_projection_dim(text["hidden_size"])
    square = lambda value: value[0] if isinstance(value, list) else value
    writer.add_vision_image_size(square(vision.get("image_size", 560)))
    patch = square(vision["patch_size"])
    writer.add_vision_patch_size(patch)
    heads = vision.get("num_heads", vision.get("num_attention_heads"))
    width = vision.get("embed_dim", vision["hidden_size"])
    writer.add_vision_embedding_length(width)
    writer.add_vision_feed_forward_length(vision.get("intermediate_size", 4 * width))
    writer.add_vision_block_count(layers)
    writer.add_vision_head_count(heads)
    writer.add_vision_attention_layernorm_eps(vision.get("layer_norm_eps", 1e-6))
    writer.add_vision_image_mean(preprocessor["image_mean"])
    writer.add_vision_image_std(preprocessor["image_std"])
    add_projector_metadata(writer, projector, config, vision, preprocessor, layers)

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(layers, 8))
    for name, array in tensors.items():
        for new, part in tower_tensors(name, array, names, config, heads):
            assert new, name
            # Convolutions are float16, positions and the like float32.
            kind = wanted
            if "patch_embd" in new:
                kind = Type.F16 if wanted != Type.BF16 else Type.BF16
                kind = kind if convolutions is None else convolutions
            if "position_embd" in new or "class_embd" in new:
                kind = Type.F32
            add_tensor(writer, new, np.squeeze(part), kind)
    if projector == "pixtral":  # what llama.cpp puts behind each row of patches
        tokens = {each["content"]: each["id"] for each in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}
        table = next(a for n, a in read_safetensors(folder).items() if n.endswith("embed_tokens.weight"))
        add_tensor(writer, "v.token_embd.img_break", table[tokens["[IMG_BREAK]"]], wanted)
    finish(writer)


def add_projector_metadata(writer, projector, config, vision, preprocessor, layers):
    if "qwen" in projector:
        size = preprocessor.get("size", {})
        writer.add_uint32("clip.vision.image_min_pixels", preprocessor.get("min_pixels", size.get("shortest_edge")))
        writer.add_uint32("clip.vision.image_max_pixels", preprocessor.get("max_pixels", size.get("longest_edge")))
        writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    if projector == "qwen2.5vl_merger":
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(vision["fullatt_block_indexes"][0] + 1)
        writer.add_uint32("clip.vision.window_size", vision["window_size"])
    if projector == "qwen3vl_merger":
        writer.add_vision_use_gelu(True)
        writer.add_vision_is_deepstack_layers([i in vision["deepstack_visual_indexes"] for i in range(layers)])
    if projector == "gemma3":
        writer.add_vision_use_gelu(True)
        side = vision["image_size"] // vision["patch_size"]
        writer.add_uint32("clip.vision.projector.scale_factor", side // int(config["mm_tokens_per_image"] ** 0.5))
    if projector == "idefics3":
        writer.add_uint32("clip.vision.projector.scale_factor", config["scale_factor"])
        writer.add_uint32("clip.vision.preproc_image_size", preprocessor["size"]["longest_edge"])
        writer.add_vision_use_gelu(True)
    if projector == "pixtral":
        if vision["hidden_act"] == "silu":
            writer.add_vision_use_silu(True)
        else:
            writer.add_vision_use_gelu(True)
        if "spatial_merge_size" in config:
            writer.add_vision_spatial_merge_size(config["spatial_merge_size"])
    if projector == "minicpmv4_6":
        writer.add_vision_use_gelu(True)
        writer.add_uint32("clip.vision.projector.scale_factor", 4)
        writer.add_array("clip.vision.wa_layer_indexes", [config["insert_layer_id"]])
    if projector == "mlp":
        pinpoints = [side for pair in config["image_grid_pinpoints"] for side in pair]
        writer.add_array("clip.vision.image_grid_pinpoints", pinpoints)
        writer.add_string("clip.vision.image_aspect_ratio", config["vision_aspect_ratio"])
        writer.add_string("clip.vision.mm_patch_merge_type", "spatial_unpad")
        writer.add_array("clip.vision.feature_layer", [layers])
    if projector == "internvl":
        writer.add_vision_use_gelu(True)
        writer.add_vision_projector_scale_factor(int(1 / config["downsample_ratio"]))
        writer.add_uint32("clip.vision.preproc_max_tiles", preprocessor["max_patches"])


def tower_tensors(name, array, names, config, heads):
    """What one tensor of the checkpoint is in the file, in one part or several."""
    mapped = lambda each: names.get_name(each, try_suffixes=(".weight", ".bias"))
    if config["model_type"] != "internvl":
        name = re.sub(r"^model\.(vision_tower|multi_modal_projector)\.", r"\1.", name)
    if config["model_type"] == "llava_onevision":
        return onevision_tensors(name, array)
    if config["model_type"] == "minicpmv4_6":
        return minicpmv_tensors(name, array)
    if config["model_type"] == "gemma3":
        name = re.sub(r"^vision_tower\.(vision_model\.)?", "vision_tower.vision_model.", name)
    suffix = name.rsplit(".", 1)[-1]
    if "patch_embed.proj.weight" in name and array.ndim == 5:
        return [("v.patch_embd.weight", array[:, :, 0]), ("v.patch_embd.weight.1", array[:, :, 1])]
    if name.startswith("model.visual."):  # Qwen3-VL
        deep = re.match(r"model\.visual\.deepstack_merger_list\.(\d+)\.(norm|linear_fc1|linear_fc2)\.", name)
        if deep:
            layer = config["vision_config"]["deepstack_visual_indexes"][int(deep.group(1))]
            return [(f"v.deepstack.{layer}.{deep.group(2).removeprefix('linear_')}.{suffix}", array)]
        merger = re.match(r"model\.visual\.merger\.(norm|linear_fc1|linear_fc2)\.", name)
        if merger:
            return [({"norm": "v.post_ln", "linear_fc1": "mm.0", "linear_fc2": "mm.2"}[merger.group(1)] + "." + suffix, array)]
        if "patch_embed.proj.bias" in name:
            return [("v.patch_embd.bias", array)]
        return [(mapped(name.removeprefix("model.")), array)]
    if ".attn.qkv." in name:  # Qwen2-VL and 2.5
        block = re.search(r"blocks\.(\d+)", name).group(1)
        return [(f"v.blk.{block}.attn_{part}.{suffix}", rows) for part, rows in zip("qkv", np.split(array, 3))]
    if name == "multi_modal_projector.mm_input_projection_weight":
        return [("mm.input_projection.weight", array)]
    if name == "multi_modal_projector.mm_soft_emb_norm.weight":
        return [("mm.soft_emb_norm.weight", array + 1)]
    if name.startswith("vision_tower.transformer") and re.search(r"(q|k)_proj", name):
        return [(mapped(name), permute(array, heads))]
    if "lambda_" in name or "position_embeddings" in name:  # InternVL
        name += ".weight"
    if config["model_type"] == "internvl" and "multi_modal_projector" in name:
        which = {"layer_norm": 0, "linear_1": 1, "linear_2": 3}[name.split(".")[-2]]
        return [(f"mm.model.mlp.{which}.{suffix}", array)]
    if name.endswith("embeddings.cls_token"):
        return [("v.class_embd", array)]
    return [(mapped(name), array)]


def onevision_tensors(name, array):
    """As llama.cpp's converter for LLaVA names them, which no table of the package has: the MLP's matrices the other way round."""
    if "post_layernorm" in name:  # left out there
        return []
    if name.endswith("image_newline"):
        return [("model.image_newline", array)]
    suffix = name.rsplit(".", 1)[-1]
    if "multi_modal_projector" in name:
        return [(f"mm.{0 if 'linear_1' in name else 2}.{suffix}", array)]
    for old, new in (("patch_embedding", "v.patch_embd"), ("position_embedding", "v.position_embd")):
        if old in name:
            return [(f"{new}.{suffix}", array)]
    layer = re.search(r"layers\.(\d+)\.(?:self_attn\.|mlp\.)?(\w+)\.", name)
    part = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "out_proj": "attn_out", "layer_norm1": "ln1",
            "layer_norm2": "ln2", "fc1": "ffn_down", "fc2": "ffn_up"}[layer.group(2)]
    return [(f"v.blk.{layer.group(1)}.{part}.{suffix}", array)]


def minicpmv_tensors(name, array):
    """Names that later versions of the package have."""
    suffix = name.rsplit(".", 1)[-1]
    base = name.removeprefix("model.").removesuffix("." + suffix)
    whole = {"vision_tower.embeddings.patch_embedding": "v.patch_embd", "vision_tower.embeddings.position_embedding": "v.position_embd",
             "vision_tower.post_layernorm": "v.post_ln", "vision_tower.vit_merger.layer_norm1": "v.vit_merger.ln1",
             "vision_tower.vit_merger.pre_norm": "v.vit_merger.ds_ln", "vision_tower.vit_merger.linear_1": "v.vit_merger.ds_ffn_up",
             "vision_tower.vit_merger.linear_2": "v.vit_merger.ds_ffn_down", "merger.mlp.0.pre_norm": "mm.input_norm",
             "merger.mlp.0.linear_1": "mm.up", "merger.mlp.0.linear_2": "mm.down"}
    part = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "out_proj": "attn_out", "layer_norm1": "ln1",
            "layer_norm2": "ln2", "fc1": "ffn_up", "fc2": "ffn_down"}.get(base.rsplit(".", 1)[-1])
    layer = re.search(r"encoder\.layers\.(\d+)\.", base)
    new = whole.get(base) or (f"v.blk.{layer.group(1)}.{part}" if layer else f"v.vit_merger.{part}")
    return [(f"{new}.{suffix}", array)]
