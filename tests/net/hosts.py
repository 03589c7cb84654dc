#!/usr/bin/env python3
"""Real Linux hosts on both sides of a UPF: they ping, meet the MTU, and run iperf3.

    ran (a phone behind a gNB)             upf                      dn (a host in the data network)
    tun0 10.60.0.1 ─ gnb.py ─ ran0 10.0.3.100 ══ n3 10.0.3.1 ─ weir ─ n6 10.0.6.1 ══ dn0 10.0.6.2

Nothing is told about hardware addresses: both sides resolve them. Everything is made here and removed at the end.
In mode `tun` the data network is the UPF's own host: n6 is a TUN interface with the address 10.0.6.2, and weir's is
10.0.6.1 as ever.
usage: hosts.py WEIR_BINARY MODE TRANSPORT     MODE: plain mmsg ring slots xdp tun, or a port's URI
with {0} for the interface, {1} for its namespace, {2} for its PCI address; TRANSPORT: ipv4 ipv6
"""
import json, os, re, signal, sys, tempfile, time

from lab import expect, gateway_runs, gateway_stops, inside, iperf3_serves, link, namespaces_with_lo, phone, run, wait_for, within

WEIR, MODE, TRANSPORT = sys.argv[1:4]
GNB, N3 = ("10.0.3.100", "10.0.3.1") if TRANSPORT == "ipv4" else ("fd00:3::100", "fd00:3::1")
# The tunnel: IP, UDP, GTP-U with PDU session container.
OVERHEAD = (20 if TRANSPORT == "ipv4" else 40) + 8 + 16
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-{os.getpid()}"
TUN = MODE == "tun"
RAN, UPF = f"{TAG}-ran", f"{TAG}-upf"
DN = UPF if TUN else f"{TAG}-dn"
NAMESPACES = (RAN, UPF) if TUN else (RAN, UPF, DN)

devices = {"n6": "n6"}

def build():
    namespaces_with_lo(NAMESPACES)
    devices["n3"] = link(RAN, "ran0", UPF, "n3")
    if not TUN:
        devices["n6"] = link(DN, "dn0", UPF, "n6")
    inside(RAN, "ip", "address", "add", "10.0.3.100/24", "dev", "ran0")
    inside(RAN, "ip", "address", "add", "fd00:3::100/64", "dev", "ran0")
    if TUN:
        inside(DN, "ip", "tuntap", "add", "name", "n6", "mode", "tun")
        inside(DN, "ip", "link", "set", "n6", "up")
    dn0 = "n6" if TUN else "dn0"
    inside(DN, "ip", "address", "add", "10.0.6.2/24", "dev", dn0)
    inside(DN, "ip", "address", "add", "fd00:6::2/64", "dev", dn0, "nodad")
    inside(DN, "ip", "route", "add", "10.60.0.0/16", *(("dev", dn0) if TUN else ("via", "10.0.6.1")))
    inside(DN, "ip", "route", "add", "2001:db8:60::/48", *(("dev", dn0) if TUN else ("via", "fd00:6::1")))
    # A veth hands over what its sender left to hardware that is not there: segments not yet cut, half a checksum. A
    # wire never carries such packets; here the hosts must be told to cut them. Checksums are completed by ports that
    # the kernel tells of them, which is all but AF_XDP's.
    finish = ["tso", "off", "gso", "off"] + (["tx", "off"] if MODE.startswith("xdp") else [])
    for namespace, device in ((RAN, "ran0"),) if TUN else ((RAN, "ran0"), (DN, "dn0")):
        inside(namespace, "ethtool", "-K", device, *finish, check=False)

def config(folder):
    named = {"xdp": "xdp:{0}?netns={1}", "tun": "packet:{0}?netns={1}"}
    uri = MODE if ":" in MODE else named.get(MODE, "packet:{0}?netns={1}&mode=" + MODE)
    core = "tun:{0}?netns={1}" if TUN else uri
    text = f"""
gateway = "upf"
control_socket = "{folder}/weir.sock"

[[port]]
name = "n3"
uri = "{uri.format('n3', UPF, devices['n3'])}"
role = "access"
addresses = ["10.0.3.1/24", "fd00:3::1/64"]

[[port]]
name = "n6"
uri = "{core.format('n6', UPF, devices['n6'])}"
role = "core"
addresses = ["10.0.6.1/24", "fd00:6::1/64"]

[simulate]
ues = 100
ue_first = "10.60.0.1"
ue6_first = "2001:db8:60::"
teid_first = 0x1000
gnb_teid_first = 0x2000
gnbs = 1
gnb_first = "{GNB}"
churn_per_second = 0

[[simulate.bearer]]
qfi = 9

{os.environ.get("WEIR_TEST_CONFIG", "")}
"""
    path = f"{folder}/upf.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

def iperf(name, *options):
    # The server may still be putting the last test away: it says that it is busy, or resets the connection.
    for _ in range(20):
        text = inside(RAN, "iperf3", "-c", "10.0.6.2", "-t", "2", "-J", *options, timeout=40, check=False)
        if "server is busy" not in text and "unable to connect to server" not in text:
            break
        time.sleep(0.5)
    try:
        end = json.loads(text)["end"]
        total = end["sum_received"] if "sum_received" in end else end["sum"]
    except (ValueError, KeyError):
        raise SystemExit(f"iperf3 {name}: {text}")
    rate, loss = total["bits_per_second"] / 1e6, end.get("sum", {}).get("lost_percent", 0.0)
    print(f"  ok  iperf3 {name}: {rate:.0f} Mbit/s" + (f", {loss:.2f} % lost" if "-u" in options else ""), flush=True)
    return rate, loss

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    upf = gateway_runs(f"weir runs ({MODE})", (WEIR, "run", config(folder)), f"{folder}/weir.sock")
    # Real interfaces begin anew when a program is attached.
    for namespace, device in ((RAN, "ran0"), (DN, "n6" if TUN else "dn0"), (UPF, devices["n3"]), (UPF, devices["n6"])):
        if ":" in device:
            continue
        wait_for(f"{device} has its link", lambda: inside(namespace, "cat", f"/sys/class/net/{device}/carrier", check=False).strip() == "1")
    gnb = phone(RAN, GNB, N3, "2001:db8:60::1")

    got = inside(RAN, "ping", "-c", "5", "-i", "0.2", "-W", "2", "10.0.6.2", check=False)
    expect("5 of 5 pings, the first ones waiting for ARP on both sides", " 5 received" in got, got)
    got = inside(RAN, "ping", "-c", "5", "-i", "0.2", "-W", "2", "fd00:6::2", check=False)
    expect("5 of 5 pings over IPv6, after neighbour discovery", " 5 received" in got, got)
    got = inside(DN, "ping", "-c", "3", "-i", "0.2", "-W", "2", "10.60.0.1", check=False)
    expect("the data network reaches the phone", " 3 received" in got, got)
    got = inside(RAN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-s", "5000", "10.0.6.2", check=False)
    expect("a packet in fragments", " 2 received" in got, got)
    got = inside(DN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-M", "dont", "-s", "1472", "10.60.0.1", check=False)
    expect("1500 bytes to the phone, fragmented before the tunnel", " 2 received" in got, got)
    got = inside(DN, "ping", "-c", "2", "-i", "0.5", "-W", "1", "-M", "do", "-s", "1472", "10.60.0.1", check=False)
    expect(f"with DF set: fragmentation needed, mtu {1500 - OVERHEAD}", f"mtu = {1500 - OVERHEAD}" in got, got)
    got = inside(DN, "ping", "-6", "-c", "3", "-i", "0.5", "-W", "1", "-M", "do", "-s", "1452", "2001:db8:60::1", check=False)
    expect("over IPv6: packet too big, the same mtu", re.search(f"mtu ?= ?{1500 - OVERHEAD}", got), got)
    got = inside(RAN, "ping", "-c", "1", "-W", "2", "-t", "1", "10.0.6.2", check=False)
    expect("TTL 1: time exceeded, from the gateway", "10.0.6.1" in got and "exceeded" in got, got)
    got = inside(DN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "10.0.6.1", check=False)
    expect("the gateway answers pings on N6", " 2 received" in got, got)
    got = inside(RAN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-I", "ran0", N3, check=False)
    expect("the gateway answers pings on N3", " 2 received" in got, got)

    server = iperf3_serves(DN, "-B", "10.0.6.2")
    for name, options in (("TCP up", ()), ("TCP down", ("-R",))):
        rate, _ = iperf(name, *options)
        expect(f"{name} carries traffic", rate > 1, f"{rate} Mbit/s")
    for name, options in (("UDP up", ("-u", "-b", "5M", "-l", "1200")), ("UDP down", ("-u", "-b", "5M", "-l", "1200", "-R"))):
        rate, loss = iperf(name, *options)
        # A machine with other things to do pauses the sender or the Python gNB; a broken path loses most of it.
        expect(f"{name} loses next to nothing", rate > 0.2 and loss < 10, f"{rate} Mbit/s, {loss} %")

    ports = json.loads(run(WEIR, "show", "ports", "--json", "--socket", f"{folder}/weir.sock"))
    print("  ports:", ports, flush=True)
    drops = run(WEIR, "show", "drops", "--json", "--socket", f"{folder}/weir.sock")
    print("  drops:", re.sub(r"\s+", " ", drops)[:400], flush=True)
    for child in (server, gnb):
        child.send_signal(signal.SIGTERM)
    said = gnb.communicate(timeout=10)[0]
    expect("the gNB saw nothing but its own tunnel", "wrong=0" in said, said)
    gateway_stops(upf)
    expect("its socket is gone", not os.path.exists(f"{folder}/weir.sock"), folder)

within(100, NAMESPACES, main)
