#!/usr/bin/env python3
"""Goldens for src/text: small tokenizers and what the `tokenizers` package does with odd strings.

  python3 -m venv V && V/bin/pip install -r tools/goldens/tokenizer_strings.requirements.txt
  V/bin/python tools/goldens/tokenizer_strings.py                      # rewrites tests/golden/tokenizers
  V/bin/python tools/goldens/tokenizer_strings.py --count 20000 --out /tmp/t   # many more, to check once with
  TOKENIZER_GOLDENS=/tmp/t build/dev/tests/saccade_text_test --gtest_filter='TokenizerGolden*'

Each kind is a folder: tokenizer.json, and strings.jsonl with one case a line:
  {"text", "ids", "decoded"}   encode(text) == ids, decode(ids) == decoded (left out: equal to text);
                               "add": with special tokens added, "plain": special tokens not parsed
  {"ids", "decoded", "skip"}   decoding alone, of ids that no text gives; skip: without special tokens
"""
import argparse
import inspect
import json
import pathlib
import pkgutil
import random
import unicodedata

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


KINDS = {"qwen2": qwen2, "llama3": llama3, "gpt2": gpt2}

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/tokenizers")
    parser.add_argument("--count", type=int, default=2000, help="strings for each kind")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these (default: all)")
    parser.add_argument("--file", type=pathlib.Path, help="instead of the kinds: an existing tokenizer.json (with --out)")
    args = parser.parse_args()
    texts = corpus()
    kinds = {"given": lambda _: args.file.read_text(encoding="utf-8")} if args.file else KINDS
    for kind in args.kind or kinds:
        folder = args.out / kind
        folder.mkdir(parents=True, exist_ok=True)
        file = kinds[kind](texts)
        (folder / "tokenizer.json").write_text(file, encoding="utf-8")
        tok = Tokenizer.from_str(file)
        written = 0
        with open(folder / "strings.jsonl", "w", encoding="utf-8") as out:
            for case in cases(tok, random.Random(f"{kind} 1"), args.count, texts):
                out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")
                written += 1
        sizes = [(folder / n).stat().st_size for n in ("tokenizer.json", "strings.jsonl")]
        print(f"{kind}: {tok.get_vocab_size()} tokens, {written} cases, {sizes[0]} + {sizes[1]} bytes")


if __name__ == "__main__":
    main()
