#!/usr/bin/env python3
"""A neighbour that asks for a gateway's addresses, frame by frame: ARP, neighbour solicitations (with and without an option,
and as duplicate detection does), GTP-U Echo Requests over IPv4 and IPv6. Written from RFC 826, RFC 4861 and TS 29.281 alone, and
sharing no code with weir. Prints the names of the questions that were answered as these say.
usage: ask.py INTERFACE IPV4 IPV6 MAC [SECONDS]
"""
import socket, struct, sys, time

INTERFACE, IPV4, IPV6, MAC = sys.argv[1:5]
SECONDS = float(sys.argv[5]) if len(sys.argv) > 5 else 2
OWN = bytes.fromhex("020000000063")
OWN4 = socket.inet_aton(IPV4)[:3] + b"\x63"
US4, US6, US = socket.inet_aton(IPV4), socket.inet_pton(socket.AF_INET6, IPV6), bytes.fromhex(MAC.replace(":", ""))
OWN6 = US6[:15] + b"\x63"
GROUP6 = bytes.fromhex("ff0200000000000000000001ff") + US6[13:]
SEQUENCE = 0x1234

def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff

def pseudo6(source, to, protocol, data):
    return source + to + struct.pack("!II", len(data), protocol) + data

def ip6(source, to, protocol, data, limit, at):
    check = checksum(pseudo6(source, to, protocol, data)) or (0xffff if protocol == 17 else 0)
    data = data[:at] + struct.pack("!H", check) + data[at + 2:]
    return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(data), protocol, limit) + source + to + data

def solicitation(source, options):
    body = struct.pack("!BBHI", 135, 0, 0, 0) + US6 + options
    return b"\x33\x33\xff" + US6[13:] + OWN + ip6(source, GROUP6, 58, body, 255, 2)

def echo():
    message = struct.pack("!BBHIHBB", 0x32, 1, 4, 0, SEQUENCE, 0, 0)
    return struct.pack("!HHHH", 40000, 2152, 8 + len(message), 0) + message

def ip4(data):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 7, 0, 64, 17, 0) + OWN4 + US4
    return b"\x08\x00" + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + data

def is_arp(frame):
    return frame[12:22] == bytes.fromhex("08060001080006040002") and frame[22:32] == US + US4 and frame[32:42] == OWN + OWN4

def is_advertised(frame, to, flags):
    body = frame[54:86]
    whole = checksum(pseudo6(frame[22:38], frame[38:54], 58, body)) == 0
    return (frame[12:14] == b"\x86\xdd" and frame[20:22] == b"\x3a\xff" and frame[22:38] == US6 and frame[38:54] == to and whole
            and body[:2] == b"\x88\0" and body[4] == flags and body[8:24] == US6 and body[24:] == b"\x02\x01" + US)

def is_echo(frame, at):
    udp = frame[at:at + 22]
    response = struct.pack("!BBHIHBBBB", 0x32, 2, 6, 0, SEQUENCE, 0, 0, 14, 0)
    return udp[:6] == struct.pack("!HHH", 2152, 40000, 22) and udp[8:] == response

def is_echo4(frame):
    udp = frame[34:56]
    pseudo = frame[26:34] + struct.pack("!HH", 17, len(udp)) + udp
    return (frame[12:14] == b"\x08\0" and frame[26:34] == US4 + OWN4 and checksum(frame[14:34]) == 0 and is_echo(frame, 34)
            and checksum(pseudo) == 0)

def is_echo6(frame):
    return (frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[22:54] == US6 + OWN6 and is_echo(frame, 54)
            and checksum(pseudo6(US6, OWN6, 17, frame[54:76])) == 0)

ALL = socket.inet_pton(socket.AF_INET6, "ff02::1")
QUESTIONS = {
    "arp": (b"\xff" * 6 + OWN + bytes.fromhex("08060001080006040001") + OWN + OWN4 + b"\0" * 6 + US4, is_arp),
    "solicitation": (solicitation(OWN6, b"\x01\x01" + OWN), lambda frame: is_advertised(frame, OWN6, 0xe0)),
    "solicitation without option": (solicitation(OWN6, b""), lambda frame: is_advertised(frame, OWN6, 0xe0)),
    "solicitation with two options": (solicitation(OWN6, b"\x0e\x01nonce6\x01\x01" + OWN),
                                      lambda frame: is_advertised(frame, OWN6, 0xe0)),
    "duplicate detection": (solicitation(b"\0" * 16, b""), lambda frame: is_advertised(frame, ALL, 0xa0)),
    "echo over IPv4": (US + OWN + ip4(echo()), is_echo4),
    "echo over IPv6": (US + OWN + ip6(OWN6, US6, 17, echo(), 64, 6), is_echo6),
}

def main():
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind((INTERFACE, 3))
    link.setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex(INTERFACE), 1, 0, b"")) # promiscuous
    link.settimeout(0.1)
    answered = []
    for name, (question, is_answer) in QUESTIONS.items():
        until = time.monotonic() + SECONDS
        while name not in answered and time.monotonic() < until:
            link.send(question.ljust(60, b"\0"))
            for _ in range(1000):
                try:
                    frame = link.recv(2000)
                except TimeoutError:
                    break
                if frame[6:12] == US and frame[:6] in (OWN, b"\x33\x33\0\0\0\x01") and is_answer(frame):
                    answered.append(name)
                    break
    print("\n".join(answered))

main()
