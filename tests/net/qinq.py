#!/usr/bin/env python3
"""Ethernet behind two VLAN tags, for tests: a TAP device on one side, tagged frames on the other.

Written from IEEE 802.1Q and 802.1ad alone, and sharing no code with weir. The kernel needs no 8021q: frames are made and
read by a packet socket, which gives the outer tag apart from the frame (packet(7), PACKET_AUXDATA).
Counts frames to the TAP's hardware address, or to groups, with other tags than it sends, and says so when it ends.
"""
import argparse, fcntl, os, select, struct

from lab import count_until_stopped, receive_tagged, tagged_socket

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000

def main():
    args = argparse.ArgumentParser()
    args.add_argument("--interface", required=True)
    args.add_argument("--tap", default="tap0")
    args.add_argument("--s-vlan", type=int, required=True)
    args.add_argument("--c-vlan", type=int, required=True)
    args.add_argument("--tpid", type=lambda t: int(t, 0), default=0x88A8)
    a = args.parse_args()

    tags = struct.pack("!HHHH", a.tpid, a.s_vlan, 0x8100, a.c_vlan)
    raw = tagged_socket(a.interface)
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", a.tap.encode(), IFF_TAP | IFF_NO_PI))
    seen = {"up": 0, "down": 0, "wrong_tags": 0}
    print("ready", flush=True)

    count_until_stopped(seen)
    while True:
        ready, _, _ = select.select([tap, raw], [], [])
        if tap in ready:
            frame = os.read(tap, 65535)
            raw.send(frame[:12] + tags + frame[12:])
            seen["up"] += 1
        if raw in ready:
            frame = receive_tagged(raw)
            if frame is None or len(frame) < 22:
                continue
            words = struct.unpack("!HHHHH", frame[12:22])
            if (words[0], words[1] & 0xFFF, words[2], words[3] & 0xFFF) == (a.tpid, a.s_vlan, 0x8100, a.c_vlan):
                os.write(tap, frame[:12] + frame[20:])
                seen["down"] += 1
            elif words[0] not in (0x0800, 0x86DD):
                # The kernel's own chatter on the interface has no tags.
                seen["wrong_tags"] += 1

main()
