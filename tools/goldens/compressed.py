"""What compressed-tensors, the package that other servers read such files with, makes of checkpoints that
`saccade model quantize` writes: tests/golden/compressed.json, the SHA-256 of each matrix in float32.

    compressed.py build/release/saccade      (compressed.requirements.txt beside requirements.txt)

Their config.json is parsed by the package and applied to a tree of torch's Linears under the names of the file, so
that its targets and its list of what is ignored are held to, too.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
SOURCES = ["qwen2_vl/odd_heads", "qwen3_moe/every_layer", "gemma3/pooled"]


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(str(file), "pt") as opened:
            tensors.update({name: opened.get_tensor(name) for name in opened.keys()})
    return tensors


def tree_of(modules: dict[str, tuple[int, int]]) -> torch.nn.Module:
    root = torch.nn.Module()
    for name, (out, inputs) in modules.items():
        at = root
        *folders, last = name.split(".")
        for folder in folders:
            if not hasattr(at, folder):
                at.add_module(folder, torch.nn.Module())
            at = getattr(at, folder)
        at.add_module(last, torch.nn.Linear(inputs, out, bias=False, device="meta"))
    return root


def digests(source: Path, folder: Path, bits: int) -> dict[str, str]:
    tensors = read_tensors(folder)
    linears = {name.removesuffix(".weight"): tuple(tensor.shape) for name, tensor in read_tensors(source).items()
               if name.endswith(".weight") and tensor.dim() == 2 and "embed" not in name}
    quantised = {name.rsplit(".", 1)[0] for name in tensors if name.endswith(".weight_scale")}
    settings = QuantizationConfig.model_validate(json.loads((folder / "config.json").read_text())["quantization_config"])
    root = tree_of(linears)
    apply_quantization_config(root, settings)
    named = dict(root.named_modules())
    assert quantised == {name for name in linears if getattr(named[name], "quantization_scheme", None) is not None}

    found = {}
    compressor = BaseCompressor.get_value_from_registry("int-quantized" if bits == 8 else "pack-quantized")
    for name in sorted(quantised):
        scheme = named[name].quantization_scheme
        assert (scheme.input_activations is not None) == (bits == 8)
        size = scheme.weights.group_size
        assert size is None or size * tensors[f"{name}.weight_scale"].shape[1] == linears[name][1]
        parts = {part: tensors[f"{name}.{part}"] for part in compressor.compression_param_names(scheme)}
        # In float32, as the dequantised type is that of the scales.
        parts["weight_scale"] = parts["weight_scale"].float()
        weight = compressor.decompress(parts, scheme)["weight"]
        assert weight.dtype == torch.float32 and tuple(weight.shape) == linears[name]
        found[name] = hashlib.sha256(weight.contiguous().numpy().tobytes()).hexdigest()
    return found


def main() -> None:
    checkpoints = []
    for source in SOURCES:
        for bits in (4, 8):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "out"
                subprocess.run([sys.argv[1], "model", "quantize", GOLDEN / source, folder, "--quantization",
                                f"int{bits}"], check=True)
                checkpoints.append({"source": source, "bits": bits,
                                    "matrices": digests(GOLDEN / source, folder, bits)})
    (GOLDEN / "compressed.json").write_text(json.dumps({"checkpoints": checkpoints}, indent=1) + "\n")


if __name__ == "__main__":
    main()
