#!/usr/bin/env python3
"""A real Linux host behind two VLAN tags and one in the core, with a broadband gateway that forwards in the kernel.

    sub (a subscriber)                            gw               dn (a host of the core)
    tun0 100.64.0.10 ─ ipoe.py ─ sub0 ══ acc ─ weir ─ core 198.18.0.1 ══ dn0 198.18.0.2

Ports are AF_XDP's with fast_path = "only". What is usual goes through the kernel, what is not through the worker; usage is
what the subscriber's side saw, to the packet; the tier's rate is held; a denied port is denied in the kernel; a reload
changes tier and list while packets flow.
usage: bng_fast_path.py WEIR_BINARY
"""
import json, os, signal, sys, tempfile, time

from lab import (broadband_config, broadband_links, expect, gateway_runs, gateway_stops, inside, iperf3_serves, ping, run, start, wait_for,
                 within)

WEIR = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-bfast-{os.getpid()}"
SUB, GW, DN = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn"
RATE = 20e6

def config(folder, rate=RATE, denied=7777):
    safe = f'acl = [ {{ name = "safe", default = "permit", rules = ["deny in udp from any to any port {denied}"] }} ]\n'
    profile = f'{{ name = "home", up = "50 Mbit/s", down = "{rate / 1e6:.0f} Mbit/s", acl = "safe" }}'
    text = broadband_config(f"{folder}/weir.sock", lambda name: f"xdp:{name}?netns={GW}&copy=yes", profile,
                            {"fast_path": "only"}, head=safe) + """
[[subscriber]]
name = "house"
group = "pon"
count = 2
c_vlan = 7
ipv4 = "100.64.0.10"
ipv6_wan = "2001:db8:100::"
ipv6_pd = "2001:db8:4000::/56"
"""
    path = f"{folder}/bng.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

def subscriber():
    sub = start("ip", "netns", "exec", SUB, sys.executable, f"{HERE}/ipoe.py", "--interface", "sub0", "--mac",
                "02:ca:00:00:00:01", "--s-vlan", "100", "--c-vlan", "7", "--tpid", "0x88a8", "--address", "100.64.0.10",
                "--gateway", "100.64.0.1")
    said = sub.stdout.readline().strip()
    expect("the virtual hardware address answers ARP", said == "ready 02:00:5e:00:01:01", said)
    for command in (("link", "set", "tun0", "mtu", "1500", "up"), ("address", "add", "100.64.0.10/32", "dev", "tun0"),
                    ("address", "add", "2001:db8:100::2/64", "dev", "tun0", "nodad"),
                    ("address", "add", "2001:db8:4000:12::2/128", "dev", "tun0", "nodad"),
                    ("route", "add", "default", "dev", "tun0"), ("-6", "route", "add", "default", "dev", "tun0")):
        inside(SUB, "ip", *command)
    return sub

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    path = config(folder)
    socket_path = f"{folder}/weir.sock"
    # AF_XDP is not told which checksums are to be completed; nor is a packet that is redirected.
    broadband_links(SUB, GW, DN, "tx", "off", "gro", "on")
    inside(SUB, "ethtool", "-K", "sub0", "gro", "on")
    gateway = gateway_runs("weir runs", (WEIR, "run", path), socket_path)
    sub = subscriber()

    def show(*what):
        return json.loads(run(WEIR, "show", *what, "--json", "--socket", socket_path))

    def house():
        shown = run(WEIR, "subscriber", "house1", "show", "--json", "--socket", socket_path)
        return json.loads(shown)["subscribers"]["subscribers"][0]

    def counted():
        return {row["name"]: row["count"] for row in show("groups")["groups"]["kernel"]}

    def in_kernel():
        return house()["fast_path"] == "in the kernel"

    def both_ways(before, after):
        return [after.get(f"kernel_{way}_packets", 0) - before.get(f"kernel_{way}_packets", 0) for way in ("up", "down")]

    ping(SUB, "-c", "2", "198.18.0.2")
    wait_for("the subscriber is in the kernel", in_kernel)
    for name, options in (("IPv4", ("198.18.0.2",)), ("the WAN prefix", ("-I", "2001:db8:100::2", "fd00:18::2")),
                          ("the delegated prefix", ("-I", "2001:db8:4000:12::2", "fd00:18::2"))):
        ping(SUB, "-c", "2", *options)
        wait_for("it is in the kernel", in_kernel)
        before = counted()
        got = inside(SUB, "ping", "-c", "20", "-i", "0.01", "-W", "2", *options, check=False)
        expect(f"20 of 20 pings from {name}", " 20 received" in got, got)
        ways = both_ways(before, counted())
        expect("they were forwarded in the kernel, both ways", ways == [20, 20], f"{ways} {before} {counted()} {house()}")

    inside(SUB, "ip", "address", "add", "100.64.0.99/32", "dev", "tun0")
    got = ping(SUB, "-c", "2", "-W", "1", "-I", "100.64.0.99", "198.18.0.2")
    expect("another's address gets nowhere", " 0 received" in got, got)
    expect("and is counted in the kernel", counted().get("kernel_dropped_spoofed_source", 0) >= 2, counted())

    server = iperf3_serves(DN, "-B", "198.18.0.2")

    def iperf(*options, namespace=SUB):
        for _ in range(20):
            text = inside(namespace, "iperf3", "-c", "198.18.0.2", "-J", *options, timeout=60, check=False)
            if "server is busy" not in text and "unable to connect to server" not in text:
                break
            time.sleep(0.5)
        return json.loads(text)["end"]

    for name, options in (("TCP up", ()), ("TCP down", ("-R",))):
        end = iperf("-t", "2", *options)
        rate = end["sum_received"]["bits_per_second"]
        expect(f"{name} carries traffic: {rate / 1e6:.1f} Mbit/s", rate > 1e5, end)

    def rate_under_flood():
        flood = start("ip", "netns", "exec", SUB, "iperf3", "-c", "198.18.0.2", "-t", "7", "-u", "-b", "60M", "-l", "1200", "-R")
        time.sleep(1.5)
        samples = []
        for _ in range(5):
            samples.append((time.monotonic(), sum(house()["down_bytes"])))
            time.sleep(0.9)
        flood.communicate(timeout=40)
        (begun, first), (ended, last) = samples[0], samples[-1]
        return (last - first) * 8 / (ended - begun)

    before = counted()
    rate = rate_under_flood()
    after = counted()
    dropped = after.get("kernel_dropped_subscriber_rate", 0) - before.get("kernel_dropped_subscriber_rate", 0)
    expect(f"the tier's rate is held: {rate / 1e6:.2f} Mbit/s", 0.9 < rate / RATE < 1.02, f"{rate} {before} {after}")
    expect("what is above is dropped in the kernel under its name", dropped > 1000, f"{before} {after}")

    def send(port, count=5):
        program = f"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); " \
                  f"[s.sendto(b'x' * 64, ('198.18.0.2', {port})) for _ in range({count})]"
        inside(SUB, sys.executable, "-c", program)
        time.sleep(0.3)

    def denied():
        rules = show("groups")["groups"]["rules"]
        return sum(rule["packets"] for rule in rules if rule["rule"].startswith("deny"))

    wait_for("it is in the kernel", in_kernel)
    before = counted()
    send(7777)
    after = counted()
    there = after.get("kernel_dropped_acl_denied", 0) - before.get("kernel_dropped_acl_denied", 0)
    expect("the access list denies in the kernel, and its rule counts", there == 5 and denied() == 5,
           f"{before} {after} {denied()}")

    config(folder, rate=RATE / 2, denied=8888)
    said = run(WEIR, "reload", "--socket", socket_path)
    wait_for("it is in the kernel after a reload", in_kernel)
    before = counted()
    send(7777)
    send(8888, 7)
    after = counted()
    there = after.get("kernel_dropped_acl_denied", 0) - before.get("kernel_dropped_acl_denied", 0)
    expect("the new list is what denies, and its rule counts anew", there == 7 and denied() == 7,
           f"{said} {before} {after} {denied()}")
    rate = rate_under_flood()
    expect(f"the new rate is held: {rate / 1e6:.2f} Mbit/s", 0.9 < rate / (RATE / 2) < 1.02, rate)

    got = ping(SUB, "-c", "1", "-t", "1", "198.18.0.2")
    expect("TTL 1: time exceeded, by the worker", "100.64.0.1" in got and "exceeded" in got, got)
    got = ping(SUB, "-c", "2", "-s", "5000", "198.18.0.2")
    expect("packets in fragments, by the worker", " 2 received" in got, got)
    wait_for("it is in the kernel again", in_kernel)

    # Everything has arrived.
    time.sleep(1)
    view = house()
    down = sum(view["down_packets"])
    kernel = counted()
    share = (kernel["kernel_up_packets"] + kernel["kernel_down_packets"]) / (down + sum(view["up_packets"]))
    expect(f"{share:.1%} of its packets went through the kernel", share > 0.9, f"{kernel} {view}")
    path = show("run")["kernel"]
    ways = (path["up_packets"], path["down_packets"])
    expect("`weir show run` has it", ways == (kernel["kernel_up_packets"], kernel["kernel_down_packets"]), f"{path} {kernel}")
    print(f"  {path['sampled_ns'] / path['sampled_packets']:.0f} ns a packet in its program", flush=True)
    print(run(WEIR, "subscriber", "house1", "show", "--socket", socket_path), flush=True)

    server.send_signal(signal.SIGTERM)
    sub.send_signal(signal.SIGTERM)
    said = sub.communicate(timeout=10)[0]
    seen = dict(pair.split("=") for pair in said.split())
    expect("every frame to the subscriber had its tags", seen["wrong_tags"] == "0" and sub.returncode == 0, said)
    expect("usage to it is what it got, to the packet", int(seen["down"]) == down, f"{said} {down} {kernel}")
    gateway_stops(gateway)

within(110, NAMESPACES, main)
