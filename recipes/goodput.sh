#!/usr/bin/env bash
# The highest rate at which 99 % of the requests have their first token within 2 s and 50 ms a token.
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=localhost}" "${PORT:=8000}"
exec "$SACCADE" bench search --host "$HOST" --port "$PORT" --backend openai-chat --dataset-name random-mm \
  --num-prompts 400 --goodput ttft:2000 tpot:50 --attainment 99 --reset-cache "$@"
