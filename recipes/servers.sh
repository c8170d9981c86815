# Read in by recipes that start servers of their own: servers end when the recipe ends. Wants `saccade`, the program.
pids=()
stop_servers() {
  [ ${#pids[@]} -eq 0 ] || { kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; }
  pids=()
}
trap stop_servers EXIT

# ready LOG PID: waits until the server says its address; sets url.
ready() {
  url=
  while [ -z "$url" ]; do
    kill -0 "$2" 2>/dev/null || { echo "$(basename "$0"): the server did not start:" >&2; tail -n 5 "$1" >&2; return 1; }
    sleep 0.1
    url=$(sed -nE 's#.*listening on (https?://[^ ]*:[0-9]+).*#\1#p' "$1" | sed -n 1p)
  done
}

# start_server LOG COMMAND...: in the background until it is ready; sets url.
start_server() {
  local log=$1
  shift
  : >"$log"  # or it may not be there when it is read first
  "$@" >"$log" 2>&1 &
  pids+=($!)
  ready "$log" $!
}

# metric NAME: of the server at url, the sum over its labels.
metric() { curl -sf "$url/metrics" | awk -v name="$1" 'index($1, name "{") == 1 || $1 == name { sum += $NF } END { print sum + 0 }'; }

# cut_checkpoint FAMILY SIZE LAYERS FOLDER: the published shape without weights, of so many layers in text and tower each.
cut_checkpoint() {
  "$saccade" model make-dummy --family "$1" --size "$2" --config-only --out "$4" >/dev/null
  sed -i -E "s/\"(num_hidden_layers|depth)\": [0-9]+/\"\1\": $3/g; s/\"name\": \"clip_vision_model\"/&, \"num_hidden_layers\": $(($3 + 1))/" "$4/config.json"
}

number() { awk "BEGIN { printf \"%.${2:-6}g\", $1 }"; }

# field JSON-FILE KEY: of a result of `saccade bench serve --save-result`.
field() { grep -oE "\"$2\": ?[-+0-9.eE]+" "$1" | sed -n 1p | sed -E 's/.*: ?//'; }
