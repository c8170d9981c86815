#!/usr/bin/env python3
"""Writes pickles of plain prompts (tests/golden/bench/prompts_pN.pkl, one a protocol) and hostile ones into the fuzz corpus;
with a pandas, its DataFrames too (tests/golden/bench/frame_VERSION_KIND_pN.pkl).

Usage: tools/goldens/bench_pickles.py; once with each of pandas 1.5.3, 2.2.3 and 3.1.1, and with 3.1.1 beside pyarrow, whose
strings its columns' names are then (frame_3.1arrow_KIND_pN.pkl; and lists of numpy's arrays, arrays_pN.pkl)
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


def frames():
    import numpy as np
    import pandas as pd
    rows = [list(row) for row in ROWS[:4]]
    yield "lists", pd.DataFrame({"tok_inputs": rows}), (2, 4, 5)
    yield "wide", pd.DataFrame({"text": list("abcd"), "tok_inputs": rows, "n": [3, 3, 2, 300], "x": [0.5, None, 1.0, 2.0],
                                "tok_outputs": [[9]] * 4}), (5,)
    longer = pd.DataFrame({"text": list("abcde"), "tok_inputs": [[5]] + rows})
    yield "filtered", longer[longer.text != "a"], (5,)
    arrays = pd.DataFrame({"n": [1, 2, 3, 4], "tok_inputs": [np.array(row, dtype=np.int64) for row in rows]})
    yield "arrays", arrays, (2, 4, 5)
    narrow = pd.DataFrame({"n": [1, 2, 3, 4], "tok_inputs": [np.array(row, dtype=np.int32) for row in rows]})
    yield "narrow", narrow[["tok_inputs", "n"]], (5,)
    yield "words", pd.DataFrame({"tok_inputs": list("abcd")}), (5,)  # refused: no ids


def write_published_form(pd):
    """Ids as SQZB's llama3-1k.pkl has them: about 1k tokens a row, here of a tiny vocabulary."""
    state = 1
    rows = []
    for length in (1024, 1024, 900, 1100, 1024, 64, 1000, 1024):
        row = []
        for _ in range(length):
            state = (state * 1103515245 + 12345) % 2**31
            row.append(state >> 16 & 127)
        rows.append(row)
    pd.DataFrame({"tok_inputs": rows, "tok_input_length": [len(row) for row in rows]}).to_pickle(
        os.path.join(ROOT, "tests/golden/bench/llama3-1k.pkl"))


def write_arrays():
    import numpy as np
    rows = [np.array(row, dtype=kind) for row, kind in zip(ROWS[:4], (np.int64, np.int32, np.uint32, np.uint16))]
    rows.append(("row name", np.array([7, 8]), 12))
    for protocol in (2, 4, 5):
        with open(os.path.join(ROOT, f"tests/golden/bench/arrays_p{protocol}.pkl"), "wb") as file:
            file.write(pickle.dumps(rows, protocol=protocol))


def write_frames():
    try:
        import pandas as pd
    except ImportError:
        return
    version = ".".join(pd.__version__.split(".")[:2])
    try:
        import pyarrow  # noqa: F401
        version += "arrow"
        write_arrays()
    except ImportError:
        pass
    if version == "2.2":
        write_published_form(pd)
    for kind, frame, protocols in frames():
        for protocol in protocols:
            data = pickle.dumps(frame, protocol=protocol)
            with open(os.path.join(ROOT, f"tests/golden/bench/frame_{version}_{kind}_p{protocol}.pkl"), "wb") as file:
                file.write(data)
            with open(os.path.join(ROOT, f"tests/fuzz/corpus/pickle/frame_{version}_{kind}_{protocol}"), "wb") as file:
                file.write(data)


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
    write_frames()
    for name, data in hostile():
        with open(os.path.join(corpus, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
