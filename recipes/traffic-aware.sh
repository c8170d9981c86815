#!/usr/bin/env bash
# Traffic-aware image sizing: the profile, the replay of a peak trace (4, 5, 7 or 10), the similarity of the answers.
# Start the server anew before each replay, or its caches are part of the result.
#   CAPTIONS=captions.jsonl IMAGES=images TRACE=7 recipes/traffic-aware.sh
# scripts/fetch-minilm gets the sentence encoder of the published similarity score.
set -euo pipefail
: "${HOST:=localhost}" "${PORT:=10003}" "${TRACE:=7}" "${TASK:=demo}" "${SEED:=41}"
: "${ENCODER:=.cache/minilm}"
: "${CAPTIONS:?JSON lines with image and conversations, or Parquet}" "${IMAGES:=$(dirname "$CAPTIONS")}"
saccade bench profile-ttft --host "$HOST" --port "$PORT" --sizes 1700..3840 --output ttft-profile.json
saccade bench trace-run --task-name "$TASK" --trace-file "$TRACE" --host "$HOST" --api-port "$PORT" --seed "$SEED" \
  --dataset-path "$CAPTIONS" --image-folder "$IMAGES" "$@"
[ -e "$ENCODER/config.json" ] && encoder=(--encoder "$ENCODER") || encoder=()
saccade bench similarity "experiments/sharegpt4o_image_caption/$TASK/Trace with Peak QPS_$TRACE.json" "${encoder[@]}"
