#!/usr/bin/env bash
# MMMU-Pro "vision" at rates 0.2, 0.4, ... 4.0, 100 requests each: a block a rate and a table at the end.
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=localhost}" "${PORT:=8000}" "${DATASET:=MMMU/MMMU_Pro}"
exec "$SACCADE" bench serve --backend openai-chat --base-url "http://$HOST:$PORT/v1" --endpoint /chat/completions \
  ${MODEL:+--model "$MODEL"} --dataset-path "$DATASET" --dataset-name hf --hf-subset vision --hf-split test \
  --num_prompts 100 --seed 55555 --hf-output-len 200 --ignore-eos --percentile-metrics ttft,tpot,itl,e2el \
  --request-rate-sweep 0.2:4.0:0.2 "$@"
