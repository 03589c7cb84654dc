#!/usr/bin/env python3
"""DHCP clients behind two VLAN tags get their addresses from Kea in the core, by a broadband gateway as relay agent.

    sub (subscribers)                             gw               dn (the core)
    tap7 ─ qinq.py ─ sub0 ══════════════ acc ─ weir ─ core 198.18.0.1 ══ dn0 198.18.0.10, fd00:18::10: kea-dhcp4, kea-dhcp6

The clients are Debian's udhcpc and dhclient, the servers Kea's; tshark reads what the servers saw. Everything is made here
and removed at the end.
usage: bng_relay.py WEIR_BINARY CASE     CASE: dhcp4 dhcp6 crash load hostile failover radius reload
"""
import json, os, re, signal, subprocess, sys, tempfile, time

from lab import (MIDDLE_GROUP, broadband_config, broadband_links, expect, freeradius_configured, gateway_runs, gateway_stops, inside, ping, run, start, wait_for,
                 within)

WEIR, CASE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-bngr-{os.getpid()}"
SUB, GW, DN = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn"
FOLDER = tempfile.mkdtemp(prefix=TAG)
SOCKET = f"{FOLDER}/weir.sock"

def config(relay="server_id_override = true", sessions="", servers=("198.18.0.10", "fd00:18::10"), more=""):
    listed = ", ".join(f'"{server}"' for server in servers)
    text = broadband_config(
        SOCKET, lambda name: f"packet:{name}?netns={GW}&promisc=on", '{ name = "home", up = "50 Mbit/s", down = "100 Mbit/s" }',
        head=f'[process]\nconfine = false\n\n[sessions]\nledger = "{FOLDER}/ledger"\n', **MIDDLE_GROUP) + f"""
[group.sessions]
{sessions}
[group.sessions.relay]
servers = [{listed}]
{relay}
{more}
"""
    path = f"{FOLDER}/bng.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

def gateway(path=None):
    if os.path.exists(SOCKET):
        os.remove(SOCKET)
    return gateway_runs("weir runs", (WEIR, "run", path or config()), SOCKET)

def kea(family, lifetime=60, address=None, pools=None, name="kea", options=()):
    """A server of Kea's in the core, which listens to unicast as relay agents send it."""
    address = address or {4: "198.18.0.10", 6: "fd00:18::10"}[family]
    prefix = 24 if family == 4 else 64
    inside(DN, "ip", "address", "replace", f"{address}/{prefix}", "dev", "dn0", *(["nodad"] if family == 6 else []))
    folder = f"{FOLDER}/{name}{family}"
    os.makedirs(folder, exist_ok=True)
    common = {
        "lease-database": {"type": "memfile", "persist": True, "name": f"{folder}/leases.csv", "lfc-interval": 0},
        "valid-lifetime": lifetime, "renew-timer": lifetime // 2, "rebind-timer": lifetime * 7 // 8,
        "loggers": [{"name": f"kea-dhcp{family}", "severity": "INFO", "output_options": [{"output": f"{folder}/log"}]}],
        "control-socket": {"socket-type": "unix", "socket-name": f"{folder}/control"},
    }
    if family == 4:
        server = common | {
            "interfaces-config": {"interfaces": [f"dn0/{address}"], "dhcp-socket-type": "udp"},
            "subnet4": [{"id": 1, "subnet": "100.64.0.0/20", "pools": pools or [{"pool": "100.64.0.10 - 100.64.15.250"}],
                         "option-data": [{"name": "routers", "data": "100.64.0.1"},
                                         {"name": "domain-name-servers", "data": "198.18.0.2"},
                                         {"name": "domain-name", "data": "kea.example"}, *options]}],
        }
    else:
        # A /64 is one subscriber's: addresses are reserved by hardware address (option 79).
        mac = "02:ca:00:00:00:%02x"
        server = common | {
            "preferred-lifetime": lifetime * 3 // 4, "data-directory": folder, "server-id": {"type": "LL", "persist": False},
            "interfaces-config": {"interfaces": [f"dn0/{address}"]},
            "subnet6": [{"id": 1, "subnet": "2001:db8:100::/52", "pools": pools or [],
                         "pd-pools": [{"prefix": "2001:db8:4000::", "prefix-len": 44, "delegated-len": 56}],
                         "option-data": [{"name": "dns-servers", "data": "fd00:18::2"}],
                         "reservations": [{"hw-address": mac % n, "ip-addresses": [f"2001:db8:100:{n:x}::{n:x}"]}
                                          for n in range(1, 32)]}],
        }
    with open(f"{folder}/kea.json", "w") as file:
        json.dump({f"Dhcp{family}": server}, file)
    environment = os.environ | {"KEA_PIDFILE_DIR": folder, "KEA_LOCKFILE_DIR": folder, "KEA_LOGGER_DESTINATION": f"{folder}/log"}
    child = start("ip", "netns", "exec", DN, f"kea-dhcp{family}", "-c", f"{folder}/kea.json", env=environment)
    log = f"{folder}/log"
    ready = lambda: child.poll() is not None or os.path.exists(log) and f"DHCP{family}_STARTED" in open(log).read()
    wait_for(f"kea-dhcp{family} runs", ready)
    expect("and goes on", child.poll() is None, child.poll() is None or child.stdout.read())
    return child

def kea_log(family):
    path = f"{FOLDER}/kea{family}/log"
    return open(path).read()[-4000:] if os.path.exists(path) else ""

def line(n, mac, s_vlan=100):
    tap = f"tap{n}"
    child = start("ip", "netns", "exec", SUB, sys.executable, f"{HERE}/qinq.py", "--interface", "sub0", "--tap", tap,
                  "--s-vlan", str(s_vlan), "--c-vlan", str(n))
    said = child.stdout.readline().strip()
    expect(f"line {n} is there", said == "ready", said)
    inside(SUB, "ip", "link", "set", tap, "address", mac, "mtu", "1500", "up")
    return child

SCRIPT = ('#!/bin/sh\n[ "$1" = bound ] || [ "$1" = renew ] || exit 0\n'
          'echo "$1 ip=$ip mask=$mask router=$router dns=$dns lease=$lease domain=$domain server=$serverid"\n')

def udhcpc_command(tap, *options):
    script = f"{FOLDER}/udhcpc.sh"
    if not os.path.exists(script):
        with open(script, "w") as file:
            file.write(SCRIPT)
        os.chmod(script, 0o755)
    return ["ip", "netns", "exec", SUB, "udhcpc", "-i", tap, "-t", "5", "-T", "2", "-s", script, *options]

def udhcpc(tap, *options):
    return run(*udhcpc_command(tap, "-n", "-q", *options), check=False)

def address_of(said):
    found = re.search(r"(?:bound|renew) ip=(\S+)", said)
    expect("udhcpc has a lease", found, said + kea_log(4))
    return found[1]

def use(tap, address):
    inside(SUB, "ip", "-4", "address", "flush", "dev", tap, "scope", "global")
    inside(SUB, "ip", "address", "add", f"{address}/20", "dev", tap)
    inside(SUB, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", tap)

def talks(source, to):
    ping(SUB, "-c", "2", "-I", source, to)
    got = ping(SUB, "-c", "5", "-I", source, to)
    expect(f"5 of 5 pings from {source} to {to}", " 5 received" in got, got)

def shown():
    return json.loads(run(WEIR, "show", "subscribers", "--json", "--socket", SOCKET))["entries"]

def counted(protocol):
    """What became of messages, by outcome."""
    view = json.loads(run(WEIR, "show", "dhcp", "--json", "--socket", SOCKET))["sessions"]
    return {row["outcome"]: row["requests"] for row in view["requests"] if row["protocol"] == protocol and row["requests"]}

def servers():
    return {row["server"]: row for row in json.loads(run(WEIR, "show", "dhcp", "--json", "--socket", SOCKET))["sessions"]["servers"]}

def capture(name="seen"):
    path = f"{FOLDER}/{name}.pcap"
    child = start("ip", "netns", "exec", DN, "tshark", "-q", "-i", "dn0", "-w", path, "-f",
                  "udp port 67 or udp port 547")
    wait_for("tshark captures", lambda: os.path.exists(path) and os.path.getsize(path) > 0)
    time.sleep(0.5)
    return child, path

def read(captured, keep, *fields):
    """Fields of captured packets that `keep` matches, as tshark reads them."""
    child, path = captured
    if child.poll() is None:
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
    options = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", path, "-Y", keep, "-T", "fields", "-E", "separator=|", *options],
                          capture_output=True, text=True, timeout=60)
    return [row.split("|") for row in done.stdout.splitlines()], done.stderr

def dhcp4():
    gate = gateway()
    # Kea 2.2 takes a server identifier that was overridden (RFC 5107), and gives it if it is told to.
    kea(4, options=[{"name": "dhcp-server-identifier", "data": "100.64.0.1"}])
    seen = capture()
    tagger = line(7, "02:ca:00:00:00:07")
    client = subprocess.Popen(udhcpc_command("tap7", "-f", "-R", "-n"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    while "bound ip=" not in said and client.poll() is None:
        said += client.stdout.readline()
    address = address_of(said)
    expect("with what Kea is to give, and the gateway as server identifier", all(what in said for what in (
        "router=100.64.0.1", "dns=198.18.0.2", "lease=60", "domain=kea.example", "server=100.64.0.1")), said)
    use("tap7", address)
    talks(address, "198.18.0.2")
    got = ping(DN, "-c", "3", address)
    expect("the core reaches the subscriber", " 3 received" in got, got)
    one = shown()
    expect("the subscriber is shown with the server that leased", len(one) == 1 and one[0]["addresses"] == [address]
           and one[0]["leased_by"] == ["198.18.0.10"] and one[0]["name"] == "pon/acc:100.7", one)
    text = run(WEIR, "show", "subscribers", "--socket", SOCKET)
    expect("in the table, too", "leased by" in text and "198.18.0.10" in text, text)
    client.send_signal(signal.SIGUSR1)
    said = ""
    while "renew ip=" not in said and client.poll() is None:
        said += client.stdout.readline()
    expect("the lease is renewed by unicast", f"renew ip={address}" in said, said)
    wait_for("which the gateway has seen", lambda: counted("relay4").get("ack") == 2)
    inside(SUB, "ip", "-4", "address", "replace", f"{address}/20", "dev", "tap7")
    client.send_signal(signal.SIGUSR2)
    wait_for("a RELEASE ends the session", lambda: shown() == [] and "yes")
    client.kill()
    print(run(WEIR, "show", "dhcp", "--socket", SOCKET), flush=True)
    rows, problems = read(seen, "dhcp.type == 1", "dhcp.option.dhcp", "dhcp.hops", "dhcp.ip.relay", "ip.src", "dhcp.ip.client",
                          "dhcp.option.agent_information_option.agent_circuit_id",
                          "dhcp.option.agent_information_option.agent_remote_id",
                          "dhcp.option.agent_information_option.server_id_override")
    print("      " + "\n      ".join(" ".join(row) for row in rows), flush=True)
    expect("the server saw DISCOVER, REQUEST, the renewal and RELEASE", [row[0] for row in rows] == ["1", "3", "3", "7"], rows)
    circuit = "acc:100.7".encode().hex()
    expect("each with one hop, giaddr, circuit ID, remote ID and server identifier override", all(
        row[1:4] == ["1", "100.64.0.1", "100.64.0.1"] and row[5].replace(":", "") == circuit
        and row[6].replace(":", "") == "02ca00000007" and row[7] == "100.64.0.1" for row in rows), rows)
    expect("the renewal is of the address in use", rows[2][4] == address, rows)
    rows, _ = read(seen, "_ws.malformed", "frame.number")
    expect("tshark finds nothing malformed", rows == [], rows)
    tagger.send_signal(signal.SIGTERM)
    gateway_stops(gate)

def dhclient6(tap, *options, stay=False):
    """ISC's dhclient; returns its lease file and what it said. With `stay` it goes on, and renews."""
    leases, pid, script = (f"{FOLDER}/{tap}.{what}" for what in ("leases6", "pid6", "script6"))
    with open(script, "w") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(script, 0o755)
    said = inside(SUB, "dhclient", "-6", "-1", "-v", *options, "-lf", leases, "-pf", pid, "-sf", script, "-cf", "/dev/null",
                  tap, check=False, timeout=60)
    if not stay and os.path.exists(pid):
        run("kill", open(pid).read().strip(), check=False)
    return open(leases).read() if os.path.exists(leases) else "", said

def v6_of(text, said):
    na, pd = re.search(r"iaaddr (\S+) ", text), re.search(r"iaprefix (\S+) ", text)
    expect("dhclient has an address and a delegated prefix", na and pd, said + text + kea_log(6))
    return na[1], pd[1]

def use6(tap, address, gateway_mac="02:00:5e:00:01:01"):
    inside(SUB, "ip", "address", "replace", f"{address}/128", "dev", tap, "nodad")
    inside(SUB, "ip", "-6", "route", "replace", "default", "via", "fe80::1", "dev", tap)

def dhcp6():
    gate = gateway()
    server = kea(6, lifetime=40)
    seen = capture()
    line(7, "02:ca:00:00:00:07")
    text, said = dhclient6("tap7", "-N", "-P", stay=True)
    na, pd = v6_of(text, said)
    expect("the address that Kea has reserved, and a prefix of its pool", na == "2001:db8:100:7::7"
           and pd.startswith("2001:db8:400") and pd.endswith("/56"), (na, pd))
    use6("tap7", na)
    talks(na, "fd00:18::2")
    house = pd.split("/")[0].rstrip(":") + "::5"
    inside(SUB, "ip", "address", "add", f"{house}/128", "dev", "tap7", "nodad")
    talks(house, "fd00:18::2")
    got = ping(DN, "-6", "-c", "3", house)
    expect("the core reaches a host of the delegated prefix", " 3 received" in got, got)
    one = shown()
    expect("one subscriber has both, leased by the server", len(one) == 1 and one[0]["leased_by"] == ["fd00:18::10"]
           and one[0]["addresses"] == ["2001:db8:100:7::/64", pd], one)
    before = counted("relay6")["reply"]
    wait_for("dhclient renews, by the gateway", lambda: counted("relay6")["reply"] > before, 40)
    talks(house, "fd00:18::2")
    said = inside(SUB, "dhclient", "-6", "-r", "-v", "-N", "-P", "-lf", f"{FOLDER}/tap7.leases6", "-pf", f"{FOLDER}/tap7.pid6", "-sf",
                  f"{FOLDER}/tap7.script6", "-cf", "/dev/null", "tap7", check=False, timeout=60)
    wait_for("a RELEASE ends the session", lambda: shown() == [] and "yes")
    expect("and is answered by the server", counted("relay6").get("reply_other", 0) >= 1, (counted("relay6"), said))
    print(run(WEIR, "show", "dhcp", "--socket", SOCKET), flush=True)
    rows, problems = read(seen, "dhcpv6.msgtype == 12", "dhcpv6.msgtype", "dhcpv6.hopcount", "dhcpv6.linkaddr", "dhcpv6.peeraddr",
                          "dhcpv6.interface_id", "dhcpv6.remoteid.enterprise", "ipv6.src", "dhcpv6.option.type_str")
    print("      " + "\n      ".join(" ".join(row) for row in rows[:8]) + problems, flush=True)
    kinds = [row[0].split(",")[1] for row in rows]
    expect("the server saw Solicit, Request, Renew and Release inside Relay-forward", {"1", "3", "5", "8"} <= set(kinds), rows)
    circuit = "acc:100.7".encode().hex()
    expect("each with hop count, link, Interface-Id, Remote-Id and the client's address", all(
        row[1] == "0" and row[2] == "2001:db8:100::" and row[4].replace(":", "") in (circuit, "acc100.7")
        and row[5] == "3561" and row[6] == "fd00:18::1" for row in rows), rows)
    log = kea_log(6)
    rows, _ = read(seen, "_ws.malformed", "frame.number")
    expect("tshark finds nothing malformed", rows == [], rows)
    gateway_stops(gate)

def crash():
    gate = gateway()
    kea(4, lifetime=600)
    kea(6, lifetime=600)
    before, clients = {}, {}
    for n in range(1, 6):
        line(n, f"02:ca:00:00:00:{n:02x}")
        client = clients[n] = subprocess.Popen(udhcpc_command(f"tap{n}", "-f"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                               text=True)
        said = ""
        while "bound ip=" not in said and client.poll() is None:
            said += client.stdout.readline()
        before[n] = address_of(said)
    na, pd = v6_of(*dhclient6("tap3", "-N", "-P"))
    use("tap2", before[2])
    use6("tap3", na)
    for turn in range(3):
        gate.kill()
        gate.communicate(timeout=10)
        gate = gateway()
        after = {one["c_vlan"]: one for one in shown()}
        expect(f"all subscribers are there after kill -9, {turn + 1}", {n: one["addresses"][0] for n, one in after.items()} == before,
               (before, after))
        expect("with address, prefix and servers", after[3]["addresses"][1:] == ["2001:db8:100:3::/64", pd]
               and after[3]["leased_by"] == ["198.18.0.10", "fd00:18::10"], after[3])
        talks(before[2], "198.18.0.2")
        talks(na, "fd00:18::2")
        expect("without a DHCP message", counted("relay4") == {} and counted("relay6") == {}, (counted("relay4"), counted("relay6")))
        for n, client in clients.items():
            client.send_signal(signal.SIGUSR1)
            said = ""
            while "renew ip=" not in said and client.poll() is None:
                said += client.stdout.readline()
            expect(f"client {n} renews its lease", f"renew ip={before[n]}" in said, said)
        expect("by the gateway", counted("relay4").get("ack") == 5, counted("relay4"))
    for client in clients.values():
        client.kill()
    gateway_stops(gate)

def load():
    clients = 2000
    kea(4, lifetime=3600)
    gate = gateway(config(relay=""))
    tool = start("ip", "netns", "exec", SUB, sys.executable, f"{HERE}/perf_lines.py", "--interface", "sub0")
    said = tool.stdout.readline().strip()
    expect("lines are there", said == "ready", said)
    for command in (("link", "set", "perf0", "up"), ("address", "add", "10.9.0.2/16", "dev", "perf0"),
                    ("neighbour", "add", "10.9.0.1", "lladdr", "02:00:00:00:00:01", "dev", "perf0")):
        inside(SUB, "ip", *command)
    began = time.time()
    said = inside(SUB, "perfdhcp", "-4", "-l", "perf0", "-r", "250", "-R", str(clients), "-n", str(clients), "-W", "3000000", "-u",
                  "10.9.0.1", check=False, timeout=90)
    took = time.time() - began
    told = counted("relay4")
    view = json.loads(run(WEIR, "show", "dhcp", "--json", "--socket", SOCKET))["sessions"]
    tool.send_signal(signal.SIGTERM)
    lines = tool.communicate(timeout=10)[0]
    print(said[-2200:], flush=True)
    print(f"      {view['leases']} leases in {took:.1f} s; lines: {lines.strip()}; relay: {told}", flush=True)
    drops = [int(n) for n in re.findall(r"^drops: (\d+)", said, re.M)]
    expect("perfdhcp counts no drops", len(drops) == 2 and sum(drops) == 0, said)
    expect("each client has a lease", view["leases"] == clients and view["subscribers"] == clients, view)
    expect("each reply had its client's line", tool.returncode == 0 and f"lines={clients}" in lines, lines)
    named = {outcome: n for outcome, n in told.items() if outcome not in ("forwarded", "offer", "ack")}
    print(f"      dropped by name: {named or 'nothing'}", flush=True)
    expect("every message was passed on", not named and told["forwarded"] == 2 * clients
           and told["offer"] == told["ack"] == clients, told)
    kept = open(f"{FOLDER}/kea4/leases.csv").read().splitlines()[1:]
    expect("Kea has as many leases", len({row.split(",")[0] for row in kept}) == clients, len(kept))
    gateway_stops(gate)

ROGUE = '''
import socket, struct, sys, time
own, answers = sys.argv[1], sys.argv[2:]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((own, 67))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2000)
    options, at, agent, kind = data[240:], 0, b"", 0
    while at + 1 < len(options) and options[at] != 255:
        if options[at] == 0:
            at += 1
            continue
        code, body = options[at], options[at + 2:at + 2 + options[at + 1]]
        at += 2 + len(body)
        agent = body if code == 82 else agent
        kind = body[0] if code == 53 else kind
    if kind not in (1, 3):
        continue
    address = socket.inet_aton(answers[0] if len(answers) == 1 else answers.pop(0))
    reply = bytearray(data[:240])
    reply[0], reply[16:20] = 2, address
    reply += bytes([53, 1, 2 if kind == 1 else 5, 54, 4]) + socket.inet_aton(own) + bytes([51, 4]) + struct.pack("!I", 12)
    reply += bytes([1, 4, 255, 255, 240, 0, 82, len(agent)]) + agent + bytes([255])
    s.sendto(bytes(reply), (socket.inet_ntoa(data[24:28]), 67))
'''

def rogue(own, *answers):
    """A server that gives whoever asks those addresses, for 12 s."""
    inside(DN, "ip", "address", "replace", f"{own}/24", "dev", "dn0")
    child = start("ip", "netns", "exec", DN, sys.executable, "-c", ROGUE, own, *answers)
    said = child.stdout.readline().strip()
    expect(f"a server at {own} gives {answers}", said == "ready", said)
    return child

def ends(child):
    child.terminate()
    child.wait(timeout=10)

def drops():
    return json.dumps(json.loads(run(WEIR, "show", "drops", "--json", "--socket", SOCKET)))

def hostile():
    """Servers that give what they should not, strangers that answer, and two lines with one address."""
    gate = gateway(config(relay="", servers=("198.18.0.66",)))
    line(7, "02:ca:00:00:00:07")
    line(8, "02:ca:00:00:00:08")
    short = ("-n", "-q", "-t", "2", "-T", "1")
    child = rogue("198.18.0.66", "192.0.2.9")
    said = run(*udhcpc_command("tap7", *short), check=False)
    expect("an address of no slice is nobody's", "bound" not in said and counted("relay4").get("address_outside", 0) >= 1, counted("relay4"))
    ends(child)
    child = rogue("198.18.0.66", "100.64.0.1")
    said = run(*udhcpc_command("tap7", *short), check=False)
    expect("nor is the gateway's own", "bound" not in said and counted("relay4")["address_outside"] >= 2, counted("relay4"))
    ends(child)
    child = rogue("198.18.0.67", "100.64.0.9")
    done = inside(DN, sys.executable, "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\ns.bind(('198.18.0.67', 67))\n"
                  "[s.sendto(bytes(300), ('100.64.0.1', 67)) for _ in range(100)]")
    wait_for("a stranger's messages are dropped by name", lambda: "dhcp_stranger" in drops() and drops())
    expect("and none of them is seen by the relay agent", "reply_stranger" not in counted("relay4")
           and "reply_malformed" not in counted("relay4"), counted("relay4"))
    ends(child)
    child = rogue("198.18.0.66", "100.64.0.9")
    first = address_of(run(*udhcpc_command("tap7", "-n", "-q"), check=False))
    expect("an address of the slice is taken", first == "100.64.0.9" and len(shown()) == 1, shown())
    said = run(*udhcpc_command("tap8", "-n", "-q", "-t", "2", "-T", "1"), check=False)
    expect("a second line does not get it", "bound" not in said and counted("relay4").get("address_taken", 0) >= 1, counted("relay4"))
    expect("the first keeps it", [one["c_vlan"] for one in shown()] == [7], shown())
    wait_for("until it ends by itself, in 12 s", lambda: shown() == [] and "yes", 20)
    second = address_of(run(*udhcpc_command("tap8", "-n", "-q"), check=False))
    expect("then the second line has it", second == "100.64.0.9" and [one["c_vlan"] for one in shown()] == [8], shown())
    storm = ("import socket, struct, sys\nsys.path.insert(0, sys.argv[1])\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
             "s.bind(('tap7', 0))\nmac = bytes.fromhex('02ca00000007')\n"
             "for n in range(5000):\n"
             "    body = bytes([1, 1, 6, 0]) + struct.pack('!I', n) + bytes(20) + mac + bytes(202)\n"
             "    body += bytes([99, 130, 83, 99, 53, 1, 1, 255]) + bytes(60)\n"
             "    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 28 + len(body), 0, 0, 64, 17, 0, bytes(4), b'\\xff' * 4)\n"
             "    total = sum(struct.unpack('!10H', head)); total = (total & 0xffff) + (total >> 16)\n"
             "    head = head[:10] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + head[12:]\n"
             "    s.send(b'\\xff' * 6 + mac + b'\\x08\\x00' + head + struct.pack('!HHHH', 68, 67, 8 + len(body), 0) + body)\n")
    inside(SUB, sys.executable, "-c", storm, HERE)
    time.sleep(1)
    third = address_of(run(*udhcpc_command("tap8", "-n", "-q"), check=False))
    told = counted("relay4")
    expect("a storm of DISCOVERs of one line leaves the other's renewals alone", third == "100.64.0.9", third)
    expect("and little of it reaches the server", told["forwarded"] < 200, told)
    print(run(WEIR, "show", "dhcp", "--socket", SOCKET), flush=True)
    print("\n".join(row for row in run(WEIR, "show", "drops", "--socket", SOCKET).splitlines()), flush=True)
    gateway_stops(gate)

def failover():
    """Two servers in order: the first does not answer, the second takes over, and the first is used again when it answers."""
    inside(DN, "ip", "address", "add", "198.18.0.10/24", "dev", "dn0")
    path = config(relay='order = "first"', servers=("198.18.0.10", "198.18.0.11"))
    gate = gateway(path)
    kea(4, address="198.18.0.11", name="second", pools=[{"pool": "100.64.8.10 - 100.64.8.250"}])
    line(7, "02:ca:00:00:00:07")
    said = run(*udhcpc_command("tap7", "-n", "-q", "-t", "12", "-T", "1"), check=False)
    address = re.search(r"bound ip=(\S+)", said)
    expect("the second server leases", address and address[1].startswith("100.64.8."), said)
    expect("which is shown", shown()[0]["leased_by"] == ["198.18.0.11"], shown())
    told = servers()
    expect("the silent server is shown by name", not told["198.18.0.10"]["answers"] and told["198.18.0.11"]["answers"], told)
    print(run(WEIR, "show", "dhcp", "--socket", SOCKET), flush=True)
    kea(4, address="198.18.0.10", name="first", pools=[{"pool": "100.64.4.10 - 100.64.4.250"}])
    line(8, "02:ca:00:00:00:08")
    def back():
        run(*udhcpc_command("tap8", "-n", "-q", "-t", "1", "-T", "1"), check=False)
        return servers()["198.18.0.10"]["answers"]
    wait_for("it is asked again, and answers", back, 30)
    line(9, "02:ca:00:00:00:09")
    third = address_of(udhcpc("tap9"))
    expect("and leases again", third.startswith("100.64.4."), third)
    gate.send_signal(signal.SIGTERM)
    said = gate.communicate(timeout=20)[0]
    rows = [row for row in said.splitlines() if "dhcp_server_" in row]
    print("      " + "\n      ".join(rows), flush=True)
    expect("events name it", any("dhcp_server_silent" in row and "198.18.0.10" in row for row in rows)
           and any("dhcp_server_answers" in row and "198.18.0.10" in row for row in rows), said)

RADIUS = """
[radius]
nas_identifier = "bng1"
password = "weir"
interim_seconds = 2
[[radius.server]]
address = "127.0.0.1"
secret = "testing123"
"""

def radius():
    folder = f"{FOLDER}/radius"
    freeradius_configured(folder, ("acc:100.7",), "gold")
    start("ip", "netns", "exec", GW, "freeradius", "-f", "-d", folder)
    time.sleep(2)
    path = config(more=RADIUS)
    text = open(path).read().replace(f"?netns={GW}&", "?").replace("profile = [ {", 'profile = [ { name = "gold" }, {')
    with open(path, "w") as file:
        file.write(text)
    gate = gateway_runs("weir runs", ("ip", "netns", "exec", GW, WEIR, "run", path), SOCKET)
    kea(4)
    line(7, "02:ca:00:00:00:07")
    line(8, "02:ca:00:00:00:08")
    said = run(*udhcpc_command("tap8", "-n", "-q"), check=False)
    expect("a line that the RADIUS server does not know gets nothing", "bound" not in said, said)
    expect("and its requests are not relayed", counted("relay4") == {}, counted("relay4"))
    address = address_of(udhcpc("tap7"))
    use("tap7", address)
    talks(address, "198.18.0.2")
    one = shown()
    expect("the other has the server's tier and Kea's lease", len(one) == 1 and one[0]["profile"] == "gold"
           and one[0]["leased_by"] == ["198.18.0.10"], one)
    detail = f"{folder}/detail"
    told = lambda what: lambda: what in (open(detail).read() if os.path.exists(detail) else "") and open(detail).read()
    text = wait_for("accounting begins", told("Acct-Status-Type = Start"))
    expect("with name, address and line", all(what in text for what in (
        'User-Name = "acc:100.7"', f"Framed-IP-Address = {address}", 'NAS-Port-Id = "acc:100.7"')), text)
    text = wait_for("interim reports come", told("Acct-Status-Type = Interim-Update"))
    run(WEIR, "subscriber", address, "clear", "--socket", SOCKET)
    wait_for("accounting ends with the session", told("Acct-Status-Type = Stop"))
    expect("of which nothing is left", shown() == [], shown())
    gateway_stops(gate)

def reloaded(path, before, after):
    text = open(path).read()
    expect(f"{before!r} can be changed", before in text, text)
    with open(path, "w") as file:
        file.write(text.replace(before, after, 1))
    done = subprocess.run([WEIR, "reload", "--socket", SOCKET], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr

def reload():
    path = config(relay="")
    whole = open(path).read()
    relayed = '[group.sessions.relay]\nservers = ["198.18.0.10", "fd00:18::10"]'
    with open(path, "w") as file:
        file.write(whole.replace(relayed, 'domain = "home.example"'))
    gate = gateway(path)
    kea(4)
    line(7, "02:ca:00:00:00:07")
    said = udhcpc("tap7")
    own = address_of(said)
    expect("the gateway leases", "domain=home.example" in said and "leased_by" not in shown()[0], (said, shown()))
    code, said = reloaded(path, 'domain = "home.example"', f'domain = "home.example"\n{relayed}')
    expect("both for one family is refused, by file, line and key", code == 2 and "group.0.sessions.domain" in said
           and "bng.toml:" in said, said)
    print(f"      {said.strip()}", flush=True)
    code, said = reloaded(path, 'domain = "home.example"\n', "")
    expect("relay is turned on", code == 0, said)
    line(8, "02:ca:00:00:00:08")
    said = udhcpc("tap8")
    second = address_of(said)
    expect("Kea leases from now on", "domain=kea.example" in said and second != own, said)
    one = {one["c_vlan"]: one for one in shown()}
    expect("and the first lease is still there", one[7]["addresses"] == [own] and one[8]["leased_by"] == ["198.18.0.10"], one)
    code, said = reloaded(path, "198.18.0.10", "198.18.0.1")
    expect("the gateway is no server for itself", code == 2 and "relay.servers.0" in said, said)
    print(f"      {said.strip()}", flush=True)
    code, said = reloaded(path, relayed.replace("198.18.0.10", "198.18.0.1"), "")
    expect("relay is turned off", code == 0, said)
    third = udhcpc("tap8", "-r", second)
    expect("the gateway leases again", "bound" in third and "domain=kea.example" not in third, third)
    gateway_stops(gate)

def main():
    broadband_links(SUB, GW, DN)
    try:
        globals()[CASE]()
    except SystemExit:
        for view in ("dhcp", "drops", "groups"):
            print(run(WEIR, "show", view, "--socket", SOCKET, check=False), flush=True)
        for log in (f"{FOLDER}/{server}/log" for server in os.listdir(FOLDER)):
            print(open(log).read()[-3000:] if os.path.exists(log) else "", end="", flush=True)
        raise

within(120, NAMESPACES, main)
