#!/usr/bin/env python3
"""A group of a broadband gateway moves between its two workers while packets of its subscribers come.

    far (subscribers and a host of the core)        gw
    weir gen broadband ─ line0 ═════════════ acc ─ weir ─ core 198.18.0.1 ═══ core0 ─ weir gen broadband

The generator gets addresses by DHCP and checks each flow: loss, order, tags. Both workers receive, by fanout, whoever owns
the group. Everything is made here and removed at the end.
usage: bng_moves.py WEIR_BINARY [LINES PPS MOVES OTHERS [FANOUT]]
    LINES: subscribers with traffic, at most 1000; OTHERS: static subscribers of the group without
    FANOUT: hash, or subscriber: ports follow the group
"""
import json, os, sys, tempfile, time

from lab import broadband_config, every_packet_came, expect, gateway_runs, gateway_stops, inside, link, namespaces_with_lo, run, start, within

WEIR = sys.argv[1]
LINES, PPS, MOVES, OTHERS = [int(word) for word in sys.argv[2:6]] or (200, 2000, 20, 8000)
FANOUT = sys.argv[6] if len(sys.argv) > 6 else "hash"
TAG = f"weir-move-{os.getpid()}"
FAR, GW = NAMESPACES = f"{TAG}-far", f"{TAG}-gw"
FOLDER = tempfile.mkdtemp(prefix=TAG)
SOCKET = f"{FOLDER}/weir.sock"

def config():
    fanout = "fanout={1}&group={0}&member={{worker}}/{{workers}}"
    look = {"hash": ("", ""), "subscriber": ("&steer=source", "&steer=destination")}[FANOUT]
    number = {"acc": 1, "core": 2}
    uri = lambda name: (f"packet:{name}?netns={GW}&promisc=on&" + fanout.format(os.getpid() % 30000 + number[name], FANOUT)
                        + look[number[name] - 1])
    head = """workers = { count = 2 }
frames = { packet_buffers = 32768 }
route = [ { to = "0.0.0.0/0", next_hop = "198.18.0.254" } ]

[process]
confine = false
"""
    text = broadband_config(SOCKET, uri, '{ name = "home" }', None, ["198.18.0.1/24"], head, s_vlans="100-131", c_vlans="1-4000",
                            ipv4=["100.64.0.0/15"], ipv6_wan=None, ipv6_pd=None, gateways=["100.64.0.1"]) + f"""
[group.sessions]
lease_seconds = 600

[[group]]
name = "stays"
ports = ["acc"]
s_vlans = 200
c_vlans = "1-100"
ipv4 = ["100.70.0.0/24"]
gateways = ["100.70.0.1"]
profile = "home"

[[subscriber]]
group = "pon"
count = {OTHERS}
s_vlan = 101
c_vlan = 1
mac = "02:cc:00:00:00:00"
ipv4 = "100.65.0.1"
"""
    path = f"{FOLDER}/bng.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

def ask(*words):
    return json.loads(run(WEIR, *words, "--json", "--socket", SOCKET))

def move(to):
    said = ask("move", "group", "pon", "--to-worker", str(to))["moved"]
    expect_quietly("it is where it was told to go", said["to_worker"] == to, said)
    return said

def expect_quietly(what, holds, shown):
    if not holds:
        expect(what, holds, shown)

def received():
    """Packets that each worker's ports have received."""
    ports = ask("show", "ports")
    return {worker: sum(port["counters"]["rx_packets"] for port in ports if port["worker"] == worker) for worker in (0, 1)}

def group():
    return next(row for row in ask("show", "groups")["groups"]["groups"] if row["name"] == "pon")

def main():
    namespaces_with_lo(NAMESPACES)
    link(FAR, "line0", GW, "acc", "mtu", "1600")
    link(FAR, "core0", GW, "core", "mtu", "1600")
    gateway = gateway_runs("weir runs with two workers", (WEIR, "run", config()), SOCKET)
    seconds = MOVES * 0.7 + 8
    load = start("ip", "netns", "exec", FAR, WEIR, "gen", "broadband", "--subscribers", str(LINES), "--pps", str(PPS),
                 "--seconds", str(seconds), "--json", f"{FOLDER}/load.json")
    # Addresses first: then packets.
    until = time.time() + 60
    while group()["subscribers"] < OTHERS + LINES and time.time() < until:
        time.sleep(0.2)
    expect("subscribers have addresses", group()["subscribers"] == OTHERS + LINES, group())
    time.sleep(2)
    refused = run(WEIR, "move", "group", "pon", "--to-worker", "0", "--socket", SOCKET, check=False)
    expect("a move to where it is is refused", "is on worker 0 already" in refused, refused)
    moves = []
    for number in range(MOVES):
        moves.append(move(1 - number % 2))
        time.sleep(0.2)
    if FANOUT == "subscriber":
        before = received()
        time.sleep(1)
        now = received()
        mine, other = (now[worker] - before[worker] for worker in (0, 1))
        expect(f"ports give the group's packets to its worker: {mine}, and {other} to the other",
               mine > 100 and other * 50 < mine, (before, now))
    said = load.communicate(timeout=120)[0]
    expect("the generator ends well", load.returncode == 0, said)
    result = json.load(open(f"{FOLDER}/load.json"))
    every_packet_came(result, lambda: run(WEIR, "show", "drops", "--socket", SOCKET))
    seen = ask("show", "subscribers", "--filter", "group=pon,s_vlan=100", "--limit", "1000")["entries"]
    up, down = (sum(row[f"{way}_packets"] for row in seen) for way in ("up", "down"))
    expect("usage is exact", (up, down) == (result["uplink"]["received_packets"], result["downlink"]["received_packets"]),
           (up, down, result["uplink"], result["downlink"]))
    expect(f"{MOVES} moves are counted", group()["moves"] == MOVES, group())
    held = sum(one["held_packets"] for one in moves)
    took, pause = (sorted(one[key] for one in moves) for key in ("took_us", "pause_us"))
    middle = len(moves) // 2
    print(f"  {moves[0]['subscribers']} subscribers: a move took {took[middle]} us (at most {took[-1]}), "
          f"packets waited {pause[middle]} us (at most {pause[-1]}), {held} in all; "
          f"latency us {result['uplink']['latency_us_p50']:.0f} (p99 {result['uplink']['latency_us_p99']:.0f}, "
          f"most {result['uplink']['latency_us_max']:.0f})")
    gateway_stops(gateway)

within(240, NAMESPACES, main)
