#!/usr/bin/env python3
"""What one core can drive, and how true its figures are: `saccade bench serve` and vLLM's Python client of 2024, run
with the same options against the same `saccade bench mock` on another core. Prints Markdown.

    compare.py --saccade build/release/saccade --vllm-client DIR/benchmark_serving.py --python VENV/bin/python \
        --tokenizer tests/golden/qwen2/mixed_window

The Python client is the user's own copy (benchmarks/ of vLLM 0.6.4.post1) with aiohttp, transformers and datasets.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MOCK_CORE, CLIENT_CORE = "1", "0"


class Mock:
    """A mock server on its core, for the time of a `with`."""

    def __init__(self, saccade, *flags):
        command = ["taskset", "-c", MOCK_CORE, saccade, "bench", "mock", "--port", "0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def run(client, url, tokens, prompts, rate, concurrency):
    """One run; the keys of vLLM's result file, which both write."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["taskset", "-c", CLIENT_CORE, *client, "--backend", "openai-chat", "--base-url", url,
                   "--endpoint", "/v1/chat/completions", "--model", "mock", "--dataset-name", "random",
                   "--random-input-len", "16", "--random-output-len", str(tokens), "--num-prompts", str(prompts),
                   "--request-rate", str(rate), "--percentile-metrics", "ttft,tpot,itl,e2el", "--disable-tqdm",
                   "--save-result", "--result-dir", folder, "--result-filename", "result.json"]
        if concurrency:
            command += ["--max-concurrency", str(concurrency)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        try:
            with open(f"{folder}/result.json") as file:
                return json.load(file)
        except FileNotFoundError:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def spread(values, digits):
    low, mid, high = min(values), statistics.median(values), max(values)
    return f"{mid:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def capacity(args, clients):
    """Sixty-four requests at once, as fast as they end."""
    print("| events an answer, a write | | requests/s, median (range) | events/s | ratio |\n|---|---|---|---|---|")
    for tokens, per_write, prompts in ((16, 16, (200_000, 4_000)), (64, 64, (100_000, 2_000)), (64, 1, (20_000, 1_000))):
        rates = {}
        for (name, client), count in zip(clients.items(), prompts):
            with Mock(args.saccade, "--events-per-write", str(per_write)) as mock:
                results = [run(client, mock.url, tokens, count, "inf", 64) for _ in range(args.repeat)]
            assert all(r["completed"] == count for r in results), name
            rates[name] = [r["request_throughput"] for r in results]
        ratio = statistics.median(rates["saccade"]) / statistics.median(rates["vllm"])
        for name, values in rates.items():
            last = f"{ratio:,.0f} : 1" if name == "saccade" else ""
            print(f"| {tokens}, {per_write} | {name} | {spread(values, 0)} | {statistics.median(values) * tokens:,.0f} | {last} |",
                  flush=True)


def truth(args, clients):
    """Poisson arrivals at the rate that keeps so many streams running; what was programmed is what should be read."""
    print("| streams, programmed TTFT, ITL | | TTFT median off by, ms | TTFT p99 off by | ITL median off by | ITL p99 off by "
          "| requests/s asked, had |\n|---|---|---|---|---|---|---|")
    for streams, ttft, itl, tokens in ((10, 50, 5, 64), (50, 50, 5, 64), (200, 50, 5, 64), (1000, 50, 50, 20)):
        rate = streams / ((ttft + itl * (tokens - 1)) / 1000)
        prompts = int(rate * args.seconds)
        for name, client in clients.items():
            with Mock(args.saccade, "--ttft", str(ttft), "--itl", str(itl)) as mock:
                results = [run(client, mock.url, tokens, prompts, rate, None) for _ in range(args.repeat)]
            off = {key: [r[key] - target for r in results] for key, target in
                   (("median_ttft_ms", ttft), ("p99_ttft_ms", ttft), ("median_itl_ms", itl), ("p99_itl_ms", itl))}
            had = statistics.median(r["request_throughput"] for r in results)
            cells = " | ".join(spread(values, 3) for values in off.values())
            print(f"| {streams}, {ttft}, {itl} ms | {name} | {cells} | {rate:.0f}, {had:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("capacity", "truth"))
    parser.add_argument("--saccade", default="build/release/saccade")
    parser.add_argument("--vllm-client", required=True, help="benchmark_serving.py, backend_request_func.py beside it")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tokenizer", required=True, help="directory, for the random prompts of both")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of arrivals, for `truth`")
    args = parser.parse_args()
    clients = {"saccade": [args.saccade, "bench", "serve", "--compat", "vllm-2024", "--tokenizer", args.tokenizer],
               "vllm": [args.python, args.vllm_client, "--tokenizer", args.tokenizer]}
    {"capacity": capacity, "truth": truth}[args.part](args, clients)


main()
