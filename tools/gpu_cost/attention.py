"""Attention: the own kernels over pages and segments, as attention_splits.cc shares them, and FlashInfer's by its plan."""
import heapq
import math
from dataclasses import dataclass

from tools.gpu_cost import gpu as machine
from tools.gpu_cost.kernel import Kernel, Phase
from tools.gpu_cost.sources import CUDA, constant

PARTS, FETCH = CUDA + "attention/attention_parts.h", CUDA + "attention/attention_fetch.h"
SPLIT = "kAttentionSplitTokens"
# flashinfer_kernels.h: rows of queries and of keys of a tile; and the columns that its products have.
FLASH = {("paged", 64): (192, 96, 64), ("paged", 128): (128, 96, 128), ("rows", 64): (192, 128, 64), ("rows", 128): (128, 192, 128),
         ("rows", 72): (192, 96, 96), ("rows", 80): (192, 96, 96), ("rows", 96): (192, 96, 96)}
FLASH_HELD = [("kPaged64", "true, 64, 192, 96"), ("kPaged128", "true, 128, 128, 96"), ("kRows64", "false, 64, 192, 128"),
              ("kRows128", "false, 128, 128, 192"), ("kRowsTo96", "false, 96, 192, 96")]
LEAST_FLASH_ROWS = 128


@dataclass(frozen=True)
class Heads:
    """`cache`: what bytes keys and values are of; None: bf16."""
    heads: int
    kv_heads: int
    dim: int
    cache: str | None = None

    def form(self):
        width = width_of(self.dim)
        pairs = {"int8": "Int8Pairs", "float8_e4m3": "E4m3Pairs"}.get(self.cache)
        return f"Codes<{pairs}, {width}>" if pairs else f"Numbers<{width}>"

    def element(self):
        return 1 if self.cache else 2

    # Of keys and values, with their scales.
    def token_bytes(self):
        return 2 * self.kv_heads * (self.dim * self.element() + (4 if self.cache else 0))

    def source(self):
        return CUDA + ("attention/attention_codes.cu" if self.cache else "attention/attention.cu")


def width_of(dim):
    return next((width for width in (64, 80, 96, 128) if dim <= width), 256)


def few_shared(width, element=2, scaled=False):
    tokens = 32 if width > 128 else 64
    stride = width + (16 if element == 1 else 8)
    place = tokens * stride * element + (2 * tokens * 4 if scaled else 0)
    return 5 * place + 16 * (tokens + 8) * 2 + 2 * 4 * 16 * 4


def decode(counts, name, contexts, of_heads):
    """A row of each sequence, behind so many tokens. A list of kernels: splits are joined by a second one."""
    heads, kv_heads, dim, cache = of_heads.heads, of_heads.kv_heads, of_heads.dim, of_heads.cache
    split = constant(SPLIT, PARTS)
    group = heads // kv_heads
    width = width_of(dim)
    tokens = 32 if width > 128 else 64
    of = [math.ceil((each + 1) / split) for each in contexts]
    max_blocks = constant("kAttentionBlocks", CUDA + "attention/attention_splits.h")
    share = max(1, sum(of) * kv_heads * 5 // (4 * max_blocks))
    shared = [each > share for each in of]  # a block each split, else one for the tile
    jobs = [split // tokens if part else math.ceil((each + 1) / tokens)
            for each, part, count in zip(contexts, shared, of) for _ in range(count if part else 1)]
    element = of_heads.element()
    key = f"few_attention_kernel<{of_heads.form()}, {width}>"
    loop = counts.loop(key)
    blocks = len(jobs) * kv_heads
    moved = sum(each + 1 for each in contexts) * of_heads.token_bytes()
    turns = max(jobs)
    # Scores: dim/16 products in a row; then the exchange of the largest, exponentials, weights; then tokens/16 products.
    chain = (dim // 16 + tokens // 16) * machine.MMA_LATENCY + 3 * machine.BARRIER + 6 * machine.SHARED_LATENCY
    mean = sum(jobs) / len(jobs)
    phase = Phase(bytes=moved, block_bytes=mean * tokens * 2 * dim * element, in_flight=4 * tokens * dim * element,
                  flops=mean * 4 * 16 * tokens * width, turns=mean, instructions=loop["turn"],
                  shared=loop["LDSM"] * 4 * machine.LDSM_BYTES + 2 * tokens * width * element, chain=chain)
    # The longest block alone.
    phase.turns = max(mean, turns if blocks <= max_blocks * 2 else mean)
    kernels = [Kernel(name, of_heads.source(), blocks, constant("kAttentionThreads", FETCH), few_shared(width, element, bool(cache)),
                      counts.of(key)["registers"], [phase], lookups=4, useful_bytes=moved, useful_flops=4 * sum(contexts) * heads * dim,
                      sass=key)]
    ahead, max_trips = constant("kJoinedAhead", PARTS), constant("kMaxJoinTrips", PARTS)
    trips = lambda count: math.ceil(group / 4) * math.ceil(count / ahead)  # noqa: E731
    split_up = [count for count, part in zip(of, shared) if part and count > 1]
    by_last = [trips(count) for count in split_up if trips(count) <= max_trips]
    joined = [count for count in split_up if trips(count) > max_trips]
    # The last block to end counts itself, and then fetches what the others have left.
    kernels[0].lookups += max(by_last) + 1 if by_last else 0
    if joined:
        key = f"attention_merge_kernel<{width}, {'true' if cache else 'false'}>"
        loop = counts.loop(key)
        most = max(joined)
        partial = sum(joined) * group * kv_heads * (width + 8) * 4
        merge = Phase(bytes=partial, in_flight=16 * width * 4, turns=math.ceil(most / 16), instructions=loop["turn"], cached=True)
        kernels.append(Kernel(name + ", join", CUDA + "attention/attention_merge.cu", len(contexts) * kv_heads * group, 32, 0,
                              counts.of(key)["registers"], [merge], lookups=3, sass=key))
    return kernels


def useful_pairs(kind, segments):
    """Of queries and keys that they see."""
    return sum((count * before + count * (count + 1) / 2 if kind == "paged" else count * count) for count, before in segments)


def flash(name, kind, segments, of_heads):
    """`segments`: (rows, tokens before them). Tiles are dealt as flash_plan.cc deals them."""
    heads, dim = of_heads.heads, of_heads.dim
    rows, keys, cols = FLASH[(kind, dim)]
    causal = kind == "paged"
    pieces = []
    for count, before in segments:
        for tile in range(math.ceil(count / rows)):
            seen = min(before + count, before + (tile + 1) * rows) if causal else count
            pieces.append(math.ceil(seen / keys) * keys)
    load = [(0, i) for i in range(machine.H200.sms)]
    walked = [0] * len(load)
    for seen in sorted(pieces, reverse=True):
        for _ in range(heads):
            cost, block = heapq.heappop(load)
            walked[block] += seen
            heapq.heappush(load, (cost + seen + rows, block))
    most = max(walked)
    total_rows = sum(count for count, _ in segments)
    moved = total_rows * heads * dim * 4 + sum(count + before for count, before in segments) * of_heads.token_bytes()
    phase = Phase(bytes=moved, flops=4 * rows * most * cols, rate="tensor", exponentials=rows * most)
    return Kernel(name, CUDA + "attention/cuda_flash.cc", len(load), 384, 0, 168, [phase], lookups=2, useful_bytes=moved,
                  useful_flops=4 * useful_pairs(kind, segments) * heads * dim, sass="FlashInfer")


def many(counts, name, kind, segments, of_heads):
    """The own kernel of 64 rows of queries, heads of a group beside each other."""
    heads, kv_heads, dim, cache = of_heads.heads, of_heads.kv_heads, of_heads.dim, of_heads.cache
    width = width_of(dim)
    tokens = 32 if width > 128 else 64
    group = heads // kv_heads
    key = f"attention_kernel<{of_heads.form()}, {width}>"
    loop = counts.loop(key)
    tiles = []
    for count, before in segments:
        for first in range(0, count * group, 64):
            last_row = min(count - 1, (first + 63) // group)
            tiles.append(math.ceil((before + last_row + 1 if kind == "paged" else count) / tokens))
    blocks = len(tiles) * kv_heads
    mean = sum(tiles) / len(tiles)
    element = of_heads.element()
    stage = 2 * tokens * (width + (16 if cache else 8)) * element + (2 * tokens * 4 if cache else 0)
    shared = (0 if width <= 96 else 64 * (width + 8) * 2) + 2 * stage
    total_rows = sum(count for count, _ in segments)
    moved = total_rows * heads * dim * 4 + sum(count + before for count, before in segments) * of_heads.token_bytes()
    chain = (width // 16 + tokens // 16) * machine.MMA_LATENCY + 2 * machine.BARRIER + 6 * machine.SHARED_LATENCY
    phase = Phase(bytes=moved, flops=mean * 4 * 64 * tokens * width, turns=mean, instructions=loop["turn"], chain=chain,
                  shared=loop["LDSM"] * 4 * machine.LDSM_BYTES + 2 * tokens * width * element,
                  exponentials=mean * 64 * tokens)
    return Kernel(name, of_heads.source(), blocks, constant("kAttentionThreads", FETCH), shared, counts.of(key)["registers"], [phase],
                  lookups=4, useful_bytes=moved, useful_flops=4 * useful_pairs(kind, segments) * heads * dim, sass=key)
