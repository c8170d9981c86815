#!/usr/bin/env python3
"""Records a run in a terminal and draws it as an animated SVG.

    tools/site/terminal.py record SACCADE docs/images/demo.cast     # runs STEPS in the root of the tree, keeps what was said and when
    tools/site/terminal.py draw docs/images/demo.cast docs/images/demo.svg

A record is asciinema's format (version 2: a header, then [seconds, "o", text] a line), so any player of that shows it too.
Nothing is added to what the programs wrote, lines that STEPS does not ask for are left out; a silence is shortened to QUIET seconds, which the drawing says.
"""
import html
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS, SIZE, LINE, CELL = 100, 13, 19, 7.83
QUIET, TYPED, LAST = 1.2, 0.9, 6.0  # seconds: the longest silence shown, before a command's answer, and at the end
PICTURE = "data/glimpse/000-read.png"
ASK = ("""curl -s localhost:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": [\n"""
       """    {"type": "image_url", "image_url": {"url": "data:image/png;base64,'$(base64 -w0 %s)'"}},\n"""
       """    {"type": "text", "text": "What does it say?"}]}]}' | jq .choices[0].message.content""" % PICTURE)
# Each command, and which lines of what it says are shown: all, or those that match.
STEPS = [
    ("saccade serve models/glimpse &", r"listening|complete"),
    (ASK, ""),
    ("saccade bench serve --backend openai-chat --dataset-name custom --dataset-path data/glimpse/answers.jsonl \\\n"
     "    --custom-output-len -1 --num-prompts 24 --request-rate 4 --images-first --temperature 0 --brief",
     r"^\[|Successful|^(Request|Output token) throughput|^(Median|P99) TTFT"),
]


def record(saccade, out):
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "saccade").symlink_to(pathlib.Path(saccade).resolve())
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", COLUMNS=str(COLUMNS))
    events, begun, servers = [], time.monotonic(), []

    def said(text):
        events.append([round(time.monotonic() - begun, 3), "o", text])

    try:
        for command, shown in STEPS:
            said("$ " + command.replace("\n", "\r\n") + "\r\n")
            running = subprocess.Popen(["bash", "-c", "exec " + command.removesuffix("&") if command.endswith("&") else command],
                                       cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for line in running.stdout:
                if re.search(shown, line):
                    said(line.rstrip("\n") + "\r\n")
                if command.endswith("&") and "startup complete" in line:
                    break
            if command.endswith("&"):
                servers.append(running)
            elif running.wait() != 0:
                sys.exit(f"terminal: {command} ended with {running.returncode}")
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        shutil.rmtree(folder)
    header = {"version": 2, "width": COLUMNS, "height": 30, "title": "saccade serve, a question about an image, a measurement"}
    out.write_text("".join(json.dumps(row) + "\n" for row in [header, *events]))


def lines_of(events):
    """[(when, text, whether it was typed)], with silences shortened."""
    shown, clock, before = [], 0.4, None
    for when, _, text in events:
        if before is not None:
            clock += min(when - before, QUIET)
        before = when
        typed = text.startswith("$ ")
        if typed and shown:
            clock += TYPED
        for line in text.removesuffix("\r\n").split("\r\n"):
            # The time and date of a line of the log say nothing here.
            line = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ ", "", line)
            for at in range(0, max(len(line), 1), COLUMNS):
                shown.append((clock, line[at:at + COLUMNS], typed))
        if typed:
            clock += TYPED
    return shown, clock + LAST


def draw(cast, out):
    rows = [json.loads(line) for line in cast.read_text().splitlines()]
    shown, length = lines_of(rows[1:])
    width, height = round(COLUMNS * CELL) + 32, LINE * len(shown) + 52
    styles, texts = [], []
    for at, (when, text, typed) in enumerate(shown):
        share = 100 * when / length
        styles.append(f"@keyframes l{at}{{0%,{share:.2f}%{{opacity:0}}{min(share + 0.01, 100):.2f}%,100%{{opacity:1}}}}#l{at}{{animation:l{at} {length:.1f}s infinite}}")
        texts.append(f'<text id="l{at}" class="{"typed" if typed else "said"}" x="16" y="{48 + LINE * at}">{html.escape(text)}</text>')
    title = html.escape(rows[0]["title"])
    out.write_text(f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">
<!-- tools/site/terminal.py draw {cast.name}; silences over {QUIET} s are shortened to that. -->
<style>
rect{{fill:#17202a}}text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}}
.typed{{fill:#fff;font-weight:600}}.said{{fill:#a9c1d6}}circle{{fill:#44525f}}
{chr(10).join(styles)}
@media (prefers-reduced-motion:reduce){{text{{animation:none!important}}}}
</style>
<rect width="{width}" height="{height}" rx="8"/><circle cx="20" cy="17" r="5"/><circle cx="37" cy="17" r="5"/><circle cx="54" cy="17" r="5"/>
{chr(10).join(texts)}
</svg>
""")


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "draw"):
        sys.exit(__doc__)
    if sys.argv[1] == "record":
        record(sys.argv[2], pathlib.Path(sys.argv[3]))
    else:
        draw(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))


main()
