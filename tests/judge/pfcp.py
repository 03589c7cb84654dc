#!/usr/bin/env python3
"""Talks PFCP, as scapy knows it, to a user plane on loopback.

    pfcp.py port

Prints how many exchanges went as they should; exits with 1 at the first that did not.
"""

import socket
import sys

from scapy.config import conf
from scapy.contrib.pfcp import (
    PFCP, IE_ApplyAction, IE_CreateFAR, IE_CreatePDR, IE_DestinationInterface, IE_FAR_Id, IE_ForwardingParameters,
    IE_FSEID, IE_FTEID, IE_NetworkInstance, IE_NodeId, IE_OuterHeaderRemoval, IE_PDI, IE_PDNType, IE_PDR_Id,
    IE_Precedence, IE_RecoveryTimeStamp, IE_SourceInterface, IE_UE_IP_Address, IE_UpdateFAR, PFCPAssociationReleaseRequest,
    PFCPAssociationReleaseResponse, PFCPAssociationSetupRequest, PFCPAssociationSetupResponse, PFCPHeartbeatRequest,
    PFCPHeartbeatResponse, PFCPSessionDeletionRequest, PFCPSessionDeletionResponse, PFCPSessionEstablishmentRequest,
    PFCPSessionEstablishmentResponse, PFCPSessionModificationRequest, PFCPSessionModificationResponse,
)

conf.verb = 0
NODE = IE_NodeId(id_type=0, ipv4="127.0.0.1")
STARTED = IE_RecoveryTimeStamp(timestamp=3900000000)


def establishment(fars=True):
    """Uplink and downlink, the tunnel to be chosen by the user plane."""
    ies = [
        NODE,
        IE_FSEID(v4=1, seid=7, ipv4="127.0.0.1"),
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=1), IE_Precedence(precedence=255),
            IE_PDI(IE_list=[
                IE_SourceInterface(interface=1), IE_NetworkInstance(instance="internet"),
                IE_UE_IP_Address(ipv4="10.0.0.1", V4=1, SD=1),
            ]),
            IE_FAR_Id(id=1),
        ]),
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=2), IE_Precedence(precedence=255),
            IE_PDI(IE_list=[IE_SourceInterface(interface=0), IE_FTEID(CH=1, V4=1)]),
            IE_OuterHeaderRemoval(header=0), IE_FAR_Id(id=2),
        ]),
    ]
    if fars:
        ies += [
            IE_CreateFAR(IE_list=[IE_FAR_Id(id=1), IE_ApplyAction(BUFF=1, NOCP=1)]),
            IE_CreateFAR(IE_list=[
                IE_FAR_Id(id=2), IE_ApplyAction(FORW=1),
                IE_ForwardingParameters(IE_list=[IE_DestinationInterface(interface=1)]),
            ]),
        ]
    return PFCPSessionEstablishmentRequest(IE_list=ies + [IE_PDNType(pdn_type=1)])


class Client:
    """Sends a request and reads what comes back."""

    def __init__(self, port):
        self.peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.peer.settimeout(10)
        self.peer.connect(("127.0.0.1", port))
        self.seq = 0
        self.done = 0

    def ask(self, message, seid=None, again=False, version=1):
        """The answer's octets, and what scapy reads in them."""
        self.seq += 0 if again else 1
        header = PFCP(version=version, seq=self.seq, S=0 if seid is None else 1)
        if seid is not None:
            header.seid = seid
        self.peer.send(bytes(header / message))
        octets = self.peer.recv(65536)
        return octets, PFCP(octets)

    def check(self, answer, kind, cause=None, seid=None):
        """The answer is of this kind and has this cause."""
        octets, read = answer
        assert read.haslayer(kind), f"{read.summary()} is no {kind.__name__}"
        assert read.seq == self.seq, "another sequence number"
        assert not read.haslayer("Raw") and not read.haslayer("Padding"), "octets scapy does not understand"
        assert seid is None or read.seid == seid, f"SEID {read.seid}"
        causes = [ie.cause for ie in read[kind].IE_list if ie.name == "IE Cause"] if cause else [None]
        assert causes == [cause], f"cause {causes}, not {cause}"
        self.done += 1
        return read[kind]


def main():
    client = Client(int(sys.argv[1]))
    client.check(client.ask(PFCPHeartbeatRequest(IE_list=[STARTED])), PFCPHeartbeatResponse)
    client.check(client.ask(establishment(), seid=0), PFCPSessionEstablishmentResponse, cause=72, seid=7)
    client.check(client.ask(PFCPAssociationSetupRequest(IE_list=[NODE, STARTED])), PFCPAssociationSetupResponse, cause=1)
    first = client.ask(establishment(), seid=0)
    response = client.check(first, PFCPSessionEstablishmentResponse, cause=1, seid=7)
    created = [ie for ie in response.IE_list if ie.name == "IE Created PDR"]
    assert [ie.IE_list[0].id for ie in created] == [2], "one PDR has a tunnel"
    assert created[0].IE_list[1].TEID != 0, "the tunnel chosen"
    session = [ie.seid for ie in response.IE_list if ie.name == "IE F-SEID"][0]
    again = client.ask(establishment(), seid=0, again=True)
    assert again[0] == first[0], "asked again, another answer"
    client.check(again, PFCPSessionEstablishmentResponse, cause=1, seid=7)
    refused = client.check(client.ask(establishment(fars=False), seid=0), PFCPSessionEstablishmentResponse, cause=66, seid=7)
    assert [ie.type for ie in refused.IE_list if ie.name == "IE Offending IE"] == [3], "Create FAR is missing"
    update = IE_UpdateFAR(IE_list=[IE_FAR_Id(id=1), IE_ApplyAction(DROP=1)])
    modification = PFCPSessionModificationRequest(IE_list=[update])
    client.check(client.ask(modification, seid=session), PFCPSessionModificationResponse, cause=1, seid=7)
    client.check(client.ask(PFCPSessionDeletionRequest(), seid=session), PFCPSessionDeletionResponse, cause=1, seid=7)
    # Scapy has no layer for a message without IEs.
    octets, read = client.ask(PFCPHeartbeatRequest(IE_list=[STARTED]), version=2)
    assert (read.version, read.message_type, read.seq, len(octets)) == (1, 11, client.seq, 8), "Version Not Supported"
    client.done += 1
    client.check(client.ask(PFCPAssociationReleaseRequest(IE_list=[NODE])), PFCPAssociationReleaseResponse, cause=1)
    client.check(client.ask(PFCPAssociationReleaseRequest(IE_list=[NODE])), PFCPAssociationReleaseResponse, cause=72)
    print(f"{client.done} exchanges as they should be")


if __name__ == "__main__":
    main()
