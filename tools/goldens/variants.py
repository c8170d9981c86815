"""Golden files of what configurations may say beside the usual: tests/golden/variants.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/variants.py [NAME...]

Small random checkpoints, saved by transformers and recorded as their families' are:
  yarn           Qwen2 with rope type "yarn" as published for long contexts, heads of 20
  yarn_stated    Llama, yarn with its factor of attention, both betas and without truncation, in today's form
  biased         Llama with biases of attention and of its MLP, heads of 12
  two_heads      Qwen2 that says tie_word_embeddings and brings a head of its own: nothing is tied
  head_alone     Qwen2 that says tie_word_embeddings and brings the head alone: it is the embedding too
  llava          features after the first and the last but one layer, no bias in the projector, pixels as nearest
                 neighbours that are not normalised, heads of 12 in the tower
  qwen2_5_vl     fullatt_block_indexes over the tower's depth, yarn beside mrope_section, Hamming, heads of 12 and 20
  qwen3_vl       no mrope_section, attention_bias, box filter, heads of 12
  internvl       tie_word_embeddings not said (its class ties), a Llama with biases, heads of 20 in the tower
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import InternVLConfig, InternVLForConditionalGeneration
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

import golden
import internvl2
import internvl2_current
import llama3
import llava_onevision
import qwen2
import qwen2_5_vl
import qwen3_vl
import qwen_vision
import text_family
import tile_family
from text_family import Spec

OUT = Path(__file__).resolve().parents[2] / "tests/golden/variants"
ONE_IMAGE = {"one_image": golden.CASES["one_image"]}
TEXT = {"text": text_family.CASES["text"]}
LONG = {"text": text_family.CASES["text"], "long": text_family.CASES["long"]}


# --- text ---

QWEN2 = {**qwen2.BASE, "hidden_size": 40, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "tie_word_embeddings": True, "use_sliding_window": False, "vocab_size": 470}
LLAMA = {**llama3.BASE, "hidden_size": 36, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 3,
         "num_key_value_heads": 1, "tie_word_embeddings": True, "vocab_size": 470, "max_position_embeddings": 2048}
TEXTS = {
    "yarn": (qwen2.FAMILY, Spec(81, torch.bfloat16, True, {
        **QWEN2, "rope_theta": 10000.0, "max_position_embeddings": 64,
        "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 64, "type": "yarn"}}, cases=LONG)),
    "yarn_stated": (llama3.FAMILY, Spec(82, torch.bfloat16, False, {
        **LLAMA, "rope_theta": 1000.0, "rope_scaling": {
            "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 48, "attention_factor": 1.25,
            "beta_fast": 6.0, "beta_slow": 0.5, "truncate": False}}, cases=LONG)),
    "biased": (llama3.FAMILY, Spec(83, torch.bfloat16, True, {
        **LLAMA, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "attention_bias": True,
        "mlp_bias": True, "rope_scaling": None}, cases=TEXT)),
}


def make_text(name: str) -> None:
    family, spec = TEXTS[name]
    family = dataclasses.replace(family, out=OUT)
    text_family.record(family, text_family.write_checkpoint(family, name, spec), spec.cases)


def make_head(name: str) -> None:
    """A checkpoint that ties, with another head in place of the embedding's copy or of the embedding."""
    family = dataclasses.replace(qwen2.FAMILY, out=OUT)
    spec = Spec(84, torch.bfloat16, True, {**QWEN2, "rope_theta": 10000.0}, cases=TEXT)
    directory = text_family.write_checkpoint(family, name, spec)
    tensors = golden.read_tensors(directory)
    head = torch.randn(470, 40, generator=torch.Generator().manual_seed(85)) * 0.3
    tensors["lm_head.weight"] = head.to(torch.bfloat16)
    if name == "head_alone":
        del tensors["model.embed_tokens.weight"]
    save_file(tensors, str(directory / "model.safetensors"), {"format": "pt"})
    for file in (directory / "other_form").glob("*"):
        file.unlink()
    (directory / "other_form").rmdir()
    text_family.record(family, directory, spec.cases)


# --- vision ---

def draw(out: Path) -> None:
    golden.fresh(out / "images")
    golden.fresh(out / "pixels")
    golden.picture(*golden.PICTURES["wide.png"]).save(out / "images/wide.png", optimize=True)


class Llava(llava_onevision.LlavaOnevision):
    out = OUT / "llava"
    spec = dict(
        seed=86, dtype=torch.bfloat16, hub_form=True, shard="1GB", tile=44, ratio="anyres_max_9", tied=True,
        text=dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
                  num_key_value_heads=1, vocab_size=481),
        vision=dict(hidden_size=24, intermediate_size=36, num_hidden_layers=3, num_attention_heads=2))

    def hub_config(self, spec: dict) -> dict:
        return {**super().hub_config(spec), "vision_feature_layer": [-2, 1], "multimodal_projector_bias": False}

    def write_small_files(self, directory: Path, spec: dict) -> None:
        super().write_small_files(directory, spec)
        path = directory / "preprocessor_config.json"
        golden.write_json(path, {**json.loads(path.read_text()), "do_normalize": False, "resample": 0})

    def layers(self, tower):
        return tower.encoder.layers[:2]

    def stacked(self, reference, picture):
        tile = reference.processor.size["height"]
        tiles = reference.processor.get_image_patches(
            llava_onevision.np.array(picture).transpose(2, 0, 1), reference.processor.image_grid_pinpoints,
            size=(tile, tile), patch_size=tile, resample=llava_onevision.PILImageResampling.NEAREST)
        stack = llava_onevision.np.concatenate([each.transpose(1, 2, 0) for each in tiles])
        return stack, [len(tiles), tile // 14, tile // 14]


def make_llava() -> None:
    draw(Llava.out)
    family = Llava()
    reference = tile_family.Reference(family, tile_family.write_checkpoint(family, "checkpoint", family.spec))
    assert isinstance(reference.processor, LlavaOnevisionImageProcessorPil) and not reference.processor.do_normalize
    tile_family.record(family, reference, "one_image", ONE_IMAGE["one_image"])
    try:  # what is refused here is refused there
        reference.model.config.vision_feature_select_strategy = "default"
        reference.model.model.get_image_features(**family.inputs(reference, [golden.picture(131, 61, 1)]),
                                                 vision_feature_select_strategy="default")
        raise SystemExit("\"default\" works with a tower that has no class token")
    except (ValueError, RuntimeError) as error:
        print("  default:", error)


def qwen_preprocessor(patch: int, resample: int) -> dict:
    unit = 2 * patch
    return {"size": {"longest_edge": unit * unit * 24, "shortest_edge": unit * unit * 4}, "patch_size": patch,
            "temporal_patch_size": 2, "merge_size": 2, "resample": resample, "image_mean": [0.5, 0.4, 0.3],
            "image_std": [0.5, 0.6, 0.7], "image_processor_type": "Qwen2VLImageProcessor"}


def make_qwen(name: str) -> None:
    text = dict(hidden_size=40, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                num_key_value_heads=1, vocab_size=481)
    vision = dict(depth=2, hidden_size=24, num_heads=2, intermediate_size=36, out_hidden_size=40, patch_size=6)
    if name == "qwen2_5_vl":
        family = dataclasses.replace(qwen2_5_vl.FAMILY, out=OUT / name, preprocessor=qwen_preprocessor(6, 5))
        spec = dict(seed=87, config=dict(
            **text, tie_word_embeddings=True, use_sliding_window=False, sliding_window=64, max_window_layers=3,
            max_position_embeddings=64,
            rope_scaling={"type": "yarn", "mrope_section": [2, 4, 4], "factor": 4.0,
                          "original_max_position_embeddings": 64}),
            vision=dict(**vision, spatial_patch_size=6, window_size=24, fullatt_block_indexes=[1, 7, -1]))
    else:
        family = dataclasses.replace(
            qwen3_vl.FAMILY, out=OUT / name, preprocessor=qwen_preprocessor(6, 4), published_config=without_sections)
        spec = dict(seed=88, tied=True, sections=[], text=dict(**text, head_dim=12, attention_bias=True),
                    vision=dict(**vision, num_position_embeddings=16, deepstack_visual_indexes=[0]))
    spec |= dict(dtype=torch.bfloat16, hub_form=True, shard="1GB")
    draw(family.out)
    reference = qwen_vision.Reference(family, qwen_vision.write_checkpoint(family, "checkpoint", spec))
    qwen_vision.check_other_form(reference)
    qwen_vision.record(reference, "one_image", qwen_vision.CASES["one_image"])


def without_sections(family, spec: dict, tokenizer) -> dict:
    config = qwen3_vl.published_config(family, spec, tokenizer)
    del config["text_config"]["rope_scaling"]
    return config


# --- InternVL ---

class InternVl(internvl2_current.Current):
    def __init__(self):
        self.directory = golden.fresh(internvl2.OUT / "checkpoint")
        internvl2.write_small_files(self.directory, internvl2.SPECIAL, "<|im_end|>", {
            "crop_to_patches": False, "image_mean": internvl2.MEAN, "image_std": internvl2.STD,
            "image_processor_type": "GotOcr2ImageProcessor", "max_patches": 2, "min_patches": 1,
            "processor_class": "InternVLProcessor", "resample": 3, "size": {"height": 56, "width": 56}})
        golden.write_json(self.directory / "chat_template.json", {"chat_template": internvl2_current.CHAT_TEMPLATE})
        config = json.loads(json.dumps(internvl2_current.CURRENT))
        del config["tie_word_embeddings"]
        config["text_config"] = {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 460, "eos_token_id": 462,
            "attention_bias": True, "hidden_size": 40, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 481, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 2048, "rope_theta": 10000.0, "tie_word_embeddings": False}
        config["vision_config"] |= {"hidden_size": 40, "num_attention_heads": 2, "intermediate_size": 36}
        model = InternVLForConditionalGeneration(InternVLConfig(**json.loads(json.dumps(config))))
        assert model.lm_head.weight is model.model.language_model.embed_tokens.weight
        internvl2.condition(model, 89)
        with tempfile.TemporaryDirectory() as scratch:
            model.to(torch.bfloat16).save_pretrained(scratch)
            (self.directory / "model.safetensors").write_bytes((Path(scratch) / "model.safetensors").read_bytes())
        golden.write_json(self.directory / "config.json", config)
        self.model = internvl2_current.load(self.directory)
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(self.directory / "tokenizer.json"))
        self.processor = GotOcr2ImageProcessorPil.from_pretrained(self.directory)

    def tiles(self, picture: str) -> list:
        from PIL import Image

        image = llava_onevision.np.array(Image.open(internvl2.OUT / "images" / picture).convert("RGB"))
        patches = self.processor.crop_image_to_patches(
            image.transpose(2, 0, 1), 1, 2, use_thumbnail=True,
            patch_size=internvl2_current.SizeDict(height=56, width=56),
            resample=internvl2_current.PILImageResampling.BICUBIC)
        return [patch.transpose(1, 2, 0) for patch in patches]

    def record_one(self) -> None:
        # internvl2.save_case names its checkpoint.
        save, internvl2.save_case = internvl2.save_case, lambda _, *rest: save("checkpoint", *rest)
        try:
            self.record("one_image", ONE_IMAGE["one_image"])
        finally:
            internvl2.save_case = save


def make_internvl() -> None:
    internvl2.OUT = OUT / "internvl"
    draw(internvl2.OUT)
    InternVl().record_one()


MAKERS = {name: (lambda name=name: make_text(name)) for name in TEXTS} | {
    "two_heads": lambda: make_head("two_heads"), "head_alone": lambda: make_head("head_alone"), "llava": make_llava,
    "qwen2_5_vl": lambda: make_qwen("qwen2_5_vl"), "qwen3_vl": lambda: make_qwen("qwen3_vl"),
    "internvl": make_internvl}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[1:] or MAKERS:
        print(each)
        MAKERS[each]()
