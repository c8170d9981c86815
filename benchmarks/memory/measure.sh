#!/usr/bin/env bash
# The encoder cache, the latency target and the prefix cache, measured on the running server.
#
#   benchmarks/memory/measure.sh figure19   SACCADE MODEL OUT.jsonl
#   benchmarks/memory/measure.sh latency    SACCADE MODEL OUT.jsonl
#   benchmarks/memory/measure.sh multi-turn SACCADE MODEL OUT.jsonl
#   benchmarks/memory/measure.sh summary OUT.jsonl
#
# SACCADE is the program, MODEL a Qwen2-VL checkpoint (`saccade model make-dummy --family qwen2-vl`). Every run
# appends a line to OUT.jsonl as soon as it has ended; `summary` makes tables of the lines: medians and ranges.
#
# figure19: off, overlay and store in turn (A B C A B C), each a fresh server, all requests at once: requests/s, mean latency,
# encoder runs an image. One image a request; --max-num-batched-tokens = tokens of the image / chunks.
#   ROUNDS=2 REQUESTS=8 OUTPUT=8 SIDE=448 CHUNKS="1 2 4 8" MODES="off overlay store"
#   WARMUPS=1       image requests before, not counted
#   RATE_SHARE=0    then a second run, Poisson, at this share of what `off` did in the same round (it must come first): latency
#                   at a fixed rate, as the paper has it; 0: none
# latency: text streams alone (A), then beside image requests of one token at IMAGE_SHARE of the encoder's capacity
# (B), A B A B on one server: p99 of the time between tokens against 1.3 times A's plus one vision layer.
#   ROUNDS=2 STREAMS=4 TEXT_OUTPUT=64 SIDE=448 IMAGE_SHARE=0.6
#   IMAGE_SECONDS=30  images are made for so long; the texts must end before
#   TARGETS=auto    --tpot-target-ms, one server each; auto: TARGET_FACTOR=1.3 times the median without images; 0: none
# multi-turn: `saccade bench dashinfer` with and without prefix caching, in turn, each a fresh server.
#   ROUNDS=2 CONVERSATIONS=8 TURNS=2 (before the last) CONCURRENCY=8 SIDE=448 IMAGES=3 OUTPUT=120 OUTPUT_RANGE=64
#   PATTERNS="new same"  images: each conversation's own, the same in all its turns, as published; or the same three for all
#   MODE=overlay
# All: SERVE=""     more options of `saccade serve`
# Needs curl, jq and (multi-turn) python3.
set -euo pipefail

ROUNDS=${ROUNDS:-2} OUTPUT=${OUTPUT:-} SIDE=${SIDE:-448} SERVE=${SERVE:-}
tokens=$((SIDE * SIDE / 28 / 28))

# ---- One server at a time ----

server=
stop_server() {
  [ -n "$server" ] || return 0
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}

# start_server OPTION...: sets url.
start_server() {
  : >"$work/server.log"  # the one before said that it had started
  # shellcheck disable=SC2086  # SERVE is a list of options
  "$saccade" serve --model "$model" --port 0 --max-model-len 8192 --kv-cache-bytes 256MiB --limit-mm-per-prompt image=10 \
    --drain-seconds 1 --log-level info "$@" $SERVE >"$work/server.log" 2>&1 &
  server=$!
  until grep -q 'Application startup complete' "$work/server.log"; do
    kill -0 "$server" 2>/dev/null || failed "$work/server.log"
    sleep 0.05
  done
  url=$(grep -oE 'http://127[.]0[.]0[.]1:[0-9]+' "$work/server.log" | head -1)
  curl -sf "$url/v1/completions" -H 'Content-Type: application/json' -d '{"prompt": "warm", "max_tokens": 3}' >"$work/warm.json" ||
    failed "$work/server.log"
}

# metric NAME: the sum over its labels.
metric() { curl -sf "$url/metrics" | awk -v name="$1" 'index($1, name "{") == 1 || $1 == name { sum += $NF } END { print sum + 0 }'; }
encoder_seconds() { curl -sf "$url/metrics" | awk '/^saccade:stage_seconds_sum.*"encoder_run"/ { print $NF }'; }

idle() {
  until [ "$(metric vllm:num_requests_running)$(metric vllm:num_requests_waiting)" = 00 ]; do
    sleep 0.1
  done
  sleep 0.5
}

# ---- One load ----

failed() {
  [ -e "$work/killed" ] && return 0
  cat "$1" "$work/server.log" >&2
  return 1
}

# images SEED REQUESTS OUTPUT LOG OPTION...: requests of one new noise image each.
images() {
  local seed=$1 requests=$2 output=$3 log=$4
  shift 4
  "$saccade" bench serve --base-url "$url" --endpoint /v1/chat/completions --backend openai-chat --dataset-name random-mm \
    --random-mm-bucket-config "{($SIDE,$SIDE,1):1.0}" --random-mm-base-items-per-request 1 --random-input-len 16 \
    --random-output-len "$output" --num-prompts "$requests" --num-warmups 0 --scrape-period 0 --ignore-eos --disable-tqdm --brief \
    --seed "$seed" --log "$log" "$@" >"$log.txt" 2>&1 || failed "$log.txt"
}

# texts SEED LOG: STREAMS streams at once.
texts() {
  "$saccade" bench serve --base-url "$url" --endpoint /v1/completions --backend openai --dataset-name random --random-input-len 16 \
    --random-output-len "$TEXT_OUTPUT" --num-prompts "$STREAMS" --num-warmups 0 --scrape-period 0 --ignore-eos --disable-tqdm --brief \
    --seed "$1" --log "$2" >"$2.txt" 2>&1 || failed "$2.txt"
}

# Requests/s, mean latency (s) and the prompt's tokens of a run log; fails unless every request ended well.
load_figures() {
  jq -cs '[.[] | select(has("request") and (.warmup | not))] as $r
    | if any($r[]; .status != 200 or .failure) or ($r | length) == 0 then error("a request failed") else . end
    | ((([$r[].times[6]] | max) - ([$r[].times[2]] | min)) / 1e9) as $seconds
    | {requests: ($r | length), seconds: $seconds, rate: (($r | length) / $seconds),
       latency: ([$r[] | (.times[6] - .times[2]) / 1e9] | add / length),
       prompt: ([$r[].usage[0]] | add / length), cached: ([$r[].usage[2] // 0] | add / length),
       output: ([$r[].usage[1]] | add / length)}' "$1"
}

# Times between tokens (ms) of a run log, sorted.
gaps() {
  jq -cs '[.[] | select(has("request") and (.warmup | not)) | .events as $e
    | [range(0; $e | length; 4) | {gap: $e[.], tokens: $e[. + 2]}] | [.[] | select(.tokens > 0)] | .[1:][]
    | .gap / .tokens / 1e6] | sort' "$1"
}

record() { jq -c -n "$@" | tee -a "$out" >&2; }

# ---- The parts ----

figure19() {
  local requests=${REQUESTS:-8} share=${RATE_SHARE:-0} chunks round mode budget before after figures rate off_rate
  for chunks in ${CHUNKS:-1 2 4 8}; do
    budget=$((tokens / chunks))
    for ((round = 1; round <= ROUNDS; ++round)); do
      for mode in ${MODES:-off overlay store}; do
        start_server --encoder-cache "$mode" --max-num-batched-tokens "$budget" --no-enable-prefix-caching
        if [ "${WARMUPS:-1}" -gt 0 ]; then images 9 "${WARMUPS:-1}" 2 "$work/warm.jsonl"; fi
        before=$(metric saccade:images_encoded_total)
        images $((round * 10)) "$requests" "${OUTPUT:-8}" "$work/load.jsonl"
        after=$(metric saccade:images_encoded_total)
        figures=$(load_figures "$work/load.jsonl")
        rate=$(jq .rate <<<"$figures")
        [ "$mode" = off ] && off_rate=$rate
        record --argjson f "$figures" --arg mode "$mode" --argjson chunks "$chunks" --argjson budget "$budget" --argjson round "$round" \
          --argjson encodes "$((after - before))" \
          '{part: "figure19", load: "all at once", $chunks, $budget, $mode, $round, encodes_per_image: ($encodes / $f.requests)} + $f'
        if [ "$share" != 0 ]; then
          rate=$(jq -n "$share * ${off_rate:?MODES must begin with off}")
          images $((round * 10 + 1)) "$requests" "${OUTPUT:-8}" "$work/load.jsonl" --request-rate "$rate"
          record --argjson f "$(load_figures "$work/load.jsonl")" --arg mode "$mode" --argjson chunks "$chunks" --argjson budget "$budget" \
            --argjson round "$round" --argjson asked "$rate" \
            --argjson encodes "$(($(metric saccade:images_encoded_total) - after))" \
            '{part: "figure19", load: "fixed rate", $asked, $chunks, $budget, $mode, $round,
              encodes_per_image: ($encodes / $f.requests)} + $f'
        fi
        stop_server
      done
    done
  done
}

latency() {
  STREAMS=${STREAMS:-4} TEXT_OUTPUT=${TEXT_OUTPUT:-64}
  local target round load depth encode layer rate median before after runs waiting seconds client
  depth=$(jq .vision_config.depth "$model/config.json")
  # What the encoder can do, one image after the other and nothing else running; what a step takes without images.
  start_server --no-enable-prefix-caching
  images 9 1 1 "$work/warm.jsonl"
  before=$(encoder_seconds)
  images 10 4 1 "$work/load.jsonl" --max-concurrency 1
  after=$(encoder_seconds)
  encode=$(jq -n "($after - $before) / 4")
  layer=$(jq -n "$encode / ($depth + 2)")  # patches, layers, merger
  rate=$(jq -n "${IMAGE_SHARE:-0.6} / $encode")
  texts 8 "$work/load.jsonl"
  median=$(gaps "$work/load.jsonl" | jq '.[length / 2 | floor]')
  stop_server
  for target in ${TARGETS:-auto}; do
    [ "$target" = auto ] && target=$(jq -n "$median * ${TARGET_FACTOR:-1.3}")
    start_server --no-enable-prefix-caching --tpot-target-ms "$target"
    images 9 1 1 "$work/warm.jsonl"
    texts 8 "$work/warm.jsonl"
    for ((round = 1; round <= ROUNDS; ++round)); do
      for load in alone images; do
        before=$(metric saccade:images_encoded_total)
        client=
        if [ "$load" = images ]; then
          rm -f "$work/killed"
          images $((100 + round)) "$(jq -n "$rate * ${IMAGE_SECONDS:-30} | ceil")" 1 "$work/images.jsonl" --request-rate "$rate" \
            --drain-limit 0.2 &
          client=$!
          until [ "$(metric saccade:images_encoded_total)" != "$before" ]; do sleep 0.02; done
          before=$(metric saccade:images_encoded_total)
        fi
        runs=$(metric saccade:encoder_runs_total)
        texts $((round * 10)) "$work/load.jsonl"
        after=$(metric saccade:images_encoded_total)
        runs=$(($(metric saccade:encoder_runs_total) - runs))
        waiting=$(metric vllm:num_requests_waiting)
        if [ -n "$client" ]; then
          touch "$work/killed"
          kill -INT "$(pgrep -P "$client" || echo "$client")" 2>/dev/null || true
          wait "$client" || true
          rm "$work/killed"
          idle
        fi
        seconds=$(load_figures "$work/load.jsonl" | jq .seconds)
        record --argjson g "$(gaps "$work/load.jsonl")" --arg load "$load" --argjson round "$round" --argjson target "$target" \
          --argjson encode "$encode" --argjson layer "$layer" --argjson rate "$rate" --argjson seconds "$seconds" \
          --argjson images "$((after - before))" --argjson runs "$runs" --argjson waiting "$waiting" --argjson streams "$STREAMS" \
          '{part: "latency", $load, $round, target_ms: $target, streams: $streams, gaps: ($g | length),
            p50: $g[($g | length) * 0.5 | floor], p99: $g[[($g | length) * 0.99 | floor, ($g | length) - 1] | min],
            max: $g[-1], encode_ms: ($encode * 1e3), layer_ms: ($layer * 1e3), images_asked_per_s: $rate,
            images_per_s: ($images / $seconds), images_a_run: (if $runs > 0 then $images / $runs else 0 end), requests_waiting_at_the_end: $waiting}'
      done
    done
    stop_server
  done
}

# Noise PNGs in FOLDER, and conversations of CONVERSATIONS * (TURNS + 1) questions of some 60 words.
make_conversations() {
  python3 - "$1" "$2" "$SIDE" "$3" "$4" <<'PYTHON'
import json, os, random, struct, sys, zlib
folder, prompts, side, images, questions = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
rng = random.Random(2)
os.makedirs(folder, exist_ok=True)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for i in range(images):
    rows = b"".join(b"\0" + rng.randbytes(3 * side) for _ in range(side))
    with open(f"{folder}/{i:05}.png", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
words = "page total line table date left name figure what where amount sum paid first last row value of the in is".split()
with open(prompts, "w") as file:
    for _ in range(questions):
        said = [{"from": "human", "value": " ".join(rng.choices(words, k=60))}, {"from": "gpt", "value": "yes"}]
        file.write(json.dumps({"conversations": said}) + "\n")
PYTHON
}

multi_turn() {
  local conversations=${CONVERSATIONS:-8} turns=${TURNS:-2} per_turn=${IMAGES:-3} pattern round caching before count
  make_conversations "$work/new" "$work/prompts.jsonl" $((conversations * (turns + 1) * per_turn)) $((conversations * (turns + 1)))
  make_conversations "$work/same" "$work/prompts.jsonl" "$per_turn" $((conversations * (turns + 1)))
  for pattern in ${PATTERNS:-new same}; do
    for ((round = 1; round <= ROUNDS; ++round)); do
      for caching in no-enable enable; do
        start_server "--$caching-prefix-caching" --encoder-cache "${MODE:-overlay}" --allowed-local-media-path "$work"
        images 9 1 2 "$work/warm.jsonl"
        before=$(metric saccade:images_encoded_total)
        "$saccade" bench dashinfer --base-url "$url" --prompt-file "$work/prompts.jsonl" --image-folder "$work/$pattern" --wrap-images \
          --req-nums "$conversations" --batch-size "${CONCURRENCY:-8}" --multi-turn "$turns" --image-nums-mean "$per_turn" \
          --image-nums-range 0 --response-mean "${OUTPUT:-120}" --response-len-range "${OUTPUT_RANGE:-64}" --frequency 1000 \
          --num-warmups 0 --scrape-period 0 --disable-tqdm --log "$work/load.jsonl" >"$work/load.txt" 2>&1 ||
          failed "$work/load.txt"
        count=$(($(metric saccade:images_encoded_total) - before))
        record --argjson f "$(load_figures "$work/load.jsonl")" --arg pattern "$pattern" --arg caching "$caching" --argjson round "$round" \
          --argjson encodes "$count" --argjson per_turn "$per_turn" \
          '{part: "multi-turn", $pattern, mode: "'"${MODE:-overlay}"'", prefix_caching: ($caching == "enable"), $round,
            encodes_per_image: ($encodes / ($f.requests * $per_turn))} + $f'
        stop_server
      done
    done
  done
}

summary() {
  jq -rs '
    def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2] + .[length / 2 - 1]) / 2 end;
    def digits: if . == null then "-" else (if . >= 100 then 10 elif . >= 10 then 100 else 1000 end) as $s | . * $s | round / $s | tostring end;
    def spread: if length < 1 then "-" else "\(median | digits) (\(min | digits)-\(max | digits))" end;
    def of($key): map(.[$key]);
    [.[] | select(.part == "figure19")] as $f | [.[] | select(.part == "latency")] as $l | [.[] | select(.part == "multi-turn")] as $m |
    (if $f == [] then empty else
      ($f | group_by([.load, .chunks])[] | . as $rows | .[0] as $one |
        ([.[] | select(.mode == "off")]) as $off |
        "\n\($one.load), \($one.chunks) chunks (budget \($one.budget)), \($one.requests) requests of \($one.prompt) tokens, \($one.output) out",
        "| mode | encoder runs an image | requests/s | over off | latency s | off over it |", "|---|---|---|---|---|---|",
        ("off", "overlay", "store" | . as $mode | [$rows[] | select(.mode == $mode)] | select(. != []) |
          "| \($mode) | \(of("encodes_per_image") | spread) | \(of("rate") | spread) | \([.[] | . as $r | $off[] | select(.round == $r.round) | $r.rate / .rate] | spread) | \(of("latency") | spread) | \([.[] | . as $r | $off[] | select(.round == $r.round) | .latency / $r.latency] | spread) |"))
    end),
    (if $l == [] then empty else
      ($l | group_by(.target_ms)[] | . as $rows | .[0] as $one |
        ([.[] | select(.load == "alone")]) as $alone | ([.[] | select(.load == "images")]) as $with |
        "\ntarget \($one.target_ms | digits) ms, \($one.streams) streams, one image encodes in \($one.encode_ms | digits) ms, a layer \($one.layer_ms | digits) ms, images asked \($one.images_asked_per_s | digits)/s",
        "| load | gaps a run | p50 ms | p99 ms | max ms | images/s encoded | images an encoder run | requests waiting at the end |", "|---|---|---|---|---|---|---|---|",
        ("alone", "images" | . as $load | [$rows[] | select(.load == $load)] | select(. != []) |
          "| \($load) | \(.[0].gaps) | \(of("p50") | spread) | \(of("p99") | spread) | \(of("max") | spread) | \(of("images_per_s") | spread) | \(of("images_a_run") | spread) | \(of("requests_waiting_at_the_end") | spread) |"),
        "limit 1.3 x p99 alone + layer: \(([$alone[].p99] | median) * 1.3 + $one.layer_ms | digits) ms; ratio of p99s \(([$with[].p99] | median) / ([$alone[].p99] | median) | digits)")
    end),
    (if $m == [] then empty else
      ($m | group_by([.mode, .pattern])[] | . as $rows | .[0] as $one | ([.[] | select(.prefix_caching | not)]) as $off |
        "\nimages of a conversation: \($one.pattern); --encoder-cache \($one.mode); \($one.requests) requests of \($one.prompt | digits) tokens, \($one.output | digits) out",
        "| prefix caching | requests/s | over without | mean latency s | cached tokens | encoder runs an image |", "|---|---|---|---|---|---|",
        (false, true | . as $on | [$rows[] | select(.prefix_caching == $on)] | select(. != []) |
          "| \(if $on then "on" else "off" end) | \(of("rate") | spread) | \([.[] | . as $r | $off[] | select(.round == $r.round) | $r.rate / .rate] | spread) | \(of("latency") | spread) | \(of("cached") | spread) | \(of("encodes_per_image") | spread) |"))
    end)' "$1"
}

part=${1:?part}
if [ "$part" = summary ]; then
  summary "${2:?OUT.jsonl}"
  exit
fi
saccade=${2:?SACCADE} model=${3:?MODEL} out=${4:?OUT.jsonl}
work=$(mktemp -d)
trap 'stop_server; rm -rf "$work"' EXIT
case $part in
  figure19 | latency) "$part" ;;
  multi-turn) multi_turn ;;
  *) echo "parts: figure19, latency, multi-turn, summary" >&2; exit 2 ;;
esac
