#!/usr/bin/env python3
"""A row of docs/labs/bngblaster.md from BNG Blaster's report; exit code 1 if sessions or packets are missing.

usage: report.py REPORT TPID MODEL PPS
       report.py --stop SOCKET          has BNG Blaster stop its traffic
"""
import json, socket, sys

if sys.argv[1] == "--stop":
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(sys.argv[2])
        control.sendall(b'{"command": "session-traffic-stop"}')
        print("traffic stops:", control.recv(4096).decode().strip())
    sys.exit()
path, tpid, model, pps = sys.argv[1:5]
report = json.load(open(path))["report"]
access, network = report["access-interfaces"], report["network-interfaces"]
sides = (("up", network, access), ("down", access, network))
total = lambda rows, key: sum(row.get(key, 0) for row in rows)

cells, missing = [], 0
for way, receivers, senders in sides:
    parts = []
    for family in ("ipv4", "ipv6", "ipv6pd"):
        sent = total(senders, f"tx-session-packets-{family}")
        lost = total(receivers, f"rx-session-packets-{family}-loss")
        wrong = total(receivers, f"rx-session-packets-{family}-wrong-session")
        received = total(receivers, f"rx-session-packets-{family}")
        missing += lost + wrong
        if sent:
            parts.append(f"{received:,} of {sent:,}" + (f", {lost:,} gaps" if lost else "") + (f", {wrong:,} wrong" if wrong else ""))
            missing += sent - received
    cells.append("; ".join(parts) or "none")
asked, there = report["sessions"], report["sessions-established"]
protocol = access[0]["protocol-stats"]
print(f"BNG Blaster {report.get('version', '?')}; timeouts: DHCP {protocol['dhcp-timeout']}, DHCPv6 {protocol['dhcpv6-timeout']}; "
      f"flapped {report['sessions-flapped']}")
print(f"| {asked:,} | {tpid}, {model} | {there:,}; DHCPv4 {report['dhcp-sessions-established']:,}, "
      f"DHCPv6 {report['dhcpv6-sessions-established']:,} | {report['setup-time-ms']} ms, {report['setup-rate-cps']:,.0f}/s | {pps} | "
      f"{cells[0]} | {cells[1]} |")
sys.exit(there != asked or missing > 0)
