"""Golden files of quantised checkpoints: tests/golden/quantised.

Tiny random Qwen2 and Qwen2-VL models whose text matrices are rounded to the nearest level and stored as the published
formats have them. What the stored integers mean is read back from the words themselves by each format's rule, and those
matrices, in float32 in transformers, give the logits and tokens. No quantisation library takes part.

  awq_vision     AWQ, groups of 128, the tower as it was (modules_to_not_convert)
  awq_row        AWQ, one group a row, bfloat16 scales
  gptq_order     GPTQ's first format, groups of 32 whose inputs are shuffled (desc_act), any zeros, biases of zeros
  gptq_v2        GPTQ's second format, 8 bits, one group a row, symmetric
  fp8_tensor     a scale a matrix, and scales of activations that nobody needs
  fp8_block      a scale for 128 x 128, the last ones cut off; with images
  fp8_channel    compressed-tensors: a bfloat16 scale an output
  packed_group   compressed-tensors' pack-quantized, 4 bits, groups of 32 with zeros, inputs shuffled (actorder)
  packed_row     the same, symmetric, one bfloat16 scale an output
  int_channel    compressed-tensors' int-quantized: bytes, a bfloat16 scale an output, activations left alone

    python tools/goldens/quantised.py [NAME ...]    all of them, or those named beside what is there
"""

import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import golden
import qwen2
import qwen2_vl
import qwen_vision
import text_family

OUT = Path(__file__).resolve().parents[2] / "tests/golden/quantised"
SHARD_BYTES = 250_000
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble i of a word holds this output


def levels(weight: np.ndarray, bits: int, group_of: np.ndarray, symmetric: bool, scale_type: torch.dtype):
    """[in, out] integers, and a scale and a zero for each group and output, rounding to nearest."""
    top = 2**bits - 1
    columns = weight.T.astype(np.float64)
    codes = np.zeros(columns.shape, np.int64)
    groups = group_of.max() + 1
    scales = np.zeros((groups, columns.shape[1]))
    zeros = np.zeros((groups, columns.shape[1]), np.int64)
    for group in range(groups):
        rows = columns[group_of == group]
        if symmetric:
            scale = 2 * np.abs(rows).max(0) / top
            zero = np.full(rows.shape[1], 2 ** (bits - 1))
        else:
            low, high = np.minimum(rows.min(0), 0), np.maximum(rows.max(0), 0)
            scale = (high - low) / top
            zero = np.clip(np.round(-low / scale), 0, top).astype(np.int64)
        scale = torch.tensor(scale).to(scale_type).double().numpy()
        codes[group_of == group] = np.clip(np.round(rows / scale) + zero, 0, top)
        scales[group], zeros[group] = scale, zero
    return codes, torch.tensor(scales).to(scale_type), zeros


def pack(fields: np.ndarray, bits: int) -> np.ndarray:
    """[..., n, 32 / bits] small integers to [..., n] words, the first lowest."""
    shifts = np.arange(32 // bits, dtype=np.uint64) * np.uint64(bits)
    return (fields.astype(np.uint64) << shifts).sum(-1).astype(np.uint32)


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    shifts = np.arange(32 // bits, dtype=np.uint32) * np.uint32(bits)
    return (words[..., None] >> shifts & np.uint32(2**bits - 1)).astype(np.int64)


def word_tensor(words: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(words.view(np.int32).copy())


def product(codes: np.ndarray, zeros: np.ndarray, scales: torch.Tensor, group_of: np.ndarray) -> torch.Tensor:
    """[out, in] of what is stored."""
    return torch.from_numpy(((codes - zeros[group_of]) * scales.double().numpy()[group_of]).T.astype(np.float32))


def awq(weight: np.ndarray, group: int, scale_type: torch.dtype = torch.float16):
    inputs, outputs = weight.shape[1], weight.shape[0]
    group_of = np.arange(inputs) // (inputs if group == -1 else group)
    codes, scales, zeros = levels(weight, 4, group_of, False, scale_type)
    words, zero_words = (pack(each.reshape(-1, outputs // 8, 8)[..., AWQ_ORDER], 4) for each in (codes, zeros))
    parts = {"qweight": word_tensor(words), "qzeros": word_tensor(zero_words), "scales": scales}

    read = []
    for stored in (words, zero_words):
        fields = np.empty((*stored.shape, 8), np.int64)
        fields[..., AWQ_ORDER] = unpack(stored, 4)
        read.append(fields.reshape(stored.shape[0], outputs))
    assert np.array_equal(read[0], codes) and np.array_equal(read[1], zeros)
    return parts, product(read[0], read[1], scales, group_of)


def gptq(weight: np.ndarray, bits: int, group: int, symmetric: bool, second: bool, shuffle: np.random.Generator | None,
         zero_bias: bool):
    inputs, outputs = weight.shape[1], weight.shape[0]
    group_of = np.arange(inputs) // (inputs if group == -1 else group)
    if shuffle is not None:
        group_of = shuffle.permutation(group_of)
    codes, scales, zeros = levels(weight, bits, group_of, symmetric, torch.float16)
    per_word = 32 // bits
    words = pack(codes.reshape(inputs // per_word, per_word, outputs).transpose(0, 2, 1), bits)
    ones = np.uint32(sum(1 << at for at in range(0, 32, bits)))
    zero_words = pack(zeros.reshape(-1, outputs // per_word, per_word), bits) - (np.uint32(0) if second else ones)
    parts = {"qweight": word_tensor(words), "qzeros": word_tensor(zero_words), "scales": scales,
             "g_idx": torch.tensor(group_of, dtype=torch.int32)}
    if zero_bias:
        parts["bias"] = torch.zeros(outputs, dtype=torch.float16)

    read = unpack(words, bits).transpose(0, 2, 1).reshape(inputs, outputs)
    read_zeros = unpack(zero_words + (np.uint32(0) if second else ones), bits).reshape(-1, outputs)
    assert np.array_equal(read, codes) and np.array_equal(read_zeros, zeros)
    return parts, product(read, read_zeros, scales, group_of)


def packed(weight: np.ndarray, bits: int, group: int, symmetric: bool, shuffle: np.random.Generator | None,
           scale_type: torch.dtype):
    inputs, outputs = weight.shape[1], weight.shape[0]
    group_of = np.arange(inputs) // (inputs if group == -1 else group)
    if shuffle is not None:
        group_of = shuffle.permutation(group_of)
    codes, scales, zeros = levels(weight, bits, group_of, symmetric, scale_type)
    per_word = 32 // bits

    def words_of(rows: np.ndarray) -> np.ndarray:  # along the last axis, filled up with zeros
        filled = np.pad(rows, ((0, 0), (0, -rows.shape[1] % per_word)))
        return pack(filled.reshape(rows.shape[0], -1, per_word), bits)

    words, zero_words = words_of(codes.T), words_of(zeros).T
    parts = {"weight_packed": word_tensor(words), "weight_scale": scales.T.contiguous(),
             "weight_shape": torch.tensor([outputs, inputs], dtype=torch.int64)}
    if not symmetric:
        parts["weight_zero_point"] = word_tensor(np.ascontiguousarray(zero_words))
    if shuffle is not None:
        parts["weight_g_idx"] = torch.tensor(group_of, dtype=torch.int32)

    read = unpack(words, bits).reshape(outputs, -1)[:, :inputs].T
    read_zeros = unpack(zero_words.T, bits).reshape(zeros.shape[0], -1)[:, :outputs]
    assert np.array_equal(read, codes) and np.array_equal(read_zeros, zeros)
    return parts, product(read, read_zeros, scales, group_of)


def int8(weight: np.ndarray, scale_type: torch.dtype):
    tensor = torch.tensor(weight, dtype=torch.float32)
    scales = (tensor.abs().amax(1, keepdim=True) / 127.5).to(scale_type)
    codes = (tensor / scales.float()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": codes, "weight_scale": scales}, codes.float() * scales.float()


def fp8(weight: np.ndarray, block: tuple[int, int] | None, name: str, scale_type: torch.dtype, scale_shape: str,
        activations: bool):
    """`block` None: the whole matrix, or with scale_shape "channel" each output."""
    tensor = torch.tensor(weight, dtype=torch.float32)
    rows, cols = block or ((1, weight.shape[1]) if scale_shape == "channel" else weight.shape)
    scales = torch.empty(-(-weight.shape[0] // rows), -(-weight.shape[1] // cols))
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            scales[i, j] = tensor[i * rows:(i + 1) * rows, j * cols:(j + 1) * cols].abs().max() / 448
    scales = scales.to(scale_type)
    spread = scales.float().repeat_interleave(rows, 0).repeat_interleave(cols, 1)[:weight.shape[0], :weight.shape[1]]
    codes = (tensor / spread).clamp(-448, 448).to(torch.float8_e4m3fn)
    parts = {"weight": codes, name: scales.reshape(()) if scale_shape == "scalar" else scales}
    if activations:
        parts["input_scale"] = torch.tensor(0.02)

    bits = codes.view(torch.uint8).numpy().astype(np.int64)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    read = torch.from_numpy(np.where(bits & 128, -value, value).astype(np.float32))
    assert torch.equal(read, codes.float())
    return parts, read * spread


TEXT = dict(hidden_act="silu", rms_norm_eps=1e-6, max_position_embeddings=2048, rope_theta=1000000.0, use_cache=True,
            num_hidden_layers=2, tie_word_embeddings=True, vocab_size=470, use_sliding_window=False, sliding_window=64,
            max_window_layers=2, architectures=["Qwen2ForCausalLM"], model_type="qwen2")
NARROW = dict(hidden_size=96, intermediate_size=160, num_attention_heads=6, num_key_value_heads=2)
WIDE = dict(hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=2)
VISION = dict(use_sliding_window=False, sliding_window=64, max_window_layers=2, num_hidden_layers=2,
              tie_word_embeddings=True, vocab_size=481)


def compressed(strategy: str) -> dict:
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
            "quantization_status": "compressed", "kv_cache_scheme": None, "global_compression_ratio": 1.5,
            "config_groups": {"group_0": {
                "targets": ["Linear"], "output_activations": None,
                "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True,
                                      "symmetric": True},
                "weights": {"num_bits": 8, "type": "float", "strategy": strategy, "dynamic": False, "symmetric": True,
                            "group_size": None, "block_structure": None}}}}


def integers(form: str, bits: int, group: int, symmetric: bool, order: str | None) -> dict:
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
            "quantization_status": "compressed", "kv_cache_scheme": None, "global_compression_ratio": None,
            "config_groups": {"group_0": {
                "targets": ["Linear"], "output_activations": None, "input_activations": None,
                "weights": {"num_bits": bits, "type": "int", "strategy": "channel" if group == -1 else "group",
                            "group_size": None if group == -1 else group, "dynamic": False, "symmetric": symmetric,
                            "actorder": order, "block_structure": None, "observer": "minmax"}}}}


@dataclasses.dataclass
class Checkpoint:
    seed: int
    text: dict
    vision: dict | None
    settings: dict      # quantization_config
    quantise: object    # weight -> the stored parts and the matrix that they mean
    dtype: torch.dtype = torch.float16


CHECKPOINTS = {
    "awq_vision": Checkpoint(
        61, {**WIDE, **VISION, "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}},
        dict(depth=2, embed_dim=48, num_heads=3, mlp_ratio=2, hidden_size=128),
        {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True,
         "modules_to_not_convert": ["visual"]},
        lambda weight: awq(weight, 128)),
    "awq_row": Checkpoint(
        62, {**TEXT, **WIDE}, None,
        {"quant_method": "awq", "bits": 4, "group_size": -1, "version": "GEMM", "zero_point": True,
         "modules_to_not_convert": None},
        lambda weight: awq(weight, -1, torch.bfloat16), torch.bfloat16),
    "gptq_order": Checkpoint(
        63, {**TEXT, **NARROW}, None,
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "damp_percent": 0.01,
         "static_groups": False, "true_sequential": True, "checkpoint_format": "gptq"},
        lambda weight, order=np.random.default_rng(7): gptq(weight, 4, 32, False, False, order, True)),
    "gptq_v2": Checkpoint(
        64, {**TEXT, **NARROW}, None,
        {"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False, "sym": True,
         "checkpoint_format": "gptq_v2", "pack_dtype": "int32", "dynamic": {"-:.*lm_head.*": {}}},
        lambda weight: gptq(weight, 8, -1, True, True, None, False)),
    "fp8_tensor": Checkpoint(
        65, {**TEXT, **NARROW}, None,
        {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]},
        lambda weight: fp8(weight, None, "weight_scale", torch.float32, "scalar", True)),
    "fp8_block": Checkpoint(
        68, {**NARROW, **VISION, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}},
        dict(depth=2, embed_dim=48, num_heads=3, mlp_ratio=2, hidden_size=96),
        {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128],
         "modules_to_not_convert": ["visual"]},
        lambda weight: fp8(weight, (128, 128), "weight_scale_inv", torch.float32, "block", False), torch.bfloat16),
    "fp8_channel": Checkpoint(
        67, {**TEXT, **NARROW}, None, compressed("channel"),
        lambda weight: fp8(weight, None, "weight_scale", torch.bfloat16, "channel", False), torch.bfloat16),
    "packed_group": Checkpoint(
        69, {**TEXT, **NARROW}, None, integers("pack-quantized", 4, 32, False, "group"),
        lambda weight, order=np.random.default_rng(8): packed(weight, 4, 32, False, order, torch.float16)),
    "packed_row": Checkpoint(
        70, {**TEXT, **NARROW}, None, integers("pack-quantized", 4, -1, True, None),
        lambda weight: packed(weight, 4, -1, True, None, torch.bfloat16), torch.bfloat16),
    "int_channel": Checkpoint(
        71, {**TEXT, **NARROW}, None, integers("int-quantized", 8, -1, True, None),
        lambda weight: int8(weight, torch.bfloat16), torch.bfloat16),
}


def write_plain(checkpoint: Checkpoint, name: str, folder: Path) -> Path:
    """The model before it is quantised, saved by transformers."""
    if checkpoint.vision is None:
        family = dataclasses.replace(qwen2.FAMILY, out=folder)
        return text_family.write_checkpoint(
            family, name, text_family.Spec(checkpoint.seed, checkpoint.dtype, True, checkpoint.text))
    family = dataclasses.replace(qwen2_vl.FAMILY, out=folder)
    return qwen_vision.write_checkpoint(family, name, dict(
        seed=checkpoint.seed, dtype=checkpoint.dtype, hub_form=True, shard="1GB", config=checkpoint.text,
        vision=checkpoint.vision))


def record(checkpoint: Checkpoint, directory: Path) -> None:
    """The prompts of the family's own goldens, with the matrices that the quantised ones mean."""
    if checkpoint.vision is None:
        text_family.CASES = {case: text_family.CASES[case] for case in ("text", "long")}
        text_family.record(dataclasses.replace(qwen2.FAMILY, out=directory.parent), directory)
        return
    reference = qwen_vision.Reference(dataclasses.replace(qwen2_vl.FAMILY, out=directory.parent), directory)
    for case in ("text", "one_image"):
        qwen_vision.record(reference, case, qwen_vision.CASES[case])


def write_shards(directory: Path, tensors: dict[str, torch.Tensor]) -> None:
    shards: list[dict] = [{}]
    for name, tensor in sorted(tensors.items()):
        filled = sum(each.numel() * each.element_size() for each in shards[-1].values())
        if shards[-1] and filled + tensor.numel() * tensor.element_size() > SHARD_BYTES:
            shards.append({})
        shards[-1][name] = tensor.contiguous()
    places = {}
    for index, shard in enumerate(shards):
        file = f"model-{index + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, str(directory / file), {"format": "pt"})
        places.update({name: file for name in shard})
    golden.write_json(directory / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})


def make(name: str, checkpoint: Checkpoint, folder: Path) -> None:
    plain = write_plain(checkpoint, name, folder)
    tensors = golden.read_tensors(plain)
    stored, meant = {}, {}
    for key, tensor in tensors.items():
        if not key.endswith("_proj.weight") or key.startswith("visual."):
            stored[key], meant[key] = tensor, tensor.float()
            continue
        parts, meant[key] = checkpoint.quantise(tensor.float().numpy())
        stem = key.removesuffix("weight")
        for part, value in parts.items():
            if part != "bias" or stem + "bias" not in tensors:
                stored[stem + part] = value

    for file in plain.glob("model*"):
        file.unlink()
    save_file({key: tensor.contiguous() for key, tensor in meant.items()}, str(plain / "model.safetensors"),
              {"format": "pt"})
    record(checkpoint, plain)

    out = golden.fresh(OUT / name)
    for file in plain.iterdir():
        if file.is_file() and not file.name.startswith("model"):
            shutil.copy(file, out)
    shutil.copytree(plain / "golden", out / "golden")
    config = json.loads((plain / "config.json").read_text())
    golden.write_json(out / "config.json", {**config, "quantization_config": checkpoint.settings})
    write_shards(out, stored)


def main() -> None:
    torch.set_num_threads(1)
    names = sys.argv[1:]
    if not names:
        golden.fresh(OUT)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "images").mkdir()
        for name, (width, height, seed) in qwen_vision.PICTURES.items():
            golden.picture(width, height, seed).save(folder / "images" / name, optimize=True)
        for name in names or CHECKPOINTS:
            print(name)
            make(name, CHECKPOINTS[name], folder)
        if names:
            return
        (OUT / "images").mkdir()
        shutil.copy(folder / "images/wide.png", OUT / "images")
        shutil.copytree(folder / "pixels", OUT / "pixels")


if __name__ == "__main__":
    main()
