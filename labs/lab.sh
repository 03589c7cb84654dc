# shellcheck shell=bash
# Common functions of the labs. Sourced by labs/*/up and labs/*/down.
#
#   weir-ran: gNB and UEs                       weir-core: the core, weir, the data network
#     n2  10.2.0.2 ──────────── veth ─────────── n2   10.2.0.1   AMF
#     n3  10.3.0.2 ──────────── veth ─────────── n3   10.3.0.1   weir's port
#     uesimtun0                                  ogstun  10.45.0.1/16, 2001:db8:cafe::1/48
#
# Paths from the environment, otherwise from PATH: WEIR, and those of each script. LAB_DIR has logs and process ids.

set -euo pipefail

CORE=weir-core
RAN=weir-ran
LAB_DIR=${LAB_DIR:-/run/weir-lab}
WEIR=${WEIR:-weir}

die() { echo "$*" >&2; exit 1; }

# need NAME: the program's path, or an error with the variable to set.
need() {
  local variable=$1 name=$2 path
  path=$(command -v "${!variable:-$name}") ||
    die "$name not found: install it, or set $variable to its path"
  printf -v "$variable" %s "$path"
}

inside() { ip netns exec "$@"; }

networks() {
  [ "$(id -u)" = 0 ] || die "run as root: network namespaces are made"
  ! ip netns list | grep -qwE "$CORE|$RAN" || die "the lab is up already: labs/open5gs/down or labs/free5gc/down first"
  mkdir -p "$LAB_DIR"
  local namespace
  for namespace in "$CORE" "$RAN"; do
    ip netns add "$namespace"
    ip -n "$namespace" link set lo up
  done
  for link in n2 n3; do
    ip -n "$CORE" link add "$link" type veth peer name "$link" netns "$RAN"
    ip -n "$CORE" link set "$link" up
    ip -n "$RAN" link set "$link" up
  done
  # The far ends of a veth must send frames that fit a wire: no segments above the MTU.
  inside "$RAN" ethtool -K n3 tso off gso off >/dev/null 2>&1 || true
  ip -n "$CORE" address add 10.2.0.1/24 dev n2
  ip -n "$RAN" address add 10.2.0.2/24 dev n2
  ip -n "$RAN" address add 10.3.0.2/24 dev n3
  # weir's port has its addresses from the configuration; the kernel must not answer on it.
  inside "$CORE" sysctl -qw net.ipv6.conf.n3.disable_ipv6=1 net.ipv4.ip_forward=1
  ip -n "$CORE" tuntap add name ogstun mode tun
  ip -n "$CORE" address add 10.45.0.1/16 dev ogstun
  ip -n "$CORE" address add 2001:db8:cafe::1/48 dev ogstun nodad
  ip -n "$CORE" link set ogstun up
}

# start NAMESPACE NAME COMMAND...: in the background, with $LAB_DIR/NAME.log and NAME.pid.
start() {
  local namespace=$1 name=$2
  shift 2
  # Not by inside(): a function's process would be the shell's.
  ip netns exec "$namespace" setsid "$@" >"$LAB_DIR/$name.log" 2>&1 </dev/null &
  echo $! >"$LAB_DIR/$name.pid"
}

# wait_for NAME PATTERN [SECONDS]: until the log has it.
wait_for() {
  local left=$((${3:-20} * 10))
  until grep -qE "$2" "$LAB_DIR/$1.log" 2>/dev/null; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { tail -5 "$LAB_DIR/$1.log" >&2; die "$1: no \"$2\" in $LAB_DIR/$1.log"; }
    kill -0 "$(cat "$LAB_DIR/$1.pid")" 2>/dev/null || { tail -20 "$LAB_DIR/$1.log" >&2; die "$1 ended"; }
    sleep 0.1
  done
}

# stop NAME...: running ones get SIGTERM, and SIGKILL after three seconds.
stop() {
  local name pid pids=()
  for name in "$@"; do
    [ -e "$LAB_DIR/$name.pid" ] || continue
    pid=$(cat "$LAB_DIR/$name.pid")
    rm -f "$LAB_DIR/$name.pid"
    kill "$pid" 2>/dev/null || continue
    pids+=("$pid")
  done
  for _ in {1..30}; do
    kill -0 "${pids[@]}" 2>/dev/null || break
    sleep 0.1
  done
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}

# All the lab's processes and its namespaces.
stop_all() {
  local file names=() namespace
  for file in "$LAB_DIR"/*.pid; do
    [ -e "$file" ] && names+=("$(basename "$file" .pid)")
  done
  stop "${names[@]}"
  for namespace in "$CORE" "$RAN"; do
    ip netns delete "$namespace" 2>/dev/null || true
  done
}
