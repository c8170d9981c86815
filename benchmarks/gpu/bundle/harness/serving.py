"""A server of the bundle, and the load generator of the bundle beside it, on one machine."""
import dataclasses
import json
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from . import metrics, models
from .machine import Cut, Failed, last_line

ASYNC = {2: "--async-scheduling", 1: "--no-async-scheduling"}  # steps in flight


@dataclasses.dataclass
class Load:
    name: str
    clients: int
    requests: int
    text: int  # tokens of the prompt beside the images
    output: int
    images: int
    side: int  # pixels
    seconds: float  # most


def image_loads(clients, requests_each, side):
    return [Load(f"{count} clients, {side} x {side}", count, max(4, requests_each * count), 128, 64, 1, side, 12)
            for count in clients]


def loads_of(size, rehearsal):
    if rehearsal:
        return [Load("2 clients, 56 x 56", 2, 2, 4, 2, 1, 56, 60)]
    if size == "2b":
        return image_loads([64, 1], 3, 512) + image_loads([64, 16, 256], 2, 1024)
    return image_loads([64], 3, 512) + image_loads([64], 2, 1024)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def healthy(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Idle:
    """Share of samples in which the GPU ran no kernel, as nvidia-smi counts its time: coarse, but of the whole machine."""

    def __init__(self):
        self.busy = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while not self.over.wait(0.5):
            try:
                said = subprocess.run(["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"],
                                      capture_output=True, text=True, timeout=5)
                self.busy.append(float(said.stdout.split()[0]))
            except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(6)

    def percent(self):
        return None if not self.busy else round(100 - sum(self.busy) / len(self.busy), 1)


def serve_command(machine, folder, name, port, depth=2, more=(), device="cuda"):
    # Warming up takes an emulator minutes a server; tests of the engine do it there.
    rehearsed = ["--max-model-len", 2048, "--max-num-seqs", 4, "--kv-cache-bytes", "64MiB"]
    sizes = rehearsed if machine.rehearsal else ["--max-model-len", 8192, "--max-num-seqs", 256]
    given = [str(each) for each in more]
    for at in range(0, len(sizes), 2):  # what the caller says of these goes before
        if str(sizes[at]) not in given:
            given += [str(sizes[at]), str(sizes[at + 1])]
    return machine.program("saccade", "serve", "--model", folder, "--device", device, "--load-format", "dummy",
                           "--served-model-name", "bundle", "--host", "127.0.0.1", "--port", port, ASYNC[depth],
                           "--limit-mm-per-prompt", "image=10", "--log-level", "debug", "--drain-seconds", 1,
                           *(["--no-warm-up"] if machine.rehearsal else []), *models.serve_options(name), *given)


class Server:
    """`with Server(...) as server`: it answers. Its log goes into the run's; what it says of libraries, graphs and
    memory becomes a figure."""

    def __init__(self, machine, name, label="", depth=2, more=(), command=None, device="cuda"):
        self.machine = machine
        self.label = label or name
        self.port = free_port()
        self.log = machine.work / f"server-{self.port}.txt"
        self.command = command or serve_command(machine, models.folder_of(machine, name), name, self.port, depth, more, device)

    def __enter__(self):
        begun = time.monotonic()
        self.output = open(self.log, "w")
        self.process = self.machine.start(self.command, stdout=self.output)
        try:
            while not self.ready():
                if self.process.poll() is not None:
                    raise Failed(f"the server of {self.label} ended with {self.process.returncode}: {self.last_words()}")
                if self.machine.left() < 3:
                    raise Cut(f"the server of {self.label} was not ready in time")
                time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise
        self.seconds = round(time.monotonic() - begun, 1)
        self.machine.add_figure("serving", f"{self.label} ready", seconds=self.seconds)
        return self

    def ready(self):
        return healthy(self.port)

    def __exit__(self, *_):
        self.machine.stop(self.process)
        self.output.close()
        text = self.said()
        self.machine.log.write(f"--- the server of {self.label}\n{text[-20_000:]}\n")
        facts = server_facts(text)
        if facts:
            self.machine.add_figure("server", self.label, **facts)

    def said(self):
        return self.log.read_text(errors="replace")

    def last_words(self):
        return last_line(self.said())

    def check(self, during):
        if self.process.poll() is not None:
            raise Failed(f"the server of {self.label} ended with {self.process.returncode} under {during}: {self.last_words()}")

    def forget(self):
        """Empties its caches, so that a load that was seen before is new."""
        for path in ("/reset_prefix_cache", "/reset_mm_cache"):
            try:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method="POST"), timeout=10).close()
            except (urllib.error.URLError, OSError) as error:
                self.machine.log.write(f"{path}: {error}\n")

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def measured(self, name, run):
        """Calls `run` between two readings of /metrics; what grew becomes a figure."""
        try:
            before = metrics.read(self.port)
        except (urllib.error.URLError, OSError) as error:
            before = ""
            self.machine.log.write(f"/metrics: {error}\n")
        with Idle() as idle:
            result = run()
        self.check(name)
        try:
            after = metrics.read(self.port)
            self.machine.add_figure("metrics", name, idle_percent=idle.percent(), grew=metrics.grew(before, after))
            self.machine.log.write(f"--- /metrics after {name}\n{after}\n")
        except (urllib.error.URLError, OSError) as error:
            self.machine.log.write(f"/metrics: {error}\n")
        return result, idle.percent()


def server_facts(text):
    """Which library multiplied, whose attention, how many bytes graphs took, what the cache got."""
    facts = {}
    for key, pattern in (("device", r" I on (.*), keys and values"), ("products", r"products by (.*)"),
                         ("attention", r"attention by (.*)"), ("cache", r"KV cache: (.*)"), ("weights", r"(\S+ GB, loaded in \S+ s)")):
        if found := re.findall(pattern, text):
            facts[key] = "".join(found[-1]).strip()
    graphs = re.findall(r"a graph of (\d+) launches takes (-?\d+) bytes", text)
    if graphs:
        facts["graphs"] = len(graphs)
        facts["graph_bytes"] = sum(int(each) for _, each in graphs)
        facts["graph_launches"] = max(int(each) for each, _ in graphs)
    warnings = [line for line in re.findall(r"(?m)^\S+ \S+ [WE] (.*)$", text) if "the weights are random" not in line]
    if warnings:
        facts["warnings"] = warnings[0].strip()[:200] + (f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else "")
    return facts


def load_command(machine, port, folder, load, seconds):
    return machine.program(
        "saccade", "bench", "serve", "--backend", "openai-chat", "--host", "127.0.0.1", "--port", port,
        "--model", "bundle", "--tokenizer", folder, "--dataset-name", "random-mm", "--num-prompts", load.requests,
        "--random-input-len", load.text, "--random-output-len", load.output, "--random-range-ratio", "0",
        "--random-mm-base-items-per-request", load.images, "--random-mm-num-mm-items-range-ratio", "0",
        "--random-mm-limit-mm-per-prompt-images", load.images,
        "--random-mm-bucket-config", "{(%d, %d, 1): 1.0}" % (load.side, load.side),
        "--max-concurrency", load.clients, "--ignore-eos", "--temperature", "0", "--duration", f"{seconds:.1f}",
        "--drain-limit", f"{seconds / 2:.1f}", "--ready-check-timeout-sec", "5", "--num-warmups", "1",
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-dir", machine.work, "--result-filename", "load.json",
        "--disable-tqdm")


KEYS = ["completed", "failed", "duration", "request_throughput", "output_throughput", "total_input_tokens",
        "total_output_tokens", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_itl_ms", "mean_e2el_ms"]


def result_of(machine, code, text):
    """The figures that `bench serve --save-result` left, or Failed."""
    result = machine.work / "load.json"
    if not result.exists():
        raise Failed(f"exit code {code}: {last_line(text)}")
    figures = json.loads(result.read_text())
    result.unlink()
    return {key: figures.get(key) for key in KEYS}


def one_load(machine, server, folder, label, load):
    seconds = min(load.seconds, machine.left() - 4)
    name = f"{label} {load.name}"
    (machine.work / "load.json").unlink(missing_ok=True)
    (code, text), idle = server.measured(name, lambda: machine.call(
        load_command(machine, server.port, folder, load, seconds), most=1.5 * seconds + 10))
    kept = result_of(machine, code, text)
    machine.add_figure("serving", name, clients=load.clients, idle_percent=idle, **kept)
    if not kept.get("completed"):
        raise Failed(f"no request was answered: {last_line(text)}")


def measure(machine, size, depth, loads):
    folder = models.folder_of(machine, size)
    label = f"{size}, {depth} in flight"
    done, failed = [], []
    with Server(machine, size, label, depth) as server:
        for load in loads:
            if machine.left() < 8:
                break
            try:
                one_load(machine, server, folder, label, load)
            except Failed as why:
                server.check(load.name)
                failed.append(f"{load.name}: {why}")
            done.append(load.name)
    if failed:
        raise Failed("; ".join(failed))
    if len(done) < len(loads):
        raise Cut(f"{len(done)} of {len(loads)} loads: {', '.join(done)}")
    return f"{len(done)} loads, ready after {server.seconds} s"


def part(size, depth, loads):
    """`loads`: all, or the first so many."""
    def run(machine):
        return measure(machine, size, depth, loads_of(size, machine.rehearsal)[:loads])

    def commands(machine):
        folder = models.make_command(machine, size)
        return [folder[1], serve_command(machine, folder[0], size, "PORT", depth)] + [
            load_command(machine, "PORT", folder[0], load, load.seconds) for load in loads_of(size, machine.rehearsal)[:loads]]
    return run, commands
