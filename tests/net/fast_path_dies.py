#!/usr/bin/env python3
"""Known sessions go on while the gateway is killed or stopped and starts again: no packet is lost, and all are charged.

    load                                    upf
    gnb0 ═════════════ n3 10.0.3.1 ─ weir ─ n6 10.0.6.1 ═════════════ dn0     signed packets both ways, `weir gen`
    cp0  ═════════════ n4 10.0.4.1 ─┘ ledger, [fast_path] keep_seconds        sessions by PFCP, `weir cp`

While it is dead, the program in the kernel answers ARP, neighbour solicitations and Echo Requests (`ask.py`), as it did itself.
usage: fast_path_dies.py WEIR_BINARY CONFINE [PACKETS_A_SECOND [KILLS [SUBSCRIBERS]]]
"""
import glob, json, os, shutil, signal, sys, tempfile, time

from lab import (expect, gateway_runs, gateway_stops, inside, kernel_port, link, namespaces_with_lo, run, signed_load, start,
                 wait_for, within)

WEIR, CONFINE = sys.argv[1:3]
PPS, KILLS, UES = (int(word) for word in (sys.argv[3:] + ["5000", "3", "100"][len(sys.argv) - 3:]))
TAG = f"weir-{os.getpid()}"
LOAD, UPF = f"{TAG}-load", f"{TAG}-upf"
KEEP = 12
FOLDER = tempfile.mkdtemp(prefix=TAG)
HERE = os.path.dirname(os.path.abspath(__file__))

def build():
    namespaces_with_lo((LOAD, UPF))
    for ours, theirs in (("gnb0", "n3"), ("dn0", "n6"), ("cp0", "n4")):
        link(LOAD, ours, UPF, theirs)
        inside(LOAD, "ethtool", "-K", ours, "tso", "off", "gso", "off", "tx", "off", "gro", "on")
    inside(LOAD, "ip", "address", "add", "10.0.4.2/24", "dev", "cp0")
    inside(UPF, "ip", "address", "add", "10.0.4.1/24", "dev", "n4")
    os.mkdir(f"{FOLDER}/bpf")
    run("mount", "-t", "bpf", "bpf", f"{FOLDER}/bpf")

def configs():
    with open(f"{FOLDER}/upf.toml", "w") as file:
        file.write(f"""
gateway = "upf"
control_socket = "{FOLDER}/weir.sock"
{kernel_port("n3", "access", "10.0.3.1/24", "fd00:3::1/64")}
{kernel_port("n6", "core", "10.0.6.1/24")}
[process]
confine = {CONFINE}

[[route]]
to = "0.0.0.0/0"
next_hop = "10.0.6.254"

[fast_path]
keep_seconds = {KEEP}
bpf_folder = "{FOLDER}/bpf"

[n4]
address = "10.0.4.1"
allow = ["10.0.4.0/24"]
session_retention_seconds = 120
ledger = "{FOLDER}/ledger"
checkpoint_seconds = 5
""")
    with open(f"{FOLDER}/cp.toml", "w") as file:
        file.write(f"""
upf = "10.0.4.1"
kind = "smf"
sessions = {UES}
rate = 5000
timeout = 0.5
n1_requests = 60

[profile]
ue_first = "10.60.0.1"
upf_n3 = "10.0.3.1"
teid_first = 0x01000000
gnbs = 4
gnb_first = "10.0.3.100"
gnb_teid_first = 0x02000000
qfi = 9

[life]
idle = 0
""")
    signed_load(f"{FOLDER}/gen.toml", PPS, UES, 300)

def counted():
    shown = json.loads(run(WEIR, "show", "sessions", "--json", "--socket", f"{FOLDER}/weir.sock"))
    return {name: counter["value"] for name, counter in shown.get("control", {}).items()}

def in_kernel(ue):
    shown = json.loads(run(WEIR, "show", "sessions", "--ue", f"10.60.0.{ue}", "--json", "--socket", f"{FOLDER}/weir.sock"))
    return shown["fast_path"] == "in the kernel"

def gateway():
    if os.path.exists(f"{FOLDER}/weir.sock"):
        os.remove(f"{FOLDER}/weir.sock")
    return gateway_runs("weir runs", ("ip", "netns", "exec", UPF, WEIR, "run", f"{FOLDER}/upf.toml"), f"{FOLDER}/weir.sock")

def last_object(said):
    return json.loads(said[said.index("{"):])

def packets(device, which):
    return int(inside(LOAD, "cat", f"/sys/class/net/{device}/statistics/{which}"))

def interfaces():
    """What each end of each link has seen, to tell where packets were lost."""
    for namespace, devices in ((LOAD, ("gnb0", "dn0")), (UPF, ("n3", "n6"))):
        for device in devices:
            names = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors")
            folder = f"/sys/class/net/{device}/statistics"
            print(f"  {device}:", {name: int(inside(namespace, "cat", f"{folder}/{name}")) for name in names}, flush=True)

ASKED = ("arp", "solicitation", "solicitation without option", "solicitation with two options", "duplicate detection",
         "echo over IPv4", "echo over IPv6")

def answered(mac, seconds=2):
    """Which questions of a neighbour the gateway answers, or what is there in its place."""
    said = inside(LOAD, sys.executable, f"{HERE}/ask.py", "gnb0", "10.0.3.1", "fd00:3::1", mac, str(seconds), timeout=60)
    return [line for line in said.split("\n") if line]

def paths():
    return json.loads(run(WEIR, "fastpath", "show", "--json", "--bpf-folder", f"{FOLDER}/bpf"))["interfaces"]

def main():
    build()
    configs()
    mac = inside(UPF, "cat", "/sys/class/net/n3/address").strip()
    upf = gateway()
    inside_load = ("ip", "netns", "exec", LOAD)
    with open(f"{FOLDER}/cp.err", "w") as said:
        control = start(*inside_load, WEIR, "cp", f"{FOLDER}/cp.toml", "--json")
    wait_for("sessions are up", lambda: json.loads(run(WEIR, "show", "peers", "--json", "--socket", f"{FOLDER}/weir.sock"))
             .get("sessions") == UES)
    gen = start(*inside_load, WEIR, "gen", f"{FOLDER}/gen.toml", "--json", "-q")
    asked = answered(mac)
    expect("the living gateway answers likewise", asked == list(ASKED), asked)
    wait_for("packets go through the kernel", lambda: counted().get("kernel_down_packets", 0) > PPS / 2)
    done = json.loads(run(WEIR, "fastpath", "clear", "--json", "--bpf-folder", f"{FOLDER}/bpf"))
    expect("weir fastpath clear leaves what a living process has",
           done["cleared"] == [] and len(done["left"]) == len(paths()) == 2, done)
    for round in range(KILLS):
        time.sleep(2.3)
        if round == 1:
            # A stop in good order leaves them, too.
            gateway_stops(upf)
        else:
            upf.kill()
            upf.wait()
        dead = time.monotonic()
        before = packets("gnb0", "rx_packets")
        # Somebody who knows no address asks, while nobody is there.
        asked = answered(mac)
        expect("neighbours and gNBs are answered while it is dead", asked == list(ASKED), asked)
        there = paths()
        expect("weir fastpath show says so", len(there) == 2 and all(
            view["path"]["owner"] == {"pid": upf.pid, "alive": False} and view["path"]["forwards"]
            and view["path"]["sessions"] == UES and view["attached"] for view in there), there)
        time.sleep(0.5)
        alone = [view["path"]["alone"] for view in paths()]
        expect("what was answered without it is counted", all(sum(one[key] for one in alone) > 0 for key in (
            "answered_arp", "answered_neighbour", "answered_echo")), alone)
        passed = packets("gnb0", "rx_packets") - before
        expect(f"{passed} packets downlink while it is dead", passed > PPS / 8, passed)
        upf = gateway()
        print(f"  dead for {time.monotonic() - dead:.2f} s", flush=True)
        # Its counts begin anew.
        wait_for("the new program has taken the old one's place", lambda: counted().get("kernel_down_packets", 0) > PPS / 2)
        said = counted()
        expect("and has what was answered before it", all(said.get(f"kernel_alone_answered_{what}", 0) > 0 for what in (
            "arp", "neighbour", "echo")), said)
    # A process that hangs is as one that is dead, a few seconds later.
    upf.send_signal(signal.SIGSTOP)
    time.sleep(6)
    before = packets("gnb0", "rx_packets")
    asked = answered(mac)
    expect("neighbours and gNBs are answered while it hangs", asked == list(ASKED), asked)
    time.sleep(0.5)
    passed = packets("gnb0", "rx_packets") - before
    expect(f"{passed} packets downlink meanwhile", passed > PPS / 8, passed)
    upf.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    alone = counted().get("kernel_alone_answered_arp", 0)
    asked = answered(mac)
    expect("then it answers itself", asked == list(ASKED) and counted().get("kernel_alone_answered_arp", 0) == alone, asked)
    time.sleep(1)
    gen.send_signal(signal.SIGINT)
    result = last_object(gen.communicate(timeout=60)[0])
    time.sleep(1)
    control.send_signal(signal.SIGINT)
    story = last_object(control.communicate(timeout=60)[0])
    for way, key in (("uplink", "up_packets"), ("downlink", "down_packets")):
        seen = result["directions"][way]
        numbers = {key: seen[f"{key}_packets"] for key in ("sent", "forwarded", "lost", "reordered", "duplicated", "corrupt")}
        print(f"  {way}:", ", ".join(f"{count} {what}" for what, count in numbers.items()), flush=True)
        if numbers["lost"]:
            interfaces()
        expect(f"{way}: none lost, overtaken or twice", numbers["lost"] == numbers["reordered"] == numbers["duplicated"] == 0, seen)
        charged = story["usage"][key]
        expect(f"{way}: {charged} charged, all that came out", charged == numbers["forwarded"], story["usage"])
    upf.kill()
    upf.wait()
    names = glob.glob(f"{FOLDER}/bpf/weir/*/*")
    expect("what goes on has names", len(names) >= 10, names)
    wait_for("its time is over", lambda: not any(view["path"]["forwards"] for view in paths()))
    asked = answered(mac, 0.3)
    expect("and nobody is drawn to it any more", asked == [], asked)
    done = json.loads(run(WEIR, "fastpath", "clear", "--json", "--bpf-folder", f"{FOLDER}/bpf"))
    expect("weir fastpath clear takes it off", len(done["cleared"]) == 2 and not paths(), done)
    shown = inside(UPF, "ip", "link", "show", "dev", "n3")
    expect("the interface has no program any more", "xdp" not in shown, shown)

def end():
    run("umount", "-l", f"{FOLDER}/bpf", check=False)
    shutil.rmtree(FOLDER, ignore_errors=True)

try:
    within(170, (LOAD, UPF), main)
finally:
    end()
