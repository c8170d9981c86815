"""Tensors of a checkpoint, and in a GGUF file: what gguf_files.py and gguf_tower.py both write with."""

import json
import re
import struct
import zlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type


def read_safetensors(folder):
    """Every tensor as float32."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            raw = data[8 + length + begin:8 + length + end]
            if entry["dtype"] == "BF16":
                numbers = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                numbers = np.frombuffer(raw, {"F16": np.float16, "F32": np.float32}[entry["dtype"]]).astype(np.float32)
            tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, blob = {}, b""
    for name, array in tensors.items():
        dtype = {"uint8": "U8", "float32": "F32"}[str(array.dtype)]
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header)
    text += " " * (-(8 + len(text)) % 64)
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + blob)


# Types that the package dequantises alone: the byte of a block's scale, behind it that of its minima, if it has them, and
# how many times the scale they are where the numbers are to have no mean.
SCALES_AT = {"Q2_K": (80, 1.5), "Q3_K": (108, 0), "Q4_K": (0, 7.5), "Q5_K": (0, 15.5), "Q6_K": (208, 0), "IQ4_NL": (0, 0),
             "IQ4_XS": (0, 0)}


def stored(array, wanted):
    """The type that a matrix gets: vectors are float32, rows that hold no whole blocks float16."""
    if array.ndim <= 1:
        return array, Type.F32
    elements, _ = gguf.GGML_QUANT_SIZES[wanted]
    if wanted in (Type.F32, Type.F16) or array.shape[-1] % elements != 0:
        kind = Type.F32 if wanted == Type.F32 else Type.F16
        return array.astype(np.float32 if kind == Type.F32 else np.float16), kind
    if wanted.name in SCALES_AT:
        return random_blocks(array, wanted), wanted
    return gguf.quants.quantize(array, wanted), wanted


def random_blocks(array, kind):
    """Random codes whose numbers deviate as the array's do; the array alone says which, so that they are the same again."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(zlib.crc32(array.tobytes())).integers(0, 256, (array.size // elements, size), dtype=np.uint8)
    at, minima = SCALES_AT[kind.name]

    def scale(by):
        numbers = np.array([by, by * minima] if minima else [by], np.float16)
        raw[:, at:at + 2 * len(numbers)] = numbers.view(np.uint8)

    scale(1)
    scale(array.std() / gguf.quants.dequantize(raw, kind).std())
    return raw.reshape(*array.shape[:-1], -1)


def add_tensor(writer, name, array, wanted):
    array, kind = stored(np.ascontiguousarray(array), wanted)
    writer.add_tensor(name, array, raw_dtype=kind)


def permute(array, heads):
    """Rows i and i + half of a head beside each other, as llama.cpp's rope of the Llama family turns them."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def layer_of(name):
    """Its place among the layers, of which the first are kept; DeepStack's mergers go with theirs."""
    found = re.search(r"(?:layers?|blocks|deepstack_merger_list)\.(\d+)\.", name)
    return int(found.group(1)) if found else -1


def is_tower(name):
    return any(part in name for part in ("visual.", "vision_tower.", "vision_model.", "multi_modal_projector.", "connector.", "image_newline", "merger."))


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
