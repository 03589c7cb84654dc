#!/usr/bin/env python3
"""An Ethernet switch for tests: a trunk whose frames have tags, and access ports of one VLAN each, whose frames have none.

Written from IEEE 802.1Q alone, and sharing no code with weir. The kernel needs no 8021q: frames are made and read by packet
sockets. It learns nothing: a frame goes to every port of its VLAN but the one it came by. VLAN 0: without tag on the trunk, too.
Says how many frames went each way, and how many on the trunk were of no VLAN of its own, when it ends.
"""
import argparse, select, struct

from lab import count_until_stopped, receive_tagged, tagged_socket

def main():
    args = argparse.ArgumentParser()
    args.add_argument("--trunk", required=True)
    args.add_argument("--access", action="append", required=True, help="INTERFACE:VLAN")
    a = args.parse_args()

    trunk = tagged_socket(a.trunk)
    access = [(tagged_socket(name), int(vlan)) for name, vlan in (port.split(":") for port in a.access)]
    seen = {"to_trunk": 0, "from_trunk": 0, "other_vlans": 0, "wrong_tags": 0}
    print("ready", flush=True)
    count_until_stopped(seen)

    def to_access(frame, vlan, sender=None):
        for port, own in access:
            if own == vlan and port is not sender:
                port.send(frame)

    while True:
        ready, _, _ = select.select([trunk] + [port for port, _ in access], [], [])
        for port, vlan in access:
            frame = receive_tagged(port) if port in ready else None
            if frame is not None:
                to_access(frame, vlan, port)
                tag = struct.pack("!HH", 0x8100, vlan) if vlan else b""
                trunk.send(frame[:12] + tag + frame[12:])
                seen["to_trunk"] += 1
        frame = receive_tagged(trunk) if trunk in ready else None
        if frame is None:
            continue
        kind, tci = struct.unpack("!HH", frame[12:16])
        vlan = tci & 0xFFF if kind == 0x8100 else 0
        if any(own == vlan for _, own in access):
            to_access(frame[:12] + frame[16:] if vlan else frame, vlan)
            seen["from_trunk"] += 1
        elif kind in (0x8100, 0x88A8):
            seen["other_vlans"] += 1

main()
