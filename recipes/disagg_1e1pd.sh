#!/usr/bin/env bash
# One encoder, one server that prefills and decodes, and a proxy before them; asks about one image, says
# "All services are up!" and ends. The services go on: `disagg_1e1pd.sh --stop` ends them, and another start does so first.
#
#   GPU_E=0 GPU_PD=1 PROXY_PORT=10003 recipes/disagg_1e1pd.sh
#
# GPU_E, GPU_PD: with NVIDIA GPUs their numbers; without, halves of this machine's cores, 0 the first and 1 the second.
# From the environment, too: MODEL (Qwen/Qwen2.5-VL-3B-Instruct), IMAGE, ENCODE_PORT and PREFILL_DECODE_PORT (any free ones),
# IMAGE_SIZE (vanilla; docs/image-sizes.md), TTFT_TARGET (2s), SERVE_FLAGS of both servers, DEVICE (cuda or cpu), LOG_PATH (logs),
# SACCADE (the program). The scripts beside this one choose IMAGE_SIZE: disagg_1e1pd_dynamic_sizing.sh, _static_4k.sh, _vanilla.sh.
set -euo pipefail
. "$(dirname "$0")/program.sh"
here=$(cd "$(dirname "$0")" && pwd)
: "${MODEL:=Qwen/Qwen2.5-VL-3B-Instruct}" "${IMAGE:=$here/../data/images/chelsea.png}" "${PROXY_PORT:=10001}"
: "${GPU_E:=0}" "${GPU_PD:=1}" "${ENCODE_PORT:=0}" "${PREFILL_DECODE_PORT:=0}" "${IMAGE_SIZE:=vanilla}" "${TTFT_TARGET:=2s}"
: "${SERVE_FLAGS:=}" "${LOG_PATH:=logs}"
[ -n "${DEVICE:-}" ] || { DEVICE=cpu; ! nvidia-smi -L >/dev/null 2>&1 || DEVICE=cuda; }
mkdir -p "$LOG_PATH"
running=$LOG_PATH/disagg_1e1pd.pids

# Ends what an earlier start left: a number may have gone to another program meanwhile.
stop_earlier() {
  [ -e "$running" ] || return 0
  while read -r pid; do
    case $({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null || true) in
      *saccade*) kill "$pid" ;;
      *) continue ;;
    esac
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null && sleep 0.1 || break; done
  done <"$running"
  rm -f "$running"
}
stop_earlier
[ "${1:-}" != --stop ] || exit 0
trap 'rc=$?; [ $rc = 0 ] || stop_earlier' EXIT

# half N: cores of the N-th half.
half() {
  local cores
  cores=$(nproc)
  [ "$cores" -gt 1 ] || { echo 0; return; }
  if [ $(($1 % 2)) = 0 ]; then echo "0-$((cores / 2 - 1))"; else echo "$((cores / 2))-$((cores - 1))"; fi
}
placed() {  # GPU LOG COMMAND...
  local gpu=$1 log=$2 on=()
  shift 2
  if [ "$DEVICE" != cpu ]; then set -- "$@" --device "cuda:$gpu"; elif command -v taskset >/dev/null; then on=(taskset -c "$(half "$gpu")"); fi
  : >"$log"  # or it may not be there when it is read first
  nohup "${on[@]}" "$@" >"$log" 2>&1 </dev/null &
  echo $! >>"$running"
}
said() {  # LOG PATTERN: what stands behind it, once it is said
  local found
  while found=$(sed -nE "s#.*$2.*#\1#p" "$1" | sed -n 1p) && [ -z "$found" ]; do
    kill -0 "$(tail -n 1 "$running")" 2>/dev/null || { echo "$(basename "$0"): a service did not start:" >&2; tail -n 5 "$1" >&2; return 1; }
    sleep 0.2
  done
  echo "$found"
}

read -ra flags <<<"$SERVE_FLAGS"
placed "$GPU_E" "$LOG_PATH/encoder.log" "$SACCADE" serve "$MODEL" --role encoder --port "$ENCODE_PORT" --cluster-listen 127.0.0.1:0 "${flags[@]}"
encoder=$(said "$LOG_PATH/encoder.log" 'encoding for others on (127\.0\.0\.1:[0-9]+)')
placed "$GPU_PD" "$LOG_PATH/pd.log" "$SACCADE" serve "$MODEL" --role pd --port "$PREFILL_DECODE_PORT" --encoders "$encoder" \
  --image-size "$IMAGE_SIZE" --ttft-target "$TTFT_TARGET" "${flags[@]}"
pd=$(said "$LOG_PATH/pd.log" 'listening on (http://[^ ]*:[0-9]+)')
: >"$LOG_PATH/proxy.log"
nohup "$SACCADE" proxy --pd "$pd" --port "$PROXY_PORT" >"$LOG_PATH/proxy.log" 2>&1 </dev/null &
echo $! >>"$running"
proxy=$(said "$LOG_PATH/proxy.log" 'listening on (http://[^ ]*:[0-9]+)')

echo "Running single request with local image (non-stream)..."
{
  printf '{"model": "", "max_tokens": 64, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,'
  base64 -w 0 "$IMAGE"
  printf '"}}, {"type": "text", "text": "What is in this image?"}]}]}'
} | curl -sS --fail-with-body --retry 20 --retry-delay 1 --retry-all-errors "$proxy/v1/chat/completions" -H 'Content-Type: application/json' -d @-
echo
echo "All services are up!"
echo "proxy $proxy, encoder $encoder, server $pd; image sizes: $IMAGE_SIZE; logs in $LOG_PATH"
