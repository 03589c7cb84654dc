#!/usr/bin/env python3
"""Talks PFCP to a running `weir run`, on loopback of the namespace it is started in.

    cp.py client ADDRESS     an independent control plane (scapy's PFCP): associates, establishes, modifies, deletes
    cp.py hostile ADDRESS    garbage, unknown sessions, associations from made-up addresses

    cp.py retain ADDRESS SELF  comes back as the control plane at SELF, which kept its sessions (6.2.6.2.2)

Needs scapy for `client` (target/judge/bin/python3) and nothing for the others.
"""

import os
import random
import select
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PFCP_PORT = 8805


def client(up):
    """What a control plane says, and the causes it must hear."""
    sys.path.insert(0, os.path.join(HERE, "..", "judge"))
    import pfcp as judge  # the exchanges' building blocks
    from scapy.contrib import pfcp as p

    class Client(judge.Client):
        """From an address and port of its own; the user plane's heartbeats may come in between."""

        def __init__(self):
            self.peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.peer.settimeout(5)
            self.peer.bind(("127.0.0.2", PFCP_PORT))
            self.peer.connect((up, PFCP_PORT))
            self.seq = 0
            self.done = 0

        def ask(self, message, seid=None, again=False, version=1):
            octets, read = super().ask(message, seid, again, version)
            while read.message_type == 1:
                octets = self.peer.recv(65536)
                read = p.PFCP(octets)
            return octets, read

    c = Client()
    node, started = judge.NODE, judge.STARTED
    deletion = p.PFCPSessionDeletionRequest()
    c.check(c.ask(p.PFCPHeartbeatRequest(IE_list=[started])), p.PFCPHeartbeatResponse)
    c.check(c.ask(judge.establishment(), seid=0), p.PFCPSessionEstablishmentResponse, cause=72)
    c.check(c.ask(p.PFCPAssociationSetupRequest(IE_list=[node, started])), p.PFCPAssociationSetupResponse, cause=1)
    first = c.ask(judge.establishment(), seid=0)
    response = c.check(first, p.PFCPSessionEstablishmentResponse, cause=1, seid=7)
    created = [ie for ie in response.IE_list if ie.name == "IE Created PDR"]
    assert [ie.IE_list[0].id for ie in created] == [2], "one PDR has a tunnel"
    tunnel = created[0].IE_list[1]
    assert tunnel.TEID != 0 and tunnel.ipv4 == "10.0.3.1", tunnel.show(dump=True)
    seid = next(ie.seid for ie in response.IE_list if ie.name == "IE F-SEID")
    again = c.ask(judge.establishment(), seid=0, again=True)
    assert again[0] == first[0], "asked again, another answer"
    c.check(again, p.PFCPSessionEstablishmentResponse, cause=1, seid=7)
    c.check(c.ask(judge.establishment(fars=False), seid=0), p.PFCPSessionEstablishmentResponse, cause=66, seid=7)
    access = p.IE_UpdateFAR(IE_list=[
        p.IE_FAR_Id(id=1), p.IE_ApplyAction(FORW=1),
        p.IE_UpdateForwardingParameters(IE_list=[
            p.IE_DestinationInterface(interface=0),
            p.IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=0x77, ipv4="10.0.3.100"),
        ]),
    ])
    connect = p.PFCPSessionModificationRequest(IE_list=[access])
    c.check(c.ask(connect, seid=seid), p.PFCPSessionModificationResponse, cause=1, seid=7)
    nobody = p.IE_UpdateFAR(IE_list=[p.IE_FAR_Id(id=77), p.IE_ApplyAction(DROP=1)])
    unknown = p.PFCPSessionModificationRequest(IE_list=[nobody])
    c.check(c.ask(unknown, seid=seid), p.PFCPSessionModificationResponse, cause=73, seid=7)
    c.check(c.ask(connect, seid=seid + 1), p.PFCPSessionModificationResponse, cause=65)
    c.check(c.ask(deletion, seid=seid), p.PFCPSessionDeletionResponse, cause=1, seid=7)
    c.check(c.ask(deletion, seid=seid), p.PFCPSessionDeletionResponse, cause=65)
    c.check(c.ask(p.PFCPAssociationReleaseRequest(IE_list=[node])), p.PFCPAssociationReleaseResponse, cause=1)
    c.check(c.ask(p.PFCPAssociationReleaseRequest(IE_list=[node])), p.PFCPAssociationReleaseResponse, cause=72)
    print(f"{c.done} exchanges as they should be")


def message(kind, body, seid=None, seq=1):
    """A PFCP message (3GPP TS 29.244, 7.2)."""
    head = b"" if seid is None else struct.pack("!Q", seid)
    rest = head + struct.pack("!I", seq << 8) + body
    return struct.pack("!BBH", 0x20 | (seid is not None), kind, len(rest)) + rest


def hostile(up):
    """Prints what was sent. Nothing is expected back; what comes is not read."""
    rng = random.Random(29244)
    sent = {}

    def send(what, source, datagrams):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setblocking(False)
        s.bind((source, 0))
        for datagram in datagrams:
            try:
                s.sendto(datagram, (up, PFCP_PORT))
                sent[what] = sent.get(what, 0) + 1
            except (BlockingIOError, ConnectionError):
                pass
        s.close()

    # Octets of any kind; then such that begin well.
    send("garbage", "127.9.9.9", (rng.randbytes(rng.randrange(1, 1200)) for _ in range(2000)))
    begun = (message(rng.choice([1, 5, 6, 50, 52, 54, 56]), rng.randbytes(rng.randrange(200)), rng.choice([None, 0, 7]))
             for _ in range(2000))
    send("begun well", "127.9.9.9", begun)
    # Sessions that are not there, from an address without an association and from that of a control plane.
    for source in ("127.9.9.9", "127.0.0.3"):
        send("unknown sessions", source,
             (message(kind, b"", rng.getrandbits(64), seq) for seq in range(1, 1001) for kind in (52, 54)))
    # An association for each of a thousand addresses, some twice with another time of start. Sixteen at a time wait for
    # their answers: strangers share one queue, and what overflows there is never counted as refused.
    for first in range(0, 1000, 16):
        asked = []
        for n in range(first, min(first + 16, 1000)):
            address = bytes([127, 8, n >> 8, n & 255])
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((socket.inet_ntoa(address), 0))
            asked.append(s)
            for started in (3_900_000_000, 3_900_000_000 + n % 2):
                body = struct.pack("!HHB", 60, 5, 0) + address + struct.pack("!HHI", 96, 4, started)
                s.sendto(message(5, body, seq=started & 0xff), (up, PFCP_PORT))
                sent["associations"] = sent.get("associations", 0) + 1
        until = time.monotonic() + 0.5
        while asked and (left := until - time.monotonic()) > 0:
            for s in select.select(asked, [], [], left)[0]:
                asked.remove(s)
                s.close()
        for s in asked:
            s.close()
    print(", ".join(f"{n} {what}" for what, n in sent.items()))


def retain(up, own):
    """Sets the association up anew, with PFCP Session Retention Information; the answer must say PSREI."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.bind((own, PFCP_PORT))
    node = struct.pack("!HHB", 60, 5, 0) + socket.inet_aton(own)
    body = node + struct.pack("!HHI", 96, 4, 3_900_000_000) + struct.pack("!HH", 183, 0)
    s.sendto(message(5, body), (up, PFCP_PORT))
    answer = s.recv(65536)
    while answer[1] != 6:
        answer = s.recv(65536)
    # Cause 1; PFCPASRsp-Flags with its first bit.
    assert struct.pack("!HHB", 19, 1, 1) in answer and struct.pack("!HHB", 184, 1, 1) in answer, answer.hex()


if __name__ == "__main__":
    {"client": client, "hostile": hostile, "retain": retain}[sys.argv[1]](*sys.argv[2:])
