"""Where a step's time goes, by kernel: Nsight Compute's duration of each launch of one step, without its own clocks."""
import csv
import glob
import io
import os
import re
import shutil

from . import models
from .machine import Failed, Skipped, last_line

METRIC = "gpu__time_duration.sum"
UNITS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0}
STEPS = ["decode-1", "decode-8", "prefill", "image"]


def tool():
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    return next((each for each in places if each and os.access(each, os.X_OK)), None)


def short(name):
    """The kernel's name and its template's arguments, without types of parameters and places of names."""
    depth, end = 0, len(name)
    for at, letter in enumerate(name):  # up to the parameters, which begin at depth 0
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth == 0 and not name.startswith("(anonymous namespace)", at):
            end = at
            break
    name = name[:end].strip()
    name = re.sub(r"^(void|static) ", "", name)
    name = re.sub(r"(\(anonymous namespace\)|<unnamed>|saccade|cuda|cutlass|flashinfer|[a-z0-9_]*_GLOBAL__N_[a-z0-9_]*)::", "", name)
    return name[:110]


def parse(text):
    """[(kernel, seconds)] in order of launch, of what ncu --csv printed among what the program printed."""
    lines = text.splitlines()
    begin = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    rows = csv.DictReader(io.StringIO("\n".join(line for line in lines[begin:] if line.startswith('"'))))
    found = []
    for row in rows:
        if row.get("Metric Name") == METRIC:
            value, unit = row["Metric Value"], row["Metric Unit"]
        elif row.get(METRIC) and row["ID"]:  # --page raw: a column each, units in the first row
            value, unit = row[METRIC], "ns"
        else:
            continue
        if unit not in UNITS:
            raise Failed(f"ncu gives durations in '{unit}'")
        found.append((short(row["Kernel Name"]), float(value.replace(",", "")) * UNITS[unit]))
    return found


def by_kernel(launches):
    """[(kernel, launches, seconds)], dearest first."""
    sums = {}
    for name, seconds in launches:
        count, total = sums.get(name, (0, 0.0))
        sums[name] = (count + 1, total + seconds)
    return sorted(((name, count, total) for name, (count, total) in sums.items()), key=lambda each: -each[2])


def step_command(machine, folder, name, step):
    sizes = "rehearsal" if machine.rehearsal else "full"
    return machine.program("gpu_bench", "step", "--model", folder, "--name", name, "--step", step, "--load-format", "dummy",
                           "--figures", machine.figures_file, "--sizes", sizes)


def ncu_command(machine, found, folder, name, step):
    return [found, "--metrics", METRIC, "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
            "--profile-from-start", "off", "--launch-count", "1500", *step_command(machine, folder, name, step)]


def part(name, steps):
    def run(machine):
        found = tool()
        if not found:
            raise Skipped("no ncu in the PATH or under /opt/nvidia/nsight-compute")
        folder = models.folder_of(machine, name)
        said = []
        for step in steps:
            if machine.left() < 8:
                said.append(f"no time for {step}")
                break
            # What the step takes unwatched, and then each of its kernels.
            machine.expect(step_command(machine, folder, name, step), most=machine.left() / 2)
            machine.read_figures()
            _, text = machine.call(ncu_command(machine, found, folder, name, step))
            launches = parse(text)
            if not launches:
                raise Failed(f"{step}: ncu saw no kernel: {last_line(text)}")
            whole = next((each["seconds"] for each in reversed(machine.of_part("step")) if each["name"] == f"{name} {step}"), None)
            busy = sum(seconds for _, seconds in launches)
            machine.add_figure("kernels", f"{name} {step}", launches=len(launches), kernel_seconds=busy, step_seconds=whole,
                               idle_share=None if not whole else round(max(0.0, 1 - busy / whole), 4),
                               kernels=[{"kernel": kernel, "launches": count, "seconds": seconds}
                                        for kernel, count, seconds in by_kernel(launches)])
            said.append(f"{step}: {len(launches)} kernels, {busy * 1e3:.2f} ms")
        return "; ".join(said)

    def commands(machine):
        folder, make = models.make_command(machine, name)
        return [make] + [command for step in steps for command in (
            step_command(machine, folder, name, step), ncu_command(machine, tool() or "ncu", folder, name, step))]
    return run, commands
