#!/usr/bin/env python3
"""Reads golden outputs with scapy and compares with what the cases say of them.

    read.py facts.json      [{"file": …, "packets": [{"teid": …, "container": [0, 9], "addresses": [[…]], …}]}]

Each packet is also put together anew by scapy, all lengths and checksums left to it, and must come out as the same
bytes. Prints what differs, a line each; exits with 1 when something does.
"""

import json
import sys

from scapy.config import conf
from scapy.contrib.gtp import GTP_U_Header, GTPEchoResponse, GTPErrorIndication, GTPPDUSessionContainer
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, _ICMPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.utils import rdpcap

conf.verb = 0


def layers(packet):
    """The layers, outermost first; what an ICMP error quotes is not among them."""
    found = []
    layer = packet
    while layer:
        found.append(layer)
        if isinstance(layer, (ICMP, _ICMPv6)):
            break
        layer = layer.payload
    return found


def facts(packet):
    """What scapy finds in a packet, in the terms of testkit's `Facts`."""
    said = {
        "vlan": None, "addresses": [], "dscp": [], "ttl": [], "message": None, "teid": None, "seq": None,
        "container": None, "ports": None, "icmp": None,
    }
    for layer in layers(packet):
        if isinstance(layer, Dot1Q):
            said["vlan"] = layer.vlan
        elif isinstance(layer, IP):
            said["addresses"].append([layer.src, layer.dst])
            said["dscp"].append(layer.tos >> 2)
            said["ttl"].append(layer.ttl)
        elif isinstance(layer, IPv6):
            said["addresses"].append([layer.src, layer.dst])
            said["dscp"].append(layer.tc >> 2)
            said["ttl"].append(layer.hlim)
        elif isinstance(layer, (UDP, TCP)):
            said["ports"] = [layer.sport, layer.dport]
        elif isinstance(layer, GTP_U_Header):
            said["message"] = layer.gtp_type
            said["teid"] = layer.teid
            said["seq"] = layer.seq if layer.S else None
        elif isinstance(layer, GTPPDUSessionContainer):
            said["container"] = [layer.type, layer.QFI]
        elif isinstance(layer, (ICMP, _ICMPv6)):
            said["icmp"] = [layer.type, layer.code]
            said["ports"] = None
    return said


def rebuilt(packet):
    """The packet's bytes, lengths and checksums made anew."""
    copy = packet.copy()
    for layer in layers(copy):
        for name in ("chksum", "cksum", "len", "plen", "length", "dataofs", "ihl"):
            if name not in layer.fields:
                continue
            if isinstance(layer, UDP) and name == "chksum" and layer.chksum == 0:
                continue  # sent without one
            if isinstance(layer, (IP, IPv6, UDP, TCP, ICMP, _ICMPv6, GTP_U_Header)):
                delattr(layer, name)
    return bytes(copy)


def is_fragment(packet):
    """Whether a transport checksum can not be made of what is there."""
    return any(isinstance(layer, IP) and (layer.flags.MF or layer.frag) for layer in layers(packet)) or any(
        layer.name.startswith("IPv6 Extension Header - Fragment") for layer in layers(packet)
    )


def messages(packet):
    """GTP-U's own messages must be read to their last byte."""
    for kind in (GTPEchoResponse, GTPErrorIndication):
        if packet.haslayer(kind) and len(packet[kind].payload):
            yield f"{kind.__name__} has {len(packet[kind].payload)} bytes too many"
    if packet.haslayer(GTPErrorIndication):
        kinds = [element.ietype for element in packet[GTPErrorIndication].IE_list]
        if kinds != [16, 133]:
            yield f"Error Indication has elements {kinds}, not TEID Data I and GTP-U Peer Address"


def judge(entry):
    """What is wrong with one file."""
    packets = rdpcap(entry["file"])
    if len(packets) != len(entry["packets"]):
        yield f"{len(packets)} packets, not {len(entry['packets'])}"
    for number, (packet, said) in enumerate(zip(packets, entry["packets"]), 1):
        if not isinstance(packet, Ether):
            yield f"packet {number}: no Ethernet frame"
            continue
        if packet.haslayer(ARP):
            continue
        found = facts(packet)
        for name, value in said.items():
            if is_fragment(packet) and name in ("ports", "icmp"):
                continue
            if found[name] != value:
                yield f"packet {number}: {name} is {found[name]}, not {value}"
        if not is_fragment(packet) and rebuilt(packet) != bytes(packet):
            yield f"packet {number}: scapy makes other bytes of it"
        for fault in messages(packet):
            yield f"packet {number}: {fault}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = json.load(file)
    faults = [f"{entry['file']}: {fault}" for entry in entries for fault in judge(entry)]
    print("\n".join(faults))
    print(f"{len(entries)} files, {sum(len(entry['packets']) for entry in entries)} packets read", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
