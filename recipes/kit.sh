#!/usr/bin/env bash
# The test kit: text profiles high, mid and low, then vision profiles 1 and 2 with noise images of WIDTH x HEIGHT.
#   recipes/kit.sh 512 512
set -euo pipefail
: "${HOST:=127.0.0.1}" "${PORT:=5000}"
saccade bench kit text --host "$HOST" --port "$PORT" --output output
exec saccade bench kit vision "${1:-512}" "${2:-512}" --host "$HOST" --port "$PORT" --output output-vision
