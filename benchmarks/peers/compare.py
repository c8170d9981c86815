#!/usr/bin/env python3
"""Servers of one model on this machine, in turns: each started alone, asked the same loads by `saccade bench serve`,
and stopped. Every round takes them in another order. Prints Markdown: medians, lowest and highest.

    compare.py --saccade build/release/saccade --entries ENTRIES.json --tokenizer DIR [--rounds 3] [--loads prefill,decode]
        [--requests LOAD=N ...] [--roof NAME=FILE ...] [--json FILE] [--markdown FILE]

ENTRIES.json is a list, a server (or a program) each; "{saccade}" and "{port}" are filled in:

    {"name": "Saccade bf16", "serve": ["{saccade}", "serve", "DIR", "--port", "{port}", "--no-enable-prefix-caching"],
     "model": "DIR", "roof": "bf16"}
    {"name": "OpenVINO int8", "program": ["ov.sh"], "version": "2026.4"}

A server is asked /health until it answers 200 (or /v1/models); its "version" is asked of "/version" unless the entry
says it. A program is a library's own measurement: it prints a line of JSON a figure, {"load": "decode", "value": 8.8}
in the load's unit, and its clock is its own. Prefix caches have to be off; every request is new in any case. An entry's
"loads" names those of --loads that it has, its "rounds" in how many of the first rounds it takes part. One request that
is not counted warms a server up, before its first load.

--minutes 30 begins no turn after that time; what is left out is named.

--requests image1024=2 asks fewer of a load than it says of itself, for machines where a request takes minutes; the table
names it.

--roof bf16=FILE is what `model_bench --json FILE` wrote for this machine and these weights: the column "of roof" is
then the share of the least time in which the machine could have done it, where model_bench has that load.

A machine that is busy is not measured on: over five seconds, the processors have to be idle for 95 % of the time
before a round begins (--busy measures nevertheless, and says so above the table).
"""
import argparse
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, replace

IDLE_SHARE = 0.95


@dataclass
class Load:
    """What is asked, and the one figure that is kept of the answers."""
    title: str
    unit: str
    tokens_in: int
    tokens_out: int
    clients: int
    requests: int
    figure: object  # of vLLM's result keys
    image: int = 0  # pixels a side; 0: text alone
    roof: str = ""  # the row of model_bench
    lower_is_better: bool = False


LOADS = {
    "prefill": Load("prefill of 512 tokens, one client", "tok/s", 512, 2, 1, 6,
                    lambda r: 1e3 * r["total_input_tokens"] / r["completed"] / r["median_ttft_ms"], roof="prefill 512"),
    "decode": Load("decode, one stream", "tok/s", 64, 48, 1, 3, lambda r: 1e3 / r["median_tpot_ms"], roof="decode x1"),
    "decode8": Load("decode, eight streams", "tok/s", 64, 64, 8, 16, lambda r: 8e3 / r["median_tpot_ms"], roof="decode x8"),
    "long": Load("1,527 tokens in, 16 out, four clients", "req/s", 1527, 16, 4, 12, lambda r: r["request_throughput"]),
    "image448": Load("a 448x448 image, time to first token", "ms", 78, 8, 1, 6, lambda r: r["median_ttft_ms"], 448,
                     "encode 448x448", True),
    "image448x8": Load("448x448 images, eight clients", "req/s", 78, 16, 8, 24, lambda r: r["request_throughput"], 448),
    "image1024": Load("a 1024x1024 image, time to first token", "ms", 78, 8, 1, 3, lambda r: r["median_ttft_ms"], 1024,
                      "encode 1024x1024", True),
}
# For curves (tools/site/plots.py): decode1, decode2, ... decode64, image224, ...; not part of what is asked by default.
CURVES = {f"decode{n}": replace(LOADS["decode8"], title=f"decode, {n} streams", clients=n, requests=max(3, 2 * n),
                                figure=lambda r, n=n: 1e3 * n / r["median_tpot_ms"], roof=f"decode x{n}") for n in (1, 2, 4, 16, 32, 64)}
CURVES |= {f"image{side}": replace(LOADS["image448"], title=f"a {side}x{side} image, time to first token", image=side,
                                   requests=3, roof=f"encode {side}x{side}") for side in (224, 672, 896, 1344)}
BY_DEFAULT = ",".join(LOADS)
LOADS |= CURVES


def idle_share(seconds):
    """Of the processors' time, from /proc/stat."""
    def ticks():
        values = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
        return values[3] + values[4], sum(values)
    idle, total = ticks()
    time.sleep(seconds)
    idle_after, total_after = ticks()
    return (idle_after - idle) / max(1, total_after - total)


def await_quiet(minutes):
    """True once the machine is idle; False when it is not within so many minutes."""
    end = time.monotonic() + 60 * minutes
    while True:
        share = idle_share(5)
        if share >= IDLE_SHARE:
            return True
        if time.monotonic() >= end:
            print(f"compare: the processors are idle for {share:.0%} of the time only", file=sys.stderr)
            return False


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, seconds=5):
    with urllib.request.urlopen(url, timeout=seconds) as answer:
        return answer.read().decode()


class Server:
    """One entry's process group, for the time of a `with`."""

    def __init__(self, entry, saccade, log):
        self.port = free_port()
        filled = [word.replace("{saccade}", saccade).replace("{port}", str(self.port)) for word in entry["serve"]]
        self.entry, self.url = entry, f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(filled, stdout=log, stderr=log, start_new_session=True,
                                        env={**os.environ, **entry.get("env", {})})

    def __enter__(self):
        end = time.monotonic() + self.entry.get("ready_seconds", 900)
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.stop()
                raise RuntimeError(f"{self.entry['name']} ended with {self.process.returncode} before it was ready")
            for path in ("/health", "/v1/models"):
                try:
                    get(self.url + path)
                    return self
                except (urllib.error.URLError, OSError):
                    pass
            time.sleep(0.5)
        self.stop()
        raise RuntimeError(f"{self.entry['name']} was not ready in time")

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """The whole group: some servers leave workers behind that would take half of the next one's machine."""
        for sign, seconds in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.process.pid, sign)
            except ProcessLookupError:
                break
            end = time.monotonic() + seconds
            while time.monotonic() < end and self.group_lives():
                time.sleep(0.2)
        self.process.wait()

    def group_lives(self):
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
            return True
        except ProcessLookupError:
            return False

    def version(self):
        if "version" in self.entry:
            return self.entry["version"]
        try:
            return json.loads(get(self.url + "/version")).get("version", "")
        except (urllib.error.URLError, OSError, ValueError):
            return ""


def ask(arguments, entry, url, load, seed, warmups):
    """One load; the keys of the result file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.saccade, "bench", "serve", "--backend", "openai-chat", "--base-url", url,
                   "--endpoint", "/v1/chat/completions", "--model", entry["model"], "--tokenizer", arguments.tokenizer,
                   "--dataset-name", "random-mm" if load.image else "random",
                   "--random-input-len", str(load.tokens_in), "--random-output-len", str(load.tokens_out),
                   "--num-prompts", str(load.requests), "--max-concurrency", str(load.clients), "--num-warmups", str(warmups),
                   "--ignore-eos", "--seed", str(seed), "--disable-tqdm", "--save-result", "--result-dir", folder,
                   "--result-filename", "result.json"]
        if load.image:
            command += ["--random-mm-base-items-per-request", "1", "--random-mm-num-mm-items-range-ratio", "0",
                        "--random-mm-bucket-config", f"{{({load.image}, {load.image}, 1): 1.0}}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{entry['name']}: {' '.join(command)}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
        with open(f"{folder}/result.json") as file:
            return json.load(file)


def held_back(load, result):
    """True where tokens came at the end all together, as where a server keeps text until it is valid UTF-8 (random weights
    write bytes that are not): the time between them then says nothing of decoding."""
    request_ms = 1e3 * result["duration"] * load.clients / result["completed"]
    return load.title.startswith("decode") and result["median_ttft_ms"] > 0.9 * request_ms


def measure_server(arguments, entry, loads, round_number, log):
    figures = {}
    with Server(entry, arguments.saccade, log) as server:
        entry["seen_version"] = server.version()
        for index, name in enumerate(loads):
            if name not in entry.get("loads", loads):
                continue
            seed = 1000 * round_number + index  # new prompts a round, the same for every server
            warmups = 0 if figures else 1
            result = ask(arguments, entry, server.url, LOADS[name], seed, warmups)
            if held_back(LOADS[name], result):
                print(f"round {round_number}, {entry['name']}, {name}: no figure, its text was held back", file=sys.stderr, flush=True)
                continue
            figures[name] = LOADS[name].figure(result)
            print(f"round {round_number}, {entry['name']}, {name}: {figures[name]:.2f} {LOADS[name].unit}",
                  file=sys.stderr, flush=True)
    return figures


def measure_program(entry, loads, log):
    done = subprocess.run(entry["program"], stdout=subprocess.PIPE, stderr=log, text=True,
                          env={**os.environ, **entry.get("env", {})})
    if done.returncode != 0:
        raise RuntimeError(f"{entry['name']} ended with {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    entry["seen_version"] = entry.get("version", "")
    return {line["load"]: line["value"] for line in lines if line.get("load") in loads}


def measure(arguments, entries, loads):
    """name -> load -> a figure a round. An entry that fails is left out of that round, and named."""
    found = {entry["name"]: {name: [] for name in loads} for entry in entries}
    failures = []
    end = time.monotonic() + 60 * arguments.minutes
    with open(arguments.log, "w") as log:
        for number in range(1, arguments.rounds + 1):
            turn = entries[(number - 1) % len(entries):] + entries[:(number - 1) % len(entries)]
            for entry in turn:
                if number > entry.get("rounds", number):
                    continue
                if time.monotonic() > end:
                    failures.append(f"round {number}: {entry['name']} was not asked: {arguments.minutes:g} minutes were over")
                    continue
                if not arguments.busy and not await_quiet(arguments.quiet_minutes):
                    sys.exit("compare: this machine is busy; stop what runs on it, or give --busy")
                try:
                    figures = (measure_server(arguments, entry, loads, number, log) if "serve" in entry
                               else measure_program(entry, loads, log))
                except RuntimeError as error:
                    failures.append(f"round {number}: {error}")
                    print(f"compare: {error}", file=sys.stderr, flush=True)
                    continue
                for name, value in figures.items():
                    found[entry["name"]][name].append(value)
    return found, failures


def best_possible(roofs, entry, load):
    """The load's figure at the roof, by model_bench's shares; None where it is not known."""
    rows = {row["name"]: row for row in roofs.get(entry.get("roof", ""), {}).get("results", [])}
    if load.roof not in rows or load.lower_is_better:
        return None  # a time to first token holds more than the encoding that model_bench times
    row = rows[load.roof]
    return statistics.median(100 * v / p for v, p in zip(row["saccade"], row["roof_percent"]))


def cell(values, load, best):
    if not values:
        return "-"
    digits = 3 if load.unit == "req/s" else 0 if load.unit == "ms" or min(values) >= 100 else 1
    text = f"{statistics.median(values):,.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
    return text + (f", {100 * statistics.median(values) / best:.0f} % of roof" if best else "")


def processor():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def markdown(arguments, entries, loads, found, failures, roofs):
    yield f"Machine: {processor()}, {platform.system()} {platform.release()}; {arguments.rounds} rounds, in turns."
    if arguments.busy:
        yield "**The machine was not known to be quiet.**"
    if arguments.requests:
        yield f"Requests a load: {', '.join(arguments.requests)}."
    yield ""
    yield "| | " + " | ".join(entry["name"] for entry in entries) + " |"
    yield "|---|" + "---|" * len(entries)
    yield "| version | " + " | ".join(entry.get("seen_version") or "-" for entry in entries) + " |"
    for name in loads:
        load = LOADS[name]
        cells = [cell(found[e["name"]][name], load, best_possible(roofs, e, load)) for e in entries]
        yield f"| {load.title}, {load.unit} | " + " | ".join(cells) + " |"
    yield ""
    for entry in entries:
        yield f"- {entry['name']}: `{' '.join(entry.get('serve') or entry['program'])}`"
    for failure in failures:
        yield f"- failed: {failure.splitlines()[0]}"


def entries_of(path):
    with open(path) as file:
        entries = json.load(file)
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or "name" not in entry:
            sys.exit(f"{path}: entry {index} has no name")
        if ("serve" in entry) == ("program" in entry):
            sys.exit(f"{path}: {entry['name']} wants one of serve and program")
        if "serve" in entry and "model" not in entry:
            sys.exit(f"{path}: {entry['name']} has no model")
    if len({entry["name"] for entry in entries}) != len(entries):
        sys.exit(f"{path}: two entries of one name")
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saccade", required=True)
    parser.add_argument("--entries", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loads", default=BY_DEFAULT, help="of " + ", ".join(LOADS))
    parser.add_argument("--requests", action="append", default=[], metavar="LOAD=N")
    parser.add_argument("--roof", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--quiet-minutes", type=float, default=5, help="how long a busy machine is waited for")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no turn begins later")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--log", default=os.devnull, help="what the servers print")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    arguments = parser.parse_args()
    loads = arguments.loads.split(",")
    if unknown := [name for name in loads if name not in LOADS]:
        parser.error(f"--loads {unknown[0]}; there are {', '.join(LOADS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}; at least 1")
    for pair in arguments.requests:
        name, _, count = pair.partition("=")
        if name not in LOADS or not count.isdigit() or int(count) < 1:
            parser.error(f"--requests {pair}; LOAD=N, with a load of {', '.join(LOADS)} and at least 1 request")
        LOADS[name] = replace(LOADS[name], requests=int(count))
    roofs = {}
    for pair in arguments.roof:
        name, _, path = pair.partition("=")
        with open(path) as file:
            roofs[name] = json.load(file)
    entries = entries_of(arguments.entries)
    found, failures = measure(arguments, entries, loads)
    table = "\n".join(markdown(arguments, entries, loads, found, failures, roofs)) + "\n"
    print(table, end="")
    if arguments.markdown:
        with open(arguments.markdown, "w") as file:
            file.write(table)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"machine": processor(), "busy": arguments.busy, "entries": entries, "figures": found,
                       "failures": failures}, file, indent=1)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
