#!/bin/bash
# The load client against the mock server, one core each: requests/s, events/s, and whether what is measured is what
# was programmed. Usage: benchmarks/client/measure.sh [path/to/saccade] [seconds]
set -euo pipefail
saccade=${1:-build/release/saccade}
seconds=${2:-5}

echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"

# rate EVENTS EVENTS_PER_WRITE: the mock on core 1, the client on core 0.
rate() {
  local out
  out=$(mktemp)
  taskset -c 1 "$saccade" bench mock --port 0 --events-per-write "$2" > "$out" &
  local mock=$!
  while ! grep -q http "$out"; do sleep 0.05; done
  echo "== $1 events an answer, $2 a write"
  taskset -c 0 "$saccade" bench selftest --server "$(head -1 "$out")" --tokens "$1" --seconds "$seconds" || true
  kill -TERM "$mock"
  wait "$mock" || true
  rm -f "$out"
}
rate 16 16
rate 64 64
rate 64 1

echo "== every check, client and mock in one process"
"$saccade" bench selftest --seconds "$seconds"
