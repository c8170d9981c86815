#!/usr/bin/env python3
"""Logits of GGUF files of every family and type beside those of the same checkpoint with their dequantised weights.

    logits.py --program build/release/benchmarks/gguf_logits [--work DIR] [--families A,B] [--types F32,Q4_K] [--json FILE]

Of each family a random checkpoint of two layers (three with DeepStack, four where every fourth attends) is made from the
configuration of one in tests/golden, 256 wide so that blocks of 256 fit every row, and becomes a GGUF by
tools/goldens/gguf_files.py: of types that the `gguf` package quantises by its quantiser, of the others of random blocks.
What the package dequantises is then put back in the checkpoint's own order, and that checkpoint's logits are the
reference: of a text those of transformers in float32; of a text with an image those of Saccade in float32, which
tests/golden holds against transformers. Needs what requirements.txt and gguf_files.requirements.txt in tools/goldens list.
Prints Markdown. The files stay in WORK/FAMILY/gguf/TYPE, for tests/peers/gguf_tokens.py.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "goldens"))

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import gguf_files  # noqa: E402
import golden  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
TYPES = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
ARCH = gguf.MODEL_ARCH
# Name: checkpoint, architecture; projector. The tower has all its layers.
FAMILIES = {
    "Qwen2": ("qwen2/odd_heads", ARCH.QWEN2, None),
    "Qwen3": ("qwen3/odd_heads", ARCH.QWEN3, None),
    "Qwen3-MoE": ("qwen3_moe/every_layer", ARCH.QWEN3MOE, None),
    "Llama 3": ("llama3/scaled", ARCH.LLAMA, None),
    "Qwen2-VL": ("qwen2_vl/odd_heads", ARCH.QWEN2VL, "qwen2vl_merger"),
    "Qwen2.5-VL": ("qwen2_5_vl/odd_heads", ARCH.QWEN2VL, "qwen2.5vl_merger"),
    "Qwen3-VL": ("qwen3_vl/odd_heads", ARCH.QWEN3VL, "qwen3vl_merger"),
    "Qwen3-VL-MoE": ("qwen3_vl_moe/every_layer", ARCH.QWEN3VLMOE, "qwen3vl_merger"),
    "Gemma 3": ("gemma3/classes", ARCH.GEMMA3, "gemma3"),
    "SmolVLM2": ("smolvlm2/fifths", ARCH.LLAMA, "idefics3"),
    "Pixtral": ("pixtral/rows", ARCH.LLAMA, "pixtral"),
    "Mistral 3": ("mistral3/ninths", ARCH.LLAMA, "pixtral"),
    "LLaVA-OneVision": ("llava_onevision/newlines", ARCH.QWEN2, "mlp"),
    "Qwen3.5": ("qwen3_5_vl/odd_heads", ARCH.QWEN35, "qwen3vl_merger"),
    "MiniCPM-V 4.6": ("minicpmv/slices", ARCH.QWEN35, "minicpmv4_6"),
    "InternVL 3": ("internvl3/hf3", ARCH.QWEN2, "internvl"),
}
WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
        "moe_intermediate_size": 512, "linear_key_head_dim": 64, "linear_value_head_dim": 64}


def widened(config):
    """256 wide, with as few layers as show every kind of layer."""
    text = config.get("text_config", config)
    text.update({name: value for name, value in WIDE.items() if name in text})
    vision = config.get("vision_config", {})
    layers = 4 if "full_attention_interval" in text else 3 if vision.get("deepstack_visual_indexes") else 2
    text["num_hidden_layers"] = layers
    for name in ("layer_types", "mlp_only_layers"):
        if name in text:
            text[name] = text[name][:layers] if name == "layer_types" else []
    if "query_pre_attn_scalar" in text:
        text["query_pre_attn_scalar"] = text["head_dim"]  # as llama.cpp has it, whatever a file says
    if config["model_type"] in ("mistral3", "llava") and "sliding_window" in text:
        text["sliding_window"] = None  # which no GGUF of the Llama architecture says
    for rope in (text.get("rope_scaling"), text.get("rope_parameters")):
        if rope and "mrope_section" in rope:
            rope["mrope_section"] = [2, 1, 1] if "full_attention_interval" in text else [6, 5, 5]
    if "out_hidden_size" in vision:
        vision["out_hidden_size"] = text["hidden_size"]
    if "window_size" in vision:
        vision["window_size"] = 112  # the only one that llama.cpp has
    if config["model_type"] == "qwen2_vl":
        vision["hidden_size"] = text["hidden_size"]
    return config


def write_checkpoint(source, to):
    """A random checkpoint in the form of the golden one `source`."""
    golden.fresh(to)
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja") and not file.name.startswith("model"):
            shutil.copy(file, to)
    config = widened(json.loads((source / "config.json").read_text()))
    golden.write_json(to / "config.json", config)
    loaded = transformers.AutoConfig.from_pretrained(to)
    model = getattr(transformers, config["architectures"][0])(loaded)
    golden.condition(model, 7)
    model.save_pretrained(to / "saved")
    saved = golden.read_tensors(to / "saved")
    shutil.rmtree(to / "saved")
    here = set(golden.read_tensors(source))
    names = json.loads((source / "other_form/names.json").read_text())

    def named(name):  # transformers saves towers under several names
        forms = (name, names.get(name), "model." + name, name.replace("vision_tower.", "vision_tower.vision_model."))
        return next(form for form in forms if form in here)

    names = {named(name): tensor.float().numpy() for name, tensor in saved.items()}
    if config["model_type"] == "qwen3_vl_moe":  # published with its experts the other way round
        names = {n: np.ascontiguousarray(a.swapaxes(1, 2)) if ".experts." in n else a for n, a in names.items()}
    gguf_files.write_safetensors(to / "model.safetensors", names)
    return config, names


def write_gguf(to, checkpoint, config, family, kind):
    """[model.gguf] or [model.gguf, mmproj.gguf]. A tower is in the type itself or in BF16."""
    _, arch, projector = family
    text, vision = config.get("text_config", config), config.get("vision_config", {})
    to.mkdir(parents=True, exist_ok=True)
    gguf_files.write_text(to / "model.gguf", checkpoint, arch, text["num_hidden_layers"], gguf_files.Type[kind])
    if not projector:
        return [to / "model.gguf"]
    layers = vision.get("depth", vision.get("num_hidden_layers"))
    tower = kind if kind in ("F32", "F16") else "BF16"
    types = gguf_files.Type
    gguf_files.write_tower(to / "mmproj.gguf", checkpoint, projector, layers, types[tower], types["F16" if kind == "F16" else "F32"])
    return [to / "model.gguf", to / "mmproj.gguf"]


def numbers_of(paths):
    """{matrix: float32} of GGUF files, as the package dequantises them. Vectors lose nothing, and some are stored as
    functions of what they are."""
    return {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(-1)
            for path in paths for tensor in gguf.GGUFReader(path).tensors if len(tensor.shape) > 1}


class Order:
    """Where each element of a checkpoint's matrices went: the file of the checkpoint whose elements are their numbers."""

    def __init__(self, work, checkpoint, config, tensors, family):
        self.tensors, counted, count = tensors, {}, 0
        for name, array in tensors.items():
            counted[name] = np.arange(count, count + array.size).astype(np.float32).reshape(array.shape)
            count += array.size
        assert count < 1 << 24, "float32 does not count them"
        folder = work / "counted"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors"))
        gguf_files.write_safetensors(folder / "model.safetensors", counted)
        self.places = {name: numbers.astype(np.int64) for name, numbers
                       in numbers_of(write_gguf(folder / "gguf", folder, config, family, "F32")).items()}

    def put_back(self, numbers):
        """The checkpoint with the matrices of a GGUF."""
        flat = np.concatenate([array.reshape(-1) for array in self.tensors.values()])
        for name, values in numbers.items():
            flat[self.places[name]] = values
        made, at = {}, 0
        for name, array in self.tensors.items():
            made[name] = flat[at:at + array.size].reshape(array.shape)
            at += array.size
        return made


@torch.no_grad()
def write_text_golden(path, checkpoint, config, source):
    """The logits of every token of the golden's text."""
    model = getattr(transformers, config["architectures"][0]).from_pretrained(checkpoint, **golden.EXACTLY).eval()
    with golden.safe_open(str(source / "golden/text.safetensors"), "pt") as file:
        ids, about = file.get_tensor("ids"), json.loads(file.metadata()["golden"])
    logits = model(input_ids=ids[None].long(), use_cache=False).logits[0].float()
    golden.save_golden(path, {"ids": ids, "positions": torch.arange(len(ids), dtype=torch.int32)[None],
                              "greedy": torch.zeros(0, dtype=torch.int32), "logits": logits}, ["logits"],
                       {name: about[name] for name in ("family", "case", "messages", "rendered", "images")})


def measure(program, work, name, kinds):
    """{type: what the program says}."""
    family = FAMILIES[name]
    source = GOLDEN / family[0]
    work = work / name.replace(" ", "-")
    config, tensors = write_checkpoint(source, work / "checkpoint")
    order = Order(work, work / "checkpoint", config, tensors, family)
    measured = {}
    for kind in kinds:
        paths = write_gguf(work / "gguf" / kind, work / "checkpoint", config, family, kind)
        with_its = work / "with-its-weights"
        shutil.rmtree(with_its, ignore_errors=True)
        shutil.copytree(work / "checkpoint", with_its, ignore=shutil.ignore_patterns("*.safetensors"))
        gguf_files.write_safetensors(with_its / "model.safetensors", order.put_back(numbers_of(paths)))
        write_text_golden(work / "text.safetensors", with_its, config, source)
        command = [program, "--model", ",".join(map(str, paths)), "--checkpoint", with_its, "--text", work / "text.safetensors"]
        if family[2]:
            command += ["--image", source / "golden/one_image.safetensors"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} {kind}: {done.stderr}")
        measured[kind] = json.loads(done.stdout)
        print(name, kind, file=sys.stderr, flush=True)
    return measured


def print_tables(measured):
    kinds = list(next(iter(measured.values())))

    def table(title, cell, last=("", None)):
        print(f"{title}\n\n| family | " + " | ".join(kinds) + f" |{last[0]}\n|---|" + "---|" * (len(kinds) + bool(last[1])))
        for name, of in measured.items():
            end = f" {last[1](of.values())} |" if last[1] else ""
            print(f"| {name} | " + " | ".join(cell(of[kind]) for kind in kinds) + f" |{end}")
        print()

    def read(row):
        return f"{row['float32']['text']['max']:.1e}, {row['float32']['text']['rms']:.1e}"

    def images(rows):
        most = max((row["float32"]["image"]["max"] for row in rows if "image" in row["float32"]), default=None)
        return "" if most is None else f"{most:.1e}"

    def served(row):
        prompts = row["served"].values()
        count = sum(prompt["of"] for prompt in prompts)
        divergence = sum(prompt["kl"] * prompt["of"] for prompt in prompts) / count
        return f"{divergence:.1e}, {sum(prompt['same'] for prompt in prompts)} of {count}"

    table("Largest and root mean square difference in float32", read, (" image, largest of all types |", images))
    table("As served: KL in nats, equal most likely tokens", served)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--work", default=pathlib.Path("gguf-logits"), type=pathlib.Path)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = options.types.split(",")
    measured = {name: measure(options.program.resolve(), options.work, name, kinds) for name in options.families.split(",")}
    print_tables(measured)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
