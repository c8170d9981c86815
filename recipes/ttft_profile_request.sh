#!/usr/bin/env bash
# Time to the first token of one image request: FILE's, or of noise by size.
#   FILE=profile_images/1536-1536.png PROXY_PORT=10003 recipes/ttft_profile_request.sh
exec "${SACCADE:-saccade}" bench profile-ttft "$@"
