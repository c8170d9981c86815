"""Kernels that go over rows: norms, rotation and the write into pages, activations, embeddings, patches, statistics, sampling."""
import math

from tools.gpu_cost.kernel import Kernel, Phase
from tools.gpu_cost.sources import CUDA, constant, kernel_source

ROW_BLOCK = 256  # grid.h, held by the test
PACK = 8


def packs(counts, name, key, elements, moves):
    """A kernel of grid.h's packs over `elements`, (rows, cols, of a pack), which reads and writes so many bytes of each: `moves`."""
    (rows, cols, width), (read, written) = elements, moves
    loop = counts.loop(key)
    total = rows * math.ceil(cols / width)
    blocks = min(math.ceil(total / ROW_BLOCK), 16384)
    moved = rows * cols * (read + written)
    phase = Phase(bytes=moved, block_bytes=moved * read / (read + written) / blocks, in_flight=ROW_BLOCK * width * read,
                  turns=math.ceil(total / (blocks * ROW_BLOCK)), instructions=loop["turn"])
    return Kernel(name, kernel_source(counts.of(key)["source"]), blocks, ROW_BLOCK, 0, counts.of(key)["registers"], [phase], useful_bytes=moved,
                  sass=key)


def norm(counts, name, rows, cols, added=False):
    key = "norm_kernel<saccade::Bf16, 8>"
    loop = counts.loop(key)
    threads = 32 if cols <= 32 * PACK * 2 else constant("kNormBlock", CUDA + "rows/norm_sum.h")
    moved = rows * cols * (8 if added else 4)
    phase = Phase(bytes=moved, block_bytes=cols * (4 if added else 2), in_flight=threads * PACK * (4 if added else 2),
                  turns=2 * math.ceil(cols / (threads * PACK)), instructions=loop["turn"])
    # The weights are asked for when the sum is there.
    return Kernel(name, CUDA + "rows/norm.cu", rows, threads, cols * 4, counts.of(key)["registers"], [phase], lookups=1, useful_bytes=moved,
                  sass=key)


def qkv(counts, name, rows, heads, dim, tables=True):
    """A warp a head: `heads` are all that are read. Without tables nothing is rotated."""
    key = "qkv_kernel<saccade::Bf16>"
    loop = counts.loop(key)
    warps = constant("kWarps", CUDA + "products/qkv.cu")
    moved = rows * heads * dim * 4 + (rows * dim * 4 if tables else 0)
    jobs = rows * heads
    phase = Phase(bytes=moved, block_bytes=warps * dim * 2, in_flight=warps * dim * 2,
                  turns=math.ceil(dim / 32 / (2 if tables else 1)), instructions=loop["turn"])
    return Kernel(name, CUDA + "products/qkv.cu", math.ceil(jobs / warps), warps * 32, 0, counts.of(key)["registers"], [phase], lookups=1,
                  useful_bytes=moved, sass=key)


def gated(counts, name, rows, cols, alone=False):
    return packs(counts, name, "gated_kernel<saccade::Bf16, 8>", (rows, cols, PACK), (2 if alone else 4, 2))


def finish(counts, name, rows, cols, residual=False):
    return packs(counts, name, "finish_product_kernel<saccade::Bf16, 8>", (rows, cols, PACK), (6 if residual else 4, 2))


def embed(counts, name, rows, cols):
    return packs(counts, name, "embed_kernel<saccade::Bf16, saccade::Bf16, 8>", (rows, cols, PACK), (2, 2))


def rope_table(counts, name, rows, dim):
    """A thread an angle: what it reads is small, what it writes are its cos and sin."""
    key = "rope_table_kernel"
    pairs = dim // 2
    moved = rows * pairs * 8
    phase = Phase(bytes=moved, turns=1, instructions=counts.of(key)["total"])
    return Kernel(name, CUDA + "rows/rope_table.cu", math.ceil(rows * pairs / ROW_BLOCK), ROW_BLOCK, 0, counts.of(key)["registers"], [phase],
                  lookups=1, useful_bytes=moved, sass=key)


def mix(counts, name, rows, cols):
    return packs(counts, name, "mix_rows_kernel<saccade::Bf16, saccade::Bf16, 8>", (rows, cols, PACK), (2, 2))


def patches(counts, name, rows, cols):
    return packs(counts, name, "cut_patches_kernel<saccade::Bf16, 4>", (rows, cols, 4), (0.5, 2))


def row_stats(counts, name, rows, vocab):
    """A block a row, twice over it: the largest, then the sum, of what L2 has by then."""
    key = "row_stats_kernel<float>"
    threads = constant("kBlock", CUDA + "rows/row_stats.cu")
    phases = []
    for which, cached in (("largest", False), ("sums", True)):
        loop = counts.loop(key, which)
        phases.append(Phase(bytes=rows * vocab * 4, in_flight=threads * loop["LDG"] * 4, turns=vocab / threads / loop["LDG"],
                            instructions=loop["turn"], cached=cached))
    return Kernel(name, CUDA + "rows/row_stats.cu", rows, threads, 512, counts.of(key)["registers"], phases, useful_bytes=rows * vocab * 4,
                  sass=key)


# The walks of sample.cu over a row. Of masses and of the histogram all of the loop runs, since a warp without one token that has mass
# is rare; of the list what a warp runs that finds none. What threads wait for at one bin is not counted.
WALKS = {"greedy": [], "T 1": [("masses", "loop")], "top_k 20": [("count", "turn"), ("list", "turn")], "top_k 1": [("list", "turn")],
         "top_p 0.9": [("fill", "loop"), ("list", "turn")]}


def sample(counts, name, rows, vocab, way):
    key = "sample_kernel"
    threads = 128
    while threads < constant("kMaxThreads", CUDA + "rows/sample_row.h") and threads * 8 < vocab:
        threads *= 2
    phases = []  # and before it the copy of the rows' list
    for which, taken in WALKS[way]:
        loop = counts.loop(key, which)
        # The logits lie in L2: the statistics have just read them.
        phases.append(Phase(bytes=rows * vocab * 4, in_flight=threads * loop["LDG"] * 4, turns=math.ceil(vocab / threads / loop["LDG"]),
                            instructions=loop[taken], cached=True))
    shared = constant("kBins", CUDA + "rows/sample_row.h") * 8 + constant("kMaxListed", CUDA + "rows/sample_row.h") * 8 + 1024
    return Kernel(name, CUDA + "rows/sample.cu", rows, threads, shared, counts.of(key)["registers"], phases, lookups=2,
                  useful_bytes=rows * vocab * 4 * bool(WALKS[way]), launches=2, sass=key)


def rounded(counts, name, key, count, cols):
    """Rows to bytes with a scale, a block a row."""
    loop = counts.loop(key)
    phase = Phase(bytes=count * cols * 3, block_bytes=cols * 2, in_flight=ROW_BLOCK * loop.get("LDG", 1) * 2,
                  turns=2 * math.ceil(cols / ROW_BLOCK / max(loop.get("LDG", 1), 1)), instructions=loop["turn"])
    return Kernel(name, kernel_source(counts.of(key)["source"]), count, ROW_BLOCK, 0, counts.of(key)["registers"], [phase],
                  useful_bytes=count * cols * 3, sass=key)


def round_rows(counts, name, count, cols):
    return rounded(counts, name, "round_rows_kernel<saccade::Bf16>", count, cols)


def round_e4m3(counts, name, count, cols):
    return rounded(counts, name, "round_e4m3_groups_kernel<saccade::Bf16>", count, cols)
