"""A server of the bundle and the load generator of the bundle, on one machine."""
import dataclasses
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from .machine import Cut, Failed, last_line


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
    return [Load(f"{count} clients, {side} x {side}", count, max(4, requests_each * count), 128, 64, 1, side, 20)
            for count in clients]


def loads_2b(rehearsal):
    if rehearsal:
        return [Load("2 clients, 56 x 56", 2, 2, 4, 2, 1, 56, 60)]
    # Three images of 900 tokens and text: 2,807 on average, as published for DashInfer-VLM on an A100.
    seed_002 = Load("2,807 in, 120 out, 32 at once", 32, 160, 85, 120, 3, 840, 30)
    return [seed_002] + image_loads([64, 1], 3, 512) + image_loads([64, 16, 256, 1], 2, 1024) + image_loads([16, 256], 2, 512)


def loads_7b(rehearsal):
    return loads_2b(True) if rehearsal else image_loads([64], 3, 512) + image_loads([64], 2, 1024)


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


def measure(machine, folder, size, load_format, loads):
    port = free_port()
    server_log = machine.work / "server.txt"
    with open(server_log, "w") as output:
        command = machine.program("saccade", "serve", "--model", folder, "--device", "cuda", "--load-format", load_format,
                                  "--served-model-name", "bundle", "--host", "127.0.0.1", "--port", port,
                                  "--max-num-seqs", 4 if machine.rehearsal else 256)
        server = machine.start(command + (["--max-model-len", "256"] if machine.rehearsal else ["--max-model-len", "8192"]),
                               stdout=output)
        begun = time.monotonic()
        try:
            while not healthy(port):
                if server.poll() is not None:
                    raise Failed(f"the server ended with {server.returncode}: {last_line(server_log.read_text())}")
                if machine.left() < 5:
                    raise Cut("the server was not ready in time")
                time.sleep(0.2)
            machine.add_figure("serving", f"{size} ready", seconds=round(time.monotonic() - begun, 1))
            done, failed = [], []
            for load in loads:
                if machine.left() < 8:
                    break
                problem = one_load(machine, port, folder, size, load)
                done.append(load.name)
                if problem:
                    failed.append(f"{load.name}: {problem}")
                if server.poll() is not None:
                    raise Failed(f"the server ended with {server.returncode} under {load.name}: "
                                 f"{last_line(server_log.read_text())}")
        finally:
            machine.stop(server)
            machine.log.write(server_log.read_text()[-20_000:])
    if failed:
        raise Failed("; ".join(failed))
    if len(done) < len(loads):
        raise Cut(f"{len(done)} of {len(loads)} loads: {', '.join(done)}")
    return f"{len(done)} loads"


def one_load(machine, port, folder, size, load):
    """None, or what went wrong."""
    result = machine.work / "load.json"
    result.unlink(missing_ok=True)
    seconds = min(load.seconds, machine.left() - 5)
    command = machine.program(
        "saccade", "bench", "serve", "--backend", "openai-chat", "--host", "127.0.0.1", "--port", port,
        "--model", "bundle", "--tokenizer", folder, "--dataset-name", "random-mm", "--num-prompts", load.requests,
        "--random-input-len", load.text, "--random-output-len", load.output, "--random-range-ratio", "0",
        "--random-mm-base-items-per-request", load.images, "--random-mm-num-mm-items-range-ratio", "0",
        "--random-mm-limit-mm-per-prompt-images", load.images,
        "--random-mm-bucket-config", "{(%d, %d, 1): 1.0}" % (load.side, load.side),
        "--max-concurrency", load.clients, "--ignore-eos", "--temperature", "0", "--duration", f"{seconds:.1f}",
        "--drain-limit", f"{seconds / 2:.1f}", "--ready-check-timeout-sec", "5", "--num-warmups", "1",
        "--save-result", "--result-dir", machine.work, "--result-filename", "load.json", "--disable-tqdm")
    with Idle() as idle:
        try:
            code, text = machine.call(command, most=1.5 * seconds + 15)
        except Cut as cut:
            return str(cut)
    if not result.exists():
        return f"exit code {code}: {last_line(text)}"
    figures = json.loads(result.read_text())
    keys = ["completed", "failed", "duration", "request_throughput", "output_throughput", "total_input_tokens",
            "total_output_tokens", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_itl_ms"]
    kept = {key: figures.get(key) for key in keys}
    machine.add_figure("serving", f"{size} {load.name}", clients=load.clients, idle_percent=idle.percent(), **kept)
    if not figures.get("completed"):
        return f"no request was answered: {last_line(text)}"
    return None
