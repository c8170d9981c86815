"""/metrics, read before and after, and what grew between."""
import re
import urllib.request

LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\})?) ([0-9.eE+-]+|NaN)$")
# What says where time and work went; each as the server names it, summed over its labels.
KEPT = ["vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total", "vllm:generation_tokens_total", "vllm:num_preemptions_total",
        "saccade:steps_total", "saccade:steps_blocked_total", "saccade:images_encoded_total", "saccade:encoder_runs_total",
        "saccade:encoder_busy_seconds_total", "saccade:prefill_busy_seconds_total", "saccade:encoder_tokens_computed_total",
        "saccade:images_decoded_total", "saccade:stage_seconds_sum", "saccade:stage_seconds_count"]


def read(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def parse(text):
    found = {}
    for line in text.splitlines():
        if match := LINE.match(line):
            found[match.group(1)] = float(match.group(2))
    return found


def grew(before, after):
    """By name without labels: what KEPT grew by; stages one by one."""
    before, after = parse(before), parse(after)
    sums = {}
    for name, value in after.items():
        plain = name.split("{")[0]
        if plain not in KEPT:
            continue
        key = plain
        if plain.startswith("saccade:stage_seconds") and "{" in name:
            key = plain + name[name.index("{"):]
        sums[key] = round(sums.get(key, 0) + value - before.get(name, 0), 6)
    return {key: value for key, value in sums.items() if value}
