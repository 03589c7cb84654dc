#!/usr/bin/env python3
"""Kills a gateway again and again while traffic and signalling go on; prints what that cost. Needs root.

    sudo scripts/kill-campaign.py target/release/weir --kills 50 --sessions 2000

Two namespaces joined by veth pairs: `weir run` with a ledger in one, `weir cp` and `weir gen` in the other. Sessions are
queried, changed, deleted and made anew all the time.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOST, GATEWAY = f"weir-kills-{os.getpid()}-h", f"weir-kills-{os.getpid()}-g"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def network():
    for ns in (HOST, GATEWAY):
        ip("netns", "add", ns)
        ip("netns", "exec", ns, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        ip("-n", ns, "link", "set", "lo", "up")
    for ours, theirs in (("eth0", "gnb0"), ("eth1", "dn0"), ("eth2", "smf0")):
        ip("-n", GATEWAY, "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", HOST)
        ip("-n", GATEWAY, "link", "set", ours, "up")
        ip("-n", HOST, "link", "set", theirs, "up")
    ip("-n", GATEWAY, "address", "add", "10.0.4.1/24", "dev", "eth2")
    ip("-n", HOST, "address", "add", "10.0.4.2/24", "dev", "smf0")


class Campaign:
    def __init__(self, options):
        self.options, self.folder = options, tempfile.mkdtemp(prefix="weir-kills-")
        self.running = []

    def file(self, name):
        return os.path.join(self.folder, name)

    def start(self, ns, name, *words):
        with open(self.file(name + ".out"), "w") as out, open(self.file(name + ".err"), "w") as err:
            command = ["ip", "netns", "exec", ns, self.options.weir, *words]
            process = subprocess.Popen(command, stdout=out, stderr=err)
        self.running.append(process)
        return process

    def said(self, name):
        with open(self.file(name + ".err")) as file:
            return file.read()

    def until(self, name, text, process):
        end = time.monotonic() + 120
        while text not in self.said(name):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{name}: {self.said(name)}")
            time.sleep(0.002)

    def gateway(self):
        if os.path.exists(self.file("weir.sock")):
            os.remove(self.file("weir.sock"))
        began = time.monotonic()
        process = self.start(GATEWAY, "run", "run", self.file("upf.toml"), "--socket", self.file("weir.sock"))
        self.until("run", "ready after", process)
        return process, time.monotonic() - began

    def show(self, topic):
        command = [self.options.weir, "show", topic, "--json", "--socket", self.file("weir.sock")]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    def sessions(self):
        return sum(worker["sessions"] for worker in self.show("sessions")["workers"])

    def drops(self, prefix):
        drops = (drop for worker in self.show("run")["workers"] for drop in worker["drops"])
        return sum(drop["packets"] for drop in drops if drop["reason"].startswith(prefix))

    def play(self):
        options = self.options
        with open(os.path.join(HERE, "examples", "upf-n4.toml")) as file:
            text = file.read().replace("[n4]", f'[n4]\nledger = "{self.file("up")}"\ncheckpoint_seconds = 1')
        with open(self.file("upf.toml"), "w") as file:
            file.write(text)
        gateway, _ = self.gateway()
        life = (f"--sessions {options.sessions} --rate 4000 --idle 0 --queries 50 --limits 50 --churn {options.churn} "
                "--handovers 20 --timeout 0.5 --n1-requests 60 --json --quiet")
        example = os.path.join(HERE, "examples", "cp.toml")
        control = self.start(HOST, "cp", "cp", example, *life.split())
        end = time.monotonic() + 120
        while self.sessions() < options.sessions:
            if time.monotonic() > end:
                raise SystemExit("sessions do not come up")
            time.sleep(0.1)
        traffic = f"--ues {options.sessions} --pps {options.pps} --seconds 3600 --ratio 1:1 --sizes 128 --json"
        load = self.start(HOST, "gen", "gen", os.path.join(HERE, "examples", "gen.toml"), *traffic.split())
        time.sleep(3)
        if load.poll() is not None:
            raise SystemExit(f"gen: {self.said('gen')}")
        ready, restored, lost, late = [], [], 0, 0
        for _ in range(options.kills):
            time.sleep(random.uniform(0.5, 2.5))
            gateway.send_signal(signal.SIGKILL)
            gateway.wait()
            gateway, took = self.gateway()
            before = self.drops("neighbour_")
            ready.append(took)
            found = re.search(r"([\d,]+) sessions of 1 control plane restored(?:, ([\d,]+) lost)?", self.said("run"))
            restored.append(int(found.group(1).replace(",", "")))
            lost += int((found.group(2) or "0").replace(",", ""))
            time.sleep(0.3)
            late += self.drops("neighbour_") - before
        time.sleep(3)
        load.send_signal(signal.SIGINT)
        load.wait()
        control.send_signal(signal.SIGINT)
        control.wait()
        left = self.sessions()
        gateway.send_signal(signal.SIGINT)
        gateway.wait()
        with open(self.file("gen.out")) as file:
            directions = json.loads(file.read())["directions"].values()
        with open(self.file("cp.out")) as file:
            story = json.loads(file.read())
        sent = sum(direction["sent_packets"] for direction in directions)
        arrived = sum(direction["forwarded_packets"] for direction in directions)
        ready.sort()
        rows = [
            ("kill -9", options.kills),
            ("sessions", options.sessions),
            ("sessions restored each time", f"{min(restored)} to {max(restored)}"),
            ("acknowledged sessions lost", lost),
            ("requests refused, unanswered", f"{story['refused']}, {story['unanswered']}"),
            ("sessions left behind at the end", left),
            ("start to ready, seconds: median, worst", f"{ready[len(ready) // 2]:.2f}, {ready[-1]:.2f}"),
            ("packets sent", sent),
            ("packets lost", f"{sent - arrived} ({(sent - arrived) / options.pps / options.kills:.2f} s of traffic a kill)"),
            ("packets dropped as neighbour_* after ready", late),
        ]
        for name, value in rows:
            print(f"| {name} | {value} |")

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
        for ns in (HOST, GATEWAY):
            subprocess.run(["ip", "netns", "del", ns], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", help="the binary")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--pps", type=int, default=4000)
    parser.add_argument("--churn", type=int, default=50, help="sessions a second that are deleted and made anew")
    options = parser.parse_args()
    options.weir = os.path.abspath(options.weir)
    campaign = Campaign(options)
    try:
        network()
        campaign.play()
    finally:
        campaign.close()


main()
