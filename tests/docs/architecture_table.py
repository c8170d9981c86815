#!/usr/bin/env python3
"""docs/architecture.md's table of what a folder may include is what its CMake file links.

    architecture_table.py ROOT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve()


def linked(folder):
    """The libraries of ours behind the folder's library's own LIBS."""
    text = re.sub(r"#.*", "", (ROOT / "src" / folder / "CMakeLists.txt").read_text())
    own = re.search(r"(?:LIBS|target_link_libraries\(\w+ PUBLIC) ([^)]*)\)", text[max(0, text.find("saccade_library(")):])
    return set(re.findall(r"saccade_(\w+)", own[1])) if own else set()


def main():
    page = (ROOT / "docs/architecture.md").read_text()
    table = page[page.index("## What a folder may include"):]
    table = table[:table.index("\n## ", 5)]
    named, wrong = set(), []
    for line in table.splitlines():
        if not line.startswith("| `"):
            continue
        folders, _, may, _ = (cell.strip() for cell in (line + " |").split("|")[1:5])
        for folder in re.findall(r"`([\w/]+)`", folders):
            named.add(folder)
            said = {name.strip() for name in may.split(",") if name.strip()}
            if said != linked(folder):
                wrong.append(f"{folder}: the table says {sorted(said)}, CMake {sorted(linked(folder))}")
    there = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    wrong += [f"src/{name} is not in the table" for name in sorted(there - named)]
    wrong += [f"{name} is in the table, and is no folder of src" for name in sorted(named) if not (ROOT / "src" / name).is_dir()]
    if wrong:
        sys.exit("\n".join(wrong))


main()
