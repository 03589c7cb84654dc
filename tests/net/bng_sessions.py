#!/usr/bin/env python3
"""DHCP clients behind two VLAN tags get addresses from a broadband gateway and talk to a host of the core.

    sub (a subscriber)                            gw               dn (a host of the core)
    tap0 ─ qinq.py ─ sub0 ══════════════ acc ─ weir ─ core 198.18.0.1 ══ dn0 198.18.0.2

The clients are Debian's udhcpc and dhclient, and the kernel's SLAAC. Everything is made here and removed at the end.
usage: bng_sessions.py WEIR_BINARY CASE     CASE: dhcp slaac crash radius reload shape nat garden
"""
import json, os, re, signal, subprocess, sys, tempfile, time

from lab import (MIDDLE_GROUP, broadband_config, broadband_links, expect, freeradius_configured, gateway_runs, gateway_stops, inside, iperf3_serves, ping, run, start,
                 wait_for, within)

WEIR, CASE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-bngs-{os.getpid()}"
SUB, GW, DN = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn"
FOLDER = tempfile.mkdtemp(prefix=TAG)

def config():
    mode = "slaac" if CASE == "slaac" else "dhcp"
    text = broadband_config(
        f"{FOLDER}/weir.sock", lambda name: f"packet:{name}?netns={GW}&promisc=on",
        '{ name = "home", up = "50 Mbit/s", down = "100 Mbit/s" }',
        head=f'[process]\nconfine = false\n\n[sessions]\nledger = "{FOLDER}/ledger"\n', **MIDDLE_GROUP) + f"""
[group.sessions]
lease_seconds = 120
dns = ["198.18.0.2", "fd00:18::2"]
domain = "home.example"
ipv6 = "{mode}"
"""
    path = f"{FOLDER}/bng.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

RADIUS = """
[radius]
nas_identifier = "bng1"
password = "weir"
coa = "127.0.0.1:3799"
interim_seconds = 2
[[radius.server]]
address = "127.0.0.1"
secret = "testing123"
"""

GARDEN = """{ name = "garden", garden = { portal = "http://198.18.0.80/portal",
  allow = ["198.18.0.53/32", "198.18.0.80/32", "fd00:18::80/128"] } }""".replace("\n", "")

def gateway():
    if os.path.exists(f"{FOLDER}/weir.sock"):
        os.remove(f"{FOLDER}/weir.sock")
    path = config()
    if CASE in ("radius", "garden"):
        with open(path, "a") as file:
            file.write(RADIUS)
        tier = '{ name = "gold" }' if CASE == "radius" else GARDEN
        text = open(path).read().replace(f"?netns={GW}&", "?").replace("profile = [ {", f"profile = [ {tier}, {{")
        with open(path, "w") as file:
            file.write(text)
    # The RADIUS server listens in the gateway's namespace.
    prefix = ["ip", "netns", "exec", GW] if CASE in ("radius", "garden") else []
    return gateway_runs("weir runs", (*prefix, WEIR, "run", path), f"{FOLDER}/weir.sock")

def line(n, mac):
    tap = f"tap{n}"
    child = start("ip", "netns", "exec", SUB, sys.executable, f"{HERE}/qinq.py", "--interface", "sub0", "--tap", tap,
                  "--s-vlan", "100", "--c-vlan", str(n))
    said = child.stdout.readline().strip()
    expect(f"line {n} is there", said == "ready", said)
    inside(SUB, "ip", "link", "set", tap, "address", mac, "mtu", "1500", "up")
    return child

def udhcpc(tap, *options):
    """One lease by udhcpc; its script says what it was given."""
    script = f"{FOLDER}/udhcpc.sh"
    with open(script, "w") as file:
        file.write('#!/bin/sh\n[ "$1" = bound ] || [ "$1" = renew ] || exit 0\n'
                   'echo "bound ip=$ip mask=$mask router=$router dns=$dns lease=$lease domain=$domain server=$serverid"\n')
    os.chmod(script, 0o755)
    return inside(SUB, "udhcpc", "-i", tap, "-n", "-q", "-t", "5", "-T", "2", "-s", script, *options, check=False)

def address_of(said):
    found = re.search(r"bound ip=(\S+)", said)
    expect("udhcpc has a lease", found, said)
    return found[1]

def use(tap, address):
    inside(SUB, "ip", "address", "flush", "dev", tap, "scope", "global")
    inside(SUB, "ip", "address", "add", f"{address}/20", "dev", tap)
    inside(SUB, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", tap)

def talks(source, to, family=""):
    options = ["-I", source] if source else []
    ping(SUB, "-c", "2", *options, to)
    got = ping(SUB, "-c", "5", *options, to)
    expect(f"5 of 5 pings from {source} to {to}", " 5 received" in got, got)

def shown():
    out = run(WEIR, "show", "subscribers", "--json", "--socket", f"{FOLDER}/weir.sock")
    def one(entry):
        v6 = [text for text in entry["addresses"] if ":" in text]
        return entry | {"ipv4": next((text for text in entry["addresses"] if ":" not in text), None),
                        "ipv6_wan": next((text for text in v6 if text.endswith("/64")), None),
                        "ipv6_pd": next((text for text in v6 if not text.endswith("/64")), None)}
    return [one(entry) for entry in json.loads(out)["entries"]]

def dhclient6(tap, *options):
    """IA_NA and IA_PD by ISC's dhclient; returns its lease file."""
    leases, pid, script = f"{FOLDER}/dhclient6.leases", f"{FOLDER}/dhclient6.pid", f"{FOLDER}/dhclient.sh"
    with open(script, "w") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(script, 0o755)
    said = inside(SUB, "dhclient", "-6", "-1", "-v", *options, "-lf", leases, "-pf", pid, "-sf", script, "-cf", "/dev/null",
                  tap, check=False, timeout=60)
    text = open(leases).read() if os.path.exists(leases) else ""
    if os.path.exists(pid):
        run("kill", open(pid).read().strip(), check=False)
    return text, said

def dhcp():
    gate = gateway()
    tagger = line(7, "02:ca:00:00:00:07")
    said = udhcpc("tap7")
    address = address_of(said)
    expect("with router, mask, DNS, domain, lease time and server identifier",
           "router=100.64.0.1" in said and "mask=20" in said + said.replace("255.255.240.0", "20") and "dns=198.18.0.2" in said
           and "lease=120" in said and "domain=home.example" in said and "server=100.64.0.1" in said, said)
    use("tap7", address)
    talks(address, "198.18.0.2")
    text, said = dhclient6("tap7", "-N", "-P")
    na = re.search(r"iaaddr (\S+) ", text)
    pd = re.search(r"iaprefix (\S+) ", text)
    expect("dhclient has an address and a delegated prefix", na and pd, said + text)
    expect("each of the group's slices", na[1].startswith("2001:db8:100:") and pd[1].startswith("2001:db8:400"), text)
    inside(SUB, "ip", "address", "add", f"{na[1]}/128", "dev", "tap7", "nodad")
    inside(SUB, "ip", "-6", "route", "replace", "default", "via", "fe80::1", "dev", "tap7")
    talks(na[1], "fd00:18::2")
    house = pd[1].split("/")[0].rstrip(":") + "::5"
    inside(SUB, "ip", "address", "add", f"{house}/128", "dev", "tap7", "nodad")
    talks(house, "fd00:18::2")
    got = ping(DN, "-c", "3", address)
    expect("the core reaches the subscriber", " 3 received" in got, got)

    subscribers = shown()
    expect("the subscriber is one record", len(subscribers) == 1 and subscribers[0]["ipv4"] == address
           and subscribers[0]["ipv6_pd"] == pd[1] and subscribers[0]["mac"] == "02:ca:00:00:00:07", subscribers)
    name = subscribers[0]["name"]
    expect("with a name", name == "pon/acc:100.7", name)
    again = address_of(udhcpc("tap7", "-r", address))
    expect("the same address again", again == address, again)

    # A second client on a line of its own.
    other = line(8, "02:ca:00:00:00:08")
    second = address_of(udhcpc("tap8"))
    expect("another address for another line", second != address, second)
    expect("both are shown", len(shown()) == 2, shown())
    told = run(WEIR, "show", "dhcp", "--socket", f"{FOLDER}/weir.sock")
    shows = run(WEIR, "subscriber", "pon/acc:100.8", "show", "--socket", f"{FOLDER}/weir.sock")
    expect("one subscriber is shown by name", second in shows and address not in shows, shows)
    run(WEIR, "subscriber", second, "clear", "--socket", f"{FOLDER}/weir.sock")
    expect("a subscriber is cleared by its address", [one["c_vlan"] for one in shown()] == [7], shown())
    expect("sessions and their requests are shown", "acknowledged" in told or "stored" in told, told)
    for tool in (tagger, other):
        tool.send_signal(signal.SIGTERM)
        said = tool.communicate(timeout=10)[0]
    gateway_stops(gate)

def slaac():
    gate = gateway()
    line(7, "02:ca:00:00:00:07")
    inside(SUB, "sysctl", "-qw", "net.ipv6.conf.tap7.accept_ra=1", "net.ipv6.conf.tap7.autoconf=1", check=False)
    inside(SUB, "ip", "link", "set", "tap7", "down")
    inside(SUB, "ip", "link", "set", "tap7", "up")
    def address():
        got = inside(SUB, "ip", "-6", "-o", "address", "show", "dev", "tap7", "scope", "global")
        found = re.search(r"inet6 (2001:db8:100:\S+)/64", got)
        return found and found[1]
    own = wait_for("the kernel makes an address of the advertised prefix", address)
    route = inside(SUB, "ip", "-6", "route", "show", "default")
    expect("and has a default router", "fe80::1" in route, route)
    talks(own, "fd00:18::2")
    v4 = address_of(udhcpc("tap7"))
    use("tap7", v4)
    talks(v4, "198.18.0.2")
    subscribers = shown()
    expect("dual stack is one record", len(subscribers) == 1 and subscribers[0]["ipv4"] == v4
           and own.startswith(subscribers[0]["ipv6_wan"].split("::")[0]), subscribers)
    gateway_stops(gate)

def reload(*changes):
    """The configuration with changes, read again; returns the exit code and what was said."""
    path = config()
    text = open(path).read()
    for before, after in (('name = "home"', 'name = "home", acl = "edge"'), *changes):
        expect(f"{before} can be changed", before in text, text)
        text = text.replace(before, after, 1)
    with open(path, "w") as file:
        file.write(text)
    done = subprocess.run([WEIR, "reload", "--socket", f"{FOLDER}/weir.sock"], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr

def edge(*rules):
    return ("[process]", '[[acl]]\nname = "edge"\nrules = [%s]\n\n[process]' % ", ".join(f'"{rule}"' for rule in rules))

def reloaded():
    reload_first = edge("deny in tcp from any to any port 25")
    path = config()
    text = open(path).read().replace('name = "home"', 'name = "home", acl = "edge"', 1).replace(*reload_first, 1)
    with open(path, "w") as file:
        file.write(text)
    gate = gateway_runs("weir runs", (WEIR, "run", path), f"{FOLDER}/weir.sock")
    line(7, "02:ca:00:00:00:07")
    address = address_of(udhcpc("tap7"))
    use("tap7", address)
    talks(address, "198.18.0.2")
    before = shown()[0]

    no_ping = edge("deny in icmp from any to any")
    code, said = reload(no_ping, ('ipv4 = ["100.64.0.0/20"]', 'ipv4 = ["100.64.64.0/24"]'))
    expect("a slice with a lease is not taken out", code == 2 and "group.0.ipv4: 1 leases" in said, said)
    talks(address, "198.18.0.2")
    code, said = reload(no_ping, ("lease_seconds = 120", "lease_seconds = 240"), ("mtu = 1500", "mtu = 1400"))
    expect("what needs a restart is named", code == 3 and "port.0.mtu: 1500 → 1400 (needs a restart)" in said, said)
    got = ping(SUB, "-c", "3", "-I", address, "198.18.0.2")
    expect("the new list denies pings", " 0 received" in got, got)
    renewed = udhcpc("tap7", "-r", address)
    expect("the next lease is as long as the file says", "lease=240" in renewed, renewed)
    code, said = reload(reload_first, ('ipv4 = ["100.64.0.0/20"]', 'ipv4 = ["100.64.64.0/24", "100.64.0.0/20"]'))
    expect("all is applied", code == 0, said)
    talks(address, "198.18.0.2")
    now = shown()[0]
    expect("the subscriber is the same", now["name"] == before["name"] and now["ipv4"] == address, now)
    line(8, "02:ca:00:00:00:08")
    second = address_of(udhcpc("tap8"))
    expect("the next has an address of the new slice", second.startswith("100.64.64."), second)
    inside(SUB, "ip", "address", "add", f"{second}/32", "dev", "tap8")
    inside(SUB, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", "tap8", "onlink")
    talks(second, "198.18.0.2")
    gateway_stops(gate)

def shape():
    """Linux's TCP from the core fills a tier that is shaped; marked packets pass its queue."""
    path = config()
    text, before = open(path).read(), 'down = "100 Mbit/s"'
    expect("the tier can be shaped", before in text, text)
    with open(path, "w") as file:
        file.write(text.replace(before, 'down = "8 Mbit/s", accounted = "l2", shape = {}', 1))
    gate = gateway_runs("weir runs", (WEIR, "run", path), f"{FOLDER}/weir.sock")
    line(7, "02:ca:00:00:00:07")
    address = address_of(udhcpc("tap7"))
    use("tap7", address)
    talks(address, "198.18.0.2")
    iperf3_serves(DN, "-1")
    client = subprocess.Popen(["ip", "netns", "exec", SUB, "iperf3", "-c", "198.18.0.2", "-R", "-t", "6", "-O", "2", "-J"],
                              stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    waits = {}
    for name, tos in (("voice", "184"), ("best-effort", "0")):
        got = ping(SUB, "-c", "20", "-i", "0.05", "-Q", tos, "-I", address, "198.18.0.2")
        waits[name] = float(re.search(r"= [0-9.]+/([0-9.]+)/", got)[1])
    said = json.loads(client.communicate(timeout=30)[0])
    expect("iperf3 measured", "sum_received" in said["end"], said)
    goodput = said["end"]["sum_received"]["bits_per_second"]
    # Of 1,522 bytes with two tags, 1,448 are TCP's.
    whole = goodput * 1522 / 1448
    seen = subprocess.run([WEIR, "show", "queues", "--socket", f"{FOLDER}/weir.sock", "--json"], capture_output=True, text=True).stdout
    print(f"      {whole / 1e6:.2f} Mbit/s of 8; ping {waits}", flush=True)
    expect("TCP has the tier's rate, with tags", 0.93 < whole / 8e6 < 1.02, said["end"])
    expect("voice waits less than best effort", waits["voice"] < waits["best-effort"], waits)
    queues = {row["class"]: row for row in json.loads(seen)["queues"]["queues"]}
    expect("voice was sent by its class", queues["voice"]["packets"] >= 20, seen)
    expect("Controlled Delay dropped some of what waited", queues["best-effort"]["queue_management"] > 0, seen)
    gateway_stops(gate)

def nat():
    """Two subscribers behind one public address: Linux's TCP both ways, the log, and who has which ports."""
    path = config()
    with open(path, "a") as file:
        file.write(f"""
[nat]
log = "{FOLDER}/nat.log"
[[nat.pool]]
addresses = "192.0.2.1/32"
""")
    gate = gateway_runs("weir runs", (WEIR, "run", path), f"{FOLDER}/weir.sock")
    # Nothing leads to private addresses: only what is translated is answered.
    inside(DN, "ip", "route", "del", "100.64.0.0/10", check=False)
    inside(DN, "ip", "route", "replace", "192.0.2.0/24", "via", "198.18.0.1")
    addresses = {}
    for n in (7, 8):
        line(n, f"02:ca:00:00:00:{n:02x}")
        addresses[n] = address_of(udhcpc(f"tap{n}"))
        inside(SUB, "ip", "address", "add", f"{addresses[n]}/32", "dev", f"tap{n}")
        inside(SUB, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", f"tap{n}", "onlink", "table", str(n))
        inside(SUB, "ip", "rule", "add", "from", addresses[n], "table", str(n))
        talks(addresses[n], "198.18.0.2")
    for n, address in addresses.items():
        for reverse in ([], ["-R"]):
            server = iperf3_serves(DN, "-1", "-J")
            got = inside(SUB, "iperf3", "-c", "198.18.0.2", "-B", address, "-t", "1", "-J", *reverse)
            told = json.loads(server.communicate(timeout=20)[0])
            peers = {one["remote_host"] for one in told["start"]["connected"]}
            expect(f"the core sees subscriber {n} by the public address", peers == {"192.0.2.1"}, peers)
            expect("and TCP flows", json.loads(got)["end"]["sum_received"]["bytes"] >= 200_000, got)
    seen = lambda *more: json.loads(subprocess.run([WEIR, "show", "nat", "--socket", f"{FOLDER}/weir.sock", "--json", *more],
                                                   capture_output=True, text=True).stdout)
    view = seen()
    expect("both have ports", {one["private"] for one in view["list"]} == set(addresses.values()), view)
    view = seen("--ue", addresses[8])
    expect("one is shown alone", {one["private"] for one in view["list"]} == {addresses[8]}, view)
    ports = {tuple(one["ports"]) for one in view["list"]}
    got = ping(DN, "-c", "1", "-W", "1", "192.0.2.1")
    expect("nobody is reached from outside unasked", " 0 received" in got, got)
    cleared = subprocess.run([WEIR, "subscriber", addresses[8], "clear", "--socket", f"{FOLDER}/weir.sock"], capture_output=True, text=True)
    expect("a subscriber can be cleared", cleared.returncode == 0, cleared.stderr)
    log = wait_for("the log has the end of its ports", lambda: "session" in open(f"{FOLDER}/nat.log").read() and open(f"{FOLDER}/nat.log").read())
    for first, last in ports:
        for what in (f"core given {addresses[8]} 192.0.2.1 {first}-{last}", f"core ended {addresses[8]} 192.0.2.1 {first}-{last} session"):
            expect("the log names who had which ports", what in log, log)
    gateway_stops(gate)

def crash():
    gate = gateway()
    before = {}
    for n in range(1, 6):
        line(n, f"02:ca:00:00:00:{n:02x}")
        before[n] = address_of(udhcpc(f"tap{n}"))
    text, _ = dhclient6("tap3", "-P")
    prefix = re.search(r"iaprefix (\S+) ", text)[1]
    for turn in range(3):
        gate.kill()
        gate.communicate(timeout=10)
        gate = gateway()
        after = {int(one["c_vlan"]): one for one in shown()}
        expect(f"all subscribers are there after kill -9, {turn + 1}", {n: one["ipv4"] for n, one in after.items()} == before,
               (before, after))
        expect("with the delegated prefix", after[3]["ipv6_pd"] == prefix, after[3])
        use("tap2", before[2])
        talks(before[2], "198.18.0.2")
        order = [5, 3, 1, 4, 2]
        got = {n: address_of(udhcpc(f"tap{n}")) for n in order}
        expect("nobody is renumbered", got == before, (before, got))
    gateway_stops(gate)

def freeradius(tier="home"):
    folder = f"{FOLDER}/radius"
    freeradius_configured(folder, ("acc:100.7",), tier)
    start("ip", "netns", "exec", GW, "freeradius", "-f", "-d", folder)
    time.sleep(2)
    return f"{folder}/detail"

def radclient(kind, attributes):
    done = subprocess.run(["ip", "netns", "exec", GW, "radclient", "-x", "-r", "1", "-t", "3", "127.0.0.1:3799", kind,
                           "testing123"], input=attributes, capture_output=True, text=True, timeout=20)
    return done.stdout + done.stderr

def radius():
    detail = freeradius()
    gate = gateway()
    line(7, "02:ca:00:00:00:07")
    line(8, "02:ca:00:00:00:08")
    address = address_of(udhcpc("tap7"))
    use("tap7", address)
    talks(address, "198.18.0.2")
    said = udhcpc("tap8")
    expect("a line that the server does not know gets nothing", "bound" not in said, said)
    expect("and is no subscriber", [one["c_vlan"] for one in shown()] == [7], shown())
    told = lambda what: lambda: what in (open(detail).read() if os.path.exists(detail) else "") and open(detail).read()
    text = wait_for("accounting begins", told("Acct-Status-Type = Start"))
    expect("with name, address, line and class", all(what in text for what in (
        'User-Name = "acc:100.7"', f"Framed-IP-Address = {address}", 'NAS-Port-Id = "acc:100.7"', "Class = 0x686f6d65",
        'NAS-Identifier = "bng1"')), text)
    text = wait_for("interim reports come", told("Acct-Status-Type = Interim-Update"))
    packets = [int(n) for n in re.findall(r"Acct-Input-Packets = (\d+)", text)]
    expect("with what was used", packets and max(packets) >= 5, text)
    now = f"Event-Timestamp={int(time.time())},Message-Authenticator=0x00"
    said = radclient("coa", f"User-Name=acc:100.7,Filter-Id=gold,{now}\n")
    expect("CoA changes the tier", "Received CoA-ACK" in said and shown()[0]["profile"] == "gold", said)
    talks(address, "198.18.0.2")
    said = radclient("coa", f"User-Name=acc:100.7,Filter-Id=none,{now}\n")
    expect("to one that there is", "Received CoA-NAK" in said and "Invalid-Attribute-Value" in said, said)
    said = radclient("disconnect", f"User-Name=nobody,{now}\n")
    expect("of a session that there is", "Received Disconnect-NAK" in said and "Session-Context-Not-Found" in said, said)
    said = radclient("disconnect", f"User-Name=acc:100.7,{now}\n")
    expect("Disconnect ends the session", "Received Disconnect-ACK" in said, said)
    wait_for("the subscriber is gone", lambda: shown() == [] and "yes")
    wait_for("accounting ends", told("Acct-Status-Type = Stop"))
    got = ping(SUB, "-c", "2", "-W", "1", "-I", address, "198.18.0.2")
    expect("nothing passes any more", " 0 received" in got, got)
    gateway_stops(gate)

WEB = '''
import http.server, socket
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f"{self.connection.getsockname()[0]} has {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", 80), Page).serve_forever()
'''

def fetched(source, url):
    """What curl is given, redirections followed."""
    return inside(SUB, "curl", "-sS", "-L", "-m", "5", "--interface", source, url, check=False).removeprefix("::ffff:")

def garden():
    """A server puts a subscriber in a walled garden and lets it out and in again, while it is connected."""
    freeradius("garden")
    gate = gateway()
    for address in ("198.18.0.80/24", "198.18.0.53/24"):
        inside(DN, "ip", "address", "add", address, "dev", "dn0")
    inside(DN, "ip", "address", "add", "fd00:18::80/64", "dev", "dn0", "nodad")
    start("ip", "netns", "exec", DN, sys.executable, "-c", WEB)
    line(7, "02:ca:00:00:00:07")
    address = address_of(udhcpc("tap7"))
    use("tap7", address)
    expect("the server's tier is the garden", shown()[0]["profile"] == "garden", shown())
    talks(address, "198.18.0.53")
    blocked = lambda: " 0 received" in ping(SUB, "-c", "3", "-W", "1", "-I", address, "198.18.0.2")
    expect("nothing else is reached", blocked(), "pings were answered")
    got = ping(DN, "-c", "2", "-W", "1", "-I", "198.18.0.2", address)
    expect("nor reaches it", " 0 received" in got, got)
    got = fetched(address, "http://198.18.0.80/own")
    expect("the portal is reached", got == "198.18.0.80 has /own", got)
    got = fetched(address, "http://198.18.0.2/news")
    expect("curl is led from any other page to the portal", got == "198.18.0.80 has /portal", got)
    got = fetched(address, "http://203.0.113.9/nowhere")
    expect("from one that there is not, too", got == "198.18.0.80 has /portal", got)
    text, said = dhclient6("tap7", "-N")
    own6 = re.search(r"iaaddr (\S+) ", text)
    expect("it has IPv6", own6, said + text)
    inside(SUB, "ip", "address", "add", f"{own6[1]}/128", "dev", "tap7", "nodad")
    inside(SUB, "ip", "-6", "route", "replace", "default", "via", "fe80::1", "dev", "tap7")
    got = inside(SUB, "curl", "-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}",
                 "http://[fd00:18::2]/news", check=False)
    expect("and is sent to the portal there, too", got == "302 http://198.18.0.80/portal", got)
    drops = json.loads(run(WEIR, "show", "drops", "--json", "--socket", f"{FOLDER}/weir.sock"))
    expect("what was dropped is counted by name", "walled_garden" in json.dumps(drops), drops)

    now = lambda: f"Event-Timestamp={int(time.time())},Message-Authenticator=0x00"
    said = radclient("coa", f"User-Name=acc:100.7,Filter-Id=home,{now()}\n")
    expect("CoA lets it out", "Received CoA-ACK" in said and shown()[0]["profile"] == "home", said)
    talks(address, "198.18.0.2")
    got = fetched(address, "http://198.18.0.2/news")
    expect("the page itself comes", got == "198.18.0.2 has /news", got)
    said = radclient("coa", f"User-Name=acc:100.7,Filter-Id=garden,{now()}\n")
    expect("CoA puts it in again", "Received CoA-ACK" in said, said)
    expect("and it is in", blocked(), "pings were answered")
    got = fetched(address, "http://198.18.0.2/news")
    expect("with the portal", got == "198.18.0.80 has /portal", got)
    expect("the lease is the same", shown()[0]["ipv4"] == address, shown())
    gateway_stops(gate)

def main():
    broadband_links(SUB, GW, DN)
    {"dhcp": dhcp, "slaac": slaac, "crash": crash, "radius": radius, "reload": reloaded, "shape": shape, "nat": nat,
     "garden": garden}[CASE]()

within(120, NAMESPACES, main)
