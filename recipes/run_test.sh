#!/usr/bin/env bash
# The test kit's text profiles high, mid and low against a server that runs already; then a table and a plot of all rounds.
#   recipes/run_test.sh [options of `saccade bench kit text`]
# From the environment: HOST, PORT, OUTPUT (output), SACCADE (the program).
set -euo pipefail
. "$(dirname "$0")/program.sh"
: "${HOST:=127.0.0.1}" "${PORT:=5000}" "${OUTPUT:=output}"
"$SACCADE" bench kit text --host "$HOST" --port "$PORT" --output "$OUTPUT" "$@"
exec "$(dirname "$0")/kit-summary" "$OUTPUT"
