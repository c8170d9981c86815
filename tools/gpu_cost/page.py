"""benchmarks/results/gpu/cost.md."""
from tools.gpu_cost import attention, gpu as machine, measured, products, rows, steps
from tools.gpu_cost.attention import Heads
from tools.gpu_cost.products import Shape
from tools.gpu_cost.sources import models

US, MS = 1e6, 1e3
# A review of 208fc5e, on paper: milliseconds on an H100. Its kernels are those before all that followed from it.
REVIEW = {"2B decode of 1": 4.8, "2B decode of 8": 4.9, "2B decode of 64": 3.0, "7B decode of 1": 10.2, "7B decode of 8": 10.3,
          "7B decode of 64": 7.5, "7B prefill of 512": 18, "7B prefill of 2,048": 51, "7B prefill of 8,192": 232,
          "2B prefill of 512": 5.4, "2B prefill of 2,048": 12, "2B prefill of 8,192": 61, "tower of 1,024": 6.7,
          "tower of 2,704": 17.8, "tower of 5,476": 47}
# The same model of a00174a5, whose steps launch norms, rotation, writes into pages, activations and joins apart.
APART = {"2B decode of 1": 1.87, "2B decode of 8": 1.92, "2B decode of 64": 2.55, "7B decode of 1": 5.59, "7B decode of 8": 5.73,
         "7B decode of 64": 6.93}
GOALS = {"decode": 70, "prefill": 60, "tower": 50}
HEAD = """# What the kernels should cost

A model of the CUDA kernels' cost, beside what GPUs measured. `scripts/gpu-cost` makes this page from the sources, from
counts of the object code (`tools/gpu_cost/sass_counts.json`, of sm_90a) and from the figures of
[the first run](h100-first.md) and [the H200](h200.md). **Expected figures are computed, no GPU has shown them**; measured ones are said
to be.

    scripts/gpu-cost --page > benchmarks/results/gpu/cost.md
    scripts/check-cuda && scripts/gpu-cost --count       # first, where a kernel has changed

A kernel takes a launch, the latency of its first bytes, and then the longest of: its bytes over the memory's rate; the bytes
that a block wants over those it has under way, times the latency, a wave of blocks after the other; its flops with those
that a tile has too many, on the multiprocessor with most blocks; instructions of its loop over what a multiprocessor issues;
bytes of shared memory that ldmatrix reads and stages take; mma.sync that wait for each other. Grids and shared memory are
computed as the launches do it, tiles are read from the sources. Instructions are those of the way through the loop that has
all of its products and is else the shortest. A library is taken to be good: the best of six tiles at the full rate of wgmma,
sums in up to eight pieces; FlashInfer's tiles are dealt as `flash_plan.cc` does it.

Nothing but the launch is taken from what a kernel took. What it does not know: conflicts of banks and of atomics,
instructions that wait for the one before (each may issue in every cycle), L2's rate, clocks that fall, the host. So **it is
a bound that is hard to reach**: measured over expected says how much a kernel leaves.

"""


def table(head, lines):
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, rule, *lines]) + "\n\n"


def percent(part, whole):
    return f"{100 * part / whole:.0f} %"


def all_steps(counts):
    found = [steps.decode(counts, which, count) for which, count in steps.DECODES]
    found += [steps.prefill(counts, which, length) for which, length in steps.PREFILLS]
    return found + [steps.tower(counts, patches) for patches in steps.TOWERS]


def key_of(step):
    return step.name.split(" after")[0].removesuffix(" patches")


# Whole models' names in the figures.
def measured_step(file, step):
    of = measured.read(file)
    if "decode" in step.name:
        which, count = step.name.split()[0].lower(), step.name.split()[3]
        return of.get(f"{which} decode of {count} after 1024")
    if step.name == "tower of 5,476 patches":
        return of.get("2b image 1024 x 1024")
    if step.name == "tower of 1,296 patches":
        return of.get("2b image 512 x 512")
    if step.name.endswith("prefill of 1,024"):
        return of.get(f"{step.name.split()[0].lower()} prefill of 1024")
    return None


def steps_table(counts):
    lines = []
    measured_too = [steps.prefill(counts, which, 1024) for which in ("2B", "7B")] + [steps.tower(counts, 1296)]
    for step in all_steps(counts) + measured_too:
        kind = next(each for each in GOALS if each in step.name)
        h100, h200 = step.seconds(machine.H100), step.seconds(machine.H200)
        share = 100 * step.roof(machine.H100) / h100
        was, old = measured_step("h200-models.jsonl", step), measured_step("h100-first.jsonl", step)
        lines.append([step.name, step.launches(), REVIEW.get(key_of(step), ""), APART.get(key_of(step), ""), f"{h100 * MS:.2f}", f"{step.roof(machine.H100) * MS:.2f}",
                      f"{share:.0f} % {'>=' if share >= GOALS[kind] else '<'} {GOALS[kind]}", f"{old * MS:.2f}" if old else "",
                      f"{h200 * MS:.2f}", percent(step.roof(machine.H200), h200), f"{was * MS:.2f}" if was else "",
                      f"**{was / h200:.2f}**" if was else ""])
    text = "## Steps\n\nMilliseconds, bf16. Before: the paper of the review of 208fc5e. The roof is the larger of all bytes over copies and all " \
           "flops over wgmma, of the step as a whole; a decode step is a graph, greedy, without sampling; a tower is Qwen2-VL's. Goals are " \
           "shares of the roof.\n\n"
    text += table(["step", "launches", "before, paper, H100", "launched apart, expected, H100", "expected, H100", "roof, H100", "share, and goal",
                   "measured, H100 (first run, 208fc5e's kernels)", "expected, H200", "share", "measured, H200", "measured / expected"], lines)
    text += "An image as measured has the host in it: 3.9 of the 8.0 ms at 512 x 512 are spent on submitting, 8.3 of the 34.0 at 1024 x 1024.\n\n"
    return text


def findings(counts):
    """The page's first words: from the same numbers."""
    one = {which: steps.decode(counts, which, 1) for which in ("2B", "7B")}
    of_launches = one["2B"].launches() * (machine.LAUNCH - machine.GRAPH_SAVES)
    missed = [key_of(step) for step in all_steps(counts)
              if 100 * step.roof(machine.H100) / step.seconds(machine.H100) < next(goal for kind, goal in GOALS.items() if kind in step.name)]
    took = measured.read("h200-kernels.jsonl")
    ratio = lambda name: took[name] / sum(each.seconds(machine.H200) for each in measured.kernels_of(counts, name))  # noqa: E731
    return f"""What it says:

- **On paper, on an H100, the goals are met, except by {", ".join(missed)}.**
- A step of 2B has {one["2B"].launches()} launches, which by themselves take {of_launches * MS:.2f} of the {one["2B"].seconds(machine.H100) * MS:.2f} ms that decode of one stream should take on an H100, {percent(one["2B"].roof(machine.H100), one["2B"].seconds(machine.H100))}
  of the roof; launched apart they were 313, and it {APART["2B decode of 1"]} ms. From 11 streams on its norms are launches of their own again, from 16 on its activations; 7B's from 3 or 5 and from 7 on.
- Measured, products of one row are {ratio("product 7B gate_up rows 1"):.1f} to {ratio("product 7B down, residual rows 1"):.1f} times what they should take, worst where there are fewest outputs; of many rows by the library {ratio("product 7B down, residual rows 8192"):.2f} to {ratio("product 2B gate_up rows 2048"):.2f} times.
- Attention of decode, measured as two launches, takes {ratio("attention 7B 1 x 1 rows after 1024"):.1f} times what its one should at one stream, and {ratio("attention 7B 64 x 1 rows after 1024"):.1f} (7B) and {ratio("attention 2B 64 x 1 rows after 1024"):.1f} times (2B, whose 128 blocks are one a multiprocessor) at 64; over bytes {ratio("attention 7B 64 x 1 rows after 1024 over int8"):.1f}. The own kernel
  of many rows is bound by shared memory, at half of mma.sync's rate: more rows a warp would read each key less often.
- FlashInfer's attention takes {ratio("attention 7B 1 x 8192 rows after 0"):.1f} to {ratio("attention tower 5476 rows in 1, 16 heads of 80"):.1f} times its bound, which counts no exponentials beside products: the tower's is the largest single item of an image.
- `top_p`, and `top_k` of 64 rows, miss the goal of 100 us as measured: {ratio("sample top_p 0.9 7B rows 1"):.1f} and {ratio("sample top_k 20 7B rows 64"):.1f} times what their instructions take. The rest is probably what threads wait for where many add to one bin.
- Codes were measured before they were deepened (4 to 12 times today's expected): nothing can be said until they are measured again.

"""


def sampling_table(counts):
    lines = []
    for way in rows.WALKS:
        for count in (1, 64):
            step = steps.sampled(counts, "7B", count, way)
            took = measured.read("h200-kernels.jsonl")
            was = took[f"row_stats 7B rows {count}"] + took[f"sample {way} 7B rows {count}"]
            expected = step.seconds(machine.H200)
            lines.append([way, count, f"{expected * US:.0f}", f"{was * US:.0f}", f"{was / expected:.2f}",
                          "met" if was <= 1e-4 else "**missed**"])
    return "What a sampled step adds (statistics and the draw, of 152,064 logits a row; before, on paper: 2 to 5 ms; goal: 100 us):\n\n" + \
        table(["draw", "rows", "expected, us", "measured, H200, us", "ratio", "goal, as measured"], lines)


def ranked(counts):
    """By step: what each kernel leaves, beside what was measured and beside its roof."""
    text = "## Where the next microseconds are\n\nOf a step on the H200, in us: what is measured beyond the expected (the kernel, or the model, is " \
           "off), and what is expected beyond the roof (launches, waves, latencies: another shape of work is wanted). Measured is the op alone, " \
           "launched one behind another, times its calls, and of what is one launch now the sum of its parts; KV write is not measured. Ops " \
           "whose way has changed since (below) have no measure here. " \
           "The first eight of each step.\n\n"
    took = measured.read("h200-kernels.jsonl")
    wanted = [(steps.decode(counts, which, count), which, count, 1024) for which in ("2B", "7B") for count in (1, 64)]
    wanted += [(steps.prefill(counts, which, 2048), which, 2048, 0) for which in ("2B", "7B")]
    wanted.append((steps.tower(counts, 5476), "tower", 5476, 0))
    for step, which, count, context in wanted:
        by = {}
        for times, kernel in step.kernels:
            of = by.setdefault(kernel.name.removesuffix(", join"), {"calls": 0, "expected": 0.0, "roof": 0.0, "why": kernel.bound(machine.H200)})
            of["calls"] += times if not kernel.name.endswith("join") else 0
            # As the bench launches it, without a graph.
            of["expected"] += times * kernel.seconds(machine.H200)
            of["roof"] += times * kernel.roof(machine.H200)
        lines = []
        for name, of in by.items():
            ops = [tower_op(name)] if which == "tower" else measured.ops_of(which, name, count, context)
            there = ops and all(op in took and not measured.replaced(op) for op in ops)
            was = sum(took[op] for op in ops) * of["calls"] if there else None
            beyond = was - of["expected"] if was else None
            room = of["expected"] - of["roof"]
            lines.append((max(beyond or 0, room), [name, of["calls"], f"{of['roof'] * US:.0f}", f"{of['expected'] * US:.0f}", of["why"],
                                                   f"{was * US:.0f}" if was else "", f"**{beyond * US:.0f}**" if was else "", f"{room * US:.0f}"]))
        lines = [line for _, line in sorted(lines, key=lambda each: -each[0])][:8]
        text += f"{step.name}:\n\n" + table(["kernel", "calls", "roof", "expected", "bound by", "measured", "measured - expected", "expected - roof"], lines)
    return text


def tower_op(name):
    return {"attention": "attention tower 5476 rows in 1, 16 heads of 80"}.get(name, f"product {name} rows 5476")


def ops_table(counts):
    lines = []
    first = measured.read("h100-first.jsonl")
    for name, was in measured.read("h200-kernels.jsonl").items():
        kernels = measured.kernels_of(counts, name)
        if kernels is None:
            continue
        sum_of = lambda of: sum(map(of, kernels))  # noqa: E731
        expected, old = sum_of(lambda each: each.seconds(machine.H200)), sum_of(lambda each: each.seconds(machine.H100))
        roof = sum_of(lambda each: each.roof(machine.H200))
        main = max(kernels, key=lambda each: each.seconds(machine.H200))
        lines.append([name, " + ".join(str(each.blocks) for each in kernels), f"{main.in_flight() / 1024:.0f}" if main.in_flight() else "",
                      f"{main.useful_bytes / 1e6:.1f}", f"{main.useful_flops / 1e9:.1f}", main.bound(machine.H200),
                      f"{old * US:.1f}", f"{first[name] * US:.1f}" if name in first else "", f"{roof * US:.1f}", f"{expected * US:.1f}", f"{was * US:.1f}",
                      f"{was / expected:.2f}", measured.since(name)])
    text = "## Ops\n\nMicroseconds. Blocks, and KiB that each has under way, of the kernel that takes longest. **Since**: the commit that changed what " \
           "was measured; such a figure is of the kernel before it, the expected one of today's.\n\n"
    text += table(["op", "blocks", "KiB under way", "MB", "GFLOP", "bound by", "expected, H100", "measured, H100 (208fc5e)", "roof, H200",
                   "expected, H200", "measured, H200", "ratio", "since"], lines)
    text += "".join(f"- `{commit}`: {what}\n" for commit, what in dict((commit, what) for _, commit, what in measured.SINCE).items())
    text += "\nNot in the model: experts, states (`causal_conv`, `delta_rule`), weights of codes that are dequantised for the library, E4M3 rows " \
            "by the library.\n\n"
    return text


def sass_table(counts, before):
    lines = []

    def line(what, key, old, under_way=None, note=""):
        was, now = before.get(old), counts.of(key) if key else None
        loop = lambda of: next(iter(of["loops"].values()), {}) if of else {}  # noqa: E731
        per = lambda of, kind="HMMA": f"{loop(of)['loop'] / loop(of)[kind]:.1f}" if loop(of).get(kind) else ""  # noqa: E731
        lines.append([what, loop(was).get("loop", ""), per(was), f"{was['in_flight']:,}" if was and was.get("in_flight") else "", loop(now).get("loop", ""), loop(now).get("turn", ""), per(now),
                      f"{int(under_way):,}" if under_way else "", note])

    w7, w2 = models()["7B"], models()["2B"]
    small = "gemm_kernel<NumberMath, Tile<16, 64, 16, 16>, saccade::Bf16, true, false>"
    for which, w, out in (("FewTile, 7B down", w7, w7["hidden"]), ("FewTileOfMany, 7B gate_up", w7, 2 * w7["inner"]), ("FewTileOfSlices, 2B down", w2, w2["hidden"])):
        kernel = products.own(counts, "", Shape(1, w["inner"] if "down" in which else w["hidden"], out))
        line(f"B1: {which}", kernel.sass, small, kernel.in_flight())
    kernel = products.own(counts, "", Shape(64, w7["inner"], w7["hidden"]))
    line("B1: MidTile, 64 rows", kernel.sass, "gemm_kernel<NumberMath, Tile<128, 128, 64, 32>, saccade::Bf16, true, false>", kernel.in_flight(), "before: the large tile")
    kernel = products.own(counts, "", Shape(2048, w7["inner"], w7["hidden"]))
    line("B1: LargeTile", kernel.sass, "gemm_kernel<NumberMath, Tile<128, 128, 64, 32>, saccade::Bf16, true, false>", kernel.in_flight())
    for form in ("NibbleForm", "E4m3Form"):
        kernel = products.codes(counts, "", Shape(1, w7["inner"], w7["hidden"]), form)
        line(f"B1: {form}, few rows", kernel.sass, f"gemm_codes_kernel<{form}, Tile<{form}, 16, 64, 16, 16>, saccade::Bf16, false>", kernel.in_flight())
    few = attention.decode(counts, "", [1024], steps.heads_of(w7))[0]
    line("B2: decode, heads of 128, a tile of 64 keys", few.sass, "attention_kernel<Numbers<128>, 128>", few.in_flight(), "before: 64 rows a tile, splits of 2,048; now 16 and 256")
    for dim in (128, 80, 64):
        kernel = attention.many(counts, "", "rows", [(64, 0)], Heads(16, 16, dim))
        line(f"B2: 64 rows, heads of {dim}, a tile of 64 keys", kernel.sass, f"attention_kernel<Numbers<{dim}>, {dim}>", 2 * 64 * dim * 2)
    now, was = counts.of("sample_kernel")["atomics"], before["sample_kernel"]["atomics"]
    text = "## Instructions, before and after\n\n208fc5e beside today, of sm_90a: all instructions of the loop (the way that runs through it in " \
           "brackets), those for each product of tensor cores (an HMMA is 16 x 8 x 16), and bytes that a block has under way, of the weight or of " \
           "keys and values.\n\n"
    text += table(["kernel", "loop before", "an HMMA", "bytes under way", "loop now", "(the way)", "an HMMA", "bytes under way", ""], lines)
    listed = lambda names: ", ".join(f"`{each}`" for each in names)  # noqa: E731
    text += f"B3, atomics of the sampling kernel: before {listed(was)}; now {listed(now)}. `scripts/check-cuda` refuses those of 64 bits.\n\n"
    apart = rows.finish(counts, "", 5476, 5120).seconds(machine.H200)
    text += "B4: a bias or an activation made the library's product 10 bytes an output (f32 sums, written, read, and bf16 written by a second " \
            f"kernel, of a tower's fc1 over 5,476 patches {apart * US:.0f} us on an H200); with the bias in the library's epilogue it is 2, and 6 where " \
            "an activation follows that the library has not.\n\n"
    return text


def cliff_table(counts):
    took = measured.read("h200-kernels.jsonl")
    w = models()["7B"]
    lines = []
    for count in (1, 16, 17, 64, 65, 128, 256, 512, 1024, 2048):
        of = lambda kernel: f"{kernel.seconds(machine.H200) * US:.0f}"  # noqa: E731
        was = took.get(f"product 7B down, residual rows {count}")
        shape = Shape(count, w["inner"], w["hidden"], residual=True)
        lines.append([count, f"{was * US:.0f}" if was else "", of(products.own(counts, "", shape)), of(products.library("", shape)),
                      of(products.library("", shape, splits=False))])
    return f"""## The cliff at 17 to 256 rows of `down`

On the H200 7B's `down` took 428 us for 17 rows, 60 for 16 and 384 for 2,048 (2B: 206, 20, 76). It was neither the residual nor a pass of ours: `out` has a residual too, and takes 11 us. Both times are 23 ns an input
whatever the outputs are: a library's kernel that goes over all inputs in each of few tiles, one stage after the other. cuBLASLt was not allowed to cut sums then, and its first candidate for these classes was taken
without a look at the clock.

{table(["rows", "measured, H200, us", "own kernel, expected", "a good library that may cut sums", "one that may not"], lines)}It is mended since: `a33f2f6f`, made of these very figures, times what will do up to 256 rows and takes the own kernel where that is far quicker; `9763a28a` lets the library cut sums into a fixed
number of pieces. The models were measured behind the first of them: a step of 64 streams of 2B took 4.05 ms, and 28 times 210 us of `down` alone would be 5.9. The op itself has not been measured since. From 257 rows on the first
candidate is still taken without a clock; that class is chosen for by 1,024 rows, which are as many tiles as there are multiprocessors, so that the same cliff is not expected there. **512 rows of `down` are what to measure next.**

"""


def page(counts, before):
    text = HEAD + findings(counts) + steps_table(counts) + sampling_table(counts) + ranked(counts) + cliff_table(counts) + sass_table(counts, before)
    text += "## What the model takes a GPU to be\n\n" + table(["", "value", "from"], machine.CONSTANTS)
    return (text + ops_table(counts)).rstrip("\n") + "\n"


def short(counts):
    """What the script prints by itself."""
    lines = [f"{'ms':30} {'launches':>8} {'H100':>7} {'of roof':>8} {'H200':>7} {'of roof':>8} {'measured':>9}"]
    for step in all_steps(counts):
        h100, h200, was = step.seconds(machine.H100), step.seconds(machine.H200), measured_step("h200-models.jsonl", step)
        lines.append(f"{step.name:30} {step.launches():8} {h100 * MS:7.2f} {percent(step.roof(machine.H100), h100):>8} {h200 * MS:7.2f} "
                     f"{percent(step.roof(machine.H200), h200):>8} {f'{was * MS:.2f}' if was else '':>9}".rstrip())
    return "\n".join(lines)
