#!/usr/bin/env python3
"""The JSON Schema test suite through the grammar machine and xgrammar: which instances each takes.

  pip download --no-deps --no-binary :all: jsonschema==4.26.0 && tar xf jsonschema-4.26.0.tar.gz
  python tools/grammar_suite.py build/release/benchmarks/grammar_masks TOKENIZER_DIR SIZE END \
      jsonschema-4.26.0/json/tests/draft2020-12

Both are told not to be strict, and an instance is tried as Python writes it. A schema that is refused counts as
refused. An invalid instance that is taken would be an answer that does not validate: ours must take none, else the
exit status is 1. A valid one that is not taken is an answer that cannot be had, and is counted by why. The table has a
row a file, which is a keyword; "refused" are schemas. Of schemas whose masks differ: after which text they first do,
and how many tokens one lets that the other does not.
"""
import collections, glob, json, os, subprocess, sys, tempfile

import numpy as np
import xgrammar
from tokenizers import Tokenizer


def texts_of(instance):
    compact = json.dumps(instance, ensure_ascii=False, separators=(",", ":"))
    spaced = json.dumps(instance, ensure_ascii=False)
    return [spaced] if spaced == compact else [spaced, compact]


TYPE_OF_KEYWORD = {
    "number": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "additionalItems"),
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
               "maxProperties")}


def type_of(value):
    for name, of in (("boolean", bool), ("object", dict), ("array", list), ("string", str), ("null", type(None))):
        if isinstance(value, of):
            return name
    return "number"


def why_not_taken(schema, value):
    """Of a valid instance: another type than the keywords of a schema without `type` speak of; or else."""
    if isinstance(schema, dict) and "type" not in schema:
        spoken = {kind for kind, names in TYPE_OF_KEYWORD.items() if any(name in schema for name in names)}
        if spoken and type_of(value) not in spoken:
            return "another type than the keywords of a schema without 'type' speak of"
        if "const" in schema or "enum" in schema:
            return "a constant written otherwise"
    return "else"


def difference(mine, other, vocabulary, before):
    """One line about two masks: how many tokens each lets alone, with an example."""
    size = len(vocabulary)
    bits = [np.unpackbits(mask.view(np.uint8), bitorder="little")[:size] for mask in (mine, other)]
    only = [np.flatnonzero(bits[0] & ~bits[1] & 1), np.flatnonzero(bits[1] & ~bits[0] & 1)]
    shown = [f"{len(at)}" + (f" such as {vocabulary[int(at[0])]!r}" if len(at) else "") for at in only]
    return f"after {before!r}: ours alone {shown[0]}; xgrammar alone {shown[1]}"


def print_table(rows):
    print("| file | schemas | refused | valid, taken | invalid, taken | xgrammar: refused | valid, taken | invalid, taken |")
    print("|---|---|---|---|---|---|---|---|")
    for name, row in sorted(rows.items()):
        cells = [name, str(row["schemas"])]
        for who in ("ours", "xgrammar"):
            cells.append(str(row[who, "refused"]))
            for kind in ("valid", "invalid"):
                asked = row[who, kind, "taken"] + row[who, kind, "not taken"]
                cells.append(f"{row[who, kind, 'taken']} of {asked}" if asked else "")
        print("| " + " | ".join(cells) + " |")


def main():
    program, folder, size, end, suite = sys.argv[1:6]
    size, end = int(size), int(end)
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    arguments = [program, folder, str(size), str(end)]
    pieces = subprocess.run([*arguments, "pieces"], capture_output=True, text=True, check=True).stdout
    vocabulary = [bytes.fromhex(line) for line in pieces.split("\n")[:size]]
    info = xgrammar.TokenizerInfo(vocabulary, xgrammar.VocabType.RAW, vocab_size=size, stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
    cases, tests = [], []
    for path in sorted(glob.glob(os.path.join(suite, "*.json"))):
        for group in json.load(open(path)):
            walks = [[tokenizer.encode(text, add_special_tokens=False).ids for text in texts_of(test["data"])]
                     for test in group["tests"]]
            cases.append({"kind": "json_schema", "text": json.dumps(group["schema"]), "strict": False,
                          "walks": [walk for forms in walks for walk in forms]})
            tests.append((os.path.basename(path)[:-5], group, [len(forms) for forms in walks]))
    with tempfile.TemporaryDirectory() as scratch:
        masks_path = os.path.join(scratch, "masks")
        lines = "\n".join(json.dumps(case) for case in cases)
        out = subprocess.run([*arguments, masks_path], input=lines, capture_output=True, text=True, check=True).stdout
        masks = np.fromfile(masks_path, dtype=np.uint32)
    answers = [json.loads(line) for line in out.splitlines()]
    words, at = (size + 31) // 32, 0
    counts = {"ours": collections.Counter(), "xgrammar": collections.Counter()}
    rows = collections.defaultdict(collections.Counter)
    differing, wrong, steps, reasons = [], 0, 0, collections.Counter()
    for (name, group, forms), case, answer in zip(tests, cases, answers):
        try:
            compiled = compiler.compile_json_schema(case["text"], any_whitespace=True, strict_mode=False)
        except Exception:
            compiled = None
        ours, theirs, walk_at, first = [], [], 0, None
        for count in forms:
            taken, their_taken = False, False
            for tokens in case["walks"][walk_at:walk_at + count]:
                if "error" not in answer:
                    walk = answer["walks"][walk_at]
                    last = masks[at + (len(walk["us"]) - 1) * words:at + len(walk["us"]) * words]
                    taken |= walk["taken"] == len(tokens) and bool(last[end // 32] >> (end % 32) & 1)
                if compiled is not None:
                    matcher = xgrammar.GrammarMatcher(compiled)
                    bitmask = xgrammar.allocate_token_bitmask(1, size)
                    complete = True
                    for step, token in enumerate([*tokens, end]):
                        if "error" not in answer and step < len(answer["walks"][walk_at]["us"]):
                            bitmask.fill_(-1)
                            matcher.fill_next_token_bitmask(bitmask)
                            mine = masks[at + step * words:at + (step + 1) * words]
                            other = bitmask.numpy().view(np.uint32)[0]
                            if first is None and not (mine == other).all():
                                before = b"".join(vocabulary[at] for at in tokens[:step])
                                first = difference(mine, other, vocabulary, before)
                            steps += 1
                        complete = complete and matcher.accept_token(token)
                        if not complete:
                            break
                    their_taken |= complete
                if "error" not in answer:
                    at += len(answer["walks"][walk_at]["us"]) * words
                walk_at += 1
            ours.append(None if "error" in answer else taken)
            theirs.append(None if compiled is None else their_taken)
        for who, result in (("ours", ours), ("xgrammar", theirs)):
            for test, took in zip(group["tests"], result):
                kind = "valid" if test["valid"] else "invalid"
                fate = "refused" if took is None else "taken" if took else "not taken"
                counts[who][kind, fate] += 1
                rows[name][who, kind, fate] += 1
                if who == "ours" and kind == "valid" and fate == "not taken":
                    reasons[why_not_taken(group["schema"], test["data"])] += 1
                if who == "ours" and took and not test["valid"]:
                    wrong += 1
                    print("WRONG", name, json.dumps(group["schema"]), json.dumps(test["data"]))
        rows[name]["schemas"] += 1
        rows[name]["ours", "refused"] += "error" in answer
        rows[name]["xgrammar", "refused"] += compiled is None
        if "error" in answer:
            print("refused:", name, "-", group["description"], "-", answer["error"])
        if "error" not in answer and compiled is not None:
            counts["masks"] = counts.get("masks", collections.Counter())
            counts["masks"]["differ" if first else "same"] += 1
            if first:
                schema = json.dumps({k: v for k, v in group["schema"].items() if k != "$schema"})
                differing.append((name, schema[:160], first))
    print_table(rows)
    for who, table in counts.items():
        print(who, dict(sorted(table.items())))
    print(f"{len(cases)} schemas, {sum(len(t[1]['tests']) for t in tests)} instances, {steps} masks compared")
    print("valid and not taken:", dict(reasons))
    for name, schema, first in differing:
        print("masks differ:", name, schema, first)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
