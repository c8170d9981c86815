#!/usr/bin/env bash
# SQZB's five steps, each by the command that its document prints: a server, requests, the server again, the same requests with
# answers of one token, the summary of both.
#   MODEL=Meta-Llama-3-8B-Instruct DATASET=llama3-1k.pkl recipes/five-steps.sh [-n N and other options of both runs]
# DATASET: token ids in a pickle (lists, numpy arrays, or a DataFrame of pandas 1 to 3), Parquet or JSON lines. From the
# environment, too: MAX_INPUT_LEN and MAX_OUTPUT_LEN (1024), SERVE_FLAGS, OUT (the run logs' folder), SACCADE (the program).
set -euo pipefail
. "$(dirname "$0")/program.sh"
here=$(cd "$(dirname "$0")" && pwd)
: "${MODEL:?a checkpoint}" "${DATASET:?token ids}" "${MAX_INPUT_LEN:=1024}" "${MAX_OUTPUT_LEN:=1024}" "${SERVE_FLAGS:=}" "${OUT:=summarization}"
saccade=$SACCADE
. "$here/servers.sh"
rm -rf "$OUT"
mkdir -p "$OUT"
read -ra flags <<<"$SERVE_FLAGS"
step() {  # NUMBER OUTPUT-LEN OPTIONS...
  local number=$1 length=$2
  shift 2
  echo "== step $number: a fresh server"
  start_server "$OUT/server.log" "$saccade" serve --model "$MODEL" --block-size 128 --max-model-len $((MAX_INPUT_LEN + MAX_OUTPUT_LEN)) \
    --enable-prefix-caching --enforce-eager --port 0 "${flags[@]}"
  echo "== step $((number + 1)): requests, answers of $length"
  "$saccade" bench summarization --base-url "$url" --tokenizer "$MODEL" --dataset "$DATASET" --max-input-len "$MAX_INPUT_LEN" \
    --max-output-len "$length" --folder "$OUT" --disable-tqdm "$@"
  stop_servers
}
step 1 "$MAX_OUTPUT_LEN" "$@"
step 3 1 "$@"
echo "== step 5: summary"
"$saccade" bench summarization --summarize "$OUT"
