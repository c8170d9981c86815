"""Products: the own kernels as gemm_tiles.h, gemm_codes.cu and gemm_e4m3.cu launch them, and a library that is taken to be good."""
from dataclasses import dataclass

from tools.gpu_cost import gpu as machine
from tools.gpu_cost.kernel import Kernel, Phase
from tools.gpu_cost.sources import CUDA, Changed, constant, tile

TILES, CODES, E4M3, FEW = CUDA + "products/gemm_tiles.h", CUDA + "products/gemm_codes.cu", CUDA + "products/gemm_e4m3.cu", CUDA + "products/few_gemm.cu"
SLICED_BELOW = 3072
QUICKER = 1.4


@dataclass(frozen=True)
class Shape:
    """y [rows, out] = x [rows, inputs] w^T [+ what is there]; y's type as the kernels' names have it."""
    rows: int
    inputs: int
    out: int
    residual: bool = False
    result: str = "saccade::Bf16"

    def ends(self):
        """Bytes of y, and of what is added to it."""
        return self.rows * self.out * ((4 if self.result == "float" else 2) + (2 if self.residual else 0))

    def flops(self):
        return 2 * self.rows * self.out * self.inputs


def ceil(a, b):
    return -(-a // b)


def check_loop(name, loop, products, kind="HMMA"):
    """That a turn of the loop is a stage of the tile: else the counts are another tile's, or the loop is unrolled."""
    if loop.get(kind) != products:
        raise Changed(f"{name}: {loop.get(kind)} {kind} a turn where its tile has {products}: scripts/gpu-cost --count")


def read_and_filled(loop, threads, stage):
    """Bytes of shared memory that a turn moves."""
    return loop.get("LDSM", 0) * threads // 32 * machine.LDSM_BYTES + stage


def tile_of(rows, out):
    """Which tile launch_rows() takes for so many rows."""
    sliced = out < SLICED_BELOW
    many = lambda name: out >= 264 * tile(name, TILES)[1]  # noqa: E731
    if rows > 64:
        return "LargeTileOfSlices" if sliced else "LargeTile"
    if rows > 16:
        return "MidTile" if sliced or not many("MidTileOfMany") else "MidTileOfMany"
    return "FewTileOfSlices" if sliced else "FewTileOfMany" if many("FewTileOfMany") else "FewTile"


def own(counts, name, shape, math_of="NumberMath"):
    """By tiles of gemm_tiles.h. ByteMath: two bytes in the place of a bf16."""
    rows, inputs, out = shape.rows, shape.inputs, shape.out
    by_bytes = math_of == "ByteMath"
    words = inputs // 2 if by_bytes else inputs
    which = tile_of(rows, out)
    numbers = tile(which, TILES)
    tile_rows, cols, warp_rows, warp_cols, depth, stages = numbers[:6]
    slices = numbers[6] if len(numbers) > 6 else 1
    sliced = out < SLICED_BELOW
    key = (f"gemm_kernel<{math_of}, Tile<{', '.join(map(str, (*numbers[:6], slices)))}>, {shape.result}, true, false, "
           f"{'true' if sliced else 'false'}>")
    loop = counts.loop(key)
    steps_of_k = depth // 16
    check_loop(key, loop, steps_of_k * (warp_rows // 16) * (warp_cols // 8), "IMMA" if by_bytes else "HMMA")
    slice_words = ceil(words, constant("kMaxSlices", TILES) * constant("kSliceUnit", TILES)) * constant("kSliceUnit", TILES)
    steps = ceil(slice_words if slices > 1 else words, depth)
    row_tiles = ceil(rows, tile_rows)
    blocks = ceil(out, cols) * row_tiles
    weight = out * words * 2
    stage = slices * depth * 2
    threads = slices * 32 * (tile_rows // warp_rows) * (cols // warp_cols)
    phase = Phase(bytes=weight + rows * words * 2 + shape.ends(),
                  block_bytes=cols * words * 2,
                  in_flight=(stages - 1) * cols * stage,
                  flops=2 * tile_rows * cols * words * (2 if by_bytes else 1),
                  rate="mma", turns=steps, instructions=loop["turn"], shared=read_and_filled(loop, threads, (tile_rows + cols) * stage),
                  chain=steps_of_k * machine.MMA_LATENCY + machine.SHARED_LATENCY + machine.BARRIER)
    return Kernel(name, CUDA + ("products/gemm_bytes.cu" if by_bytes else "products/gemm.cu"), blocks, threads,
                  stages * slices * (tile_rows + cols) * (depth + 8) * 2, counts.of(key)["registers"], [phase],
                  useful_bytes=phase.bytes, useful_flops=shape.flops() / (2 if by_bytes else 1), sass=key)


def few(counts, name, shape, normed=False, gated=False):
    """With the norm before it, or the gated activation behind it, as few_gemm.cu takes them; None where it does not."""
    rows, inputs, out = shape.rows, shape.inputs, shape.out
    if rows > constant("kMaxRows", FEW):
        return None
    numbers = tile(tile_of(rows, out), TILES)
    _, cols, _, warp_cols, depth, stages = numbers[:6]
    slices = numbers[6] if len(numbers) > 6 else 1
    threads = slices * 32 * (cols // warp_cols)
    unit = constant("kColsUnit", FEW)
    shared = stages * slices * cols * (depth + 8) * 2 + rows * ((ceil(inputs, unit) * unit + 8) * 2 + 8 * 4)
    packs = rows * inputs // 8
    if shared > 101376 or (normed and packs > constant("kMaxNormPacks", FEW) * threads):
        return None
    key = f"few_gemm_kernel<FewStages<Tile<{', '.join(map(str, (*numbers[:6], slices)))}> >, {'true' if gated else 'false'}>"
    loop = counts.loop(key)
    steps_of_k = depth // 16
    check_loop(key, loop, steps_of_k * 2)
    slice_unit = constant("kMaxSlices", TILES) * constant("kSliceUnit", TILES)
    in_slice = ceil(inputs, slice_unit) * constant("kSliceUnit", TILES) if slices > 1 else inputs
    moved = out * inputs * 2 + rows * inputs * 2 + rows * (out // 2 if gated else out) * 2
    phase = Phase(bytes=moved, block_bytes=cols * inputs * 2, in_flight=(stages - 1) * cols * slices * depth * 2,
                  flops=2 * 16 * cols * inputs, turns=ceil(in_slice, depth), instructions=loop["turn"],
                  shared=read_and_filled(loop, threads, cols * slices * depth * 2),
                  chain=steps_of_k * machine.MMA_LATENCY + machine.SHARED_LATENCY + machine.BARRIER)
    # Each block fetches all rows, and for a norm twice, a trip to L2 after the other, while its first stages are on their way.
    trips = ceil(packs, threads) * (2 if normed else 1) - machine.MEMORY_LATENCY / machine.CACHE_LATENCY
    return Kernel(name, FEW, ceil(out, cols), threads, shared, counts.of(key)["registers"], [phase], lookups=max(trips, 0),
                  useful_bytes=moved, useful_flops=shape.flops(), sass=key)


def codes(counts, name, shape, form="NibbleForm"):
    """Weights kept as codes, groups of 128 inputs."""
    rows, inputs, out = shape.rows, shape.inputs, shape.out
    nibbles = form == "NibbleForm"
    chunk_bytes = constant("kNibbleChunkBytes" if nibbles else "kE4m3ChunkBytes", CUDA + "codes/code_places.h")
    few, many = tile("Few", CODES, nibbles), tile("Many", CODES, nibbles)
    if rows <= 16:
        numbers = few if out < 132 * 64 else tile("FewOfMany", CODES, nibbles)
    else:
        numbers = tile("Mid", CODES, nibbles) if rows <= 64 and out < 132 * 128 else many
    tile_rows, cols, warp_rows, warp_cols, chunks, stages = numbers
    key = f"gemm_codes_kernel<{form}, Tile<{form}, {', '.join(map(str, numbers))}>, saccade::Bf16, false, true>"
    loop = counts.loop(key)
    steps_of_k = chunks * 64 // 16
    check_loop(key, loop, steps_of_k * (warp_rows // 16) * (warp_cols // 8))
    turns = max(chunks // 2, 1)  # groups whose sums are made in turns
    weight = out * inputs * (0.5 if nibbles else 1)
    beside = out * ceil(inputs, constant("kBlock", CODES)) * (5 if nibbles else 4)
    groups = max(chunks // 2, 1)
    gap = 0 if chunks == 1 else max(chunk_bytes, 128 // chunks)
    shared = stages * (tile_rows * (chunks * 64 + 8) * 2 + chunks * (cols * chunk_bytes + gap) + groups * cols * (5 if nibbles else 4))
    threads = 32 * (tile_rows // warp_rows) * (cols // warp_cols)
    phase = Phase(bytes=weight + beside + rows * inputs * 2 + shape.ends(),
                  block_bytes=cols * inputs * (0.5 if nibbles else 1),
                  in_flight=(stages - 1) * cols * chunks * chunk_bytes,
                  flops=2 * tile_rows * cols * inputs, turns=ceil(inputs, chunks * 64), instructions=loop["turn"],
                  shared=read_and_filled(loop, threads, chunks * (2 * cols * chunk_bytes + 2 * 64 * tile_rows)),
                  chain=steps_of_k / turns * machine.MMA_LATENCY + machine.SHARED_LATENCY + machine.BARRIER)
    return Kernel(name, CODES, ceil(out, cols) * ceil(rows, tile_rows), threads, shared,
                  counts.of(key)["registers"], [phase], useful_bytes=phase.bytes, useful_flops=shape.flops(), sass=key)


def e4m3(counts, name, shape):
    """E4M3 by E4M3, by the own kernel; two bytes are a word of 16 bits."""
    rows, inputs, out = shape.rows, shape.inputs, shape.out
    if rows <= 16:
        which = "Few" if out < 264 * 64 else "FewOfMany"
    else:
        which = "Mid" if rows <= 64 and out < 132 * 128 else "Many"
    numbers = tile(which, E4M3)
    tile_rows, cols, warp_rows, warp_cols, depth, stages = numbers
    key = f"gemm_e4m3_kernel<Tile<{', '.join(map(str, numbers))}>, saccade::Bf16, false>"
    loop = counts.loop(key)
    check_loop(key, loop, depth // 16 * 2 * (warp_rows // 16) * (warp_cols // 8))
    threads = 32 * (tile_rows // warp_rows) * (cols // warp_cols)
    phase = Phase(bytes=out * inputs + rows * inputs + shape.ends(), block_bytes=cols * inputs,
                  in_flight=(stages - 1) * cols * depth * 2, flops=2 * tile_rows * cols * inputs,
                  turns=ceil(inputs, 2 * depth), instructions=loop["turn"],
                  shared=read_and_filled(loop, threads, (tile_rows + cols) * depth * 2),
                  chain=depth // 8 * machine.MMA_LATENCY + machine.SHARED_LATENCY + machine.BARRIER)
    return Kernel(name, E4M3, ceil(out, cols) * ceil(rows, tile_rows), threads,
                  stages * (tile_rows + cols) * (depth + 8) * 2, counts.of(key)["registers"], [phase],
                  useful_bytes=phase.bytes, useful_flops=shape.flops(), sass=key)


# What a good library has for Hopper: tiles at the full rate of wgmma, up to eight stages of 64 inputs, sums in up to eight pieces. Which it
# takes for a shape is its secret; here it is the best of these, so that what is measured beyond is its choice.
LIBRARY_TILES = [(128, 256), (256, 128), (128, 128), (64, 256), (64, 128), (64, 64)]


class Library(Kernel):
    """The best for each GPU of what it has; what it says of itself is of an H200's."""

    def __init__(self, candidates):
        self.candidates = candidates
        super().__init__(**vars(self.best(machine.H200)))

    def best(self, gpu):
        return min(self.candidates, key=lambda each: Kernel.seconds(each, gpu))

    def work(self, gpu):
        return Kernel.work(self.best(gpu), gpu)

    def seconds(self, gpu, graph=False):
        return Kernel.seconds(self.best(gpu), gpu, graph)


def library(name, shape, splits=True):
    rows, inputs, out = shape.rows, shape.inputs, shape.out
    found = []
    moved = (out + rows) * inputs * 2 + shape.ends()
    for tile_rows, cols in LIBRARY_TILES:
        tiles = ceil(rows, tile_rows) * ceil(out, cols)
        stage = (tile_rows + cols) * 64 * 2
        stages = min(8, machine.SHARED_BYTES // stage)
        # Sums are cut where whole ones are no wave.
        for pieces in (1, 2, 4, 8) if splits and tiles < machine.H200.sms else (1,):
            sums = rows * out * 4 * 2 * pieces if pieces > 1 else 0
            phase = Phase(bytes=moved + sums, block_bytes=(tile_rows + cols) * inputs / pieces * 2, in_flight=(stages - 1) * stage,
                          flops=2 * tile_rows * cols * inputs / pieces, rate="tensor")
            found.append(Kernel(name, CUDA + "libraries/cublaslt_library.cc", tiles * pieces, 384, stages * stage, 168, [phase], useful_bytes=moved,
                                useful_flops=shape.flops(), launches=2 if pieces > 1 else 1, sass="cuBLASLt"))
    return Library(found)


def product(counts, name, shape):
    """Whoever multiplies by default: of up to 16 rows the own kernel, of more the library unless the own one is clearly quicker."""
    mine = own(counts, name, shape)
    if shape.rows <= 16:
        return mine
    theirs = library(name, shape)
    if shape.rows <= 256 and QUICKER * mine.seconds(machine.H200) < theirs.seconds(machine.H200):
        return mine
    return theirs

