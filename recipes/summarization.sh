#!/usr/bin/env bash
# Prefill and generation throughput by two runs, each on a cold server that is started for it.
#   SERVER='saccade serve --model M --port 8000 --max-model-len 2048' recipes/summarization.sh [--dataset ids.pkl]
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=localhost}" "${PORT:=8000}" "${SERVER:?command that starts the server on PORT}"
exec "$SACCADE" bench summarization --host "$HOST" --port "$PORT" --server-cmd "$SERVER" \
  --ready-check-timeout-sec 600 --max-input-len 1024 --max-output-len 1024 "$@"
