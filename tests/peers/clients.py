"""Load generators of others beside `saccade bench serve`: benchmarks/results/clients.md, whole, on standard output.

clients.py --saccade BINARY --work DIR --tokenizer CHECKPOINT --model CHECKPOINT [--rounds N] [--minutes M]
           [NAME=BIN_DIR ...]

Sixteen streams at once, 32 tokens in and 32 out, in rounds in which every client has its turn at every load; what does
not tell times, serve and role, once at the end:
  exact  `bench mock` with TTFT 40 ms and 10 ms a token: how wrong is a client's clock?
  role   the same, with a first event that has a role and no token, sent at once (OpenAI, llama-server)
  fast   `bench mock` that costs nothing: how many requests a second can a client drive?
  serve  `saccade serve` of a real model: does it get through, what does it count?
The truth is what the mock says it wrote, not what it was told to: on a busy machine the mock is late too, and a client
is not at fault for that.
"""
import argparse
import dataclasses
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

from generators import OTHERS, Figures, Load, Saccade

STREAMS, TTFT, ITL, TOKENS = 16, 40.0, 10.0, 32
COMPATS = ("saccade", "vllm", "guidellm", "genai-bench")
LIMIT = 900  # seconds, of one client's run


@dataclasses.dataclass
class Turn:
    """One client's run under one load."""
    figures: Figures
    ttft: float | None = None  # as the mock wrote it, milliseconds
    itl: float | None = None


class Mock:
    def __init__(self, saccade, load):
        self.command = [saccade, "bench", "mock", "--port", "0", "--model", "m"]
        if load != "fast":
            self.command += ["--ttft", str(TTFT), "--itl", str(ITL)]
        if load == "role":
            self.command.append("--role-chunk")

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        said = self.process.communicate()[0]
        self.ttft, self.itl = map(float, re.search(r"after ([\d.]+) ms and ([\d.]+) ms", said).groups())


class Serve:
    """`saccade serve` on a free port. One process a turn: no client finds another's cache."""

    def __init__(self, saccade, model, log):
        self.command = [saccade, "serve", "--model", model, "--served-model-name", "m", "--port", "0"]
        self.log = log

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        for _ in range(600):
            found = re.search(r"http://127\.0\.0\.1:\d+", pathlib.Path(self.log).read_text())
            if found and "startup complete" in pathlib.Path(self.log).read_text():
                self.url = found.group()
                return self
            time.sleep(0.1)
        raise RuntimeError(f"saccade serve did not start, {self.log}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Bench:
    def __init__(self, args):
        self.args = args
        self.root = pathlib.Path(args.work, "clients")
        shutil.rmtree(self.root, ignore_errors=True)
        self.clients = dict(client.split("=", 1) for client in args.clients)
        self.rounds = 0
        self.turns = {}  # (client or "--compat X", load) -> [Turn]
        self.failed = {}  # (client, load) -> reason
        self.commands = {}
        self.loads = []  # load averages

    def run(self, write):
        """`write` is called when there is more to be seen: a run that is cut leaves what it had."""
        begin = time.monotonic()
        for number in range(self.args.rounds):
            if number and time.monotonic() - begin > self.args.minutes * 60:
                break
            self.all_take_turns("exact", number)
            self.all_take_turns("fast", number)
            self.rounds = number + 1
            write()
        for load in ("serve", "role"):
            self.all_take_turns(load, 0)
            write()

    def all_take_turns(self, load, number):
        for client in ("saccade", *self.clients):
            self.loads.append(os.getloadavg()[0])
            try:
                self.turn(client, load, number)
            except Exception as error:  # a row that says so; the others go on
                self.failed[client, load] = str(error)[:200]
                print(f"{client} {load}: {error}", file=sys.stderr)

    def turn(self, client, load, number):
        out = self.root / f"{client}-{load}-{number}"
        out.mkdir(parents=True)
        ours = client == "saccade"
        requests = {"exact": 160, "role": 64, "fast": 20_000 if ours else 1_000, "serve": 64}[load]
        if load == "serve":
            server = Serve(self.args.saccade, self.args.model, out / "server.log")
        else:
            server = Mock(self.args.saccade, load)
        tokenizer = self.args.model if load == "serve" else self.args.tokenizer
        with server:
            asked = Load(server.url, "m", tokenizer, requests, STREAMS, TOKENS, TOKENS)
            generator = Saccade(self.args.saccade) if ours else OTHERS[client]
            command = generator.command(asked, str(out)) if ours else generator.command(self.clients[client], asked, str(out))
            self.commands.setdefault((client, load), command)
            self.execute(command, out / "log.txt", None if ours else self.clients[client])
        if ours:
            for compat in COMPATS:
                self.execute(generator.report(str(out), compat), out / "report.txt")
                self.note(f"--compat {compat}", load, generator.figures(str(out), compat), server)
        else:
            self.note(client, load, generator.figures(str(out)), server)
        print(f"round {number}: {client} {load}", file=sys.stderr, flush=True)

    def note(self, who, load, figures, server):
        turn = Turn(figures, getattr(server, "ttft", None), getattr(server, "itl", None))
        self.turns.setdefault((who, load), []).append(turn)

    def execute(self, command, log, bin_dir=None):
        environment = dict(os.environ, VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", TOKENIZERS_PARALLELISM="false", COLUMNS="200")
        if bin_dir != self.clients.get("aiperf"):  # which, offline, takes no tokenizer by its path
            environment.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")
        if bin_dir:
            environment["PATH"] = f"{bin_dir}:{environment['PATH']}"
        with open(log, "w") as output:
            done = subprocess.run(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment,
                                  timeout=LIMIT, cwd=log.parent)
        if done.returncode:
            raise RuntimeError(f"rc {done.returncode}, {log}")

    def pick(self, who, load, value):
        """Median of value(turn) over the rounds, and their range; a dash without any."""
        values = [v for v in (value(turn) for turn in self.turns.get((who, load), [])) if v is not None]
        if not values:
            return "-"
        middle = abs(statistics.median(values))
        digits = 0 if middle >= 500 or all(v == int(v) for v in values) else 1 if middle >= 100 else 2
        text = f"{statistics.median(values):,.{digits}f}"
        return text if len(values) == 1 or max(values) == min(values) else f"{text} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"

    def rows(self):
        """(label, key of the turns, name of the client whose failures count), each client with ours beside it."""
        yield "saccade bench serve", "--compat saccade", "saccade"
        for client in self.clients:
            yield OTHERS[client].name, client, client
            compat = OTHERS[client].compat
            if compat != "saccade":
                yield f"saccade, `--compat {compat}`", f"--compat {compat}", "saccade"

    def table(self, load, columns):
        lines = ["| client | " + " | ".join(title for title, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for label, who, client in self.rows():
            reason = self.failed.get((client, load))
            cells = [self.pick(who, load, value) for _, value in columns]
            if reason and (who, load) not in self.turns:
                cells[0] = "failed"
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def versions(self):
        lines = []
        for client, bin_dir in self.clients.items():
            package = OTHERS[client].package
            asked = f"import importlib.metadata as m, sys; print(m.version('{package}'), 'Python', sys.version.split()[0])"
            said = subprocess.run([f"{bin_dir}/python", "-c", asked], capture_output=True, text=True).stdout.strip()
            lines.append(f"{package} {said}")
        return "; ".join(lines)

    def flags(self, load):
        lines = []
        for client in ("saccade", *self.clients):
            command = " ".join(map(str, self.commands.get((client, load), [])))
            for path, name in ((self.args.saccade, "saccade"), (str(pathlib.Path(__file__).parent), "tests/peers"),
                               (f"{self.root}/{client}-{load}-0", "OUT"), (self.args.tokenizer, "TOKENIZER"),
                               (self.clients.get(client, "-") + "/", "")):
                command = command.replace(path, name)
            lines.append(re.sub(r"http://127\.0\.0\.1:\d+", "URL", command))
        return "\n".join(f"    {line}" for line in lines)


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) / 2**20
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB, {system}"


def page(bench, args, seconds):
    wrong = lambda name: lambda turn: getattr(turn.figures, name) - getattr(turn, {"ttft": "ttft", "gap": "itl"}[name])
    read = lambda name: lambda turn: getattr(turn.figures, name)
    low, high = min(bench.loads), max(bench.loads)
    return f"""# Load generators beside each other

    tests/peers/run clients --rounds {args.rounds} --minutes {args.minutes:g} --output benchmarks/results/clients.md

Made by that command on {time.strftime('%Y-%m-%d', time.gmtime())} in {seconds / 60:.0f} minutes. Machine: {machine()}. Load average {low:.1f} to
{high:.1f} before the turns{": other work went on beside these runs, so that rates are lower and latencies higher than on a quiet machine" if low > 1 or high > 4 else ""}.
{bench.versions()}.

{STREAMS} streams at once, {TOKENS} tokens in and {TOKENS} out, closed loop; {bench.rounds} round{'s' * (bench.rounds > 1)}, in each of which every client has its turn.
Cells are medians over the rounds, with the range; the loads role and serve had one turn each, and have none. "saccade, `--compat X`" is our run of the same round, its log read
again by X's definitions; where a tool has none of its own here (aiperf, inference-perf) the first row is the one beside it.

## How wrong a client's clock is
`saccade bench mock --ttft {TTFT:g} --itl {ITL:g}`. The truth is what the mock wrote (its own mean, from the request's last byte
on), not what it was told: what a busy machine does to the mock is no client's fault. In ms.

{bench.table("exact", [("TTFT it says", read("ttft")), ("TTFT wrong by", wrong("ttft")), ("token gap it says", read("gap")), ("gap wrong by", wrong("gap")), ("tokens an answer, truth 32", read("tokens"))])}

inference-perf divides gaps by its own tokenizer, in whose vocabulary the mock's word is two tokens: half the gap.

The same server when it sends an event with a role and no token at once, as OpenAI's does and llama-server:

{bench.table("role", [("TTFT it says", read("ttft")), ("TTFT wrong by", wrong("ttft")), ("token gap it says", read("gap")), ("gap wrong by", wrong("gap"))])}

## How many requests a second a client drives
Answers that cost nothing, a token a write: 1,000 requests, ours 20,000.

{bench.table("fast", [("requests/s", read("rate")), ("tokens an answer, truth 32", read("tokens"))])}

## Against `saccade serve`
`saccade serve --model {pathlib.Path(args.model).name}`, 64 requests, a fresh server for each turn. All clients share two cores with the server here, so
that a client that computes more leaves it less; the columns that do not depend on that are the first and the last.

{bench.table("serve", [("answered of 64", read("completed")), ("requests/s", read("rate")), ("TTFT (ms)", read("ttft")), ("token gap (ms)", read("gap")), ("tokens an answer, truth 32", read("tokens"))])}

## Commands
{bench.flags("exact")}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saccade", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="no round begins later")
    parser.add_argument("clients", nargs="*")
    args = parser.parse_args()
    bench = Bench(args)
    begin = time.monotonic()
    output = pathlib.Path(args.work, "clients.md")
    bench.run(lambda: output.write_text(page(bench, args, time.monotonic() - begin)))
    print(output.read_text(), end="")
    for (client, load), reason in bench.failed.items():
        print(f"FAILED {client} {load}: {reason}", file=sys.stderr)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
