"""A launch as the model sees it, and how long it takes at the least that the model knows of."""
import math
from dataclasses import dataclass, field

from tools.gpu_cost import gpu as machine


@dataclass
class Phase:
    """What each block of a launch does between two of its meetings: none ends before all of its bounds."""
    bytes: float = 0  # of memory, all blocks together
    block_bytes: float = 0  # that each block fetches, whoever has them; 0: its share of `bytes`
    in_flight: float = 0  # bytes under way, a block; 0: no bound
    flops: float = 0  # of a block, with what its tile has too many
    rate: str = "mma"  # mma: mma.sync; tensor: wgmma
    turns: float = 0  # of the loop, each warp
    instructions: float = 0  # a turn and warp
    shared: float = 0  # bytes of shared memory, a turn and block: what ldmatrix reads, and what fills the stage
    chain: float = 0  # cycles that a turn takes for what waits for each other
    exponentials: float = 0  # of a block
    cached: bool = False  # what it fetches lies in L2


@dataclass
class Kernel:
    """`name` is what the step calls it, `source` the file with its launch."""
    name: str
    source: str
    blocks: int
    threads: int = 256
    shared: int = 0
    registers: int = 32
    phases: list = field(default_factory=list)
    lookups: int = 0  # lists that it reads one after another before its first bytes
    useful_bytes: float = 0  # for the roof: what has to move
    useful_flops: float = 0
    launches: int = 1
    sass: str = ""  # the counts' name

    def residents(self):
        return machine.resident(self.threads, self.registers, self.shared)

    def in_flight(self):
        return max((phase.in_flight for phase in self.phases), default=0)

    def roof(self, gpu):
        return max(self.useful_bytes / gpu.memory, self.useful_flops / gpu.tensor)

    def bounds(self, gpu, phase):
        """Seconds of a phase, by what bounds it."""
        blocks, sms = max(self.blocks, 1), gpu.sms
        at_once = sms * self.residents()
        of_block = phase.block_bytes or phase.bytes / blocks
        warps = self.threads / 32
        busiest = math.ceil(blocks / sms)
        waves = math.ceil(blocks / at_once)
        found = {"bytes": 0 if phase.cached else phase.bytes / gpu.memory}
        if phase.in_flight:
            latency = machine.CACHE_LATENCY if phase.cached else machine.MEMORY_LATENCY
            found["in flight"] = max(waves * of_block / phase.in_flight - 1, 0) * latency
        if phase.flops:
            found["flops"] = busiest * phase.flops / (getattr(gpu, phase.rate) / sms)
        if phase.turns:
            at_least = math.ceil(min(busiest, self.residents()) * warps / machine.SCHEDULERS) / min(busiest, self.residents())
            found["issue"] = busiest * phase.turns * phase.instructions * at_least / gpu.clock
            found["shared memory"] = busiest * phase.turns * phase.shared / machine.SHARED_RATE / gpu.clock
            found["chain"] = waves * phase.turns * phase.chain / gpu.clock
        if phase.exponentials:
            found["exponentials"] = busiest * phase.exponentials / machine.EXPONENTIALS / gpu.clock
        return found

    def work(self, gpu):
        """Seconds without the launch itself, and what bounds the longest phase."""
        total, longest, why = self.lookups * machine.CACHE_LATENCY, 0, "launch"
        for phase in self.phases:
            bound, seconds = max(self.bounds(gpu, phase).items(), key=lambda each: each[1])
            # Nothing is done before the first bytes are there.
            total += seconds + (machine.CACHE_LATENCY if phase.cached else machine.MEMORY_LATENCY)
            if seconds > longest:
                longest, why = seconds, bound
        return max(total, self.roof(gpu)), why

    def seconds(self, gpu, graph=False):
        launch = machine.LAUNCH - (machine.GRAPH_SAVES if graph else 0)
        return self.launches * launch + self.work(gpu)[0]

    def bound(self, gpu):
        work, why = self.work(gpu)
        return why if work > self.launches * machine.LAUNCH else "launch"
