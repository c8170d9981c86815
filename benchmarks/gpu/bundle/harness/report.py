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
        if each.get("seconds") and each["part"] in ("ops", "model") and (each.get("bytes") or each.get("flops")):
            least = max(each.get("bytes", 0) / best["bytes_per_second"], each.get("flops", 0) / best["flops_per_second"])
            each["share"] = least / each["seconds"]


def number(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def table(head, rows):
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n\n"


def markdown(machine):
    text = "# Saccade on a GPU\n\n"
    if machine.rehearsal:
        text += "**A rehearsal on the emulator: no time in it means anything.**\n\n"
    text += table(["", ""], [(key, value) for key, value in machine.facts.items()])
    text += "## Parts\n\n" + table(["part", "state", "s", ""],
                                    [(each["name"], each["state"], each["seconds"], each["why"]) for each in machine.parts])
    same = machine.of_part("goldens")
    if same:
        text += "## Greedy tokens in bf16 that are transformers' in f32\n\n" + table(
            ["test", "equal before the first other", "of"], [(each["name"], each["same"], each["of"]) for each in same])
    probes = machine.of_part("invariance")
    if probes:
        text += "## Rows in company and alone\n\n" + table(
            ["", "cases", "of another bit", "first"],
            [(each["name"], int(each["cases"]), int(each["unequal"]), each.get("note", "")) for each in probes])
    text += roof_table(machine) + op_table(machine) + model_table(machine) + serving_table(machine)
    return text


def rate(each):
    if each.get("flops") and not each.get("bytes"):
        return f"{each['flops'] / each['seconds'] / 1e12:,.1f} TFLOP/s"
    return f"{each['bytes'] / each['seconds'] / 1e9:,.0f} GB/s"


def roof_table(machine):
    rows = [(each["name"], rate(each)) for each in machine.of_part("roofs") if each.get("seconds")]
    return "## Roofs\n\n" + table(["", ""], rows) if rows else ""


def op_table(machine):
    theirs = {each["name"]: each.get("seconds") for each in machine.of_part("torch")}
    rows = []
    for each in machine.of_part("ops"):
        other = theirs.get(each["name"])
        rows.append((each["name"], number(each["seconds"] * 1e6), number(each["bytes"] / each["seconds"] / 1e9, 0),
                     number(each["flops"] / each["seconds"] / 1e12), number(each.get("share", 0) * 100, 0),
                     number(other * 1e6 if other else None), number(other / each["seconds"] if other else None, 2)))
    return "## Ops\n\n" + table(["op", "us", "GB/s", "TFLOP/s", "% of roof", "torch, us", "torch / Saccade"], rows) if rows else ""


def model_table(machine):
    theirs = {each["name"]: each.get("seconds") for each in machine.of_part("transformers")}
    rows = []
    for each in machine.of_part("model"):
        other = theirs.get(each["name"])
        tokens = each.get("tokens")
        rows.append((each["name"], number(each["seconds"] * 1e3, 2),
                     number(each["submit_seconds"] * 1e3, 2) if "submit_seconds" in each else "-",
                     number(tokens / each["seconds"] if tokens else None, 0), number(each.get("share", 0) * 100, 0),
                     number(each.get("launches"), 0), number(other * 1e3 if other else None, 2),
                     number(other / each["seconds"] if other else None, 2)))
    head = ["", "ms", "of it host, ms", "tok/s", "% of roof", "launches", "transformers, ms", "transformers / Saccade"]
    return "## Models\n\n" + table(head, rows) if rows else ""


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
    return "## Serving\n\n" + table(head, rows) if rows else ""
