#!/usr/bin/env python3
"""Times what is made to be expensive: each case in a process of its own, with its largest memory.

  python tools/grammar_hostile.py build/release/benchmarks/grammar_masks TOKENIZER_DIR VOCABULARY_SIZE END_TOKEN

Prints, for each case, what compiling and the first masks took (less what the empty case takes to read the
tokenizer), and the error where it was refused. Exits with 1 where a case took over 1 s to compile, a mask over
1 s, or 256 MiB over the empty case.
"""
import json, os, subprocess, sys, time


def nested(depth, open_with, inside, close_with):
    return open_with * depth + inside + close_with * depth


def schema(value):
    return "json_schema", json.dumps(value)


A = 64  # the token of "a" in tokenizers that begin with the bytes, as Qwen's
CASES = {
    "empty": ("regex", "a"),
    "30 arrays of anything": schema(json.loads(nested(30, '{"type":"array","items":', "{}", "}"))),
    "300 optional members": schema({"type": "object", "properties": {f"p_{i}": {"type": "string"} for i in range(300)}}),
    "6000 optional members": schema({"type": "object", "properties": {f"p_{i}": {"type": "string"} for i in range(6000)}}),
    "300 members and others": schema({"type": "object", "properties": {f"p_{i}": {} for i in range(300)},
                                      "additionalProperties": {"type": "integer"}}),
    "enum of 100000": schema({"enum": [f"value {i}" for i in range(40000)]}),
    "enum of 4000 long": schema({"enum": [f"{'x' * 200}{i}" for i in range(4000)]}),
    "prefixItems of 10000": schema({"type": "array", "prefixItems": [{"type": "string"}] * 10000, "minItems": 10000}),
    "prefixItems of 10000, optional": schema({"type": "array", "prefixItems": [{"type": "string"}] * 10000}),
    "minItems of 10^9": schema({"type": "array", "items": {"type": "array", "minItems": 10**9}, "minItems": 10**9}),
    "$refs that double": schema({"$defs": {"d0": {"type": "null"}, **{f"d{i}": {"type": "object", "properties": {
        "a": {"$ref": f"#/$defs/d{i - 1}"}, "b": {"$ref": f"#/$defs/d{i - 1}"}}} for i in range(1, 60)}},
        "$ref": "#/$defs/d59"}),
    "$refs joined": schema({"type": "object", "properties": {"a": {"$ref": "#", "minItems": 1},
                                                             "b": {"$ref": "#", "minItems": 2}}}),
    "allOf that doubles": schema({"$defs": {"d0": {"type": "object"}, **{f"d{i}": {"allOf": [
        {"$ref": f"#/$defs/d{i - 1}"}, {"$ref": f"#/$defs/d{i - 1}"}]} for i in range(1, 40)}}, "$ref": "#/$defs/d39"}),
    "oneOf of 128": schema({"oneOf": [{"type": "object", "properties": {"k": {"enum": list(range(i * 50, i * 50 + 50))}},
                                       "required": ["k"]} for i in range(128)]}),
    "oneOf of 128 long enums": schema({"oneOf": [{"enum": list(range(i * 700, i * 700 + 700))} for i in range(128)]}),
    "joins that double": schema({"$defs": {"d0": {"properties": {"p": {"type": "string"}}}, **{f"d{i}": {"allOf": [
        {"$ref": f"#/$defs/d{i - 1}", "properties": {"p": {"minLength": i}}},
        {"$ref": f"#/$defs/d{i - 1}", "properties": {"p": {"maxLength": 10**6 - i}}}]} for i in range(1, 40)}},
        "$ref": "#/$defs/d39"}),
    "anyOf of 128 trees": schema({"$defs": {f"d{i}": {"anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/d{j}"}}
                                  for j in range(100)]} for i in range(100)}, "$ref": "#/$defs/d0"}),
    "pattern that blows up": schema({"type": "string", "pattern": "(a|b)*a(a|b){18}(x|y)"}),
    "classes of 16000": ("regex", ("[" + "".join(chr(0x4e00 + 2 * i) for i in range(5000)) + "]{20}x?") * 4),
    "nested counts": ("regex", "(((a{1,1000}){1,1000}){1,1000}){1,1000}b"),
    "nested counts of 10^9": ("regex", "(((a|b?){0,1000000000}){3,1000000000}c?){2,1000000000}"),
    "ambiguous laps": ("regex", "(a|a|aa|aaa){1,1000000}b"),
    "optional parts": ("regex", "a?" * 8000),
    "optional parts in a loop": ("regex", "(" + "a?b?" * 4000 + ")*"),
    "stars in stars": ("regex", nested(90, "(", "a", ")*")),
    "pluses in pluses": ("regex", nested(90, "(", "a", ")+")),
    "dots apart": ("regex", ".*a.{30}b.{30}c.*d.{12}e"),
    "alternatives of 10000": ("regex", "|".join(f"{i * 7919 % 100003}x*" for i in range(8000))),
    "left chain of rules": ("ebnf", "root ::= r0 \"!\"\n" + "\n".join(f"r{i} ::= r{i + 1} [a-z]{{3,70}} | \"{i}\"" for i in range(4000))
                            + "\nr4000 ::= \"a\""),
    "empty rules in chains": ("ebnf", "root ::= r0 \"!\"\n" + "\n".join(
        f"r{i} ::= r{i + 1} r{i + 1} | \"\" | [a-z]{{40,70}}" for i in range(2000)) + "\nr2000 ::= \"\""),
    "palindromes": ("ebnf", "root ::= [a-z] root [a-z] | [a-z] root | [a-z] root root | \"x\""),
    "all sums": ("ebnf", "root ::= s \"$\"\ns ::= a s s | a | t\na ::= [ -~]\nt ::= [ -~] t [ -~] | [ -~] [ -~]"),
    "deep rules": ("ebnf", "root ::= r0\n" + "\n".join(f"r{i} ::= \"(\" r{i + 1} \")\" [a-z]{{5,90}}" for i in range(3000))
                   + "\nr3000 ::= \"a\""),
    "1 MiB of rules": ("ebnf", "root ::= " + "|".join(f"\"{i}\"" for i in range(110000))),
}


def run(arguments, name, kind, text):
    walk = [A] * 24 if kind != "json_schema" else []
    case = json.dumps({"kind": kind, "text": text, "walks": [walk, []]})
    started = time.perf_counter()
    process = subprocess.Popen([*arguments, "/dev/null"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(case + "\n")
    process.stdin.close()
    out = process.stdout.read()
    _, status, usage = resource_of(process)
    answer = json.loads(out) if status == 0 and out else {"error": f"status {status}", "compile_us": -1}
    answer.update(peak_mib=usage.ru_maxrss / 1024, seconds=time.perf_counter() - started)
    return answer


def resource_of(process):
    pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return pid, status, usage


def main():
    arguments = sys.argv[1:5]
    least, ok = None, True
    for name, (kind, text) in CASES.items():
        answer = run(arguments, name, kind, text)
        least = least or answer
        mib = answer["peak_mib"] - least["peak_mib"]
        masks = [us for walk in answer.get("walks", []) for us in walk["us"]]
        taken = sum(walk["taken"] for walk in answer.get("walks", []))
        compile_ms, mask_ms = answer["compile_us"] / 1e3, max(masks, default=0) / 1e3
        bad = compile_ms > 1000 or compile_ms < 0 or mask_ms > 1000 or mib > 256
        ok &= not bad
        print(f"{'OVER ' if bad else ''}{name}: compile {compile_ms:.1f} ms, largest mask {mask_ms:.1f} ms of {len(masks)} "
              f"({taken} taken), {mib:.0f} MiB; {answer.get('error', 'compiled')[:150]}", flush=True)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
