#!/usr/bin/env python3
"""A second opinion on metrics and reports, written from docs/run-format.md and docs/measuring.md alone.

Writes into tests/golden/bench/: run.jsonl (a run log with invented streams), what the clients of vLLM (of 2024 and of
today), SGLang and genai-bench would report of it, and Saccade's own table and CSV, computed here with numpy and Python's
own formatting.
Usage: tools/goldens/bench_reports.py
"""
import json
import os
import random

import numpy

OUT = os.path.join(os.path.dirname(__file__), "../../tests/golden/bench")
ROLE, CONTENT, REASONING, USAGE, FINISH, DONE, CHOICES = 1, 2, 4, 32, 64, 128, 1024
MS = 1_000_000


def make_log():
    """40 chat requests, Poisson at 8/s: role chunk first, one to two tokens a chunk, [DONE]; every tenth is cut, every
    fifteenth is refused; one of each kind is a warm-up."""
    r = random.Random(2024)
    header = {"saccade_run": 1, "argv": ["saccade", "bench", "serve", "--seed", "7"], "seed": 7, "tool_version": "0.1.0",
              "origin_wall_ns": 1717774200 * 10**9, "host": {"name": "box", "cores": 2}, "backend": "openai-chat",
              "base_url": "http://127.0.0.1:8000", "endpoint": "/v1/chat/completions", "model": "org/tiny-vl",
              "dataset": "random", "dataset_hash": "aa", "arrivals": "poisson", "arrival_hash": "bb", "request_rate": 8.0,
              "max_concurrency": 16, "num_prompts": 40, "metadata": {"gpu": "none"}}
    lines, at = [header], 0.0
    for i in range(40):
        lines.append({"prompt": i, "row": f"row {i}", "hash": f"{i:064x}", "text_tokens": 20 + i,
                      "image_tokens": 64, "images": [[224, 224, 9000 + i, f"{i:064x}"]], "reference": f"answer {i}"})
    for i in range(40):
        at += r.expovariate(8)
        scheduled = int(at * 1e9)
        admitted = scheduled + (r.randrange(3 * MS) if i % 4 == 0 else 0)
        start = admitted + r.randrange(50_000)
        sent = start + r.randrange(200_000)
        request = {"request": i, "prompt": i, "status": 200, "max_tokens": 16, "body_bytes": 12000 + i}
        now = sent + 30 * MS + r.randrange(20 * MS)
        if i % 15 == 14:
            request.update(status=503, error="overloaded", response_bytes=40,
                           times=[scheduled, admitted, start, start, sent, now, now + MS])
            lines.append(request)
            continue
        events, tokens = [[now, 180, -1, ROLE | CHOICES]], 0
        for _ in range(r.randrange(4, 12)):
            now += 5 * MS + r.randrange(10 * MS)
            kind = REASONING if i % 3 == 0 and tokens < 2 else CONTENT
            events.append([now, 200, -1, kind | CHOICES])
            tokens += r.choice([1, 1, 1, 2])
        if i % 10 != 9:
            now += r.randrange(MS)
            events.append([now, 190, -1, CHOICES | FINISH])
            if i % 2 == 0:
                events.append([now + 100_000, 150, -1, USAGE])
                request["usage"] = [84 + i, tokens, None, 64, None]
            events.append([now + 150_000, 6, -1, DONE])
            request["finish_reason"] = "stop"
        end = events[-1][0] + r.randrange(100_000)
        flat, before = [], 0
        for instant, size, n, kinds in events:
            flat += [instant - before, size, n, kinds]
            before = instant
        request.update(times=[scheduled, admitted, start, start, sent, events[0][0] - 1000, end], retokenized=tokens,
                       response_bytes=sum(e[1] for e in events), answer=f"text {i}", events=flat)
        if i in (3, 9, 14):
            request["warmup"] = True
        lines.append(request)
    lines.append({"client": {"threads": 1, "wall_seconds": 6.0, "cpu_seconds": 0.3, "loop_lag_p50": 20000,
                             "loop_lag_p99": 90000, "loop_lag_max": 400000}})
    lines.append({"end": "complete", "requests": 40})
    return lines


def streams(lines):
    prompts = [line for line in lines if "prompt" in line and "request" not in line]
    for line in lines:
        if "request" not in line or line.get("warmup") or "times" not in line:
            continue
        flat, events, now = line.get("events", []), [], 0
        for i in range(0, len(flat), 4):
            now += flat[i]
            events.append((now, flat[i + 3]))
        scheduled, _, start, _, _, _, end = line["times"]
        usage = line.get("usage", [None] * 5)
        yield {"line": line, "prompt": prompts[line["prompt"]], "events": events, "scheduled": scheduled, "start": start,
               "end": end, "ok": line["status"] == 200, "input": usage[0], "output": usage[1]}


def vllm(s, old):
    """(success, ttft, latency, itl, tokens, input) in seconds."""
    done = [t for t, k in s["events"] if k & DONE]
    local = s["prompt"]["text_tokens"] + (0 if old else s["prompt"]["image_tokens"])
    if not s["ok"]:
        return False, 0.0, 0.0, [], 0, local
    if old:
        if not done or any(not k & (CHOICES | DONE) for _, k in s["events"]):
            return False, 0.0, 0.0, [], 0, local
        ttft, itl, before = 0.0, [], None
        for t, k in s["events"]:
            if k & CONTENT:
                if ttft == 0.0:
                    ttft = (t - s["start"]) / 1e9
                else:
                    itl.append((t - before) / 1e9)
            if k & CHOICES:
                before = t
        return True, ttft, (done[0] - s["start"]) / 1e9, itl, s["line"]["retokenized"], s["prompt"]["text_tokens"]
    choices = [t for t, k in s["events"] if k & CHOICES]
    tokens = s["output"] if s["output"] is not None else s["line"]["retokenized"]
    prompt = s["input"] if s["input"] is not None else local
    gaps = [(b - a) / 1e9 for a, b in zip(choices, choices[1:])]
    return True, (choices[0] - s["start"]) / 1e9, (choices[-1] - s["start"]) / 1e9, gaps, tokens, prompt


def sglang(s):
    if not s["ok"]:
        return False, 0.0, 0.0, [], 0, 0
    text = [t for t, k in s["events"] if k & (CONTENT | REASONING)]
    tokens = s["output"] if s["output"] is not None else s["line"]["max_tokens"]
    gaps = [(b - a) / 1e9 for a, b in zip(text, text[1:])]
    return (True, (text[0] - s["start"]) / 1e9, (s["events"][-1][0] - s["start"]) / 1e9, gaps, tokens,
            s["prompt"]["text_tokens"] + s["prompt"]["image_tokens"])


def summary(rows, counted):
    """`counted`: kinds of events that count as a token in the peak."""
    good = [r for r in rows if r[1][0]]
    duration = max(s["end"] for s, _ in rows) / 1e9
    tpot = [(r[2] - r[1]) / (r[4] - 1) for _, r in good if r[4] > 1]
    spans = [(s["start"], s["end"]) for s, _ in rows]
    first = min(a for a, _ in spans)
    bins = {}
    for s, _ in good:
        for t, k in s["events"]:
            if k & counted:
                bins[(t - first) // 10**9] = bins.get((t - first) // 10**9, 0) + 1
    peak = max(sum(a <= t < b for a, b in spans) for t, _ in spans)
    return {"completed": len(good), "failed": len(rows) - len(good), "duration": duration,
            "input": sum(r[5] for _, r in good), "output": sum(r[4] for _, r in good),
            "ttft": [r[1] for _, r in good], "tpot": tpot, "itl": [g for _, r in good for g in r[3]],
            "e2el": [r[2] for _, r in good], "peak_output": max(bins.values()), "peak_concurrency": peak,
            "queue": [(s["line"]["times"][1] - s["scheduled"]) / 1e9 for s, _ in good], "rows": rows}


def saccade(s):
    """The definitions that Saccade stands by, in seconds; None where there is nothing to say."""
    line, start = s["line"], s["start"]
    output = [t for t, k in s["events"] if k & (CONTENT | REASONING)]
    done = [t for t, k in s["events"] if k & DONE]
    tokens = (s["output"] if s["output"] is not None else line["retokenized"]) if s["ok"] else None
    error = "http" if not s["ok"] else "none" if done or line.get("finish_reason") else "truncated"
    last = done[0] if done else s["end"]
    # No event says how many tokens it brought: they are one each, with perhaps an end token that has no text, or nobody
    # knows which came when.
    bare_end = any(k & FINISH and not k & (CONTENT | REASONING) for _, k in s["events"])
    unsplit = tokens is not None and tokens != len(output) and not (bare_end and tokens == len(output) + 1)
    return {"error": error, "tokens": tokens, "e2el": (last - start) / 1e9, "ttft": (output[0] - start) / 1e9 if output else None,
            "tpot": (output[-1] - output[0]) / 1e9 / (tokens - 1) if output and tokens > 1 and not unsplit else None,
            "itl": [(b - a) / 1e9 for a, b in zip(output, output[1:])] if error == "none" and not unsplit else [],
            "input": s["input"] if s["input"] is not None else s["prompt"]["text_tokens"] + s["prompt"]["image_tokens"]}


def requests_csv(lines):
    out = ["request,row,label,conversation,turn,success,error,status,finish_reason,scheduled_s,start_s,end_s,client_queue_ms,"
           "lateness_ms,connect_ms,upload_ms,first_event_ms,ttft_ms,ttft_from_schedule_ms,tpot_ms,mean_itl_ms,e2el_ms,"
           "e2el_from_schedule_ms,input_tokens,image_tokens,cached_tokens,output_tokens,counted_by,body_bytes,response_bytes,images"]
    for s in streams(lines):
        line, m = s["line"], saccade(s)
        scheduled, admitted, start, connected, sent, _, end = line["times"]
        wait = (start - scheduled) / 1e9
        spans = [(admitted - scheduled) / 1e9, (start - admitted) / 1e9, (connected - start) / 1e9, (sent - connected) / 1e9,
                 (s["events"][0][0] - start) / 1e9 if s["events"] else None, m["ttft"], m["ttft"] and m["ttft"] + wait, m["tpot"],
                 sum(m["itl"]) / len(m["itl"]) if m["itl"] else None, m["e2el"], m["e2el"] + wait]
        counted = "none" if m["tokens"] is None else "usage" if s["output"] is not None else "retokenized"
        image = s["prompt"]["images"][0]
        cells = [line["request"], s["prompt"]["row"], "", -1, 0, int(m["error"] == "none"), m["error"], line["status"],
                 line.get("finish_reason", ""), *(f"{t / 1e9:.9f}" for t in (scheduled, start, end)),
                 *("" if t is None else f"{t * 1e3:.6f}" for t in spans), m["input"], image_tokens(s), "",
                 "" if m["tokens"] is None else m["tokens"], counted, line["body_bytes"], line["response_bytes"],
                 f"{image[0]}x{image[1]}"]
        out.append(",".join(str(cell) for cell in cells))
    return "\n".join(out) + "\n"


def image_tokens(s):
    usage = s["line"].get("usage")
    return usage[3] if usage else s["prompt"]["image_tokens"]


def markdown(lines, header):
    rows = [(s, saccade(s)) for s in streams(lines)]
    good = [m for _, m in rows if m["error"] == "none"]
    seconds = (max(s["end"] for s, _ in rows) - min(s["start"] for s, _ in rows)) / 1e9

    def ms(values, *percentiles):
        a = numpy.array(values) * 1e3
        return " / ".join(f"{v:.2f}" for v in [numpy.mean(a), *(numpy.percentile(a, p) for p in percentiles)])
    cells = ["run 1", f"{header['request_rate']:g}", str(len(good)), str(len(rows) - len(good)), f"{len(good) / seconds:.2f}",
             f"{sum(m['tokens'] for m in good) / seconds:.2f}", ms([m["ttft"] for m in good], 50, 99),
             ms([m["tpot"] for m in good if m["tpot"] is not None], 99), ms([g for m in good for g in m["itl"]], 99),
             ms([m["e2el"] for m in good], 99)]
    return ("| run | rate | ok | failed | req/s | tok/s | TTFT mean / p50 / p99 (ms) | TPOT mean / p99 (ms) | ITL mean / p99 (ms) "
            "| E2EL mean / p99 (ms) |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n| " + " | ".join(cells) + " |\n")


def centred(text, fill):
    return f"{text:{fill}^50}"


def row(label, value):
    return f"{label:<40} {value:<10.2f}" if isinstance(value, float) else f"{label:<40} {value:<10}"


def latency(name, title, values, percentiles):
    ms = numpy.array(values) * 1e3
    out = [centred(title, "-"), row(f"Mean {name} (ms):", float(numpy.mean(ms))),
           row(f"Median {name} (ms):", float(numpy.median(ms)))]
    for p in percentiles:
        word = str(int(p)) if int(p) == p else str(p)
        out.append(row(f"P{word} {name} (ms):", float(numpy.percentile(ms, p))))
    return out


TPOT_TITLE = "Time per Output Token (excl. 1st token)"


def vllm_block(m, header, old):
    d = m["duration"]
    out = [centred(" Serving Benchmark Result ", "="), row("Successful requests:", m["completed"])]
    if not old:
        out += [row("Failed requests:", m["failed"]), row("Maximum request concurrency:", header["max_concurrency"]),
                row("Request rate configured (RPS):", header["request_rate"])]
    out += [row("Benchmark duration (s):", d), row("Total input tokens:", m["input"]),
            row("Total generated tokens:", m["output"]), row("Request throughput (req/s):", m["completed"] / d),
            row("Output token throughput (tok/s):", m["output"] / d)]
    if not old:
        out += [row("Peak output token throughput (tok/s):", float(m["peak_output"])),
                row("Peak concurrent requests:", float(m["peak_concurrency"]))]
    out.append(row("Total Token throughput (tok/s):" if old else "Total token throughput (tok/s):",
                   (m["input"] + m["output"]) / d))
    out += latency("TTFT", "Time to First Token", m["ttft"], [99, 99.9])
    out += latency("TPOT", TPOT_TITLE, m["tpot"], [99, 99.9])
    out += latency("ITL", "Inter-token Latency", m["itl"], [99, 99.9])
    out += latency("E2EL", "End-to-end Latency", m["e2el"], [99, 99.9])
    return "\n".join(out + ["=" * 50]) + "\n"


def sglang_block(m, header):
    d = m["duration"]
    vision = sum(s["prompt"]["image_tokens"] for s, r in m["rows"] if r[0])
    retokenized = sum(s["line"]["retokenized"] for s, r in m["rows"] if r[0])
    out = ["", centred(" Serving Benchmark Result ", "="), row("Backend:", header["backend"]),
           row("Traffic request rate:", str(header["request_rate"])),
           row("Max request concurrency:", str(header["max_concurrency"])), row("Successful requests:", m["completed"]),
           row("Benchmark duration (s):", d), row("Total input tokens:", m["input"]),
           row("Total input text tokens:", m["input"] - vision), row("Total input vision tokens:", vision),
           row("Total generated tokens:", m["output"]), row("Total generated tokens (retokenized):", retokenized),
           row("Request throughput (req/s):", m["completed"] / d), row("Input token throughput (tok/s):", m["input"] / d),
           row("Output token throughput (tok/s):", m["output"] / d),
           row("Peak output token throughput (tok/s):", float(m["peak_output"])),
           row("Peak concurrent requests:", m["peak_concurrency"]),
           row("Total token throughput (tok/s):", (m["input"] + m["output"]) / d),
           row("Concurrency:", sum(m["e2el"]) / d)]
    out += latency("E2E Latency", "End-to-End Latency", m["e2el"], [90, 99])
    out += latency("TTFT", "Time to First Token", m["ttft"], [99])
    out += latency("TPOT", TPOT_TITLE, m["tpot"], [99])
    out += latency("ITL", "Inter-Token Latency", m["itl"], [95, 99])
    out.append(row("Max ITL (ms):", max(m["itl"]) * 1e3))
    return "\n".join(out + ["=" * 50]) + "\n"


def error_text(s):
    if "error" in s["line"]:
        return s["line"]["error"]
    return "not a success by the rules of vllm-2024" if "finish_reason" in s["line"] else "truncated"


def vllm_json(m, header, old):
    d, rows = m["duration"], m["rows"]
    out = {"date": "20240607-153000"}
    if not old:
        out["endpoint_type"] = header["backend"]
    out["backend"] = header["backend"]
    if not old:
        out["label"] = None
    out.update(model_id=header["model"], tokenizer_id=header["model"], num_prompts=40, gpu="none", request_rate=8.0,
               burstiness=1.0, max_concurrency=16, duration=d, completed=m["completed"])
    if not old:
        out["failed"] = m["failed"]
    out.update({"total_input_tokens": m["input"], "total_output_tokens": m["output"],
                "request_throughput": m["completed"] / d, "request_goodput:" if old else "request_goodput": None,
                "output_throughput": m["output"] / d, "total_token_throughput": (m["input"] + m["output"]) / d,
                "input_lens": [r[5] for _, r in rows],
                "output_lens": [r[4] for _, r in rows], "ttfts": [r[1] for _, r in rows],
                "itls": [r[3] for _, r in rows]})
    if not old:
        out["latencies"] = [r[2] for _, r in rows]
        out["start_times"] = [s["start"] / 1e9 for s, _ in rows]
        out["queue_times"] = [(s["line"]["times"][1] - s["scheduled"]) / 1e9 for s, _ in rows]
    out["generated_texts"] = [s["line"].get("answer", "") for s, _ in rows]
    out["errors"] = ["" if r[0] else error_text(s) for s, r in rows]
    if not old:
        out.update(max_output_tokens_per_s=float(m["peak_output"]), max_concurrent_requests=m["peak_concurrency"], rtfx=0.0)
    for name in ("ttft", "tpot", "itl", "e2el"):
        ms = numpy.array(m[name]) * 1e3
        out[f"mean_{name}_ms"] = float(numpy.mean(ms))
        out[f"median_{name}_ms"] = float(numpy.median(ms))
        out[f"std_{name}_ms"] = float(numpy.std(ms))
        out[f"p99_{name}_ms"] = float(numpy.percentile(ms, 99))
        out[f"p99.9_{name}_ms"] = float(numpy.percentile(ms, 99.9))
    return out


def genai_json(lines):
    individual = []
    for s in streams(lines):
        base = {k: None for k in ("ttft", "tpot", "e2e_latency", "output_latency", "output_inference_speed",
                                  "num_input_tokens", "num_output_tokens", "total_tokens", "input_throughput",
                                  "output_throughput")}
        if not s["ok"]:
            base.update(error_code=s["line"]["status"], error_message=s["line"]["error"], generated_text="",
                        answer_text=s["prompt"]["reference"])
            individual.append(base)
            continue
        text = [t for t, k in s["events"] if k & (CONTENT | REASONING)]
        usage = [t for t, k in s["events"] if k & USAGE]
        ttft = (text[0] - s["start"]) / 1e9
        e2e = ((usage or [s["events"][-1][0]])[-1] - s["start"]) / 1e9
        n_in = s["input"] if s["input"] is not None else s["prompt"]["text_tokens"] + s["prompt"]["image_tokens"]
        n_out = s["output"] if s["output"] is not None else s["line"]["retokenized"]
        tpot = (e2e - ttft) / (n_out - 1) if n_out > 1 and e2e - ttft >= 1e-3 else None
        base.update(ttft=ttft, e2e_latency=e2e, output_latency=e2e - ttft, num_input_tokens=n_in, num_output_tokens=n_out,
                    total_tokens=n_in + n_out, input_throughput=n_in / ttft)
        if tpot:
            base.update(tpot=tpot, output_inference_speed=1 / tpot, output_throughput=(n_out - 1) / (e2e - ttft))
        base.update(error_code=None, error_message=None, generated_text=s["line"]["answer"],
                    answer_text=s["prompt"]["reference"])
        individual.append(base)
    good = [r for r in individual if r["error_code"] is None]
    duration = max(s["end"] for s in streams(lines)) / 1e9
    n_in, n_out = sum(r["num_input_tokens"] for r in good), sum(r["num_output_tokens"] for r in good)
    stats = {}
    for name in list(individual[0])[:10]:
        v = numpy.array([r[name] for r in good if r[name] is not None], dtype=float)
        stats[name] = {"min": v.min(), "max": v.max(), "mean": v.mean(), "stddev": v.std(), "sum": v.sum(),
                       **{f"p{p}": float(numpy.percentile(v, p)) for p in (25, 50, 75, 90, 95, 99)}}
    bad = [r for r in individual if r["error_code"] is not None]
    codes = {}
    for r in bad:
        codes[str(r["error_code"])] = codes.get(str(r["error_code"]), 0) + 1
    return {"aggregated_metrics": {
        "scenario": "I(224,224)", "num_concurrency": 16, "batch_size": 1, "iteration_type": "num_concurrency",
        "run_duration": duration, "mean_output_throughput_tokens_per_s": n_out / duration,
        "mean_input_throughput_tokens_per_s": n_in / duration,
        "mean_total_tokens_throughput_tokens_per_s": (n_in + n_out) / duration, "requests_per_second": len(good) / duration,
        "error_codes_frequency": codes, "error_rate": len(bad) / len(individual), "num_error_requests": len(bad),
        "num_completed_requests": len(good), "num_requests": len(individual), "stats": stats},
        "individual_request_metrics": individual, "_time_unit": "s"}


def write(name, text):
    with open(os.path.join(OUT, name), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    lines = make_log()
    header = lines[0]
    write("run.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    for old, name in ((True, "vllm_2024"), (False, "vllm")):
        m = summary([(s, vllm(s, old)) for s in streams(lines)], CHOICES)
        write(f"{name}_block.txt", vllm_block(m, header, old))
        write(f"{name}.json", json.dumps(vllm_json(m, header, old), indent=0) + "\n")
    write("sglang_block.txt", sglang_block(summary([(s, sglang(s)) for s in streams(lines)], CONTENT | REASONING), header))
    write("requests.csv", requests_csv(lines))
    write("runs.md", markdown(lines, header))
    write("genai.json", json.dumps(genai_json(lines), indent=0) + "\n")


if __name__ == "__main__":
    main()
