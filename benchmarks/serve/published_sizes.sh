#!/usr/bin/env bash
# Every family at its published sizes: make-dummy, load, answer 8 tokens about one image (text for families without; a
# sentence encoder embeds one), delete.
#   benchmarks/serve/published_sizes.sh SACCADE FOLDER [FAMILY:SIZE[@int4|@int8] ...]
# One checkpoint is on disk at a time, in FOLDER/checkpoint. Prints a Markdown row each. bf16 throughout; with @ the text's layers
# become codes at load (--quantization).
# VmHWM is the kernel's peak of the whole process, mapped file pages included.
set -euo pipefail
saccade=$1 folder=$2
shift 2
[ $# -gt 0 ] || set -- qwen2:0.5b qwen2:1.5b qwen2:3b qwen2:7b qwen3:0.6b qwen3:1.7b qwen3:4b qwen3:8b llama-3:1b llama-3:3b llama-3:8b qwen2-vl:2b qwen2-vl:7b \
  qwen2.5-vl:3b qwen2.5-vl:7b qwen3-vl:2b qwen3-vl:4b qwen3-vl:8b internvl2:1b internvl2:2b internvl2:4b internvl2:8b \
  internvl2:3-1b internvl2:3-2b internvl2:3-8b internvl2:3-1b-hf internvl2:3.5-1b internvl2:3.5-2b internvl2:3.5-4b \
  internvl2:3.5-8b internvl2:3.5-1b-hf \
  llava-onevision:0.5b llava-onevision:7b phi-3-vision:4b phi-3-vision:3.5-4b smolvlm2:256m smolvlm2:500m smolvlm2:2.2b \
  gemma-3:270m gemma-3:1b gemma-3:4b paligemma:3b-224 paligemma:3b-448 paligemma:3b-896 paligemma2:3b-224 paligemma2:3b-448 \
  paligemma2:3b-896 paligemma2:10b-224 qwen3.5:0.8b qwen3.5-text:0.8b minicpm-v-4.6:1.3b glm-4.1v:9b@int4 llama-3.2-vision:11b@int4 pixtral:12b@int4 minilm:l6 minilm:l12
checkpoint=$folder/checkpoint
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$checkpoint"' EXIT
# One red pixel: the smallest image there is.
image=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC
seconds() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b - a }'; }
peak() { awk '/VmHWM/ { printf "%.2f", $2 * 1024 / 1e9 }' "/proc/$1/status" 2>/dev/null || true; }

# Length, KV bytes, tokens a step: others where one pixel is more tokens, or where a token's keys and values are larger.
room() { # family size
  case "$1:$2" in
    phi-3-vision:4b) echo 3072 1536MiB 2048 ;;
    phi-3-vision:3.5-4b | internvl2:4b) echo 1024 512MiB 2048 ;;
    paligemma2:10b-896) echo 4352 1536MiB 4352 ;;
    paligemma*:*-896) echo 4352 512MiB 4352 ;;  # a prefix that attends both ways takes one step
    minilm:*) echo 512 512MiB 2048 ;;
    *) echo 1536 512MiB 2048 ;;
  esac
}

row() { # family size codes
  rm -rf "$checkpoint"
  mkdir -p "$checkpoint"
  local begin written high=0 now
  begin=$(date +%s.%N)
  "$saccade" model make-dummy --family "$1" --size "$2" --out "$checkpoint" >/dev/null &
  local maker=$!
  while now=$(peak $maker) && [ -n "$now" ]; do
    high=$now
    sleep 0.1
  done
  wait $maker
  written=$(seconds "$begin" "$(date +%s.%N)")
  local bytes
  bytes=$(du -cb "$checkpoint"/*.safetensors | awk 'END { printf "%.2f", $1 / 1e9 }')

  local length kv step
  read -r length kv step < <(room "$1" "$2")
  local codes=()
  [ -z "$3" ] || codes=(--quantization "$3")
  "$saccade" serve --model "$checkpoint" "${codes[@]}" --served-model-name m --port 0 --max-model-len "$length" --max-num-seqs 4 \
    --kv-cache-bytes "$kv" --max-num-batched-tokens "$step" >"$folder/server.log" 2>&1 &
  server=$!
  until grep -q 'Application startup complete' "$folder/server.log"; do
    kill -0 "$server" || { cat "$folder/server.log"; return 1; }
    sleep 0.2
  done
  local url loaded body answer asked
  url=$(grep -oE 'http://127[.]0[.]0[.]1:[0-9]+' "$folder/server.log" | head -1)
  loaded=$(grep -oE 'loaded in [0-9.]+' "$folder/server.log" | grep -oE '[0-9.]+$')
  local images
  images=$("$saccade" model inspect "$checkpoint" | grep -c '^images' || true)
  if [ "$1" = minilm ]; then
    asked='/v1/embeddings {"model": "m", "input": "The eye jumps from one point to the next."}'
  elif [ "$images" = 1 ]; then
    body='[{"type": "image_url", "image_url": {"url": "data:image/png;base64,'$image'"}}, {"type": "text", "text": "Describe this."}]'
    asked='/v1/chat/completions {"model": "m", "max_tokens": 8, "ignore_eos": true, "messages": [{"role": "user", "content": '$body'}]}'
  else
    asked='/v1/completions {"model": "m", "max_tokens": 8, "ignore_eos": true, "prompt": "Describe the eye."}'
  fi
  begin=$(date +%s.%N)
  answer=$(curl -sf -H 'Content-Type: application/json' -d "${asked#* }" "$url${asked%% *}") || {
    curl -s -H 'Content-Type: application/json' -d "${asked#* }" "$url${asked%% *}"; return 1; }
  printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "${3:-bf16}" "$bytes" "$written" "$high" "$loaded" "$(peak "$server")" \
    "$(jq -r .usage.prompt_tokens <<<"$answer")" \
    "$(jq -r 'if .data then "\(.data[0].embedding | length) numbers" else .usage.completion_tokens end' <<<"$answer")" \
    "$(seconds "$begin" "$(date +%s.%N)")"
  kill "$server"
  wait "$server" || true
  server=
  rm -rf "$checkpoint"
}

mkdir -p "$folder"
echo '| family | size | text layers | GB on disk | make-dummy, s | its peak, GB | load, s | peak of serving, GB | prompt tokens | answered | answer, s |'
echo '|---|---|---|---|---|---|---|---|---|---|---|'
for each in "$@"; do
  size=${each#*:}
  codes=
  case $size in *@*) codes=${size#*@} ;; esac
  row "${each%%:*}" "${size%@*}" "$codes"
done
