"""Subscribers and a server on both sides of a gateway that translates: prints as JSON which public end each private one has.

ask PORT…        every subscriber sends from these ports, and is answered
answer JSON      the server sends to public ends that it knows from before
begin N          the first fragment of a packet of the first subscriber, with that identification; finish N: the last one
"""
import json, select, socket, struct, sys

SUBSCRIBERS, SERVER = 10, "198.18.0.1"


def checksum(octets):
    total = sum(struct.unpack("!%dH" % (len(octets) // 2), octets))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ip(src, fragment, payload, identification=0):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), identification, fragment, 64, 17, 0,
                       socket.inet_aton(src), socket.inet_aton(SERVER))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def tunnelled(subscriber, packet):
    container = b"\x01\x10\x09\x00"
    head = struct.pack("!BBHIHBB", 0x34, 255, 4 + len(container) + len(packet), 0x01000000 + subscriber, 0, 0, 0x85)
    return head + container + packet


def address(subscriber):
    return "10.60.0.%d" % (1 + subscriber)


def datagram(port, payload):
    return struct.pack("!HHHH", port, 53, 8 + len(payload), 0) + payload


gnb, server = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
gnb.bind(("0.0.0.0", 2152))
server.bind((SERVER, 53))


def receive(end, wanted):
    while select.select([end], [], [], 5)[0]:
        octets, peer = end.recvfrom(4096)
        if wanted(octets):
            return octets, peer
    sys.exit("no packet at " + str(end.getsockname()))


def expect_inside(subscriber, port, text):
    end = socket.inet_aton(address(subscriber))
    receive(gnb, lambda octets: octets.endswith(text) and octets[-len(text) - 12:-len(text) - 8] == end
            and octets[-len(text) - 6:-len(text) - 4] == struct.pack("!H", port))


def ask(subscriber, port):
    text = b"from %d %d" % (subscriber, port)
    gnb.sendto(tunnelled(subscriber, ip(address(subscriber), 0, datagram(port, text))), ("10.0.3.1", 2152))
    _, public = receive(server, lambda octets: octets == text)
    server.sendto(b"to %d %d" % (subscriber, port), public)
    expect_inside(subscriber, port, b"to %d %d" % (subscriber, port))
    return [subscriber, port, *public]


act, *rest = sys.argv[1:]
if act == "ask":
    print(json.dumps([ask(subscriber, int(port)) for subscriber in range(SUBSCRIBERS) for port in rest]))
elif act == "answer":
    for subscriber, port, *public in json.loads(rest[0]):
        text = b"again %d %d" % (subscriber, port)
        server.sendto(text, tuple(public))
        expect_inside(subscriber, port, text)
    print("[]")
else:
    whole = datagram(4000, b"x" * 92)
    fragment, octets = (0x2000, whole[:40]) if act == "begin" else (5, whole[40:])
    part = ip(address(0), fragment, octets, int(rest[0]))
    gnb.sendto(tunnelled(0, part), ("10.0.3.1", 2152))
    if act == "finish":
        receive(server, lambda octets: octets == b"x" * 92)
    print("[]")
