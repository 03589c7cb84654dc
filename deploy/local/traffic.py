"""A little traffic through gateways' sessions, both ways: who is lost is known by name.

The driver's ends of N3 and N6 play all gNBs and all servers. Each session sends and is sent numbered packets; what comes
out is looked at: the tunnel's identifier towards the gNB, the subscriber's address towards the network.
"""

import ipaddress
import select
import socket
import struct
import threading
import time

MAGIC = b"weir/scale"
MAC = bytes.fromhex("0200000000fe")
SERVER = ipaddress.ip_address("198.18.0.1").packed
QFI = 9
EVERY = 0.04
ETH_P_ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE = 3, 263, 23, 33


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def ip_udp(source, to, port, payload):
    """IPv4 and UDP, the latter without a checksum, as IPv4 allows."""
    udp = struct.pack("!4H", port, port, 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + source + to
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + udp


class Flow:
    """A session with traffic in it."""

    def __init__(self, number, ordinal, line):
        address = lambda key: ipaddress.ip_address(line[key]).packed
        self.number, self.ordinal = number, ordinal
        self.ue, self.upf, self.gnb = address("ue_ip4"), address("upf"), address("gnb")
        self.teids = line["uplink_teid"], line["downlink_teid"]
        self.sends, self.sent, self.got = True, 0, {"up": set(), "down": set()}

    def packets(self):
        """The next one up, as a gNB sends it (TS 29.281, TS 38.415), and the next one down."""
        mark = lambda way: MAGIC + way + struct.pack("!II", self.number, self.sent)
        inner = ip_udp(self.ue, SERVER, 7, mark(b"up"))
        tunnel = struct.pack("!BBHIHBB4B", 0x34, 255, 8 + len(inner), self.teids[0], 0, 0, 0x85, 1, 0x10, QFI, 0)
        return ip_udp(self.gnb, self.upf, 2152, tunnel + inner), ip_udp(SERVER, self.ue, 7, mark(b"dn"))

    def lost(self):
        return 2 * self.sent - sum(len(numbers) for numbers in self.got.values())


class Traffic(threading.Thread):
    """All of it, a thread beside the driver and in its namespace."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.sockets, self.flows = threading.Lock(), {}, []
        self.counts = {"packets": 0, "packets_lost": 0, "packets_astray": 0}
        # The first that came where nobody waited for it: side, gateway, the session's gateway, the frame.
        self.astray = []
        self.ends, self.failed = False, None

    def open(self, ordinal):
        """Begins to play both ends of a gateway's links."""
        for side in (3, 6):
            # Without a protocol until it is bound: it would hear all other links meanwhile.
            one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
            one.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            one.bind((f"n{side}-{ordinal}", ETH_P_ALL))
            one.setblocking(False)
            with self.lock:
                self.sockets[side, ordinal] = one

    def close(self, ordinal):
        with self.lock:
            for side in (3, 6):
                self.sockets.pop((side, ordinal)).close()

    def begin(self, ordinal, line):
        """Sends through a session from now on."""
        with self.lock:
            self.flows.append(Flow(len(self.flows), ordinal, line))
            return self.flows[-1]

    def end(self, flow):
        """Sends no more, waits for what is on its way, and counts."""
        flow.sends = False
        until = time.monotonic() + 5
        while flow.lost() and time.monotonic() < until:
            time.sleep(0.01)
        self.counts["packets"] += 2 * flow.sent
        self.counts["packets_lost"] += flow.lost()

    def stop(self):
        self.ends = True
        self.join()
        assert self.failed is None, self.failed

    def run(self):
        try:
            due = time.monotonic()
            while not self.ends:
                with self.lock:
                    if time.monotonic() >= due:
                        due = time.monotonic() + EVERY
                        self.send()
                    by_socket = {one: key for key, one in self.sockets.items()}
                    ready = select.select(list(by_socket), [], [], 0)[0]
                    for one in ready:
                        # What came while others had the processor, all at once.
                        for _ in range(256):
                            if not self.receive(one, *by_socket[one]):
                                break
                if not ready:
                    time.sleep(0.002)
        except Exception as error:  # the driver asks for it
            self.failed = error

    def send(self):
        for flow in [flow for flow in self.flows if flow.sends]:
            for side, packet in zip((3, 6), flow.packets()):
                to = bytes([2, 0, 0, 0, side, 16 + flow.ordinal])
                self.sockets[side, flow.ordinal].send(to + MAC + b"\x08\x00" + packet)
            flow.sent += 1

    def receive(self, one, side, ordinal):
        """Looks at the next frame; false if there is none."""
        try:
            frame = one.recv(2048)
        except BlockingIOError:
            return False
        self.look_at(one, frame, side, ordinal)
        return True

    def look_at(self, one, frame, side, ordinal):
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\x00\x01":
            # Every address is ours that a gateway asks for.
            sender, target = frame[22:32], frame[38:42]
            one.send(sender[:6] + MAC + frame[12:20] + b"\x00\x02" + MAC + target + sender)
            return
        at = frame.find(MAGIC)
        if at < 0:
            return
        way = frame[at + len(MAGIC):at + len(MAGIC) + 2]
        number, sequence = struct.unpack_from("!II", frame, at + len(MAGIC) + 2)
        flow = self.flows[number]
        if side == 6:
            right = way == b"up" and frame[26:30] == flow.ue
        else:
            right = way == b"dn" and frame[30:34] == flow.gnb and frame[46:50] == struct.pack("!I", flow.teids[1])
        if right and flow.ordinal == ordinal:
            flow.got["up" if side == 6 else "down"].add(sequence)
        else:
            self.counts["packets_astray"] += 1
            if len(self.astray) < 4:
                self.astray.append([side, ordinal, flow.ordinal, frame.hex()])
