"""A small byte-level BPE tokenizer with a family's pattern and special tokens, as tokenizer.json."""

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# What the merges are learnt from. Any text would do; this has capitals, digits, code and three scripts.
TEXT = [
    "A saccade is the jump of the eye from one point to the next.",
    "What is shown in this picture? Describe the picture in one sentence.",
    "The quick red square stands left of a blue circle, above the green line.",
    "How many squares are there? There are 12 squares and 345 lines.",
    "Compare the first image with the second image and the third image.",
    "for (int i = 0; i < rows; ++i) { total += values[i]; }",
    "Der Himmel über dem Haus ist heute grau und die Straße ist naß.",
    "Что изображено на картинке? На картинке изображён дом.",
    "这张图片里有什么？图片里有一座房子。",
    "It's the user's question; they're sure we've seen it, and I'd say you'll agree.",
]

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

QWEN2_VL_SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
]


def byte_level_bpe(pattern: str, special: list[str], vocab: int, nfc: bool) -> Tokenizer:
    """`vocab` learnt pieces (256 of them bytes), then the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(special)
    return tokenizer


def llama_bpe(special: list[str], vocab: int, rstrip: set[str]) -> Tokenizer:
    """SentencePiece's BPE as Llama's tokenizer.json says it: <unk>, <s>, </s>, 256 bytes, learnt pieces up to `vocab`,
    then the special tokens, those in `rstrip` with the spaces after them. <s> stands first."""
    spaces = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    learnt = Tokenizer(models.BPE())
    learnt.normalizer = spaces
    learnt.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    reserved = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    learnt.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=vocab - len(reserved), show_progress=False))
    model = json.loads(learnt.to_str())["model"]
    ids = {piece: index for index, piece in enumerate(reserved)}
    for piece in sorted(model["vocab"], key=model["vocab"].get):
        ids[piece] = len(ids)
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = spaces
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(reserved[:3])
    assert tokenizer.get_vocab_size() == vocab, tokenizer.get_vocab_size()
    tokenizer.add_special_tokens([AddedToken(each, rstrip=each in rstrip, normalized=False) for each in special])
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, special: list[str], directory: Path, extra: dict) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {
                "content": token, "lstrip": False, "normalized": False,
                "rstrip": tokenizer.get_added_tokens_decoder()[tokenizer.token_to_id(token)].rstrip,
                "single_word": False, "special": True,
            } for token in special
        },
        **extra,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n")
