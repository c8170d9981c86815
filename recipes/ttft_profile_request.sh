#!/usr/bin/env bash
# Time to the first token of one image request: FILE's, or of noise by size.
#   FILE=profile_images/1536-1536.png PROXY_PORT=10003 recipes/ttft_profile_request.sh
. "$(dirname "$0")/program.sh"
exec "$SACCADE" bench profile-ttft "$@"
