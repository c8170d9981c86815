#!/usr/bin/env bash
# Where the time to the first token of one image request goes, stage by stage, and the server's peak memory.
#   benchmarks/serve/first_token.sh SACCADE MODEL [SIDE ...]
# One request at a time (a fresh noise image each, 4 tokens of answer), 5 a size; medians of what the server itself
# reports ("metrics": true), and the client's own TTFT beside them.
set -euo pipefail
saccade=$1 model=$2
shift 2
[ $# -gt 0 ] || set -- 448 1024
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
"$saccade" serve --model "$model" --port 0 --max-model-len 4096 --max-num-seqs 8 --kv-cache-bytes 256MiB --no-enable-prefix-caching \
  >"$work/server.log" 2>&1 &
server=$!
until grep -q 'Application startup complete' "$work/server.log"; do
  kill -0 "$server" || { cat "$work/server.log"; exit 1; }
  sleep 0.2
done
url=$(grep -oE 'http://127[.]0[.]0[.]1:[0-9]+' "$work/server.log" | head -1)
grep -E 'weights|loaded|KV' "$work/server.log" || true
memory() { awk '/VmHWM|RssAnon|RssShmem|RssFile/ { printf "%s %.0f MB  ", $1, $2 * 1024 / 1e6 } END { print "" }' "/proc/$server/status"; }
printf 'after start: %s\n' "$(memory)"
printf '%-10s %9s %9s %9s %9s %9s %9s %9s | %9s  (ms, medians of 5)\n' image media prepare queue encode wait prefill TTFT client
for side in "$@"; do
  "$saccade" bench serve --base-url "$url" --endpoint /v1/chat/completions --backend openai-chat --dataset-name random-mm \
    --random-mm-bucket-config "{($side,$side,1):1.0}" --random-mm-base-items-per-request 1 --random-input-len 16 --random-output-len 4 \
    --num-prompts 5 --max-concurrency 1 --num-warmups 1 --server-timings --ignore-eos --log "$work/$side.jsonl" >"$work/$side.txt" 2>&1 ||
    { cat "$work/$side.txt"; exit 1; }
  jq -rs --arg side "$side" '
    def median: sort | .[length / 2 | floor];
    def ms: . * 1000 | . * 10 | round / 10;
    [.[] | select(.stages? and (.warmup | not))] as $r |
    def gap($a; $b): [$r[] | .stages[$b] - (.stages[$a] // 0)] | median | ms;
    [$side, gap("arrival_time"; "media_done"), gap("media_done"; "preprocessed"), gap("preprocessed"; "encode_start"),
     gap("encode_start"; "encode_end"), gap("encode_end"; "first_scheduled_time"), gap("first_scheduled_time"; "first_token_time"),
     gap("arrival_time"; "first_token_time"), ([$r[] | (.events[0] - .times[2]) / 1e9] | median | ms)] | @tsv' "$work/$side.jsonl" |
    awk '{ printf "%-10s %9s %9s %9s %9s %9s %9s %9s | %9s\n", $1 "x" $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
  printf 'after %s: %s\n' "$side" "$(memory)"
done
