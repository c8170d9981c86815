#!/usr/bin/env python3
"""Goldens for src/text: small tokenizers and what the `tokenizers` package does with odd strings.

  python3 -m venv V && V/bin/pip install -r tools/goldens/tokenizer_strings.requirements.txt
  V/bin/python tools/goldens/tokenizer_strings.py                      # rewrites tests/golden/tokenizers
  V/bin/python tools/goldens/tokenizer_strings.py --count 20000 --out /tmp/t   # many more, to check once with
  TOKENIZER_GOLDENS=/tmp/t build/dev/tests/saccade_text_test --gtest_filter='TokenizerGolden*'

Each kind is a folder: tokenizer.json (or tokenizer.model), and strings.jsonl with one case a line:
  {"text", "ids", "decoded"}   encode(text) == ids, decode(ids) == decoded (left out: equal to text);
                               "add": with special tokens added, "plain": special tokens not parsed
  {"ids", "decoded", "skip"}   decoding alone, of ids that no text gives; skip: without special tokens
"""
import argparse
import inspect
import io
import json
import pathlib
import random
import tempfile
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]

QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+")

# Sentences of our own, so that vocabularies and cases know more than English.
SENTENCES = [
    "The picture shows three boats on a lake, and a dog that doesn't care.",
    "Das Bild zeigt drei Boote auf einem See und einen Hund, dem's gleich ist.",
    "L'image montre trois bateaux sur un lac, et un chien à qui c'est égal.",
    "La imagen muestra tres barcos en un lago; ¿y el perro? Ni se entera.",
    "На снимке три лодки на озере и собака, которой всё равно.",
    "Η εικόνα δείχνει τρεις βάρκες σε μια λίμνη και έναν αδιάφορο σκύλο.",
    "图片里湖上有三条船，还有一只满不在乎的狗。",
    "写真には湖に浮かぶ三艘の船と、気にしない犬が写っています。",
    "사진에는 호수 위의 배 세 척과 무심한 개 한 마리가 있습니다.",
    "تُظهر الصورة ثلاثة قوارب في بحيرة وكلبًا لا يبالي.",
    "התמונה מראה שלוש סירות באגם וכלב אדיש.",
    "चित्र में झील पर तीन नावें हैं और एक कुत्ता जिसे परवाह नहीं।",
    "ภาพนี้มีเรือสามลำในทะเลสาบและสุนัขที่ไม่สนใจ",
    "Bức ảnh có ba chiếc thuyền trên hồ và một con chó thờ ơ.",
    "Resimde gölde üç tekne ve umursamayan bir köpek var. İstanbul'da ılık.",
    "def area(w, h):\n    return w * h  # pixels\n\n\nprint(area(640, 480))\n",
    "{\"width\": 1024, \"ratio\": 0.75, \"name\": \"caf\\u00e9 \\ud83d\\ude00\"}",
    "x² + y² = r²; ½ ≈ 0.5; Ⅻ = 12; ①②③ ٣٤٥ १२३ ３４５",
    "https://example.org/a?b=c&d=%20e#f  user@example.org  +49 30 123456",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ 🏳️‍🌈 ☃",
]

CHAT_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]


def corpus():
    """Docstrings of the standard library, and the sentences above."""
    names = ("argparse ast asyncio collections csv datetime decimal email functools http inspect io itertools json "
             "logging os pathlib pickle random re sqlite3 string subprocess tarfile textwrap typing unittest zipfile")
    texts = []
    for name in names.split():
        module = __import__(name)
        members = [module, *(m for _, m in sorted(inspect.getmembers(module)) if inspect.isclass(m) or callable(m))]
        for member in members:
            text = inspect.getdoc(member)
            if text and text not in texts:
                texts.append(text)
    return texts + SENTENCES * 12


# ---------------------------------------------------------------------------------------------- the kinds


def byte_level_trainer(size, special):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def qwen2(texts):
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.train_from_iterator(texts, byte_level_trainer(1800, []))
    tok.add_special_tokens([AddedToken(t, special=True) for t in CHAT_TOKENS])
    return tok.to_str()


def llama3(texts):
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts, byte_level_trainer(1500, []))
    tok.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>"])
    begin = tok.token_to_id("<|begin_of_text|>")
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    # Tokens that no merges lead to: ignore_merges finds them all the same.
    file = json.loads(tok.to_str())
    file["model"]["merges"] = [m for i, m in enumerate(file["model"]["merges"]) if i % 9 != 5 or i < 60]
    return json.dumps(file, ensure_ascii=False)


def gpt2(texts):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts, byte_level_trainer(1200, ["<|endoftext|>"]))
    end = tok.token_to_id("<|endoftext|>")
    tok.post_processor = processors.RobertaProcessing(("<|endoftext|>", end), ("<|endoftext|>", end))
    tok.add_tokens([AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True),
                    AddedToken("<both>", lstrip=True, rstrip=True, special=True),
                    AddedToken("boat", single_word=True), AddedToken("boatyard", single_word=True, normalized=False),
                    AddedToken("<le", normalized=False), AddedToken("ght> <ri", normalized=False)])
    file = json.loads(tok.to_str())
    file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]  # as files before 0.20 have them
    return json.dumps(file, ensure_ascii=False)


def deepseek(texts):
    """Several cuts in a row, and an alphabet that lacks some bytes."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tok.normalizer = normalizers.Sequence([])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[\r\n]"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{L}+"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{P}+"), "isolated"),
        pre_tokenizers.Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts, byte_level_trainer(1300, ["<unk>"]))
    tok.add_special_tokens(["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>"])
    file = json.loads(tok.to_str())
    model = file["model"]
    gone = {c for c in pre_tokenizers.ByteLevel.alphabet() if ord(c) % 11 == 3 and not c.isascii()}
    kept = [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if not gone & set(t)]
    model["vocab"] = {t: i for i, t in enumerate(kept)}
    model["merges"] = [m for m in model["merges"] if not gone & set("".join(m))]
    for i, token in enumerate(file["added_tokens"]):
        token["id"] = model["vocab"].get(token["content"], len(kept) + i - 1)
    return json.dumps(file, ensure_ascii=False)


O200K_PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
                 r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
                 r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def o200k(texts):
    """The newer pattern, cut out by what it matches: removed, inverted."""
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"[\t\x0b]+"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(O200K_PATTERN), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.Sequence([decoders.ByteLevel()])
    tok.train_from_iterator(texts, byte_level_trainer(1400, []))
    tok.add_special_tokens(["<|begin_of_text|>", "<|eot|>"])
    return tok.to_str()


def sentencepiece_bpe(texts, size):
    """Pieces and merges as SentencePiece's BPE has them: U+2581 for spaces, bytes for what is rare."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=special, limit_alphabet=180,
                                                       show_progress=False))
    file = json.loads(tok.to_str())
    file["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(file))


def begin_template(tok, token):
    return processors.TemplateProcessing(single=f"{token}:0 $A:0", pair=f"{token}:0 $A:0 {token}:1 $B:1",
                                         special_tokens=[(token, tok.token_to_id(token))])


def llama2(texts):
    tok = sentencepiece_bpe(texts, 1500)
    tok.pre_tokenizer = None
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = begin_template(tok, "<s>")
    tok.add_special_tokens([AddedToken(t, normalized=True, special=True) for t in ("<unk>", "<s>", "</s>")])
    return tok.to_str()


def phi3(texts):
    tok = sentencepiece_bpe(texts, 1400)
    tok.pre_tokenizer = None
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = begin_template(tok, "<s>")
    tok.add_special_tokens([AddedToken("<unk>", special=True), AddedToken("<s>", special=True),
                            AddedToken("</s>", rstrip=True, special=False),
                            AddedToken("<|endoftext|>", special=True)] +
                           [AddedToken(t, rstrip=True, special=True) for t in
                            ("<|assistant|>", "<|system|>", "<|end|>", "<|user|>")])
    return tok.to_str()


def mistral(texts):
    """Metaspace at the first piece only, not cut."""
    tok = sentencepiece_bpe(texts, 1300)
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = begin_template(tok, "<s>")
    tok.add_special_tokens(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])
    return tok.to_str()


def gemma(texts):
    tok = sentencepiece_bpe(texts, 1600)
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.post_processor = begin_template(tok, "<s>")
    tok.add_special_tokens(["<unk>", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>"])
    tok.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("▁▁▁", normalized=False),
                    AddedToken("<loc0001>", normalized=True)])
    return tok.to_str()


def charsmap_rules():
    """Some hundred rules of NFKC, and some of ours, as SentencePiece's trainer reads them."""
    sources = [chr(c) for low, high in ((0xA0, 0x100), (0xFB00, 0xFB07), (0xFF01, 0xFF5F), (0x2460, 0x2470), (0x2100, 0x2140),
                                        (0x3300, 0x3310), (0xFF66, 0xFF9E)) for c in range(low, high)]
    sources += [base + mark for base in "aeiouncAEIOUNC" for mark in "\u0300\u0301\u0302\u0303\u0308\u0327"]
    rules = {s: unicodedata.normalize("NFKC", s) for s in sources}
    rules.update({"\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\u00ad": "", "\u3000": " ", "\u2581": " ", "Ⅷ": "VIII"})
    return "".join("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in rule) + "\n"
                   for rule in rules.items() if rule[0] != rule[1])


def train_sentencepiece(texts, **options):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        if options.get("normalization_rule_tsv"):
            rules.write(charsmap_rules())
            rules.flush()
            options["normalization_rule_tsv"] = rules.name
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for text in texts for line in text.splitlines() if line.strip()), model_writer=model,
            hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return model.getvalue()


def small_charsmap():
    return field(field(train_sentencepiece(SENTENCES * 5, vocab_size=450, normalization_rule_tsv=True), 3), 2)


def field(message, number):
    """The bytes of a length-delimited field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            varint()
        elif tag & 7 in (1, 5):
            at += 8 if tag & 7 == 1 else 4
        else:
            size = varint()
            if tag >> 3 == number:
                return message[at:at + size]
            at += size
    raise KeyError(number)


def t5(texts):
    """Unigram with SentencePiece's own normalisation."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(small_charsmap()), normalizers.Strip(left=False, right=True),
                                           normalizers.Replace(Regex(" {2,}"), "▁")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tok.decoder = decoders.Metaspace(prepend_scheme="always")
    tok.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=1200, special_tokens=["<pad>", "</s>", "<unk>"],
                                                           unk_token="<unk>", show_progress=False))
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                       special_tokens=[("</s>", tok.token_to_id("</s>"))])
    tok.add_special_tokens(["<extra_id_0>", "<extra_id_1>"])
    return tok.to_str()


def unigram_bytes(texts):
    """Unigram with byte fallback and no cutting, after NFKC and Nmt."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Lowercase()])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=1100, special_tokens=special, unk_token="<unk>",
                                                           max_piece_length=9, show_progress=False))
    file = json.loads(tok.to_str())
    file["model"]["byte_fallback"] = True
    file["added_tokens"] = file["added_tokens"][:2]
    return json.dumps(file, ensure_ascii=False)


def bert(texts, lowercase=True):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(cleanup=lowercase)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=2000 if lowercase else 1500,
                                                             special_tokens=special, show_progress=False))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(t, tok.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    tok.add_tokens([AddedToken("Lake", single_word=True)])
    return tok.to_str()


def bert_cased(texts):
    file = json.loads(bert(texts, lowercase=False))
    file["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    file["normalizer"]["strip_accents"] = None
    return json.dumps(file, ensure_ascii=False)


def word_level(texts):
    tok = Tokenizer(models.WordLevel(unk_token="[?]"))
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(),
        pre_tokenizers.Split("o", "merged_with_next"), pre_tokenizers.FixedLength(4)])
    tok.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=1500, special_tokens=["[?]"], show_progress=False))
    tok.add_special_tokens(["<end>"])
    return tok.to_str()


KINDS = {"qwen2": qwen2, "llama3": llama3, "gpt2": gpt2, "deepseek": deepseek, "o200k": o200k,
         "llama2": llama2, "phi3": phi3, "mistral": mistral, "gemma": gemma, "t5": t5, "unigram_bytes": unigram_bytes,
         "bert": bert, "bert_cased": bert_cased, "word_level": word_level}


def model_bpe(texts):
    """As Llama 2's: no normalisation, digits apart, bytes for what is rare."""
    return train_sentencepiece(texts, model_type="bpe", vocab_size=1200, character_coverage=0.99, byte_fallback=True,
                               split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                               allow_whitespace_only_pieces=True)


def model_unigram(texts):
    return train_sentencepiece(texts, model_type="unigram", vocab_size=1000, character_coverage=0.98,
                               normalization_rule_tsv=True, user_defined_symbols=["<ctrl>", "▁▁lake"])


MODEL_KINDS = {"model_bpe": model_bpe, "model_unigram": model_unigram}  # tokenizer.model files

# -------------------------------------------------------------------------------------------- odd strings

# Assigned since Unicode 12 or longer, so that every library's tables know them.
BLOCKS = [(0x20, 0x7E)] * 4 + [
    (0xA0, 0x17F), (0x180, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x58F), (0x590, 0x5F4),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1E00, 0x1EFF),
    (0x1F00, 0x1FFE), (0x2000, 0x206F), (0x2070, 0x209C), (0x20A0, 0x20BF), (0x20D0, 0x20F0), (0x2100, 0x218B),
    (0x2190, 0x22FF), (0x2460, 0x24FF), (0x2600, 0x27BF), (0x3000, 0x303F), (0x3041, 0x30FF), (0x3105, 0x312F),
    (0x3200, 0x33FF), (0x4E00, 0x9FEF), (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xF900, 0xFAD9),
    (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFE30, 0xFE4F), (0xFF01, 0xFFEE), (0xFFF9, 0xFFFD), (0x10330, 0x1034A),
    (0x1D400, 0x1D7FF), (0x1F000, 0x1F02B), (0x1F1E6, 0x1F1FF), (0x1F300, 0x1F64F), (0x1F680, 0x1F6D5),
    (0x1F900, 0x1F971), (0x20000, 0x20FFF), (0xE0020, 0xE007F), (0xF0000, 0xF00FF), (0x10FF00, 0x10FFFD)]
SPACES = ["  ", "   ", " " * 9, "\n", "\r\n", "\r", "\n\n", "\t", " \n ", "\t\t ", "\u00a0", "\u2003", "\u3000", "\u2028",
          "\u200b", "\u200d", "\ufeff", "\u180e", "\x85", "\x0b", "\x0c", "\x1c", "\x00", "\x1f", "\x7f", "\u1680"]
BITS = ["'s", "'S", "'re", "'LL", "'ll", "'ſ", "'ve", "’s", "don't", "I'M", "_", "__init__", "->", "...", "!!!", "?!", "--",
        "0", "1", "12", "123", "1234", "12345678901", "3.14", "1,000", "0x1F", "٠١٢", "五", "½", "²", "a", "I", "K", "ß", "ﬁ",
        "İ", "ı", "Σίσυφος", "e\u0301", "n\u0303o", "a\u0323\u0302", "\u1e9b\u0323", "\u212b", "\u1100\u1161\u11a8", "각",
        "q\u0307\u0323", "\u0344", "\u0958", "\ufb1d", "한국어", "中文", "日本", "ไทย", "नमस्ते", "العربية", "עברית", "👍🏽", "👨‍👩‍👧",
        "🇫🇷", "☕️", "\ud83d\\ude00"[1:], "\\ud83d\\ude00", "\\ud800", "\\u0041", "\\n", "%20", "&amp;", "<b>", "</s>", "<s>",
        "<unk>", "<pad>", "[CLS]", "[MASK]", "▁", "▁▁the", "##ing", "<0x0A>", "<0xE2>", "Ġ", "Ċ", "¡"]


def pieces_of(special, vocabulary):
    words = [w for s in SENTENCES for w in s.split(" ")]

    def random_characters(rng):
        low, high = rng.choice(BLOCKS)
        count = rng.choice((1, 1, 2, 3, 5))
        made = [chr(rng.randint(low, high)) for _ in range(count)]
        return "".join(c for c in made if unicodedata.category(c) != "Cn")

    def special_token(rng):
        token = rng.choice(special)
        if rng.random() < 0.2:  # nearly one
            at = rng.randrange(len(token) + 1)
            token = token[:at] + rng.choice(["", " ", "x", token]) + token[at + rng.randrange(2):]
        return rng.choice(["", "", " ", "  ", "\n"]) + token + rng.choice(["", "", " ", "  ", "\n"])

    return [(8, lambda r: r.choice(words)), (4, lambda r: " "), (3, lambda r: r.choice(SPACES)),
            (4, lambda r: r.choice(BITS)), (4, random_characters), (2, special_token),
            (2, lambda r: r.choice(vocabulary)), (1, lambda r: r.choice(words)[: r.randrange(1, 4)].upper()),
            (1, lambda r: r.choice("aA0 .-=*#\n\t") * r.choice((2, 3, 4, 7, 16, 33)))]


def strings(rng, count, special, vocabulary, texts):
    makers = pieces_of(special, vocabulary)
    weights = [w for w, _ in makers]
    fixed = ["", " ", "\n", "a", *SENTENCES, *special, *SPACES, *BITS, "".join(special), " ".join(special)]
    for i in range(count):
        if i < len(fixed):
            yield fixed[i]
        elif i % 10 == 0:
            text = rng.choice(texts)
            start = rng.randrange(max(1, len(text) - 40))
            yield text[start:start + rng.randrange(10, 120)]
        else:
            parts = [rng.choices(makers, weights)[0][1](rng) for _ in range(rng.choice((1, 2, 3, 4, 6, 9)))]
            yield rng.choice(["", "", " "]).join(parts)


def cases(tok, rng, count, texts):
    special = sorted({t.content for t in tok.get_added_tokens_decoder().values()})
    vocabulary = sorted(tok.get_vocab())
    size = tok.get_vocab_size()
    for i, text in enumerate(strings(rng, count, special, vocabulary, texts)):
        case = {"text": text}
        if i % 7 == 3:
            case["add"] = True
        if i % 5 == 4:
            case["plain"] = True
        tok.encode_special_tokens = case.get("plain", False)
        case["ids"] = tok.encode(text, add_special_tokens=case.get("add", False)).ids
        tok.encode_special_tokens = False
        decoded = tok.decode(case["ids"], skip_special_tokens=False)
        if decoded != text:
            case["decoded"] = decoded
        yield case
        if i % 6 == 1:
            few = rng.sample(range(size), 8)
            ids = [rng.choice(few) if rng.random() < 0.3 else rng.randrange(min(size, 320)) if rng.random() < 0.5
                   else rng.randrange(size + 3) for _ in range(rng.choice((1, 2, 3, 5, 8, 13)))]
            skip = rng.random() < 0.5
            yield {"ids": ids, "decoded": tok.decode(ids, skip_special_tokens=skip), "skip": skip}


def is_tie(processor, text):
    """Whether two cuts have nearly the same score: versions of the library choose differently then."""
    scores = [sum(processor.get_score(i) for i in ids) for ids in processor.nbest_encode(text, nbest_size=2)]
    return len(scores) == 2 and abs(scores[0] - scores[1]) < 1e-3


def model_cases(processor, rng, count, texts, unigram):
    """SentencePiece's ids; text as the `tokenizers` package decodes such pieces."""
    joiner = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    vocabulary = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    for text in strings(rng, count, ["<s>", "</s>", "<ctrl>"], vocabulary, texts):
        ids = processor.encode(text)
        if unigram and is_tie(processor, text):
            continue
        case = {"text": text, "plain": True, "ids": ids, "decoded": joiner.decode([vocabulary[i] for i in ids])}
        if case["decoded"] == text:
            del case["decoded"]
        yield case
    for _ in range(count // 6):
        ids = [rng.randrange(3, rng.choice((300, len(vocabulary)))) for _ in range(rng.choice((1, 2, 3, 5, 8)))]
        yield {"ids": ids, "decoded": joiner.decode([vocabulary[i] for i in ids])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/tokenizers")
    parser.add_argument("--count", type=int, default=2000, help="strings for each kind")
    parser.add_argument("--kind", action="append", choices={**KINDS, **MODEL_KINDS}, help="only these (default: all)")
    parser.add_argument("--file", type=pathlib.Path, help="instead of the kinds: an existing tokenizer.json (with --out)")
    args = parser.parse_args()
    texts = corpus()
    kinds = {"given": lambda _: args.file.read_text(encoding="utf-8")} if args.file else {**KINDS, **MODEL_KINDS}
    for kind in args.kind or kinds:
        folder = args.out / kind
        folder.mkdir(parents=True, exist_ok=True)
        file = kinds[kind](texts)
        rng = random.Random(f"{kind} 1")
        if kind in MODEL_KINDS:
            name = "tokenizer.model"
            (folder / name).write_bytes(file)
            made = model_cases(sentencepiece.SentencePieceProcessor(model_proto=file), rng, args.count, texts,
                               kind == "model_unigram")
        else:
            name = "tokenizer.json"
            (folder / name).write_text(file, encoding="utf-8")
            made = cases(Tokenizer.from_str(file), rng, args.count, texts)
        written = 0
        with open(folder / "strings.jsonl", "w", encoding="utf-8") as out:
            for case in made:
                out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")
                written += 1
        sizes = [(folder / n).stat().st_size for n in (name, "strings.jsonl")]
        print(f"{kind}: {written} cases, {sizes[0]} + {sizes[1]} bytes", flush=True)


if __name__ == "__main__":
    main()
