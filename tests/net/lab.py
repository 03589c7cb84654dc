"""Hosts in network namespaces, for the tests beside this file: commands, children, expectations, an end in time; and
frames with VLAN tags, which the kernel needs no 8021q for.
"""
import json, os, signal, socket, struct, subprocess, sys, time

SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC, PACKET_AUXDATA = 263, 1, 1, 8
VLAN_VALID, TPID_VALID, OUTGOING = 0x10, 0x40, 4
children = []
# A machine may be an emulated one: how many times as long everything may take.
PATIENCE = int(os.environ.get("WEIR_TEST_PATIENCE", "1"))

def run(*command, check=True, timeout=40):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout * PATIENCE)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr

def inside(namespace, *command, **how):
    return run("ip", "netns", "exec", namespace, *command, **how)

def start(*command, **how):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)
    children.append(child)
    return child

def iperf3_serves(namespace, *options):
    """Starts an iperf3 server and waits until it listens."""
    server = start("ip", "netns", "exec", namespace, "iperf3", "-s", *options)
    until = time.time() + 15
    while "5201" not in inside(namespace, "ss", "-Hltn") and server.poll() is None and time.time() < until:
        time.sleep(0.05)
    return server

def expect(what, holds, shown):
    print(f"  {'ok ' if holds else 'NOT'} {what}", flush=True)
    if not holds:
        # While everything is still there: what somebody looks for.
        subprocess.run(os.environ.get("WEIR_TEST_AT_FAILURE", "true"), shell=True)
        raise SystemExit(f"{what}:\n{shown}")

def wait_for(what, look, seconds=20):
    until = time.time() + seconds
    while True:
        seen = look()
        if seen or time.time() > until:
            expect(what, bool(seen), seen)
            return seen
        time.sleep(0.2)

def ping(namespace, *options):
    return inside(namespace, "ping", "-i", "0.2", "-W", "2", *options, check=False)

def gateway_runs(what, command, socket_path):
    """Starts a gateway and waits for its control socket."""
    child = start(*command)
    for _ in range(150 * PATIENCE):
        if os.path.exists(socket_path) or child.poll() is not None:
            break
        time.sleep(0.1)
    expect(what, child.poll() is None and os.path.exists(socket_path),
           child.stdout.read() if child.poll() is not None else f"no socket after {15 * PATIENCE} s")
    return child

def gateway_stops(child):
    child.send_signal(signal.SIGTERM)
    said = child.communicate(timeout=20)[0]
    expect("weir stops in good order", child.returncode == 0, said)

def every_packet_came(result, show_drops, early=0):
    """What `weir gen broadband` has seen: every packet once, in order, with its tags; but for `early` ones to the core, which
    were too many to wait until a host had answered."""
    for way in ("uplink", "downlink"):
        counts = result[way]
        lost = early if way == "uplink" else 0
        wrong = ("reordered", "duplicated", "wrong_tags", "misdelivered", "corrupt")
        expect(f"{way}: {counts['received_packets']} packets, {lost or 'none'} lost, none late, twice or wrong",
               counts["sent_packets"] > 1000 and counts["lost_packets"] == lost
               and not any(counts[f"{key}_packets"] for key in wrong), (counts, show_drops()))

def freeradius_configured(folder, users, tier="home"):
    """Writes what FreeRADIUS is started with in that folder; users are names of lines."""
    os.mkdir(folder)
    source = f"{os.path.dirname(os.path.abspath(__file__))}/../../crates/radius/tests/freeradius/radiusd.conf"
    with open(f"{folder}/radiusd.conf", "w") as file:
        file.write(open(source).read().replace("DIR", folder))
    with open(f"{folder}/users", "w") as file:
        for user in users:
            file.write('%s Cleartext-Password := "weir"\n\tFilter-Id = "%s",\n\tClass = 0x686f6d65\n\n' % (user, tier))
    open(f"{folder}/dictionary", "w").close()

def phone(namespace, gnb, n3, ip6):
    """A phone behind a gNB of its own, on tun0: 10.60.0.1 and `ip6`."""
    here = os.path.dirname(os.path.abspath(__file__))
    gnb = start("ip", "netns", "exec", namespace, sys.executable, f"{here}/gnb.py", "--local", gnb, "--upf", n3,
                "--teid", "0x1000", "--gnb-teid", "0x2000")
    if gnb.stdout.readline().strip() != "ready":
        raise SystemExit(f"the gNB does not start: {gnb.stdout.read()}")
    for command in (("link", "set", "tun0", "mtu", "1400", "up"), ("address", "add", "10.60.0.1/32", "dev", "tun0"),
                    ("route", "add", "default", "dev", "tun0"),
                    ("-6", "address", "add", f"{ip6}/64", "dev", "tun0", "nodad"),
                    ("-6", "route", "add", "default", "dev", "tun0")):
        inside(namespace, "ip", *command)
    return gnb

def kernel_port(name, role, *addresses):
    """An AF_XDP port of a user plane whose known sessions are to be in the kernel."""
    return f"""
[[port]]
name = "{name}"
uri = "xdp:{name}?copy=yes"
role = "{role}"
addresses = {json.dumps(addresses)}
fast_path = "only"
"""

def signed_load(path, pps, ues, seconds):
    """A configuration of `weir gen`: signed packets both ways, at gnb0 and dn0, behind four gNBs and the router 10.0.6.254."""
    with open(path, "w") as file:
        file.write(f"""
n3 = "packet:gnb0?offloads=keep"
n6 = "packet:dn0?offloads=keep"
upf_n6 = "10.0.6.1"
answer_n6 = ["10.0.6.254"]
pps = {pps}
seconds = {seconds}

[profile]
ues = {ues}
ue_first = "10.60.0.1"
uplink_teids = {{ first = 0x01000000 }}
downlink_teids = {{ first = 0x02000000 }}
gnbs = 4
gnb_first = "10.0.3.100"
upf_n3 = "10.0.3.1"
servers = 16
server_first = "198.18.0.1"
qfis = [9]
uplink_sizes = 128
downlink_sizes = 128
ratio = {{ up = 1, down = 1 }}
""")

def namespaces_with_lo(names):
    for namespace in names:
        run("ip", "netns", "add", namespace)
        inside(namespace, "ip", "link", "set", "lo", "up")
        # No strangers on the links: no duplicate detection to wait for, no router solicitations.
        inside(namespace, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.accept_ra=0")

# Network devices that are there, in place of veth: "FAR=GATEWAY ...", a wire each, in the order in which links are made. A
# gateway's may be a PCI address: of a device that no driver of the kernel has.
wires = os.environ.get("WEIR_TEST_WIRES", "").split()

def link(left, a, right, b, *settings):
    """A wire; says which device the right end is."""
    ends = [(left, a), (right, b)]
    device = b
    if wires:
        devices = wires.pop(0).split("=")
        if ":" in devices[1]:
            device, ends = devices[1], ends[:1]
        for (namespace, name), there in zip(ends, devices):
            run("ip", "link", "set", there, "down")
            run("ip", "link", "set", there, "netns", namespace, "name", name)
    else:
        run("ip", "link", "add", a, "netns", left, "type", "veth", "peer", "name", b, "netns", right)
    for namespace, name in ends:
        inside(namespace, "ip", "link", "set", name, *settings, "up")
    return device

def broadband_links(sub, gw, dn, *hardware):
    """A subscriber's link with room for two tags, and a host of the core. A veth hands over what its sender left to hardware
    that is not there: `hardware` is to be switched off beside segmentation."""
    namespaces_with_lo((sub, gw, dn))
    link(sub, "sub0", gw, "acc", "mtu", "1600")
    link(dn, "dn0", gw, "core", "mtu", "1600")
    for command in (("address", "add", "198.18.0.2/24", "dev", "dn0"), ("address", "add", "fd00:18::2/64", "dev", "dn0", "nodad"),
                    ("link", "set", "dn0", "mtu", "1500"), ("route", "add", "100.64.0.0/16", "via", "198.18.0.1"),
                    ("route", "add", "2001:db8::/32", "via", "fd00:18::1")):
        inside(dn, "ip", *command)
    inside(dn, "ethtool", "-K", "dn0", "tso", "off", "gso", "off", *hardware, check=False)

# A group of an access port, with prefixes enough for a hundred subscribers on each of two S-VLANs.
SMALL_GROUP = {
    "ports": ["acc"], "s_vlans": "100-101", "c_vlans": "1-100", "ipv4": ["100.64.0.0/24"], "ipv6_wan": ["2001:db8:100::/56"],
    "ipv6_pd": [{"prefix": "2001:db8:4000::/48", "length": 56}], "gateways": ["100.64.0.1", "fe80::1"],
    "mac": "02:00:5e:00:01:01", "profile": "home",
}

# What it has otherwise where sessions come by the thousand.
MIDDLE_GROUP = {"c_vlans": "1-4000", "ipv4": ["100.64.0.0/20"], "ipv6_wan": ["2001:db8:100::/52"],
                "ipv6_pd": [{"prefix": "2001:db8:4000::/44", "length": 56}]}

def toml_value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)

def broadband_config(socket, uri, profile, port=None, core=("198.18.0.1/24", "fd00:18::1/64"), head="", **group):
    """The configuration of a broadband gateway, to be written behind: an access port `acc` and a core port `core`, of which
    `uri(name)` is the URI and `port` has more keys; a group `pon`, as SMALL_GROUP but for the keys given (None: without it).
    The text ends in the group, so that its tables follow. `head`: sections before."""
    ports = [{"name": "acc", "uri": uri("acc"), "role": "access", "mtu": 1500},
             {"name": "core", "uri": uri("core"), "role": "core", "mtu": 1500, "addresses": list(core)}]
    group = {key: value for key, value in ({"name": "pon"} | SMALL_GROUP | group).items() if value is not None}
    sections = [("port", one | (port or {})) for one in ports] + [("group", group)]
    keys = lambda table: "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
    return (f'gateway = "bng"\ncontrol_socket = "{socket}"\nprofile = [ {profile} ]\n{head}\n'
            + "\n".join(f"[[{name}]]\n{keys(table)}" for name, table in sections))

def within(seconds, namespaces, body):
    """Does it all in time, and leaves nothing behind."""
    began = time.time()
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"took longer than {seconds} s"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    signal.alarm(seconds * PATIENCE)
    try:
        body()
        print(f"  all well after {time.time() - began:.0f} s")
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
        for namespace in namespaces:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)

def tagged_socket(interface):
    """A packet socket that gives the outer tag apart from the frame (packet(7), PACKET_AUXDATA)."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.bind((interface, 3))
    # A reader in Python is kept from running now and then: what came meanwhile is not to be lost.
    raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    index = socket.if_nametoindex(interface)
    raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, b""))
    return raw

def receive_tagged(raw):
    """A frame as it was on the wire, or None if it is our own."""
    data, ancillary, _, address = raw.recvmsg(65535, socket.CMSG_SPACE(20))
    if address[2] == OUTGOING:
        return None
    for level, kind, content in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", content[:20])
            if status & VLAN_VALID:
                tpid = tpid if status & TPID_VALID else 0x8100
                data = data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
    return data

def count_until_stopped(seen):
    """Says what was counted when it is told to end; a frame with wrong tags is a fault."""
    def end(*_):
        print(" ".join(f"{k}={v}" for k, v in seen.items()), flush=True)
        sys.exit(1 if seen["wrong_tags"] else 0)
    signal.signal(signal.SIGTERM, end)
