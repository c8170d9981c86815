#!/usr/bin/env bash
# As the images came: the publication's Vanilla.
IMAGE_SIZE=${IMAGE_SIZE:-vanilla} exec "$(dirname "$0")/disagg_1e1pd.sh" "$@"
