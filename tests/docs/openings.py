#!/usr/bin/env python3
"""Every page of docs/ opens with a title, a sentence that says what it is for, and a command with what it prints.

    openings.py ROOT
"""
import pathlib
import re
import sys

from fenced import blocks, commands_of

WITHIN = 8  # lines, of the page's beginning, in which the block begins

# Pages whose first block prints nothing, and why.
SILENT = {
    "docs/cuda-kernels.md": "its command is ctest, which prints times and places",
    "docs/install.md": "what an installation prints is long, and other on each machine",
}


def wrong_with(text, silent):
    lines = text.splitlines()
    if not lines[0].startswith("# "):
        return "does not begin with a title"
    prose = next((line for line in lines[1:] if line), "")
    if not re.match(r"[\w`*]", prose) or prose.startswith("```"):
        return f"has no sentence under its title, but {prose!r}"
    first = next(iter(blocks(text)), None)
    if first is None or first[2] > WITHIN:
        return f"has no block within its first {WITHIN} lines"
    commands, said = commands_of(first[1])
    if not commands:
        return "opens with a block that has no command"
    if not silent and not any(line.strip() for line in said):
        return "opens with a command, and not with what it prints"
    if silent and any(line.strip() for line in said):
        return "is named as one that prints nothing, and prints something"
    return None


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {str(path.relative_to(root)): path.read_text() for path in sorted((root / "docs").glob("**/*.md"))}
    if len(pages) < 2:
        raise SystemExit(f"there are no pages in {root}/docs")
    found = [f"{name} {wrong}" for name, text in pages.items() if (wrong := wrong_with(text, name in SILENT))]
    found += [f"there is no {name}" for name in SILENT if name not in pages]
    if found:
        raise SystemExit("\n".join(found))
    print(f"{len(pages)} pages open with a command")


main()
