#!/usr/bin/env python3
"""A row of docs/labs/bngblaster.md from BNG Blaster's report; exit code 1 if sessions or packets are missing.

usage: report.py REPORT TPID MODEL PPS STREAMS
       report.py --start|--stop SOCKET  has BNG Blaster start or stop its traffic
       report.py --compare SOCKET WEIR CONTROL_SOCKET   every session's IPv4 address is the one that weir has
       report.py --streams SOCKET       what its streams have sent and received, as JSON
"""
import json, os, socket, subprocess, sys


def ask(path, command):
    """BNG Blaster's answer at its control socket."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.connect(path)
        control.sendall(json.dumps({"command": command}).encode())
        while part := control.recv(1 << 16):
            answer += part
    return json.loads(answer)


if sys.argv[1] in ("--start", "--stop"):
    status = ask(sys.argv[2], "traffic-" + sys.argv[1][2:])["status"]
    print("traffic:", sys.argv[1][2:], status)
    sys.exit(status != "ok")
if sys.argv[1] == "--compare":
    has = {(one["outer-vlan"], one["inner-vlan"]): one.get("ipv4-address") for one in ask(sys.argv[2], "session-summary")["session-summary"]}
    knows, after = {}, []
    while True:
        page = subprocess.run([sys.argv[3], "show", "subscribers", "--socket", sys.argv[4], "--limit", "1000", *after, "--json"],
                              capture_output=True, text=True, check=True).stdout
        page = json.loads(page)
        knows |= {(one["s_vlan"], one["c_vlan"]): next((ip for ip in one["addresses"] if "." in ip), None) for one in page["entries"]}
        if page.get("next") is None:
            break
        after = ["--after", str(page["next"])]
    wrong = [(line, address, knows.get(line)) for line, address in has.items() if knows.get(line) != address]
    twice = len(knows) - len(set(knows.values()))
    print(f"leases: {len(has):,} sessions, {len(knows):,} subscribers, {len(wrong):,} with another address than the session has, "
          f"{twice:,} addresses given twice", *wrong[:3])
    sys.exit(len(wrong) + twice > 0)
if sys.argv[1] == "--streams":
    commands = ("access-interfaces", "network-interfaces", "stream-stats")
    print(json.dumps({command: ask(sys.argv[2], command)[command] for command in commands}))
    sys.exit()
path, tpid, model, pps, streams = sys.argv[1:6]
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
if os.path.exists(streams):
    found = json.load(open(streams))
    flows = found["stream-stats"]
    cells, pps = [], "streams"
    for way, receivers, senders in (("up", "network", "access"), ("down", "access", "network")):
        sent, received, lost = (
            total(found[f"{side}-interfaces"], f"{key}-streams")
            for side, key in ((senders, "tx-packets"), (receivers, "rx-packets"), (receivers, "rx-loss-packets"))
        )
        missing += lost + abs(sent - received)
        cells.append(f"{received:,} of {sent:,}, {lost:,} gaps")
    print(f"flows: {flows['verified-flows']:,} of {flows['total-flows']:,} received")
    missing += flows["total-flows"] - flows["verified-flows"]
asked, there = report["sessions"], report["sessions-established"]
protocol = access[0]["protocol-stats"]
print(f"BNG Blaster {report.get('version', '?')}; timeouts: DHCP {protocol['dhcp-timeout']}, DHCPv6 {protocol['dhcpv6-timeout']}; "
      f"flapped {report['sessions-flapped']}")
print(f"| {asked:,} | {tpid}, {model} | {there:,}; DHCPv4 {report['dhcp-sessions-established']:,}, "
      f"DHCPv6 {report['dhcpv6-sessions-established']:,} | {report['setup-time-ms']} ms, {report['setup-rate-cps']:,.0f}/s | {pps} | "
      f"{cells[0]} | {cells[1]} |")
sys.exit(there != asked or missing > 0)
