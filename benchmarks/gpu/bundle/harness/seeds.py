"""The published measurements, shortened: DashInfer-VLM's table (002), figure 19's four models, and one encoder beside
one server (001) with five ways of choosing image sizes. Published figures stand beside."""
import dataclasses
import json
import re
import time

from . import models, pictures, serving
from .machine import Cut, Failed, last_line


def device(machine):
    """A rehearsal of loads is on the processor: a draw among tokens takes the emulator seconds."""
    return "cpu" if machine.rehearsal else "cuda"


# ---- 002: DashInfer-VLM, Qwen2-VL, one A100, FP16 ------------------------------------------------------------------


@dataclasses.dataclass
class Line:
    clients: int
    turns: int  # before the last
    prefix: bool
    vllm: float  # published QPS of vLLM 0.6.4; None: not given
    dashinfer: float
    seconds: float  # that it may take at the published rate


# Those of one server beside each other: without prefix cache, then with.
PUBLISHED_002 = {
    "2b": [Line(32, 0, False, 2.29, 3.85, 18), Line(1, 0, False, 0.80, 0.78, 10),
           Line(32, 2, False, 2.21, 6.05, 16), Line(32, 2, True, None, 7.98, 14)],
    "7b": [Line(32, 0, False, 1.63, 2.20, 22), Line(1, 0, False, 0.47, 0.44, 12),
           Line(32, 2, False, 1.50, 2.84, 24), Line(32, 2, True, None, 4.68, 18)]}
PROMPT_002 = 2807  # tokens on average without earlier turns: three images of 900 and text
IMAGES_002, SIDE_002 = 400, 840


def conversations(line, left):
    """As many as the published rate would end in the time there is; 100 as published at most, and no fewer than fill
    the clients."""
    fit = int(min(line.seconds, left - 6) * line.dashinfer / (line.turns + 1))
    return max(line.clients if line.clients > 1 else 4, min(100, fit))


def dashinfer_command(machine, port, line, count):
    images, output = (1, (2, 0)) if machine.rehearsal else (3, (120, 64))
    return machine.program(
        "saccade", "bench", "dashinfer", "--host", "127.0.0.1", "--port", port, "--model", "bundle",
        "--prompt-file", machine.work / "questions.jsonl", "--image-folder", machine.work / "pictures-002", "--req-nums", count,
        "--batch-size", line.clients, "--image-nums-mean", images, "--image-nums-range", 1, "--response-mean", output[0],
        "--response-len-range", output[1], "--multi-turn", line.turns, "--wrap-images", "--disable-tqdm",
        "--log", machine.work / "dashinfer.run.jsonl", "--ready-check-timeout-sec", 5, "--num-warmups", 0 if machine.rehearsal else 3)


def options_002(machine, prefix):
    return ["--allowed-local-media-path", machine.work,
            "--enable-prefix-caching" if prefix else "--no-enable-prefix-caching"]


def name_002(size, line):
    return f"{size}, {line.clients} at once, {line.turns} turns before{', prefix cache' if line.prefix else ''}"


def lines_002(machine, size):
    if not machine.rehearsal:
        return PUBLISHED_002[size]
    return [dataclasses.replace(line, clients=min(2, line.clients), seconds=1, turns=min(1, line.turns))
            for line in PUBLISHED_002[size]]


def words_for(server, wanted):
    """Words of a question, so that a prompt without images has `wanted` tokens: the tokenizer is a made-up one."""
    chance = pictures.WORDS

    def tokens(words):
        text = " ".join(chance[at % len(chance)] for at in range(words))
        answer = server.post("/v1/chat/completions", {"model": "bundle", "max_tokens": 1, "temperature": 0, "messages": [{"role": "user", "content": text}]})
        return answer["usage"]["prompt_tokens"]
    few, many = tokens(4), tokens(24)
    return max(1, round(4 + (wanted - few) * 20 / max(1, many - few)))


SCRIPT = {"input": r"input token lens: ([0-9.]+)", "output": r"output token lens: ([0-9.]+)", "qps": r"QPS: ([0-9.]+)", "tps": r"TPS: ([0-9.]+)"}


def seed_002(size):
    def run(machine):
        begun = time.monotonic()
        lines = lines_002(machine, size)
        side = 56 if machine.rehearsal else SIDE_002
        pictures.make(machine, machine.work / "pictures-002", 4 if machine.rehearsal else IMAGES_002, [(side, side)])
        done, failed, made = [], [], f"pictures after {time.monotonic() - begun:.1f} s"
        for prefix in (False, True):
            here = [line for line in lines if line.prefix == prefix]
            if not here:
                continue
            if machine.left() < 12:
                break
            with serving.Server(machine, size, f"002 {size}{', prefix cache' if prefix else ''}", more=options_002(machine, prefix),
                                device=device(machine)) as server:
                words = words_for(server, 20 if machine.rehearsal else PROMPT_002 - 3 * 902)
                pictures.questions(machine.work / "questions.jsonl", 320, words)
                for line in here:
                    if machine.left() < 8:
                        break
                    try:
                        one_line(machine, server, size, line)
                    except Failed as why:
                        server.check(name_002(size, line))
                        failed.append(f"{name_002(size, line)}: {why}")
                    done.append(line)
        if failed:
            raise Failed("; ".join(failed))
        if len(done) < len(lines):
            raise Cut(f"{len(done)} of {len(lines)}; not run: {'; '.join(name_002(size, each) for each in lines if each not in done)}")
        return f"{len(done)} lines of the published table, {made}"

    def commands(machine):
        folder, make = models.make_command(machine, size)
        listed = [make]
        for prefix in sorted({line.prefix for line in lines_002(machine, size)}):
            listed.append(serving.serve_command(machine, folder, size, "PORT", more=options_002(machine, prefix), device=device(machine)))
            listed += [dashinfer_command(machine, "PORT", line, conversations(line, 1000))
                       for line in lines_002(machine, size) if line.prefix == prefix]
        return listed
    return run, commands


def one_line(machine, server, size, line):
    server.forget()
    name = f"002 {name_002(size, line)}"
    count = 2 if machine.rehearsal else conversations(line, machine.left())
    (code, text), idle = server.measured(name, lambda: machine.call(dashinfer_command(machine, server.port, line, count)))
    found = {key: float(match.group(1)) for key, pattern in SCRIPT.items() if (match := re.search(pattern, text))}
    if "qps" not in found:
        raise Failed(f"exit code {code}: {last_line(text)}")
    machine.add_figure("seed002", name, conversations=count, idle_percent=idle, vllm=line.vllm, dashinfer=line.dashinfer, **found)
    if code != 0:
        raise Failed(f"exit code {code}: {last_line(text)}")


# ---- Figure 19: MMMU-Pro "vision", chunks of 1,024, 200 tokens out -------------------------------------------------------


@dataclasses.dataclass
class Row:
    model: str
    rate: float  # of the latency run, per second
    throughput: dict  # published, requests/s, by policy
    latency: dict  # published, mean E2EL in ms


PUBLISHED_19 = [
    Row("internvl2-8b", 2.0, {"vllm": 2.21, "jenga": 3.96}, {"vllm": 12148.43, "jenga": 4095.58}),
    Row("llava-onevision-7b", 0.4, {"vllm": 0.53, "jenga": 1.87}, {"vllm": 14483.84, "jenga": 2974.48}),
    Row("phi-3-vision", 2.9, {"vllm": 2.98, "jenga": 3.96}, {"vllm": 7339.03, "jenga": 5753.35}),
    Row("paligemma2-10b", 1.4, {"vllm": 1.43, "jenga": 2.11}, {"vllm": 21622.40, "jenga": 7736.88})]
# What the figure compares: an image encoded again in every chunk that touches it, and once, its rows kept in the
# pages of its own tokens.
POLICIES = {"jenga": ["--kv-policy", "jenga", "--encoder-cache", "overlay"], "static": ["--kv-policy", "static", "--encoder-cache", "off"]}
BESIDE = {"jenga": "jenga", "static": "vllm"}
# MMMU-Pro's pictures have 1700 x 1600 pixels on average.
SIDES_19 = [(1700, 1600), (1400, 1300), (2000, 1900), (1700, 1100), (1200, 1700), (1900, 1700), (1600, 2200), (1800, 1500)]
REQUESTS_19 = 40  # of 200


def options_19(machine, policy):
    lengths = [] if machine.rehearsal else ["--max-model-len", 16384]
    return ["--max-num-batched-tokens", 1024, "--no-enable-prefix-caching", *lengths, *POLICIES[policy]]


def mmmu(machine):
    folder = machine.work / "MMMU" / "MMMU_Pro"
    if not folder.exists():
        sides, count = ([(56, 56)], 2) if machine.rehearsal else (SIDES_19, REQUESTS_19)
        names = pictures.make(machine, folder, count, sides, seed=2)
        (folder / "test.jsonl").write_text("".join(
            json.dumps({"id": f"test_vision_{at}", "file_name": name, "answer": "A"}) + "\n" for at, name in enumerate(names)))
    return folder


def mmmu_command(machine, port, rate, count):
    return machine.program(
        "saccade", "bench", "serve", "--backend", "openai-chat", "--base-url", f"http://127.0.0.1:{port}/v1",
        "--endpoint", "/chat/completions", "--model", "bundle", "--dataset-path", machine.work / "MMMU" / "MMMU_Pro",
        "--dataset-name", "hf", "--hf-subset", "vision", "--hf-split", "test", f"--num_prompts={count}", "--seed", 55555,
        "--hf-output-len", 2 if machine.rehearsal else 200, "--trust_remote_code", "--ignore-eos",
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--request-rate", rate or "inf", "--save-result", "--result-dir", machine.work,
        "--result-filename", "load.json", "--disable-tqdm", "--num-warmups", 0 if machine.rehearsal else 1)


def requests_19(row, policy, rate, left):
    """Of a run: at a rate for twelve seconds; else as many as the published rate ends in half of the time that is left."""
    if rate:
        return max(5, round(12 * rate))
    return max(8, min(REQUESTS_19, int(left / 2 * row.throughput[BESIDE[policy]])))


def figure_19(row, policy):
    rates = (None, row.rate)

    def run(machine):
        mmmu(machine)
        done = []
        with serving.Server(machine, row.model, f"figure 19 {row.model} {policy}", more=options_19(machine, policy),
                            device=device(machine)) as server:
            for rate in rates:
                if machine.left() < 6:
                    raise Cut(f"{len(done)} of 2 runs")
                server.forget()
                count = 2 if machine.rehearsal else requests_19(row, policy, rate, machine.left())
                name = f"figure 19 {row.model} {policy}{f' at {rate}/s' if rate else ''}"
                (machine.work / "load.json").unlink(missing_ok=True)
                (code, text), idle = server.measured(name, lambda: machine.call(mmmu_command(machine, server.port, rate, count)))
                kept = serving.result_of(machine, code, text)
                beside = (row.latency if rate else row.throughput)[BESIDE[policy]]
                machine.add_figure("figure19", name, model=row.model, policy=policy, rate=rate, requests=count, idle_percent=idle,
                                   published=beside, published_name=BESIDE[policy], **kept)
                if kept.get("failed") or not kept.get("completed"):
                    raise Failed(f"{name}: {kept.get('failed')} of {count} failed: {last_line(text)}")
                done.append(name)
        return f"{len(done)} runs, ready after {server.seconds} s"

    def commands(machine):
        folder, make = models.make_command(machine, row.model)
        return [make, serving.serve_command(machine, folder, row.model, "PORT", more=options_19(machine, policy), device=device(machine)),
                *[mmmu_command(machine, "PORT", rate, requests_19(row, policy, rate, 40)) for rate in rates]]
    return run, commands


# ---- 001: one encoder beside one server, Qwen2.5-VL-3B, peak trace 7 -----------------------------------------------------

WAYS = ["vanilla", "static:4096", "seed", "seed-as-published", "dynamic"]
MODEL_001 = "qwen2.5-vl-3b"
# ShareGPT-4o's pictures make prompts of 1,855 tokens on average.
SIDES_001 = [(1204, 1204), (1024, 1024), (1456, 1064), (1064, 1456), (1344, 1344), (896, 1204)]


def encoder_command(machine, folder, port):
    return machine.program("saccade", "serve", "--model", folder, "--device", device(machine), "--load-format", "dummy", "--role", "encoder",
                           "--cluster-listen", "127.0.0.1:0", "--host", "127.0.0.1", "--port", port, "--encoder-cache", "off",
                           "--drain-seconds", 1)


def options_001(machine, way, encoder):
    # dynamic measures prompts and images up to the longest first: no longer than these pictures need.
    sizes = ["--max-model-len", 128] if machine.rehearsal else ["--max-model-len", 4352, "--max-num-seqs", 128]
    return ["--role", "pd", "--encoders", encoder, "--image-size", way, "--ttft-target", "2s", "--image-floor", 256,
            "--profile-folder", machine.work / "profiles", "--no-enable-prefix-caching", "--encoder-cache", "off",
            "--gpu-memory-utilization", 0.7, *sizes]


def trace_command(machine, port, way, seconds):
    return machine.program(
        "saccade", "bench", "trace-run", "--host", "127.0.0.1", "--api-port", port, "--model", "bundle",
        "--task-name", way.replace(":", "-"), "--experiments", machine.work / "experiments", "--trace-file", 7, "--trace-end", seconds,
        "--seed", 41, "--dataset-name", "custom_image", "--dataset-path", machine.work / "captions" / "rows.jsonl",
        "--image-folder", machine.work / "captions", "--images-first",
        "--custom-output-len", 2 if machine.rehearsal else 64, "--ignore-eos", "--max-failures", 1,
        "--metadata", f"image_size={way}", "trace=7", "--disable-tqdm")


def captions(machine):
    folder = machine.work / "captions"
    if folder.exists():
        return
    sides, count = ([(56, 56)], 2) if machine.rehearsal else (SIDES_001, 48)
    names = pictures.make(machine, folder, count, sides, seed=3)
    # The published captions end when the model ends them; random weights never do.
    (folder / "rows.jsonl").write_text("".join(json.dumps(
        {"id": str(at), "image_files": [name], "prompt": "What is written here?", "reference": "A few letters."}) + "\n" for at, name in enumerate(names)))


class Encoder(serving.Server):
    """The process that encodes for the other; where it listens."""

    address = None

    def ready(self):
        found = re.search(r"encoding for others on (127\.0\.0\.1:\d+)", self.said())
        self.address = found.group(1) if found else None
        return self.address is not None


def seed_001(ways):
    def run(machine):
        captions(machine)
        folder = models.folder_of(machine, MODEL_001)
        logs, done, failed = [], [], []
        for way in ways:
            if machine.left() < 14:
                break
            seconds = 2 if machine.rehearsal else min(15, max(5, (machine.left() - 6) / (len(ways) - len(done)) - 9))
            try:
                logs.append(one_way(machine, folder, way, f"{seconds:.0f}"))
            except Failed as why:
                failed.append(f"{way}: {why}")
            done.append(way)
        if logs:
            code, text = machine.call(machine.program("saccade", "bench", "image-sizes", "--target", 2, *logs), most=20)
            machine.add_figure("seed001", "1E1PD, peak trace 7", table=text if code == 0 else last_line(text))
        if failed:
            raise Failed("; ".join(failed))
        if len(done) < len(ways):
            raise Cut(f"{len(done)} of {len(ways)}; not run: {', '.join(ways[len(done):])}")
        return f"{', '.join(done)}"

    def commands(machine):
        folder, make = models.make_command(machine, MODEL_001)
        return [make, encoder_command(machine, folder, "PORT"),
                *[command for way in ways for command in (
                    serving.serve_command(machine, folder, MODEL_001, "PORT", more=options_001(machine, way, "ENCODER"), device=device(machine)),
                    trace_command(machine, "PORT", way, 15))]]
    return run, commands


def one_way(machine, folder, way, seconds):
    """The run's log. Both processes are new, as published."""
    port = serving.free_port()
    with Encoder(machine, MODEL_001, f"001 encoder, {way}", command=encoder_command(machine, folder, port)) as encoder:
        with serving.Server(machine, MODEL_001, f"001 {way}", more=options_001(machine, way, encoder.address),
                            device=device(machine)) as server:
            (code, text), _ = server.measured(f"001 {way}", lambda: machine.call(trace_command(machine, server.port, way, seconds)))
            encoder.check(way)
    log = machine.work / "experiments" / way.replace(":", "-") / "Trace with Peak QPS_7.run.jsonl"
    if not log.exists():
        raise Failed(f"exit code {code}: {last_line(text)}")
    return log
