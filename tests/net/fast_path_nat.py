#!/usr/bin/env python3
"""Access lists and translation in the kernel, between real Linux hosts:

    ran (a phone behind a gNB)             upf                              dn (a host in the data network)
    tun0 10.60.0.1 ─ gnb.py ─ ran0 10.0.3.100 ══ n3 ─ weir, 203.0.113.1 ─ n6 ══ dn0 10.0.6.2

The phone has one public address. Its flows are the worker's for a packet, and the kernel's then: translated both ways, counted by
rules, alive as long as they are in use and no longer.
usage: fast_path_nat.py WEIR_BINARY
"""
import json, os, signal, sys, tempfile, time

from lab import (expect, gateway_runs, gateway_stops, inside, iperf3_serves, kernel_port, link, namespaces_with_lo, run, start,
                 wait_for, within)

WEIR = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-{os.getpid()}"
RAN, UPF, DN = f"{TAG}-ran", f"{TAG}-upf", f"{TAG}-dn"

def build():
    namespaces_with_lo((RAN, UPF, DN))
    link(RAN, "ran0", UPF, "n3")
    link(DN, "dn0", UPF, "n6")
    inside(RAN, "ip", "address", "add", "10.0.3.100/24", "dev", "ran0")
    inside(DN, "ip", "address", "add", "10.0.6.2/24", "dev", "dn0")
    # The phone's own address is known to nobody there.
    inside(DN, "ip", "route", "add", "203.0.113.0/24", "via", "10.0.6.1")
    for namespace, device in ((RAN, "ran0"), (DN, "dn0")):
        inside(namespace, "ethtool", "-K", device, "tso", "off", "gso", "off", "tx", "off", "gro", "on")

def config(folder):
    text = f"""
gateway = "upf"
control_socket = "{folder}/weir.sock"
{kernel_port("n3", "access", "10.0.3.1/24")}
{kernel_port("n6", "core", "10.0.6.1/24")}
[process]
confine = false

[nat]
pool = [{{ addresses = "203.0.113.1/32" }}]
udp_unanswered_seconds = 2
udp_seconds = 2
tcp_opening_seconds = 2
icmp_seconds = 2

[[acl]]
rules = [
  "deny in udp from any to any port 9",
  "permit out ip from 10.0.6.0/24 to 10.60.0.0/16",
  "deny out ip from any to any",
]

[simulate]
ues = 1
ue_first = "10.60.0.1"
teid_first = 0x1000
gnb_teid_first = 0x2000
gnbs = 1
gnb_first = "10.0.3.100"
churn_per_second = 0

[[simulate.bearer]]
qfi = 9
"""
    path = f"{folder}/upf.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

def phone():
    gnb = start("ip", "netns", "exec", RAN, sys.executable, f"{HERE}/gnb.py", "--local", "10.0.3.100", "--upf",
                "10.0.3.1", "--teid", "0x1000", "--gnb-teid", "0x2000")
    if gnb.stdout.readline().strip() != "ready":
        raise SystemExit(f"the gNB does not start: {gnb.stdout.read()}")
    for command in (("link", "set", "tun0", "mtu", "1400", "up"), ("address", "add", "10.60.0.1/32", "dev", "tun0"),
                    ("route", "add", "default", "dev", "tun0")):
        inside(RAN, "ip", *command)
    return gnb

# Answers each packet, and prints whose it was.
ANSWERS = """
import socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("10.0.6.2", 7))
while True:
    text, whose = own.recvfrom(100)
    print(*whose, text.decode(), flush=True)
    own.sendto(text, whose)
"""

# One flow: a packet each tenth of a second, 80 of them; prints how many were answered. Then it is silent for 6 s, and prints what
# came then.
ASKS = """
import socket, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("10.60.0.1", 40000))
own.settimeout(1)
answered = 0
for n in range(80):
    own.sendto(b"%d" % n, ("10.0.6.2", 7))
    try:
        answered += own.recv(100) == b"%d" % n
    except TimeoutError:
        pass
    time.sleep(0.1)
print(answered, flush=True)
own.settimeout(8)
try:
    print(own.recv(100).decode(), flush=True)
except TimeoutError:
    print("nothing", flush=True)
"""

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    upf = gateway_runs("weir runs", ("ip", "netns", "exec", UPF, WEIR, "run", config(folder)), f"{folder}/weir.sock")
    gnb = phone()

    def show(*what):
        return json.loads(run(WEIR, "show", *what, "--json", "--socket", f"{folder}/weir.sock"))

    def counted():
        counters = show("sessions").get("control", {})
        return {name: counter["value"] for name, counter in counters.items()}

    def ways(before):
        after = counted()
        return [after.get(f"kernel_{way}_packets", 0) - before.get(f"kernel_{way}_packets", 0) for way in ("up", "down")]

    def in_kernel():
        return show("sessions", "--ue", "10.60.0.1")["fast_path"] == "in the kernel"

    def hits():
        return [rule["packets"] for rule in show("acl")]

    got = inside(RAN, "ping", "-c", "5", "-i", "0.2", "-W", "2", "10.0.6.2", check=False)
    expect("5 of 5 pings, the first ones waiting for ARP on both sides", " 5 received" in got, got)
    wait_for("the session is in the kernel", in_kernel)
    before, permitted = counted(), hits()[1]
    got = inside(RAN, "ping", "-c", "40", "-i", "0.05", "-W", "2", "10.0.6.2", check=False)
    expect("40 of 40 pings", " 40 received" in got, got)
    seen = ways(before)
    expect("but for the first ones they were translated in the kernel, both ways", min(seen) >= 35, f"{seen} {counted()}")
    expect("rules count there, too", hits()[1] - permitted == 40, f"{permitted} {show('acl')}")

    server = iperf3_serves(DN, "-B", "10.0.6.2")
    for name, options in (("TCP up", ()), ("TCP down", ("-R",))):
        before, total = counted(), sum(urr[f"{way}_packets"] for urr in show("sessions", "--ue", "10.60.0.1")["usage"]
                                       for way in ("up", "down"))
        end = json.loads(inside(RAN, "iperf3", "-c", "10.0.6.2", "-J", "-t", "3", *options, timeout=60, check=False))["end"]
        rate = end["sum_received"]["bits_per_second"]
        seen = ways(before)
        total = sum(urr[f"{way}_packets"] for urr in show("sessions", "--ue", "10.60.0.1")["usage"]
                    for way in ("up", "down")) - total
        expect(f"{name}: {rate / 1e6:.1f} Mbit/s, {sum(seen)} of {total} packets in the kernel",
               rate > 1e5 and sum(seen) > 0.8 * total, f"{end} {counted()}")
    server.send_signal(signal.SIGTERM)

    answers = start("ip", "netns", "exec", DN, sys.executable, "-uc", ANSWERS)
    time.sleep(0.5)
    before = counted()
    asks = start("ip", "netns", "exec", RAN, sys.executable, "-uc", ASKS)
    answered = asks.stdout.readline().strip()
    seen = ways(before)
    expect("a flow with timeouts of 2 s goes on for 8 s: all packets answered", answered == "80", answered)
    expect("in the kernel but for the first ones", min(seen) >= 70, f"{seen} {counted()}")
    wait_for("silent for longer, it has no mapping any more", lambda: show("nat")["mappings"] == 0, 6)
    answers.send_signal(signal.SIGTERM)
    whose = [line.split() for line in answers.communicate(timeout=10)[0].splitlines()]
    ends = {(address, port) for address, port, *_ in whose}
    expect("the server saw one public end", len(whose) == 80 and len(ends) == 1 and whose[0][0] == "203.0.113.1", whose)
    inside(DN, sys.executable, "-c", f"""
import socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("10.0.6.2", 7))
own.sendto(b"late", ("203.0.113.1", {whose[0][1]}))
""")
    late = asks.communicate(timeout=20)[0].strip()
    expect("what comes to that end then is nobody's", late == "nothing", late)

    before, denied = counted(), hits()[0]
    inside(RAN, sys.executable, "-c", """
import socket, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(50):
    own.sendto(b"x", ("10.0.6.2", 9))
    time.sleep(0.02)
""")
    expect("a rule that denies has seen 50 packets", hits()[0] - denied == 50, show("acl"))
    time.sleep(1)
    for child in (gnb,):
        child.send_signal(signal.SIGTERM)
    said = gnb.communicate(timeout=10)[0]
    seen = dict(pair.split("=") for pair in said.split())
    used = {way: sum(urr[f"{way}_packets"] for urr in show("sessions", "--ue", "10.60.0.1")["usage"]) for way in ("up", "down")}
    expect("usage downlink is what the gNB got, to the packet", int(seen["down"]) == used["down"], f"{said} {used}")
    expect("usage uplink is what the gNB sent but for what was denied", int(seen["up"]) - 50 == used["up"], f"{said} {used}")
    gateway_stops(upf)

within(120, (RAN, UPF, DN), main)
