#!/usr/bin/env python3
"""Ethernet behind two VLAN tags, for tests: a TAP device on one side, tagged frames on the other.

Written from IEEE 802.1Q and 802.1ad alone, and sharing no code with weir. The kernel needs no 8021q: frames are made and
read by a packet socket, which gives the outer tag apart from the frame (packet(7), PACKET_AUXDATA).
Counts frames to the TAP's hardware address, or to groups, with other tags than it sends, and says so when it ends.
"""
import argparse, fcntl, os, select, signal, socket, struct, sys

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC, PACKET_AUXDATA = 263, 1, 1, 8
VLAN_VALID, TPID_VALID, OUTGOING = 0x10, 0x40, 4

def receive(raw):
    """A frame as it was on the wire, or None if it is our own."""
    data, ancillary, _, address = raw.recvmsg(65535, socket.CMSG_SPACE(20))
    if address[2] == OUTGOING:
        return None
    for level, kind, content in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", content[:20])
            if status & VLAN_VALID:
                tpid = tpid if status & TPID_VALID else 0x8100
                data = data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
    return data

def main():
    args = argparse.ArgumentParser()
    args.add_argument("--interface", required=True)
    args.add_argument("--tap", default="tap0")
    args.add_argument("--s-vlan", type=int, required=True)
    args.add_argument("--c-vlan", type=int, required=True)
    args.add_argument("--tpid", type=lambda t: int(t, 0), default=0x88A8)
    a = args.parse_args()

    tags = struct.pack("!HHHH", a.tpid, a.s_vlan, 0x8100, a.c_vlan)
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.bind((a.interface, 3))
    raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    index = socket.if_nametoindex(a.interface)
    raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, b""))

    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", a.tap.encode(), IFF_TAP | IFF_NO_PI))
    seen = {"up": 0, "down": 0, "wrong_tags": 0}
    print("ready", flush=True)

    def end(*_):
        print(" ".join(f"{k}={v}" for k, v in seen.items()), flush=True)
        sys.exit(1 if seen["wrong_tags"] else 0)
    signal.signal(signal.SIGTERM, end)

    while True:
        ready, _, _ = select.select([tap, raw], [], [])
        if tap in ready:
            frame = os.read(tap, 65535)
            raw.send(frame[:12] + tags + frame[12:])
            seen["up"] += 1
        if raw in ready:
            frame = receive(raw)
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
