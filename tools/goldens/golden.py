"""What the golden generators share: cases, conditioning random weights, taps, greedy decoding, and the golden file.

A golden file is one safetensors file per prompt. Tensors: "ids", "positions" [axes, n], "greedy" and one per tap,
holding the rows that "rows.text", "rows.vision" or "rows.merged" list. Its metadata says the rest as JSON.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save, save_file

GREEDY_TOKENS = 64
MIN_ROUTER_GAP = 1e-5  # of the row's largest logit: what rounding cannot turn round
MIN_GAP = 1e-3  # of the row's largest logit; a prompt that ever comes closer to a tie is dropped
TAP_ROWS = 10
# How a reference is loaded: no kernel but the plain one of its class.
EXACTLY = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}

# What families with images are asked, and about which pictures: name -> width, height, seed.
PICTURES = {"wide.png": (131, 61, 1), "tall.png": (40, 117, 2), "square.png": (90, 90, 3), "small.png": (33, 20, 4)}
# "{}" in a case is filled with these, one after the other, until the prompt has no near-tie.
WORDS = ["picture", "squares", "lines", "image", "house", "sentence", "circle", "point", "question", "eye", "street",
         "red square", "blue line", "quick circle", "third image", "green house", "values", "user", "rows", "total"]
# case -> turns: (role, parts)
CASES = {
    "text": [("system", ["You answer in one short sentence."]),
             ("user", ["How many {} are there in 12 + 345? über 图片"])],
    "one_image": [("user", ["wide.png", "What is shown in this {}?"])],
    "three_images": [("user", ["tall.png", "wide.png", "square.png", "Compare the {} of them."])],
    "multi_turn": [
        ("user", ["small.png", "Describe the {}."]),
        ("assistant", ["A blue circle, left of the line."]),
        ("user", ["square.png", "And here?"]),
        ("assistant", ["There are 3 squares."]),
        ("user", ["Which of them is darker?"]),
    ],
}


def condition(model: torch.nn.Module, seed: int, logit_scale: float = 3.0) -> None:
    """Random weights under which every part of the network matters: unit-gain matrices, norms near one, live biases."""
    generator = torch.Generator().manual_seed(seed)

    def normal(parameter, scale, mean=0.0):
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale + mean)

    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if name.endswith("bias"):
                normal(parameter, 0.2)
            elif parameter.dim() == 1:
                normal(parameter, 0.15, 1.0)
            elif "embed_tokens" in name:
                # A tied head must not merely repeat the last token: its own embedding stays a small part of the stream.
                normal(parameter, 0.15 if model.config.tie_word_embeddings else 0.5)
            elif ".experts." in name:  # [experts, outputs, inputs]
                normal(parameter, 1.2 / parameter.shape[-1] ** 0.5)
            elif name.startswith("lm_head"):
                normal(parameter, logit_scale / parameter.shape[1] ** 0.5)
            else:
                normal(parameter, 1.2 / (parameter[0].numel()) ** 0.5)


def picture(width: int, height: int, seed: int) -> Image.Image:
    """Gradients, rectangles, stripes and a little noise: something for every frequency, and small as PNG."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    pixels = np.empty((height, width, 3))
    for channel in range(3):
        a, b, c = random.uniform(-1, 1, 3)
        pixels[..., channel] = 128 + 90 * np.sin(a * x / width * 4 + b * y / height * 4 + 3 * c)
    for _ in range(6):
        left, top = random.integers(0, width), random.integers(0, height)
        right, bottom = left + random.integers(2, width // 2 + 3), top + random.integers(2, height // 2 + 3)
        pixels[top:bottom, left:right] = random.integers(0, 256, 3)
    pixels[:, :: max(3, width // 7)] *= 0.4
    noise = random.integers(-3, 4, (height // 4 + 1, width // 4 + 1, 1)).repeat(4, 0).repeat(4, 1)
    return Image.fromarray(np.clip(pixels + noise[:height, :width], 0, 255).astype(np.uint8))


def sample_rows(count: int) -> torch.Tensor:
    """Up to TAP_ROWS rows, evenly spaced, the first and the last among them."""
    return torch.from_numpy(np.unique(np.linspace(0, count - 1, min(count, TAP_ROWS)).round().astype(np.int32)))


@dataclass
class Taps:
    """Records named module outputs during one forward."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    hooks: list = field(default_factory=list)

    def output(self, name: str, module: torch.nn.Module) -> None:
        def record(_module, _arguments, result):
            result = result[0] if isinstance(result, tuple) else result
            self.values[name] = result.detach().reshape(-1, result.shape[-1]).float().clone()
        self.hooks.append(module.register_forward_hook(record))

    def input(self, name: str, module: torch.nn.Module) -> None:
        def record(_module, arguments, keywords):
            value = arguments[0] if arguments else keywords["hidden_states"]
            self.values[name] = value.detach().reshape(-1, value.shape[-1]).float().clone()
        self.hooks.append(module.register_forward_pre_hook(record, with_kwargs=True))

    def text(self, decoder: torch.nn.Module) -> None:
        self.input("text.embed", decoder.layers[0])
        for index, layer in enumerate(decoder.layers):
            self.output(f"text.layer.{index}", layer)
        self.output("text.norm", decoder.norm)

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()


class Routers:
    """How near the routers of a mixture of experts ever came to choosing another expert."""

    def __init__(self, model: torch.nn.Module):
        self.smallest = 1.0
        for module in model.modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(self.record)

    def record(self, module, _arguments, result):
        logits = result[0].float().sort(dim=-1, descending=True).values
        k = module.top_k
        if k < logits.shape[-1]:
            gaps = (logits[:, k - 1] - logits[:, k]) / logits.abs().amax(-1)
            self.smallest = min(self.smallest, float(gaps.min()))

    def take(self) -> float:
        smallest, self.smallest = self.smallest, 1.0
        return smallest


def smallest_gap(logits: torch.Tensor) -> float:
    """Of [rows, vocab]: the smallest distance between first and second, as a share of the row's largest magnitude."""
    top = logits.topk(2, dim=-1).values
    return float(((top[:, 0] - top[:, 1]) / logits.abs().amax(-1)).min())


@torch.no_grad()
def greedy(step, ids: list[int]) -> tuple[list[int], float]:
    """step(ids so far) -> logits of the last row [1, vocab]. The tokens and the smallest gap met."""
    tokens, gap = [], 1.0
    for _ in range(GREEDY_TOKENS):
        logits = step(ids + tokens)
        gap = min(gap, smallest_gap(logits))
        tokens.append(int(logits.argmax()))
    return tokens, gap


def pack_rows(taps: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The sampled rows of every tap, and which they are: one list per kind of row."""
    tensors: dict[str, torch.Tensor] = {}
    for name, value in taps.items():
        kind = "merged" if name.startswith(("vision.merged", "vision.deepstack")) else name.split(".")[0]
        if name == "logits":
            tensors[name] = value.contiguous()
            continue
        rows = tensors.setdefault(f"rows.{kind}", sample_rows(value.shape[0]))
        tensors[name] = value[rows.long()].contiguous()
    return tensors


def save_golden(path: Path, tensors: dict[str, torch.Tensor], taps: list[str], metadata: dict) -> None:
    import transformers

    metadata = {**metadata, "taps": taps, "transformers": transformers.__version__, "torch": torch.__version__}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, str(path),
              {"golden": json.dumps(metadata, ensure_ascii=False)})


def read_file(file: Path) -> dict[str, torch.Tensor]:
    with safe_open(str(file), "pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}


def read_tensors(directory: Path) -> dict[str, torch.Tensor]:
    tensors = {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors.update(read_file(file))
    return tensors


def other_names(directory: Path, other: Path) -> dict[str, str]:
    """Names in `other` -> names in `directory`, for two saves of one model. Same bytes are the same tensor."""
    by_bytes = {}
    for name, tensor in read_tensors(directory).items():
        key = (tuple(tensor.shape), tensor.view(torch.uint8).numpy().tobytes())
        assert key not in by_bytes, f"{name} and {by_bytes[key]} are equal"
        by_bytes[key] = name
    names = {name: by_bytes[(tuple(tensor.shape), tensor.view(torch.uint8).numpy().tobytes())]
             for name, tensor in read_tensors(other).items()}
    assert sorted(names.values()) == sorted(by_bytes.values())
    return names


def write_json(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
