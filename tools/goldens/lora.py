"""Golden files of LoRA adapters: tests/golden/lora, over checkpoints and prompts of other goldens.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt peft==0.19.1 && V/bin/python tools/goldens/lora.py [CHECKPOINT ...]

Each adapter is random, saved by PEFT, and what the reference computes with it is recorded for prompts of its
checkpoint. In the file of an adapter that is bfloat16 the numbers are those that the reference multiplied by.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from PIL import Image
from safetensors import safe_open
from transformers import AutoModelForCausalLM

import golden
import mllama
import qwen2_vl
import qwen_vision

GOLDENS = Path(__file__).resolve().parents[2] / "tests/golden"
OUT = GOLDENS / "lora"


@dataclass
class Adapter:
    config: dict
    dtype: torch.dtype = torch.float32
    cases: list[str] = field(default_factory=lambda: ["text", "multi_turn"])


LANGUAGE = r"model\.language_model\..*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
ADAPTERS = {
    "llama3/scaled": {
        "attention": Adapter(dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
        "every": Adapter(dict(r=8, lora_alpha=12, use_rslora=True, target_modules="all-linear",
                              rank_pattern={"down_proj": 3, r"layers\.1\.self_attn\.q_proj": 5},
                              alpha_pattern={"o_proj": 20, "^model.layers.0.mlp.up_proj": 4})),
        "expression": Adapter(dict(r=16, lora_alpha=16,
                                   target_modules=r".*\.layers\.[02]\..*(gate_proj|o_proj|k_proj)"),
                              torch.bfloat16),
        "one_layer": Adapter(dict(r=2, lora_alpha=5, target_modules=["q_proj", "o_proj", "up_proj", "down_proj"],
                                  layers_to_transform=[1, 2], exclude_modules=["layers.2.mlp.up_proj"])),
    },
    "qwen2_vl/odd_heads": {
        "language": Adapter(dict(r=6, lora_alpha=9, target_modules=LANGUAGE), cases=["text", "one_image"]),
        "attention": Adapter(dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj"]), torch.bfloat16,
                             ["text", "three_images"]),
    },
    # Layers that keep a state, and the gates of these.
    "qwen3_5/odd_heads": {
        "states": Adapter(dict(r=4, lora_alpha=7, target_modules=["in_proj_qkv", "in_proj_z", "out_proj", "q_proj"])),
        "gates": Adapter(dict(r=3, lora_alpha=6, target_modules="all-linear"), torch.bfloat16),
    },
    # Layers that attend to images: their keys and values are made of an image's rows.
    "mllama/quarters": {
        "cross": Adapter(dict(r=4, lora_alpha=6, target_modules=r".*\.cross_attn\.[qkvo]_proj"),
                         cases=["text", "one_image", "three_images"]),
        "language": Adapter(dict(r=3, lora_alpha=6, target_modules=LANGUAGE), torch.bfloat16, ["one_image", "multi_turn"]),
    },
    "gemma3/text": {
        "every": Adapter(dict(r=5, lora_alpha=10, target_modules="all-linear")),
    },
}

SEEDS = {"llama3/scaled": 1000, "qwen2_vl/odd_heads": 2000, "gemma3/text": 3000, "qwen3_5/odd_heads": 4000,
         "mllama/quarters": 5000}


class TextReference:
    """A checkpoint of text alone, in float32."""

    def __init__(self, directory: Path):
        self.model = AutoModelForCausalLM.from_pretrained(directory, **golden.EXACTLY).eval()

    def decoder(self) -> torch.nn.Module:
        return self.model.model

    def logits(self, ids: list[int], _pictures) -> torch.Tensor:
        return self.model(torch.tensor([ids]), use_cache=False).logits


class VisionReference(qwen_vision.Reference):
    def __init__(self, directory: Path):
        super().__init__(qwen2_vl.FAMILY, directory)

    def decoder(self) -> torch.nn.Module:
        return self.model.model.language_model

    def logits(self, ids: list[int], pictures) -> torch.Tensor:
        return self.forward(ids, self.processor(pictures, return_tensors="pt") if pictures else None).logits


class CrossReference(mllama.Reference):
    def __init__(self, directory: Path):
        self.family = mllama.Mllama()
        super().__init__(self.family, directory)

    def decoder(self) -> torch.nn.Module:
        return self.model.model.language_model

    def logits(self, ids: list[int], pictures) -> torch.Tensor:
        images = self.family.inputs(self, pictures) if pictures else {}
        return self.model(input_ids=torch.tensor([ids]), use_cache=False, **images,
                          **self.family.prompt_options(ids, len(ids))).logits


def reference_of(checkpoint: str):
    kind = {"qwen2_vl": VisionReference, "mllama": CrossReference}.get(checkpoint.split("/")[0], TextReference)
    return kind(GOLDENS / checkpoint)


def randomise(model: torch.nn.Module, seed: int, dtype: torch.dtype) -> None:
    """Adapters that matter: each adds some third of what its matrix gives."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "lora_" not in name:
                continue
            scale = (0.6 if "lora_B" in name else 1.0) / parameter.shape[1] ** 0.5
            values = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(values.to(dtype).float())


@torch.no_grad()
def record(reference, directory: Path, out: Path, case: str) -> bool:
    """Whether no token came near a tie."""
    with safe_open(str(directory / "golden" / f"{case}.safetensors"), "pt") as opened:
        about = json.loads(opened.metadata()["golden"])
        ids, positions = opened.get_tensor("ids"), opened.get_tensor("positions")
    images = []
    for image in about["images"]:
        at = {key: os.path.relpath(directory / "golden" / image[key], out / "golden") for key in ("source", "pixels")}
        images.append({**image, **at})
    pictures = [Image.open(out / "golden" / image["source"]).convert("RGB") for image in images]
    prompt = ids.tolist()
    tokens, gap = golden.greedy(lambda so_far: reference.logits(so_far, pictures)[:, -1], prompt)
    print(f"  {out.name} {case}: {len(prompt)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
    if gap < golden.MIN_GAP:
        return False
    taps = golden.Taps()
    taps.text(reference.decoder())
    logits = reference.logits(prompt, pictures)[0, -3:]
    taps.close()
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors.update(ids=ids, positions=positions, greedy=torch.tensor(tokens, dtype=torch.int32))
    golden.save_golden(out / "golden" / f"{case}.safetensors", tensors, [*taps.values, "logits"], {
        "family": about["family"], "case": case, "messages": about["messages"], "rendered": about["rendered"],
        "images": images})
    return True


def make(checkpoint: str, name: str, adapter: Adapter, seed: int) -> None:
    directory = GOLDENS / checkpoint
    for attempt in range(20):
        reference = reference_of(checkpoint)
        # Names of layers in a pattern count from the model on, so PEFT is given the whole model.
        model = get_peft_model(reference.model, LoraConfig(task_type="CAUSAL_LM", **adapter.config))
        randomise(model, seed + 100 * attempt, adapter.dtype)
        model.eval()
        out = golden.fresh(OUT / checkpoint.split("/")[0] / name)
        (out / "golden").mkdir()  # pictures are found from there
        if all(record(reference, directory, out, case) for case in adapter.cases):
            break
    else:
        raise SystemExit(f"{checkpoint} {name}: every adapter comes near a tie")
    model.to(adapter.dtype).save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    config = json.loads((out / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = checkpoint
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()  # a set's order
    golden.write_json(out / "adapter_config.json", config)


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = sys.argv[1:] or list(ADAPTERS)  # checkpoints
    for checkpoint, adapters in ADAPTERS.items():
        if checkpoint not in chosen:
            continue
        for offset, (name, adapter) in enumerate(adapters.items()):
            make(checkpoint, name, adapter, SEEDS[checkpoint] + offset)
