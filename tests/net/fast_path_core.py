#!/usr/bin/env python3
"""The in-kernel path through the usual course of a 5G core: a session is established before its gNB is known, gets the gNB's
tunnel by a modification, moves to another tunnel (handover), becomes idle and comes back. Whenever packets can flow, they flow
in the kernel.

    ran (a phone behind a gNB)             upf                      dn (a host in the data network)
    tun0 10.60.0.1 ─ gnb.py ─ ran0 10.0.3.100 ══ n3 10.0.3.1 ─ weir ─ n6 10.0.6.1 ══ dn0 10.0.6.2
                                                 n4 127.9.9.1 ── this script: PFCP written from TS 29.244 alone

usage: fast_path_core.py WEIR_BINARY
"""
import ctypes, json, os, signal, socket, struct, sys, tempfile, time

from lab import expect, gateway_runs, gateway_stops, inside, kernel_port, link, namespaces_with_lo, run, start, wait_for, within

WEIR = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
TAG = f"weir-{os.getpid()}"
RAN, UPF, DN = f"{TAG}-ran", f"{TAG}-upf", f"{TAG}-dn"
NODE, CORE = "127.9.9.1", "127.9.9.2"
UE, GNB, N3 = "10.60.0.1", "10.0.3.100", "10.0.3.1"

def ie(kind, *parts):
    value = b"".join(parts)
    return struct.pack("!HH", kind, len(value)) + value

def v4(text):
    return socket.inet_aton(text)

def u32(number):
    return struct.pack("!I", number)

NODE_ID = ie(60, b"\0", v4(CORE))                               # TS 29.244, 8.2.38
STARTED = ie(96, u32(3_900_000_000))
INSTANCE = ie(22, b"internet")

class Core:
    """A session management function with one session."""

    def __init__(self):
        self.peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.peer.bind((CORE, 8805))
        self.peer.settimeout(5)
        self.sequence, self.reports = 0, 0

    def heard(self, octets):
        """A request of the user plane is answered; whether it was one."""
        if octets[1] == 1:
            self.peer.sendto(struct.pack("!BBH", 0x20, 2, 12) + octets[4:8] + STARTED, (NODE, 8805))
        elif octets[1] == 56:
            self.reports += 1
            body = ie(19, b"\1")
            self.peer.sendto(struct.pack("!BBHQ", 0x21, 57, 12 + len(body), self.seid) + octets[12:16] + body, (NODE, 8805))
        return octets[1] in (1, 56)

    def ask(self, kind, body, seid=None):
        self.sequence += 1
        head = struct.pack("!BBH", 0x20, kind, 4 + len(body)) if seid is None else struct.pack("!BBHQ", 0x21, kind, 12 + len(body), seid)
        self.peer.sendto(head + u32(self.sequence << 8) + body, (NODE, 8805))
        while self.heard(octets := self.peer.recv(4096)):
            pass
        at, found = 16 if octets[0] & 1 else 8, {}
        while at < len(octets):
            code, length = struct.unpack("!HH", octets[at:at + 4])
            found[code] = octets[at + 4:at + 4 + length]
            at += 4 + length
        expect(f"message {kind} is accepted", octets[1] == kind + 1 and found[19] == b"\1", (octets[1], found))
        return found

    def listen(self, seconds):
        until = time.time() + seconds
        while (left := until - time.time()) > 0:
            self.peer.settimeout(left)
            try:
                self.heard(self.peer.recv(4096))
            except TimeoutError:
                break
        self.peer.settimeout(5)

    def establish(self):
        """Two PDRs; what is to the phone is buffered, for nobody knows its gNB yet (TS 23.502, 4.3.2.2.1, step 10)."""
        self.ask(5, NODE_ID + STARTED)
        up = ie(2, ie(20, b"\0"), ie(21, b"\1", u32(0x1000), v4(N3)), INSTANCE, ie(93, b"\2", v4(UE)), ie(124, b"\x09"))
        down = ie(2, ie(20, b"\1"), INSTANCE, ie(93, b"\6", v4(UE)))
        ids = lambda far: ie(108, u32(far)) + ie(109, u32(1)) + ie(81, u32(1))
        body = NODE_ID + ie(57, b"\2", struct.pack("!Q", 7), v4(CORE))
        body += ie(1, ie(56, b"\0\1"), ie(29, u32(255)), up, ie(95, b"\0"), ids(1))
        body += ie(1, ie(56, b"\0\2"), ie(29, u32(255)), down, ids(2))
        body += ie(3, ie(108, u32(1)), ie(44, b"\2"), ie(4, ie(42, b"\1"), INSTANCE))
        body += ie(3, ie(108, u32(2)), ie(44, b"\x0c"))         # BUFF and NOCP
        body += ie(7, ie(109, u32(1)), ie(25, b"\0"), ie(26, (100_000).to_bytes(5, "big") * 2), ie(124, b"\x09"))
        body += ie(6, ie(81, u32(1)), ie(62, b"\2"), ie(37, b"\2\0"), ie(31, b"\1", struct.pack("!Q", 1 << 40)))
        self.seid = struct.unpack("!Q", self.ask(50, body, 0)[57][1:9])[0]

    def modify(self, *far):
        self.ask(52, ie(10, ie(108, u32(2)), *far), self.seid)

    def gnb(self, teid):
        """Packets to the phone go to a gNB's tunnel."""
        self.modify(ie(44, b"\2"), ie(11, ie(42, b"\0"), ie(84, b"\1\0", u32(teid), v4(GNB))))

    def idle(self):
        self.modify(ie(44, b"\x0c"))

def build():
    namespaces_with_lo((RAN, UPF, DN))
    link(RAN, "ran0", UPF, "n3")
    link(DN, "dn0", UPF, "n6")
    inside(RAN, "ip", "address", "add", f"{GNB}/24", "dev", "ran0")
    inside(DN, "ip", "address", "add", "10.0.6.2/24", "dev", "dn0")
    inside(DN, "ip", "route", "add", "10.60.0.0/16", "via", "10.0.6.1")
    for namespace, device in ((RAN, "ran0"), (DN, "dn0")):
        inside(namespace, "ethtool", "-K", device, "tso", "off", "gso", "off", "tx", "off", "gro", "on")

def phone(teid):
    gnb = start("ip", "netns", "exec", RAN, sys.executable, f"{HERE}/gnb.py", "--local", GNB, "--upf", N3, "--teid", "0x1000",
                "--gnb-teid", hex(teid))
    expect("a gNB is there", gnb.stdout.readline().strip() == "ready", "")
    for command in (("link", "set", "tun0", "mtu", "1400", "up"), ("address", "add", f"{UE}/32", "dev", "tun0"),
                    ("route", "add", "default", "dev", "tun0")):
        inside(RAN, "ip", *command)
    return gnb

def ended(gnb):
    gnb.send_signal(signal.SIGTERM)
    said = gnb.communicate(timeout=10)[0].strip()
    expect("its gNB got nothing that is not its", gnb.returncode == 0, said)

def main():
    folder = tempfile.mkdtemp(prefix=TAG)
    build()
    with open(f"{folder}/upf.toml", "w") as file:
        file.write(f"""
gateway = "upf"
control_socket = "{folder}/weir.sock"
{kernel_port("n3", "access", f"{N3}/24")}instance = "internet"
{kernel_port("n6", "core", "10.0.6.1/24")}instance = "internet"
[n4]
address = "{NODE}"
allow = ["127.0.0.0/8"]
""")
    upf = gateway_runs("weir runs", ("ip", "netns", "exec", UPF, WEIR, "run", f"{folder}/upf.toml"), f"{folder}/weir.sock")
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{UPF}") as there:
        expect("this script is in the namespace of N4", libc.setns(there.fileno(), 0) == 0, os.strerror(ctypes.get_errno()))
    core = Core()
    core.establish()

    def show(*what):
        return json.loads(run(WEIR, "show", "sessions", *what, "--json", "--socket", f"{folder}/weir.sock"))

    def counted():
        counters = show().get("control", {})
        return [counters.get(f"kernel_{way}_packets", {"value": 0})["value"] for way in ("up", "down")]

    def flows(what):
        got = inside(RAN, "ping", "-c", "3", "-i", "0.1", "-W", "2", "10.0.6.2", check=False)
        expect(f"{what}: pings are answered", " 3 received" in got, got)
        wait_for(f"{what}: the session is in the kernel", lambda: show("--ue", UE)["fast_path"] == "in the kernel")
        before = counted()
        got = inside(RAN, "ping", "-c", "20", "-i", "0.01", "-W", "2", "10.0.6.2", check=False)
        expect(f"{what}: 20 of 20 pings", " 20 received" in got, got)
        through = [now - then for now, then in zip(counted(), before)]
        expect(f"{what}: they went through the kernel, both ways", through == [20, 20], (through, show("--ue", UE)))

    teid = 0x2000
    gnb = phone(teid)
    core.gnb(teid)
    flows("with its gNB")
    for n in range(1, 4):
        # Handover: another tunnel, at the same address here.
        ended(gnb)
        core.gnb(teid + n)
        gnb = phone(teid + n)
        flows(f"after handover {n}")
    for n in range(1, 3):
        core.idle()
        sent = start("ip", "netns", "exec", DN, "ping", "-c", "1", "-W", "4", UE)
        reports = core.reports
        core.listen(1)
        expect(f"a packet to the idle phone is reported, time {n}", core.reports == reports + 1, core.reports)
        core.gnb(teid + 3)
        said = sent.communicate(timeout=10)[0]
        expect("and comes when it is back", " 1 received" in said, said)
        flows(f"back from idle {n}")
    deleted = core.ask(54, b"", core.seid)
    expect("its usage is reported in the end", 79 in deleted, deleted)
    ended(gnb)
    gateway_stops(upf)

within(100, (RAN, UPF, DN), main)
