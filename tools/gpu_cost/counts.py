"""What the object code says of a kernel: the instructions of the loop that does its work, and its registers."""
import importlib.machinery
import importlib.util
import json
import os
import re
import sys

from tools.gpu_cost.sources import ROOT, Changed

FILE = os.path.join(ROOT, "tools/gpu_cost/sass_counts.json")
OBJECTS = os.path.join(ROOT, "build/cuda-check/src/ops/cuda")
# Class of instruction that its loops are known by; how the shortest way through is to go.
LOOPS = {
    "gemm": ("HMMA", True), "few_gemm": ("HMMA", True), "gemm_bytes": ("IMMA", True), "gemm_codes": ("HMMA", True), "gemm_e4m3": ("HMMA", True),
    "attention": ("HMMA", True), "attention_codes": ("HMMA", True),
}
SHOWN = ("HMMA", "IMMA", "LDSM", "LDGSTS", "LDG", "MUFU", "f32", "ATOMS")


def sass():
    # Beside a source without .py no byte code is to be left.
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("sass", os.path.join(ROOT, "scripts/sass"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sass", loader))
    loader.exec_module(module)
    return module


def conditional(instruction):
    return instruction.text.startswith("@") or not re.fullmatch(r"BRA(\.\w+)* (`\(\.\w+\)|0x[0-9a-f]+)", instruction.text)


def way_through(body, wanted, most):
    """The instructions of one turn of a loop: as many of `wanted` as any way has, if `most`, and then as few as possible."""
    at = {each.address: i for i, each in enumerate(body)}
    best = [None] * len(body)
    best[-1] = (0, 1, None)
    for i in range(len(body) - 2, -1, -1):
        each = body[i]
        after = []
        branch = each.target is not None
        if not branch or conditional(each):
            after.append(i + 1)
        if branch and at.get(each.target, -1) > i:
            after.append(at[each.target])
        after = [next_at for next_at in after if best[next_at] is not None]
        if each.opcode.startswith(("EXIT", "RET")) and not each.text.startswith("@") or not after:
            continue
        ways = [(best[j][0] - (1 if most and wanted(each) else 0), best[j][1] + 1, j) for j in after]
        best[i] = min(ways)
    way, i = [], 0 if best[0] is not None else None
    while i is not None:
        way.append(body[i])
        i = best[i][2]
    return way


def loops_of(instructions, wanted):
    """Loops with any of `wanted`, that have none of that kind inside but such as meet at no barrier."""
    found = []
    for end in instructions:
        if end.target is None or end.target > end.address:
            continue
        body = [each for each in instructions if end.target <= each.address <= end.address]
        if any(wanted(each) for each in body):
            found.append(body)
    return found


def summary(tool, body, way):
    counts = {}
    for each in way:
        kind = "ATOMS" if each.kind == "ATOMS" else each.kind
        if kind in SHOWN:
            counts[kind] = counts.get(kind, 0) + 1
    return {"turn": len(way), "loop": len(body), **{kind: counts[kind] for kind in SHOWN if kind in counts}}


def main_loop(tool, instructions, kind, most):
    """The loop of a tile's steps: it has the barrier, and of several the most of `kind`."""
    wanted = lambda each: tool.is_of(each, kind)  # noqa: E731
    loops = loops_of(instructions, wanted)
    barred = [body for body in loops if any(each.kind == "BAR" for each in body)] if most else loops
    inner = [body for body in barred or loops
             if not any(len(other) < len(body) and body[0].address <= other[0].address and other[-1].address <= body[-1].address
                        for other in barred or loops)]
    if not inner:
        return None
    body = max(inner, key=lambda each: (sum(map(wanted, each)), -len(each)))
    return summary(tool, body, way_through(body, wanted, most))


# The walks of the sampling kernel over a row: what tells them apart.
def sampling_loops(tool, instructions):
    is_load = lambda each: tool.is_of(each, "LDG")  # noqa: E731
    loops = loops_of(instructions, is_load)
    inner = [body for body in loops
             if not any(other is not body and body[0].address <= other[0].address and other[-1].address <= body[-1].address
                        for other in loops)]
    count = lambda body, part: sum(each.opcode.startswith(part) for each in body)  # noqa: E731
    f32 = lambda body: sum(each.kind == "f32" for each in body)  # noqa: E731
    plain = [body for body in inner if not count(body, "ATOMS") and not count(body, "ST")]
    found = {
        "masses": max(plain, key=f32),
        "fill": max(inner, key=lambda body: count(body, "ATOMS.ADD") * (count(body, "STS") == 0)),
        "count": max(inner, key=lambda body: count(body, "ATOMS.POPC") * (count(body, "ATOMS.ADD") == 0)),
        "list": max(inner, key=lambda body: count(body, "STS") * count(body, "ATOMS.ADD")),
    }
    return {name: summary(tool, body, way_through(body, is_load, True)) for name, body in found.items()}


def row_stats_loops(tool, instructions):
    loops = loops_of(instructions, lambda each: tool.is_of(each, "LDG"))
    largest = max((body for body in loops if not any(each.kind == "MUFU" for each in body)), key=len)
    sums = max((body for body in loops if any(each.kind == "MUFU" for each in body)), key=len)
    return {name: summary(tool, body, way_through(body, lambda each: False, False))
            for name, body in (("largest", largest), ("sums", sums))}


def registers_of(path, arch):
    """From what ptxas said of an object: by mangled name."""
    found, name = {}, None
    if not os.path.exists(path):
        return found
    with open(path, encoding="utf-8") as file:
        for line in file:
            if entry := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
                name = entry[1] if entry[2] == arch else None
            elif name is not None and (used := re.search(r"Used (\d+) registers", line)):
                found[name], name = int(used[1]), None
    return found


def count_object(path, arch="sm_90a"):
    """Of every kernel of an object, by its readable name."""
    tool = sass()
    cuobjdump = os.path.join(ROOT, ".cache/cuda-tools/nvidia/cu13/bin/cuobjdump")
    if not os.path.exists(cuobjdump):
        raise Changed("no cuobjdump: scripts/fetch-cuda-tools fetches it")
    if not os.path.exists(path):
        raise Changed(f"no object {path}: scripts/check-cuda makes it")
    kernels = tool.kernels_of(path, arch, cuobjdump)
    registers = registers_of(path + ".ptxas", arch)
    source = os.path.basename(path).removesuffix(".cu.o")
    kind, most = LOOPS.get(source, ("LDG", False))
    found = {}
    for mangled, name in zip(kernels, tool.readable(kernels)):
        instructions = kernels[mangled]
        if "sample_kernel" in name:
            loops = sampling_loops(tool, instructions)
        elif "row_stats_kernel" in name:
            loops = row_stats_loops(tool, instructions)
        else:
            loop = main_loop(tool, instructions, kind, most)
            loops = {} if loop is None else {"": loop}
        atomics = sorted({each.opcode for each in instructions if each.kind in ("ATOMS", "ATOMG")})
        found[re.sub(r"\(\w+Args.*$", "", name)] = {
            "source": source, "registers": registers.get(mangled, 0), "total": len(instructions), "atomics": atomics, "loops": loops}
    return found


def count_all(folder=OBJECTS):
    found = {}
    names = sorted(name for name in os.listdir(folder) if name.endswith(".cu.o")) if os.path.isdir(folder) else []
    if not names:
        raise Changed(f"no objects in {folder}: scripts/check-cuda makes them")
    for name in names:
        if not re.match(r"(paged|rows)_", name):  # FlashInfer's
            found |= count_object(os.path.join(folder, name))
    return found


class Counts:
    """Of the kernels that the model asks for; it remembers which these were."""

    def __init__(self, kernels):
        self.kernels = kernels
        self.asked = set()

    @classmethod
    def committed(cls):
        with open(FILE, encoding="utf-8") as file:
            return cls(json.load(file)["kernels"])

    def of(self, name):
        self.asked.add(name)
        if name not in self.kernels:
            raise Changed(f"sass_counts.json has no {name}: scripts/check-cuda && scripts/gpu-cost --count")
        return self.kernels[name]

    def loop(self, name, which=""):
        loops = self.of(name)["loops"]
        if which not in loops:
            raise Changed(f"{name} has no loop {which or 'of its own'}: scripts/gpu-cost --count")
        return loops[which]


def before():
    """Of the kernels of 208fc5e that today's are held against."""
    if not os.path.exists(FILE):
        return {}
    with open(FILE, encoding="utf-8") as file:
        return json.load(file)["before"]

def save(kernels, older):
    lines = ['{\n "kernels": {']
    lines.append(",\n".join(f"  {json.dumps(name)}: {json.dumps(kernels[name])}" for name in sorted(kernels)))
    lines.append(' },\n "before": {')
    lines.append(",\n".join(f"  {json.dumps(name)}: {json.dumps(older[name])}" for name in sorted(older)))
    lines.append(" }\n}")
    with open(FILE, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
