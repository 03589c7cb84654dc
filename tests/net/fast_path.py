#!/usr/bin/env python3
"""The in-kernel path between real Linux hosts: a phone behind an independent gNB, a server in the data network.

    ran (a phone behind a gNB)             upf                      dn (a host in the data network)
    tun0 10.60.0.1 ─ gnb.py ─ ran0 10.0.3.100 ══ n3 10.0.3.1 ─ weir ─ n6 10.0.6.1 ══ dn0 10.0.6.2
    2001:db8:60:1::5                                                  fd00:6::1       fd00:6::2

Ports are AF_XDP's with fast_path = "only". What is usual goes through the kernel, what is not through the worker; usage
is what the gNB saw, to the packet; the session's rate is held.
usage: fast_path.py WEIR_BINARY CONFINE [TRANSPORT]     TRANSPORT: ipv4 ipv6; CONFINE: true, the helper opens ports, and the gateway runs in the namespace
of its ports, where their receive work is moderated; false: neither
"""
import json, os, re, signal, sys, tempfile, time

from lab import expect, gateway_runs, gateway_stops, inside, iperf3_serves, link, namespaces_with_lo, phone, run, start, wait_for, within

WEIR, CONFINE = sys.argv[1:3]
TRANSPORT = (sys.argv[3:] + ["ipv4"])[0]
GNB, N3 = ("10.0.3.100", "10.0.3.1") if TRANSPORT == "ipv4" else ("fd00:3::100", "fd00:3::1")
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-{os.getpid()}"
RAN, UPF, DN = f"{TAG}-ran", f"{TAG}-upf", f"{TAG}-dn"
RATE = 20e6
HERE_IS_UPF = CONFINE == "true"

def build():
    namespaces_with_lo((RAN, UPF, DN))
    link(RAN, "ran0", UPF, "n3")
    link(DN, "dn0", UPF, "n6")
    inside(RAN, "ip", "address", "add", "10.0.3.100/24", "dev", "ran0")
    inside(RAN, "ip", "address", "add", "fd00:3::100/64", "dev", "ran0", "nodad")
    inside(DN, "ip", "address", "add", "10.0.6.2/24", "dev", "dn0")
    inside(DN, "ip", "route", "add", "10.60.0.0/16", "via", "10.0.6.1")
    inside(DN, "ip", "address", "add", "fd00:6::2/64", "dev", "dn0", "nodad")
    inside(DN, "ip", "route", "add", "2001:db8:60::/48", "via", "fd00:6::1")
    for namespace, device in ((RAN, "ran0"), (DN, "dn0")):
        # A wire carries whole packets with whole checksums. An end takes redirected packets only with NAPI, which
        # generic receive offload brings.
        inside(namespace, "ethtool", "-K", device, "tso", "off", "gso", "off", "tx", "off", "gro", "on")

def config(folder):
    port = """
[[port]]
name = "{0}"
uri = "xdp:{0}?{1}copy=yes"
role = "{2}"
addresses = [{3}]
fast_path = "only"
"""
    netns = "" if HERE_IS_UPF else f"netns={UPF}&"
    text = f"""
gateway = "upf"
control_socket = "{folder}/weir.sock"
{port.format("n3", netns, "access", '"10.0.3.1/24", "fd00:3::1/64"')}
{port.format("n6", netns, "core", '"10.0.6.1/24", "fd00:6::1/64"')}
[process]
confine = {CONFINE}

[simulate]
ues = 100
ue_first = "10.60.0.1"
ue6_first = "2001:db8:60:1::"
teid_first = 0x1000
gnb_teid_first = 0x2000
gnbs = 1
gnb_first = "{GNB}"
churn_per_second = 0
ambr_down = "{RATE / 1e6:.0f} Mbit/s"

[[simulate.bearer]]
qfi = 9
"""
    path = f"{folder}/upf.toml"
    with open(path, "w") as file:
        file.write(text)
    return path


# A sender of small packets from the data network, as fast as it can for 3 s.
FLOOD = """
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
until = time.monotonic() + 3
while time.monotonic() < until:
    for _ in range(100):
        sender.sendto(b"x" * 64, ("10.60.0.1", 9))
"""

# A burst from the phone.
BURST = """
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(2000):
    sender.sendto(b"x" * 64, ("10.0.6.2", 9))
"""

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    place = ("ip", "netns", "exec", UPF) if HERE_IS_UPF else ()
    upf = gateway_runs("weir runs", (*place, WEIR, "run", config(folder)), f"{folder}/weir.sock")
    gnb = phone(RAN, GNB, N3, "2001:db8:60:1::5")

    def show(*what):
        return json.loads(run(WEIR, "show", "sessions", *what, "--json", "--socket", f"{folder}/weir.sock"))

    def counted():
        control = show().get("control", {})
        return {name: counter["value"] for name, counter in control.items()}

    def session():
        return show("--ue", "10.60.0.1")

    def used(way):
        return sum(urr[f"{way}_packets"] for urr in session()["usage"])

    def in_kernel():
        return session()["fast_path"] == "in the kernel"

    got = inside(RAN, "ping", "-c", "5", "-i", "0.2", "-W", "2", "10.0.6.2", check=False)
    expect("5 of 5 pings, the first ones waiting for ARP on both sides", " 5 received" in got, got)
    wait_for("the session is in the kernel", in_kernel)
    before = counted()
    got = inside(RAN, "ping", "-c", "20", "-i", "0.01", "-W", "2", "10.0.6.2", check=False)
    expect("20 of 20 pings", " 20 received" in got, got)
    after = counted()
    ways = [after.get(f"kernel_{way}_packets", 0) - before.get(f"kernel_{way}_packets", 0) for way in ("up", "down")]
    expect("they were forwarded in the kernel, both ways", ways == [20, 20], f"{before} {after} {session()}")

    got = inside(RAN, "ping", "-c", "3", "-i", "0.2", "-W", "2", "fd00:6::2", check=False)
    expect("pings in IPv6, the first one waiting for neighbours on both sides", " 3 received" in got, got)
    wait_for("the session is in the kernel again", in_kernel)
    before = counted()
    got = inside(RAN, "ping", "-c", "20", "-i", "0.01", "-W", "2", "fd00:6::2", check=False)
    expect("20 of 20 pings in IPv6", " 20 received" in got, got)
    after = counted()
    ways = [after.get(f"kernel_{way}_packets", 0) - before.get(f"kernel_{way}_packets", 0) for way in ("up", "down")]
    expect("they were forwarded in the kernel, both ways", ways == [20, 20], f"{before} {after} {session()}")

    def path():
        return json.loads(run(WEIR, "show", "run", "--json", "--socket", f"{folder}/weir.sock"))["kernel"]

    def pings_in():
        rows = [line.split() for line in inside(DN, "cat", "/proc/net/snmp").splitlines() if line.startswith("Icmp:")]
        return int(dict(zip(*rows))["InEchos"])

    # A veth without NAPI at its far end takes no redirected packet.
    inside(DN, "ethtool", "-K", "dn0", "gro", "off")
    before, seen, charged = path(), pings_in(), used("up")
    got = inside(RAN, "ping", "-c", "40", "-i", "0.01", "-W", "1", "10.0.6.2", check=False)
    inside(DN, "ethtool", "-K", "dn0", "gro", "on")
    again = inside(RAN, "ping", "-c", "20", "-i", "0.01", "-W", "2", "10.0.6.2", check=False)
    after, arrived, sent = path(), pings_in() - seen, used("up") - charged
    refused = {row["port"]: row["packets"] for row in after["refused"]}
    up = after["up_packets"] - before["up_packets"]
    expect("40 packets that the device did not take, and none of 20 later ones", " 0 received" in got and " 20 received" in again,
           got + again)
    expect("they are counted by port", refused == {"n3": 0, "n6": 40}, after)
    expect("what was forwarded less what was refused is what came", up - refused["n6"] == arrived == 20 and sent == up,
           (before, after, arrived, sent))
    expect("metrics name the reason", counted().get("kernel_dropped_egress_refused") == 40, counted())
    shown = run(WEIR, "show", "run", "--socket", f"{folder}/weir.sock")
    expect("so does weir show run", "egress_refused: 40 by n6" in shown, shown)

    def looks_each(ns):
        """How often the far end looks for packets: then what comes meanwhile has 256 places."""
        for name, value in (("napi_defer_hard_irqs", 1000 if ns else 0), ("gro_flush_timeout", ns)):
            inside(DN, "sh", "-c", f"echo {value} > /sys/class/net/dn0/{name}")

    def datagrams_in():
        rows = [line.split() for line in inside(DN, "cat", "/proc/net/snmp").splitlines() if line.startswith("Udp:")]
        counts = dict(zip(*rows))
        return int(counts["InDatagrams"]) + int(counts["NoPorts"])

    before, seen = path(), datagrams_in()
    looks_each(500_000_000)
    inside(RAN, sys.executable, "-c", BURST)
    time.sleep(1)
    looks_each(0)
    # What still waits there is looked at when another packet comes.
    inside(RAN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "10.0.6.2", check=False)
    after, arrived = path(), datagrams_in() - seen
    up = after["up_packets"] - before["up_packets"] - 2
    refused = sum(row["packets"] for row in after["refused"]) - sum(row["packets"] for row in before["refused"])
    expect(f"{refused} packets for which the device's ring was full, and {arrived} that came, are all that were forwarded",
           refused > 100 and up - refused == arrived, (before, after, arrived))

    server = iperf3_serves(DN, "-B", "10.0.6.2")

    def iperf(*options):
        for _ in range(20):
            text = inside(RAN, "iperf3", "-c", "10.0.6.2", "-J", *options, timeout=60, check=False)
            if "server is busy" not in text and "unable to connect to server" not in text:
                break
            time.sleep(0.5)
        return json.loads(text)["end"]

    for name, options in (("TCP up", ()), ("TCP down", ("-R",))):
        end = iperf("-t", "2", *options)
        rate = end["sum_received"]["bits_per_second"]
        expect(f"{name} carries traffic: {rate / 1e6:.1f} Mbit/s", rate > 1e5, end)
    before = counted()
    flood = start("ip", "netns", "exec", RAN, "iperf3", "-c", "10.0.6.2", "-t", "9", "-u", "-b", "60M", "-l", "1200", "-R")
    time.sleep(1)
    samples = []
    for _ in range(8):
        at, view = time.monotonic(), session()
        samples.append((at, sum(urr["down_bytes"] for urr in view["usage"])))
        time.sleep(0.9)
    flood.communicate(timeout=40)
    after = counted()
    dropped = after.get("kernel_dropped_session_rate", 0) - before.get("kernel_dropped_session_rate", 0)
    # Where the sender was kept from running the rate is not reached; above it is never.
    rates = [(to[1] - of[1]) * 8 / (to[0] - of[0]) for of, to in zip(samples, samples[2:])]
    print("  session rate in windows of 2 s:", ", ".join(f"{rate / 1e6:.2f}" for rate in rates), "Mbit/s", flush=True)
    # Over all of the time: the moment at which the gateway reads its counts is known to some ten milliseconds only.
    (begun, first), (ended, last) = samples[0], samples[-1]
    whole = (last - first) * 8 / (ended - begun)
    expect("the session's rate is held", 0.9 < whole / RATE < 1.02, f"{whole} {rates} {before} {after}")
    expect("what is above is dropped in the kernel under its name", dropped > 1000, f"{before} {after}")

    def waits():
        """How long received packets wait for others on N6, in nanoseconds."""
        return int(inside(UPF, "cat", "/sys/class/net/n6/gro_flush_timeout"))

    # Everything has arrived.
    time.sleep(1)
    up, down = used("up"), used("down")
    kernel = counted()
    share = (kernel["kernel_up_packets"] + kernel["kernel_down_packets"]) / (up + down)
    expect(f"{share:.1%} of {up + down} packets went through the kernel", share > 0.9, kernel)
    path = json.loads(run(WEIR, "show", "run", "--json", "--socket", f"{folder}/weir.sock"))["kernel"]
    ways = (path["up_packets"], path["down_packets"])
    expect("`weir show run` has it", ways == (kernel["kernel_up_packets"], kernel["kernel_down_packets"]), f"{path} {kernel}")
    print(f"  {path['sampled_ns'] / path['sampled_packets']:.0f} ns a packet in its program", flush=True)
    for child in (server, gnb):
        child.send_signal(signal.SIGTERM)
    said = gnb.communicate(timeout=10)[0]
    seen = dict(pair.split("=") for pair in said.split())
    expect("usage downlink is what the gNB got, to the packet", int(seen["down"]) == down, f"{said} {down} {kernel}")
    expect("usage uplink is what the gNB sent, to the packet", int(seen["up"]) == up, f"{said} {up} {kernel}")
    expect("the gNB saw nothing but its own tunnel", seen["wrong"] == "0", said)

    if HERE_IS_UPF:
        expect("at a few thousand packets a second none waits for others", waits() == 0, waits())
        flood = start("ip", "netns", "exec", DN, sys.executable, "-c", FLOOD)
        wait_for("at a high rate they wait for each other, at most half a ring", lambda: 10_000 <= waits() <= 90_000)
        flood.communicate(timeout=40)
        wait_for("after it none waits", lambda: waits() == 0)

    gnb = phone(RAN, GNB, N3, "2001:db8:60:1::5")
    got = inside(RAN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-s", "5000", "10.0.6.2", check=False)
    expect("a packet in fragments, by the worker", " 2 received" in got, got)
    got = inside(RAN, "ping", "-c", "1", "-W", "2", "-t", "1", "10.0.6.2", check=False)
    expect("TTL 1: time exceeded, by the worker", "10.0.6.1" in got and "exceeded" in got, got)
    wait_for("the session is in the kernel again", in_kernel)
    got = inside(RAN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-I", "ran0", N3, check=False)
    expect("the gateway answers pings on N3", " 2 received" in got, got)
    gnb.send_signal(signal.SIGTERM)
    gnb.communicate(timeout=10)
    gateway_stops(upf)
    if HERE_IS_UPF:
        expect("nothing is left of it", waits() == 0, waits())

within(120, (RAN, UPF, DN), main)
