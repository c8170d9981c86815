#!/usr/bin/env python3
"""Writes tests/golden/images: small images of every kind, and what Pillow and transformers make of them.

    pip install -r tools/goldens/requirements.txt
    python tools/goldens/images.py

decode.tsv        file, width, height, SHA-256 of the RGB bytes of reference_rgb()
resize.tsv        file, filter, width, height, SHA-256 of Image.resize's RGB bytes, the same horizontal pass first
                  (which is what Pillow did before 13)
encode.tsv        file, JPEG quality, SHA-256 of the bytes of Image.save
patchify.tsv      file, patch, merge, temporal, min_pixels, max_pixels, grid, SHA-256 of the float32 rows
smart_resize.tsv  height, width, factor, min_pixels, max_pixels, height, width (or "error")
"""

import hashlib
import io
import math
import pathlib
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "images"
RNG = np.random.default_rng(20260101)


def reference_rgb(data):
    """The meaning of "decoded" in this project, in Pillow's own calls."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode in ("RGBA", "LA", "PA") or (image.mode == "P" and "transparency" in image.info):
        canvas = Image.new("RGBA", image.size, "WHITE")
        canvas.alpha_composite(image.convert("RGBA"))
        image = canvas
    return image.convert("RGB")


def scene(width, height, channels=3):
    """Gradients, a hard-edged disc and some noise: every codec has something to do."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for c in range(channels):
        plane = 127 + 90 * np.sin(x / (5 + 3 * c) + c) * np.cos(y / (7 + 2 * c)) + (x + y * (c + 1)) % 37
        plane[(x - width / 3) ** 2 + (y - height / 2) ** 2 < (min(width, height) / 4) ** 2] = 40 + 70 * c
        planes.append(plane + RNG.normal(0, 6, plane.shape))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def rgb(width, height):
    return Image.fromarray(scene(width, height), "RGB")


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


# --- EXIF ---------------------------------------------------------------------------------------


def exif(orientation, order="<", kind=3, before=0):
    entries = [struct.pack(order + "HHII", 0x0100 + i, 4, 1, 7) for i in range(before)]
    value = {1: struct.pack(order + "BBBB", orientation, 0, 0, 0), 3: struct.pack(order + "HH", orientation, 0),
             4: struct.pack(order + "I", orientation)}[kind]
    entries.append(struct.pack(order + "HHI", 0x0112, kind, 1) + value)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + struct.pack(order + "H", len(entries)) + b"".join(entries) + struct.pack(order + "I", 0)


XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:Description tiff:Orientation=\"%d\"/></x:xmpmeta>"


def jpeg_with_app1(data, payload):
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload + data[2:]


# --- PNG of every kind --------------------------------------------------------------------------


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pack_row(samples, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", s) for s in samples)
    if depth == 8:
        return bytes(samples)
    bits = "".join(format(s, f"0{depth}b") for s in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples, depth, colour, interlace=False, extra=(), after=(), pieces=1):
    """samples: [height, width, channels] integers under 2**depth."""
    height, width = samples.shape[:2]
    passes = ADAM7 if interlace else [(0, 0, 1, 1)]
    raw = b""
    for x0, y0, dx, dy in passes:
        part = samples[y0::dy, x0::dx]
        if part.shape[0] and part.shape[1]:
            raw += b"".join(b"\0" + pack_row(row.reshape(-1).tolist(), depth) for row in part)
    packed = zlib.compress(raw, 9)
    step = -(-len(packed) // pieces)
    idat = b"".join(chunk(b"IDAT", packed[i:i + step]) for i in range(0, len(packed), step))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlace))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*e) for e in extra) + idat
            + b"".join(chunk(*e) for e in after) + chunk(b"IEND", b""))


def samples(width, height, channels, depth):
    return (scene(width, height, channels).astype(np.int64) * ((1 << depth) - 1)) // 255


# --- GIF and BMP by hand ------------------------------------------------------------------------


def lzw(indices, min_bits):
    clear, end = 1 << min_bits, (1 << min_bits) + 1
    out, acc, filled = bytearray(), 0, 0
    size, table = min_bits + 1, {}

    def emit(code):
        nonlocal acc, filled
        acc |= code << filled
        filled += size
        while filled >= 8:
            out.append(acc & 255)
            acc >>= 8
            filled -= 8

    emit(clear)
    table, following, prefix = {(i,): i for i in range(clear)}, end + 1, ()
    for index in indices:
        if prefix + (index,) in table:
            prefix += (index,)
            continue
        emit(table[prefix])
        if following < 4096:
            table[prefix + (index,)] = following
            if following == (1 << size) and size < 12:
                size += 1
            following += 1
        else:
            emit(clear)
            table, following, size = {(i,): i for i in range(clear)}, end + 1, min_bits + 1
        prefix = (index,)
    emit(table[prefix])
    emit(end)
    if filled:
        out.append(acc & 255)
    return bytes([min_bits]) + b"".join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255)) + b"\0"


def gif(screen, frames, table=None, background=0):
    """frames: (left, top, [height, width] indices, local table, transparent index, interlaced)."""
    def flags(t):
        return 0 if t is None else 0x80 | (int(math.log2(len(t))) - 1)

    def table_bytes(t):
        return b"" if t is None else bytes(v for entry in t for v in entry)

    out = b"GIF89a" + struct.pack("<HHBBB", *screen, flags(table), background, 0) + table_bytes(table)
    for left, top, indices, local, transparent, interlaced in frames:
        if transparent is not None:
            out += b"!\xf9\x04" + struct.pack("<BHB", 1, 5, transparent) + b"\0"
        height, width = indices.shape
        order = [r for start, step in ((0, 8), (4, 8), (2, 4), (1, 2)) for r in range(start, height, step)] if interlaced \
            else range(height)
        out += b"," + struct.pack("<HHHHB", left, top, width, height, flags(local) | (0x40 if interlaced else 0))
        out += table_bytes(local)
        out += lzw([int(v) for r in order for v in indices[r]], max(2, int(indices.max()).bit_length()))
    return out + b";"


def colours(count):
    return [tuple(int(v) for v in RNG.integers(0, 256, 3)) for _ in range(count)]


def bmp(width, height, bits, rows, palette=b"", compression=0, masks=b"", used=0, core=False):
    """rows: the pixel bytes as they lie in the file."""
    if core:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(rows), 2835, 2835, used, 0)
    offset = 14 + len(info) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(rows), 0, 0, offset) + info + masks + palette + rows


def bmp_rows(values, bits):
    out = b""
    for row in values:
        line = pack_row(row.reshape(-1).tolist(), bits) if bits <= 8 else row.astype("<u2").tobytes()
        out += line + b"\0" * (-len(line) % 4)
    return out


def bmp_palette(table):
    return b"".join(bytes([b, g, r, 0]) for r, g, b in table)


# --- the sets -----------------------------------------------------------------------------------


def jpegs():
    photo = rgb(61, 47)
    for name, sub in (("444", 0), ("422", 1), ("420", 2)):
        yield f"rgb_{name}.jpg", saved(photo, "JPEG", quality=80, subsampling=sub)
        yield f"rgb_{name}_progressive.jpg", saved(photo, "JPEG", quality=85, subsampling=sub, progressive=True)
    wide = bytearray(saved(rgb(64, 48), "JPEG", quality=90, subsampling=1))
    frame = wide.index(b"\xff\xc0")
    assert wide[frame + 11] == 0x21
    wide[frame + 11] = 0x12  # the same blocks read as 4:4:0
    wide[frame + 5:frame + 9] = struct.pack(">HH", 96, 32)
    yield "rgb_440.jpg", bytes(wide)
    yield "rgb_keep.jpg", saved(photo, "JPEG", quality=90, keep_rgb=True)
    yield "rgb_q1.jpg", saved(photo, "JPEG", quality=1)
    yield "rgb_q100.jpg", saved(photo, "JPEG", quality=100)
    yield "rgb_restart.jpg", saved(photo, "JPEG", quality=75, restart_marker_blocks=3)
    yield "rgb_optimised.jpg", saved(photo, "JPEG", quality=75, optimize=True)
    yield "gray.jpg", saved(photo.convert("L"), "JPEG", quality=75)
    yield "gray_progressive.jpg", saved(photo.convert("L"), "JPEG", quality=75, progressive=True)
    cmyk = saved(Image.fromarray(scene(33, 29, 4), "CMYK"), "JPEG", quality=90)
    yield "cmyk.jpg", cmyk
    adobe = cmyk.index(b"Adobe")
    yield "ycck.jpg", cmyk[:adobe + 11] + b"\x02" + cmyk[adobe + 12:]
    plain = cmyk[:adobe - 4] + cmyk[adobe + 12:]
    yield "cmyk_no_adobe.jpg", plain
    for width, height in ((1, 1), (7, 5), (8, 8), (17, 33), (200, 1), (1, 90), (129, 65)):
        yield f"size_{width}x{height}.jpg", saved(rgb(width, height), "JPEG", quality=88)
    small = saved(rgb(30, 20), "JPEG", quality=80)
    for orientation in range(1, 9):
        yield f"exif_{orientation}.jpg", jpeg_with_app1(small, b"Exif\0\0" + exif(orientation, "<>"[orientation % 2]))
    yield "exif_9.jpg", jpeg_with_app1(small, b"Exif\0\0" + exif(9))
    yield "exif_long.jpg", jpeg_with_app1(small, b"Exif\0\0" + exif(6, kind=4, before=3))
    yield "exif_byte.jpg", jpeg_with_app1(small, b"Exif\0\0" + exif(8, ">", kind=1, before=1))
    yield "exif_xmp.jpg", jpeg_with_app1(small, b"http://ns.adobe.com/xap/1.0/\0" + XMP % 6)
    both = jpeg_with_app1(small, b"http://ns.adobe.com/xap/1.0/\0" + XMP % 6)
    yield "exif_over_xmp.jpg", jpeg_with_app1(both, b"Exif\0\0" + exif(3))
    whole = exif(5, before=4)
    two = jpeg_with_app1(jpeg_with_app1(small, b"Exif\0\0" + whole[20:]), b"Exif\0\0" + whole[:20])
    yield "exif_two_segments.jpg", two


def pngs():
    photo = rgb(41, 31)
    yield "rgb.png", saved(photo, "PNG")
    yield "rgba.png", saved(Image.fromarray(scene(40, 30, 4), "RGBA"), "PNG")
    yield "la.png", saved(Image.fromarray(scene(40, 30, 2), "LA"), "PNG")
    yield "palette.png", saved(photo.quantize(40), "PNG")
    yield "bilevel.png", saved(photo.convert("1"), "PNG")
    for depth in (1, 2, 4, 8, 16):
        for interlace in (False, True):
            tag = "_interlaced" if interlace else ""
            yield f"gray{depth}{tag}.png", png(samples(23, 19, 1, depth), depth, 0, interlace)
            if depth <= 8:
                table = colours(1 << depth)
                flat = bytes(v for entry in table for v in entry)
                alphas = bytes(int(v) for v in RNG.integers(0, 256, max(1, (1 << depth) - 1)))
                body = samples(23, 19, 1, depth)
                yield f"palette{depth}{tag}.png", png(body, depth, 3, interlace, [(b"PLTE", flat)])
                yield f"palette{depth}_alphas{tag}.png", png(body, depth, 3, interlace,
                                                            [(b"PLTE", flat), (b"tRNS", alphas)])
            if depth >= 8:
                for name, colour, channels in (("rgb", 2, 3), ("la", 4, 2), ("rgba", 6, 4)):
                    yield f"{name}{depth}{tag}.png", png(samples(23, 19, channels, depth), depth, colour, interlace)
    for width, height in ((1, 1), (3, 2), (5, 9)):
        yield f"size_{width}x{height}_interlaced.png", png(samples(width, height, 3, 8), 8, 2, True)
    flat = bytes(v for entry in colours(16) for v in entry)
    yield "palette_one_transparent.png", png(samples(20, 20, 1, 4), 4, 3, False,
                                             [(b"PLTE", flat), (b"tRNS", b"\xff\xff\0\xff")])
    yield "palette_short.png", png(samples(20, 20, 1, 8), 8, 3, False, [(b"PLTE", flat)])
    keyed = samples(20, 20, 3, 8)
    keyed[:5] = (1, 2, 3)
    yield "rgb_key.png", png(keyed, 8, 2, False, [(b"tRNS", struct.pack(">HHH", 1, 2, 3))])
    yield "gray_key.png", png(samples(20, 20, 1, 8), 8, 0, False, [(b"tRNS", struct.pack(">H", 40))])
    small = samples(15, 10, 3, 8)
    yield "exif_6.png", png(small, 8, 2, False, [(b"eXIf", exif(6))])
    yield "exif_after_data.png", png(small, 8, 2, False, (), [(b"eXIf", exif(8, ">"))], pieces=3)
    yield "exif_xmp.png", png(small, 8, 2, False, [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % 3)])
    yield "profile.png", saved(photo, "PNG", icc_profile=b"not a profile" * 40)
    yield "text.png", png(small, 8, 2, False, [(b"tEXt", b"Comment\0made for tests")])


def webps():
    photo = rgb(45, 37)
    yield "lossy.webp", saved(photo, "WEBP", quality=70)
    yield "lossy_q100.webp", saved(photo, "WEBP", quality=100)
    yield "lossless.webp", saved(photo, "WEBP", lossless=True)
    clear = Image.fromarray(scene(44, 35, 4), "RGBA")
    yield "lossy_alpha.webp", saved(clear, "WEBP", quality=75)
    yield "lossless_alpha.webp", saved(clear, "WEBP", lossless=True)
    yield "exif_6.webp", saved(rgb(30, 20), "WEBP", quality=80, exif=b"Exif\0\0" + exif(6))
    yield "exif_5_raw.webp", saved(rgb(30, 20), "WEBP", lossless=True, exif=exif(5, ">"))
    yield "exif_xmp.webp", saved(rgb(30, 20), "WEBP", quality=80, xmp=XMP % 8)
    frames = [rgb(25, 25) for _ in range(3)]
    yield "animated.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=60)
    see_through = [Image.fromarray(scene(24, 24, 4), "RGBA") for _ in range(2)]
    yield "animated_alpha.webp", saved(see_through[0], "WEBP", save_all=True, append_images=see_through[1:], lossless=True)
    hole = np.zeros((40, 50, 4), np.uint8)
    hole[10:20, 12:30] = scene(18, 10, 4)
    hole[10:20, 12:30, 3] = 255
    yield "animated_offset.webp", saved(Image.fromarray(hole, "RGBA"), "WEBP", save_all=True,
                                        append_images=[rgb(50, 40)], lossless=True, minimize_size=True)
    for width, height in ((1, 1), (2, 3), (17, 1)):
        yield f"size_{width}x{height}.webp", saved(rgb(width, height), "WEBP", quality=80)


def framed_webp(canvas, frame, left, top, alpha):
    """An animation of one lossless frame that does not cover its canvas; offsets are even."""
    def riff(name, data):
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def u24(value):
        return struct.pack("<I", value)[:3]

    still = saved(frame, "WEBP", lossless=True)
    image = still[still.index(b"VP8L"):]
    place = u24(left // 2) + u24(top // 2) + u24(frame.width - 1) + u24(frame.height - 1) + u24(100) + b"\2"
    body = riff(b"VP8X", bytes([0x12 if alpha else 0x02, 0, 0, 0]) + u24(canvas[0] - 1) + u24(canvas[1] - 1))
    body += riff(b"ANIM", b"\x40\x80\xc0\xff" + b"\0\0") + riff(b"ANMF", place + image)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def framed_webps():
    y, x = np.mgrid[0:11, 0:14]
    pixels = np.stack([x * 15, y * 20, 255 - x * y, 20 * y + x], -1).astype(np.uint8)
    yield "frame_alpha.webp", framed_webp((30, 24), Image.fromarray(pixels, "RGBA"), 6, 8, True)
    yield "frame_opaque.webp", framed_webp((30, 24), Image.fromarray(pixels[:, :, :3].copy(), "RGB"), 16, 0, False)


def gifs():
    photo = rgb(43, 29)
    yield "palette.gif", saved(photo.quantize(64), "GIF")
    yield "gray.gif", saved(photo.convert("L"), "GIF")
    table = colours(16)
    body = samples(24, 20, 1, 4)[:, :, 0]
    yield "plain.gif", gif((24, 20), [(0, 0, body, None, None, False)], table)
    yield "interlaced.gif", gif((24, 20), [(0, 0, body, None, None, True)], table)
    yield "transparent.gif", gif((24, 20), [(0, 0, body, None, int(body[3, 3]), False)], table)
    yield "offset.gif", gif((40, 33), [(7, 5, body, None, None, False)], table, background=3)
    yield "offset_transparent.gif", gif((40, 33), [(7, 5, body, None, 5, True)], table, background=3)
    yield "local_table.gif", gif((24, 20), [(0, 0, body, colours(16), None, False)], table)
    yield "local_only.gif", gif((24, 20), [(0, 0, body, colours(16), 2, False)])
    yield "no_table.gif", gif((24, 20), [(0, 0, body, None, None, False)])
    ramp = [(i, i, i) for i in range(256)]
    deep = samples(24, 20, 1, 8)[:, :, 0]
    yield "ramp.gif", gif((24, 20), [(0, 0, deep, None, None, False)], ramp)
    yield "ramp_transparent.gif", gif((24, 20), [(0, 0, deep, None, 90, False)], ramp)
    yield "ramp_local.gif", gif((30, 20), [(2, 0, deep, ramp, None, False)])
    yield "grown.gif", gif((10, 10), [(3, 2, body, None, None, False)], table)
    yield "short_table.gif", gif((24, 20), [(0, 0, body, None, None, False)], colours(4))
    yield "two_frames.gif", gif((24, 20), [(0, 0, body, None, 1, False), (2, 2, body[:5, :5], None, None, False)], table)
    noise = RNG.integers(0, 256, (64, 80))
    yield "noise.gif", gif((80, 64), [(0, 0, noise, None, None, False)], colours(256))
    yield "gif_1x1.gif", gif((1, 1), [(0, 0, np.zeros((1, 1), int) + 1, None, None, False)], colours(2))


def bmps():
    photo = rgb(27, 18)
    yield "rgb.bmp", saved(photo, "BMP")
    yield "gray.bmp", saved(photo.convert("L"), "BMP")
    yield "bilevel.bmp", saved(photo.convert("1"), "BMP")
    yield "palette.bmp", saved(photo.quantize(50), "BMP")
    yield "rgba.bmp", saved(Image.fromarray(scene(21, 17, 4), "RGBA"), "BMP")
    for bits in (1, 4, 8):
        table = colours(1 << bits)
        body = samples(21, 13, 1, bits)
        yield f"palette{bits}.bmp", bmp(21, 13, bits, bmp_rows(body[::-1], bits), bmp_palette(table))
        yield f"palette{bits}_top_down.bmp", bmp(21, -13, bits, bmp_rows(body, bits), bmp_palette(table))
    few = colours(11)
    yield "palette8_few.bmp", bmp(21, 13, 8, bmp_rows(samples(21, 13, 1, 8) % 14, 8), bmp_palette(few), used=11)
    core = b"".join(bytes([b, g, r]) for r, g, b in colours(256))
    yield "core8.bmp", bmp(21, 13, 8, bmp_rows(samples(21, 13, 1, 8), 8), core, core=True)
    core24 = scene(10, 9)[::-1]
    yield "core24.bmp", bmp(10, 9, 24, b"".join(r.tobytes() + b"\0" * (-len(r.tobytes()) % 4) for r in core24), core=True)
    yield "rgb24_top_down.bmp", bmp(10, -9, 24, b"".join(r.tobytes() + b"\0" * (-len(r.tobytes()) % 4) for r in core24))
    yield "rgb32.bmp", bmp(11, 9, 32, scene(11, 9, 4).tobytes())
    yield "rgb32_top_down.bmp", bmp(11, -9, 32, scene(11, 9, 4).tobytes())
    words = RNG.integers(0, 65536, (7, 13))
    yield "rgb555.bmp", bmp(13, 7, 16, bmp_rows(words, 16))
    for name, masks in (("555", (0x7C00, 0x3E0, 0x1F)), ("565", (0xF800, 0x7E0, 0x1F))):
        yield f"fields{name}.bmp", bmp(13, 7, 16, bmp_rows(words, 16), compression=3, masks=struct.pack("<III", *masks))
    for name, masks in (("bgrx", (0xFF0000, 0xFF00, 0xFF)), ("xbgr", (0xFF000000, 0xFF0000, 0xFF00)),
                        ("bgxr", (0xFF000000, 0xFF00, 0xFF))):
        yield f"fields_{name}.bmp", bmp(11, 9, 32, scene(11, 9, 4).tobytes(), compression=3, masks=struct.pack("<III", *masks))
    runs = b"\x05\x37\x04\x21\x00\x00" + b"\x00\x06\x12\x34\x56\x00\x03\x90\x00\x00" + b"\x04\x11\x00\x02\x03\x01\x02\x55\x00\x00"
    yield "rle4.bmp", bmp(9, 4, 4, runs + b"\x00\x01", bmp_palette(colours(16)), compression=2)
    runs = (b"\x09\x07\x00\x00" + b"\x00\x05\x01\x02\x03\x04\x05\x00\x04\xee\x00\x00" + b"\x02\x11\x00\x02\x03\x01\x04\x44\x00\x00"
            + b"\x09\xfa\x00\x01")
    yield "rle8.bmp", bmp(9, 5, 8, runs, bmp_palette(colours(256)), compression=1)


def write_decode():
    with open(OUT / "decode.tsv", "w") as table:
        for make in (jpegs, pngs, webps, gifs, bmps, framed_webps):
            for name, data in make():
                folder = name.rsplit(".", 1)[1]
                path = OUT / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    image = reference_rgb(data)
                digest = hashlib.sha256(image.tobytes()).hexdigest()
                table.write(f"{folder}/{name}\t{image.width}\t{image.height}\t{digest}\n")


def sources():
    """Written losslessly, so that resizing and patches do not depend on a decoder."""
    table = {"photo": rgb(157, 113), "wide": rgb(211, 40), "tall": rgb(37, 190), "dot": rgb(1, 1), "line": rgb(97, 1),
             "noise": Image.fromarray(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8), "RGB"),
             "edges": Image.fromarray((RNG.integers(0, 2, (80, 90, 3)) * 255).astype(np.uint8), "RGB")}
    (OUT / "sources").mkdir(parents=True, exist_ok=True)
    for name, image in table.items():
        image.save(OUT / "sources" / f"{name}.png")
    return table


def write_resize(table):
    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS, "box": Image.BOX,
               "hamming": Image.HAMMING, "nearest": Image.NEAREST}
    sizes = {"photo": [(112, 84), (28, 28), (157, 60), (80, 113), (157, 113), (300, 200), (1, 1), (640, 3), (31, 97)],
             "wide": [(56, 56), (422, 80), (3, 400)], "tall": [(28, 140), (100, 10), (30, 175), (30, 177), (36, 189)], "dot": [(28, 28), (1, 7)],
             "line": [(28, 28), (96, 1), (200, 2)], "noise": [(63, 65), (448, 28), (9, 9)],
             "edges": [(91, 79), (45, 40), (180, 240), (80, 55), (80, 59), (80, 60)]}
    with open(OUT / "resize.tsv", "w") as out:
        for name, targets in sizes.items():
            for label, number in filters.items():
                for size in targets:
                    resized = table[name].resize(size, number)
                    horizontal_first = table[name].resize((size[0], table[name].height), number).resize(size, number)
                    digests = "\t".join(hashlib.sha256(i.tobytes()).hexdigest() for i in (resized, horizontal_first))
                    out.write(f"sources/{name}.png\t{label}\t{size[0]}\t{size[1]}\t{digests}\n")


def write_encode(table):
    with open(OUT / "encode.tsv", "w") as out:
        for name, image in table.items():
            for quality in (1, 50, 75, 85, 100):
                digest = hashlib.sha256(saved(image, "JPEG", quality=quality)).hexdigest()
                out.write(f"sources/{name}.png\t{quality}\t{digest}\n")


def write_patchify(table):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    cases = [("photo", 14, 2, 2, 3136, 12845056), ("photo", 14, 2, 2, 3136, 3136), ("wide", 14, 2, 2, 3136, 1003520),
             ("tall", 14, 2, 2, 200704, 1003520), ("noise", 14, 2, 2, 3136, 12845056), ("dot", 14, 2, 2, 3136, 12845056),
             ("edges", 16, 2, 2, 65536, 262144), ("photo", 14, 1, 1, 3136, 50176), ("photo", 8, 3, 2, 3136, 50176)]
    with open(OUT / "patchify.tsv", "w") as out:
        for name, patch, merge, temporal, least, most in cases:
            processor = Qwen2VLImageProcessorPil(patch_size=patch, merge_size=merge, temporal_patch_size=temporal,
                                                 size={"shortest_edge": least, "longest_edge": most})
            made = processor(table[name], return_tensors="np")
            rows, grid = made["pixel_values"], made["image_grid_thw"][0]
            assert rows.dtype == np.float32
            digest = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
            out.write(f"sources/{name}.png\t{patch}\t{merge}\t{temporal}\t{least}\t{most}\t{grid[1]}\t{grid[2]}\t{digest}\n")


def write_smart_resize():
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    cases = [(h, w, 28, 3136, 12845056) for h in (1, 13, 14, 15, 28, 42, 70, 98, 1000, 4000) for w in (14, 42, 126, 999, 3840)]
    cases += [(1536, 1536, 28, 3136, 12845056), (1700, 1700, 28, 3136, 12845056), (3840, 3840, 28, 3136, 12845056),
              (201, 1, 28, 3136, 12845056), (200, 1, 28, 3136, 12845056), (1, 201, 28, 3136, 12845056)]
    for _ in range(250):
        least = int(RNG.integers(1, 200)) * 784
        cases.append((int(RNG.integers(1, 5000)), int(RNG.integers(1, 5000)), int(RNG.choice([14, 28, 32, 48])), least,
                      least + int(RNG.integers(0, 4000)) * 784))
    with open(OUT / "smart_resize.tsv", "w") as out:
        for case in cases:
            try:
                result = "\t".join(str(v) for v in smart_resize(*case))
            except ValueError:
                result = "error\terror"
            out.write("\t".join(str(v) for v in case) + "\t" + result + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    write_decode()
    pictures = sources()
    write_resize(pictures)
    write_encode(pictures)
    write_patchify(pictures)
    write_smart_resize()
