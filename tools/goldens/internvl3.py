"""Golden files of InternVL3 and 3.5: tests/golden/internvl3.

python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/internvl3.py

Two tiny random models of transformers' class (InternVLForConditionalGeneration), each in both forms that are published:
  hf3     Qwen2.5 text with a dynamic rope, its own head, float16: as the -hf checkpoints of InternVL3
  hf35    Qwen3 text (normed heads wider together than the text), its own head, bfloat16, a tower with normed queries
          and keys as that of the 38B: as the -HF checkpoints of InternVL3.5
  own3, own35   the same weights and answers under OpenGVLab's names and configuration (InternVLChatModel, "template":
          "internvl2_5"): queries, keys and values in one matrix, llm_config, no chat template
Prompts of hf3 and hf35 are what the template of the -hf goldens of InternVL2 renders (published ones of these sizes were not at hand), those of own3
and own35 what internvl2_5 of the original's conversation.py gives: the default system message is its own.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import InternVLConfig, InternVLForConditionalGeneration
from transformers.image_utils import PILImageResampling, SizeDict
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

import golden
import internvl2
import internvl2_current

internvl2.OUT = OUT = Path(__file__).resolve().parents[2] / "tests/golden/internvl3"
TILE, SIDE, TILES = 56, 4, 6
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<think>", "</think>",
           "<video>"]
CONTEXT = 465
SYSTEM = ("你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。")
TOWER = {"hidden_act": "gelu", "layer_norm_eps": 1e-6, "num_channels": 3}
CHECKPOINTS = {
    "3": dict(
        seed=91, dtype=torch.float16,
        text={"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 48, "intermediate_size": 60,
              "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "vocab_size": 481,
              "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "rope_theta": 1000000.0,
              "rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}, "max_window_layers": 70,
              "sliding_window": None, "use_sliding_window": False, "tie_word_embeddings": False},
        vision={"hidden_size": 36, "intermediate_size": 60, "num_hidden_layers": 2, "num_attention_heads": 3,
                "attention_bias": True, "norm_type": "layer_norm", "use_qk_norm": False}),
    "35": dict(
        seed=92, dtype=torch.bfloat16,
        text={"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 48, "intermediate_size": 72,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20,
              "vocab_size": 481, "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "rope_theta": 1000000.0,
              "rope_scaling": None, "max_window_layers": 28, "attention_bias": False, "sliding_window": None,
              "use_sliding_window": False, "tie_word_embeddings": False},
        vision={"hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 2,
                "attention_bias": False, "norm_type": "rms_norm", "use_qk_norm": True}),
}


def hf_config(spec: dict) -> dict:
    return {"architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl", "downsample_ratio": 0.5,
            "image_seq_length": 4, "image_token_id": CONTEXT, "projector_hidden_act": "gelu",
            "vision_feature_layer": -1, "vision_feature_select_strategy": "default", "tie_word_embeddings": False,
            "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "text_config": {**spec["text"], "hidden_act": "silu", "bos_token_id": 460, "eos_token_id": 462},
            "vision_config": {"model_type": "internvl_vision", "architectures": ["InternVLVisionModel"],
                              "image_size": [TILE, TILE], "patch_size": [14, 14], "use_mask_token": False,
                              "use_absolute_position_embeddings": True, "use_mean_pooling": True, **TOWER,
                              **spec["vision"]}}


def own_config(spec: dict) -> dict:
    vision = dict(spec["vision"])
    return {"architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": 0.5,
            "dynamic_image_size": True, "force_image_size": TILE, "max_dynamic_patch": TILES, "min_dynamic_patch": 1,
            "pad2square": False, "ps_version": "v2", "select_layer": -1, "system_message": None,
            "template": "internvl2_5", "tie_word_embeddings": False, "use_backbone_lora": 0, "use_llm_lora": 0,
            "use_thumbnail": True, "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "llm_config": {**spec["text"], "hidden_act": "silu", "bos_token_id": 460, "eos_token_id": 462},
            "vision_config": {"architectures": ["InternVisionModel"], "model_type": "intern_vit_6b",
                              "image_size": TILE, "patch_size": 14, "qkv_bias": vision.pop("attention_bias"),
                              "qk_normalization": vision.pop("use_qk_norm"), "use_flash_attn": False, **TOWER,
                              **vision}}


# transformers' names to OpenGVLab's.
OWN_NAMES = [("model.vision_tower.embeddings.cls_token", "vision_model.embeddings.class_embedding"),
             ("model.vision_tower.embeddings.position_embeddings", "vision_model.embeddings.position_embedding"),
             ("model.vision_tower.embeddings.patch_embeddings.projection", "vision_model.embeddings.patch_embedding"),
             ("model.vision_tower.encoder.layer", "vision_model.encoder.layers"),
             (".attention.projection_layer", ".attn.proj"), (".attention.q_norm", ".attn.q_norm"),
             (".attention.k_norm", ".attn.k_norm"), (".layernorm_before", ".norm1"), (".layernorm_after", ".norm2"),
             (".lambda_1", ".ls1"), (".lambda_2", ".ls2"), ("model.multi_modal_projector.layer_norm", "mlp1.0"),
             ("model.multi_modal_projector.linear_1", "mlp1.1"), ("model.multi_modal_projector.linear_2", "mlp1.3"),
             ("model.language_model.", "language_model.model."), ("lm_head", "language_model.lm_head")]


def own_tensors(tensors: dict) -> dict:
    joined = {}
    for name, tensor in tensors.items():
        if ".attention.q_proj" in name:
            parts = [tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            name, tensor = name.replace(".attention.q_proj", ".attn.qkv"), torch.cat(parts)
        elif ".attention.k_proj" in name or ".attention.v_proj" in name:
            continue
        for old, new in OWN_NAMES:
            name = name.replace(old, new)
        joined[name] = tensor.contiguous()
    return joined


def own_rendering(messages: list) -> str:
    """The original's conversation "internvl2_5", images numbered where there are several as in the models' cards."""
    text = "" if messages[0]["role"] == "system" else f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
    several, seen = sum(part["type"] == "image" for each in messages for part in each["content"]) > 1, 0
    for message in messages:
        text += f"<|im_start|>{message['role']}\n"
        for part in message["content"]:
            if part["type"] == "image":
                seen += 1
                text += f"Image-{seen}: <IMG_CONTEXT>\n" if several else "<IMG_CONTEXT>\n"
            elif part["type"] == "video":
                text += "<video>\n"
            else:
                text += part["text"]
        text += "<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


class Both:
    """One model in both forms."""

    def __init__(self, name: str, spec: dict):
        self.hf, self.own = f"hf{name}", f"own{name}"
        for form in (self.hf, self.own):
            golden.fresh(OUT / form)
        internvl2.write_small_files(OUT / self.hf, SPECIAL, "<|im_end|>", {
            "crop_to_patches": False, "do_convert_rgb": True, "do_normalize": True, "do_rescale": True,
            "do_resize": True, "image_mean": internvl2.MEAN, "image_std": internvl2.STD,
            "image_processor_type": "GotOcr2ImageProcessorFast", "max_patches": TILES, "min_patches": 1,
            "processor_class": "InternVLProcessor", "resample": 3, "rescale_factor": 0.00392156862745098,
            "size": {"height": TILE, "width": TILE}})
        internvl2.write_small_files(OUT / self.own, SPECIAL, "<|im_end|>", {
            "crop_size": TILE, "do_center_crop": True, "do_normalize": True, "do_resize": True,
            "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": internvl2.MEAN,
            "image_std": internvl2.STD, "resample": 3, "size": TILE})
        golden.write_json(OUT / self.hf / "chat_template.json", {"chat_template": internvl2_current.CHAT_TEMPLATE})
        golden.write_json(OUT / self.hf / "config.json", hf_config(spec))
        golden.write_json(OUT / self.own / "config.json", own_config(spec))
        model = InternVLForConditionalGeneration(InternVLConfig(**json.loads(json.dumps(hf_config(spec)))))
        internvl2.condition(model, spec["seed"])
        model = model.to(spec["dtype"])
        with tempfile.TemporaryDirectory() as scratch:
            for original in (True, False):
                model.save_pretrained(Path(scratch) / str(original), save_original_format=original)
            current = Path(scratch) / "False"
            (OUT / self.hf / "model.safetensors").write_bytes((current / "model.safetensors").read_bytes())
            golden.write_json(OUT / self.hf / "other_form/config.json",
                              json.loads((current / "config.json").read_text()))
            golden.write_json(OUT / self.hf / "other_form/names.json",
                              golden.other_names(OUT / self.hf, Path(scratch) / "True"))
        weights = golden.save(own_tensors(golden.read_tensors(OUT / self.hf)), {"format": "pt"})
        (OUT / self.own / "model.safetensors").write_bytes(weights)
        self.model = internvl2_current.load(OUT / self.hf)
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(OUT / self.hf / "tokenizer.json"))
        self.processor = GotOcr2ImageProcessorPil.from_pretrained(OUT / self.hf)

    def tiles(self, picture: str) -> list:
        image = np.array(Image.open(OUT / "images" / picture).convert("RGB")).transpose(2, 0, 1)
        patches = self.processor.crop_image_to_patches(
            image, 1, TILES, use_thumbnail=True, patch_size=SizeDict(height=TILE, width=TILE),
            resample=PILImageResampling.BICUBIC)
        return [patch.transpose(1, 2, 0) for patch in patches]

    def hf_rendering(self, messages: list) -> str:
        return self.tokenizer.apply_chat_template(
            messages, chat_template=internvl2_current.CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)

    @torch.no_grad()
    def record(self, form: str, render, case: str, turns: list) -> None:
        names = internvl2.images_of(turns)
        stacks = [(name, self.tiles(name)) for name in names]
        pictures = [Image.open(OUT / "images" / name).convert("RGB") for name in names]
        images = {}
        if pictures:
            batch = self.processor(pictures, crop_to_patches=True, return_tensors="pt")
            assert [int(count) for count in batch["num_patches"]] == [len(tiles) for _, tiles in stacks]
            images = {"pixel_values": batch["pixel_values"]}

        def forward(ids: list) -> torch.Tensor:
            return self.model(input_ids=torch.tensor([ids]), use_cache=False, **images).logits

        for word in golden.WORDS:
            messages = internvl2.make_messages(turns, word)
            rendered = render(messages)
            parts = rendered.split("<IMG_CONTEXT>")
            text = parts[0] + "".join(f"<img>{'<IMG_CONTEXT>' * (SIDE * len(tiles))}</img>{part}"
                                      for (_, tiles), part in zip(stacks, parts[1:], strict=True))
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            try:
                tokens, gap = golden.greedy(lambda so_far: forward(so_far)[:, -1], ids)
            except ValueError as error:  # the answer has a placeholder of its own
                print(f"  {case} ({word}): {error}", flush=True)
                continue
            print(f"  {form} {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
            if gap >= golden.MIN_GAP:
                break
        else:
            raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

        taps = golden.Taps()
        if pictures:
            tower = self.model.model.vision_tower
            taps.output("vision.patch_embed", tower.embeddings)
            for index, layer in enumerate(tower.encoder.layer):
                taps.output(f"vision.layer.{index}", layer)
            features = self.model.model.get_image_features(**images).pooler_output
            taps.values["vision.merged"] = features.reshape(-1, features.shape[-1]).float()
        taps.text(self.model.model.language_model)
        logits = forward(ids)[0, -3:]
        taps.close()
        internvl2.save_case(form, case, messages, rendered, ids, tokens, taps, logits, stacks, SIDE, pixels="tiles")


def main() -> None:
    torch.set_num_threads(1)
    golden.fresh(OUT)
    (OUT / "images").mkdir()
    for name, (width, height, seed) in golden.PICTURES.items():
        golden.picture(width, height, seed).save(OUT / "images" / name, optimize=True)
    for name, spec in CHECKPOINTS.items():
        both = Both(name, spec)
        for case, turns in golden.CASES.items():
            both.record(both.hf, both.hf_rendering, case, turns)
            both.record(both.own, own_rendering, case, turns)


if __name__ == "__main__":
    main()
