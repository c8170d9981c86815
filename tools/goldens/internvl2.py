"""Golden files of InternVL2: tests/golden/internvl2.

The original code is public, and needs an old transformers:

git clone https://github.com/OpenGVLab/InternVL ORIGINAL && git -C ORIGINAL checkout 2410d1dbf208f0e799459aff9376e5747dbf41a2
python3 -m venv O && O/bin/pip install -r tools/goldens/internvl2.requirements.txt
O/bin/python tools/goldens/internvl2.py ORIGINAL
python3 -m venv V && V/bin/pip install -r tools/goldens/requirements.txt && V/bin/python tools/goldens/internvl2_current.py

The first command makes three tiny random checkpoints with the original's classes, names and configuration:
  internlm2   InternLM2 text (grouped wqkv, dynamic NTK from 512 tokens on), a tower with LayerNorm and biased qkv
  big_tower   Qwen2 text, a tower as that of the 26B (RMSNorm, normed queries and keys, no bias of qkv) whose positions
              are interpolated from 4 x 4 to 6 x 6 and whose features are those of the last layer but one
  phi3        Phi-3 text as the 4B's (as many key heads as heads, fused weights, LongRoPE of type "su" from 224 tokens on)
Their answers are those of a full forward for every token. The second command makes a fourth with transformers' own class,
  current     transformers' names and configuration (InternVLForConditionalGeneration), Qwen2 text with a tied head
and checks that the same class, given the weights of the first three, answers as the original did.

In the case "beyond" the prompt is longer than 512 tokens. The original chooses its frequencies by the longest sequence that
it has met; here it is shown the length of prompt and answer first. The case "after_beyond" is a short prompt that comes
then, for which the original keeps those frequencies.
"""

import ast
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import golden
import tiny_tokenizer

OUT = Path(__file__).resolve().parents[2] / "tests/golden/internvl2"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<s>", "<video>"]
PHI3_SPECIAL = ["<|endoftext|>", "<|system|>", "<|end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<s>", "<|user|>",
                "<|assistant|>"]
BEYOND = {"beyond": [("user", ["Compare the first {} with the second and the third. It's the user's question. " * 20])],
          "after_beyond": [("user", ["square.png", "Where is the {}?"])]}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

CHECKPOINTS = {
    "internlm2": dict(
        seed=41, dtype=torch.bfloat16, shard="1GB", tile=56, cases={**golden.CASES, **BEYOND},
        template="internlm2-chat", begin="<s>", config=dict(max_dynamic_patch=6, select_layer=-1),
        llm=dict(architectures=["InternLM2ForCausalLM"], model_type="internlm2", bias=False, hidden_act="silu",
                 hidden_size=96, intermediate_size=112, num_hidden_layers=3, num_attention_heads=6,
                 num_key_value_heads=2, vocab_size=481, max_position_embeddings=512, rms_norm_eps=1e-5,
                 rope_scaling={"factor": 2.0, "type": "dynamic"}, rope_theta=10000, tie_word_embeddings=False),
        vision=dict(hidden_size=48, intermediate_size=76, num_hidden_layers=3, num_attention_heads=3, image_size=56,
                    norm_type="layer_norm", qk_normalization=False, qkv_bias=True)),
    "big_tower": dict(
        seed=42, dtype=torch.float16, shard="400KB", tile=84, cases=golden.CASES, template="Hermes-2",
        begin="", config=dict(max_dynamic_patch=4, select_layer=-2),
        llm=dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", hidden_size=72,
                 intermediate_size=88, num_hidden_layers=4, num_attention_heads=3, num_key_value_heads=1,
                 vocab_size=480, max_position_embeddings=2048, rms_norm_eps=1e-6, rope_theta=10000.0,
                 tie_word_embeddings=False, use_sliding_window=False),
        vision=dict(hidden_size=80, intermediate_size=96, num_hidden_layers=3, num_attention_heads=5, image_size=56,
                    norm_type="rms_norm", qk_normalization=True, qkv_bias=False)),
    "phi3": dict(
        seed=44, dtype=torch.bfloat16, shard="1GB", tile=56, cases=golden.CASES, template="phi3-chat",
        special=PHI3_SPECIAL, begin="<s>", config=dict(max_dynamic_patch=4, select_layer=-1),
        llm=dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", hidden_size=72,
                 intermediate_size=88, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3,
                 vocab_size=481, max_position_embeddings=2048, original_max_position_embeddings=224,
                 rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=4096, pad_token_id=460,
                 rope_scaling={"long_factor": [round(1 + 1.7 * i, 3) for i in range(12)],
                               "short_factor": [round(1 + 0.15 * i, 3) for i in range(12)], "type": "su"},
                 tie_word_embeddings=False),
        vision=dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2, image_size=56,
                    norm_type="layer_norm", qk_normalization=False, qkv_bias=True)),
}


def condition(model: torch.nn.Module, seed: int) -> None:
    """golden.condition, and what it does not know by name."""
    golden.condition(model, seed)
    generator = torch.Generator().manual_seed(seed + 1000)
    scales = {"tok_embeddings": 0.5, "embed_tokens": 0.15 if model.config.tie_word_embeddings else 0.5, "class": 0.5,
              "cls_token": 0.5, "position_embedding": 0.3}
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            scale = next((scales[part] for part in scales if part in name), None)
            if scale is None and ("language_model.output" in name or "lm_head" in name):
                scale = 3.0 / parameter.shape[1] ** 0.5
            if scale is not None:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def make_messages(turns: list, word: str) -> list:
    return [{"role": role, "content": [
        {"type": "image"} if part in golden.PICTURES else {"type": "text", "text": part.replace("{}", word)}
        for part in parts]} for role, parts in turns]


def images_of(turns: list) -> list:
    return [part for _, parts in turns for part in parts if part in golden.PICTURES]


def normalize(tiles: list) -> torch.Tensor:
    """[tiles, 3, side, side], as torchvision's ToTensor and Normalize."""
    pixels = torch.from_numpy(np.stack([np.asarray(tile) for tile in tiles])).permute(0, 3, 1, 2).float() / 255
    return (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def write_small_files(directory: Path, special: list, end: str, extra: dict) -> None:
    tokenizer = tiny_tokenizer.byte_level_bpe(tiny_tokenizer.QWEN2_PATTERN, special, 460, nfc=True)
    tiny_tokenizer.write_tokenizer(tokenizer, special, directory, {
        "bos_token": None, "eos_token": end, "pad_token": "<|endoftext|>", "unk_token": None,
        "model_max_length": 2048, "tokenizer_class": "Qwen2Tokenizer"})
    golden.write_json(directory / "generation_config.json", {"eos_token_id": [462, 460]})
    golden.write_json(directory / "preprocessor_config.json", extra)


def save_case(name: str, case: str, messages: list, rendered: str, ids: list, tokens: list, taps: golden.Taps,
              logits: torch.Tensor, stacks: dict, side: int, more: dict | None = None, pixels: str = "") -> None:
    tensors = golden.pack_rows({**taps.values, "logits": logits})
    tensors["ids"] = torch.tensor(ids, dtype=torch.int32)
    tensors["positions"] = torch.arange(len(ids), dtype=torch.int32)[None]
    tensors["greedy"] = torch.tensor(tokens, dtype=torch.int32)
    described = []
    for picture, tiles in stacks:
        file = f"pixels/{pixels or name}_{picture}"
        (OUT / "pixels").mkdir(exist_ok=True)
        Image.fromarray(np.concatenate([np.asarray(tile) for tile in tiles])).save(OUT / file, optimize=True)
        described.append({"source": f"../../images/{picture}", "pixels": f"../../{file}",
                          "grid": [len(tiles), side, side]})
    golden.save_golden(OUT / name / "golden" / f"{case}.safetensors", tensors, [*taps.values, "logits"], {
        "family": "internvl2", "case": case, "messages": messages, "rendered": rendered, "images": described,
        **(more or {})})


def text_model(spec: dict):
    return spec["llm"]["architectures"][0]


class Original:
    """One checkpoint in OpenGVLab's classes."""

    def __init__(self, checkout: Path, name: str, spec: dict):
        from internvl.conversation import get_conv_template
        from internvl.model.internvl_chat.configuration_internvl_chat import InternVLChatConfig
        from internvl.model.internvl_chat.modeling_internvl_chat import InternVLChatModel
        from transformers import PreTrainedTokenizerFast

        self.name, self.spec, self.conversation = name, spec, get_conv_template
        self.longest = 0  # tokens of prompt and answer, of the cases so far
        self.directory = golden.fresh(OUT / name)
        self.preprocess = tiling_of(checkout)
        special = spec.get("special", SPECIAL)
        write_small_files(self.directory, special, special[2], {
            "crop_size": spec["tile"], "do_center_crop": True, "do_normalize": True, "do_resize": True,
            "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": MEAN, "image_std": STD, "resample": 3,
            "size": spec["tile"]})
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(self.directory / "tokenizer.json"))
        config = {
            "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": 0.5,
            "dynamic_image_size": True, "force_image_size": spec["tile"], "min_dynamic_patch": 1, "ps_version": "v2",
            "template": spec["template"], "use_backbone_lora": 0, "use_llm_lora": 0, "use_thumbnail": True,
            "torch_dtype": str(spec["dtype"]).removeprefix("torch."), **spec["config"],
            "llm_config": {"bos_token_id": 466, "eos_token_id": 462, **spec["llm"]},
            "vision_config": {"architectures": ["InternVisionModel"], "model_type": "intern_vit_6b",
                              "hidden_act": "gelu", "layer_norm_eps": 1e-6, "num_channels": 3, "patch_size": 14,
                              "use_flash_attn": False, **spec["vision"]}}
        golden.write_json(self.directory / "config.json", config)
        model = InternVLChatModel(InternVLChatConfig(**json.loads(json.dumps(config))), use_flash_attn=False)
        condition(model, spec["seed"])
        for parameter in model.parameters():  # and not the buffers of the rotary embedding
            parameter.data = parameter.data.to(spec["dtype"])
        with tempfile.TemporaryDirectory() as scratch:
            model.save_pretrained(scratch, max_shard_size=spec["shard"], safe_serialization=True)
            for file in Path(scratch).glob("model*"):
                (self.directory / file.name).write_bytes(file.read_bytes())
        self.model = model.float().eval()

    def render(self, messages: list) -> str:
        conversation = self.conversation(self.spec["template"])
        conversation.messages = []
        several = sum(part["type"] == "image" for message in messages for part in message["content"]) > 1
        seen = 0
        for message in messages:
            text = ""
            for part in message["content"]:
                if part["type"] == "image":
                    seen += 1
                    text += f"Image-{seen}: <image>\n" if several else "<image>\n"
                else:
                    text += part["text"]
            if message["role"] == "system":
                conversation.system_message = text
            else:
                conversation.append_message(conversation.roles[message["role"] == "assistant"], text)
        conversation.append_message(conversation.roles[1], None)
        return self.spec["begin"] + conversation.get_prompt()

    def tiles(self, picture: str) -> list:
        image = Image.open(OUT / "images" / picture).convert("RGB")
        return self.preprocess(image, min_num=1, max_num=self.spec["config"]["max_dynamic_patch"],
                               image_size=self.spec["tile"], use_thumbnail=True)

    def prepare_rope(self, length: int) -> None:
        if text_model(self.spec) != "InternLM2ForCausalLM":
            return
        for layer in self.model.language_model.model.layers:
            rope = layer.attention._init_rope()
            if length > rope.max_seq_len_cached:
                rope._set_cos_sin_cache(length, "cpu", torch.float32)

    @torch.no_grad()
    def record(self, case: str, turns: list) -> range:
        """Lengths of the sequences whose last row is a token of the answer."""
        stacks = [(picture, self.tiles(picture)) for picture in images_of(turns)]
        pixels = normalize([tile for _, tiles in stacks for tile in tiles]) if stacks else None
        features = self.model.extract_feature(pixels) if stacks else None

        def forward(ids: list) -> torch.Tensor:
            ids = torch.tensor([ids])
            embedded = self.model.language_model.get_input_embeddings()(ids).clone()
            if stacks:
                embedded[ids == 465] = features.reshape(-1, embedded.shape[-1])
            return self.model.language_model(inputs_embeds=embedded, use_cache=False).logits

        for word in golden.WORDS:
            messages = make_messages(turns, word)
            rendered = self.render(messages)
            query = rendered
            for _, tiles in stacks:
                query = query.replace(
                    "<image>", "<img>" + "<IMG_CONTEXT>" * (self.model.num_image_token * len(tiles)) + "</img>", 1)
            ids = self.tokenizer(query, add_special_tokens=False)["input_ids"]
            length = max(self.longest, len(ids) + golden.GREEDY_TOKENS)
            self.prepare_rope(length)
            tokens, gap = golden.greedy(lambda so_far: forward(so_far)[:, -1], ids)
            print(f"  {case} ({word}): {len(ids)} tokens, gap {gap:.1e}, {len(set(tokens))} distinct", flush=True)
            if gap >= golden.MIN_GAP:
                break
        else:
            raise SystemExit(f"{case}: every prompt comes near a tie; change the seed")

        taps = golden.Taps()
        if stacks:
            tower = self.model.vision_model
            taps.output("vision.patch_embed", tower.embeddings)
            used = len(tower.encoder.layers) + 1 + self.spec["config"]["select_layer"]
            for index in range(used):
                taps.output(f"vision.layer.{index}", tower.encoder.layers[index])
            merged = self.model.extract_feature(pixels)
            taps.values["vision.merged"] = merged.reshape(-1, merged.shape[-1]).float()
        taps.text(self.model.language_model.model)
        logits = forward(ids)[0, -3:]
        taps.close()
        self.longest = length
        own, trained = len(ids) + len(tokens), self.spec["llm"]["max_position_embeddings"]
        save_case(self.name, case, messages, rendered.replace("<image>", "<IMG_CONTEXT>"), ids, tokens, taps, logits,
                  stacks, self.spec["tile"] // 14, {"rope_length": length} if length > max(own, trained) else None)
        return range(len(ids), own)


def tiling_of(checkout: Path):
    """dynamic_preprocess of the original, without the training code around it."""
    tree = ast.parse((checkout / "internvl_chat/internvl/train/dataset.py").read_text())
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef)
              and node.name in ("find_closest_aspect_ratio", "dynamic_preprocess")]
    namespace: dict = {}
    exec(compile(ast.Module(wanted, []), "dataset.py", "exec"), namespace)
    return namespace["dynamic_preprocess"]


def make_original(checkout: Path) -> None:
    sys.path.insert(0, str(checkout / "internvl_chat"))
    golden.fresh(OUT / "images")
    golden.fresh(OUT / "pixels")
    for name, (width, height, seed) in golden.PICTURES.items():
        golden.picture(width, height, seed).save(OUT / "images" / name, optimize=True)
    for name, spec in CHECKPOINTS.items():
        print(name)
        reference = Original(checkout, name, spec)
        lengths = [reference.record(case, turns) for case, turns in spec["cases"].items()]
        if short := spec["llm"].get("original_max_position_embeddings"):
            assert any(each[-1] <= short for each in lengths), f"every answer grows over {short} tokens: {lengths}"
            assert any(each[0] <= short < each[-1] for each in lengths), f"none grows over it: {lengths}"
            assert any(each[0] > short for each in lengths), f"no prompt begins over it: {lengths}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_original(Path(sys.argv[1]))
