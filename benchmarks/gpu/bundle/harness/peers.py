"""What others take for the same, in the same run, on the same GPU:

    peers.py ops|graph|transformers --shapes FILE --model FOLDER --figures FILE --seconds S [--rehearsal]

`ops`: torch's largest products and SDPA, and F.linear and SDPA at the shapes that gpu_bench's notes have. `graph`: the
model of the folder with random weights in bf16 in transformers, one step with a static cache as a CUDA graph.
`transformers`: the same as people run it. Exit code 78: not installed, or it sees no GPU. --rehearsal: tiny, and on the
processor where there is no GPU."""
import os
import sys

# This folder's modules are no packages of anyone's: transformers asks for one called "kernels".
sys.path = [each for each in sys.path if os.path.abspath(each or ".") != os.path.dirname(os.path.abspath(__file__))]

import argparse  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import time  # noqa: E402

NOT_HERE = 78


def not_here(why):
    print(why)
    sys.exit(NOT_HERE)


parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["ops", "graph", "transformers"])
for name in ("shapes", "model", "figures", "seconds"):
    parser.add_argument(f"--{name}")
parser.add_argument("--rehearsal", action="store_true")
GIVEN = parser.parse_args()
try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    not_here(f"no torch: {error}")
GPU = torch.cuda.is_available()
if not GPU and not GIVEN.rehearsal:
    not_here(f"torch {torch.__version__} sees no GPU")
DEVICE = "cuda" if GPU else "cpu"
END = time.monotonic() + float(GIVEN.seconds)
OUTPUT = open(GIVEN.figures, "a", buffering=1)
torch.manual_seed(5)
torch.set_grad_enabled(False)


def add(part, name, **numbers):
    row = {"part": part, "name": name, **numbers}
    OUTPUT.write(json.dumps(row) + "\n")
    print(row, flush=True)


def over():
    return time.monotonic() > END


def finish():
    if GPU:
        torch.cuda.synchronize()


def timed(op, most=1000):
    """Seconds of a call among many that are queued: the median of three rounds."""
    def once(calls):
        finish()
        begun = time.perf_counter()
        for _ in range(calls):
            op()
        finish()
        return (time.perf_counter() - begun) / calls
    if GIVEN.rehearsal:
        return once(1)
    once(2)
    calls = int(min(most, max(1, 0.02 / once(1))))
    return statistics.median(once(calls) for _ in range(3))


def rows(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) * 0.3


def linear(m, k, n):
    copies = 1 if m > 64 else max(1, (256 << 20) // (2 * k * n))
    weights = [rows(n, k) for _ in range(1 if GIVEN.rehearsal else copies)]
    x = rows(m, k)
    turn = [0]

    def op():
        turn[0] += 1
        F.linear(x, weights[turn[0] % len(weights)])
    return timed(op)


def biased(m, k, n, activation):
    """As a tower has it: with a bias, and an activation behind it (1: GELU, 2: its tanh form, 3: x sigmoid(1.702 x))."""
    weight, bias, x = rows(n, k), rows(n), rows(m, k)
    acts = [lambda y: y, F.gelu, lambda y: F.gelu(y, approximate="tanh"), lambda y: y * torch.sigmoid(1.702 * y)]
    return timed(lambda: acts[activation](F.linear(x, weight, bias)))


def causal(sequences, count, context, heads, kv_heads, head_dim):
    """Keys and values lie side by side here: no pages."""
    size = 2 * 2 * sequences * kv_heads * (context + count) * head_dim
    copies = 1 if count > 1 or GIVEN.rehearsal else max(1, min(64, (256 << 20) // size))
    q = rows(sequences, heads, count, head_dim)
    pairs = [[rows(sequences, kv_heads, context + count, head_dim) for _ in range(2)] for _ in range(copies)]
    mask = None
    if context and count > 1:
        mask = torch.ones(count, context + count, device=DEVICE, dtype=torch.bool).tril(context)
    turn = [0]

    def op():
        turn[0] += 1
        k, v = pairs[turn[0] % copies]
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=context == 0 and count > 1, enable_gqa=heads != kv_heads)
    return timed(op)


def full(count, segments, heads, head_dim):
    if segments > 1:  # as one batch of equal ones: the nearest that SDPA has
        count -= count % segments
    q, k, v = (rows(segments, heads, count // segments, head_dim) for _ in range(3))
    return timed(lambda: F.scaled_dot_product_attention(q, k, v))


def largest():
    """What torch reaches at sizes that fill the chip: roofs."""
    small = GIVEN.rehearsal
    for m, k, n in [(64, 64, 64)] if small else [(8192, 8192, 8192), (16384, 8192, 8192), (8192, 3584, 37888)]:
        a, b = rows(m, k), rows(k, n)
        add("roofs", f"torch {torch.__version__} product of {m} x {k} x {n}", seconds=timed(lambda: a @ b), flops=2 * m * k * n)
    count = 1 << 12 if small else 1 << 30
    one, other = (torch.empty(count, device=DEVICE, dtype=torch.uint8) for _ in range(2))
    add("roofs", "torch copy, read and written", seconds=timed(lambda: other.copy_(one)), bytes=2 * count)
    del one, other
    for heads, length, head_dim, is_causal in [(1, 32, 64, True)] if small else [(28, 8192, 128, True), (16, 8192, 128, False), (16, 5476, 80, False)]:
        q, k, v = (rows(1, heads, length, head_dim) for _ in range(3))
        flops = 4 * heads * length * length * head_dim / (2 if is_causal else 1)
        add("roofs", f"torch SDPA, {heads} heads of {head_dim}, {length} rows{', causal' if is_causal else ''}",
            seconds=timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)), flops=flops)


def ops():
    largest()
    kinds = {"linear": linear, "biased": biased, "causal": causal, "full": full}
    with open(GIVEN.shapes) as file:
        measured = json.load(file)
    for row in measured:
        kind, *numbers = row.get("note", "").split()
        if kind not in kinds or over():
            continue
        try:
            add("torch", row["name"], seconds=kinds[kind](*map(int, numbers)))
        except (RuntimeError, TypeError) as error:
            add("torch", row["name"], note=str(error).splitlines()[0][:200])


def make_model():
    try:
        from transformers import AutoConfig, AutoModelForImageTextToText
        import transformers as package
    except ImportError as error:
        not_here(f"no transformers: {error}")
    config = AutoConfig.from_pretrained(GIVEN.model)
    with torch.device(DEVICE):
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    return model, f"transformers {package.__version__}, torch {torch.__version__}"


PROMPT, STEPS = (8, 3) if GIVEN.rehearsal else (1024, 32)
STREAMS = (1, 2) if GIVEN.rehearsal else (1, 8, 64)


class Step:
    """One token of each of `streams` sequences after PROMPT others: ids in, the likeliest ids out, in the same place."""

    def __init__(self, model, streams):
        from transformers import StaticCache
        self.text, self.head = model.model.language_model, model.lm_head
        self.room = PROMPT + 2 * STEPS
        self.cache = StaticCache(config=model.config, max_cache_len=self.room)
        self.ids = torch.randint(0, 100, (streams, 1), device=DEVICE)
        self.at = torch.zeros(1, device=DEVICE, dtype=torch.long)
        self.places = torch.arange(self.room, device=DEVICE)
        self.run()  # which makes the cache's tensors
        for layer in self.cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
        self.rewind()

    def rewind(self):
        self.at.fill_(PROMPT)
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(PROMPT)

    def run(self):
        seen = (self.places <= self.at)[None, None, None, :].expand(self.ids.shape[0], 1, 1, self.room)
        positions = self.at.view(1, 1, 1).expand(3, self.ids.shape[0], 1)
        hidden = self.text(input_ids=self.ids, attention_mask={"full_attention": seen, "sliding_attention": seen}, position_ids=positions,
                           past_key_values=self.cache, use_cache=True).last_hidden_state
        self.ids.copy_(self.head(hidden).argmax(-1))
        self.at.add_(1)

    def captured(self):
        """What runs it as a graph; as it is where there is none."""
        if not GPU:
            return self.run
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.run()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.run()
        return self.graph.replay

    def seconds(self, op):
        def once():
            self.rewind()
            finish()
            begun = time.perf_counter()
            for _ in range(STEPS):
                op()
            finish()
            return (time.perf_counter() - begun) / STEPS
        once()
        return statistics.median(once() for _ in range(1 if GIVEN.rehearsal else 3))


def graph():
    model, name = make_model()
    add("graph", "parameters", note=name, count=sum(each.numel() for each in model.parameters()))
    ids = torch.randint(0, 100, (1, PROMPT), device=DEVICE)

    def prefill():
        hidden = model.model.language_model(input_ids=ids, use_cache=False).last_hidden_state
        model.lm_head(hidden[:, -1]).argmax(-1)
    add("graph", f"2b prefill of {PROMPT}", seconds=timed(prefill), tokens=PROMPT)
    for streams in STREAMS:
        if over():
            return
        step = Step(model, streams)
        add("graph", f"2b decode of {streams} after {PROMPT}, eager", seconds=step.seconds(step.run), tokens=streams)
        step.rewind()
        add("graph", f"2b decode of {streams} after {PROMPT}", seconds=step.seconds(step.captured()), tokens=streams)
        del step


def transformers():
    model, name = make_model()
    add("transformers", "parameters", note=name, count=sum(each.numel() for each in model.parameters()))
    for streams in STREAMS:
        if over():
            return
        ids = torch.randint(0, 100, (streams, PROMPT), device=DEVICE)
        mask = torch.ones_like(ids)

        def generate(tokens):
            finish()
            begun = time.perf_counter()
            model.generate(input_ids=ids, attention_mask=mask, do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens)
            finish()
            return time.perf_counter() - begun
        generate(2)
        first = generate(1)
        many = generate(1 + STEPS // 2)
        if streams == 1:
            add("transformers", f"2b prefill of {PROMPT}", seconds=first, tokens=PROMPT)
        add("transformers", f"2b decode of {streams} after {PROMPT}", seconds=(many - first) / (STEPS // 2), tokens=streams)
    vision = model.model.visual
    for side in (56,) if GIVEN.rehearsal else (512, 1024):
        if over():
            return
        grid = round(side / 28) * 2
        pixels = torch.randn(grid * grid, 3 * 2 * 14 * 14, device=DEVICE, dtype=torch.bfloat16)
        thw = torch.tensor([[1, grid, grid]], device=DEVICE)
        add("transformers", f"2b image {side} x {side}", seconds=timed(lambda: vision(pixels, grid_thw=thw)),
            tokens=grid * grid // 4)


{"ops": ops, "graph": graph, "transformers": transformers}[GIVEN.what]()
