#!/usr/bin/env python3
"""Writes tests/golden/bench/captions.parquet: two captioned images as ShareGPT-4o has them, in two row groups.

Usage (with pyarrow): tools/goldens/bench_parquet.py tests/golden/bench/captions.parquet
"""
import struct
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq


def png(side, grey):
    """A grey square."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes([grey]) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def turns(question, answer):
    return [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]


table = pa.table({
    "image": [{"bytes": png(8, 64), "path": "a.png"}, {"bytes": png(16, 192), "path": "b.png"}],
    "conversations": [turns("w w w", "a small square"), turns("w w w w w", "a larger one")],
})
pq.write_table(table, sys.argv[1], row_group_size=1)
