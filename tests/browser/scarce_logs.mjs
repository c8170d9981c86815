// node scarce_logs.mjs LOG: writes logs of runs of which hardly anything was seen, each made of LOG.
import { readFileSync, writeFileSync } from "node:fs";

const rows = readFileSync(process.argv[2], "utf8").trim().split("\n").map((line) => JSON.parse(line));
const write = (name, kept) => writeFileSync(name, kept.map((row) => JSON.stringify(row) + "\n").join(""));
const readings = (change) => rows.map((row) => (row.source === "metrics" ? { ...row, values: Object.fromEntries(Object.entries(row.values).flatMap(change)) } : row));
const first = (kind) => { let seen = false; return (row) => !(kind in row) || (!seen && (seen = true)); };

const ofCache = (name) => /kv_cache_usage|num_requests/.test(name);
write("zero.jsonl", readings(([name, value]) => [[name, ofCache(name) ? 0 : value]]));
write("untold.jsonl", readings(([name, value]) => (ofCache(name) ? [] : [[name, value]])));
write("unseen.jsonl", rows.filter((row) => !("sample" in row)));

// The last sample of each kind: by then there was something to see.
const last = new Map(rows.filter((row) => "sample" in row).map((row) => [row.source, row]));
write("once.jsonl", rows.filter((row) => !("sample" in row) || last.get(row.source) === row).filter(first("request")).map((row) => ("end" in row ? { ...row, requests: 1 } : row)));
