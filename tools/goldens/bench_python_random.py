#!/usr/bin/env python3
"""Writes tests/golden/bench/python_random.json: draws of CPython's random module. Doubles are hexadecimal strings, so
that no JSON reader's rounding enters.

Usage: tools/goldens/bench_python_random.py > tests/golden/bench/python_random.json
"""
import json
import platform
import random

SEEDS = [0, 1, 2, 41, 42, 0xCADE, 55555, 2**32 - 1, 2**32, 2**63 + 12345]


def draws(seed):
    r = random.Random(seed)
    out = {"seed": str(seed)}
    out["random"] = [r.random().hex() for _ in range(5)]
    out["randint"] = [[a, b, r.randint(a, b)] for a, b in [(0, 0), (0, 1), (88, 152), (-5, 5), (0, 2**32 - 1), (0, 2**40), (-2**62, 2**62)]]
    out["bits"] = [[k, str(r.getrandbits(k))] for k in (1, 7, 31, 32, 33, 63, 64)]
    out["choices"] = [[n, r.choices(range(n), k=1)[0]] for n in (1, 2, 57289, 10**6)]
    items = list(range(50))
    r.shuffle(items)
    out["shuffle"] = items
    for _ in range(700):  # over the edge of the state
        r.random()
    out["late"] = r.random().hex()
    return out


def main():
    lengths = random.Random(0xCADE)
    print(json.dumps({
        "generator": "tools/goldens/bench_python_random.py",
        "python": platform.python_version(),
        "draws": [draws(s) for s in SEEDS],
        "response_lengths": [lengths.randint(120 - 32, 120 + 32) for _ in range(100)],
    }, indent=0))


if __name__ == "__main__":
    main()
