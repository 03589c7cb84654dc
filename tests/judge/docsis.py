#!/usr/bin/env python3
"""Reads DEPI packets a second time, from the descriptions of PSP, DOCSIS and BPI+, and has tshark read them, too.

    docsis.py capture.pcap facts.json

`facts.json`: {"word": whether a word stands behind the table of segments, "keys": {session: {SAID: [[key, iv] even, [key,
iv] odd]}}}, hexadecimal. Every frame must have a right HCS, elements that fill its extended header, the length it says, a
key that is there, and the right CRC32 under it; of every frame that lies whole in a packet, tshark's docsis dissector must
say the same as we do. Prints what was found as JSON; exits with 1 where something is wrong.
"""

import json
import pathlib
import struct
import subprocess
import sys

from bpi import crc, decrypt
from scapy.utils import RawPcapReader

FIELDS = ["docsis.hcs.status", "docsis.len", "docsis.ehdr.said", "docsis.ehdr.keyseq", "docsis.ehdr.ds_dsid",
          "docsis.ehdr.ds_pkt_seq_num", "docsis.ehdr.ds_traffic_pri", "docsis.ehdr.type"]
# As whole as the shim wants it, to hand it to the dissector.
WHOLE = 0xC000


def hcs(data):
    """CRC-16/X-25, bit by bit."""
    value = 0xFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x8408 if value & 1 else 0)
    return (value ^ 0xFFFF).to_bytes(2, "little")


class Wrong(Exception):
    pass


def elements(extended):
    at = 0
    while at < len(extended):
        kind, length = extended[at] >> 4, extended[at] & 15
        value = extended[at + 1:at + 1 + length]
        if len(value) != length:
            raise Wrong("an element runs past its header")
        yield kind, value
        at += 1 + length


def frame(data, keys):
    """What tshark should say of it, in the order of FIELDS, and its Ethernet frame."""
    fc, parm, length = struct.unpack(">BBH", data[:4])
    extended = data[4:4 + parm] if fc & 1 else b""
    head = 4 + len(extended) + 2
    if hcs(data[:head - 2]) != data[head - 2:head]:
        raise Wrong("HCS")
    if 6 + length != len(data):
        raise Wrong(f"length {length} of {len(data)} bytes")
    if fc & 0xFE:
        raise Wrong(f"frame control {fc:#x}")
    said, keyseq, dsid, number, priority, kinds = [], [], [], [], [], []
    ethernet = data[head:]
    for kind, value in elements(extended):
        kinds.append(kind)
        if kind == 4:
            word = struct.unpack(">H", value[1:3])[0]
            said, keyseq = [word & 0x3FFF], [value[0] >> 4]
            if value[0] & 15 != 1 or bool(word & 0x4000) != bool(keyseq[0] & 1) or len(kinds) > 1:
                raise Wrong("privacy element")
            if word & 0x8000:
                key, iv = map(bytes.fromhex, keys[str(said[0])][keyseq[0] & 1])
                ethernet = ethernet[:12] + decrypt(key, iv, ethernet[12:])
        elif kind == 8:
            priority = [value[0] >> 5]
            dsid = [(value[0] & 15) << 16 | struct.unpack(">H", value[1:3])[0]] if len(value) >= 3 else []
            number = [struct.unpack(">H", value[3:5])[0]] if len(value) == 5 else []
    if crc(ethernet[:-4]) != ethernet[-4:]:
        raise Wrong("CRC")
    return [[1], [length], said, keyseq, dsid, number, priority, kinds], ethernet[:-4]


def main(capture, facts):
    facts = json.loads(pathlib.Path(facts).read_text())
    keys = facts["keys"]
    found = {"packets": 0, "frames": 0, "split": 0, "whole": 0, "encrypted": 0, "faults": []}
    partial, expected = {}, []
    for number, (packet, _) in enumerate(RawPcapReader(capture), 1):
        if packet[12:14] != b"\x08\x00" or packet[23] != 115:
            expected.append(None)
            continue
        total = struct.unpack(">H", packet[16:18])[0]
        body = packet[14 + 4 * (packet[14] & 15):14 + total]
        session, body = struct.unpack(">I", body[:4])[0], body[4:]
        found["packets"] += 1
        count = body[1] & 0x7F
        table = struct.unpack(f">{count}H", body[4:4 + 2 * count])
        at = 4 + 2 * count + (2 if facts["word"] else 0)
        says = [[] for _ in FIELDS]
        for entry in table:
            piece = body[at:at + (entry & 0x3FFF)]
            at += len(piece)
            if entry & 0x8000:
                partial[session] = b""
            whole = partial.pop(session) + piece
            if not entry & 0x4000:
                partial[session] = whole
                continue
            found["frames"] += 1
            try:
                line, _ = frame(whole, keys[str(session)])
            except Wrong as wrong:
                found["faults"].append(f"packet {number}: {wrong}")
                continue
            found["encrypted"] += bool(line[2])
            if entry & WHOLE == WHOLE:
                found["whole"] += 1
                for into, values in zip(says, line):
                    into.extend(values)
            else:
                found["split"] += 1
        if at != len(body):
            found["faults"].append(f"packet {number}: {len(body) - at} bytes behind its segments")
        expected.append(says)
    shim = pathlib.Path(__file__).with_name("depi_psp.lua")
    tshark = ["tshark", "-X", f"lua_script:{shim}", "-o", "l2tp.l2_specific:none", "-o", "l2tp.cookie_size:None",
              "-r", capture, "-T", "fields", "-E", "occurrence=a", "-E", "separator=;"]
    output = subprocess.run(tshark + [a for name in FIELDS for a in ("-e", name)], capture_output=True, text=True, check=True)
    lines = output.stdout.splitlines()
    if len(lines) != len(expected):
        found["faults"].append(f"tshark read {len(lines)} packets of {len(expected)}")
    for number, (line, says) in enumerate(zip(lines, expected), 1):
        theirs = [[int(v, 0) for v in field.split(",") if v] for field in line.split(";")]
        if says is not None and theirs != says:
            found["faults"].append(f"packet {number}: tshark says {theirs}, we {says}")
    found["faults"] = found["faults"][:20]
    print(json.dumps(found))
    sys.exit(bool(found["faults"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
