#!/usr/bin/env python3
"""Writes pickles of plain prompts (tests/golden/bench/prompts_pN.pkl, one a protocol) and hostile ones into the fuzz corpus.

Usage: tools/goldens/bench_pickles.py
"""
import os
import pickle

ROOT = os.path.join(os.path.dirname(__file__), "../..")
ROWS = [[1, 2, 3], (4, 5, 70000), [2**31 - 1, 0], list(range(300)), ("row name", [7, 8], 12)]
ROWS.append(ROWS[0])  # shared: written as a reference


class Evil:
    def __reduce__(self):
        return os.system, ("echo pwned",)


def hostile():
    yield "class", pickle.dumps([Evil], protocol=2)
    yield "call", pickle.dumps([Evil()], protocol=4)
    yield "dict", pickle.dumps({"tok_inputs": [[1]]}, protocol=4)
    yield "none", pickle.dumps([None], protocol=4)
    yield "float", pickle.dumps([1.5], protocol=2)
    yield "bool", pickle.dumps([True], protocol=0)
    yield "bytes", pickle.dumps([b"x"], protocol=4)
    yield "big", pickle.dumps([2**80], protocol=2)
    myself = [[1, 2]]
    myself.append(myself)
    yield "itself", pickle.dumps(myself, protocol=2)
    laughs = [1] * 10
    for _ in range(30):
        laughs = [laughs, laughs]
    yield "laughs", pickle.dumps(laughs, protocol=4)


def main():
    corpus = os.path.join(ROOT, "tests/fuzz/corpus/pickle")
    os.makedirs(corpus, exist_ok=True)
    for protocol in range(6):
        data = pickle.dumps(ROWS, protocol=protocol)
        with open(os.path.join(ROOT, f"tests/golden/bench/prompts_p{protocol}.pkl"), "wb") as file:
            file.write(data)
        if protocol in (0, 2, 4):
            with open(os.path.join(corpus, f"plain_{protocol}"), "wb") as file:
                file.write(data)
    for name, data in hostile():
        with open(os.path.join(corpus, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
