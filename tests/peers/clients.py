"""Load generators against a mock of known latencies, beside `saccade bench serve`; a Markdown table on standard output.

clients.py --saccade BINARY --work DIR --tokenizer CHECKPOINT [NAME=BIN_DIR ...]

Two loads, each with 16 streams at once: answers that take exactly TTFT and ITL, which tells how wrong a client's clock
is, and answers that cost nothing, which tells how many requests a second it can drive. Ours is asked for the same load
and seed with that tool's definitions (--compat).
"""
import argparse
import json
import os
import pathlib
import subprocess
import time

STREAMS, TTFT, ITL, WORDS, TOKENS = 16, 40.0, 10.0, 32, 32
COMPAT = {"vllm-bench": "vllm", "guidellm": "guidellm", "genai-bench": "genai-bench"}


class Mock:
    """`saccade bench mock` on a free port."""

    def __init__(self, saccade, ttft, itl):
        command = [saccade, "bench", "mock", "--port", "0", "--model", "m", "--ttft", str(ttft), "--itl", str(itl), "--role-chunk"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def command_of(name, bin_dir, url, requests, out, tokenizer):
    n, streams, words, tokens = str(requests), str(STREAMS), str(WORDS), str(TOKENS)
    if name == "vllm-bench":
        return [f"{bin_dir}/vllm", "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
                "--base-url", url, "--model", "m", "--tokenizer", tokenizer, "--dataset-name", "random", "--random-input-len", words,
                "--random-output-len", tokens, "--num-prompts", n, "--max-concurrency", streams, "--seed", "1", "--ignore-eos",
                "--save-result", "--result-dir", out, "--result-filename", "result.json", "--disable-tqdm"]
    if name == "guidellm":
        return [f"{bin_dir}/guidellm", "benchmark", "run", "--target", url, "--model", "m", "--processor", tokenizer, "--profile",
                "concurrent", "--rate", streams, "--max-requests", n, "--data", f"prompt_tokens={words},output_tokens={tokens}",
                "--random-seed", "1", "--output-dir", out, "--outputs", "json", "--disable-console"]
    if name == "aiperf":
        return [f"{bin_dir}/aiperf", "profile", "--model", "m", "--url", url, "--endpoint-type", "chat", "--streaming",
                "--tokenizer", tokenizer, "--concurrency", streams, "--request-count", n, "--synthetic-input-tokens-mean", words,
                "--output-tokens-mean", tokens, "--random-seed", "1", "--artifact-dir", out, "--ui", "none"]
    if name == "genai-bench":
        return [f"{bin_dir}/genai-bench", "benchmark", "--api-backend", "openai", "--api-base", url, "--api-key", "none",
                "--api-model-name", "m", "--model-tokenizer", tokenizer, "--task", "text-to-text", "--traffic-scenario",
                f"D({words},{tokens})", "--num-concurrency", streams, "--max-time-per-run", "2", "--max-requests-per-run", n,
                "--experiment-base-dir", out, "--experiment-folder-name", "run", "--server-engine", "vLLM", "--num-workers", "0"]
    config = {"api": {"type": "chat", "streaming": True}, "data": {"type": "random", "input_distribution": {"min": WORDS, "max": WORDS,
              "mean": WORDS, "std_dev": 0, "total_count": requests}, "output_distribution": {"min": TOKENS, "max": TOKENS, "mean": TOKENS,
              "std_dev": 0, "total_count": requests}}, "load": {"type": "concurrent", "stages": [{"num_requests": requests,
              "concurrency_level": STREAMS}]}, "server": {"type": "vllm", "model_name": "m", "base_url": url, "ignore_eos": True},
              "tokenizer": {"pretrained_model_name_or_path": tokenizer}, "storage": {"local_storage": {"path": out}}}
    path = pathlib.Path(out, "config.yml")
    path.write_text(json.dumps(config))  # JSON is YAML
    return [f"{bin_dir}/inference-perf", "--config_file", str(path)]


def find(tree, *path):
    for key in path:
        tree = tree[key]
    return tree


def result_of(name, out):
    """(requests/s, mean TTFT ms, mean gap or time per token ms) as the tool reports them."""
    files = {path.name: path for path in pathlib.Path(out).rglob("*.json")}
    if name == "vllm-bench":
        tree = json.loads(files["result.json"].read_text())
        return tree["request_throughput"], tree["mean_ttft_ms"], tree["mean_itl_ms"]
    if name == "guidellm":
        tree = json.loads(next(path for file, path in files.items() if "benchmark" in file).read_text())["benchmarks"][0]["metrics"]
        return (find(tree, "requests_per_second", "successful", "mean"), find(tree, "time_to_first_token_ms", "successful", "mean"),
                find(tree, "inter_token_latency_ms", "successful", "mean"))
    if name == "aiperf":
        tree = json.loads(files["profile_export_aiperf.json"].read_text())
        return find(tree, "request_throughput", "avg"), find(tree, "time_to_first_token", "avg"), find(tree, "inter_token_latency", "avg")
    if name == "genai-bench":
        run = next(path for file, path in files.items() if "concurrency_16" in file or "D(" in file)
        tree = json.loads(run.read_text())["aggregated_metrics"]
        return tree["requests_per_second"], find(tree, "stats", "ttft", "mean") * 1e3, find(tree, "stats", "tpot", "mean") * 1e3
    tree = json.loads(files["summary_lifecycle_metrics.json"].read_text())["successes"]
    latency = tree["latency"]
    return (find(tree, "throughput", "requests_per_sec"), find(latency, "time_to_first_token", "mean") * 1e3,
            find(latency, "inter_token_latency", "mean") * 1e3)


def measure(name, bin_dir, mock, requests, out, tokenizer):
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1",
                       PATH=f"{bin_dir}:{os.environ['PATH']}")
    with open(f"{out}/log.txt", "w") as log:
        done = subprocess.run(command_of(name, bin_dir, mock.url, requests, out, tokenizer), stdout=log, stderr=log, env=environment,
                              timeout=900)
    if done.returncode:
        raise RuntimeError(f"rc {done.returncode}, {out}/log.txt")
    return result_of(name, out)


def ours(saccade, compat, mock, requests, out, tokenizer):
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    subprocess.run([saccade, "bench", "serve", "--backend", "openai-chat", "--base-url", mock.url, "--tokenizer", tokenizer, "--num-prompts",
                    str(requests), "--random-input-len", str(WORDS), "--random-output-len", str(TOKENS), "--closed-loop",
                    "--max-concurrency", str(STREAMS), "--seed", "1", "--ignore-eos", "--compat", compat, "--save-result", "--result-dir",
                    out, "--result-filename", "result.json", "--brief"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tree = json.loads(pathlib.Path(out, "result.json").read_text())
    gap = tree["mean_itl_ms"] if tree["mean_itl_ms"] is not None else tree["mean_tpot_ms"]
    return tree["request_throughput"], tree["mean_ttft_ms"], gap


def row(name, fast, exact):
    rate = f"{fast[0]:.0f}" if fast else "-"
    if not exact:
        return f"| {name} | {rate} | - | - |"
    return f"| {name} | {rate} | {exact[1]:.1f} ({exact[1] - TTFT:+.1f}) | {exact[2]:.2f} ({exact[2] - ITL:+.2f}) |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saccade", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--requests", type=int, default=160)
    parser.add_argument("clients", nargs="*")
    args = parser.parse_args()
    print(f"Mock: TTFT {TTFT:g} ms, {ITL:g} ms a token, {TOKENS} tokens, {STREAMS} streams at once, {args.requests} requests; "
          f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start, {time.strftime('%Y-%m-%d', time.gmtime())}.\n")
    print(f"| client | requests/s it drives | mean TTFT, truth {TTFT:g} (ms) | mean gap or time a token, truth {ITL:g} (ms) |\n|---|---|---|---|")
    loads = [("exact", TTFT, ITL, args.requests), ("fast", 0, 0, args.requests * 8)]

    def both(run):
        found = {}
        for load, ttft, itl, requests in loads:
            with Mock(args.saccade, ttft, itl) as mock:
                found[load] = run(load, mock, requests)
        return found

    failures = 0
    found = both(lambda load, mock, n: ours(args.saccade, "saccade", mock, n, f"{args.work}/clients/saccade-{load}", args.tokenizer))
    print(row("saccade bench", found["fast"], found["exact"]), flush=True)
    for client in args.clients:
        name, bin_dir = client.split("=", 1)
        try:
            found = both(lambda load, mock, n: measure(name, bin_dir, mock, n, f"{args.work}/clients/{name}-{load}", args.tokenizer))
        except Exception as error:  # one client that fails is a row that says so
            print(f"| {name} | failed: {str(error)[:120]} | - | - |", flush=True)
            failures += 1
            continue
        print(row(name, found["fast"], found["exact"]), flush=True)
        compat = COMPAT.get(name)
        if compat:
            found = both(lambda load, mock, n: ours(args.saccade, compat, mock, n, f"{args.work}/clients/{compat}-{load}", args.tokenizer))
            print(row(f"saccade bench --compat {compat}", found["fast"], found["exact"]), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
