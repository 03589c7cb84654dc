#!/usr/bin/env python3
"""Scaling gateways out and in with their sessions, on one machine, as an auto-scaling group or a StatefulSet does.

    sudo python3 deploy/local/scale.py target/release/weir            a day in a minute, from deploy/local/day.tsv

                    [ driver: control planes, scaler ]
                      │ bridge 10.0.4.0/24 (N4, metrics)
         ┌────────────┼────────────┐
      weir-0       weir-1       weir-2 …     a namespace and a `weir run --pool-from-ordinal` each

The number of sessions follows the curve. Each hour's new ones go to the first gateways that have room, so that the last
gateway is the first to be empty. The number of gateways follows the mean of their weir_load_ratio, as a
HorizontalPodAutoscaler sets it. A surplus gateway drains: new sessions are refused, existing ones move, and it is stopped
when none is left. Control planes are `weir cp`, one for each hour's new sessions on a gateway; each must receive the
request for release from a gateway that drains. Packets flow through a session of each in both directions, and are counted.
"""

import argparse
import ctypes
import glob
import ipaddress
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter

from traffic import MAC, Traffic

REPLICAS = 8
BATCH = 50
POOL = ipaddress.ip_network("10.64.0.0/16")

CONFIG = """
gateway = "upf"
route = [{{ to = "0.0.0.0/0", next_hop = "10.0.6.1" }}]
frames = {{ packet_buffers = 4096 }}

[[port]]
name = "n3"
uri = "packet:n3?mode=tpacket2"
role = "access"
addresses = ["10.0.3.16/24"]

[[port]]
name = "n6"
uri = "packet:n6?mode=tpacket2"
role = "core"
addresses = ["10.0.6.16/24"]

# The driver acts for all of them and may answer late on a busy machine: addresses are static.
{neighbours}
[n4]
address = "10.0.4.16"
sessions = {sessions}
pool = [{{ v4 = "{pool}" }}]

[metrics]
address = "0.0.0.0:9464"
"""


GNBS = [f"10.0.3.{200 + n}" for n in range(4)]
NEIGHBOURS = "".join(
    f'[[neighbour]]\nport = "{port}"\naddress = "{address}"\nmac = "{MAC.hex(":")}"\n\n'
    for port, address in [*(("n3", gnb) for gnb in GNBS), ("n6", "10.0.6.1")]
)


def run(line, **more):
    return subprocess.run(line.split(), check=True, capture_output=True, text=True, **more)


class Gateway:
    """A replica: a namespace, a process."""

    def __init__(self, net, ordinal):
        self.ordinal, self.net, self.is_draining = ordinal, net, False
        self.name = f"{net.prefix}-{ordinal}"
        self.address = f"10.0.4.{16 + ordinal}"
        self.socket = os.path.join(net.folder, f"{ordinal}.sock")
        run(f"ip netns add {self.name}")
        for side in ("n3", "n6", "n4"):
            run(f"ip link add {side}-{ordinal} type veth peer name {side} netns {self.name}")
            run(f"ip -n {self.name} link set {side} address 02:00:00:00:0{side[1]}:{16 + ordinal:02x}")
            run(f"ip link set {side}-{ordinal} up")
            run(f"ip -n {self.name} link set {side} up")
        run(f"ip link set n4-{ordinal} master n4")
        run(f"ip -n {self.name} address add {self.address}/24 dev n4")
        run(f"ip -n {self.name} link set lo up")
        line = (f"ip netns exec {self.name} {net.weir} run {net.config} --pool-from-ordinal {REPLICAS} "
                f"--ordinal {ordinal} --n4-address {self.address} --socket {self.socket} --json")
        self.said = open(os.path.join(net.folder, f"{ordinal}.err"), "w+")
        self.process = subprocess.Popen(line.split(), stdout=subprocess.PIPE, stderr=self.said, text=True)
        net.until(f"gateway {ordinal} to be ready", lambda: self.get("/readyz") == 200)
        net.traffic.open(ordinal)

    def get(self, path):
        try:
            return urllib.request.urlopen(f"http://{self.address}:9464{path}", timeout=5).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def metrics(self):
        text = urllib.request.urlopen(f"http://{self.address}:9464/metrics", timeout=5).read().decode()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        of = lambda name: sum(float(value) for key, value in lines if key.split("{")[0] == name)
        return of("weir_load_ratio"), int(of("weir_sessions"))

    def drain(self, more=""):
        self.is_draining = not more
        line = f"{self.net.weir} drain --socket {self.socket} --json {more}"
        return json.loads(run(line).stdout)["sessions"]

    def words(self):
        with open(self.said.name) as said:
            return said.read()

    def threads(self):
        """What its threads and its helper's wait for: process, name, state, kernel function."""
        lines = []
        for pid in run(f"ip netns pids {self.name}").stdout.split():
            for thread in glob.glob(f"/proc/{pid}/task/*"):
                read = lambda name: open(os.path.join(thread, name)).read().strip()
                state = read("stat").rpartition(")")[2].split()[0]
                lines.append(f"{pid} {read('comm')} {state} {read('wchan')}")
        # Sockets with what waits in them.
        with open(f"/proc/{self.process.pid}/net/udp") as sockets:
            lines += [" ".join(line.split()[i] for i in (1, 2, 4, 12)) for line in sockets]
        return "\n".join(lines)

    def stop(self):
        """Ends it; returns what it dropped, by name."""
        self.process.send_signal(signal.SIGTERM)
        try:
            # Closing a packet socket waits for an RCU grace period of the kernel, and that, where nobody leaves the CPUs, for
            # many seconds.
            out, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"gateway {self.ordinal} does not end:\n{self.threads()}\n{self.words()}") from late
        self.net.traffic.close(self.ordinal)
        for side in ("n3", "n6", "n4"):
            subprocess.run(f"ip link del {side}-{self.ordinal}".split(), capture_output=True)
        run(f"ip netns del {self.name}")
        assert self.process.returncode == 0, self.words()
        workers = json.loads(out)["workers"]
        missing = sum(worker["missing"] for worker in workers)
        assert missing == 0, f"gateway {self.ordinal}: {missing} packets missing"
        # Gateways do not need the hosts' multicast traffic.
        drops = Counter({f"{drop['stage']}.{drop['reason']}": drop["packets"] for worker in workers
                         for drop in worker["drops"] if drop["reason"] != "multicast"})
        return drops


class Batch:
    """An hour's new sessions on a gateway, under a control plane of their own."""

    def __init__(self, net, gateway, count):
        self.net, self.gateway, self.count, self.flow = net, gateway, count, None
        net.batches += 1
        address = f"10.0.4.{40 + net.batches}"
        run(f"ip address add {address}/24 dev n4")
        self.out = os.path.join(net.folder, f"batch-{net.batches}.jsonl")
        line = (f"{net.weir} cp --upf {gateway.address} --address {address} --sessions {count} --rate 4000 "
                f"--choose-addresses --gnb-first {GNBS[0]} --gnbs {len(GNBS)} --json --quiet --sessions-out {self.out}")
        self.process = subprocess.Popen(line.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def is_up(self):
        """Whether all of it is; a control plane that gives up is a failure."""
        assert self.process.poll() is None, self.process.communicate()
        try:
            with open(self.out) as lines:
                return sum(1 for _ in lines) >= self.count
        except FileNotFoundError:
            return False

    def state(self):
        """Both sides of a batch that is not up: messages and counters of control plane and gateway."""
        tasks = glob.glob(f"/proc/{self.process.pid}/task/*")
        said = "\n".join(f"control plane: {open(task + '/comm').read().strip()} {open(task + '/wchan').read()}" for task in tasks)
        self.process.send_signal(signal.SIGINT)
        try:
            said += "\n".join(self.process.communicate(timeout=10))
        except subprocess.TimeoutExpired:
            said += "\nthe control plane does not end"
        show = f"{self.net.weir} show peers --socket {self.gateway.socket}"
        try:
            peers = subprocess.run(show.split(), capture_output=True, text=True, timeout=20)
            said += peers.stdout + peers.stderr
        except subprocess.TimeoutExpired:
            said += "\nthe gateway does not answer `show peers`"
        return "\n".join([said, self.gateway.threads(), self.gateway.words()])

    def carry(self):
        """Lets packets flow through its first session."""
        with open(self.out) as lines:
            self.flow = self.net.traffic.begin(self.gateway.ordinal, json.loads(next(lines)))

    def end(self):
        """Deletes its sessions; every answer must have been a good one."""
        self.net.traffic.end(self.flow)
        self.process.send_signal(signal.SIGINT)
        try:
            out, said = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"a batch does not end\n{self.state()}") from late
        assert self.process.returncode == 0, out + said
        return json.loads(out)


class Net:
    def __init__(self, weir, sessions):
        self.weir, self.batches = os.path.abspath(weir), 0
        self.prefix = f"weir-scale-{os.getpid()}"
        self.folder = tempfile.mkdtemp(prefix=self.prefix)
        self.config = os.path.join(self.folder, "gateway.toml")
        with open(self.config, "w") as file:
            file.write(CONFIG.format(sessions=sessions, pool=POOL, neighbours=NEIGHBOURS))
        # The driver moves to a namespace of its own: nothing of this machine is touched.
        run(f"ip netns add {self.prefix}")
        with open(f"/var/run/netns/{self.prefix}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        run("ip link set lo up")
        # Hardware addresses are static, so that no address has to be resolved again.
        run("ip link add n4 address 02:00:00:00:04:01 type bridge")
        run("ip address add 10.0.4.1/24 dev n4")
        run("ip link set n4 up")
        self.traffic = Traffic()
        self.traffic.start()

    def until(self, what, done, state=lambda: ""):
        end = time.monotonic() + 30
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"waited too long for {what}\n{state()}")
            time.sleep(0.02)

    def close(self, batches):
        """Ends whatever is left of it."""
        for batch in batches:
            batch.process.kill()
            batch.process.wait()
        names = [line.split()[0] for line in run("ip netns list").stdout.splitlines() if line.startswith(self.prefix)]
        for name in names:
            for process in run(f"ip netns pids {name}").stdout.split() if name != self.prefix else []:
                os.kill(int(process), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["rm", "-rf", self.folder])


class Fleet:
    """Gateways and sessions, and the two decisions: where new ones go, how many gateways there are."""

    def __init__(self, net, args):
        self.net, self.args = net, args
        self.gateways, self.batches, self.recent, self.drops = [], [], [], Counter()
        self.counts = {"established": 0, "ended": 0, "moved": 0, "refused_while_draining": 0, "asked_to_release": 0,
                       "scaled_out": 0, "scaled_in": 0, "most_gateways": 0, "blocked": 0}

    def sessions_of(self, gateway):
        return sum(batch.count for batch in self.batches if batch.gateway is gateway)

    def place(self, wanted):
        """New sessions: to the first gateways that are below the load to aim for; if none is, to those that have room."""
        fresh = []
        for most in (int(self.args.target * self.args.limit), self.args.limit):
            for gateway in self.gateways:
                room = 0 if gateway.is_draining else most - self.sessions_of(gateway)
                while room > 0 and wanted > 0:
                    fresh.append(Batch(self.net, gateway, min(wanted, room, BATCH)))
                    self.batches.append(fresh[-1])
                    room, wanted = room - fresh[-1].count, wanted - fresh[-1].count
        for batch in fresh:
            self.net.until("sessions", batch.is_up, batch.state)
            # The addresses are of the gateway's own part of the pool.
            part = list(POOL.subnets(prefixlen_diff=3))[batch.gateway.ordinal]
            for line in open(batch.out):
                assert ipaddress.ip_address(json.loads(line)["ue_ip4"]) in part, line
            batch.carry()
            self.counts["established"] += batch.count
        self.counts["blocked"] += wanted
        return wanted

    def shrink(self, surplus):
        """Sessions that end: the oldest first, wherever they are."""
        for batch in list(self.batches):
            if batch.count <= surplus:
                batch.end()
                self.batches.remove(batch)
                surplus -= batch.count
                self.counts["ended"] += batch.count

    def evacuate(self):
        """A control plane's reaction to a request for release: sessions of draining gateways move, new before old."""
        for batch in [batch for batch in self.batches if batch.gateway.is_draining]:
            room = sum(self.args.limit - self.sessions_of(gateway) for gateway in self.gateways if not gateway.is_draining)
            if room >= batch.count:
                self.place(batch.count)
                self.counts["asked_to_release"] += batch.end()["asked_to_release"]
                self.batches.remove(batch)
                self.counts["ended"] += batch.count
                self.counts["moved"] += batch.count

    def scale(self):
        """As a HorizontalPodAutoscaler: ceil(n × mean / target), the most of the last three, one less at a time."""
        active = [gateway for gateway in self.gateways if not gateway.is_draining]
        seen = {gateway.ordinal: gateway.metrics() for gateway in self.gateways}
        for gateway in self.gateways:
            assert seen[gateway.ordinal][1] == self.sessions_of(gateway), "the gateway counts as the control plane does"
        mean = sum(seen[gateway.ordinal][0] for gateway in active) / len(active)
        desired = min(max(math.ceil(len(active) * mean / self.args.target - 1e-9), 1), REPLICAS)
        self.recent = (self.recent + [desired])[-3:]
        while len([gateway for gateway in self.gateways if not gateway.is_draining]) < desired:
            draining = [gateway for gateway in self.gateways if gateway.is_draining]
            if draining:
                draining[0].drain("--undo")
            else:
                self.gateways.append(Gateway(self.net, len(self.gateways)))
            self.counts["scaled_out"] += 1
        active = [gateway for gateway in self.gateways if not gateway.is_draining]
        if max(self.recent) < len(active):
            self.drain(active[-1])
        for gateway in [gateway for gateway in self.gateways if gateway.is_draining]:
            if gateway.metrics()[1] == 0:
                self.stop(gateway)
                self.counts["scaled_in"] += 1
        self.counts["most_gateways"] = max(self.counts["most_gateways"], len(self.gateways))
        return mean

    def stop(self, gateway):
        self.drops += gateway.stop()
        self.gateways.remove(gateway)

    def drain(self, gateway):
        gateway.drain()
        assert gateway.get("/readyz") == 503 and gateway.get("/healthz") == 200
        # Further requests are refused, with a cause that leads to another gateway.
        trial = Batch(self.net, gateway, 1)
        out, _ = trial.process.communicate(timeout=30) if trial.process.poll() is not None else trial_ends(trial)
        assert trial.process.returncode == 1 and json.loads(out)["refused"] == 1, out
        self.counts["refused_while_draining"] += 1


def trial_ends(trial):
    time.sleep(0.5)
    trial.process.send_signal(signal.SIGINT)
    return trial.process.communicate(timeout=30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("weir", help="the binary")
    parser.add_argument("--curve", default=os.path.join(os.path.dirname(__file__), "day.tsv"))
    parser.add_argument("--peak", type=int, default=1000, help="sessions in the busiest hour")
    parser.add_argument("--limit", type=int, default=400, help="sessions a gateway may have")
    parser.add_argument("--target", type=float, default=0.7, help="the load to aim for")
    parser.add_argument("--hour", type=float, default=1.0, help="seconds an hour takes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    curve = [line.split() for line in open(args.curve) if line.strip() and not line.startswith("#")]
    net = Net(args.weir, args.limit)
    fleet = Fleet(net, args)
    show = (lambda *words: print(*words, file=sys.stderr)) if args.json else print
    try:
        first = math.ceil(float(curve[0][1]) * args.peak / args.limit / args.target)
        fleet.gateways.extend(Gateway(net, ordinal) for ordinal in range(first))
        fleet.counts["begun_with"] = first
        show("hour  wanted  sessions  load  gateways: sessions (d: drains)")
        for hour, share in curve + curve[:6] + [("end", "0")]:
            begin = time.monotonic()
            wanted = round(float(share) * args.peak)
            now = sum(batch.count for batch in fleet.batches)
            fleet.shrink(now - wanted) if wanted < now else fleet.place(wanted - now)
            mean = fleet.scale()
            fleet.evacuate()
            there = " ".join(f"{gateway.ordinal}:{fleet.sessions_of(gateway)}{'d' if gateway.is_draining else ''}"
                             for gateway in fleet.gateways)
            now = sum(batch.count for batch in fleet.batches)
            show(f"{hour:>4}  {wanted:>6}  {now:>8}  {mean:4.2f}  {there}")
            time.sleep(max(0.0, begin + args.hour - time.monotonic()))
        for _ in range(2 * REPLICAS):
            if len(fleet.gateways) == 1:
                break
            fleet.scale()
        fleet.counts["gateways_left"] = len(fleet.gateways)
        fleet.stop(fleet.gateways[0])
        net.traffic.stop()
        fleet.counts.update(net.traffic.counts, drops=dict(fleet.drops), astray=net.traffic.astray)
        print(json.dumps(fleet.counts) if args.json else fleet.counts)
    finally:
        net.close(fleet.batches)


main()
