#!/usr/bin/env bash
# DashInfer-VLM: 100 conversations with 3 images each and answers of 88 to 152 tokens, 32 at once.
# The server must be allowed to read the images (--allowed-local-media-path), or add --inline-images.
#   PROMPTS=docvqa_train_10k.jsonl IMAGES=share_textvqa TURNS=2 recipes/dashinfer.sh
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=localhost}" "${PORT:=8000}" "${TURNS:=0}" "${BATCH:=32}"
: "${PROMPTS:?docvqa_train_10k.jsonl}" "${IMAGES:?folder of images}"
exec "$SACCADE" bench dashinfer --host "$HOST" --port "$PORT" --prompt-file "$PROMPTS" --image-folder "$IMAGES" \
  --req-nums 100 --batch-size "$BATCH" --image-nums-mean 3 --image-nums-range 1 \
  --response-mean 120 --response-len-range 64 --multi-turn "$TURNS" "$@"
