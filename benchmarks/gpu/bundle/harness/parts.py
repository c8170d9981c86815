"""The parts, and the three calls that are made of them, most decisive first."""
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Callable

from . import kernels, models, seeds, serving, suites
from .machine import ROOT, Cut, Failed, Skipped, ended, last_line


@dataclasses.dataclass
class Part:
    name: str
    what: str
    limit: float  # seconds, where there is time
    least: float  # below which it is not begun
    run: Callable
    commands: Callable = lambda machine: []  # for people: what it starts
    needs_gpu: bool = True


def machine_facts(machine):
    facts = machine.facts
    facts["python"] = f"{sys.version.split()[0]}; torch's: {machine.python}"
    facts["cuBLASLt"] = machine.cublaslt.said
    facts["processors"] = os.cpu_count()
    facts.update(json.loads((ROOT / "manifest.json").read_text()))
    facts["gpu"] = "no nvidia-smi"
    if shutil.which("nvidia-smi"):
        query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
        said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=30)
        facts["gpu"] = last_line(said.stdout)
    if not machine.cublaslt.folder and not machine.rehearsal:
        raise Failed(f"{facts['gpu']}; {machine.cublaslt.said}")
    return facts["gpu"]


# What a rehearsal runs of each program: the emulator takes long.
REHEARSED = {"kernels_test": "*Emulator*:*Norm*", "ops_test": "*Norm*:*EmbedReads*", "golden_test": "*/CudaGolden.*/qwen2_odd_heads",
             "libraries_test": "*Choice*:*Places*"}


def tests(name, *programs):
    """Each program with a filter of its own, where one stands behind a colon."""
    pairs = [(each.split(":", 1) + [""])[:2] for each in programs]

    def chosen(machine):
        return [(program, REHEARSED.get(program, "") if machine.rehearsal else only) for program, only in pairs]

    def run(machine):
        return suites.run(machine, name, chosen(machine))

    def commands(machine):
        return [machine.program(program, "--gtest_list_tests", *([f"--gtest_filter={only}"] if only else []))
                + [f"# and its tests, {machine.jobs} processes at a time"] for program, only in chosen(machine) if machine.has(program)]
    return run, commands


def sanitizer():
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    places += map(str, pathlib.Path("/usr/local").glob("cuda-*/bin/compute-sanitizer"))
    return next((each for each in places if each and os.access(each, os.X_OK)), None)


# Memory where every allocation is the device's own; races and barriers where shared memory is used most. The kernels'
# own tests are the smallest launches of each.
SANITIZED = [("memcheck", "golden_test", "*/CudaGolden.GreedyTokensInChunks/qwen2_odd_heads"),
             ("racecheck", "kernels_test", "GemmKernel.*:AttentionKernel.*:SplitDecode.*:CodeKernels.*:E4m3Kernels.*:NormKernel.*:RowStatsKernel.*"),
             ("racecheck", "ops_test", "Sampling.*:*RowStats*:*Recurrence*Match*:*Gemm.StoredTypes*"),
             ("synccheck", "ops_test", "Sampling.*:*Gemm.StoredTypes*:*Norm*:*RowStats*:*Recurrence*Match*")]


def sanitizer_runs(machine):
    """Those whose program the bundle has."""
    return [(tool, program, REHEARSED[program] if machine.rehearsal else only) for tool, program, only in SANITIZED if machine.has(program)]


def sanitizer_commands(machine, found="compute-sanitizer"):
    return [[found, f"--tool={tool}", "--error-exitcode=9", *machine.program(program, f"--gtest_filter={only}")]
            for tool, program, only in sanitizer_runs(machine)]


def sanitizers(machine):
    found = sanitizer()
    if not found:
        raise Skipped("no compute-sanitizer in the PATH or under /usr/local/cuda*")
    said, bad, cut = [], [], []
    commands = sanitizer_commands(machine, found)
    for at, (command, (tool, program, _)) in enumerate(zip(commands, sanitizer_runs(machine))):
        tool = f"{tool} of {program}"
        try:
            code, text = machine.call(command, most=machine.left() / (len(commands) - at))
        except Cut as reason:
            cut.append(f"{tool}: {reason}")
            continue
        if code == 9:  # its own; what it found is named, and the next one runs all the same
            lines = [line for line in text.splitlines() if line.startswith("=========") and "ERROR SUMMARY" not in line and len(line) > 12]
            bad.append(f"{tool}: {last_line(text)}: {' / '.join(line[9:].strip() for line in lines[1:4])}"[:600])
        elif code != 0:
            bad.append(f"{tool}: {ended(code)}: {last_line(text)}")
        elif "[       OK ]" not in text:
            bad.append(f"{tool}: no test ran: {last_line(text)}")
        else:
            said.append(f"{tool} clean")
    if bad:
        raise Failed("; ".join(bad + said + cut))
    if cut:
        raise Cut("; ".join(said + cut))
    return ", ".join(said)


def bench_command(machine, part, seconds, *options):
    sizes = "rehearsal" if machine.rehearsal else "full"
    return machine.program("gpu_bench", part, "--figures", machine.figures_file, "--sizes", sizes, "--seconds", f"{seconds:.0f}", *options)


def bench(part, *options):
    def run(machine):
        machine.expect(bench_command(machine, part, max(1, machine.left() - 4), *options))

    def commands(machine):
        return [bench_command(machine, part, 60, *options)]
    return run, commands


def model(name):
    def of(machine, folder, seconds):
        return bench_command(machine, "model", seconds, "--model", folder, "--name", name, "--load-format", "dummy")

    def run(machine):
        folder = models.folder_of(machine, name)
        called = name
        if name == "72b":
            layers = 8 if machine.rehearsal else models.layers_of_72b(machine)
            if layers < 8:
                raise Skipped(f"the GPU's memory holds {layers} of its 80 layers")
            if not machine.rehearsal:
                models.cut_layers(folder, layers)
            called = f"72b ({layers} of 80 layers)"
        machine.expect([called if each == name else each for each in of(machine, folder, max(1, machine.left() - 4))])

    def commands(machine):
        folder, make = models.make_command(machine, name)
        return [make, of(machine, folder, 60)]
    return run, commands


def peer_command(machine, what, folder, seconds):
    return [machine.python, str(ROOT / "harness" / "peers.py"), what, "--shapes", str(machine.work / "shapes.json"), "--model", str(folder),
            "--figures", str(machine.figures_file), "--seconds", f"{seconds:.0f}", *(["--rehearsal"] if machine.rehearsal else [])]


def peers(what):
    def run(machine):
        folder = models.folder_of(machine, "2b") if what != "ops" else ""
        machine.read_figures()
        (machine.work / "shapes.json").write_text(json.dumps(machine.of_part("ops")))
        environment = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}  # torch brings its own
        code, text = machine.call(peer_command(machine, what, folder, max(1, machine.left() - 5)), environment=environment)
        if code != 0:
            raise Failed(f"{ended(code)}: {last_line(text)}")

    def commands(machine):
        return [peer_command(machine, what, models.make_command(machine, "2b")[0] if what != "ops" else "", 60)]
    return run, commands


def made(name, what, limit, least, pair, needs_gpu=True):
    return Part(name, what, limit, least, pair[0], pair[1], needs_gpu)


FIGURE_19 = [made(f"figure19-{row.model}-{policy}", f"figure 19, {row.model}, {policy}: throughput, then latency at {row.rate}/s",
                  55, 22, seeds.figure_19(row, policy)) for policy in ("jenga", "static") for row in seeds.PUBLISHED_19]
ALL = {each.name: each for each in [
    Part("machine", "which GPU, driver, programs and libraries", 30, 1, machine_facts, needs_gpu=False),
    made("kernels", "each kernel against its definition in double precision", 120, 10, tests("kernels", "kernels_test")),
    made("libraries", "the library's numbers, the probes, liars", 60, 10, tests("libraries", "libraries_test")),
    made("goldens", "every family against transformers: stages, greedy tokens, graphs, states, bytes, libraries", 120, 10,
         tests("goldens", "golden_test")),
    made("op-suites", "the suite of every op, f32, against the slow twin", 120, 10, tests("op-suites", "ops_test")),
    Part("sanitizers", "compute-sanitizer on small shapes", 90, 15, sanitizers, sanitizer_commands),
    made("batch-invariance", "rows of products and attention, alone and in company", 40, 8, bench("invariance")),
    made("agreement", "numbers of products and attention: own against double precision, libraries against own", 60, 8, bench("agreement")),
    made("roofs", "copies and mma.sync", 20, 4, bench("roofs")),
    made("ops", "time of every op at real shapes", 110, 10, bench("ops")),
    made("torch", "torch's largest products and SDPA, and at the same shapes", 45, 12, peers("ops")),
    made("model-2b", "Qwen2-VL-2B, random weights: prefill, decode, images", 50, 15, model("2b")),
    made("model-7b", "Qwen2-VL-7B, random weights", 75, 25, model("7b")),
    made("kernels-2b", "where the 2B's time goes, by kernel", 60, 15, kernels.part("2b", kernels.STEPS)),
    made("kernels-7b", "where the 7B's time goes, by kernel", 60, 20, kernels.part("7b", ["decode-1", "prefill"])),
    made("serving-2b", "clients with images, two steps in flight", 110, 25, serving.part("2b", 2, 5)),
    made("serving-2b-one-step", "the first of these loads, one step in flight", 45, 25, serving.part("2b", 1, 2)),
    made("graph-peer", "the 2B shape in transformers, a step with a static cache as a CUDA graph", 75, 30, peers("graph")),
    made("transformers", "the same in transformers as people run it", 50, 30, peers("transformers")),
    made("serving-7b", "64 clients with images", 75, 30, serving.part("7b", 2, 2)),
    made("model-72b", "Qwen2-VL-72B, random weights, as many layers as the memory holds", 60, 30, model("72b")),
    made("seed002-2b", "002: DashInfer-VLM's table, Qwen2-VL-2B", 110, 35, seeds.seed_002("2b")),
    made("seed002-7b", "002: DashInfer-VLM's table, Qwen2-VL-7B", 150, 45, seeds.seed_002("7b")),
    *FIGURE_19,
    made("seed001", "001: an encoder and a server on one GPU, five ways of choosing image sizes", 150, 30, seeds.seed_001(seeds.WAYS)),
]}
PARTS = list(ALL.values())

CORRECT = ["machine", "kernels", "agreement", "libraries", "goldens", "op-suites", "batch-invariance", "sanitizers", "roofs", "ops", "torch"]
WHERE = ["machine", "roofs", "model-2b", "model-7b", "kernels-2b", "serving-2b", "graph-peer", "kernels-7b", "serving-2b-one-step", "serving-7b",
         "transformers", "model-72b"]
SEEDS = ["machine", "seed002-2b", "seed002-7b", *[each.name for each in FIGURE_19 if each.name.endswith("jenga")], "seed001",
         *[each.name for each in FIGURE_19 if each.name.endswith("static")]]
CALLS = {1: [ALL[each] for each in CORRECT], 2: [ALL[each] for each in WHERE], 3: [ALL[each] for each in SEEDS]}


def shares(parts, seconds):
    """What each part may take of so many seconds if none is done sooner: in proportion to its limit, and what it wants
    at the least; those at the end, for which that does not suffice, get none."""
    left = seconds
    given = []
    for at, part in enumerate(parts):
        whole = sum(each.limit for each in parts[at:])
        share = min(part.limit, max(part.least, left * part.limit / whole))
        share = share if left >= part.least else 0
        given.append(min(share, left))
        left -= given[-1]
    return given


def seconds_of(parts, at, left):
    """Of the part that is next, when so many seconds are left: what the ones before did not take is shared too."""
    return shares(parts[at:], left)[0]
