"""The parts, in order of priority."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Callable

from . import serving
from .machine import ROOT, Cut, Failed, Skipped, last_line


@dataclasses.dataclass
class Part:
    name: str
    what: str
    limit: float  # seconds
    least: float  # below which it is not begun
    run: Callable
    needs_gpu: bool = True


def machine_facts(machine):
    facts = machine.facts
    facts["python"] = sys.version.split()[0]
    facts["processors"] = os.cpu_count()
    manifest = ROOT / "manifest.json"
    facts.update(json.loads(manifest.read_text()))
    if shutil.which("nvidia-smi"):
        query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
        said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=30)
        facts["gpu"] = last_line(said.stdout)
        return facts["gpu"]
    facts["gpu"] = "no nvidia-smi"
    return "no nvidia-smi"


def tests(machine, program, only):
    """A program of tests: how many passed, were skipped and failed, and which. Its numbers become figures."""
    result = machine.work / f"{program}.json"
    result.unlink(missing_ok=True)
    options = [f"--gtest_output=json:{result}"]
    if only:
        options.append(f"--gtest_filter={only}")
    ended = None
    try:
        code, text = machine.call(machine.program(program, *options))
    except Cut as cut:  # it writes no result then: the log has what it came to
        raise Cut(f"{cut}: see log.txt for the tests until then")
    if not result.exists():
        raise Failed(f"exit code {code} and no result: {last_line(text)}")
    passed, skipped, failed = 0, 0, []
    for suite in json.loads(result.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                failed.append(name)
            elif test["result"] == "SKIPPED":
                skipped += 1
            elif test["result"] == "COMPLETED":
                passed += 1
            if "greedy_bf16_of" in test:
                machine.add_figure("goldens", name, same=int(test["greedy_bf16_same"]), of=int(test["greedy_bf16_of"]))
    machine.add_figure("tests", program, passed=passed, skipped=skipped, failed=failed)
    if failed or code != 0:
        raise Failed(f"{len(failed)} of {passed + len(failed)} failed: {', '.join(failed[:8])} (exit code {code})")
    if passed == 0:
        raise Skipped(f"all {skipped} were skipped: {last_line(text)}")
    return f"{passed} passed, {skipped} skipped"


def op_suites(machine):
    only = "*Norm*:*EmbedReads*:*Rope*" if machine.rehearsal else ""
    return tests(machine, "ops_test", only)


def goldens(machine):
    only = "*/CudaGolden.*/qwen2_odd_heads" if machine.rehearsal else ""
    return tests(machine, "golden_test", only)


def sanitizers(machine):
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    places += map(str, pathlib.Path("/usr/local").glob("cuda-*/bin/compute-sanitizer"))
    found = next((each for each in places if each and os.access(each, os.X_OK)), None)
    if not found:
        raise Skipped("no compute-sanitizer in the PATH or under /usr/local/cuda*")
    # Memory where every allocation is the device's own; races and barriers where shared memory is used most.
    runs = [("memcheck", "golden_test", "*/CudaGolden.GreedyTokensInChunks/qwen2_odd_heads"),
            ("racecheck", "ops_test", "*Gemm.StoredTypes*:*Norm*:*RowStats*:*Recurrence*Match*"),
            ("synccheck", "ops_test", "*Gemm.StoredTypes*:*Norm*:*RowStats*:*Recurrence*Match*")]
    said = []
    for tool, program, only in runs:
        try:
            code, text = machine.call([found, f"--tool={tool}", "--error-exitcode=9",
                                       *machine.program(program, f"--gtest_filter={only}")],
                                      most=machine.left() / (len(runs) - len(said)))
        except Cut as cut:
            said.append(f"{tool}: {cut}")
            continue
        if code == 9:
            raise Failed(f"{tool}: {last_line(text)}")
        if code != 0:
            raise Failed(f"{tool}: exit code {code}: {last_line(text)}")
        said.append(f"{tool} clean")
    return ", ".join(said)


def bench(machine, part, *options):
    sizes = "rehearsal" if machine.rehearsal else "full"
    machine.expect(machine.program("gpu_bench", part, "--figures", machine.figures_file, "--sizes", sizes,
                                   "--seconds", f"{max(1, machine.left() - 8):.0f}", *options))


def invariance(machine):
    bench(machine, "invariance")


def roofs(machine):
    bench(machine, "roofs")


def ops(machine):
    bench(machine, "ops")


def folder_of(machine, size):
    """Configuration and tokenizer of the model's true shape; weights are made up when it is loaded."""
    if machine.rehearsal:
        return ROOT / "tests/golden/qwen2_vl/odd_heads", "dummy"
    folder = machine.work / size
    if not (folder / "config.json").exists():
        machine.expect(machine.program("saccade", "model", "make-dummy", "--family", "qwen2_vl", "--size", size,
                                       "--config-only", "--out", folder), most=60)
    if size == "72b":
        config = json.loads((folder / "config.json").read_text())
        config["num_hidden_layers"] = layers_of_72b(machine)
        (folder / "config.json").write_text(json.dumps(config))
    return folder, "dummy"


def layers_of_72b(machine):
    """As many of its 80 layers as leave a third of the GPU's memory: a layer has 1.75 GB of weights in bf16, and what is
    beside the layers 6.3 GB."""
    mebibytes = [float(each) for each in re.findall(r"([0-9.]+) MiB", str(machine.facts.get("gpu")))]
    gigabytes = mebibytes[0] * 2**20 / 1e9 if mebibytes else 80
    layers = min(80, int((gigabytes * 2 / 3 - 6.3) / 1.75))
    if layers < 8:
        raise Skipped(f"{gigabytes:.0f} GB of GPU memory hold {max(0, layers)} of its 80 layers")
    return layers


def model(size):
    def run(machine):
        folder, load_format = folder_of(machine, size)
        name = size
        if size == "72b" and not machine.rehearsal:
            name = f"72b ({layers_of_72b(machine)} of 80 layers)"
        bench(machine, "model", "--model", folder, "--name", name, "--load-format", load_format)
    return run


def serve(size, loads):
    def run(machine):
        folder, load_format = folder_of(machine, size)
        return serving.measure(machine, folder, size, load_format, loads(machine.rehearsal))
    return run


def peers(what):
    def run(machine):
        python = shutil.which("python3") or sys.executable
        folder, _ = folder_of(machine, "2b") if what == "transformers" else ("", "")
        machine.read_figures()
        shapes = machine.work / "shapes.json"
        shapes.write_text(json.dumps(machine.of_part("ops")))
        environment = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}  # torch brings its own
        code, text = machine.call([python, str(ROOT / "harness" / "peers.py"), what, str(shapes), str(folder),
                                   str(machine.figures_file), f"{max(1, machine.left() - 5):.0f}"], environment=environment)
        if code == 78:
            raise Skipped(last_line(text))
        if code != 0:
            raise Failed(f"exit code {code}: {last_line(text)}")
    return run


PARTS = [
    Part("machine", "which GPU, driver and programs", 30, 1, machine_facts, needs_gpu=False),
    Part("op-suites", "the suite of every op, f32, against the slow twin", 90, 10, op_suites),
    Part("sanitizers", "compute-sanitizer on small shapes", 60, 15, sanitizers),
    Part("goldens", "every family against transformers: stages, greedy tokens, the engine", 90, 10, goldens),
    Part("batch-invariance", "rows of products and attention, alone and in company", 40, 10, invariance),
    Part("roofs", "copies and mma.sync", 30, 5, roofs),
    Part("ops", "time of every op at real shapes", 75, 10, ops),
    Part("torch", "torch's products and attention at the same shapes", 45, 15, peers("ops")),
    Part("model-2b", "Qwen2-VL-2B, random weights: prefill, decode, images", 50, 20, model("2b")),
    Part("model-7b", "Qwen2-VL-7B, random weights", 75, 40, model("7b")),
    Part("serving-2b", "clients with images, and 2,807 tokens in, 120 out, 32 at once", 150, 45,
         serve("2b", serving.loads_2b)),
    Part("transformers", "the same 2B shape in transformers, bf16, sdpa", 50, 30, peers("transformers")),
    Part("serving-7b", "64 clients with images", 90, 60, serve("7b", serving.loads_7b)),
    Part("model-72b", "Qwen2-VL-72B, random weights, as many layers as the memory holds", 60, 30, model("72b")),
]
