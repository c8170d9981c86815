#!/usr/bin/env python3
"""Sets the grammar machine's token masks beside xgrammar's, bit by bit, and times both and llguidance.

  python tools/grammar_oracle.py build/release/benchmarks/grammar_masks TOKENIZER_DIR [VOCABULARY_SIZE] [END_TOKEN]

Needs PyPI's xgrammar, llguidance, tokenizers and numpy (xgrammar needs torch); without xgrammar it says so and
exits with 77. Each case is walked along valid texts, token by token, and at each token the masks of all 3 are made.
"""
import json, os, subprocess, sys, tempfile, time

try:
    import numpy as np
    import xgrammar
    from tokenizers import Tokenizer
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import llguidance
    import llguidance.numpy
except ImportError:
    llguidance = None

WEATHER = {"type": "object", "properties": {
    "location": {"type": "string", "description": "City and country"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["location", "unit", "days"], "additionalProperties": False}
ORDER = {"type": "object", "properties": {
    "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    "lines": {"type": "array", "items": {"type": "object", "properties": {
        "sku": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"},
        "gift": {"type": "boolean"}}, "required": ["sku", "count", "price"], "additionalProperties": False}},
    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["id", "lines", "note"], "additionalProperties": False}
TREE = {"$defs": {"node": {"type": "object", "properties": {
    "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name", "children"], "additionalProperties": False}}, "$ref": "#/$defs/node"}
JSON_EBNF = r'''root ::= object
object ::= "{" ws (pair (ws "," ws pair)*)? ws "}"
pair ::= string ws ":" ws value
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\""
value ::= object | array | string | number | "true" | "false" | "null"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)?
ws ::= [ \n\t]*
'''
SQL = '''root ::= "SELECT " column (", " column)* " FROM " table (" WHERE " condition)?
column ::= "id" | "name" | "price"
table ::= "users" | "orders"
condition ::= column " = " [0-9]+ (" AND " condition)?
'''
TEXTS = {
    "weather": ("json_schema", WEATHER, [{"location": "Zürich, Schweiz", "unit": "celsius", "days": 12}]),
    "order": ("json_schema", ORDER, [{"id": "ABC-1234", "lines": [{"sku": "wool socks, red", "count": 2, "price": 3.75},
              {"sku": "hat \"L\"", "count": 1, "price": 20, "gift": True}], "note": None},
              {"id": "XYZ-0001", "lines": [], "note": "deliver to the back door\nplease"}]),
    "tree": ("json_schema", TREE, [{"name": "root", "children": [{"name": "a", "children": []},
              {"name": "b", "children": [{"name": "日本", "children": []}]}]}]),
    "json_object": ("json_object", None, [{"a": [1, 2.5, {"b": None}], "text": "free text goes here", "ok": True}]),
    "json_ebnf": ("ebnf", JSON_EBNF, ['{"a": [1, 2.5, {"b": null}], "text": "free text goes here"}']),
    "sql": ("ebnf", SQL, ["SELECT id, price FROM orders WHERE id = 17 AND price = 3"]),
    "phone": ("regex", r"(\([0-9]{3}\) )?[0-9]{3}-[0-9]{4}( ext\. [0-9]{1,5})?", ["(555) 010-9999 ext. 42"]),
    "words": ("regex", r"[A-Z][a-z]+( [a-z]{2,12}){3,8}\.", ["The quick brown fox jumps over."]),
}


def ours(program, arguments, cases):
    with tempfile.TemporaryDirectory() as folder:
        masks = os.path.join(folder, "masks")
        lines = "\n".join(json.dumps(case) for case in cases)
        done = subprocess.run([program, *arguments, masks], input=lines, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()], np.fromfile(masks, dtype=np.uint32)


def xgrammar_matcher(compiler, case):
    text, started = case["text"], time.perf_counter()
    if case["kind"] == "json_schema":
        compiled = compiler.compile_json_schema(text, any_whitespace=True)
    elif case["kind"] == "json_object":
        compiled = compiler.compile_json_schema('{"type": "object"}', any_whitespace=True)
    elif case["kind"] == "regex":
        compiled = compiler.compile_regex(text)
    else:
        compiled = compiler.compile_grammar(text)
    return compiled, (time.perf_counter() - started) * 1e6


def llguidance_times(tokenizer, case):
    """(microseconds to compile, of each mask along the case's walks)."""
    started = time.perf_counter()
    if case["kind"] in ("json_schema", "json_object"):
        text = case["text"] if case["kind"] == "json_schema" else '{"type": "object"}'
        grammar = llguidance.LLMatcher.grammar_from_json_schema(text)
    elif case["kind"] == "regex":
        grammar = llguidance.LLMatcher.grammar_from_regex(case["text"])
    else:
        from llguidance.gbnf_to_lark import gbnf_to_lark
        grammar = llguidance.LLMatcher.grammar_from_lark(gbnf_to_lark(case["text"]))
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    compile_us = (time.perf_counter() - started) * 1e6
    if matcher.get_error():
        return None
    bitmask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    times = []
    for tokens in case["walks"]:
        at = matcher.deep_copy()
        for token in [*tokens, None]:
            started = time.perf_counter()
            llguidance.numpy.fill_next_token_bitmask(at, bitmask, 0)
            times.append((time.perf_counter() - started) * 1e6)
            if token is not None:
                at.consume_token(token)
    return compile_us, times


def main():
    program, folder = sys.argv[1:3]
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    size = int(sys.argv[3]) if len(sys.argv) > 3 else tokenizer.get_vocab_size(True)
    end = int(sys.argv[4]) if len(sys.argv) > 4 else size - 1
    arguments = [folder, str(size), str(end)]
    pieces = subprocess.run([program, *arguments, "pieces"], capture_output=True, text=True, check=True).stdout
    vocabulary = [bytes.fromhex(line) for line in pieces.split("\n")[:size]]
    info = xgrammar.TokenizerInfo(vocabulary, xgrammar.VocabType.RAW, vocab_size=size, stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)

    their_tokenizer = llguidance and llguidance.LLTokenizer(tokenizer.to_str(), n_vocab=size, eos_token=end)
    cases, names = [], []
    for name, (kind, content, texts) in TEXTS.items():
        walks = []
        for text in texts:
            text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
            walks.append([at for at in tokenizer.encode(text, add_special_tokens=False).ids if vocabulary[at]])
        cases.append({"kind": kind, "text": content if isinstance(content, str) else json.dumps(content), "walks": walks})
        names.append(name)
    answers, masks = ours(program, arguments, cases)

    words, at, ok = (size + 31) // 32, 0, True
    all_us = {"ours": [], "xgrammar": [], "llguidance": []}
    for name, case, answer in zip(names, cases, answers):
        if "error" in answer:
            print(f"{name}: {answer['error']}")
            ok = False
            continue
        compiled, compile_us = xgrammar_matcher(compiler, case)
        steps = differing = 0
        their_us, sample = [], ""
        for tokens, walk in zip(case["walks"], answer["walks"]):
            matcher = xgrammar.GrammarMatcher(compiled)
            bitmask = xgrammar.allocate_token_bitmask(1, size)
            for step in range(len(walk["us"])):
                started = time.perf_counter()
                bitmask.fill_(-1)
                matcher.fill_next_token_bitmask(bitmask)
                their_us.append((time.perf_counter() - started) * 1e6)
                theirs = bitmask.numpy().view(np.uint32)[0]
                mine = masks[at:at + words]
                at += words
                steps += 1
                wrong = np.flatnonzero(np.unpackbits((mine ^ theirs).view(np.uint8), bitorder="little")[:size])
                if len(wrong):
                    differing += 1
                    token = int(wrong[0])
                    sample = sample or (f"after {b''.join(vocabulary[t] for t in tokens[:step])!r}: {len(wrong)} tokens, "
                                        f"{vocabulary[token]!r} ours {bool(mine[token // 32] >> (token % 32) & 1)}")
                if step < len(tokens):
                    matcher.accept_token(tokens[step])
            if walk["taken"] != len(tokens):
                ok = False
                print(f"{name}: took {walk['taken']} of {len(tokens)} tokens")
        our_us = [us for walk in answer["walks"] for us in walk["us"]]
        print(f"{name}: {steps} steps, {differing} differ {sample}; compile us {answer['compile_us']:.0f} | xgrammar "
              f"{compile_us:.0f}; mask us median {np.median(our_us):.1f} p99 {np.percentile(our_us, 99):.0f} largest "
              f"{max(our_us):.0f} | xgrammar median "
              f"{np.median(their_us):.1f} p99 {np.percentile(their_us, 99):.0f} largest {max(their_us):.0f}")
        all_us["ours"] += our_us
        all_us["xgrammar"] += their_us
        third = llguidance and llguidance_times(their_tokenizer, case)
        if third:
            all_us["llguidance"] += third[1]
            print(f"{name}: llguidance compile us {third[0]:.0f}; mask us median {np.median(third[1]):.1f} p99 "
                  f"{np.percentile(third[1], 99):.0f} largest {max(third[1]):.0f}")
    for who, us in all_us.items():
        if us:
            print(f"all {len(us)} masks, {who}: median {np.median(us):.1f} us, p99 {np.percentile(us, 99):.0f} us, largest "
                  f"{max(us):.0f} us")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
