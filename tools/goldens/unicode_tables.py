#!/usr/bin/env python3
"""Writes src/text/unicode/unicode_tables.cc: what the `tokenizers` package believes of each character.

The package has several Unicode versions inside: 16 in its patterns, 9 in its normal forms, 8 in BERT's rules. A system's
PCRE2 and utf8proc have others. These tables are read off the package itself, so that newer and rarer characters are
treated as it treats them, whatever the system has. Python's own unicodedata (14 in Python 3.11) says what was there before.

  V/bin/python tools/goldens/unicode_tables.py      # V as in tokenizer_strings.py
"""
import pathlib
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "src/text/unicode/unicode_tables.cc"
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf".split()


def category(code):
    return unicodedata.category(chr(code))


def ranges(codes):
    rows = []
    for code in sorted(codes):
        if rows and rows[-1][1] == code - 1:
            rows[-1][1] = code
        else:
            rows.append([code, code])
    return rows


def in_patterns():
    """Category of each character that the package's patterns know and Python's tables do not."""
    fresh = [c for c in CODES if category(c) == "Cn"]
    text = "".join(map(chr, fresh))
    found = {}
    for name in CATEGORIES:
        split = pre_tokenizers.Split(Regex(rf"\p{{{name}}}"), "removed")
        matched = bytearray(b"\1") * len(fresh)
        for _, (begin, end) in split.pre_tokenize_str(text):
            matched[begin:end] = bytes(end - begin)
        found.update((c, name) for c, m in zip(fresh, matched) if m)
    return found


def removed_by(normalizer):
    return {c for c in CODES if normalizer.normalize_str(chr(c)) == ""}


def unknown_to_forms(fresh):
    """Characters that Python's normal forms act on, or may soon, and the package's do not: canonical ones, and those
    with a compatibility form only."""
    canonical, compatible = set(), set()
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    for c in CODES:
        char = chr(c)
        tests = [char, "a" + char + "\u0315", "\u0315" + char, "a\u0323" + char]
        if c in fresh or any(nfd.normalize_str(t) != unicodedata.normalize("NFD", t) for t in tests):
            canonical.add(c)
        elif nfkd.normalize_str(char) != unicodedata.normalize("NFKD", char):
            compatible.add(c)
    canonical |= {0x11930, 0x11935}  # together they are U+11938
    return canonical, compatible


def lower_cases():
    """(first, last, distance, step) of letters whose lower case Python's tables do not have."""
    lower = normalizers.Lowercase()
    pairs = []
    for c in CODES:
        mine, theirs = chr(c).lower(), lower.normalize_str(chr(c))
        if mine != theirs and c != 0x130:
            assert len(theirs) == 1, hex(c)
            pairs.append((c, ord(theirs) - c))
    rows = []
    for code, distance in pairs:
        if rows and rows[-1][2] == distance and code - rows[-1][1] == 1:
            rows[-1][1] = code
        else:
            rows.append([code, code, distance])
    return rows


def table(name, rows, comment):
    items = ["{" + ", ".join(hex(v).upper().replace("X", "x") if i < 2 else str(v) for i, v in enumerate(r)) + "}" for r in rows]
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return f"// {comment}\nconstexpr {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def main():
    assert unicodedata.unidata_version == "14.0.0", "Python 3.11's tables are what the rest is compared with"
    fresh = in_patterns()
    by_category = []
    for name in CATEGORIES:
        rows = ranges(c for c, n in fresh.items() if n == name)
        by_category += [[a, b, f'"{name}"'] for a, b in rows]
    canonical, compatible = unknown_to_forms(fresh)
    bert = dict(handle_chinese_chars=False, lowercase=False)
    accents = removed_by(normalizers.BertNormalizer(clean_text=False, strip_accents=True, **bert))
    control = removed_by(normalizers.BertNormalizer(clean_text=True, strip_accents=False, **bert))
    punctuation = {c for c in CODES if len(pre_tokenizers.Punctuation().pre_tokenize_str("a" + chr(c) + "b")) == 3}
    numeric = {c for c in CODES if len(pre_tokenizers.Digits().pre_tokenize_str("a" + chr(c) + "b")) == 3}
    parts = [
        table("CategoryRange kSince15", sorted(by_category), "Characters of Unicode 15 to 16 and their categories."),
        table("CodeRange kOutsideForms", ranges(canonical), "Characters that every normal form leaves alone."),
        table("CodeRange kOutsideCompatibility", ranges(compatible), "Those that NFKC and NFKD leave alone."),
        table("CaseRange kLower", lower_cases(), "Distances to lower case that Unicode 14 does not have."),
        table("CodeRange kCombining", ranges(removed_by(normalizers.StripAccents())), "Combining marks."),
        table("CodeRange kAccents", ranges(accents), "What BERT strips as accents."),
        table("CodeRange kControl", ranges(control), "What BERT cleans away."),
        table("CodeRange kPunctuation", ranges(punctuation), "What BERT cuts at as punctuation."),
        table("CodeRange kNumeric", ranges(numeric), "What Digits cuts at."),
    ]
    OUT.write_text("// Generated by tools/goldens/unicode_tables.py from tokenizers 0.22.2; not edited by hand.\n"
                   "#include \"text/unicode/unicode_tables.h\"\n\nnamespace saccade {\nnamespace {\n\n" + "\n".join(parts) +
                   "\n}  // namespace\n\nconst UnicodeTables kUnicodeTables = {\n"
                   "    kSince15,  kOutsideForms, kOutsideCompatibility, kLower,  kCombining,\n"
                   "    kAccents, kControl,      kPunctuation,          kNumeric,\n};\n\n}  // namespace saccade\n")
    print(f"{OUT}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
