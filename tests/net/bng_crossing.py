#!/usr/bin/env python3
"""A group of a broadband gateway moves between two processes of one machine, each with ports of its own in the same bridges.

    far (subscribers, a host of the core)      switch                    gw
    weir gen broadband, or tap ─ line0 ════ br-acc ═══╤══ acc1 ─ weir run 1 ─ core1 ══╗
                                                      └══ acc2 ─ weir run 2 ─ core2 ══╣
    weir gen broadband, or core0 ═══════════ br-core ═════════════════════════════════╝

The generator gets addresses by DHCP and checks each flow: loss, order, tags. Routers of the core go on to send to the process
that had the group first, as they do until a routing daemon has told them. Everything is made here and removed at the end.
usage: bng_crossing.py WEIR_BINARY CASE [LINES PPS MOVES OTHERS WORKERS]
    CASE: load crash stays queue routes radius refused
    LINES: subscribers with traffic; OTHERS: static subscribers of the group without
"""
import json, os, random, re, signal, subprocess, sys, tempfile, time

from lab import (broadband_config, children, every_packet_came, expect, freeradius_configured, inside, link, namespaces_with_lo, ping, run, start,
                 wait_for, within)

WEIR, CASE = sys.argv[1:3]
LINES, PPS, MOVES, OTHERS, WORKERS = [int(word) for word in sys.argv[3:8]] or (200, 4000, 6, 2000, 1)
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-cross-{os.getpid()}"
FAR, SWITCH, GW, DN, RT = NAMESPACES = f"{TAG}-far", f"{TAG}-sw", f"{TAG}-gw", f"{TAG}-dn", f"{TAG}-rt"
FOLDER = tempfile.mkdtemp(prefix=TAG)
SOCKETS = {n: f"{FOLDER}/weir{n}.sock" for n in (1, 2)}
MAC = "02:00:5e:00:00:01"

RADIUS = """
[radius]
nas_identifier = "bng1"
password = "weir"
interim_seconds = 2
[[radius.server]]
address = "127.0.0.1"
secret = "testing123"
"""

# The queue holds all that is sent, and nothing but its end drops.
SHAPE = ', down = "2 Mbit/s", shape = { class = [ { name = "all", weight = 1, buffer = "4 MB", target_us = "0" } ] }'

RECEIVER = """
import socket, struct, sys
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

def config(n, **changed):
    """Of a process; the group begins with the first one."""
    fanout = f"&fanout=hash&group={{}}&member={{{{worker}}}}/{{{{workers}}}}" if WORKERS > 1 else ""
    number = {"acc": 1, "core": 2}
    uri = lambda name: (f"packet:{name}{n}?promisc=on"
                        + fanout.format((os.getpid() * 4 + 2 * n + number[name]) % 65000))
    head = f"""workers = {{ count = {WORKERS} }}
frames = {{ packet_buffers = 32768 }}
route = [ {{ to = "0.0.0.0/0", next_hop = "198.18.0.254" }} ]

[moves]
owners = "{FOLDER}/owners"

[sessions]
ledger = "{FOLDER}/ledger{n}"
{RADIUS if CASE == "radius" else ""}
[process]
confine = {"false" if "unconfined" in changed else "true"}
"""
    group = {"s_vlans": "100-131", "c_vlans": "1-4000", "ipv4": ["100.64.0.0/15"], "ipv6_wan": None, "ipv6_pd": None,
             "gateways": ["100.64.0.1"], "mac": MAC, "active": n == 1} | changed.get("group", {})
    profile = '{ name = "home"%s }' % (SHAPE if CASE == "queue" else ', up = "1 Gbit/s", down = "1 Gbit/s"')
    if n == 2:
        # Numbers of profiles differ.
        profile = '{ name = "other" }, ' + profile
    text = broadband_config(SOCKETS[n], uri, profile, None, [f"198.18.0.{n}/24"], head, **group) + f"""
[group.sessions]
lease_seconds = 600

[[group]]
name = "own{n}"
ports = ["acc"]
s_vlans = {200 + n}
c_vlans = "1-100"
ipv4 = ["100.7{n}.0.0/24"]
gateways = ["100.7{n}.0.1"]
profile = "home"
"""
    if OTHERS:
        text += f"""
[[subscriber]]
group = "pon"
count = {OTHERS}
s_vlan = 101
c_vlan = 1
mac = "02:cc:00:00:00:00"
ipv4 = "100.65.0.1"
"""
    for old, new in changed.get("replace", []):
        assert old in text, old
        text = text.replace(old, new)
    path = f"{FOLDER}/bng{n}.toml"
    with open(path, "w") as file:
        file.write(text)
    return path

def bridges():
    namespaces_with_lo(NAMESPACES)
    for name in ("br-acc", "br-core"):
        inside(SWITCH, "ip", "link", "add", name, "type", "bridge", "mcast_snooping", "0")
        inside(SWITCH, "ip", "link", "set", name, "mtu", "1600", "up")
    for near, far, bridge in (("line0", FAR, "br-acc"), ("acc1", GW, "br-acc"), ("acc2", GW, "br-acc"),
                              ("core0", FAR, "br-core"), ("core1", GW, "br-core"), ("core2", GW, "br-core")):
        link(far, near, SWITCH, f"sw-{near}", "mtu", "1600")
        inside(SWITCH, "ip", "link", "set", f"sw-{near}", "master", bridge)

class Gateway:
    def __init__(self, n, **changed):
        self.n, self.path = n, config(n, **changed)
        self.starts()

    def starts(self):
        if os.path.exists(SOCKETS[self.n]):
            os.unlink(SOCKETS[self.n])
        self.log = open(f"{FOLDER}/weir{self.n}.log", "a")
        self.child = subprocess.Popen(["ip", "netns", "exec", GW, WEIR, "run", self.path], stdout=self.log, stderr=subprocess.STDOUT, text=True)
        children.append(self.child)
        wait_for(f"process {self.n} runs", lambda: self.child.poll() is not None or os.path.exists(SOCKETS[self.n]) and "yes")
        expect("it does", self.child.poll() is None, self.said())

    def said(self):
        return open(f"{FOLDER}/weir{self.n}.log").read()

    def ask(self, *words):
        return json.loads(run(WEIR, *words, "--json", "--socket", SOCKETS[self.n]))

    def group(self):
        return next(row for row in self.ask("show", "groups")["groups"]["groups"] if row["name"] == "pon")

    def drops(self):
        return run(WEIR, "show", "drops", "--socket", SOCKETS[self.n])

    def move(self, to):
        words = (WEIR, "move", "group", "pon", "--to-process", SOCKETS[to.n], "--json", "--socket", SOCKETS[self.n])
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        expect_quietly(f"the group moves from process {self.n} to process {to.n}", done.returncode == 0,
                       (done.stdout, done.stderr, self.said()[-4000:], to.said()[-4000:]))
        return json.loads(done.stdout)["moved_to_process"]

    def refuses(self, to, why, socket=None):
        said = run(WEIR, "move", "group", "pon", "--to-process", socket or SOCKETS[to.n], "--socket", SOCKETS[self.n], check=False)
        expect(f"refused: {why}", why in said, said)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def stops(self):
        self.child.send_signal(signal.SIGTERM)
        code = self.child.wait(20)
        text = self.said().split("final")[-1]
        expect(f"process {self.n} stops in good order", code == 0 and "MISSING" not in text, self.said()[-3000:])

def expect_quietly(what, holds, shown):
    if not holds:
        expect(what, holds, shown)

def leases(gateway):
    return gateway.ask("show", "dhcp")["sessions"]["leases"]

def one_has_it(gateways):
    return [gateway.n for gateway in gateways if gateway.group()["here"]]

def load():
    bridges()
    first, second = Gateway(1), Gateway(2)
    expect("the group is the first one's", one_has_it((first, second)) == [1], (first.group(), second.group()))
    seconds = MOVES * 1.2 + 12
    generator = start("ip", "netns", "exec", FAR, WEIR, "gen", "broadband", "--subscribers", str(LINES), "--pps", str(PPS),
                      "--seconds", str(seconds), "--json", f"{FOLDER}/load.json")
    wait_for("subscribers have addresses", lambda: first.group()["subscribers"] == OTHERS + LINES and "yes", 60)
    time.sleep(2)
    moves, here, there = [], first, second
    for _ in range(MOVES):
        moves.append(here.move(there))
        expect_quietly("one has it", one_has_it((first, second)) == [there.n], (first.group(), second.group()))
        expect_quietly("with all subscribers", there.group()["subscribers"] == OTHERS + LINES, there.group())
        expect_quietly("and all leases", (leases(here), leases(there)) == (0, LINES), (leases(here), leases(there)))
        here, there = there, here
        time.sleep(0.7)
    expect(f"{MOVES} moves to and fro, with all leases", True, "")
    said = generator.communicate(timeout=120)[0]
    expect("the generator ends well", generator.returncode == 0, said)
    result = json.load(open(f"{FOLDER}/load.json"))
    passed = {gateway.n: gateway.ask("show", "groups")["groups"]["passed"] for gateway in (first, second)}
    every_packet_came(result, lambda: (first.drops(), second.drops(), passed, moves))
    seen = here.ask("show", "subscribers", "--filter", "group=pon,s_vlan=100", "--limit", "1000")["entries"]
    up, down = (sum(row[f"{way}_packets"] for row in seen) for way in ("up", "down"))
    expect("usage is exact", (up, down) == (result["uplink"]["received_packets"], result["downlink"]["received_packets"]),
           (up, down, result["uplink"], result["downlink"]))
    pause = sorted(one["pause_us"] for one in moves)
    took = sorted(one["took_us"] for one in moves)
    middle = len(moves) // 2
    print(f"  {moves[0]['subscribers']} subscribers: a move took {took[middle]} us (at most {took[-1]}), packets waited for "
          f"{pause[middle]} us (at most {pause[-1]}); {passed}")
    for gateway in (first, second):
        gateway.stops()

def stays():
    """A move fails at its last step, under traffic, again and again: the group comes back to its worker with what waited."""
    bridges()
    first, second = Gateway(1), Gateway(2)
    generator = start("ip", "netns", "exec", FAR, WEIR, "gen", "broadband", "--subscribers", str(LINES), "--pps", str(PPS),
                      "--seconds", str(MOVES + 8), "--json", f"{FOLDER}/load.json")
    wait_for("subscribers have addresses", lambda: first.group()["subscribers"] == OTHERS + LINES and "yes", 60)
    time.sleep(2)
    # Nothing can take the place of an immutable file.
    owner = f"{FOLDER}/owners/pon"
    run("chattr", "+i", owner)
    for _ in range(MOVES):
        said = run(WEIR, "move", "group", "pon", "--to-process", SOCKETS[2], "--socket", SOCKETS[1], check=False)
        expect_quietly("the move fails", "stays" in said, (said, first.said()[-3000:]))
        expect_quietly("one has it", one_has_it((first, second)) == [1], (first.group(), second.group()))
        expect_quietly("with all leases", (leases(first), leases(second)) == (LINES, 0), (leases(first), leases(second)))
        time.sleep(0.5)
    expect(f"{MOVES} moves failed, and the group was the first one's with all leases", True, "")
    said = generator.communicate(timeout=120)[0]
    expect("the generator ends well", generator.returncode == 0, said)
    result = json.load(open(f"{FOLDER}/load.json"))
    every_packet_came(result, lambda: (first.drops(), second.drops(), first.said()[-3000:]))
    seen = first.ask("show", "subscribers", "--filter", "group=pon,s_vlan=100", "--limit", "1000")["entries"]
    up, down = (sum(row[f"{way}_packets"] for row in seen) for way in ("up", "down"))
    expect("usage is exact", (up, down) == (result["uplink"]["received_packets"], result["downlink"]["received_packets"]),
           (up, down, result["uplink"], result["downlink"]))
    run("chattr", "-i", owner)
    first.move(second)
    expect("afterwards it moves", one_has_it((first, second)) == [2], "")
    for gateway in (first, second):
        gateway.stops()

def crash():
    """Either process is killed at some moment of a move: one has the group, with all leases."""
    bridges()
    first, second = Gateway(1), Gateway(2)
    generator = start("ip", "netns", "exec", FAR, WEIR, "gen", "broadband", "--subscribers", str(LINES), "--pps", "100",
                      "--seconds", "2", "--json", f"{FOLDER}/load.json")
    wait_for("subscribers have addresses", lambda: first.group()["subscribers"] == OTHERS + LINES and "yes", 60)
    generator.communicate(timeout=60)
    here, there, stayed, moved, inside = first, second, 0, 0, 0
    took = 0.2
    for number in range(MOVES):
        victim = (here, there)[number % 2]
        begun = time.time()
        mover = subprocess.Popen([WEIR, "move", "group", "pon", "--to-process", SOCKETS[there.n], "--socket", SOCKETS[here.n]],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(random.random() * took * 1.2)
        ran = mover.poll() is None
        victim.kill()
        said = mover.communicate(timeout=60)[0]
        inside += ran and "answers" not in said
        took = max(0.05, min(took, time.time() - begun))
        victim.starts()
        wait_for("it serves", lambda: one_has_it((first, second)))
        time.sleep(0.3)
        has = one_has_it((first, second))
        expect_quietly("exactly one has the group", len(has) == 1, (has, first.said()[-3000:], second.said()[-3000:]))
        stayed, moved = stayed + (has == [here.n]), moved + (has == [there.n])
        if has == [there.n]:
            here, there = there, here
        counts = lambda: (here.group()["subscribers"], leases(here), leases(there))
        expect_quietly("with all leases", counts() == (OTHERS + LINES, LINES, 0),
                       (counts(), number, victim.n, first.said()[-3000:], second.said()[-3000:]))
    expect(f"{MOVES} times one process was killed: {stayed} times the group stayed, {moved} times it had moved; all leases "
           "were one process's", True, "")
    expect(f"of which {inside} fell inside a move", inside > 0, "")
    # It moves still.
    here.move(there)
    expect("and it moves", one_has_it((first, second)) == [there.n], "")
    for gateway in (first, second):
        gateway.stops()

def refused():
    bridges()
    first, second = Gateway(1), Gateway(2)
    first.refuses(second, "no gateway answers at", f"{FOLDER}/none.sock")
    first.refuses(first, "the other process is this one")
    second.refuses(first, "is not here")
    second.kill()
    for changed, why in (
        ({"group": {"mac": "02:00:5e:00:00:02"}}, "the group's configuration differs: mac is"),
        ({"group": {"ipv4": ["100.64.0.0/16"], "gateways": ["100.64.0.1"]}}, "the group's configuration differs: ipv4 is"),
        ({"replace": [("[moves]\n", ""), (f'owners = "{FOLDER}/owners"\n', "")]}, "[moves] is not configured in the other process"),
        ({"replace": [('name = "pon"', 'name = "pan"'), ('group = "pon"', 'group = "pan"')]}, 'there is no group "pon"'),
        ({"replace": [('name = "core"\nuri', 'name = "north"\nuri')]}, "names, roles or instances of ports differ"),
        ({"replace": [(f"count = {OTHERS}", f"count = {OTHERS - 1}")]}, "[[subscriber]] of the group differs"),
    ):
        second = Gateway(2, **changed)
        first.refuses(second, why)
        second.kill()
    second = Gateway(2)
    expect("the group is the first one's still", one_has_it((first, second)) == [1], "")
    first.move(second)
    expect("and moves", one_has_it((first, second)) == [2], "")
    for gateway in (first, second):
        gateway.stops()

def core_host():
    """The far end of the core is a host of its own."""
    bridges()
    inside(FAR, "ip", "link", "set", "core0", "netns", DN)
    inside(DN, "ip", "address", "add", "198.18.0.254/24", "dev", "core0")
    inside(DN, "ip", "link", "set", "core0", "mtu", "1500", "up")
    inside(DN, "ip", "route", "add", "100.64.0.0/15", "via", "198.18.0.1")

def line(n):
    """A host behind two tags."""
    tap = f"tap{n}"
    child = start("ip", "netns", "exec", FAR, sys.executable, f"{HERE}/qinq.py", "--interface", "line0", "--tap", tap,
                  "--s-vlan", "100", "--c-vlan", str(n))
    said = child.stdout.readline().strip()
    expect_quietly(f"line {n} is there", said == "ready", said)
    inside(FAR, "ip", "link", "set", tap, "address", f"02:ca:00:00:00:{n:02x}", "mtu", "1500", "up")
    return tap

class Udhcpc:
    """Debian's DHCP client, as it runs all the time; it renews when it is told to."""
    def __init__(self, tap):
        script = f"{FOLDER}/udhcpc.sh"
        self.log = f"{FOLDER}/{tap}.leases"
        with open(script, "w") as file:
            file.write(f'#!/bin/sh\n[ "$1" = bound ] || [ "$1" = renew ] || exit 0\necho "$1 $ip" >> {FOLDER}/$interface.leases\n')
        os.chmod(script, 0o755)
        self.child = start("ip", "netns", "exec", FAR, "udhcpc", "-f", "-i", tap, "-t", "5", "-T", "2", "-s", script)
        self.address = wait_for(f"udhcpc has a lease on {tap}", lambda: self.leases() and self.leases()[0].split()[1])
        inside(FAR, "ip", "address", "add", f"{self.address}/32", "dev", tap)
        inside(FAR, "ip", "route", "replace", "default", "via", "100.64.0.1", "dev", tap, "onlink")

    def leases(self):
        return open(self.log).read().splitlines() if os.path.exists(self.log) else []

    def renews(self):
        before = len(self.leases())
        self.child.send_signal(signal.SIGUSR1)
        got = wait_for("udhcpc renews", lambda: self.leases()[before:])
        expect("the same address", got == [f"renew {self.address}"], got)

def talks(address):
    got = ping(FAR, "-c", "5", "-i", "0.2", "-I", address, "198.18.0.254")
    expect("5 of 5 pings are answered", " 5 received" in got, got)

def records(detail):
    """What FreeRADIUS has written of sessions: a list of attributes for each report."""
    text = open(detail).read() if os.path.exists(detail) else ""
    return [dict(re.findall(r"\t(\S+) = (.*)", one)) for one in text.split("\n\n") if "Acct-Status-Type" in one]

def radius():
    """FreeRADIUS sees one session, whose usage goes on; the client renews with the other process and keeps its address."""
    core_host()
    folder = f"{FOLDER}/radius"
    freeradius_configured(folder, ("acc:100.7",))
    start("ip", "netns", "exec", GW, "freeradius", "-f", "-d", folder)
    detail = f"{folder}/detail"
    time.sleep(2)
    first, second = Gateway(1), Gateway(2)
    client = Udhcpc(line(7))
    of = lambda kind: [one for one in records(detail) if one["Acct-Status-Type"] == kind and "User-Name" in one]
    ping(FAR, "-c", "1", "-W", "2", "-I", client.address, "198.18.0.254")
    talks(client.address)
    wait_for("accounting begins", lambda: of("Start"))
    wait_for("interim reports come", lambda: of("Interim-Update"))
    here, there = first, second
    for _ in range(2):
        here.move(there)
        talks(client.address)
        client.renews()
        talks(client.address)
        here, there = there, here
    used = lambda: [int(one["Acct-Input-Packets"]) for one in of("Interim-Update")]
    sent = here.ask("show", "subscribers", "--filter", "group=pon,s_vlan=100")["entries"][0]["up_packets"]
    wait_for("interim reports go on with exact usage", lambda: used()[-1] == sent and "yes")
    expect("and never fall", used() == sorted(used()) and sent > 20, (used(), sent))
    sessions = {one["Acct-Session-Id"] for one in records(detail) if "User-Name" in one}
    expect("it is one session, which has begun once", len(sessions) == 1 and len(of("Start")) == 1 and not of("Stop"), records(detail))
    run(WEIR, "subscriber", "pon/acc:100.7", "clear", "--socket", SOCKETS[here.n])
    wait_for("its end is told", lambda: of("Stop"))
    expect("with what was used in all", int(of("Stop")[0]["Acct-Input-Packets"]) == sent, (of("Stop"), sent))
    for gateway in (first, second):
        gateway.stops()

def queue():
    """Packets that wait in a subscriber's queue go along, and leave in order."""
    core_host()
    first, second = Gateway(1), Gateway(2)
    client = Udhcpc(line(7))
    ping(FAR, "-c", "1", "-W", "2", "-I", client.address, "198.18.0.254")
    talks(client.address)
    count = 1200
    receiver = start("ip", "netns", "exec", FAR, sys.executable, "-c", RECEIVER, client.address, str(count))
    receiver.stdout.readline()
    send = f"""
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range({count}):
    s.sendto(struct.pack("!I", n) + bytes(1200), ("{client.address}", 5000))
    time.sleep(0.0002)
"""
    inside(DN, sys.executable, "-c", send)
    waiting = lambda gateway: gateway.ask("show", "queues")["queues"]["waiting_packets"]
    waits = waiting(first)
    expect(f"{waits} packets wait", waits > count // 4, waits)
    first.move(second)
    left = waiting(second)
    expect(f"{left} of them wait on in the other process", 0 < left <= waits and waiting(first) == 0, (left, waiting(first)))
    said = receiver.communicate(timeout=60)[0].strip()
    expect("all arrive, in order", said == f"{count} True", (said, first.drops(), second.drops()))
    wait_for("nothing waits any more", lambda: waiting(second) == 0 and "yes")
    row = second.ask("show", "queues", "--filter", "group=pon")["queues"]["queues"][0]
    expect("the class has counted them all", row["packets"] >= count and row["queue_full"] == 0, row)
    for gateway in (first, second):
        gateway.stops()

def routes():
    """The group's prefix is a route for routing daemons in the process that has it, and a gateway answers for it there only."""
    core_host()
    of_core = lambda n: {"replace": [('role = "core"\n', f'role = "core"\nhost_interface = "{RT}/c{n}"\n')]}
    first, second = Gateway(1, **of_core(1)), Gateway(2, **of_core(2))
    announced = lambda: sorted(line.split()[0] + " " + line.split("dev ")[1].split()[0]
                               for line in inside(RT, "ip", "route").splitlines() if "proto 119" in line)
    own = ["100.71.0.0/24 c1", "100.72.0.0/24 c2"]
    wait_for("prefixes are announced", lambda: announced() == sorted(["100.64.0.0/15 c1"] + own) and "yes")
    answers = lambda n: " 1 received" in ping(DN, "-c", "1", "-W", "1", "-I", "core0", "100.64.0.1")
    ping(DN, "-c", "1", "-W", "1", "100.64.0.1")
    expect("the group's gateway answers by the first process", answers(1), first.drops())
    inside(DN, "ip", "route", "replace", "100.64.0.0/15", "via", "198.18.0.2")
    ping(DN, "-c", "1", "-W", "1", "100.64.0.1")
    expect("and not by the second one", not answers(2) and "group_elsewhere" in second.drops(), second.drops())
    first.move(second)
    wait_for("its prefix is announced by the second one", lambda: announced() == sorted(["100.64.0.0/15 c2"] + own) and "yes", 5)
    expect("which answers", answers(2), second.drops())
    inside(DN, "ip", "route", "replace", "100.64.0.0/15", "via", "198.18.0.1")
    expect("what comes to the first one is passed on", answers(1), first.drops())
    second.kill()
    wait_for("until the second one ends", lambda: "group_passed_on_no_more" in first.said() and "yes", 5)
    expect("then nobody answers there", not answers(1) and "group_elsewhere" in first.drops(), first.drops())
    first.stops()

def main():
    {"load": load, "crash": crash, "stays": stays, "queue": queue, "routes": routes, "radius": radius, "refused": refused}[CASE]()

within(280, NAMESPACES, main)
