"""What the model takes a GPU to be, each number with where it comes from. None is fitted to a kernel."""
from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Gpu:
    name: str
    memory_nominal: float  # bytes a second
    memory: float
    tensor_nominal: float = 989e12  # flops a second, bf16
    tensor: float = 828e12
    mma: float = 648e12
    clock: float = 1.83e9  # cycles a second
    sms: int = 132


H100 = Gpu("H100", 3.35e12, 2.986e12)
H200 = Gpu("H200", 4.8e12, 4.213e12)
GPUS = (H100, H200)

# Of a multiprocessor of compute capability 9.0.
SCHEDULERS = 4  # an instruction of a warp a cycle each
THREADS = 2048
BLOCKS = 32
REGISTERS = 65536
SHARED_BYTES = 227 * KIB
SHARED_OF_BLOCK = KIB  # that the system takes of each
EXPONENTIALS = 16  # a cycle
SHARED_RATE = 128  # bytes a cycle
LDSM_BYTES = 512  # of a warp

# Seconds.
MEMORY_LATENCY = 0.7e-6
CACHE_LATENCY = 0.15e-6
LAUNCH = 2.4e-6
GRAPH_SAVES = 0.75e-6
# Cycles.
MMA_LATENCY = 33
SHARED_LATENCY = 30
BARRIER = 20

CONSTANTS = [
    ("memory, of copies", "3.0 and 4.2 TB/s (3.35 and 4.8 nominal)", "the `roofs` of h100-first.jsonl and h200-kernels.jsonl"),
    ("tensor cores by wgmma", "828 TFLOP/s (989 nominal)", "measured on both, h200.md: torch's largest products"),
    ("tensor cores by mma.sync", "648 TFLOP/s", "`roofs` of h200-kernels.jsonl, out of registers"),
    ("clock", "1.83 GHz", "that at which 132 multiprocessors of 4,096 flops a cycle make 989 TFLOP/s"),
    ("a launch", "2.4 us", "h200-kernels.jsonl: rope of 1 and of 64 rows takes 3.3 us, launched one behind another; less the 0.85 us that the model "
                           "gives its work"),
    ("less than that in a graph", "0.75 us a kernel", "h200-models.jsonl: decode of 1, eager and as a graph, over the kernels of a step"),
    ("latency of memory under load", "0.7 us", "assumed (bytes in flight / latency is the most that blocks can fetch)"),
    ("latency of a lone load that L2 has", "0.15 us", "assumed; of lists that a kernel reads one after another before its first key"),
    ("latency of mma.sync", "33 cycles", "gemm_tiles.h, which was written by it"),
    ("latency of ldmatrix; of a barrier", "30; 20 cycles", "assumed"),
]


def resident(threads, registers, shared):
    """Blocks of a kernel that a multiprocessor has room for."""
    by_registers = REGISTERS // (-(-registers // 8) * 8 * max(threads, 1))
    by_shared = SHARED_BYTES // (shared + SHARED_OF_BLOCK)
    return max(1, min(BLOCKS, THREADS // threads, by_registers, by_shared))
