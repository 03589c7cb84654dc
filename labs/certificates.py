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


def cell(values):
    """A round may have no figure: no trial lost little enough."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    short = f" in {len(known)}" if len(known) < len(values) else ""
    return f"{statistics.median(known):.3g} [{min(known):.3g}, {max(known):.3g}]{short}"


def latency(one, key):
    """A figure of the part about latency: the rate that was found, or latency at half of it."""
    part = one["latency"]
    if part is None or key in part:
        return part and part[key]
    return next(at[key] for at in part["at"] if at["of_rate_ratio"] == 0.5)


print("| gateway | rounds | overloaded, Mpps | at most 0.5 % loss, Mpps | latency of 100 packets/s, µs | p50 at half of the rate, µs | p99, µs |")
print("|---|---|---|---|---|---|---|")
for name, all_rounds in rounds.items():
    columns = [[one["gateways"][0]["mpps"]["mid"] for one in all_rounds]]
    columns += [[latency(one, key) for one in all_rounds] for key in ("found_mpps", "floor_us", "p50_us", "p99_us")]
    print(" | ".join([f"| {name}", str(len(all_rounds)), *map(cell, columns)]) + " |")
