#!/usr/bin/env bash
# A constant budget of 4,096 tokens: the publication's Static.
IMAGE_SIZE=${IMAGE_SIZE:-static:4096} exec "$(dirname "$0")/disagg_1e1pd.sh" "$@"
