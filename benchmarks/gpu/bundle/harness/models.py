"""Models of true shape: a configuration and a tokenizer; weights are made up when they are loaded."""
import json
import re

from .machine import Failed, ROOT

# Names as `saccade model make-dummy` has them: family, size.
KNOWN = {
    "2b": ("qwen2-vl", "2b"),
    "7b": ("qwen2-vl", "7b"),
    "72b": ("qwen2-vl", "72b"),
    "qwen2.5-vl-3b": ("qwen2.5-vl", "3b"),
    "internvl2-8b": ("internvl2", "8b"),
    "llava-onevision-7b": ("llava-onevision", "7b"),
    "phi-3-vision": ("phi-3-vision", "4b"),
    "paligemma2-10b": ("paligemma2", "10b-896"),
}
TEMPLATE = ROOT / "harness" / "template_llava.jinja"  # PaliGemma's own has none


def make_command(machine, name, tiny=False):
    family, size = KNOWN[name]
    folder = machine.work / (f"{name}-tiny" if tiny else name)
    return folder, machine.program("saccade", "model", "make-dummy", "--family", family, "--size", "tiny" if tiny else size,
                                   "--config-only", "--out", folder)


def folder_of(machine, name):
    """The folder of the model's true shape; a rehearsal makes that too, and goes on with the tiny one of the family."""
    for tiny in [False, True] if machine.rehearsal else [False]:
        folder, command = make_command(machine, name, tiny)
        if not (folder / "config.json").exists():
            machine.expect(command, most=60)
        if not (folder / "config.json").exists():
            raise Failed(f"make-dummy wrote no config.json into {folder}")
    return folder


def cut_layers(folder, layers):
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = layers
    (folder / "config.json").write_text(json.dumps(config))


def layers_of_72b(machine):
    """As many of its 80 layers as leave a third of the GPU's memory: a layer has 1.75 GB of weights in bf16, and what is
    beside the layers 6.3 GB."""
    mebibytes = [float(each) for each in re.findall(r"([0-9.]+) MiB", str(machine.facts.get("gpu")))]
    gigabytes = mebibytes[0] * 2**20 / 1e9 if mebibytes else 80
    return max(0, min(80, int((gigabytes * 2 / 3 - 6.3) / 1.75)))


def serve_options(name):
    """What a server of this model is given beside what all are."""
    return ["--chat-template", TEMPLATE] if name == "paligemma2-10b" else []
