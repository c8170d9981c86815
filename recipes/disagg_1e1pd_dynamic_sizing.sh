#!/usr/bin/env bash
# The publication's Dynamic: its rule, at the places where its report puts it. IMAGE_SIZE=seed-as-published does what its code does
# (the reduced image is encoded and nobody reads its rows), IMAGE_SIZE=dynamic is Saccade's own way.
IMAGE_SIZE=${IMAGE_SIZE:-seed} exec "$(dirname "$0")/disagg_1e1pd.sh" "$@"
