#!/usr/bin/env python3
"""Accounting while a broadband gateway is killed again and again: FreeRADIUS has one start and one stop of every session.

    sub: DHCP clients of this script,                gw: weir and FreeRADIUS          dn (a host of the core)
    two tags each, that send packets ═══ sub0 ══ acc ─ weir ─ core 198.18.0.1 ══ dn0 198.18.0.2

Sessions begin, send packets and are released at random, while weir is killed with SIGKILL at random moments and started
again; for a part of the time the RADIUS server does not answer. In the end all sessions are released, and the records of the
server are added up.
usage: bng_accounting.py WEIR_BINARY KILLS [LINES [SEED]]
"""
import ctypes, json, os, random, re, select, signal, socket, struct, sys, tempfile, threading, time

from lab import (broadband_config, broadband_links, expect, freeradius_configured, gateway_runs, gateway_stops, receive_tagged, run, start,
                 tagged_socket, wait_for, within)

WEIR, KILLS = sys.argv[1], int(sys.argv[2])
LINES = int(sys.argv[3]) if len(sys.argv) > 3 else 24
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 32)
TAG = f"weir-bnga-{os.getpid()}"
SUB, GW, DN = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn"
FOLDER = tempfile.mkdtemp(prefix=TAG)
SOCKET = f"{FOLDER}/weir.sock"
GATEWAY_MAC = bytes.fromhex("02005e000101")
SERVER = socket.inet_aton("100.64.0.1")
CHANCE = random.Random(SEED)

HEAD = f"""
[process]
confine = false

[sessions]
ledger = "{FOLDER}/ledger"

[radius]
nas_identifier = "bng1"
password = "weir"
interim_seconds = 1
[[radius.server]]
address = "127.0.0.1"
secret = "testing123"
"""
CONFIG = broadband_config(
    SOCKET, lambda name: f"packet:{name}?promisc=on", '{ name = "home" }', core=["198.18.0.1/24"], head=HEAD, s_vlans="100",
    c_vlans="1-4000", ipv4=["100.64.0.0/20"], ipv6_wan=None, ipv6_pd=None, gateways=["100.64.0.1"]) + """
[group.sessions]
lease_seconds = 600
"""

def checksum(octets):
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF

def ip_udp(source, to, ports, payload):
    udp = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, source, to)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp

class Line:
    """A DHCP client (RFC 2131) behind its VLAN pair."""

    def __init__(self, n):
        self.n, self.mac = n, bytes([2, 0xCA, 0, 0, n >> 8, n & 0xFF])
        self.address, self.asked, self.until, self.bound = None, 0.0, 0.0, 0
        self.sent = 0                        # octets of IP packets, while it had an address
        self.wants = True

    def frame(self, to, ip):
        return to + self.mac + struct.pack("!HHHHH", 0x88A8, 100, 0x8100, self.n, 0x0800) + ip

    def dhcp(self, kind, options=b"", own=bytes(4)):
        head = struct.pack("!BBBBIHH4s12x", 1, 1, 6, 0, self.n, 0, 0, own) + self.mac + bytes(202)
        return head + b"\x63\x82\x53\x63" + bytes([53, 1, kind]) + options + b"\xff"

    def discover(self):
        return self.frame(b"\xff" * 6, ip_udp(bytes(4), b"\xff" * 4, (68, 67), self.dhcp(1)))

    def request(self, address):
        options = b"\x32\x04" + address + b"\x36\x04" + SERVER
        return self.frame(b"\xff" * 6, ip_udp(bytes(4), b"\xff" * 4, (68, 67), self.dhcp(3, options)))

    def release(self):
        message = self.dhcp(7, b"\x36\x04" + SERVER, self.address)
        return self.frame(GATEWAY_MAC, ip_udp(self.address, SERVER, (68, 67), message))

    def packet(self):
        ip = ip_udp(self.address, socket.inet_aton("198.18.0.2"), (4000, 9), bytes(72 + self.n))
        self.sent += len(ip)
        return self.frame(GATEWAY_MAC, ip)

    def came(self, ip):
        """An answer of the server; returns what is to be sent."""
        message = ip[28:]
        kind = re.search(rb"\x35\x01(.)", message[240:], re.DOTALL)
        if message[:1] != b"\2" or not kind:
            return None
        if kind[1] == b"\2":
            return self.request(message[16:20])
        if kind[1] == b"\5" and self.address is None and self.wants:
            self.address, self.until = message[16:20], time.time() + CHANCE.uniform(0.3, 5)
            self.bound += 1
        return None

class Clients(threading.Thread):
    """All lines; what they do is decided by chance."""

    def __init__(self, raw):
        super().__init__(daemon=True)
        self.raw, self.lines, self.ends = raw, {n: Line(n) for n in range(1, LINES + 1)}, False
        self.octets = 0

    def run(self):
        while not self.ends:
            self.turn(time.time())
            self.hear(0.02)

    def hear(self, seconds):
        until = time.time() + seconds
        while select.select([self.raw], [], [], max(0, until - time.time()))[0]:
            frame = receive_tagged(self.raw)
            if frame is None or len(frame) < 50 or frame[12:16] != b"\x88\xa8\0\x64" or frame[31] != 17 or frame[6:12] != GATEWAY_MAC:
                continue
            line = self.lines.get(struct.unpack("!H", frame[18:20])[0])
            answer = line and line.came(frame[22:])
            if answer:
                self.raw.send(answer)

    def turn(self, now):
        for line in self.lines.values():
            if line.address is None:
                if line.wants and now > line.asked:
                    line.asked = now + 1
                    self.raw.send(line.discover())
            elif now > line.until or not line.wants:
                # Nobody answers a RELEASE; one that is lost leaves the session to the next client of the line.
                self.raw.send(line.release())
                line.address, line.asked = None, now + CHANCE.uniform(0, 1)
            elif CHANCE.random() < 0.3:
                self.raw.send(line.packet())

def inside_of(namespace, make):
    """What is made in a namespace stays there."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, there = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    expect("the namespace is entered", libc.setns(there, 0) == 0, os.strerror(ctypes.get_errno()))
    made = make()
    expect("and left", libc.setns(here, 0) == 0, os.strerror(ctypes.get_errno()))
    return made

def records(path):
    """Accounting requests as FreeRADIUS wrote them down, each as a dictionary; what it adds itself is left out."""
    if not os.path.exists(path):
        return []
    found = []
    for block in open(path).read().split("\n\n"):
        pairs = re.findall(r"^\t([\w-]+) = (.*)$", block, re.MULTILINE)
        if pairs:
            # Signed, by which socket it was sent, and when the server took it: all others are the report's.
            own = ("Message-Authenticator", "Timestamp", "Tmp-String-9", "Packet-Src-IP-Address")
            found.append({name: value.strip('"') for name, value in pairs if name not in own})
    return found

def by_session(path):
    sessions = {}
    for record in records(path):
        if record["Acct-Status-Type"] in ("Start", "Stop", "Interim-Update"):
            sessions.setdefault(record["Acct-Session-Id"], []).append(record)
    return sessions

def octets(record):
    return int(record.get("Acct-Input-Octets", 0)) + (int(record.get("Acct-Input-Gigawords", 0)) << 32)

def judged(path, lines):
    """What is wrong with the records, a sentence each; and what was added up."""
    wrong, used, twice, sums = [], {}, 0, {"sessions": 0, "interims": 0}
    for id, all in by_session(path).items():
        of = lambda kind: [record for record in all if record["Acct-Status-Type"] == kind]
        starts, stops, interims = of("Start"), of("Stop"), of("Interim-Update")
        sums["sessions"] += 1
        sums["interims"] += len(interims)
        for kind, some in (("start", starts), ("stop", stops)):
            if not some:
                wrong.append(f"{id}: no {kind}: {all}")
            elif any(record != some[0] for record in some):
                wrong.append(f"{id}: two {kind}s that differ: {some}")
            twice += max(0, len(some) - 1)
        if not stops:
            continue
        # FreeRADIUS tells sessions by these, and by Acct-Session-Id and NAS-Identifier.
        for name in ("Acct-Unique-Session-Id", "User-Name", "NAS-Port-Id", "NAS-Identifier", "Calling-Station-Id"):
            if starts and starts[0].get(name) != stops[0].get(name):
                wrong.append(f"{id}: {name} of its start is {starts[0].get(name)}, of its stop {stops[0].get(name)}")
        if "NAS-Port-Id" not in stops[0] or not stops[0].get("User-Name"):
            wrong.append(f"{id}: no NAS-Port-Id or User-Name in its stop: {stops[0]}")
        before = max([octets(record) for record in interims], default=0)
        if octets(stops[0]) < before:
            wrong.append(f"{id}: {octets(stops[0])} octets in its stop, {before} in a report before")
        line = stops[0].get("NAS-Port-Id", "")
        used[line] = used.get(line, 0) + octets(stops[0])
    for n, line in lines.items():
        if used.get(f"acc:100.{n}", 0) > line.sent:
            wrong.append(f"line {n}: {used[f'acc:100.{n}']} octets accounted, {line.sent} sent")
        if line.bound > 0 and f"acc:100.{n}" not in used:
            wrong.append(f"line {n}: {line.bound} leases, no session")
    sums |= {"sent again": twice, "octets sent": sum(line.sent for line in lines.values()), "octets accounted": sum(used.values())}
    return wrong, sums

def orderly(gate, gateway, clients, detail):
    """Sessions go on over two stops and starts of the gateway, and are charged to the octet."""
    known, lines = set(by_session(detail)), [clients.lines[n] for n in range(1, 9)]
    for line in lines:
        line.wants, line.sent = True, 0
    def bound():
        for line in lines:
            if line.address is None:
                clients.raw.send(line.discover())
        clients.hear(0.3)
        return all(line.address for line in lines) and "yes"
    wait_for("eight sessions begin", bound)
    for _ in range(2):
        for n in range(40):
            for line in lines:
                clients.raw.send(line.packet())
            time.sleep(0.002)
        # What is in the gateway's ring is its to carry.
        carried = lambda: sum(one["up_packets"] for one in json.loads(run(WEIR, "show", "subscribers", "--json", "--socket", SOCKET))["entries"])
        wait_for("all packets are carried", lambda: carried() == 40 * len(lines) and "yes")
        gateway_stops(gate)
        gate = gateway()
    new = lambda: {id: all for id, all in by_session(detail).items() if id not in known}
    stops = lambda: [record for all in new().values() for record in all if record["Acct-Status-Type"] == "Stop"]
    def are_over():
        for line in lines:
            clients.raw.send(line.release())
        return len(stops()) == len(lines) and "yes"
    wait_for("and end", are_over, 20)
    charged = {record["NAS-Port-Id"]: octets(record) for record in stops()}
    expect("each was charged what it sent", charged == {f"acc:100.{line.n}": line.sent for line in lines},
           (charged, [(line.n, line.sent) for line in lines]))
    expect("with one start each", all(sum(record["Acct-Status-Type"] == "Start" for record in all) == 1 for all in new().values()), new())
    return gate

def main():
    broadband_links(SUB, GW, DN)
    print("seed", SEED)
    path = f"{FOLDER}/bng.toml"
    with open(path, "w") as file:
        file.write(CONFIG)
    freeradius_configured(f"{FOLDER}/radius", [f"acc:100.{n}" for n in range(1, LINES + 1)])
    detail = f"{FOLDER}/radius/detail"
    server = start("ip", "netns", "exec", GW, "freeradius", "-f", "-d", f"{FOLDER}/radius")
    time.sleep(2)

    def gateway():
        if os.path.exists(SOCKET):
            os.remove(SOCKET)
        return gateway_runs("weir runs", ("ip", "netns", "exec", GW, WEIR, "run", path), SOCKET)

    gate = gateway()
    raw = inside_of(SUB, lambda: tagged_socket("sub0"))
    clients = Clients(raw)
    clients.start()
    away = range(KILLS // 3, KILLS // 2)     # the RADIUS server does not answer while these are killed
    for turn in range(KILLS):
        if turn == away.start and len(away) > 0:
            os.kill(server.pid, signal.SIGSTOP)
        if turn == away.stop and len(away) > 0:
            os.kill(server.pid, signal.SIGCONT)
        time.sleep(CHANCE.uniform(0.05, 2.5))
        gate.kill()
        gate.communicate(timeout=10)
        gate = gateway()
    os.kill(server.pid, signal.SIGCONT)
    time.sleep(3)
    for line in clients.lines.values():
        line.wants = False

    def all_left():
        # Those whose RELEASE was lost while no gateway ran are still there: their lines ask again, and release.
        left = json.loads(run(WEIR, "show", "subscribers", "--json", "--socket", SOCKET))["entries"]
        for one in left:
            line = clients.lines[int(one["c_vlan"])]
            address = next((text for text in one["addresses"] if "." in text), None)
            if line.address is None and address:
                line.address = socket.inet_aton(address)
        return not left and "yes"

    wait_for("all sessions have ended", all_left, 30)
    clients.ends = True
    clients.join()
    wait_for("every session has its stop", lambda: all(any(one["Acct-Status-Type"] == "Stop" for one in each)
                                                       for each in by_session(detail).values()) and "yes", 40)
    wrong, sums = judged(detail, clients.lines)
    gateway_stops(orderly(gate, gateway, clients, detail))
    sums |= {"leases": sum(line.bound for line in clients.lines.values()), "kills": KILLS}
    on = sum(record["Acct-Status-Type"] == "Accounting-On" for record in records(detail))
    print(", ".join(f"{name} {number:,}" for name, number in (sums | {"Accounting-On": on}).items()))
    expect("the records are right", not wrong, "\n".join(wrong))
    expect("sessions came, were used and went", sums["sessions"] >= LINES and sums["octets accounted"] > 0, sums)

within(60 + KILLS * 6, NAMESPACES, main)
