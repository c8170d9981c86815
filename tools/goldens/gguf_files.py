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

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from gguf_tensors import add_tensor, finish, is_tower, layer_of, permute, read_safetensors, write_safetensors
from gguf_tower import write_tower

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
OUT = GOLDEN / "gguf"


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
