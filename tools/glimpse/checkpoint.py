"""Writes glimpse as a Qwen2-VL checkpoint: what transformers and Saccade load.

python tools/glimpse/checkpoint.py --state RUN/state.pt --out models/glimpse     (train.py does so at its end)
Without --state the weights are random: for tests.
"""

import argparse
import json
from pathlib import Path

import torch

import net
import tokens

MEAN = [0.48145466, 0.4578275, 0.40821073]
STD = [0.26862954, 0.26130258, 0.27577711]


def save(model, tokenizer, out: Path):
    """bf16 weights, tokenizer, chat template and picture settings."""
    model.to(torch.bfloat16).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    (out / "tokenizer_config.json").write_text(tokens.tokenizer_config())
    (out / "tokenizer.json").write_text(tokenizer.to_str())
    (out / "preprocessor_config.json").write_text(json.dumps({
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": MEAN, "image_std": STD,
        "image_processor_type": "Qwen2VLImageProcessor", "max_pixels": 448 * 448, "merge_size": 2,
        "min_pixels": 28 * 28, "patch_size": 14, "resample": 3, "rescale_factor": 1 / 255, "temporal_patch_size": 2,
    }, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", type=Path, help="state.pt of train.py")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    tokenizer = tokens.build()
    model = net.make(tokenizer, training=False)
    if args.state:
        loaded = torch.load(args.state, map_location="cpu", weights_only=False)
        model.load_state_dict(loaded["model"])
        print(f"{args.state}: step {loaded['state']['step']}, stage {loaded['state']['stage']:.3f}")
    save(model, tokenizer, args.out)
    print(args.out)


if __name__ == "__main__":
    main()
