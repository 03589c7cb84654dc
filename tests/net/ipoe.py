#!/usr/bin/env python3
"""An IPoE subscriber behind two VLAN tags, for tests: a TUN device on one side, tagged Ethernet on the other.

Written from IEEE 802.1Q, 802.1ad and RFC 826 alone, and sharing no code with weir. The kernel needs no 8021q: frames are
made and read by a packet socket, which gives the outer tag apart from the frame (packet(7), PACKET_AUXDATA).
Counts frames to its hardware address with other tags than it sends, and says so when it ends.
"""
import argparse, fcntl, os, select, socket, struct, sys, time

from lab import count_until_stopped, receive_tagged, tagged_socket

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000

def main():
    args = argparse.ArgumentParser()
    args.add_argument("--interface", required=True)
    args.add_argument("--tun", default="tun0")
    args.add_argument("--mac", required=True)
    args.add_argument("--s-vlan", type=int, required=True)
    args.add_argument("--c-vlan", type=int, required=True)
    args.add_argument("--tpid", type=lambda t: int(t, 0), default=0x88A8)
    args.add_argument("--address", required=True, help="our IPv4 address")
    args.add_argument("--gateway", required=True, help="the default router's")
    a = args.parse_args()

    mac = bytes.fromhex(a.mac.replace(":", ""))
    tags = struct.pack("!HHHH", a.tpid, a.s_vlan, 0x8100, a.c_vlan)
    raw = tagged_socket(a.interface)
    seen = {"up": 0, "down": 0, "wrong_tags": 0}
    gateway = None
    ask = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + socket.inet_aton(a.address) + bytes(6) + socket.inet_aton(a.gateway)
    until = time.time() + 10
    while gateway is None and time.time() < until:
        raw.send(b"\xff" * 6 + mac + tags + struct.pack("!H", 0x0806) + ask)
        while gateway is None and select.select([raw], [], [], 0.5)[0]:
            frame = receive_tagged(raw)
            if frame and frame[:6] == mac and frame[12:22] == tags + b"\x08\x06" and frame[28:30] == b"\0\2":
                if frame[36:40] == socket.inet_aton(a.gateway):
                    gateway = frame[30:36]
    if gateway is None:
        sys.exit("no answer to ARP for the default router")

    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", a.tun.encode(), IFF_TUN | IFF_NO_PI))
    print("ready", ":".join(f"{byte:02x}" for byte in gateway), flush=True)

    count_until_stopped(seen)
    while True:
        ready, _, _ = select.select([tun, raw], [], [])
        if tun in ready:
            packet = os.read(tun, 65535)
            kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
            raw.send(gateway + mac + tags + struct.pack("!H", kind) + packet)
            seen["up"] += 1
        if raw in ready:
            frame = receive_tagged(raw)
            if frame is None or frame[:6] != mac:
                continue
            # Priorities may differ; identifiers and types may not.
            words = struct.unpack("!HHHHH", frame[12:22])
            if (words[0], words[1] & 0xFFF, words[2], words[3] & 0xFFF) != (a.tpid, a.s_vlan, 0x8100, a.c_vlan):
                seen["wrong_tags"] += 1
            elif words[4] in (0x0800, 0x86DD):
                os.write(tun, frame[22:])
                seen["down"] += 1

main()
