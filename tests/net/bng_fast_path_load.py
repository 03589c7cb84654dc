#!/usr/bin/env python3
"""Subscribers by DHCP whose signed packets are forwarded in the kernel, each checked where it arrives.

    load (lines and a host of the core)                    gw
    weir gen broadband ─ line0 ══ acc ─ weir (fast_path = "only") ─ core 198.18.0.1 ══ core0 ─ the same

usage: bng_fast_path_load.py WEIR_BINARY PPS SECONDS MODE     MODE: only (in the kernel), off (by the worker)
"""
import json, os, sys, tempfile

from lab import broadband_config, expect, gateway_runs, gateway_stops, inside, link, namespaces_with_lo, run, within

WEIR, PPS, SECONDS, MODE = sys.argv[1:5]
TAG = f"weir-bload-{os.getpid()}"
LOAD, GW = f"{TAG}-load", f"{TAG}-gw"
SUBSCRIBERS = 200

def config(folder):
    path = f"{folder}/bng.toml"
    with open(path, "w") as file:
        head = ('acl = [ { name = "safe", default = "permit", rules = ["deny in udp from any to any port 19"] } ]\n'
                'route = [ { to = "0.0.0.0/0", via = "198.18.0.254" } ]\n')
        file.write(broadband_config(
            f"{folder}/weir.sock", lambda name: f"xdp:{name}?netns={GW}&copy=yes",
            '{ name = "home", up = "50 Mbit/s", down = "200 Mbit/s", acl = "safe" }', {"fast_path": MODE}, ["198.18.0.1/24"], head,
            s_vlans=100, c_vlans="2001-4000", ipv4=["100.64.0.0/20"], ipv6_wan=None, ipv6_pd=None, gateways=["100.64.0.1"],
        ) + "[group.sessions]\n")
    return path

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    namespaces_with_lo((LOAD, GW))
    for ours, theirs in (("line0", "acc"), ("core0", "core")):
        link(LOAD, ours, GW, theirs, "mtu", "1600")
        inside(LOAD, "ethtool", "-K", ours, "tso", "off", "gso", "off", "tx", "off", "gro", "on")
    gateway = gateway_runs(f"weir runs, fast_path = \"{MODE}\"", (WEIR, "run", config(folder)), f"{folder}/weir.sock")

    def show(*what):
        return json.loads(run(WEIR, "show", *what, "--json", "--socket", f"{folder}/weir.sock"))

    said = inside(LOAD, WEIR, "gen", "broadband", "--access", "packet:line0?promisc=on&offloads=keep", "--core",
                  "packet:core0?offloads=keep", "--subscribers", str(SUBSCRIBERS), "--pps", PPS, "--seconds", SECONDS,
                  "--json", "-", "--max-loss", "0.01", timeout=60)
    result = json.loads(said.strip().splitlines()[-1])
    kernel = show("run").get("kernel") or {}
    entries = show("subscribers", "--limit", "1000")["entries"]
    for way, other in (("up", "uplink"), ("down", "downlink")):
        seen = result[other]
        wrong = {key: seen[f"{key}_packets"] for key in ("reordered", "duplicated", "wrong_tags", "misdelivered", "corrupt")}
        expect(f"{other}: {seen['received_packets']} packets arrive in order, whole, with their tags; p50 "
               f"{seen['latency_us_p50']:.0f} µs, p99 {seen['latency_us_p99']:.0f} µs", not any(wrong.values()), seen)
        used = sum(entry[f"{way}_packets"] for entry in entries)
        expect("usage is what has passed", seen["received_packets"] <= used <= seen["sent_packets"], f"{used} {seen}")
        if MODE == "only":
            share = kernel[f"{way}_packets"] / used
            expect(f"{share:.1%} of it in the kernel", 0.95 < share <= 1, kernel)
    if kernel:
        print(f"  {kernel['sampled_ns'] / kernel['sampled_packets']:.0f} ns a packet in the program", flush=True)
    gateway_stops(gateway)

within(80, (LOAD, GW), main)
