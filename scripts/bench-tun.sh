#!/usr/bin/env bash
# iperf3 through TUN ports, with and without offloads: a second user plane, its sides exchanged, stands for phone and gNB.
#
#   phone namespace                                          upf namespace
#   10.60.0.1 [ue0] TUN ── weir ──[p0 10.0.3.2]══ GTP-U ══[u0 10.0.3.1]── weir ── TUN [ogstun] 10.45.0.1
#
# usage: sudo scripts/bench-tun.sh WEIR_BINARY [SECONDS]
set -euo pipefail
weir=$1 seconds=${2:-5}
tag=weir-tun-$$ folder=$(mktemp -d)
phone=$tag-p upf=$tag-u
pids=()
clean() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  ip netns del "$phone" 2>/dev/null || true
  ip netns del "$upf" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean EXIT

config() { # NAME N3_INTERFACE N3_ADDRESS TUN KEYS UE TEID FAR_TEID FAR
  cat > "$folder/$1.toml" <<TOML
gateway = "upf"
control_socket = "$folder/$1.sock"
[[port]]
name = "n3"
uri = "packet:$2"
role = "access"
addresses = ["$3/24"]
[[port]]
name = "n6"
uri = "tun:$4?offloads=$5"
role = "core"
[[route]]
to = "0.0.0.0/0"
port = "n6"
[simulate]
ues = 1
ue_first = "$6"
teid_first = $7
gnb_teid_first = $8
gnbs = 1
gnb_first = "$9"
[[simulate.bearer]]
TOML
}

for ns in "$phone" "$upf"; do ip netns add "$ns"; ip -n "$ns" link set lo up; done
ip -n "$phone" link add p0 mtu 1600 type veth peer name u0 mtu 1600 netns "$upf"
ip -n "$phone" link set p0 up
ip -n "$upf" link set u0 up
for tun in "$phone ue0 10.60.0.1/32" "$upf ogstun 10.45.0.1/16"; do
  read -r ns name address <<< "$tun"
  ip -n "$ns" tuntap add name "$name" mode tun
  ip -n "$ns" link set "$name" up
  ip -n "$ns" address add "$address" dev "$name"
  ip -n "$ns" route add default dev "$name"
done
ip netns exec "$upf" iperf3 -s -B 10.45.0.1 > "$folder/server.log" & pids+=($!)

for offloads in off on; do
  config phone p0 10.0.3.2 ue0 $offloads 10.45.0.1 0x2000 0x1000 10.0.3.1
  config upf u0 10.0.3.1 ogstun $offloads 10.60.0.1 0x1000 0x2000 10.0.3.2
  running=()
  for side in "$phone phone" "$upf upf"; do
    read -r ns name <<< "$side"
    ip netns exec "$ns" "$weir" run "$folder/$name.toml" > "$folder/$name.log" 2>&1 & running+=($!)
    pids+=($!)
  done
  for _ in $(seq 100); do [ -S "$folder/upf.sock" ] && [ -S "$folder/phone.sock" ] && break; sleep 0.1; done
  ip netns exec "$phone" ping -c 3 -i 0.2 -W 2 10.45.0.1 > "$folder/ping.log" || { cat "$folder"/*.log; exit 1; }
  for way in up down; do
    [ $way = up ] && reverse= || reverse=-R
    # shellcheck disable=SC2086
    ip netns exec "$phone" iperf3 -c 10.45.0.1 -t "$seconds" -J $reverse > "$folder/$way.json" || { cat "$folder/$way.json"; exit 1; }
    python3 - "$folder/$way.json" "offloads=$offloads TCP $way" <<'PY'
import json, sys
end = json.load(open(sys.argv[1]))["end"]
print(f"{sys.argv[2]}: {end['sum_received']['bits_per_second'] / 1e6:.0f} Mbit/s, {end['sum_sent'].get('retransmits', 0)} retransmissions")
PY
  done
  "$weir" show ports --socket "$folder/upf.sock" --json > "$folder/ports.json"
  python3 - "$folder/ports.json" <<'PY'
import json, sys
for port in json.load(open(sys.argv[1])):
    counters = dict(port["counters"]) if isinstance(port["counters"], list) else port["counters"]
    packets = counters["rx_packets"] + counters["tx_packets"]
    if port["name"] == "n6":
        print(f"  n6: {packets} packets in {counters['syscalls']} calls")
PY
  for pid in "${running[@]}"; do kill "$pid"; done
  for pid in "${running[@]}"; do wait "$pid" || true; done
  grep -h "missing\|MISSING" "$folder/upf.log" | sed 's/^/  /'
done
