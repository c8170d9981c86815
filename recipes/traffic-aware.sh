#!/usr/bin/env bash
# Traffic-aware image sizes, from nothing to a table: starts an encoder and a server on cores of their own, replays peak
# traces against them once for each way of choosing image sizes, each on servers without a past.
#
#   recipes/traffic-aware.sh MODEL [--captions FILE] [--images DIR] [--traces "4 5 7 10"] [--sizes "vanilla static ..."]
#       [--speed 1] [--seconds N] [--seeds 41] [--together] [--encoder-cores 0] [--server-cores 1]
#       [--output-len N] [--serve-flags "--quantization int8 ..."] [--out DIR] [--saccade BINARY]
#
#   --captions   JSON lines or Parquet with images, questions and right answers; default: the labelled pictures of data/glimpse
#   --sizes      of vanilla, static (the published budget of 4,096 tokens, to scale), static:N, seed, seed-as-published, dynamic
#   --speed      times as much traffic as the traces have
#   --seconds    of each trace, on its own axis; default: all of it
#   --seeds      each replays everything once more, with pictures drawn anew; the table has medians, least and most
#   --output-len   tokens of an answer at most; default: until the model ends it, or 256
#   --serve-flags  given to every process that loads the model: profile, encoder and server
#   --together   one process with all cores instead of encoder and server apart (without seed-as-published)
#
# To scale: the publication's first tokens took 0.178 s on average with 1,855 tokens of prompt and nobody else there. What
# they take here says how many of our seconds one of its seconds is. The target of 2 s, the traces and the rule's seconds
# are stretched by that, numbers of tokens by the prompts' lengths, and the rule's line is the one that `saccade profile`
# measures. So the load, the share of time that machines are busy, is the publication's own, on any machine. Caches are
# off: few pictures come again and again here, where its own came once.
#
# HOST=h PORT=p recipes/traffic-aware.sh --server-runs [--image-size NAME] ... replays against a server that runs already, once, at true speed.
set -euo pipefail
. "$(dirname "$0")/program.sh"
here=$(cd "$(dirname "$0")/.." && pwd)
model= captions=$here/data/glimpse/answers.jsonl images= traces="4 5 7 10" out=traffic-aware saccade=$SACCADE
sizes="vanilla static seed seed-as-published dynamic" speed=1 seconds= seeds=41 together= encoder_cores=0 server_cores=1 running= label=vanilla serve_flags=() output_len=()
usage() { sed -n '5,16p' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --captions) captions=$2; shift ;;
    --images) images=$2; shift ;;
    --traces) traces=$2; shift ;;
    --sizes) sizes=$2; shift ;;
    --speed) speed=$2; shift ;;
    --seconds) seconds=$2; shift ;;
    --seeds) seeds=$2; shift ;;
    --encoder-cores) encoder_cores=$2; shift ;;
    --server-cores) server_cores=$2; shift ;;
    --output-len) output_len=(--custom-output-len "$2"); shift ;;
    --serve-flags) read -ra serve_flags <<<"$2"; shift ;;
    --out) out=$2; shift ;;
    --saccade) saccade=$2; shift ;;
    --image-size) label=$2; shift ;;
    --together) together=1 ;;
    --server-runs) running=1 ;;
    -*) usage ;;
    *) [ -z "$model" ] || usage; model=$1 ;;
  esac
  shift
done
[ -n "$model$running" ] || usage
[ -e "$captions" ] || { echo "traffic-aware: $captions is not there (--captions)" >&2; exit 2; }
images=${images:-$(dirname "$captions")}
mkdir -p "$out"
case $captions in
  */data/glimpse/answers.jsonl) data=(--dataset-name custom_image --dataset-path "$captions" --image-folder "$images" --images-first) ;;
  *) data=(--dataset-path "$captions" --image-folder "$images") ;;
esac
data+=("${output_len[@]}")
encoder=()
[ ! -e "${ENCODER:=$here/.cache/minilm}/config.json" ] || encoder=(--encoder "$ENCODER")
number() { awk "BEGIN { printf \"%.6g\", $1 }"; }
similarity() { "$saccade" bench similarity "$1" "${encoder[@]}" || true; }

# A trace against a server, as the publication replays it.
replay() { # TRACE SIZE TASK SPEED FLAGS...
  local trace=$1 size=$2 task=$3 times=$4
  shift 4
  "$saccade" bench trace-run --task-name "$task" --experiments "$out" --trace-file "$trace" --trace-speed "$times" --seed "$seed" \
    "${data[@]}" --metadata "image_size=$size" "trace=$trace" "seed=$seed" --max-failures 1 --disable-tqdm "$@" >"$out/$task-$trace.txt"
}

if [ -n "$running" ]; then
  for trace in $traces; do
    seed=${seeds%% *} replay "$trace" "$label" "$label" "$speed" --host "${HOST:-localhost}" --api-port "${PORT:-10003}"
    cat "$out/$label-$trace.txt"
    similarity "$out/$label/Trace with Peak QPS_$trace.json"
  done
  exit
fi

# ---- servers -----------------------------------------------------------------------------------------------------

pids=()
stop() {
  [ ${#pids[@]} -eq 0 ] || { kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null; }
  pids=()
}
trap stop EXIT
pinned() { # CORES COMMAND...
  local cores=$1
  shift
  if command -v taskset >/dev/null; then exec taskset -c "$cores" "$@"; else exec "$@"; fi
}
said() { # FILE PATTERN: what stands behind the pattern, when it is said
  for _ in $(seq 3000); do
    local found
    found=$(sed -nE "s#.*$2.*#\1#p" "$1" | sed -n 1p)
    [ -z "$found" ] || { echo "$found"; return; }
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "traffic-aware: the server did not start:" >&2
  tail -n 5 "$1" >&2
  return 1
}
# Sets `port`. FLAGS are the server's.
start() {
  local flags=(--port 0 --image-size "$1" --ttft-target "${2}s" --profile-folder "$out/profiles"
    --image-floor "$floor" --no-enable-prefix-caching --encoder-cache off)
  local cores=$server_cores address
  case $1 in seed*) flags+=(--seed-line "$line,$scale") ;; esac
  stop
  : >"$out/encoder.log" >"$out/server.log"  # or what an earlier server said would be believed
  if [ -n "$together" ]; then
    cores=$encoder_cores,$server_cores
  else
    flags+=(--role pd --threads "$(tr ',' '\n' <<<"$server_cores" | wc -l)")
    (pinned "$encoder_cores" "$saccade" serve "$model" --role encoder --cluster-listen 127.0.0.1:0 --port 0 --encoder-cache off "${serve_flags[@]}" \
      --threads "$(tr ',' '\n' <<<"$encoder_cores" | wc -l)") >"$out/encoder.log" 2>&1 &
    pids+=($!)
    address=$(said "$out/encoder.log" 'encoding for others on (127\.0\.0\.1:[0-9]+)')
    flags+=(--encoders "$address")
  fi
  (pinned "$cores" "$saccade" serve "$model" "${flags[@]}" "${serve_flags[@]}") >"$out/server.log" 2>&1 &
  pids+=($!)
  port=$(said "$out/server.log" 'http://[^ ]*:([0-9]+)')
}

# ---- the scale ---------------------------------------------------------------------------------------------------

echo "== profile"
"$saccade" profile "$model" "${serve_flags[@]}" --threads 1 --profile-folder "$out/profiles" --output "$out/profile.json" 2>/dev/null | tee "$out/profile.txt"
line=$(sed -nE 's/^as a straight line .*: ([0-9.]+) ms a token ([-+]?[0-9.]+) ms.*/\1,\2/p' "$out/profile.txt")
[ -n "$line" ] || { echo "traffic-aware: $model has no images to size" >&2; exit 2; }
scale=1 floor=256
start vanilla 2
"$saccade" bench serve --backend openai-chat --port "$port" "${data[@]}" --num-prompts 40 --max-concurrency 1 --num-warmups 2 --temperature 0 \
  --seed 1 --disable-tqdm --save-result --result-dir "$out" --result-filename alone.json --log "$out/alone.run.jsonl" >"$out/alone.txt"
mean=$(sed -nE 's/^Mean TTFT \(ms\): +([0-9.]+).*/\1/p' "$out/alone.txt" | sed -n 1p)
tokens=$(sed -nE 's/^Total input tokens: +([0-9]+).*/\1/p' "$out/alone.txt" | sed -n 1p)
scale=$(number "$mean / 178")
target=$(number "2 * $scale")
budget=$(number "int(4096 * $tokens / 40 / 1855 + 0.5)")
floor=$(number "int(256 * $tokens / 40 / 1855 + 1)")
echo "== alone, a first token takes $mean ms on average ($(number "$tokens / 40") tokens of prompt)"
echo "== a published second is $scale s, the target $target s, static $budget tokens, the floor of dynamic $floor tokens"

# ---- replays -----------------------------------------------------------------------------------------------------

logs=()
for seed in $seeds; do
  [ "$seeds" = "$seed" ] && of_seed= || of_seed=-seed$seed
  for trace in $traces; do
    of_trace=()
    for size in $sizes; do
      [ "$size" != static ] || size=static:$budget
      [ "$size" != seed-as-published ] || [ -z "$together" ] || continue
      echo "== trace $trace, $size${of_seed:+, seed $seed}"
      start "$size" "$target"
      task=${size/:/-}$of_seed
      replay "$trace" "$size" "$task" "$(number "$speed / $scale")" --api-port "$port" ${seconds:+--trace-end "$seconds"}
      log="$out/$task/Trace with Peak QPS_$trace.run.jsonl"
      of_trace+=("$log")
      sed -n '1,/^$/p' "$out/$task-$trace.txt" | grep -E 'Successful|Failed|first failure' || true
      similarity "$out/$task/Trace with Peak QPS_$trace.json" >"$out/$task-$trace-similarity.txt"
    done
    stop
    "$saccade" bench report --format svg --svg-metric ttft --svg-max "$(number "3 * $scale")" \
      --output "$out/ttft-trace-$trace$of_seed.svg" "${of_trace[@]}"
    logs+=("${of_trace[@]}")
  done
done

"$saccade" bench image-sizes --target 2 --time-scale "$scale" "${logs[@]}" | tee "$out/table.md"
for file in "$out"/*-similarity.txt; do printf '\n%s\n' "$(basename "$file" -similarity.txt)"; cat "$file"; done >"$out/similarity.txt"
echo "== $out: table.md, similarity.txt, ttft-trace-*.svg, a folder for each way with the publication's JSON and the run logs"
