#!/usr/bin/env bash
# Small requests through the proxy, through HAProxy and direct, to one mock server in one run: requests a second of
# processor time of what stands between, and the median latency of one request at a time.
#   benchmarks/proxy/measure.sh [SACCADE]        (needs wrk and haproxy: apt-get install wrk haproxy)
# SACCADE_MOCK is another build to take the mock server from; SECONDS_EACH how long each leg takes.
set -euo pipefail
saccade=${1:-build/release/saccade}
mock=${SACCADE_MOCK:-$saccade}
: "${SECONDS_EACH:=5}" "${ROUNDS:=3}" "${CONNECTIONS:=32}"
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

port_of() {  # FILE PATTERN: waits for the line that has the port
  for _ in $(seq 200); do
    if line=$(grep -m1 -oE "$2" "$1" 2>/dev/null); then echo "${line##*:}"; return; fi
    sleep 0.1
  done
  echo "nothing listens: $(cat "$1")" >&2; exit 1
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

"$mock" bench mock --port 0 --ttft 0 --itl 0 --tokens 1 > "$work/mock" & pids+=($!)
server=$(port_of "$work/mock" 'http://[0-9.]+:[0-9]+')
"$saccade" proxy --pd "http://127.0.0.1:$server" --port 0 --log-level info 2> "$work/proxy" & proxy_pid=$!; pids+=($proxy_pid)
proxy=$(port_of "$work/proxy" 'http://[0-9.]+:[0-9]+')
haproxy_port=$(free_port)
cat > "$work/haproxy.cfg" <<CFG
global
  nbthread 1
  maxconn 4000
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend in
  bind 127.0.0.1:$haproxy_port
  default_backend servers
backend servers
  balance leastconn
  server a 127.0.0.1:$server check
CFG
haproxy -db -f "$work/haproxy.cfg" 2> "$work/haproxy" & haproxy_pid=$!; pids+=($haproxy_pid)
cat > "$work/post.lua" <<'LUA'
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model": "mock", "max_tokens": 1, "messages": [{"role": "user", "content": "Say one word."}]}'
LUA
sleep 2  # the servers' first checks

processor() {  # of a process, in clock ticks
  awk '{print $14 + $15}' "/proc/$1/stat"
}
ticks=$(getconf CLK_TCK)
leg() {  # NAME PORT PID
  local before after out requests failed median
  before=$( [ -n "$3" ] && processor "$3" || echo 0)
  out=$(wrk -t1 -c"$CONNECTIONS" -d"${SECONDS_EACH}s" -s "$work/post.lua" "http://127.0.0.1:$2")
  after=$( [ -n "$3" ] && processor "$3" || echo 0)
  requests=$(awk '/requests in/ {print $1}' <<< "$out")
  failed=$(awk '/Non-2xx/ {print $NF}' <<< "$out")
  median=$(wrk -t1 -c1 -d"${SECONDS_EACH}s" --latency -s "$work/post.lua" "http://127.0.0.1:$2" | awk '$1 == "50%" {print $2}')
  awk -v name="$1" -v n="$requests" -v s="$SECONDS_EACH" -v cpu="$(((after - before)))" -v t="$ticks" -v m="$median" -v f="${failed:-0}" \
    'BEGIN {
       share = "                                  "
       if (cpu > 0) share = sprintf("%9.0f requests a processor second,", n * t / cpu)
       printf "%-16s %9.0f requests/s %s %10s median alone, %d not 2xx\n", name, n / s, share, m, f
     }'
}
echo "$(nproc) processors, load average $(cut -d' ' -f1-3 /proc/loadavg)"
for round in $(seq "$ROUNDS"); do
  echo "round $round"
  leg direct "$server" ""
  leg "saccade proxy" "$proxy" "$proxy_pid"
  leg haproxy "$haproxy_port" "$haproxy_pid"
done
