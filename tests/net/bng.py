#!/usr/bin/env python3
"""A real Linux host behind two VLAN tags and one in the core, with a broadband gateway between them.

    sub (a subscriber)                            gw               dn (a host of the core)
    tun0 100.64.0.10 ─ ipoe.py ─ sub0 ══ acc ─ weir ─ core 198.18.0.1 ══ dn0 198.18.0.2

Nothing is told about hardware addresses but the subscriber's; everything is made here and removed at the end.
usage: bng.py WEIR_BINARY MODE TPID     MODE: plain mmsg ring slots xdp; TPID: 0x88a8 0x8100
"""
import json, os, signal, sys, tempfile, time

from lab import broadband_config, broadband_links, expect, gateway_runs, gateway_stops, inside, ping, run, start, within

WEIR, MODE, TPID = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-bng-{os.getpid()}"
SUB, GW, DN = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn"

def config(folder):
    kind, options = ("xdp", "") if MODE == "xdp" else ("packet", f"&promisc=on&mode={MODE}")
    text = broadband_config(f"{folder}/weir.sock", lambda name: f"{kind}:{name}?netns={GW}{options}",
                            '{ name = "home", up = "50 Mbit/s", down = "100 Mbit/s" }') + """
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
                "02:ca:00:00:00:01", "--s-vlan", "100", "--c-vlan", "7", "--tpid", TPID, "--address", "100.64.0.10",
                "--gateway", "100.64.0.1")
    said = sub.stdout.readline().strip()
    expect("the virtual hardware address answers ARP, with the tags that came", said == "ready 02:00:5e:00:01:01", said)
    for command in (("link", "set", "tun0", "mtu", "1500", "up"), ("address", "add", "100.64.0.10/32", "dev", "tun0"),
                    ("address", "add", "2001:db8:100::2/64", "dev", "tun0", "nodad"),
                    ("address", "add", "2001:db8:4000:12::2/128", "dev", "tun0", "nodad"),
                    ("route", "add", "default", "dev", "tun0"), ("-6", "route", "add", "default", "dev", "tun0")):
        inside(SUB, "ip", *command)
    return sub

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    # AF_XDP is not told which checksums are to be completed.
    broadband_links(SUB, GW, DN, *(["tx", "off"] if MODE == "xdp" else []))
    gateway = gateway_runs(f"weir runs ({MODE}, {TPID})", (WEIR, "run", config(folder)), f"{folder}/weir.sock")
    sub = subscriber()

    # The first packets of a destination on the link wait for nobody: they are dropped until ARP has answered.
    ping(SUB, "-c", "2", "198.18.0.2")
    got = ping(SUB, "-c", "5", "198.18.0.2")
    expect("5 of 5 pings to a host of the core", " 5 received" in got, got)
    ping(SUB, "-c", "2", "fd00:18::2")
    got = ping(SUB, "-c", "5", "-I", "2001:db8:100::2", "fd00:18::2")
    expect("5 of 5 pings from the WAN prefix", " 5 received" in got, got)
    got = ping(SUB, "-c", "5", "-I", "2001:db8:4000:12::2", "fd00:18::2")
    expect("5 of 5 pings from the delegated prefix", " 5 received" in got, got)
    got = ping(DN, "-c", "3", "100.64.0.10")
    expect("the core reaches the subscriber", " 3 received" in got, got)
    got = ping(SUB, "-c", "2", "100.64.0.1")
    expect("the default router answers", " 2 received" in got, got)
    got = ping(SUB, "-c", "2", "-s", "1472", "-M", "do", "198.18.0.2")
    expect("1500 bytes pass both ways", " 2 received" in got, got)
    got = ping(SUB, "-c", "1", "-t", "1", "198.18.0.2")
    expect("TTL 1: time exceeded, from the default router", "100.64.0.1" in got and "exceeded" in got, got)
    inside(SUB, "ip", "address", "add", "100.64.0.99/32", "dev", "tun0")
    got = ping(SUB, "-c", "2", "-W", "1", "-I", "100.64.0.99", "198.18.0.2")
    expect("another's address gets nowhere", " 0 received" in got, got)

    drops = run(WEIR, "show", "drops", "--json", "--socket", f"{folder}/weir.sock")
    expect("and is counted", "spoofed_source" in drops, drops)
    shown = run(WEIR, "show", "subscribers", "--json", "--filter", "name=house1", "--socket", f"{folder}/weir.sock")
    house = json.loads(shown)["entries"][0]
    expect("the subscriber's counters and hardware address are shown",
           house["mac"] == "02:ca:00:00:00:01" and house["up_packets"] > 20 and house["down_packets"] > 9, shown)
    trace = start(WEIR, "trace", "--subscriber", "house1", "--packets", "2", "--seconds", "10", "--socket", f"{folder}/weir.sock")
    time.sleep(0.5)
    ping(SUB, "-c", "2", "198.18.0.2")
    said = trace.communicate(timeout=20)[0]
    expect("a trace by the subscriber's name", "check_source" in said and "rewrite_l2" in said, said)

    sub.send_signal(signal.SIGTERM)
    said = sub.communicate(timeout=10)[0]
    expect("every frame to the subscriber had its tags", "wrong_tags=0" in said and sub.returncode == 0, said)
    gateway_stops(gateway)

within(80, NAMESPACES, main)
