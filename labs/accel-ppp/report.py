"""Prints a row of a table for each gateway from the certificates of its rounds: medians, with the smallest and the largest."""

import glob
import json
import re
import statistics
import sys

rounds = {}
for path in sorted(glob.glob(f"{sys.argv[1]}/*-[0-9]*.json")):
    name = re.sub(r".*/(.*)-\d+\.json", r"\1", path)
    with open(path) as file:
        rounds.setdefault(name, []).append(json.load(file))


def cell(certificates, value, scale=1):
    values = [value(one) * scale for one in certificates]
    return f"{statistics.median(values):.3g} [{min(values):.3g}, {max(values):.3g}]"


print("| gateway | rounds | at most 0.5 % loss, Mpps | latency at 100 packets/s, µs | p50 at half of the rate, µs | p99, µs |")
print("|---|---|---|---|---|---|")
for name, all_rounds in rounds.items():
    half = lambda one: next(at for at in one["latency"]["at"] if at["of_rate_ratio"] == 0.5)
    print(
        f"| {name} | {len(all_rounds)} | {cell(all_rounds, lambda one: one['latency']['found_mpps'])}"
        f" | {cell(all_rounds, lambda one: one['latency']['floor_us'])}"
        f" | {cell(all_rounds, lambda one: half(one)['p50_us'])} | {cell(all_rounds, lambda one: half(one)['p99_us'])} |"
    )
