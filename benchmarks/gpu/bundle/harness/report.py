"""results.json, and the tables that people read."""
import json


def write(machine):
    shares(machine)
    document = {"machine": machine.facts, "rehearsal": machine.rehearsal, "parts": machine.parts,
                "roofs": roofs(machine), "figures": [{k: v for k, v in each.items() if k != "from_file"}
                                                     for each in machine.figures]}
    (machine.out / "results.json").write_text(json.dumps(document, indent=1) + "\n")
    (machine.out / "results.md").write_text(markdown(machine))


def roofs(machine):
    """The best that anything reached on this machine in this run."""
    bytes_rates = [each["bytes"] / each["seconds"] for each in machine.of_part("roofs")
                   if "read and written" in each["name"] and each.get("seconds")]
    flops_rates = [each["flops"] / each["seconds"] for each in machine.of_part("roofs")
                   if each.get("flops") and each.get("seconds")]
    return {"bytes_per_second": max(bytes_rates, default=0), "flops_per_second": max(flops_rates, default=0)}


def shares(machine):
    best = roofs(machine)
    if not best["bytes_per_second"] or not best["flops_per_second"]:
        return
    for each in machine.figures:
        if each.get("seconds") and each["part"] in ("ops", "model", "step") and (each.get("bytes") or each.get("flops")):
            least = max(each.get("bytes", 0) / best["bytes_per_second"], each.get("flops", 0) / best["flops_per_second"])
            each["share"] = least / each["seconds"]


def number(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def table(head, rows):
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n\n"


def section(title, body, device=""):
    """Above every table of figures: whose figures they are."""
    above = f"{device}.\n\n" if device else ""
    return f"## {title}\n\n{above}{body}" if body else ""


def markdown(machine):
    text = "# Saccade on a GPU\n\n"
    if machine.rehearsal:
        text += "**A rehearsal on the emulator: no time in it means anything.**\n\n"
    text += table(["", ""], [(key, value) for key, value in machine.facts.items()])
    text += "## Parts\n\n" + table(["part", "state", "s", ""],
                                   [(each["name"], each["state"], each["seconds"], each["why"]) for each in machine.parts])
    tables = [tests_table, golden_table, invariance_table, agreement_table, roof_table, op_table, model_table, kernel_tables, serving_table, seed002_table,
              figure19_table, seed001_table, server_table, metrics_table]
    return text + "".join(each(machine) for each in tables)


def device(machine, *parts):
    """What gpu_bench's device says it is, or the machine's GPU."""
    said = [each["note"] for each in machine.of_part("device") if not parts or each["name"] in parts]
    return said[-1] if said else str(machine.facts.get("gpu", ""))


def tests_table(machine):
    rows, bad = [], []
    for each in machine.of_part("tests"):
        rows.append((each["name"], each["passed"], each["skipped"], len(each["failed"]), each.get("missing", 0)))
        bad += [(f"{one['test']}", one["state"].lower(), one["why"]) for one in each["failed"]]
    return section("Tests", table(["", "passed", "skipped", "failed", "not run"], rows) + table(["test", "", "what it said"], bad), device(machine))


def golden_table(machine):
    rows = [(each["name"], each["same"], each["of"]) for each in machine.of_part("goldens")]
    return section("Greedy tokens in bf16 that are transformers' in f32", table(["test", "equal before the first other", "of"], rows), device(machine))


def invariance_table(machine):
    rows = [(each["name"], int(each["cases"]), int(each["unequal"]), each.get("note", "")) for each in machine.of_part("invariance")]
    return section("Rows in company and alone", table(["", "cases", "of another bit", "first"], rows), device(machine, "invariance"))


def agreement_table(machine):
    keys = ["cases", "beyond", "worst", "bound"]
    rows = [(each["name"], *[f"{each[key]:g}" if key in each else "-" for key in keys], each.get("note", "")) for each in machine.of_part("agreement")]
    return section("Numbers against a definition", table(["", "cases", "beyond the bound", "worst", "bound", ""], rows), device(machine, "agreement"))


def rate(each):
    if each.get("flops"):
        return f"{each['flops'] / each['seconds'] / 1e12:,.1f} TFLOP/s"
    return f"{each['bytes'] / each['seconds'] / 1e9:,.0f} GB/s"


def roof_table(machine):
    rows = [(each["name"], rate(each)) for each in machine.of_part("roofs") if each.get("seconds")]
    return section("Roofs", table(["", ""], rows), machine.facts.get("gpu", ""))


def op_table(machine):
    theirs = {each["name"]: each.get("seconds") for each in machine.of_part("torch")}
    rows = []
    for each in machine.of_part("ops"):
        other = theirs.get(each["name"])
        rows.append((each["name"], number(each["seconds"] * 1e6), number(each["bytes"] / each["seconds"] / 1e9, 0),
                     number(each["flops"] / each["seconds"] / 1e12), number(each.get("share", 0) * 100, 0),
                     number(other * 1e6 if other else None), number(other / each["seconds"] if other else None, 2)))
    return section("Ops", table(["op", "us", "GB/s", "TFLOP/s", "% of roof", "torch, us", "torch / Saccade"], rows), device(machine, "ops"))


def model_table(machine):
    eager = {each["name"]: each.get("seconds") for each in machine.of_part("transformers")}
    graphs = {each["name"]: each.get("seconds") for each in machine.of_part("graph")}
    rows = []
    for each in machine.of_part("model") + machine.of_part("step"):
        other, graph = eager.get(each["name"]), graphs.get(each["name"])
        tokens = each.get("tokens")
        rows.append((each["name"], number(each["seconds"] * 1e3, 2),
                     number(each["submit_seconds"] * 1e3, 2) if "submit_seconds" in each else "-",
                     number(tokens / each["seconds"] if tokens else None, 0), number(each.get("share", 0) * 100, 0),
                     number(each.get("launches"), 0), number(other * 1e3 if other else None, 2),
                     number(graph * 1e3 if graph else None, 2), number(graph / each["seconds"] if graph else None, 2)))
    head = ["", "ms", "of it host, ms", "tok/s", "% of roof", "launches", "transformers, ms", "transformers in a CUDA graph, ms", "graph / Saccade"]
    return section("Models", table(head, rows), device(machine, "model"))


def kernel_tables(machine):
    text = ""
    for each in machine.of_part("kernels"):
        rows = [(one["kernel"], one["launches"], number(one["seconds"] * 1e6), number(one["seconds"] / each["kernel_seconds"] * 100))
                for one in each["kernels"][:25]]
        whole = each.get("step_seconds")
        said = f"{each['launches']} launches, {each['kernel_seconds'] * 1e3:.3f} ms in kernels"
        said += f"; the step takes {whole * 1e3:.3f} ms unwatched: {each['idle_share'] * 100:.1f} % between kernels" if whole else ""
        text += f"### {each['name']}\n\n{said}.\n\n" + table(["kernel", "launches", "us", "%"], rows)
    return section("Where a step's time goes", text, device(machine, "step", "model"))


def serving_table(machine):
    rows = []
    for each in machine.of_part("serving"):
        if "completed" not in each:
            rows.append((each["name"], "-", "-", f"{each['seconds']} s", "-", "-", "-", "-", "-"))
            continue
        rows.append((each["name"], each["completed"], each["failed"], number(each["request_throughput"], 2),
                     number(each["output_throughput"], 0), number(each["total_input_tokens"] / max(1, each["completed"]), 0),
                     number(each["median_ttft_ms"], 0), number(each["median_tpot_ms"], 2), number(each["idle_percent"])))
    head = ["", "answered", "failed", "req/s", "tok/s", "tokens in", "TTFT P50, ms", "TPOT P50, ms", "GPU idle, %"]
    return section("Serving", table(head, rows), machine.facts.get("gpu", ""))


def ratio(ours, theirs):
    return number(ours / theirs if theirs else None, 2)


def seed002_table(machine):
    rows = [(each["name"], each["conversations"], number(each.get("input"), 0), number(each.get("output"), 0), number(each["qps"], 2),
             number(each["vllm"], 2), number(each["dashinfer"], 2), ratio(each["qps"], each["vllm"]), ratio(each["qps"], each["dashinfer"]),
             number(each["idle_percent"])) for each in machine.of_part("seed002")]
    head = ["published on one A100, FP16", "conversations", "tokens in", "out", "QPS", "vLLM 0.6.4", "DashInfer-VLM", "/ vLLM", "/ DashInfer-VLM", "GPU idle, %"]
    return section("002: DashInfer-VLM's table", table(head, rows), machine.facts.get("gpu", ""))


def figure19_table(machine):
    rows = []
    for each in machine.of_part("figure19"):
        latency = each["rate"] is not None
        ours = each.get("mean_e2el_ms") if latency else each["request_throughput"]
        factor = None if not ours or not each["published"] else (each["published"] / ours if latency else ours / each["published"])
        rows.append((each["model"], each["policy"], f"mean E2EL at {each['rate']}/s, ms" if latency else "requests/s", each["requests"],
                     number(ours, 0 if latency else 2), each["published_name"], number(each["published"], 0 if latency else 2), number(factor, 2),
                     number(each["total_input_tokens"] / max(1, each["completed"]), 0), number(each["idle_percent"])))
    head = ["model", "policy", "", "requests (200 published)", "here", "published row", "published", "better by", "text tokens in", "GPU idle, %"]
    return section("Figure 19", table(head, rows), machine.facts.get("gpu", ""))


def seed001_table(machine):
    return "".join(section(f"001: {each['name']}", each["table"].strip() + "\n\n", machine.facts.get("gpu", "")) for each in machine.of_part("seed001"))


def server_table(machine):
    keys = ["device", "products", "attention", "weights", "graphs", "graph_bytes", "graph_launches", "cache", "warnings"]
    rows = [(each["name"], *[each.get(key, "-") for key in keys]) for each in machine.of_part("server")]
    return section("Servers", table(["", "device", "products by", "attention by", "weights", "graphs", "their bytes", "launches of the largest", "KV cache", "warnings"], rows))


def metrics_table(machine):
    rows = [(each["name"], number(each["idle_percent"]), "; ".join(
        f"{key.replace('saccade:', '').replace('vllm:', '')} {value:g}" for key, value in each["grew"].items() if "stage_seconds" not in key))
        for each in machine.of_part("metrics")]
    return section("What /metrics grew by", table(["", "GPU idle, %", ""], rows))
