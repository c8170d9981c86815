"""GGUF files of the small checkpoints in tests/golden, and blocks of every quantised type with their numbers.

The files are laid out as llama.cpp's published converter lays them out: tensor names come from the `gguf` package's own
tables, types and blocks from its quantisers. Of a checkpoint whose file would be too large here only the first layers are
written, which the tests then compare with as many layers of the original (tests/golden/gguf_test.cc has the same list).

    python3 -m venv V && V/bin/pip install -r tools/goldens/gguf_files.requirements.txt && V/bin/python tools/goldens/gguf_files.py
"""

import json
import pathlib
import re
import struct
import zlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
OUT = GOLDEN / "gguf"


def read_safetensors(folder):
    """Every tensor as float32."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            raw = data[8 + length + begin:8 + length + end]
            if entry["dtype"] == "BF16":
                numbers = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                numbers = np.frombuffer(raw, {"F16": np.float16, "F32": np.float32}[entry["dtype"]]).astype(np.float32)
            tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, blob = {}, b""
    for name, array in tensors.items():
        dtype = {"uint8": "U8", "float32": "F32"}[str(array.dtype)]
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header)
    text += " " * (-(8 + len(text)) % 64)
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + blob)


# --- blocks ---


def blocks():
    """Random bytes as blocks, which reach what no quantiser writes, and the numbers that `gguf` makes of them."""
    rng = np.random.default_rng(1)
    tensors = {}
    for name in ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS").split():
        elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
        count = 512 // elements
        while True:
            raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
            with np.errstate(all="ignore"):
                numbers = gguf.quants.dequantize(raw, Type[name])
            if np.isfinite(numbers).all():
                break
        tensors[name + ".blocks"] = raw.reshape(-1)
        tensors[name + ".numbers"] = numbers.reshape(-1).astype(np.float32)
    write_safetensors(OUT / "blocks.safetensors", tensors)


# --- files ---


def stored(array, wanted):
    """The type that a matrix gets: vectors are float32, rows that hold no whole blocks float16."""
    if array.ndim <= 1:
        return array, Type.F32
    elements, _ = gguf.GGML_QUANT_SIZES[wanted]
    if wanted in (Type.F32, Type.F16) or array.shape[-1] % elements != 0:
        kind = Type.F32 if wanted == Type.F32 else Type.F16
        return array.astype(np.float32 if kind == Type.F32 else np.float16), kind
    if wanted.name in SCALES_AT:
        return random_blocks(array, wanted), wanted
    return gguf.quants.quantize(array, wanted), wanted


# Types that the package dequantises alone: the byte of a block's scale, behind it that of its minima, if it has them, and
# how many times the scale they are where the numbers are to have no mean.
SCALES_AT = {"Q2_K": (80, 1.5), "Q3_K": (108, 0), "Q4_K": (0, 7.5), "Q5_K": (0, 15.5), "Q6_K": (208, 0), "IQ4_NL": (0, 0),
             "IQ4_XS": (0, 0)}


def random_blocks(array, kind):
    """Random codes whose numbers deviate as the array's do; the array alone says which, so that they are the same again."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(zlib.crc32(array.tobytes())).integers(0, 256, (array.size // elements, size), dtype=np.uint8)
    at, minima = SCALES_AT[kind.name]

    def scale(by):
        numbers = np.array([by, by * minima] if minima else [by], np.float16)
        raw[:, at:at + 2 * len(numbers)] = numbers.view(np.uint8)

    scale(1)
    scale(array.std() / gguf.quants.dequantize(raw, kind).std())
    return raw.reshape(*array.shape[:-1], -1)


def add_tensor(writer, name, array, wanted):
    array, kind = stored(np.ascontiguousarray(array), wanted)
    writer.add_tensor(name, array, raw_dtype=kind)


def add_bpe(writer, tokenizer, rows):
    tokens = [f"[PAD{i}]" for i in range(rows)]
    types = [gguf.TokenType.UNUSED] * rows
    for token, index in tokenizer["model"]["vocab"].items():
        tokens[index], types[index] = token, gguf.TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    pattern = json.dumps(tokenizer["pre_tokenizer"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe" if "{1,3}" in pattern else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])


def add_vocabulary(writer, folder, config, rows):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    add_bpe(writer, tokenizer, rows)
    text = config.get("text_config", config)
    for key, add in (("bos_token_id", writer.add_bos_token_id), ("eos_token_id", writer.add_eos_token_id)):
        value = config.get(key, text.get(key))
        if isinstance(value, list):
            value = value[0]
        if value is not None:
            add(value)
    template = folder / "chat_template.json"
    source = json.loads(template.read_text())["chat_template"] if template.exists() else None
    source = source or json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template")
    if source:
        writer.add_chat_template(source)


def permute(array, heads):
    """Rows i and i + half of a head beside each other, as llama.cpp's rope of the Llama family turns them."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def layer_of(name):
    """Its place among the layers, of which the first are kept; DeepStack's mergers go with theirs."""
    found = re.search(r"(?:layers?|blocks|deepstack_merger_list)\.(\d+)\.", name)
    return int(found.group(1)) if found else -1


def is_tower(name):
    return any(part in name for part in ("visual.", "vision_tower.", "vision_model.", "multi_modal_projector.", "connector.", "image_newline", "merger."))


def rope_theta(text):
    rope = text.get("rope_parameters") or {}
    return text.get("rope_theta") or rope.get("full_attention", rope).get("rope_theta", 10000.0)


def llama3_factors(text, head_dim):
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    if rope.get("rope_type") != "llama3":
        return None
    low, high, length = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * np.pi * rope_theta(text) ** (i / head_dim)
        if wavelength < length / high:
            factors.append(1)
        elif wavelength > length / low:
            factors.append(rope["factor"])
        else:
            smooth = (length / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def write_text(path, folder, arch, layers, wanted):
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config", config)
    tensors = {n: a for n, a in read_safetensors(folder).items() if not is_tower(n) and layer_of(n) < layers}
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    heads = text["num_attention_heads"]
    kv_heads = text.get("num_key_value_heads", heads)
    head_dim = text.get("head_dim") or text["hidden_size"] // heads
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(text.get("rms_norm_eps", 1e-6))
    writer.add_rope_freq_base(float(rope_theta(text)))
    if "head_dim" in text:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == gguf.MODEL_ARCH.LLAMA:
        writer.add_rope_dimension_count(head_dim)
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    if "mrope_section" in rope:
        writer.add_rope_dimension_sections(list(rope["mrope_section"]) + [0])
    kind = rope.get("rope_type", rope.get("type"))
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if arch == gguf.MODEL_ARCH.GEMMA3:
        writer.add_sliding_window(text["sliding_window"])
        writer.add_uint32("gemma3.attention.sliding_window_pattern",
                          text.get("sliding_window_pattern", text.get("_sliding_window_pattern")))
        writer.add_float32("gemma3.attention.scale", float(text["query_pre_attn_scalar"]) ** -0.5)
    if arch == gguf.MODEL_ARCH.QWEN35:
        writer.add_ssm_conv_kernel(text["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(text["linear_key_head_dim"])
        writer.add_ssm_group_count(text["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(text["linear_num_value_heads"])
        writer.add_ssm_inner_size(text["linear_value_head_dim"] * text["linear_num_value_heads"])
        writer.add_uint32("qwen35.full_attention_interval", text["full_attention_interval"])
        writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 0.25)))
        if "mrope_section" not in rope:
            writer.add_rope_dimension_sections([11, 11, 10, 0])
    deepstack = config.get("vision_config", {}).get("deepstack_visual_indexes")
    if deepstack:
        writer.add_num_deepstack_layers(len(deepstack))
    experts = text.get("num_experts", text.get("num_local_experts"))
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(text["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(text["moe_intermediate_size"])
        writer.add_expert_weights_norm(text.get("norm_topk_prob", True))
    factors = llama3_factors(text, head_dim)
    if factors is not None:
        add_tensor(writer, "rope_freqs.weight", factors, wanted)
    table = next(a for n, a in tensors.items() if n.endswith("embed_tokens.weight"))
    add_vocabulary(writer, folder, config, table.shape[0])

    names = gguf.get_tensor_name_map(arch, layers)
    stacks = {}
    for name, array in tensors.items():
        name = re.sub(r"^(model\.language_model|language_model\.model|model\.text_model)\.", "model.", name)
        name = re.sub(r"^language_model\.", "", name)
        if arch == gguf.MODEL_ARCH.LLAMA and re.search(r"(q|k)_proj\.(weight|bias)$", name):
            array = permute(array, heads if "q_proj" in name else kv_heads)
        if arch == gguf.MODEL_ARCH.GEMMA3 and name.endswith("norm.weight"):
            array = array + 1
        if arch == gguf.MODEL_ARCH.QWEN35:
            name, array = delta_net(name, array, text)
        expert = re.match(r"(model\.layers\.\d+\.mlp\.experts)\.(\d+)\.(\w+)\.weight$", name)
        if expert:
            stacks.setdefault(f"{expert.group(1)}.{expert.group(3)}.weight", {})[int(expert.group(2))] = array
            continue
        stacked = re.match(r"(model\.layers\.\d+\.mlp\.experts)\.(gate_up_proj|down_proj)$", name)
        if stacked:
            turned = array if array.shape[1] != text["hidden_size"] and array.shape[2] == text["hidden_size"] else array
            if stacked.group(2) == "down_proj":
                if array.shape[1] == text["moe_intermediate_size"]:
                    turned = array.swapaxes(1, 2)
                stacks[f"{stacked.group(1)}.down_proj.weight"] = dict(enumerate(turned))
            else:
                if array.shape[1] == text["hidden_size"]:
                    turned = array.swapaxes(1, 2)
                half = text["moe_intermediate_size"]
                stacks[f"{stacked.group(1)}.gate_proj.weight"] = dict(enumerate(turned[:, :half]))
                stacks[f"{stacked.group(1)}.up_proj.weight"] = dict(enumerate(turned[:, half:]))
            continue
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new, name
        # Whatever has a row for a head, or taps, is in no blocks.
        kind = Type.F32 if re.search(r"ssm_(conv1d|alpha|beta)", new) else wanted
        add_tensor(writer, new, array, kind)
    for name, parts in stacks.items():
        new = names.get_name(name, try_suffixes=(".weight",))
        assert new, name
        add_tensor(writer, new, np.stack([parts[i] for i in range(len(parts))]), wanted)
    finish(writer)


def delta_net(name, array, text):
    """Value heads that share a key head are put apart, decays are what they stand for, and norms but the net's own get one."""
    keys, heads, length = (text["linear_" + n] for n in ("num_key_heads", "num_value_heads", "value_head_dim"))
    apart = lambda rows: rows.reshape(keys, heads // keys, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)
    if re.search(r"in_proj_qkv|conv1d", name):
        array = array.squeeze(1) if array.ndim == 3 else array
        array = np.concatenate([array[:-heads * length], apart(array[-heads * length:])])
    if re.search(r"in_proj_[zab]\.|A_log|dt_bias", name):
        array = apart(array)
    if "linear_attn.out_proj" in name:
        array = apart(array.T).T
    if "A_log" in name:
        array = -np.exp(array)
    if name.endswith("norm.weight") and "linear_attn" not in name:
        array = array + 1
    return name.replace(".dt_bias", ".dt_proj.bias"), array


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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


ARCH = gguf.MODEL_ARCH
# Name, checkpoint, architecture, layers, type; projector, layers, type.
FILES = [
    ("qwen2_bf16", "qwen2/odd_heads", ARCH.QWEN2, 1, Type.BF16, None, 0, None),
    ("qwen2_q8_0", "qwen2/odd_heads", ARCH.QWEN2, 1, Type.Q8_0, None, 0, None),
    ("qwen3_f16", "qwen3/odd_heads", ARCH.QWEN3, 1, Type.F16, None, 0, None),
    ("qwen3_moe", "qwen3_moe/some_layers", ARCH.QWEN3MOE, 2, Type.F16, None, 0, None),
    ("llama3_scaled", "llama3/scaled", ARCH.LLAMA, 1, Type.BF16, None, 0, None),
    ("llama3_q4_0", "llama3/scaled", ARCH.LLAMA, 2, Type.Q4_0, None, 0, None),
    ("qwen2_vl", "qwen2_vl/odd_heads", ARCH.QWEN2VL, 2, Type.Q4_0, "qwen2vl_merger", 1, Type.BF16),
    ("qwen2_5_vl", "qwen2_5_vl/odd_heads", ARCH.QWEN2VL, 1, Type.BF16, "qwen2.5vl_merger", 2, Type.Q8_0),
    ("qwen3_vl", "qwen3_vl/odd_heads", ARCH.QWEN3VL, 2, Type.Q5_1, "qwen3vl_merger", 1, Type.Q4_1),
    ("qwen3_vl_moe", "qwen3_vl_moe/every_layer", ARCH.QWEN3VLMOE, 2, Type.BF16, "qwen3vl_merger", 3, Type.Q8_0),
    ("gemma3", "gemma3/classes", ARCH.GEMMA3, 2, Type.F16, "gemma3", 2, Type.F16),
    ("smolvlm2", "smolvlm2/fifths", ARCH.LLAMA, 2, Type.BF16, "idefics3", 2, Type.BF16),
    ("pixtral", "pixtral/rows", ARCH.LLAMA, 1, Type.Q5_0, "pixtral", 1, Type.BF16),
    ("mistral3", "mistral3/ninths", ARCH.LLAMA, 2, Type.F16, "pixtral", 2, Type.F16),
    ("llava_onevision", "llava_onevision/newlines", ARCH.QWEN2, 3, Type.F16, "mlp", 3, Type.F16),
    ("qwen3_5_vl", "qwen3_5_vl/odd_heads", ARCH.QWEN35, 4, Type.Q8_0, "qwen3vl_merger", 2, Type.BF16),
    ("minicpmv", "minicpmv/slices", ARCH.QWEN35, 4, Type.BF16, "minicpmv4_6", 3, Type.BF16),
    ("internvl3", "internvl3/hf3", ARCH.QWEN2, 2, Type.F16, "internvl", 2, Type.F16),
]


def fields(data):
    """Field numbers and values of a protocol buffer."""

    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value, at

    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        else:
            length, at = (4, at) if key & 7 == 5 else varint(at)
            value, at = data[at:at + length], at + length
        yield key >> 3, value


def tokenizers():
    """Vocabularies without weights of tests/golden/tokenizers, whose strings the tests then encode."""
    folder = OUT / "tokenizers"
    folder.mkdir(exist_ok=True)
    for kind in ("qwen2", "llama3"):
        tokenizer = json.loads((GOLDEN / "tokenizers" / kind / "tokenizer.json").read_text())
        writer = gguf.GGUFWriter(folder / f"{kind}.gguf", kind)
        ids = list(tokenizer["model"]["vocab"].values()) + [token["id"] for token in tokenizer["added_tokens"]]
        add_bpe(writer, tokenizer, max(ids) + 1)
        if kind == "llama3":
            begin = next(t["id"] for t in tokenizer["added_tokens"] if t["content"] == "<|begin_of_text|>")
            writer.add_bos_token_id(begin)
            writer.add_add_bos_token(True)
        finish(writer)
    model = (GOLDEN / "tokenizers" / "model_bpe" / "tokenizer.model").read_bytes()
    pieces = [dict(fields(value)) for number, value in fields(model) if number == 1]
    writer = gguf.GGUFWriter(folder / "model_bpe.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece[1] for piece in pieces])
    writer.add_token_scores([struct.unpack("<f", piece[2])[0] for piece in pieces])
    writer.add_token_types([piece.get(3, 1) for piece in pieces])
    for add, token in ((writer.add_unk_token_id, b"<unk>"), (writer.add_bos_token_id, b"<s>"), (writer.add_eos_token_id, b"</s>")):
        add([piece[1] for piece in pieces].index(token))
    finish(writer)


def fuzz_corpus():
    """Small files for tests/fuzz/gguf_fuzz.cc: one of each tokenizer, tensors of every type, and some that are cut."""
    folder = ROOT / "tests" / "fuzz" / "corpus" / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("gpt2", "llama"):
        writer = gguf.GGUFWriter(folder / kind, "llama")
        writer.add_tokenizer_model(kind)
        writer.add_tokenizer_pre("llama-bpe")
        writer.add_token_list(["<unk>", "<s>", "</s>", "a", "b", "ab", "<0x0A>"])
        writer.add_token_types([2, 3, 3, 1, 1, 1, 6])
        writer.add_token_scores([0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0])
        writer.add_token_merges(["a b"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_chat_template("{{ messages[0].content }}")
        finish(writer)
    writer = gguf.GGUFWriter(folder / "types", "qwen2")
    rng = np.random.default_rng(2)
    for kind in "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split():
        elements, size = gguf.GGML_QUANT_SIZES[Type[kind]]
        raw = rng.integers(0, 256, (1, size * max(1, 32 // elements)), dtype=np.uint8)
        if elements == 1:
            raw = raw.view({"F32": np.float32, "F16": np.float16, "BF16": np.uint8}[kind])
        writer.add_tensor(kind, raw, raw_dtype=Type[kind])
    finish(writer)
    whole = (folder / "types").read_bytes()
    (folder / "cut_header").write_bytes(whole[:200])
    (folder / "cut_data").write_bytes(whole[:-5])


def main():
    OUT.mkdir(exist_ok=True)
    blocks()
    tokenizers()
    fuzz_corpus()
    for name, checkpoint, arch, layers, kind, projector, tower_layers, tower_kind in FILES:
        folder = OUT / name
        folder.mkdir(exist_ok=True)
        write_text(folder / "model.gguf", GOLDEN / checkpoint, arch, layers, kind)
        if projector:
            write_tower(folder / "mmproj.gguf", GOLDEN / checkpoint, projector, tower_layers, tower_kind)
        for file in sorted(folder.glob("*.gguf")):
            print(f"{file.relative_to(ROOT)} {file.stat().st_size}")


if __name__ == "__main__":
    main()
