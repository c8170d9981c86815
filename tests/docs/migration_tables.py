#!/usr/bin/env python3
"""The pages about coming from other servers say what the program does.

    migration_tables.py ROOT SACCADE

Of docs/migrate-from-llama-server.md: every flag in the second column of its table is one of `saccade serve`; every flag in
the first either is one too, or ends the start with a line that says what to do instead; every path of Saccade's answers.
Of docs/migrate-from-vllm.md: how many flags work is what docs/flags.md counts.
"""
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

FLAG = re.compile(r"`(--?[A-Za-z][\w-]*)")


def section(page, heading):
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert found, f"no section {heading}"
    return found[1]


def rows(text):
    for line in text.splitlines():
        cells = [cell.strip() for cell in line[1:].rstrip("| ").split(" |")] if line.startswith("| ") else []
        if len(cells) > 1 and not cells[0].startswith(("**", "---", "llama-server")):
            yield cells


def flags_of(flags_page, heading):
    names = set()
    for line in section(flags_page, heading).splitlines():
        if line.startswith("| `-"):
            names.update(re.findall(r"`(-[\w-]+)`", line.split(" | ")[0]))
    return names | {"--no-" + name[2:] for name in names}


def check_flags(page, own, of_vllm, saccade):
    wrong, foreign = [], []
    for cells in rows(section(page, "Flags")):
        for names in re.findall(r"`([^`]+)`", cells[1]):  # "--enable-lora --lora-modules" in one span
            wrong += [f"{name} is no flag of `saccade serve`" for name in names.split() if name.startswith("-") and name not in own]
        theirs = FLAG.findall(cells[0])
        if cells[1] == "the same":
            wrong += [f"{name} is said to be the same, and is no flag here" for name in theirs if name not in own]
        else:
            foreign += [name for name in theirs if name not in own | of_vllm]  # those of vLLM's have a fate of their own
    said = subprocess.run([saccade, "serve", "model.gguf", *foreign], capture_output=True, text=True, timeout=300)
    said = "\n" + said.stdout + said.stderr
    wrong += [f"{name}: the program has no advice" for name in foreign if f"\n{name} (llama-server): " not in said]
    assert len(foreign) > 200, "the table was not read"
    return wrong


def status(base, path):
    code = 404
    for method in ("GET", "POST"):
        request = urllib.request.Request(base + path, data=b"{}" if method == "POST" else None, method=method)
        try:
            code = urllib.request.urlopen(request, timeout=300).status
        except urllib.error.HTTPError as error:
            code = error.code
        if code not in (404, 405):
            return code
    return code


def check_paths(page, saccade, root):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([saccade, "serve", str(root / "models/glimpse"), "--port", str(port)], stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            try:
                urllib.request.urlopen(base + "/health", timeout=60)
                break
            except OSError:
                time.sleep(0.1)
        wrong = []
        for theirs, ours, *_ in rows(section(page, "Endpoints")):
            same = ours.startswith("the same") or "form" in ours
            there = re.findall(r"`(/[^`]*)`", theirs) if same else re.findall(r"`(/[^`]*)`", ours)
            gone = re.findall(r"no `(/[^`]*)`", ours) + (re.findall(r"`(/[^`]*)`", theirs) if ours.startswith("none") else [])
            # Adapters are loaded where a flag allows it, and embeddings are of a sentence encoder.
            elsewhere = re.compile("lora_adapter|embeddings")
            wrong += [f"{path} is not served" for path in there if path not in gone and not elsewhere.search(path) and status(base, path) == 404]
            wrong += [f"{path} is served, and the page says that it is not" for path in gone if status(base, path) != 404]
        return wrong
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(180)


def main():
    root, saccade = pathlib.Path(sys.argv[1]).resolve(), str(pathlib.Path(sys.argv[2]).resolve())
    flags = (root / "docs/flags.md").read_text()
    page = (root / "docs/migrate-from-llama-server.md").read_text()
    wrong = check_flags(page, flags_of(flags, "Flags of `saccade serve`"), flags_of(flags, "Flags of `vllm serve`"), saccade) + check_paths(page, saccade, root)
    counts = r"All (\d+)\D[^:]*: (\d+) work, (\d+) are accepted[^,]*, (\d+) are refused"
    vllm, counted = re.search(counts, (root / "docs/migrate-from-vllm.md").read_text()), re.search(counts, flags)
    # "0.32.0" stands between the first two in both.
    if not vllm or not counted or vllm.groups() != counted.groups():
        wrong.append(f"migrate-from-vllm.md counts {vllm and vllm.groups()}, flags.md {counted and counted.groups()}")
    if wrong:
        sys.exit("\n".join(wrong))


main()
