#!/usr/bin/env python3
"""A gNB with one phone behind it, for tests: a TUN device on one side, GTP-U over UDP on the other.

Written from TS 29.281 and TS 38.415 alone, and sharing no code with weir: what the two agree on is the standard.
Counts what it must not see (wrong TEID, no PDU session container) and says so when it ends.
"""
import argparse, fcntl, os, select, signal, socket, struct, sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000

def main():
    args = argparse.ArgumentParser()
    args.add_argument("--tun", default="tun0")
    args.add_argument("--local", required=True, help="our N3 address")
    args.add_argument("--upf", required=True, help="the UPF's N3 address")
    args.add_argument("--teid", type=lambda t: int(t, 0), required=True, help="uplink: the UPF's TEID")
    args.add_argument("--gnb-teid", type=lambda t: int(t, 0), required=True, help="downlink: ours")
    args.add_argument("--qfi", type=int, default=9)
    a = args.parse_args()

    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", a.tun.encode(), IFF_TUN | IFF_NO_PI))
    family = socket.AF_INET6 if ":" in a.local else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    udp.bind((a.local, 2152))
    print("ready", flush=True)

    seen = {"up": 0, "down": 0, "wrong": 0, "errors": 0}
    def end(*_):
        print(" ".join(f"{k}={v}" for k, v in seen.items()), flush=True)
        sys.exit(1 if seen["wrong"] else 0)
    signal.signal(signal.SIGTERM, end)

    # E flag: sequence number, N-PDU number (both unused), next extension type 0x85; then length 1 (four octets),
    # PDU type 1 (uplink) with nothing optional, QFI, no further extension.
    tail = struct.pack("!HBB BBBB", 0, 0, 0x85, 1, 0x10, a.qfi, 0)
    while True:
        ready, _, _ = select.select([tun, udp], [], [])
        if tun in ready:
            packet = os.read(tun, 65535)
            header = struct.pack("!BBHI", 0x34, 255, len(tail) + len(packet), a.teid)
            try:
                udp.sendto(header + tail + packet, (a.upf, 2152))
                seen["up"] += 1
            except OSError:
                seen["errors"] += 1
        if udp in ready:
            message, _ = udp.recvfrom(65535)
            flags, kind, length, teid = struct.unpack("!BBHI", message[:8])
            at, qfi = 8, None
            if flags & 7:
                following, at = message[11], 12
                while following:
                    size = message[at] * 4
                    if following == 0x85:
                        qfi = message[at + 2] & 0x3F
                    following = message[at + size - 1]
                    at += size
            right = flags >> 4 == 3 and kind == 255 and teid == a.gnb_teid and qfi == a.qfi and length == len(message) - 8
            if not right:
                seen["wrong"] += 1
                continue
            os.write(tun, message[at:])
            seen["down"] += 1

main()
