"""The half of internvl2.py that runs on current transformers: the checkpoint "current", and a second opinion on those
of the original code."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from transformers import InternVLConfig, InternVLForConditionalGeneration
from transformers.image_utils import PILImageResampling, SizeDict
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

import golden
import internvl2

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '<IMG_CONTEXT>\\n' -}}"
    "{%- elif part['type'] == 'video' -%}{{- '<video>\\n' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
TILE = 56
CURRENT = {
    "architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl", "downsample_ratio": 0.5,
    "image_seq_length": 4, "image_token_id": 465, "projector_hidden_act": "gelu", "vision_feature_layer": -1,
    "vision_feature_select_strategy": "default", "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "text_config": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "bos_token_id": 460,
                    "eos_token_id": 462, "hidden_size": 96, "intermediate_size": 80, "num_hidden_layers": 3,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 481, "rms_norm_eps": 1e-6,
                    "max_position_embeddings": 2048, "rope_theta": 10000.0, "tie_word_embeddings": True},
    "vision_config": {"model_type": "internvl_vision", "architectures": ["InternVLVisionModel"],
                      "attention_bias": True, "hidden_act": "gelu", "hidden_size": 64, "image_size": [TILE, TILE],
                      "intermediate_size": 88, "layer_norm_eps": 1e-6, "norm_type": "layer_norm",
                      "num_attention_heads": 4, "num_channels": 3, "num_hidden_layers": 2, "patch_size": [14, 14],
                      "use_absolute_position_embeddings": True, "use_mask_token": False, "use_mean_pooling": True,
                      "use_qk_norm": False}}


def write_current(directory: Path) -> InternVLForConditionalGeneration:
    golden.fresh(directory)
    internvl2.write_small_files(directory, internvl2.SPECIAL, "<|im_end|>", {
        "crop_to_patches": False, "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": internvl2.MEAN, "image_std": internvl2.STD, "image_processor_type": "GotOcr2ImageProcessor",
        "max_patches": 8, "min_patches": 1, "processor_class": "InternVLProcessor", "resample": 3,
        "rescale_factor": 0.00392156862745098, "size": {"height": TILE, "width": TILE}})
    golden.write_json(directory / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
    model = InternVLForConditionalGeneration(InternVLConfig(**json.loads(json.dumps(CURRENT))))
    internvl2.condition(model, 43)
    model = model.to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as scratch:
        forms = {True: Path(scratch) / "first", False: Path(scratch) / "current"}
        for original, path in forms.items():
            model.save_pretrained(path, save_original_format=original)
        for file in forms[False].glob("model*"):
            (directory / file.name).write_bytes(file.read_bytes())
        golden.write_json(directory / "config.json", json.loads((forms[False] / "config.json").read_text()))
        golden.write_json(directory / "other_form/config.json", CURRENT)
        golden.write_json(directory / "other_form/names.json", golden.other_names(directory, forms[True]))
    return load(directory)


def load(directory: Path) -> InternVLForConditionalGeneration:
    return InternVLForConditionalGeneration.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager").eval()


class Current:
    def __init__(self):
        self.directory = internvl2.OUT / "current"
        self.model = write_current(self.directory)
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(self.directory / "tokenizer.json"))
        self.processor = GotOcr2ImageProcessorPil.from_pretrained(self.directory)

    def tiles(self, picture: str) -> list:
        image = np.array(Image.open(internvl2.OUT / "images" / picture).convert("RGB")).transpose(2, 0, 1)
        patches = self.processor.crop_image_to_patches(
            image, 1, 8, use_thumbnail=True, patch_size=SizeDict(height=TILE, width=TILE),
            resample=PILImageResampling.BICUBIC)
        return [patch.transpose(1, 2, 0) for patch in patches]

    @torch.no_grad()
    def record(self, case: str, turns: list) -> None:
        names = internvl2.images_of(turns)
        stacks = [(name, self.tiles(name)) for name in names]
        pictures = [Image.open(internvl2.OUT / "images" / name).convert("RGB") for name in names]
        images = {}
        if pictures:
            batch = self.processor(pictures, crop_to_patches=True, return_tensors="pt")
            assert [int(count) for count in batch["num_patches"]] == [len(tiles) for _, tiles in stacks]
            images = {"pixel_values": batch["pixel_values"]}

        def forward(ids: list) -> torch.Tensor:
            return self.model(input_ids=torch.tensor([ids]), use_cache=False, **images).logits

        for word in golden.WORDS:
            messages = internvl2.make_messages(turns, word)
            rendered = self.tokenizer.apply_chat_template(
                messages, chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True)
            parts = rendered.split("<IMG_CONTEXT>")
            text = parts[0] + "".join(f"<img>{'<IMG_CONTEXT>' * (4 * len(tiles))}</img>{part}"
                                      for (_, tiles), part in zip(stacks, parts[1:], strict=True))
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            tokens, gap = golden.greedy(lambda so_far: forward(so_far)[:, -1], ids)
            print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
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
        internvl2.save_case("current", case, messages, rendered, ids, tokens, taps, logits, stacks, TILE // 14)


# --- the original's checkpoints in transformers' class ---

def text_config(llm: dict) -> dict:
    if llm["model_type"] == "qwen2":
        return llm
    if llm["model_type"] == "phi3":
        return {**llm, "rope_scaling": {**llm["rope_scaling"], "type": "longrope"}}
    wanted = ["hidden_act", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
              "num_key_value_heads", "vocab_size", "max_position_embeddings", "rms_norm_eps"]
    return {"model_type": "llama", "attention_bias": False, "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "dynamic", "factor": llm["rope_scaling"]["factor"],
                                "rope_theta": float(llm["rope_theta"])}, **{name: llm[name] for name in wanted}}


def renamed(name: str, tensor: torch.Tensor, llm: dict) -> dict:
    """The tensors of transformers' class that a tensor of the original is."""
    for old, new in [("vision_model.embeddings.class_embedding", "model.vision_tower.embeddings.cls_token"),
                     ("vision_model.embeddings.position_embedding", "model.vision_tower.embeddings.position_embeddings"),
                     ("vision_model.embeddings.patch_embedding", "model.vision_tower.embeddings.patch_embeddings.projection"),
                     ("vision_model.encoder.layers", "model.vision_tower.encoder.layer"),
                     (".attn.proj", ".attention.projection_layer"), (".attn.q_norm", ".attention.q_norm"),
                     (".attn.k_norm", ".attention.k_norm"), (".norm1", ".layernorm_before"),
                     (".norm2", ".layernorm_after"), (".ls1", ".lambda_1"), (".ls2", ".lambda_2"),
                     ("mlp1.0", "model.multi_modal_projector.layer_norm"),
                     ("mlp1.1", "model.multi_modal_projector.linear_1"),
                     ("mlp1.3", "model.multi_modal_projector.linear_2"), ("language_model.output", "lm_head"),
                     ("language_model.lm_head", "lm_head"), ("language_model.model", "model.language_model"),
                     ("tok_embeddings", "embed_tokens"), ("attention_norm", "input_layernorm"),
                     ("ffn_norm", "post_attention_layernorm"), ("attention.wo.", "self_attn.o_proj."),
                     ("feed_forward.w1", "mlp.gate_proj"), ("feed_forward.w3", "mlp.up_proj"),
                     ("feed_forward.w2", "mlp.down_proj")]:
        name = name.replace(old, new)
    if ".attn.qkv" in name:
        return {name.replace(".attn.qkv", f".attention.{part}_proj"): each
                for part, each in zip("qkv", tensor.chunk(3))}
    if "attention.wqkv" in name:
        heads, kv_heads = llm["num_attention_heads"], llm["num_key_value_heads"]
        groups = tensor.reshape(kv_heads, heads // kv_heads + 2, -1, tensor.shape[-1])
        parts = {"q": groups[:, :-2], "k": groups[:, -2], "v": groups[:, -1]}
        return {name.replace("attention.wqkv", f"self_attn.{part}_proj"): each.reshape(-1, tensor.shape[-1])
                for part, each in parts.items()}
    return {name: tensor}


def in_current_class(directory: Path) -> InternVLForConditionalGeneration:
    config = json.loads((directory / "config.json").read_text())
    vision, llm = config["vision_config"], config["llm_config"]
    ours = InternVLConfig(
        image_token_id=465, tie_word_embeddings=False, text_config=text_config(llm),
        vision_config={"attention_bias": vision["qkv_bias"], "use_qk_norm": vision["qk_normalization"],
                       "norm_type": vision["norm_type"], "layer_norm_eps": vision["layer_norm_eps"],
                       **{name: vision[name] for name in ["hidden_size", "num_hidden_layers", "num_attention_heads",
                                                          "intermediate_size", "image_size", "patch_size"]}})
    # Features of an inner layer are the last ones of a tower without the rest.
    unused = -1 - config["select_layer"]
    ours.vision_config.num_hidden_layers -= unused
    model = InternVLForConditionalGeneration._from_config(ours, attn_implementation="eager").float().eval()
    tensors = {}
    for name, tensor in golden.read_tensors(directory).items():
        tensors.update(renamed(name, tensor.float(), llm))
    outcome = model.load_state_dict(tensors, strict=False)
    assert not outcome.missing_keys, outcome.missing_keys
    beyond = f"encoder.layer.{ours.vision_config.num_hidden_layers}."
    assert all(beyond in name for name in outcome.unexpected_keys), outcome.unexpected_keys
    return model


@torch.no_grad()
def check_original(name: str) -> None:
    directory = internvl2.OUT / name
    llm = internvl2.CHECKPOINTS[name]["llm"]
    model = in_current_class(directory)
    for path in sorted((directory / "golden").glob("*.safetensors")):
        with safe_open(str(path), "pt") as file:
            about = json.loads(file.metadata()["golden"])
            ids, greedy, logits = (file.get_tensor(part) for part in ["ids", "greedy", "logits"])
        length = about.get("rope_length", len(ids) + len(greedy))
        rope = model.model.language_model.rotary_emb
        if llm.get("rope_scaling", {}).get("type") == "dynamic":
            rope.rope_type = "default"  # transformers would go back to the first frequencies for a short sequence
            rope.inv_freq, _ = ROPE_INIT_FUNCTIONS["dynamic"](model.config.text_config, "cpu", seq_len=length)
        images = {}
        if about["images"]:
            tiles = []
            for image in about["images"]:
                stack = np.asarray(Image.open(directory / "golden" / image["pixels"]))
                tiles += np.split(stack, image["grid"][0])
            images = {"pixel_values": internvl2.normalize(tiles)}
        tokens = torch.cat([ids, greedy])[None].long()
        answer = model(tokens, use_cache=False, **images).logits[0]
        short = llm.get("original_max_position_embeddings", 0)
        if len(ids) <= short < tokens.shape[1]:  # rows of sequences that are still short
            answer[:short] = model(tokens[:, :short], use_cache=False, **images).logits[0]
        prompt = answer[len(ids) - len(logits): len(ids)]
        error = float(((prompt - logits).abs().amax(-1) / logits.abs().amax(-1)).max())
        same = torch.equal(answer[len(ids) - 1: -1].argmax(-1).int(), greedy)
        print(f"  {name} {path.stem}: transformers' class differs by {error:.1e}, tokens equal: {same}", flush=True)
        assert error < 2e-5 and same


def make() -> None:
    reference = Current()
    for case, turns in golden.CASES.items():
        reference.record(case, turns)
    for name in internvl2.CHECKPOINTS:
        check_original(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make()
