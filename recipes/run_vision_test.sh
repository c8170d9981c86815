#!/usr/bin/env bash
# The test kit's vision profiles 1 and 2 with noise images of WIDTH x HEIGHT; then a table and a plot of all rounds.
#   recipes/run_vision_test.sh [WIDTH HEIGHT] [options of `saccade bench kit vision`]
# From the environment: HOST, PORT, OUTPUT (output-vision), SACCADE (the program).
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=127.0.0.1}" "${PORT:=5000}" "${OUTPUT:=output-vision}"
"$SACCADE" bench kit vision "$@" --host "$HOST" --port "$PORT" --output "$OUTPUT"
exec "$(dirname "$0")/kit-summary" "$OUTPUT"
