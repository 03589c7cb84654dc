#!/usr/bin/env python3
"""A process goes on for that of a broadband gateway (`weir run --take-over`) while its subscribers send and receive.

    sub (subscribers)                             gw                              dn (hosts of the core)
    weir gen broadband, or tap7 ─ qinq.py ─ sub0 ═══ acc ─ weir run, weir run --take-over, … ─ core ═══ dn0

The generator gets addresses by DHCP and checks each flow: loss, order, tags. Clients are Debian's udhcpc and the kernel's
TCP; FreeRADIUS is told of sessions. Everything is made here and removed at the end.
usage: bng_take_over.py WEIR_BINARY CASE [LINES PPS STATIC TIMES WORKERS [FANOUT]]
    CASE: load radius queue nat refused; xdp, fast: load over AF_XDP ports, in the kernel
    LINES: subscribers with traffic; STATIC: configured ones without; TIMES: take-overs in a row
    FANOUT of several workers: hash, or subscriber: ports follow the groups
"""
import json, os, re, signal, socket, subprocess, sys, tempfile, time

from lab import (broadband_config, broadband_links, children, every_packet_came, expect, freeradius_configured, inside, ping, run, start, wait_for,
                 within)

WEIR, CASE = sys.argv[1:3]
LINES, PPS, STATIC, TIMES, WORKERS = [int(word) for word in sys.argv[3:8]] or (200, 4000, 2000, 3, 1)
FANOUT = sys.argv[8] if len(sys.argv) > 8 else "hash"
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-bngt-{os.getpid()}"
SUB, GW, DN = NAMESPACES = f"{TAG}-sub", f"{TAG}-gw", f"{TAG}-dn"
FOLDER = tempfile.mkdtemp(prefix=TAG)
SOCKET = f"{FOLDER}/weir.sock"
PATH = f"{FOLDER}/bng.toml"
AT_LEAST = 30 + LINES // 1000

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

NAT = """
[nat]
log = "FOLDER/nat.log"
[[nat.pool]]
addresses = "192.0.2.1/32"
"""

# The queue holds all that is sent, and nothing but its end drops.
SHAPE = ', down = "2 Mbit/s", shape = { class = [ { name = "all", weight = 1, buffer = "4 MB", target_us = "0" } ] }'

def config(**changed):
    profile = '{ name = "home"%s }' % {"queue": SHAPE}.get(CASE, ', up = "1 Gbit/s", down = "1 Gbit/s"')
    look = {"hash": ("", ""), "subscriber": ("&steer=source", "&steer=destination")}[FANOUT]
    number = {"acc": 1, "core": 2}
    fanout = lambda n: (f"&fanout={FANOUT}&group={os.getpid() % 30000 + n}&member={{worker}}/{{workers}}" + look[n - 1]
                        if WORKERS > 1 else "")
    head = f"""workers = {{ count = {WORKERS} }}
frames = {{ packet_buffers = 32768 }}

[sessions]
ledger = "{FOLDER}/ledger"
"""
    uri = ((lambda name: f"xdp:{name}?copy=yes") if CASE in ("xdp", "fast") else
           (lambda name: f"packet:{name}?promisc=on{fanout(number[name])}"))
    text = broadband_config(
        SOCKET, uri, profile, {"fast_path": "only"} if CASE == "fast" else None, head=head, s_vlans="100-163",
        c_vlans="1-4000", ipv4=["100.64.0.0/14"], ipv6_wan=["2001:db8:100::/44"],
        ipv6_pd=[{"prefix": "2001:db8:4000::/36", "length": 56}]) + f"""
[group.sessions]
lease_seconds = 600
ipv6 = "{'slaac' if CASE == 'nat' else 'dhcp'}"

[[group]]
name = "other"
ports = ["acc"]
s_vlans = 200
c_vlans = "1-4000"
ipv4 = ["100.80.0.0/20"]
gateways = ["100.80.0.1"]
profile = "home"
worker = {WORKERS - 1}

[[subscriber]]
group = "other"
count = {max(STATIC, 1)}
c_vlan = 1
mac = "02:cc:00:00:00:00"
ipv4 = "100.80.0.10"
"""
    text += {"radius": RADIUS, "nat": NAT.replace("FOLDER", FOLDER)}.get(CASE, "")
    for before, after in changed.items():
        expect_quietly(f"{before} can be changed", before in text, text)
        text = text.replace(before, after)
    with open(PATH, "w") as file:
        file.write(text)

def expect_quietly(what, holds, shown):
    if not holds:
        expect(what, holds, shown)

class Gateway:
    """A process of `weir run`, its log, and its last counters."""
    count = 0
    # What those that have ended dropped: all that is known of a packet that did not come.
    dropped = []

    def __init__(self, *more, path=PATH):
        self.name = f"{FOLDER}/{Gateway.count}"
        Gateway.count += 1
        self.out = open(f"{self.name}.out", "w")
        self.err = open(f"{self.name}.err", "w")
        command = ["ip", "netns", "exec", GW, WEIR, "run", path, "--json", "--socket", SOCKET, *more]
        self.child = subprocess.Popen(command, stdout=self.out, stderr=self.err)
        children.append(self.child)

    def said(self):
        return open(f"{self.name}.err").read()

    def is_ready(self):
        until = time.time() + 120
        while "ready after" not in self.said() and self.child.poll() is None and time.time() < until:
            time.sleep(0.02)
        expect_quietly("weir runs", "ready after" in self.said(), self.said())
        return self

    def ends(self):
        """Without a packet that nothing tells of."""
        try:
            code = self.child.wait(timeout=60)
        except subprocess.TimeoutExpired:
            code = None
        expect_quietly("the process ends well", code == 0, self.said())
        last = json.load(open(f"{self.name}.out"))
        Gateway.dropped += [worker["drops"] for worker in last["workers"]]
        expect_quietly("the law of packets holds", all(worker["missing"] == 0 for worker in last["workers"]), last["workers"])
        return last

    def stops(self):
        self.child.send_signal(signal.SIGTERM)
        self.ends()
        expect("weir stops in good order", True, "")

def take_over(old, times="", **changed):
    """The next process, which goes on for that one."""
    new = Gateway("--take-over").is_ready()
    old.ends()
    done = next(text for text in old.said().splitlines() if "take_over_done" in text)
    parts = {key: int(value) for key, value in re.findall(r"(\w+_us)=(\d+)", done)}
    expect(f"another process has taken over{times}: no worker ran for {parts.pop('frozen_us')} us ("
           + ", ".join(f"{key[:-3]} {value}" for key, value in parts.items()) + ")", "packets_missing=0" in done, done)
    return new

def ask(*words):
    return json.loads(run(WEIR, *words, "--json", "--socket", SOCKET))

def group(name="pon"):
    return next(row for row in ask("show", "groups")["groups"]["groups"] if row["name"] == name)

def entries(*filters):
    """All subscribers, a page at a time."""
    every, after = [], None
    while True:
        page = ask("show", "subscribers", "--limit", "1000", *filters, *(["--after", str(after)] if after is not None else []))
        every += page["entries"]
        after = page.get("next")
        if after is None:
            return every

def traffic(seconds, others=0, *more):
    """Subscribers beside others that have addresses, and packets of theirs both ways. Hosts of the core are many: few packets
    wait for each when they are first asked for."""
    # Redirected packets are received only with NAPI, which generic receive offload brings.
    keep = "&offloads=keep" if CASE == "fast" else ""
    generator = start("ip", "netns", "exec", SUB, WEIR, "gen", "broadband", "--access", f"packet:sub0?promisc=on{keep}", "--core",
                      f"packet:dn0?netns={DN}{keep}", "--subscribers", str(LINES), "--pps", str(PPS), "--seconds", str(seconds),
                      "--server", "198.18.0.100", "--servers", "100", "--json", f"{FOLDER}/load.json", *more)
    until = time.time() + AT_LEAST
    while group()["subscribers"] < LINES + others and generator.poll() is None and time.time() < until:
        time.sleep(0.2)
    expect(f"{LINES} subscribers have addresses", group()["subscribers"] == LINES + others, group())
    time.sleep(2)
    return generator

def early():
    """Packets that were dropped before a host of the core had answered for the first time: of a busy machine."""
    return sum(drop["packets"] for drop in ask("show", "drops") if drop["reason"] == "neighbour_queue_full")

def whole(generator, early=0):
    """What the generator has seen: every packet once, in order, with its tags."""
    said = generator.communicate(timeout=120)[0]
    expect("the generator ends well", generator.returncode == 0, said)
    result = json.load(open(f"{FOLDER}/load.json"))
    every_packet_came(result, lambda: (Gateway.dropped, ask("show", "drops"), ask("show", "ports")), early)
    return result

def load():
    config()
    gateway = Gateway().is_ready()
    # Dual stack, but for very many.
    stacks = 3 if LINES <= 2000 else 1
    generator = traffic(TIMES * (3 + LINES / 8000) + 6, 0, *(["--ipv6"] if stacks > 1 else []))
    before = {one["name"]: one["addresses"] for one in entries()} if LINES <= 2000 else None
    unanswered = early()
    if WORKERS > 1:
        ask("move", "group", "pon", "--to-worker", "1")
    for n in range(TIMES):
        gateway = take_over(gateway, f" {n + 1}")
        expect_quietly("all subscribers are there", group()["subscribers"] == LINES, group())
        expect_quietly("on the worker that they were on", group()["worker"] == WORKERS - 1, group())
        time.sleep(1)
    result = whole(generator, unanswered)
    if CASE == "fast":
        kernel = ask("show", "run")["kernel"]
        expect(f"the last process has forwarded {kernel['up_packets']} and {kernel['down_packets']} packets in the kernel",
               kernel["up_packets"] > PPS / 4 and kernel["down_packets"] > PPS / 4, kernel)
    seen = entries()
    if before is not None:
        expect("with the same addresses", {one["name"]: one["addresses"] for one in seen} == before, seen[:3])
    up, down = (sum(row[f"{way}_packets"] for row in seen) for way in ("up", "down"))
    expect(f"usage is exact: {up} and {down} packets",
           (up, down) == (result["uplink"]["received_packets"], result["downlink"]["received_packets"]), result)
    leases = ask("show", "dhcp")["sessions"]["leases"]
    expect(f"{leases} leases went over", leases == LINES * stacks, leases)
    # The ledger is this process's now: it is read again after kill -9.
    gateway.child.kill()
    gateway.child.wait()
    os.remove(SOCKET)
    gateway = Gateway().is_ready()
    expect("a crash later all subscribers are there", group()["subscribers"] == LINES, group())
    gateway.stops()

def line(n):
    """A host behind two tags."""
    tap = f"tap{n}"
    child = start("ip", "netns", "exec", SUB, sys.executable, f"{HERE}/qinq.py", "--interface", "sub0", "--tap", tap,
                  "--s-vlan", "100", "--c-vlan", str(n))
    said = child.stdout.readline().strip()
    expect_quietly(f"line {n} is there", said == "ready", said)
    inside(SUB, "ip", "link", "set", tap, "address", f"02:ca:00:00:00:{n:02x}", "mtu", "1500", "up")
    return tap

class Udhcpc:
    """Debian's DHCP client, as it runs all the time; it renews when it is told to."""
    def __init__(self, tap):
        script = f"{FOLDER}/udhcpc.sh"
        self.log = f"{FOLDER}/{tap}.leases"
        with open(script, "w") as file:
            file.write(f'#!/bin/sh\n[ "$1" = bound ] || [ "$1" = renew ] || exit 0\necho "$1 $ip" >> {FOLDER}/$interface.leases\n')
        os.chmod(script, 0o755)
        self.child = start("ip", "netns", "exec", SUB, "udhcpc", "-f", "-i", tap, "-t", "5", "-T", "2", "-s", script)
        self.address = wait_for(f"udhcpc has a lease on {tap}", lambda: self.leases() and self.leases()[0].split()[1])
        inside(SUB, "ip", "address", "add", f"{self.address}/32", "dev", tap)
        inside(SUB, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", tap, "onlink")

    def leases(self):
        return open(self.log).read().splitlines() if os.path.exists(self.log) else []

    def renews(self):
        before = len(self.leases())
        self.child.send_signal(signal.SIGUSR1)
        got = wait_for("udhcpc renews", lambda: self.leases()[before:])
        expect("the same address", got == [f"renew {self.address}"], got)

def talks(address):
    ping(SUB, "-c", "1", "-I", address, "198.18.0.2")
    got = ping(SUB, "-c", "5", "-I", address, "198.18.0.2")
    expect("5 of 5 pings are answered", " 5 received" in got, got)

def freeradius():
    folder = f"{FOLDER}/radius"
    freeradius_configured(folder, ("acc:100.7", "acc:100.8"))
    return lambda: start("ip", "netns", "exec", GW, "freeradius", "-f", "-d", folder), f"{folder}/detail"

def records(detail):
    """What FreeRADIUS has written of sessions: a list of attributes for each report."""
    text = open(detail).read() if os.path.exists(detail) else ""
    return [dict(re.findall(r"\t(\S+) = (.*)", one)) for one in text.split("\n\n") if "Acct-Status-Type" in one]

def radius():
    serve, detail = freeradius()
    server = serve()
    time.sleep(2)
    config()
    gateway = Gateway().is_ready()
    first = Udhcpc(line(7))
    talks(first.address)
    of = lambda kind: [one for one in records(detail) if one["Acct-Status-Type"] == kind]
    wait_for("accounting begins", lambda: of("Start"))
    wait_for("interim reports come", lambda: of("Interim-Update"))
    # Reports that nobody takes wait, and go over; among them the end of a session.
    server.send_signal(signal.SIGSTOP)
    run(WEIR, "subscriber", "pon/acc:100.7", "clear", "--socket", SOCKET)
    wait_for("the subscriber is gone", lambda: group()["subscribers"] == 0 and "yes")
    gateway = take_over(gateway)
    time.sleep(1)
    gateway = take_over(gateway, " again")
    server.send_signal(signal.SIGCONT)
    stop = wait_for("the end of the session is told", lambda: of("Stop"))
    time.sleep(5)
    stop = of("Stop")
    expect("once", len(stop) == 1, stop)
    expect("with what was used", int(stop[0]["Acct-Input-Packets"]) == 6 and int(stop[0]["Acct-Output-Packets"]) == 6, stop)
    expect("of the session that began", {one["Acct-Session-Id"] for one in records(detail) if "User-Name" in one}
           == {stop[0]["Acct-Session-Id"]}, records(detail))

    second = Udhcpc(line(8))
    talks(second.address)
    wait_for("another session begins", lambda: len(of("Start")) == 2)
    gateway = take_over(gateway)
    talks(second.address)
    second.renews()
    used = lambda: [int(one["Acct-Input-Packets"]) for one in of("Interim-Update") if one["User-Name"] == '"acc:100.8"']
    wait_for("interim reports go on with exact usage", lambda: used() and used()[-1] == 12)
    now = f"Event-Timestamp={int(time.time())},Message-Authenticator=0x00"
    done = subprocess.run(["ip", "netns", "exec", GW, "radclient", "-x", "-r", "1", "-t", "3", "127.0.0.1:3799", "disconnect",
                           "testing123"], input=f"User-Name=acc:100.8,{now}\n", capture_output=True, text=True, timeout=20)
    expect("Disconnect ends the session", "Received Disconnect-ACK" in done.stdout, done.stdout + done.stderr)
    wait_for("and that is told", lambda: len(of("Stop")) == 2)
    expect("with exact usage", int(of("Stop")[1]["Acct-Input-Packets"]) == 12, of("Stop"))
    on = of("Accounting-On")
    expect("servers were told of one start only", len(on) == 1 and len(of("Start")) == 2, records(detail))
    keys = [(one["Acct-Status-Type"], one.get("Acct-Session-Id"), one.get("Acct-Session-Time")) for one in records(detail)
            if one["Acct-Status-Type"] != "Accounting-On"]
    expect("no report came twice", len(keys) == len(set(keys)), keys)
    gateway.stops()

RECEIVER = """
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
s.bind((sys.argv[1], 5000))
s.settimeout(8)
print("ready", flush=True)
seen = []
try:
    while len(seen) < int(sys.argv[2]):
        seen.append(struct.unpack("!I", s.recv(2000)[:4])[0])
except TimeoutError: pass
print(len(seen), seen == list(range(len(seen))), flush=True)
"""

def queue():
    """Packets that wait in a subscriber's queue go over, and leave in order."""
    config()
    gateway = Gateway().is_ready()
    client = Udhcpc(line(7))
    talks(client.address)
    count = 1200
    receiver = start("ip", "netns", "exec", SUB, sys.executable, "-c", RECEIVER, client.address, str(count))
    receiver.stdout.readline()
    send = f"""
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range({count}):
    s.sendto(struct.pack("!I", n) + bytes(1200), ("{client.address}", 5000))
    time.sleep(0.0002)
"""
    inside(DN, sys.executable, "-c", send)
    waits = ask("show", "queues")["queues"]["waiting_packets"]
    expect(f"{waits} packets wait", waits > count // 4, waits)
    gateway = take_over(gateway)
    left = ask("show", "queues")["queues"]["waiting_packets"]
    expect(f"{left} of them wait on in the other process", 0 < left <= waits, left)
    said = receiver.communicate(timeout=60)[0].strip()
    expect("all arrive, in order", said == f"{count} True", said)
    wait_for("nothing waits any more", lambda: ask("show", "queues")["queues"]["waiting_packets"] == 0 and "yes")
    row = ask("show", "queues", "--filter", "group=pon")["queues"]["queues"][0]
    expect("the class has counted them all", row["packets"] >= count and row["queue_full"] == 0, row)
    gateway.stops()

PEER = """
import socket
s = socket.create_server(("198.18.0.2", 7000))
c, a = s.accept()
while (data := c.recv(100)): c.sendall(f"{a[0]}:{a[1]} ".encode() + data)
"""
CALLER = """
import socket, sys
s = socket.create_connection(("198.18.0.2", 7000), source_address=(sys.argv[1], 0))
for text in sys.stdin:
    s.sendall(text.encode())
    print(s.recv(200).decode().strip(), flush=True)
"""

def nat():
    """A connection that is translated outlives the process, with its public port."""
    config()
    inside(DN, "ip", "route", "del", "100.64.0.0/16", check=False)
    inside(DN, "ip", "route", "replace", "192.0.2.0/24", "via", "198.18.0.1")
    gateway = Gateway().is_ready()
    client = Udhcpc(line(7))
    talks(client.address)
    start("ip", "netns", "exec", DN, sys.executable, "-c", PEER)
    wait_for("the server listens", lambda: "7000" in inside(DN, "ss", "-Hltn"))
    caller = start("ip", "netns", "exec", SUB, sys.executable, "-c", CALLER, client.address, stdin=subprocess.PIPE)
    def exchange(text):
        caller.stdin.write(f"{text}\n")
        caller.stdin.flush()
        return caller.stdout.readline().split()
    ends = exchange("before")
    expect("the core sees the public address", ends[0].startswith("192.0.2.1:") and ends[1] == "before", ends)
    inside(SUB, "sysctl", "-qw", "net.ipv6.conf.tap7.accept_ra=1", "net.ipv6.conf.tap7.autoconf=1", check=False)
    inside(SUB, "ip", "link", "set", "tap7", "down")
    inside(SUB, "ip", "link", "set", "tap7", "up")
    inside(SUB, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", "tap7", "onlink")
    def own6():
        got = inside(SUB, "ip", "-6", "-o", "address", "show", "dev", "tap7", "scope", "global")
        return (found := re.search(r"inet6 (2001:db8:1\S+)/64", got)) and found[1]
    own = wait_for("the kernel makes an address of the advertised prefix", own6)
    addresses = lambda: entries("--filter", "group=pon")[0]["addresses"]
    before = addresses()
    for n in range(2):
        gateway = take_over(gateway)
        said = exchange(f"after{n}")
        expect("the connection goes on with its port", said == [ends[0], f"after{n}"], (ends, said))
        got = ping(SUB, "-c", "3", "-I", own, "fd00:18::2")
        expect("the advertised prefix stays", addresses() == before and " 3 received" in got, (before, addresses(), got))
    log = open(f"{FOLDER}/nat.log").read()
    expect("the log has its block once", log.count(" given ") == 1 and " ended " not in log, log)
    gateway.stops()

# What the two processes say to each other: `crates/gateway/src/shell/hand_over/wire.rs`.
KINDS = ("HELLO", "HELPER", "PORT", "BATCH", "SYNCED", "READY", "NEIGHBOURS", "ARM", "ARMED", "FROZEN", "LOADED", "GO", "RUNNING",
         "MEMORY", "PART", "BUFFERS")
REPLIES = {"SYNCED": "READY", "ARM": "ARMED", "FROZEN": "LOADED"}

def ended_at(question, last):
    """Asks as a process that takes over, and ends when it gets that message; returns the answer."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(20)
        end.connect(SOCKET)
        end.sendall(json.dumps(question).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            line += end.recv(1)
        while last is not None:
            head, descriptors, _, _ = socket.recv_fds(end, 8, 64)
            for descriptor in descriptors:
                os.close(descriptor)
            kind, length = KINDS[head[0] - 1], int.from_bytes(head[4:8], "big")
            while length:
                length -= len(end.recv(min(length, 1 << 20)))
            if kind == last:
                break
            if kind in REPLIES:
                end.sendall(bytes([KINDS.index(REPLIES[kind]) + 1, 0, 0, 0, 0, 0, 0, 0]))
    return json.loads(line)

def refused():
    """What cannot be handed over is named, and the running gateway goes on; so it does when the new process fails."""
    config()
    gateway = Gateway().is_ready()
    client = Udhcpc(line(7))
    talks(client.address)
    other = f"{FOLDER}/other.toml"
    text = open(PATH).read()
    for before, after, why in (
        ('"other"', '"another"', "subscriber groups differ: pon, other there, pon, another here"),
        ('"home"', '"house"', 'the profile "home", which is not configured here'),
        ('"100.80.0.10"', '"100.80.0.11"', "[[subscriber]] differs"),
        ('core?promisc=on"', 'core?promisc=on&mode=mmsg"', "the list of ports differs"),
        ("[sessions]", RADIUS + "\n[sessions]", "[radius] is configured only here"),
        ('"100.64.0.', '"100.68.0.', "a lease does not fit"),
    ):
        expect_quietly(f"{before} can be changed", before in text, text)
        with open(other, "w") as file:
            file.write(text.replace(before, after))
        new = Gateway("--take-over", path=other)
        new.child.wait(timeout=30)
        expect(f"refused: {why}", new.child.returncode != 0 and why in new.said(), new.said())
    generator = traffic(12, 1)
    unanswered = early()
    question = {"ask": "take_over", "version": 3, "layout": 0, "gateway": "bng", "workers": 1,
                "ports": re.findall(r'name = "(acc|core)"\nuri = "(.*)"', text)}
    said = ended_at(question, None)
    question["layout"] = int(re.search(r"0x([0-9a-f]{16}) here", said["error"])[1], 16)
    for name in ("HELLO", "PORT", "BATCH", "SYNCED", "NEIGHBOURS", "ARM", "FROZEN", "GO"):
        before = gateway.said().count("take_over_failed")
        ended_at(question, name)
        wait_for(f"a new process that ends at {name} changes nothing",
                 lambda: gateway.said().count("take_over_failed") == before + 1)
    client.renews()
    gateway = take_over(gateway)
    client.renews()
    whole(generator, unanswered)
    gateway.stops()

def main():
    broadband_links(SUB, GW, DN)
    if CASE == "fast":
        for namespace, device in ((SUB, "sub0"), (DN, "dn0")):
            inside(namespace, "ethtool", "-K", device, "tso", "off", "gso", "off", "tx", "off", "gro", "on")
    {"load": load, "xdp": load, "fast": load, "radius": radius, "queue": queue, "nat": nat, "refused": refused}[CASE]()

within(240 + LINES // 200, NAMESPACES, main)
