"""Golden files of a text-only family: what tools/goldens/qwen2.py and llama3.py share."""

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

import golden
import tiny_tokenizer

# case -> turns; "{}" is filled with one of WORDS until the prompt has no near-tie.
CASES = {
    "text": [("user", "How many {} are there in 12 + 345? über 图片")],
    "multi_turn": [
        ("system", "You answer in one short sentence."),
        ("user", "Describe the {}."),
        ("assistant", "A blue circle, left of the line."),
        ("user", "for (int i = 0; i < 1234567; ++i) it's\n\n  the total?"),
    ],
    "long": [("user", "Compare the first {} with the second and the third. " * 6)],
}
WORDS = ["picture", "squares", "lines", "image", "house", "sentence", "circle", "point", "question", "eye", "street",
         "red square", "blue line", "quick circle", "third image", "green house", "values", "user", "rows", "total"]


@dataclass
class TextFamily:
    name: str           # --family
    out: Path           # tests/golden/FAMILY
    pattern: str
    special: list[str]
    nfc: bool
    end_of_turn: str
    chat_template: str
    tokenizer_class: str
    published_template: str = ""  # what prompts are rendered with, where it is at hand
    named: dict = field(default_factory=dict)  # special tokens that templates know by name: bos_token


@dataclass
class Spec:
    seed: int
    dtype: torch.dtype
    flat_form: bool     # config.json as the hub has it; else as transformers writes it
    config: dict        # the hub's fields
    shard: str = "1GB"
    cases: dict = field(default_factory=lambda: CASES)


def write_checkpoint(family: TextFamily, name: str, spec: Spec) -> Path:
    directory = golden.fresh(family.out / name)
    tokenizer = tiny_tokenizer.byte_level_bpe(family.pattern, family.special, 460, family.nfc)
    tiny_tokenizer.write_tokenizer(tokenizer, family.special, directory, {
        "eos_token": family.end_of_turn, "model_max_length": 2048, "tokenizer_class": family.tokenizer_class,
        "chat_template": family.chat_template, **family.named})
    ends = [tokenizer.token_to_id(family.end_of_turn), tokenizer.token_to_id(family.special[0])]
    golden.write_json(directory / "generation_config.json", {
        "do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": ends})
    flat = {**spec.config, "eos_token_id": ends[0], "bos_token_id": ends[1],
            "torch_dtype": str(spec.dtype).removeprefix("torch.")}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "config.json").write_text(json.dumps(flat))
        config = AutoConfig.from_pretrained(scratch)
        model = AutoModelForCausalLM.from_config(config)
        golden.condition(model, spec.seed)
        model = model.to(spec.dtype)
        saved = Path(scratch) / "saved"
        model.save_pretrained(saved, max_shard_size=spec.shard)
        for file in saved.glob("model*"):
            (directory / file.name).write_bytes(file.read_bytes())
        current = json.loads((saved / "config.json").read_text())
        golden.write_json(directory / "config.json", flat if spec.flat_form else current)
        golden.write_json(directory / "other_form/config.json", current if spec.flat_form else flat)
        golden.write_json(directory / "other_form/names.json", golden.other_names(directory, saved))
    return directory


@torch.no_grad()
def record(family: TextFamily, directory: Path, cases: dict = CASES) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"), **family.named)
    model = AutoModelForCausalLM.from_pretrained(directory, **golden.EXACTLY).eval()
    with tempfile.TemporaryDirectory() as scratch:  # both forms of the configuration are one model
        form = directory / "other_form/config.json"
        for file in directory.glob("model*"):
            (Path(scratch) / file.name).write_bytes(file.read_bytes())
        (Path(scratch) / "config.json").write_bytes((form if form.exists() else directory / "config.json").read_bytes())
        other = AutoModelForCausalLM.from_pretrained(scratch, **golden.EXACTLY).eval()
        ids = torch.arange(100)[None]
        assert torch.equal(other(ids).logits, model(ids).logits)

    routers = golden.Routers(model)

    def last_logits(so_far: list[int]) -> torch.Tensor:
        return model(torch.tensor([so_far]), use_cache=False).logits[:, -1]

    for case, turns in cases.items():
        for word in WORDS:
            messages = [{"role": role, "content": text.replace("{}", word)} for role, text in turns]
            rendered = tokenizer.apply_chat_template(
                messages, chat_template=family.published_template or family.chat_template, tokenize=False,
                add_generation_prompt=True)
            ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
            routers.take()
            tokens, gap = golden.greedy(last_logits, ids)
            routed = routers.take()
            print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
            if gap >= golden.MIN_GAP and routed >= golden.MIN_ROUTER_GAP:
                break
        else:
            raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")
        taps = golden.Taps()
        taps.text(model.model)
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -3:]
        taps.close()
        tensors = golden.pack_rows({**taps.values, "logits": logits})
        tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
        tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None]
        tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
        golden.save_golden(directory / "golden" / f"{case}.safetensors", tensors, [*taps.values, "logits"], {
            "family": family.name, "case": case, "messages": messages, "rendered": rendered, "images": []})


def make(family: TextFamily, checkpoints: dict[str, Spec]) -> None:
    torch.set_num_threads(1)
    golden.fresh(family.out)
    for name, spec in checkpoints.items():
        print(name)
        record(family, write_checkpoint(family, name, spec), spec.cases)
