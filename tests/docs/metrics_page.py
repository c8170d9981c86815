#!/usr/bin/env python3
"""docs/metrics.md names every metric that servers and the proxy print on /metrics, and no other.

    metrics_page.py ROOT SACCADE [--write]

The page's tables are what running processes say (# HELP and # TYPE): each section of SECTIONS has those that its
process prints and that no section before it has. --write puts them into the page.
"""
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

MODEL = "models/glimpse"
IMAGES = [MODEL, "--image-size", "dynamic", "--ttft-target", "2s"]
DRAFT = [MODEL, "--speculative-config", '{"model": "models/glimpse", "num_speculative_tokens": 2}']
LONGEST = 120  # seconds until a process answers


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """Servers by name: those that a section asks, and what they need beside them."""

    def __init__(self, root, saccade, scratch):
        self.root, self.saccade, self.scratch = root, saccade, scratch
        self.running = []
        self.ports = {}

    def start(self, name, *command):
        self.ports[name] = free_port()
        words = [str(self.saccade), *command, "--port", str(self.ports[name])]
        log = (self.scratch / f"{name}.log").open("w")
        self.running.append(subprocess.Popen(words, cwd=self.root, stdout=log, stderr=log))
        until = time.monotonic() + LONGEST
        while True:
            try:
                return self.metrics(name)
            except OSError:
                if self.running[-1].poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"did not start: {words}\n{(self.scratch / f'{name}.log').read_text()[-2000:]}")
                time.sleep(0.1)

    def metrics(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def redis(self):
        port = free_port()
        self.running.append(subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(self.scratch)],
                                             stdout=subprocess.DEVNULL))
        return f"redis://127.0.0.1:{port}"

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise SystemExit(f"did not end: {process.args}")
        self.running = []


def dynamic(on):
    return on.start("dynamic", "serve", *IMAGES, "--profile-folder", str(on.scratch / "profiles"))


def encoder(on):
    on.encoder = f"127.0.0.1:{free_port()}"
    return on.start("encoder", "serve", MODEL, "--role", "encoder", "--cluster-listen", on.encoder)


def sentences(on):
    folder = on.scratch / "sentences"
    subprocess.run([on.saccade, "model", "make-dummy", "--family", "minilm", "--out", folder], check=True, capture_output=True)
    return on.start("sentences", "serve", str(folder))


# Heading of the page, what starts the process and returns its /metrics, and a program that has to be there.
SECTIONS = [
    ("Every server", lambda on: on.start("plain", "serve", MODEL), None),
    ("With `--image-size dynamic`", dynamic, None),
    ("With `--speculative-config`", lambda on: on.start("draft", "serve", *DRAFT), None),
    ("With `--enable-lora`", lambda on: on.start("lora", "serve", MODEL, "--enable-lora"), None),
    ("With `--role encoder` or `--cluster-listen`", encoder, None),
    ("With `--encoders`", lambda on: on.start("pd", "serve", MODEL, "--encoders", on.encoder), None),
    ("With `--registry`", lambda on: on.start("registered", "serve", MODEL, "--role", "pd", "--registry", on.redis()), "redis-server"),
    ("Sentence encoders", sentences, None),
    ("`saccade proxy`", lambda on: on.start("proxy", "proxy", "--pd", f"http://127.0.0.1:{on.ports['plain']}"), None),
]


def described(page):
    """(name, labels, kind, text) of each family; labels that every one has are left out."""
    families = {}
    for word, name, rest in re.findall(r"^# (HELP|TYPE) (\S+) (.*)$", page, re.M):
        families.setdefault(name, {})[word] = rest
    for name, said in families.items():
        labels = set()
        for line in re.findall(rf"^{re.escape(name)}(?:_bucket)?\{{(.*?)\}} ", page, re.M):
            labels |= set(re.findall(r'(\w+)="', line))
        yield name, sorted(labels - {"engine", "model_name", "le"}), said["TYPE"], said["HELP"]


def table(rows):
    lines = ["| metric | kind | |", "|---|---|---|"]
    for name, labels, kind, text in rows:
        lines.append(f"| `{name}{'{' + ', '.join(labels) + '}' if labels else ''}` | {kind} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def section_of(text, heading):
    """Where the table under a heading begins and ends."""
    found = re.search(rf"^## {re.escape(heading)}\n(?:(?!## ).*\n)*?((?:\| .*\n\|---.*\n)(?:\|.*\n)*)", text, re.M)
    if not found:
        raise SystemExit(f"docs/metrics.md has no table under '## {heading}'")
    return found.span(1)


def in_sources(root):
    """Names that servers write, those of events that no process here has seen among them."""
    return {name for path in sorted((root / "src/serve").rglob("*.cc")) if not path.name.endswith("_test.cc")
            for name in re.findall(r'"((?:vllm|saccade):[a-z0-9_]+)"', path.read_text())}


def main():
    root, saccade = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    page = root / "docs/metrics.md"
    text, seen, wrong = page.read_text(), set(), []
    with tempfile.TemporaryDirectory() as scratch:
        on = Processes(root, saccade, pathlib.Path(scratch))
        try:
            for heading, start, wanted in SECTIONS:
                if wanted and not shutil.which(wanted):
                    print(f"{heading}: not looked at: no {wanted} here")
                    continue
                rows = [row for row in described(start(on)) if row[0] not in seen]
                if not rows:
                    raise SystemExit(f"{heading}: prints no metric of its own")
                seen |= {row[0] for row in rows}
                begin, end = section_of(text, heading)
                if "--write" in sys.argv:
                    text = text[:begin] + table(rows) + text[end:]
                elif (there := text[begin:end]) != table(rows):
                    lines = set(there.splitlines()) ^ set(table(rows).splitlines())
                    wrong.append(f"## {heading}: the page and the process differ in\n  " + "\n  ".join(sorted(lines)))
        finally:
            on.stop()
    if "--write" in sys.argv:
        page.write_text(text)
    named, written = set(re.findall(r"`((?:vllm|saccade):[a-z0-9_]+)", text)), in_sources(root)
    wrong += [f"docs/metrics.md does not name {name}, which src/serve writes" for name in sorted(written - named)]
    if all(shutil.which(wanted) for _, _, wanted in SECTIONS if wanted):
        wrong += [f"docs/metrics.md names {name}, which nothing prints" for name in sorted(named - seen - written)]
    if wrong:
        raise SystemExit("\n".join(wrong) + "\n(tests/docs/metrics_page.py ROOT SACCADE --write puts the tables into the page)")
    print(f"{len(seen)} metrics are what the page says")


main()
