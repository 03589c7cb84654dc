#!/usr/bin/env python3
"""FRR beside a gateway speaks BGP to FRR on a router of the core, through the gateway's core port.

    sub (a subscriber)                            gw                          dn (a router of the core: FRR, AS 65000)
    tun0 100.64.0.10 ─ ipoe.py ─ sub0 ══ acc ─ weir ─ core 198.18.0.1 ══════ dn0 198.18.0.2, 203.0.113.1 behind it
                                                 └──── core0 198.18.0.1
                                                 rt (FRR, AS 65001)

The interface core0 has the port's addresses and hardware address: what FRR sends by it leaves by the port. Everything is made
here and removed at the end.
usage: routing.py WEIR_BINARY CASE     CASE: bng upf cmts igp restart ecmp
"""
import json, os, re, shutil, signal, sys, tempfile

from lab import broadband_links, expect, gateway_runs, gateway_stops, inside, namespaces_with_lo, ping, run, start, wait_for, within

WEIR, CASE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-rt-{os.getpid()}"
SUB, GW, DN, RT = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn", f"{TAG}-rt"
FOLDER = tempfile.mkdtemp(prefix=TAG)
# FRR is a user of its own.
os.chmod(FOLDER, 0o755)
SOCKET = f"{FOLDER}/weir.sock"
FRR = "/usr/lib/frr"

BNG = """
gateway = "bng"
profile = [ { name = "home", up = "50 Mbit/s", down = "100 Mbit/s" } ]

[[group]]
name = "pon"
ports = ["acc"]
s_vlans = "100-101"
c_vlans = "1-100"
ipv4 = ["100.64.0.0/24"]
ipv6_wan = ["2001:db8:100::/56"]
ipv6_pd = [ { prefix = "2001:db8:4000::/48", length = 56 } ]
gateways = ["100.64.0.1", "fe80::1"]
mac = "02:00:5e:00:01:01"
profile = "home"
announce = true

[[subscriber]]
name = "house"
group = "pon"
c_vlan = 7
ipv4 = "100.64.0.10"
ipv6_wan = "2001:db8:100::"
ipv6_pd = "2001:db8:4000::/56"
"""

UPF = """
gateway = "upf"

[n4]
address = "{n4}"
allow = ["127.0.0.0/8"]
pool = [ { v4 = "100.64.0.0/24", v6 = "2001:db8:100::/56" } ]
"""

PORTS = """
control_socket = "{socket}"

[[port]]
name = "acc"
uri = "packet:acc?netns={gw}&promisc=on"
role = "access"
mtu = 1500
{acc}
[[port]]
name = "core"
uri = "packet:core?netns={gw}&promisc=on"
role = "core"
mtu = 1500
addresses = ["198.18.0.1/24", "fd00:18::1/64"]
host_interface = "{rt}/core0"
"""

PREFIXES = {
    "upf": ["100.64.0.0/24", "2001:db8:100::/56"],
    # 1,200 addresses from 10.64.0.1 on.
    "cmts": ["10.64.0.1 ", "10.64.0.128/25", "10.64.1.0/24", "10.64.2.0/23", "10.64.4.176 "],
}.get(CASE, ["100.64.0.0/24", "2001:db8:100::/56", "2001:db8:4000::/48"])

def cable():
    """The example, whose default route is BGP's to tell."""
    text = open(f"{HERE}/../../examples/cmts.toml").read()
    for old, new in (('uri = "packet:eth1?mode=tpacket2"', f'uri = "packet:core?netns={GW}&promisc=on"\nmtu = 1500\nhost_interface = "{RT}/core0"'),
                     ('uri = "packet:eth2?mode=tpacket2"', f'uri = "packet:acc?netns={GW}&promisc=on"'),
                     ('name = "nsi"', 'name = "core"'), ('"198.18.0.254/24"', '"198.18.0.1/24", "fd00:18::1/64"'),
                     ('gateway = "cmts"', f'gateway = "cmts"\ncontrol_socket = "{SOCKET}"'),
                     ('[[route]]\nto = "0.0.0.0/0"\nnext_hop = "198.18.0.1" ', "# ")):
        expect(f"the example has {old.splitlines()[0]}", old in text, text)
        text = text.replace(old, new)
    return text

def write(change=lambda text: text):
    if CASE == "cmts":
        with open(f"{FOLDER}/weir.toml", "w") as file:
            file.write(cable())
        return
    head, rest = (UPF if CASE == "upf" else BNG).split("\n[", 1)
    acc = 'addresses = ["10.0.3.1/24"]\n' if CASE == "upf" else ""
    rest = rest.replace("{n4}", f"127.9.{os.getpid() >> 8 & 255}.{os.getpid() & 255}")
    text = head + PORTS.format(socket=SOCKET, gw=GW, rt=RT, acc=acc) + "\n[" + rest
    with open(f"{FOLDER}/weir.toml", "w") as file:
        file.write(change(text))

def gateway():
    if os.path.exists(SOCKET):
        os.remove(SOCKET)
    return gateway_runs(f"weir runs ({CASE})", (WEIR, "run", f"{FOLDER}/weir.toml"), SOCKET)

BGP = """
frr defaults traditional
router bgp {own}
 bgp router-id {id}
 no bgp ebgp-requires-policy
 no bgp network import-check
 timers bgp 1 3
 neighbor {v4} remote-as {other}
 neighbor {v4} timers connect 1
 neighbor {v4} bfd
 neighbor {v6} remote-as {other}
 neighbor {v6} timers connect 1
 address-family ipv4 unicast
  no neighbor {v6} activate
{more4}
 address-family ipv6 unicast
  neighbor {v6} activate
{more6}
"""

IGP = {
    "ospfd": """
router ospf
 ospf router-id {id}
interface {interface}
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 4
""",
    "ospf6d": """
router ospf6
 ospf6 router-id {id}
exit
interface {interface}
 ipv6 ospf6 area 0
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
""",
    "isisd": """
router isis core
 net 49.0001.{system}.00
 is-type level-2-only
interface {interface}
 ip router isis core
 isis circuit-type level-2-only
 isis hello-interval 1
""",
}

def daemons(namespace, configs):
    folder = f"{FOLDER}/{namespace}"
    for daemon, text in configs.items():
        with open(f"{folder}/{daemon}.conf", "w") as file:
            file.write(text)
        more = ("--bfdctl", f"{folder}/bfdd.sock") if daemon == "bfdd" else ()
        child = start("ip", "netns", "exec", namespace, f"{FRR}/{daemon}", "-f", f"{folder}/{daemon}.conf", "-i", f"{folder}/{daemon}.pid",
                      "-z", f"{folder}/zserv.api", "--vty_socket", folder, "-P", "0", "--log", f"file:{folder}/{daemon}.log", *more)
        name = f"{daemon} of {'rt' if namespace == RT else 'dn'}"
        wait_for(f"{name} runs", lambda: os.path.exists(f"{folder}/{daemon}.vty") or child.poll() is not None)
        if child.poll() is not None:
            raise SystemExit(f"{name} has ended: {child.stdout.read()}")

def frr(namespace, own, other, router_id, v4, v6, more4, more6):
    """zebra, bfdd and bgpd in a namespace."""
    folder = f"{FOLDER}/{namespace}"
    os.mkdir(folder)
    shutil.chown(folder, "frr", "frr")
    config = BGP.format(own=own, other=other, id=router_id, v4=v4, v6=v6, more4=more4, more6=more6)
    daemons(namespace, {"zebra": "", "bfdd": "", "bgpd": config})

def vtysh(namespace, *commands):
    options = [option for command in commands for option in ("-c", command)]
    return inside(namespace, "vtysh", "--vty_socket", f"{FOLDER}/{namespace}", *options, check=False)

def sessions(namespace):
    """Neighbours whose session is up, by address."""
    try:
        seen = json.loads(vtysh(namespace, "show bgp summary json"))
    except ValueError:
        return {}
    return {address for family in seen.values() for address, peer in family["peers"].items() if peer["state"] == "Established"}

def kernel(namespace, family="-4"):
    return inside(namespace, "ip", family, "route", check=False)

def routes():
    return json.loads(run(WEIR, "show", "routes", "--json", "--socket", SOCKET))

def learnt(prefix):
    return [route for route in routes()["routes"] if route["prefix"] == prefix and route["source"] == "bgp"]

def reload(change):
    write(change)
    return run(WEIR, "reload", "--socket", SOCKET)

def begin():
    broadband_links(SUB, GW, DN)
    namespaces_with_lo([RT])
    # Routes to subscribers are BGP's to tell.
    inside(DN, "ip", "route", "del", "100.64.0.0/16")
    inside(DN, "ip", "-6", "route", "del", "2001:db8::/32")
    inside(DN, "ip", "address", "add", "203.0.113.1/32", "dev", "lo")
    inside(DN, "ip", "address", "add", "2001:db8:ffff::1/128", "dev", "lo")
    inside(DN, "sysctl", "-qw", "net.ipv4.conf.all.forwarding=1")

def speak():
    frr(DN, 65000, 65001, "198.18.0.2", "198.18.0.1", "fd00:18::1",
        "  network 203.0.113.0/24\n  neighbor 198.18.0.1 default-originate", "  network 2001:db8:ffff::/48")
    frr(RT, 65001, 65000, "198.18.0.1", "198.18.0.2", "fd00:18::2", "  redistribute kernel", "  redistribute kernel")
    wait_for("BGP sessions over IPv4 and IPv6 are up on both sides",
             lambda: sessions(RT) == {"198.18.0.2", "fd00:18::2"} and sessions(DN) == {"198.18.0.1", "fd00:18::1"}, 40)

def announced(there, what):
    def look():
        seen = kernel(DN) + kernel(DN, "-6")
        return seen if all((prefix in seen) == there for prefix in PREFIXES) else ""
    wait_for(what, look)

def subscriber():
    sub = start("ip", "netns", "exec", SUB, sys.executable, f"{HERE}/ipoe.py", "--interface", "sub0", "--mac",
                "02:ca:00:00:00:01", "--s-vlan", "100", "--c-vlan", "7", "--tpid", "0x88a8", "--address", "100.64.0.10",
                "--gateway", "100.64.0.1")
    said = sub.stdout.readline().strip()
    expect("a subscriber is there", said == "ready 02:00:5e:00:01:01", said)
    for command in (("link", "set", "tun0", "mtu", "1500", "up"), ("address", "add", "100.64.0.10/32", "dev", "tun0"),
                    ("address", "add", "2001:db8:100::2/64", "dev", "tun0", "nodad"),
                    ("route", "add", "default", "dev", "tun0"), ("-6", "route", "add", "default", "dev", "tun0")):
        inside(SUB, "ip", *command)

def reaches(to):
    ping(SUB, "-c", "2", to)
    got = ping(SUB, "-c", "5", to)
    expect(f"5 of 5 pings to {to}, by learnt routes both ways", " 5 received" in got, got)

def exchanged():
    """What both sides have of each other."""
    announced(True, "the core router has routes to the gateway's prefixes")
    for prefix in ("203.0.113.0/24", "0.0.0.0/0", "2001:db8:ffff::/48"):
        found = wait_for(f"the gateway has {prefix} from BGP", lambda: [route for route in learnt(prefix) if route["is_resolved"]])
        expect("by the core port", found[0]["port"] == "core", found)
    shown = run(WEIR, "show", "routes", "--socket", SOCKET)
    expect("weir show routes tells where each is from", re.search(r"203\.0\.113\.0/24 +198\.18\.0\.2 +core +bgp", shown) is not None
           and re.search(r"\d/24 +\S+core0", shown) is not None, shown)
    print(shown)

def interface():
    seen = inside(RT, "ip", "address", "show", "core0")
    mac = inside(GW, "cat", "/sys/class/net/core/address").strip()
    expect("core0 has the port's addresses and hardware address",
           all(text in seen for text in (mac, "198.18.0.1/24", "fd00:18::1/64")), seen)

def withdrawn_by_core():
    vtysh(DN, "configure terminal", "router bgp 65000", "address-family ipv4 unicast", "no network 203.0.113.0/24",
          "no neighbor 198.18.0.1 default-originate")
    wait_for("what the core withdraws is the gateway's no more", lambda: not learnt("203.0.113.0/24") and not learnt("0.0.0.0/0"))

def bng():
    begin()
    write()
    child = gateway()
    interface()
    subscriber()
    speak()
    exchanged()
    reaches("203.0.113.1")
    reaches("2001:db8:ffff::1")
    up = wait_for("BFD is up, too", lambda: [peer for peer in json.loads(vtysh(RT, "show bfd peers json") or "[]") if peer["status"] == "up"])
    expect("with the core router", up[0]["peer"] == "198.18.0.2", up)
    got = inside(RT, "ping", "-c", "2", "198.18.0.2", check=False)
    expect("the routing daemon's host pings the core router", " 2 received" in got, got)
    got = ping(DN, "-c", "2", "198.18.0.1")
    expect("the gateway itself answers the core router", " 2 received" in got and "DUP" not in got, got)

    # A group is taken out of routing, and comes back.
    said = reload(lambda text: text.replace("announce = true", "announce = false"))
    expect("reload applies it", "announce" in said and "restart" not in said, said)
    announced(False, "its prefixes are withdrawn")
    reload(lambda text: text.replace('ipv4 = ["100.64.0.0/24"]', 'ipv4 = ["100.64.0.0/24", "100.65.0.0/24"]'))
    announced(True, "and announced again")
    wait_for("with a slice that was added", lambda: "100.65.0.0/24" in kernel(DN))
    reload(lambda text: text)
    wait_for("which goes with the slice", lambda: "100.65.0.0/24" not in kernel(DN))
    reaches("203.0.113.1")

    withdrawn_by_core()
    shown = routes()["routes"]
    expect("connected routes stay", any(route["source"] == "connected" for route in shown), shown)
    got = ping(SUB, "-c", "2", "-W", "1", "203.0.113.1")
    expect("its subscribers are told so", " 0 received" in got and "Unreachable" in got, got)
    drops = run(WEIR, "show", "drops", "--json", "--socket", SOCKET)
    expect("by name", "no_route" in drops and "host_refused" not in drops, drops)
    sent = routes()["from_host"]
    expect("frames of the daemon are counted", sent["sent_packets"] > 50 and sent["limited_packets"] == 0, sent)
    gateway_stops(child)
    announced(False, "a gateway that ends is withdrawn")

def upf():
    begin()
    write()
    child = gateway()
    interface()
    speak()
    exchanged()
    withdrawn_by_core()
    if CASE == "upf":
        found = lambda: learnt("2001:db8:ffff::/48")
        expect("a route is left", found(), routes())
        inside(RT, "ip", "link", "del", "core0")
        wait_for("which goes with the interface, when somebody removes that", lambda: not found())
    gateway_stops(child)
    announced(False, "a gateway that ends is withdrawn")

cmts = upf

def igp():
    """The interior protocols: multicast and unicast of OSPF, frames of IS-IS that are no IP."""
    begin()
    write()
    child = gateway()
    for namespace, interface_, router_id, system in ((RT, "core0", "198.18.0.1", "0000.0000.0001"), (DN, "dn0", "198.18.0.2", "0000.0000.0002")):
        os.mkdir(f"{FOLDER}/{namespace}")
        shutil.chown(f"{FOLDER}/{namespace}", "frr", "frr")
        values = {"id": router_id, "interface": interface_, "system": system}
        daemons(namespace, {"zebra": ""} | {daemon: text.format(**values) for daemon, text in IGP.items()})
    wait_for("OSPFv2 adjacency is full", lambda: "Full" in vtysh(RT, "show ip ospf neighbor"), 40)
    wait_for("OSPFv3 adjacency is full", lambda: "Full" in vtysh(RT, "show ipv6 ospf6 neighbor"), 40)
    wait_for("IS-IS adjacency is up", lambda: re.search(r"core0 +2 +Up", vtysh(RT, "show isis neighbor")) is not None, 40)
    drops = run(WEIR, "show", "drops", "--json", "--socket", SOCKET)
    expect("nothing of it was dropped", "host_refused" not in drops and "ether_type" not in drops and "limited" not in drops, drops)
    gateway_stops(child)

def restart():
    """An interface that stays when the gateway is killed, with its routes."""
    begin()
    inside(RT, "ip", "tuntap", "add", "core0", "mode", "tap")
    write()
    child = gateway()
    ours = lambda: [line for line in (kernel(RT) + kernel(RT, "-6")).splitlines() if "proto 119" in line]
    wait_for("the kernel has a route to each prefix", lambda: len(ours()) == 3)
    child.send_signal(signal.SIGKILL)
    child.wait()
    expect("which stay when the gateway is killed", len(ours()) == 3, ours())
    write(lambda text: text.replace("100.64.0.0/24", "100.66.0.0/24").replace("100.64.0.1\"", "100.66.0.1\"").replace("100.64.0.10", "100.66.0.10"))
    child = gateway()
    wait_for("the next one has no stale and no second route",
             lambda: len(ours()) == 3 and any("100.66.0.0/24" in line for line in ours()))
    speak()
    wait_for("and speaks", lambda: "100.66.0.0/24" in kernel(DN))
    gateway_stops(child)
    expect("one that ends takes them away", ours() == [], ours())

def ecmp():
    """Two routers to one prefix: flows are spread over them, and go by the one that is left."""
    begin()
    inside(DN, "ip", "link", "add", "link", "dn0", "name", "dn1", "address", "02:00:00:00:02:03", "type", "macvlan", "mode", "bridge")
    inside(DN, "ip", "address", "add", "198.18.0.3/32", "dev", "dn1")
    inside(DN, "ip", "link", "set", "dn1", "up")
    for key in ("arp_ignore=1", "arp_announce=2", "rp_filter=0"):
        for interface_ in ("all", "dn0", "dn1"):
            inside(DN, "sysctl", "-qw", f"net.ipv4.conf.{interface_}.{key}")
    inside(DN, "ip", "route", "add", "local", "203.0.113.0/24", "dev", "lo")
    inside(DN, "ip", "route", "add", "100.64.0.0/24", "via", "198.18.0.1")
    write()
    child = gateway()
    os.mkdir(f"{FOLDER}/{RT}")
    shutil.chown(f"{FOLDER}/{RT}", "frr", "frr")
    both = [f"ip route 203.0.113.0/24 198.18.0.{n}" for n in (2, 3)]
    daemons(RT, {"zebra": "", "staticd": "\n".join(both) + "\n"})
    found = lambda: [route for route in routes()["routes"] if route["prefix"] == "203.0.113.0/24" and route["is_resolved"]]
    seen = wait_for("both next hops are used", lambda: found() if len(found()) == 2 else [])
    expect("and are those of one route of the kernel", {route["next_hop"] for route in seen} == {"198.18.0.2", "198.18.0.3"}
           and all(route["kernel_next_hops"] == 2 for route in seen), seen)
    subscriber()
    second = lambda: int(inside(DN, "cat", "/sys/class/net/dn1/statistics/rx_packets"))
    def answered(what):
        before = second()
        for n in range(1, 33):
            got = ping(SUB, "-c", "2", "-i", "0.2", f"203.0.113.{n}")
            expect(f"{what}: 203.0.113.{n} answers", " 2 received" in got, got)
        return second() - before
    ping(SUB, "-c", "2", "203.0.113.1")
    took = answered("two routers")
    expect("each router has its share of 32 flows", 18 <= took <= 60, took)
    vtysh(RT, "configure terminal", f"no {both[1]}")
    wait_for("one is withdrawn", lambda: len(found()) == 1)
    took = answered("one router")
    # Beside ARP and what else the gateway sends to all.
    expect("flows go by the one that is left", took <= 12, took)
    gateway_stops(child)

within(110, NAMESPACES, {"bng": bng, "upf": upf, "cmts": cmts, "igp": igp, "restart": restart, "ecmp": ecmp}[CASE])
