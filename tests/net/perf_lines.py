#!/usr/bin/env python3
"""Puts each of perfdhcp's clients on an access line of its own, for tests.

perfdhcp speaks as a relay agent for many hardware addresses; access lines carry hosts. What it sends to 10.9.0.1 by the TAP
device leaves as a host's broadcast behind two VLAN tags, a pair for each hardware address; what comes back by a line goes
to perfdhcp as a server's reply. Shares no code with weir.
"""
import argparse, fcntl, os, select, struct

from lab import count_until_stopped, receive_tagged, tagged_socket

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
PERF, SERVER = bytes([10, 9, 0, 2]), bytes([10, 9, 0, 1])

def ip_checksum(header):
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF

def datagram(source, target, ports, payload):
    """An IPv4 packet without a UDP checksum."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0, source, target)
    head = head[:10] + struct.pack("!H", ip_checksum(head)) + head[12:]
    return head + struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload

def main():
    args = argparse.ArgumentParser()
    args.add_argument("--interface", required=True)
    args.add_argument("--tap", default="perf0")
    args.add_argument("--s-vlan", type=int, default=100)
    a = args.parse_args()
    raw = tagged_socket(a.interface)
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", a.tap.encode(), IFF_TAP | IFF_NO_PI))
    own = None
    lines, seen = {}, {"up": 0, "down": 0, "lines": 0, "wrong_tags": 0}
    print("ready", flush=True)
    count_until_stopped(seen)
    while True:
        ready, _, _ = select.select([tap, raw], [], [])
        if tap in ready:
            frame = os.read(tap, 65535)
            if frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[36:38] != b"\x00\x43":
                continue
            own = frame[6:12]
            body = bytearray(frame[42:])
            mac = bytes(body[28:34])
            c_vlan = lines.setdefault(mac, len(lines) + 1)
            seen["lines"] = len(lines)
            body[3], body[24:28] = 0, bytes(4)
            tags = struct.pack("!HHHH", 0x88A8, a.s_vlan, 0x8100, c_vlan)
            packet = datagram(bytes(4), b"\xff" * 4, (68, 67), bytes(body))
            raw.send(b"\xff" * 6 + mac + tags + b"\x08\x00" + packet)
            seen["up"] += 1
        if raw in ready:
            frame = receive_tagged(raw)
            if frame is None or own is None or len(frame) < 300 or frame[20:22] != b"\x08\x00" or frame[44:46] != b"\x00\x44":
                continue
            body = bytearray(frame[50:])
            outer, inner = struct.unpack("!H", frame[14:16])[0] & 0xFFF, struct.unpack("!H", frame[18:20])[0] & 0xFFF
            if (outer, inner) != (a.s_vlan, lines.get(bytes(body[28:34]))):
                seen["wrong_tags"] += 1
                continue
            body[24:28] = PERF
            os.write(tap, own + b"\x02\x00\x00\x00\x00\x01" + b"\x08\x00" + datagram(SERVER, PERF, (67, 67), bytes(body)))
            seen["down"] += 1

main()
