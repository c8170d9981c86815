#!/usr/bin/env bash
# MMMU-Pro "vision": throughput at rate inf, then latency at a low Poisson rate.
# Read `Request throughput (req/s)` from the first run, `Mean E2EL (ms)` from the second.
#   MODEL=OpenGVLab/InternVL2-8B PORT=24891 RATE=2 recipes/mmmu-pro.sh
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=localhost}" "${PORT:=8000}" "${RATE:=2}" "${DATASET:=MMMU/MMMU_Pro}"
run() {
  "$SACCADE" bench serve --backend openai-chat --base-url "http://$HOST:$PORT/v1" --endpoint /chat/completions \
    ${MODEL:+--model "$MODEL"} --dataset-path "$DATASET" --dataset-name hf --hf-subset "vision" --hf-split test \
    --num_prompts=200 --seed 55555 --hf-output-len 200 --trust_remote_code --ignore-eos "$@"
}
run "$@"
run --percentile-metrics ttft,tpot,itl,e2el --request-rate "$RATE" "$@"
