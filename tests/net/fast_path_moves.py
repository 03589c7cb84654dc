#!/usr/bin/env python3
"""Sessions that move between the kernel and their worker while packets come: none is overtaken, lost or counted twice.

    load                                    upf
    gnb0 ═════════════ n3 10.0.3.1 ─ weir ─ n6 10.0.6.1 ═════════════ dn0     signed packets both ways, `weir gen`
                                                                        └ a packet that is not for the kernel, now and then

A packet whose time to live is over takes its session to the worker, which gives it back when it has stayed there long enough.
usage: fast_path_moves.py WEIR_BINARY [PACKETS_A_SECOND [MOVES [SUBSCRIBERS]]]
"""
import ctypes, json, os, socket, struct, sys, tempfile, time

from lab import (expect, gateway_runs, gateway_stops, inside, kernel_port, link, namespaces_with_lo, run, signed_load, start,
                 wait_for, within)

WEIR = sys.argv[1]
PPS = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
MOVES = int(sys.argv[3]) if len(sys.argv) > 3 else 300
TAG = f"weir-{os.getpid()}"
LOAD, UPF = f"{TAG}-load", f"{TAG}-upf"
UES = int(sys.argv[4]) if len(sys.argv) > 4 else 200

def build():
    namespaces_with_lo((LOAD, UPF))
    link(LOAD, "gnb0", UPF, "n3")
    link(LOAD, "dn0", UPF, "n6")
    for device in ("gnb0", "dn0"):
        inside(LOAD, "ethtool", "-K", device, "tso", "off", "gso", "off", "tx", "off", "gro", "on")

def configs(folder, seconds):
    with open(f"{folder}/upf.toml", "w") as file:
        file.write(f"""
gateway = "upf"
control_socket = "{folder}/weir.sock"
{kernel_port("n3", "access", "10.0.3.1/24")}
{kernel_port("n6", "core", "10.0.6.1/24")}
[[route]]
to = "0.0.0.0/0"
next_hop = "10.0.6.254"

[simulate]
ues = {UES}
ue_first = "10.60.0.1"
teid_first = 0x01000000
gnb_teid_first = 0x02000000
gnbs = 4
gnb_first = "10.0.3.100"
churn_per_second = 0

[[simulate.bearer]]
qfi = 9
""")
    signed_load(f"{folder}/gen.toml", PPS, UES, seconds)

def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~((total & 0xffff) + (total >> 16)) & 0xffff

def over(mac, ue):
    """A packet to a subscriber whose time to live is over at the gateway."""
    payload = b"over" * 8
    udp = struct.pack("!HHHH", 7, 9, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 1, 17, 0, socket.inet_aton("198.18.0.1"),
                       socket.inet_aton(f"10.60.0.{1 + ue}"))
    return mac + b"\x02\0\0\0\0\x99\x08\0" + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    seconds = max(8, MOVES // 60)
    configs(folder, seconds)
    upf = gateway_runs("weir runs", ("ip", "netns", "exec", UPF, WEIR, "run", f"{folder}/upf.toml"), f"{folder}/weir.sock")

    def counted():
        shown = json.loads(run(WEIR, "show", "sessions", "--json", "--socket", f"{folder}/weir.sock"))
        return {name: counter["value"] for name, counter in shown.get("control", {}).items()}

    gen = start("ip", "netns", "exec", LOAD, WEIR, "gen", f"{folder}/gen.toml", "--json", "-q")
    wait_for("packets go through the kernel", lambda: counted().get("kernel_down_packets", 0) > PPS / 10)
    mac = bytes.fromhex(inside(UPF, "cat", "/sys/class/net/n6/address").strip().replace(":", ""))
    with open(f"/run/netns/{LOAD}") as namespace:
        # CLONE_NEWNET; Python has it from 3.12 on.
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0x40000000) == 0
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("dn0", 0))
    # Each session some ten times: it stays twice as long each time.
    until = time.monotonic() + seconds - 3
    sent = 0
    while time.monotonic() < until:
        sender.send(over(mac, sent % UES))
        sent += 1
        time.sleep((seconds - 3) / (1.5 * MOVES))
    said = gen.communicate(timeout=60)[0]
    after = counted()
    moves = after.get("kernel_handed_back", 0)
    report = json.loads(said[said.index("{"):])
    print(f"  {sent} packets were over, {moves} moves, {PPS} packets/s", flush=True)
    expect(f"sessions moved {MOVES} times and more", moves >= MOVES, after)
    taken = after["kernel_up_packets"] + after["kernel_down_packets"]
    for way, seen in report["directions"].items():
        numbers = {key: seen[f"{key}_packets"] for key in ("sent", "forwarded", "lost", "reordered", "duplicated", "corrupt")}
        print(f"  {way}:", ", ".join(f"{count} {what}" for what, count in numbers.items()), flush=True)
        expect(f"{way}: none overtaken, none twice", numbers["reordered"] == numbers["duplicated"] == 0, seen)
        expect(f"{way}: none lost", numbers["lost"] == 0, seen)
    print(f"  {taken / (PPS * seconds):.1%} of packets went through the kernel", flush=True)
    gateway_stops(upf)

within(120, (LOAD, UPF), main)
