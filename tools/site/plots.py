#!/usr/bin/env python3
"""Draws tokens/s against streams, and time to the first token against an image's size, from the committed results.

    tools/site/plots.py            # writes docs/images/*.svg
    tools/site/plots.py --check    # fails where one of them is not what the results say

SOURCES names the tables (rows by an expression that has the number on the horizontal axis, columns by their heading). Files
of `benchmarks/peers/compare.py --json` are drawn too, by their own names: benchmarks/results/curves-*.json.
"""
import dataclasses
import html
import json
import math
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, IMAGES = ROOT / "benchmarks/results", ROOT / "docs/images"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 340, 58, 176, 50, 46
COLOURS = ["#0b6fc2", "#d1600a", "#2b8a3e", "#8a4fbf", "#b3261e", "#6b7280", "#b08800", "#0d8a8a", "#c2408a"]
WORDS = {"one": 1, "eight": 8}


@dataclasses.dataclass(frozen=True)
class Source:
    file: str        # the SVG
    page: str        # in benchmarks/results
    title: str
    machine: str
    row: str         # an expression; its first group is the place on the horizontal axis
    columns: dict    # heading of the table, "" for all rows' first number -> name of the curve
    across: str      # what the horizontal axis counts
    unit: str
    rate: bool = False  # cells are milliseconds of one step: n streams / time


ZEN4 = "2 cores of an EPYC (Zen 4); Qwen2-VL-2B's shape, random weights; one round"
H200 = "one H200; random weights; one run"
PEERS = {"Saccade bf16": "Saccade bf16", "vLLM bf16": "vLLM bf16", "Saccade int8": "Saccade int8", "OpenVINO int8": "OpenVINO int8",
         "llama.cpp Q8_0": "llama.cpp Q8_0", "Saccade int4, all bytes": "Saccade int4", "OpenVINO int4": "OpenVINO int4", "llama.cpp Q4_0": "llama.cpp Q4_0"}
SOURCES = [
    Source("streams-zen4.svg", "peers-zen4.md", "Decoding: tokens/s of all streams", ZEN4, r"decode, (one|eight) streams?, tok/s$", PEERS, "streams", "tok/s"),
    Source("images-zen4.svg", "peers-zen4.md", "An image: time to the first token", ZEN4, r"a (\d+)x\d+ image, time to first token, ms$", PEERS, "pixels a side", "ms"),
    Source("streams-h200.svg", "gpu/h200.md", "Decoding: tokens/s of all streams", H200 + ", after 1,024 tokens",
           r"(Qwen2-VL-\dB) decode of (\d+) after 1024$", {"H200, ms": "Saccade"}, "streams", "tok/s", rate=True),
    Source("images-h200.svg", "gpu/h200.md", "An image: time in the tower", H200, r"(Qwen2-VL-\dB) image (\d+) x \d+$", {"H200, ms": "Saccade"}, "pixels a side", "ms"),
]


def number(cell):
    found = re.match(r"\**([\d,]+(?:\.\d+)?)\**$", cell.strip())
    return float(found[1].replace(",", "")) if found else None


def curves_of(source):
    """name -> [(x, y)], of the page's tables whose heading has one of the columns."""
    curves, heading = {}, []
    for line in (RESULTS / source.page).read_text().splitlines():
        if not line.startswith("|"):
            heading = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not heading:
            heading = cells
            continue
        found = re.match(source.row, cells[0])
        if not found:
            continue
        at = WORDS.get(found[found.lastindex]) or int(found[found.lastindex])
        for column, name in source.columns.items():
            value = number(cells[heading.index(column)]) if column in heading else None
            if value is not None:
                name = f"{name}, {found[1]}" if found.lastindex == 2 else name
                curves.setdefault(name, []).append((at, 1e3 * at / value if source.rate else value))
    if not curves:
        sys.exit(f"plots: {source.page} has no rows for {source.file}")
    return curves


def sources_of(path):
    """The two drawings of a file of compare.py's."""
    data = json.loads(path.read_text())
    note = data["machine"] + ("; the machine was not known to be quiet" if data["busy"] else "")
    for kind, load, title, across, unit in (("streams", r"decode(\d*)$", "Decoding: tokens/s of all streams", "streams", "tok/s"),
                                            ("images", r"image(\d+)$", "An image: time to the first token", "pixels a side", "ms")):
        curves = {}
        for name, loads in data["figures"].items():
            points = [(int(found[1] or 1), statistics.median(values)) for key, values in loads.items() if values and (found := re.match(load, key))]
            if points:
                curves[name] = sorted(dict(points).items())
        if curves:
            yield Source(f"{kind}-{path.stem.removeprefix('curves-')}.svg", path.name, title, note, "", {}, across, unit), curves


def steps(highest):
    size = 10 ** math.floor(math.log10(highest / 4))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= highest / 4)
    return [step * at for at in range(math.ceil(highest / step - 1e-9) + 1)]


def draw(source, curves):
    places = sorted({x for points in curves.values() for x, _ in points})
    ticks = steps(max(y for points in curves.values() for _, y in points))
    inner = (LEFT, WIDTH - RIGHT)
    scale = math.log2 if source.across == "streams" else float

    def across(x):
        share = (scale(x) - scale(places[0])) / ((scale(places[-1]) - scale(places[0])) or 1)
        return round(inner[0] + 12 + share * (inner[1] - inner[0] - 24), 1)

    def up(y):
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / ticks[-1], 1)

    parts = [f'<text class="title" x="12" y="20">{html.escape(source.title)}</text><text x="12" y="37">{html.escape(source.machine)}</text>']
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{inner[0]}" x2="{inner[1]}" y1="{up(tick)}" y2="{up(tick)}"/>'
                     f'<text x="{inner[0] - 6}" y="{up(tick) + 4}" text-anchor="end">{tick:,g}</text>')
    parts += [f'<text x="{across(x)}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{x}</text>' for x in places]
    parts.append(f'<text x="{inner[1]}" y="{HEIGHT - 10}" text-anchor="end">{source.across}</text><text x="12" y="{HEIGHT - 10}">{source.unit}</text>')
    # Names stand at the curves' ends, pushed apart where these meet.
    places_of_names, lowest = {}, HEIGHT - BOTTOM + 8
    for name in sorted(curves, key=lambda name: curves[name][-1][1]):
        places_of_names[name] = lowest = min(up(curves[name][-1][1]) + 4, lowest - 14)
    for at, (name, points) in enumerate(curves.items()):
        colour = COLOURS[at % len(COLOURS)]
        line = " ".join(f"{across(x)},{up(y)}" for x, y in sorted(points))
        dash = "" if name.startswith("Saccade") else ' stroke-dasharray="5 4"'
        dots = "".join(f'<circle cx="{across(x)}" cy="{up(y)}" r="3.5" fill="{colour}"><title>{html.escape(name)}: {y:,.4g} {source.unit} at {x}</title></circle>' for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>{dots}'
                     f'<text x="{inner[1] + 8}" y="{places_of_names[name]:.1f}" style="fill:{colour}">{html.escape(name)}</text>')
    told = "; ".join(f"{name}: " + ", ".join(f"{y:,.4g} {source.unit} at {x}" for x, y in sorted(points)) for name, points in curves.items())
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(f"{source.title}. {told}")}">\n'
            f'<!-- made by tools/site/plots.py of benchmarks/results/{source.page} -->\n'
            '<style>text{font:12px system-ui,sans-serif;fill:#4b5563}.title{font-size:15px;font-weight:600;fill:#111827}.grid{stroke:#d1d5db}.back{fill:#fff}</style>\n'
            f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    drawn = [(source, curves_of(source)) for source in SOURCES]
    for path in sorted(RESULTS.glob("curves-*.json")):
        drawn += sources_of(path)
    wrong = []
    for source, curves in drawn:
        text, path = draw(source, curves), IMAGES / source.file
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"docs/images/{source.file} is not what benchmarks/results/{source.page} says: tools/site/plots.py draws it again")
    if wrong:
        sys.exit("\n".join(wrong))


main()
