#!/usr/bin/env python3
"""make_adapter.py FOLDER: an adapter of models/glimpse as PEFT saves it, of zeros: its answers are the model's."""
import json
import pathlib
import struct
import sys

LAYERS, HIDDEN, RANK = 4, 192, 2
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
(folder / "adapter_config.json").write_text(json.dumps(
    {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 4, "bias": "none", "target_modules": ["q_proj"]}))
header, at = {}, 0
for layer in range(LAYERS):
    for name, shape in (("lora_A", [RANK, HIDDEN]), ("lora_B", [HIDDEN, RANK])):
        size = 4 * RANK * HIDDEN
        header[f"base_model.model.model.layers.{layer}.self_attn.q_proj.{name}.weight"] = {
            "dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
text = json.dumps(header).encode()
(folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
