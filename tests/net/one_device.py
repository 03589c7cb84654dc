#!/usr/bin/env python3
"""N3 and N6 as two VLANs of one network card, or in one subnet without tags: real Linux hosts on both.

    ran (a phone behind a gNB)             a switch                 upf
    tun0 10.60.0.1 ─ gnb.py ─ ran0 10.0.3.100 ══ ran1 (VLAN 30) ┐
                                                 vlan_switch.py ├ trunk ══ eth0 ─ weir: n3 10.0.3.1, n6 10.0.6.1
                                  dn0 10.0.6.2 ══ dn1 (VLAN 60) ┘
    dn (a host in the data network)

In mode `link` neither has a VLAN, n6 is 10.0.3.2 and dn0 10.0.3.200. In mode `kernel` known sessions are forwarded in the kernel,
out of the interface they came in by. With `take-over` sessions are a control plane's, and another process goes on for the first.
usage: one_device.py WEIR_BINARY MODE [take-over]     MODE: packet xdp kernel link
"""
import json, os, signal, struct, sys, tempfile, time

from lab import expect, gateway_runs, inside, iperf3_serves, link, namespaces_with_lo, run, start, wait_for, within

WEIR, MODE = sys.argv[1:3]
TAKE_OVER = sys.argv[3:] == ["take-over"]
NODE, CORE = "127.9.9.1", "127.9.9.2"
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-{os.getpid()}"
RAN, SW, UPF, DN = (f"{TAG}-{name}" for name in ("ran", "sw", "upf", "dn"))
ONE_LINK, KERNEL = MODE == "link", MODE == "kernel"
N3, N6, SERVER = ("10.0.3.1", "10.0.3.2", "10.0.3.200") if ONE_LINK else ("10.0.3.1", "10.0.6.1", "10.0.6.2")
N6_6, SERVER_6 = ("fd00:3::2", "fd00:3::200") if ONE_LINK else ("fd00:6::1", "fd00:6::2")

def build():
    namespaces_with_lo((RAN, SW, UPF, DN))
    link(RAN, "ran0", SW, "ran1")
    link(DN, "dn0", SW, "dn1")
    link(SW, "trunk", UPF, "eth0", "mtu", "1600")
    for namespace, device, *addresses in ((RAN, "ran0", "10.0.3.100/24", "fd00:3::100/64"),
                                          (DN, "dn0", f"{SERVER}/24", f"{SERVER_6}/64")):
        for address in addresses:
            inside(namespace, "ip", "address", "add", address, "dev", device)
        # A wire carries whole packets with whole checksums, and so does the switch.
        inside(namespace, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off", "tx", "off", check=False)
    inside(DN, "ip", "route", "add", "10.60.0.0/16", "via", N6)
    inside(DN, "ip", "route", "add", "2001:db8:60::/48", "via", N6_6)
    for device in ("trunk", "ran1", "dn1"):
        # What the switch receives is what was on the wire; and a trunk takes redirected packets only with NAPI, which
        # generic receive offload brings.
        on = "on" if device == "trunk" and KERNEL else "off"
        inside(SW, "ethtool", "-K", device, "gro", on, "txvlan", "off", "rxvlan", "off", check=False)
        inside(SW, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
    inside(UPF, "ethtool", "-K", "eth0", "txvlan", "off", "rxvlan", "off", check=False)

def switch():
    vlans = (0, 0) if ONE_LINK else (30, 60)
    child = start("ip", "netns", "exec", SW, sys.executable, f"{HERE}/vlan_switch.py", "--trunk", "trunk",
                  "--access", f"ran1:{vlans[0]}", "--access", f"dn1:{vlans[1]}")
    if child.stdout.readline().strip() != "ready":
        raise SystemExit(f"the switch does not start: {child.stdout.read()}")
    return child

def config(folder):
    uri = f"packet:eth0?netns={UPF}" if MODE in ("packet", "link") else f"xdp:eth0?netns={UPF}&copy=yes"
    vlan = lambda id: "" if ONE_LINK else f"vlan = {id}\n"
    text = f"""
gateway = "upf"
control_socket = "{folder}/weir.sock"

[[port]]
name = "n3"
uri = "{uri}"
role = "access"
mtu = 1500
{vlan(30)}addresses = ["{N3}/24", "fd00:3::1/64"]
{'fast_path = "only"' if KERNEL else ""}

[[port]]
name = "n6"
on = "n3"
role = "core"
mtu = 1400
{vlan(60)}addresses = ["{N6}/24", "{N6_6}/64"]

{f'[n4]{chr(10)}address = "{NODE}"{chr(10)}allow = ["127.0.0.0/8"]' if TAKE_OVER else SIMULATED}
"""
    path = f"{folder}/upf.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

SIMULATED = """
[simulate]
ues = 100
ue_first = "10.60.0.1"
ue6_first = "2001:db8:60:1::"
teid_first = 0x1000
gnb_teid_first = 0x2000
gnbs = 1
gnb_first = "10.0.3.100"
churn_per_second = 0

[[simulate.bearer]]
qfi = 9
"""

def control_plane(folder):
    """A control plane with the phone's session."""
    with open(f"{folder}/cp.toml", "w") as file:
        file.write(f"""
upf = "{NODE}"
address = "{CORE}"
kind = "smf"
sessions = 1
rate = 10
[profile]
ue_first = "10.60.0.1"
upf_n3 = "{N3}"
teid_first = 0x1000
gnbs = 1
gnb_first = "10.0.3.100"
gnb_teid_first = 0x2000
qfi = 9
""")
    return start(WEIR, "cp", f"{folder}/cp.toml")

def phone():
    gnb = start("ip", "netns", "exec", RAN, sys.executable, f"{HERE}/gnb.py", "--local", "10.0.3.100", "--upf", N3,
                "--teid", "0x1000", "--gnb-teid", "0x2000")
    if gnb.stdout.readline().strip() != "ready":
        raise SystemExit(f"the gNB does not start: {gnb.stdout.read()}")
    for command in (("link", "set", "tun0", "mtu", "1456", "up"), ("address", "add", "10.60.0.1/32", "dev", "tun0"),
                    ("-6", "address", "add", "2001:db8:60:1::5/64", "dev", "tun0", "nodad")):
        inside(RAN, "ip", *command)
    # By a table of the phone's own: in one subnet the server is a neighbour of the gNB's.
    inside(RAN, "ip", "rule", "add", "from", "10.60.0.1", "table", "60")
    inside(RAN, "ip", "route", "add", "default", "dev", "tun0", "table", "60")
    inside(RAN, "ip", "-6", "rule", "add", "from", "2001:db8:60:1::5", "table", "60")
    inside(RAN, "ip", "-6", "route", "add", "default", "dev", "tun0", "table", "60")
    return gnb

def foreign_frame():
    """A frame to everybody, of a VLAN that nobody has."""
    arp = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, b"\x02\0\0\0\0\x09", bytes((10, 0, 3, 9)), bytes(6), bytes((10, 0, 3, 1)))
    frame = b"\xff" * 6 + b"\x02\0\0\0\0\x09" + struct.pack("!HHH", 0x8100, 77, 0x0806) + arp
    code = ("import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('trunk', 0)); "
            f"[s.send(bytes.fromhex('{frame.hex()}')) for _ in range(3)]")
    inside(SW, sys.executable, "-c", code)

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    between = switch()
    path = config(folder)
    command = (WEIR, "run", path)
    upf = gateway_runs(f"weir runs ({MODE})", command, f"{folder}/weir.sock")
    gnb = phone()

    def show(*what):
        return json.loads(run(WEIR, "show", *what, "--json", "--socket", f"{folder}/weir.sock"))

    def pings(count, to=SERVER, *options):
        how = ("-I", "10.60.0.1") if ":" not in to else ("-I", "2001:db8:60:1::5")
        return inside(RAN, "ping", "-c", str(count), "-i", "0.02", "-W", "2", *how, *options, to, check=False)

    got = inside(RAN, "ping", "-c", "5", "-i", "0.2", "-W", "2", "-I", "10.60.0.1", SERVER, check=False)
    expect("5 of 5 pings, the first ones waiting for ARP on both sides", " 5 received" in got, got)
    got = inside(RAN, "ping", "-c", "5", "-i", "0.2", "-W", "2", "-I", "2001:db8:60:1::5", SERVER_6, check=False)
    expect("and in IPv6", " 5 received" in got, got)
    for namespace, to in ((RAN, N3), (RAN, "fd00:3::1"), (DN, N6), (DN, N6_6)):
        got = inside(namespace, "ping", "-c", "2", "-i", "0.2", "-W", "2", to, check=False)
        expect(f"{to} answers pings on its side", " 2 received" in got, got)
    if not ONE_LINK:
        got = inside(RAN, "ping", "-c", "1", "-W", "1", N6, check=False)
        expect("the core's address does not answer on the access side", " 0 received" in got or "unreachable" in got, got)

    if KERNEL:
        in_kernel = lambda: show("sessions", "--ue", "10.60.0.1")["fast_path"] == "in the kernel"
        kernel = lambda: show("run")["kernel"]
        wait_for("the session is in the kernel", in_kernel)
        for to, name in ((SERVER, "IPv4"), (SERVER_6, "IPv6")):
            before = kernel()
            got = pings(20, to)
            after = kernel()
            ways = [after[f"{way}_packets"] - before[f"{way}_packets"] for way in ("up", "down")]
            expect(f"20 of 20 pings in {name}, forwarded in the kernel both ways", " 20 received" in got and ways == [20, 20],
                   (got, before, after, show("sessions", "--ue", "10.60.0.1")))
            wait_for("the session is in the kernel", in_kernel)
        # A trunk without NAPI takes no redirected packet: what leaves by the interface it came in by is lost, and counted.
        inside(SW, "ethtool", "-K", "trunk", "gro", "off")
        before = kernel()
        got = pings(30, SERVER, "-W", "1")
        inside(SW, "ethtool", "-K", "trunk", "gro", "on")
        after = kernel()
        refused = sum(row["packets"] for row in after["refused"]) - sum(row["packets"] for row in before["refused"])
        up = after["up_packets"] - before["up_packets"]
        expect("what the interface does not take back is counted", " 0 received" in got and refused == up == 30, (got, before, after))

    before = show("ports")
    got = pings(20)
    after = show("ports")
    expect("20 of 20 pings", " 20 received" in got, got)
    rows = {row["name"]: row for row in after}
    expect("both ports are shown, one on the other's device", rows["n6"]["detail"] == "on n3" and rows["n6"]["mac"] == rows["n3"]["mac"]
           and rows["n6"]["interface"] == rows["n3"]["interface"], after)
    if not KERNEL:
        counted = lambda rows, name, key: next(row["counters"][key] for row in rows if row["name"] == name)
        for name in ("n3", "n6"):
            ways = [counted(after, name, key) - counted(before, name, key) for key in ("rx_packets", "tx_packets")]
            expect(f"{name} counts its own packets: {ways}", all(20 <= way <= 24 for way in ways), (before, after))

    got = inside(RAN, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-M", "do", "-s", "1400", "-I", "10.60.0.1", SERVER, check=False)
    expect("a packet that is too big for the core alone: its MTU is told", "mtu = 1400" in got or "mtu=1400" in got, got)

    if not ONE_LINK:
        def foreign():
            return sum(drop["packets"] for worker in show("run")["workers"] for drop in worker["drops"] if drop["reason"] == "wrong_vlan")
        before = foreign()
        foreign_frame()
        wait_for("frames of another VLAN are dropped by name", lambda: foreign() - before == 3)

    server = iperf3_serves(DN, "-B", SERVER)
    for name, options in (("up", ()), ("down", ("-R",))):
        # The server may still be putting the last test away.
        for _ in range(20):
            text = inside(RAN, "iperf3", "-c", SERVER, "-B", "10.60.0.1", "-t", "2", "-M", "1300", "-J", *options, timeout=60, check=False)
            if "server is busy" not in text:
                break
            time.sleep(0.5)
        try:
            rate = json.loads(text)["end"]["sum_received"]["bits_per_second"]
        except (ValueError, KeyError):
            raise SystemExit(text)
        expect(f"TCP {name} carries traffic: {rate / 1e6:.1f} Mbit/s", rate > 1e5, text)
    server.send_signal(signal.SIGTERM)

    gateway_stops_with(upf, gnb, between)

def take_over():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    between = switch()
    command = (WEIR, "run", config(folder))
    upf = gateway_runs(f"weir runs ({MODE})", command, f"{folder}/weir.sock")
    core = control_plane(folder)
    gnb = phone()
    show = lambda *what: json.loads(run(WEIR, "show", *what, "--json", "--socket", f"{folder}/weir.sock"))
    ping = lambda count: ("ping", "-c", str(count), "-i", "0.02", "-W", "2", "-I", "10.60.0.1", SERVER)
    wait_for("the phone reaches the server", lambda: " 5 received" in inside(RAN, *ping(5), check=False))
    flow = start("ip", "netns", "exec", RAN, *ping(100))
    time.sleep(0.5)
    second = start(*command, "--take-over")
    for _ in range(100):
        if upf.poll() is not None or second.poll() is not None:
            break
        time.sleep(0.1)
    if upf.poll() is None:
        second.kill()
        expect("another process takes over", False, second.communicate()[0])
    # Its helper, which is the second one's now, keeps the pipe open.
    said = os.read(upf.stdout.fileno(), 1 << 20).decode()
    expect("another process takes over", upf.returncode == 0 and "take_over_done" in said, (said, second.poll()))
    got = flow.communicate(timeout=20)[0]
    expect("no ping was lost meanwhile", " 100 received" in got, got)
    rows = {row["name"]: row["detail"] for row in show("ports")}
    expect("its ports are the same", rows["n6"] == "on n3", rows)
    core.send_signal(signal.SIGTERM)
    gateway_stops_with(second, gnb, between)

def gateway_stops_with(upf, gnb, between):
    for child in (gnb, between):
        child.send_signal(signal.SIGTERM)
    said = between.communicate(timeout=10)[0]
    seen = dict(pair.split("=") for pair in said.split())
    expect(f"the switch saw no frame of another VLAN: {said.strip()}", seen["other_vlans"] == "0", said)
    upf.send_signal(signal.SIGTERM)
    said = upf.communicate(timeout=20)[0]
    expect("weir stops in good order, and nothing is missing", upf.returncode == 0 and "MISSING" not in said
           and said.count("0 missing") == 2, said)

within(150, (RAN, SW, UPF, DN), take_over if TAKE_OVER else main)
