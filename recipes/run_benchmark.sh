#!/usr/bin/env bash
# A peak trace with captioned images against a server that runs already.
#   recipes/run_benchmark.sh --task-name demo --trace-file 7 --api-port 10003 --seed 41 [options of `saccade bench trace-run`]
. "$(dirname "$0")/program.sh"
exec "$SACCADE" bench trace-run "$@"
