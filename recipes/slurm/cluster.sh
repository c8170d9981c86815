# Sourced by the jobs beside it, on the job's first node, with `encoders` set and MODEL [SERVE FLAGS...] as arguments. A step of the job
# is one server; the list of who serves what is SLURM_JOB_NODELIST. A node that is being drained has its server ended in order and the
# others go on; when it comes back the server is started again.
#   SACCADE=saccade                  the program, at the same path on every node
#   SACCADE_KEYS=~/.saccade          a folder with cluster.key, which servers prove to each other that they know, and, where there is one,
#                                    api.key, which clients send; for their owner alone
#   SACCADE_PORT=8080 SACCADE_PD_PORT=8000 SACCADE_ENCODER_PORT=7100
model=${1:?a MODEL is wanted: a folder that every node sees, or ORG/NAME}
shift
serve_flags=("$@")
saccade=${SACCADE:-saccade}
keys=${SACCADE_KEYS:-$HOME/.saccade}
port=${SACCADE_PORT:-8080} pd_port=${SACCADE_PD_PORT:-8000} encoder_port=${SACCADE_ENCODER_PORT:-7100}
drain=25  # seconds for running answers; less than Slurm's KillWait, default 30
logs=${SLURM_SUBMIT_DIR:-.}/saccade-$SLURM_JOB_ID
say() { printf '%(%T)T %s\n' -1 "$*"; }
die() { say "$*"; exit 1; }

[ -f "$keys/cluster.key" ] || die "there is no $keys/cluster.key: install -d -m 700 $keys && (umask 077; openssl rand -hex 32 >$keys/cluster.key)"
for key in "$keys"/*.key; do
  [ -z "$(find "$key" -perm /077)" ] || die "others may read $key: chmod 600 $key"
done
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
[ "${#nodes[@]}" -gt "$encoders" ] || die "${#nodes[@]} nodes are too few for $encoders encoders and a server"
mkdir -p "$logs"

# How the others reach a node, and what a server there listens on: that address, where Slurm has one in numbers, else all of the node's.
declare -A address listen
for node in "${nodes[@]}"; do
  address[$node]=$(scontrol show node -o "$node" | sed -nE 's/.* NodeAddr=([^ ]+).*/\1/p')
  if [[ ${address[$node]} =~ ^[0-9.]+$ ]]; then listen[$node]=${address[$node]}; else listen[$node]=0.0.0.0; fi
done
encoder_nodes=("${nodes[@]:0:encoders}")
pd_nodes=("${nodes[@]:encoders}")
list() { # PREFIX PORT NODES...
  local prefix=$1 port=$2 made=()
  shift 2
  for node in "$@"; do made+=("$prefix${address[$node]}:$port"); done
  (IFS=,; echo "${made[*]}")
}

declare -A step
# The API's key is read on the node: neither a command line nor Slurm's messages have it.
step_on() { # NODE NAME COMMAND...
  local node=$1 name=$2
  shift 2
  srun --nodes=1 --ntasks=1 --nodelist="$node" --overlap --job-name="$name" --output="$logs/$name.log" --open-mode=append --kill-on-bad-exit=0 \
    /bin/bash -c 'if [ -f "$0" ]; then export SACCADE_API_KEY=$(<"$0"); fi; exec "$@"' "$keys/api.key" "$saccade" "$@" &
  step[$name]=$!
}
start_on() { # NODE
  local node=$1
  if [[ " ${encoder_nodes[*]} " = *" $node "* ]]; then
    step_on "$node" "encoder-$node" serve "$model" --role=encoder --cluster-listen="${listen[$node]}:$encoder_port" --cluster-key-file="$keys/cluster.key" \
      --host="${listen[$node]}" --port="$pd_port" --allowed-hosts='*' --drain-seconds="$drain" "${serve_flags[@]}"
  else
    step_on "$node" "pd-$node" serve "$model" --role=pd --encoders="$(list '' "$encoder_port" "${encoder_nodes[@]}")" --cluster-key-file="$keys/cluster.key" \
      --host="${listen[$node]}" --port="$pd_port" --allowed-hosts='*' --drain-seconds="$drain" "${serve_flags[@]}"
  fi
}
name_of() { if [[ " ${encoder_nodes[*]} " = *" $1 "* ]]; then echo "encoder-$1"; else echo "pd-$1"; fi; }
runs() { [ -n "${step[$1]:-}" ] && kill -0 "${step[$1]}" 2>/dev/null; }
# A signal to srun would end its step at once; by scancel the server hears it and ends what it has begun.
end_step() { # NAME
  local id
  id=$(squeue -s -h -j "$SLURM_JOB_ID" -o '%i %j' | awk -v name="$1" '$2 == name {print $1; exit}')
  # Slurm 22.05 says that the job is unknown, and delivers the signal.
  [ -z "$id" ] || scancel --quiet --signal=TERM "$id" || true
}
healthy() { # HOST PORT
  local status
  exec 3<>"/dev/tcp/$1/$2" && printf 'GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 && read -r -t 5 _ status _ <&3 && [ "$status" = 200 ]
} 2>/dev/null

ending=
end() {
  ending=1
  trap '' TERM INT
  say "ending: the proxy, then the servers, then the encoders"
  for name in proxy $(for node in "${pd_nodes[@]}" "${encoder_nodes[@]}"; do name_of "$node"; done); do
    ! runs "$name" || end_step "$name"
    [ "$name" != proxy ] || wait "${step[proxy]}" 2>/dev/null || true
  done
  wait || true
}
trap 'end; exit 0' TERM INT

for node in "${nodes[@]}"; do start_on "$node"; done
step_on "${nodes[0]}" proxy proxy --pd="$(list http:// "$pd_port" "${pd_nodes[@]}")" --host="${listen[${nodes[0]}]}" --port="$port" --allowed-hosts='*' --drain-seconds="$drain"
until (healthy "${address[${nodes[0]}]}" "$port"); do
  runs proxy || die "the proxy ended: $logs/proxy.log"
  for node in "${nodes[@]}"; do runs "$(name_of "$node")" || { end; die "the server on $node ended: $logs/$(name_of "$node").log"; }; done
  sleep 1 & wait $! || true
done
url=http://${address[${nodes[0]}]}:$port
echo "$url" >"$logs/url"
say "All services are up! ${encoders}E$((${#nodes[@]} - encoders))PD at $url (logs: $logs)"

# Slurm lets a job stay on a node that is being drained: what is wanted there is up to the job.
declare -A drains
while runs proxy; do
  sleep 2 & wait $! || true
  [ -z "$ending" ] || break
  while read -r node state; do
    [ -n "${address[$node]:-}" ] || continue
    name=$(name_of "$node")
    case "$state" in
      drain* | down* | fail*)
        [ -n "${drains[$node]:-}" ] || { say "$node is $state: $name ends what it has begun, others take its place"; drains[$node]=1; end_step "$name"; } ;;
      *)
        if runs "$name"; then
          [ -z "${drains[$node]:-}" ] || continue  # back before its server has ended
        else
          say "$name is started again"
          start_on "$node"
        fi
        drains[$node]= ;;
    esac
  done < <(sinfo -h -N -n "$SLURM_JOB_NODELIST" -o '%N %T')
done
[ -n "$ending" ] || { say "the proxy ended: $logs/proxy.log"; end; exit 1; }
