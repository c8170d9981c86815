"""What others take for the same, in the same run, on the same GPU:

    peers.py ops|transformers SHAPES MODEL FIGURES SECONDS

`ops`: torch's F.linear and SDPA at the shapes that gpu_bench's notes have, and its largest product. `transformers`: the
model of the folder MODEL with random weights in bf16. Exit code 78: not installed, or it sees no GPU."""
import json
import statistics
import sys
import time

NOT_HERE = 78


def not_here(why):
    print(why)
    sys.exit(NOT_HERE)


try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    not_here(f"no torch: {error}")
if not torch.cuda.is_available():
    not_here(f"torch {torch.__version__} sees no GPU")

what, shapes_file, model_folder, figures_file, seconds = sys.argv[1:6]
END = time.monotonic() + float(seconds)
OUTPUT = open(figures_file, "a", buffering=1)
torch.manual_seed(5)
torch.set_grad_enabled(False)


def add(part, name, **numbers):
    row = {"part": part, "name": name, **numbers}
    OUTPUT.write(json.dumps(row) + "\n")
    print(row, flush=True)


def over():
    return time.monotonic() > END


def timed(op):
    """Seconds of a call among many that are queued: the median of three rounds."""
    def once(calls):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(calls):
            op()
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / calls
    once(2)
    calls = int(min(1000, max(1, 0.02 / once(1))))
    return statistics.median(once(calls) for _ in range(3))


def rows(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.3


def linear(m, k, n):
    copies = 1 if m > 64 else max(1, (256 << 20) // (2 * k * n))
    weights = [rows(n, k) for _ in range(copies)]
    x = rows(m, k)
    turn = [0]

    def op():
        turn[0] += 1
        F.linear(x, weights[turn[0] % copies])
    return timed(op)


def causal(sequences, count, context, heads, kv_heads, head_dim):
    """Keys and values lie side by side here: no pages."""
    q = rows(sequences, heads, count, head_dim)
    k, v = (rows(sequences, kv_heads, context + count, head_dim) for _ in range(2))
    mask = None
    if context and count > 1:
        mask = torch.ones(count, context + count, device="cuda", dtype=torch.bool).tril(context)
    return timed(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=context == 0 and count > 1,
                                                        enable_gqa=heads != kv_heads))


def full(count, segments, heads, head_dim):
    if segments > 1:  # as one batch of equal ones: the nearest that SDPA has
        count -= count % segments
    q, k, v = (rows(segments, heads, count // segments, head_dim) for _ in range(3))
    return timed(lambda: F.scaled_dot_product_attention(q, k, v))


def ops():
    a, b = rows(8192, 8192), rows(8192, 8192)
    add("roofs", f"torch {torch.__version__} product of 8192 x 8192 x 8192", seconds=timed(lambda: a @ b), flops=2 * 8192**3)
    one, other = torch.empty(1 << 30, device="cuda", dtype=torch.uint8), torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    add("roofs", "torch copy, read and written", seconds=timed(lambda: other.copy_(one)), bytes=2 << 30)
    del one, other
    kinds = {"linear": linear, "causal": causal, "full": full}
    with open(shapes_file) as file:
        measured = json.load(file)
    for row in measured:
        kind, *numbers = row.get("note", "").split()
        if kind not in kinds or over():
            continue
        try:
            add("torch", row["name"], seconds=kinds[kind](*map(int, numbers)))
        except (RuntimeError, TypeError) as error:
            add("torch", row["name"], note=str(error).splitlines()[0][:200])


def transformers():
    try:
        from transformers import AutoConfig, AutoModelForImageTextToText
        import transformers as package
    except ImportError as error:
        not_here(f"no transformers: {error}")
    config = AutoConfig.from_pretrained(model_folder)
    with torch.device("cuda"):
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    name = f"transformers {package.__version__}"
    add("transformers", "parameters", note=name, count=sum(each.numel() for each in model.parameters()))
    prompt = 1024
    for streams in (1, 8, 64):
        if over():
            return
        ids = torch.randint(100, 1000, (streams, prompt), device="cuda")
        mask = torch.ones_like(ids)

        def generate(tokens):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            model.generate(input_ids=ids, attention_mask=mask, do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens)
            torch.cuda.synchronize()
            return time.perf_counter() - begun
        generate(2)
        first = generate(1)
        many = generate(17)
        if streams == 1:
            add("transformers", f"2b prefill of {prompt}", seconds=first, tokens=prompt)
        add("transformers", f"2b decode of {streams} after {prompt}", seconds=(many - first) / 16, tokens=streams)
    vision = getattr(getattr(model, "model", model), "visual", None) or getattr(model, "visual", None)
    if vision is None:
        return
    for side in (512, 1024):
        if over():
            return
        grid = round(side / 28) * 2
        pixels = torch.randn(grid * grid, 3 * 2 * 14 * 14, device="cuda", dtype=torch.bfloat16)
        thw = torch.tensor([[1, grid, grid]], device="cuda")
        add("transformers", f"2b image {side} x {side}", seconds=timed(lambda: vision(pixels, grid_thw=thw)),
            tokens=grid * grid // 4)


{"ops": ops, "transformers": transformers}[what]()
