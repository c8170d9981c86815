#!/usr/bin/env bash
# The test kit: text profiles high, mid and low, then vision profiles 1 and 2 with noise images of WIDTH x HEIGHT; a table and a
# plot of each.
#   recipes/kit.sh 512 512
set -euo pipefail
. "$(dirname "$0")/program.sh"
here=$(dirname "$0")
"$here/run_test.sh"
exec "$here/run_vision_test.sh" "${1:-512}" "${2:-512}"
