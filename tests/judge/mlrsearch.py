#!/usr/bin/env python3
"""Runs FD.io's MLRsearch on simulated devices: cases as JSON on standard input, what it finds on standard output.

A case is {"device": {...}, "goals": [{...}], "least": PPS, "most": PPS}, as `crates/bench/tests/mlrsearch.rs` writes it.
The device is that of `crates/bench/src/search/simulated.rs`, in the same whole numbers.
"""

import json
import logging
import sys

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

MASK = (1 << 64) - 1


def random(seed, n):
    """The n-th number of a seed (SplitMix64)."""
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Device(AbstractMeasurer):
    """A device, and the trials made on it."""

    def __init__(self, device):
        self.device = device
        self.trials = 0
        self.seconds = 0.0

    def play(self, load, ms):
        """Packets sent and forwarded of a trial."""
        d = self.device
        noise = random(d["seed"], 2 * self.trials)
        stray = random(d["seed"], 2 * self.trials + 1)
        self.trials += 1
        factor = 1_000_000 + noise % (2 * d["noise_ppm"] + 1) - d["noise_ppm"]
        capacity = d["capacity_pps"] * factor // 1_000_000
        if d["generator_pps"]:
            load = min(load, d["generator_pps"])
        sent = load * ms // 1000
        over = max(load - capacity, 0)
        if d["slope_ppm"] == 0:
            lost = (over * ms // 1000) * (1_000_000 + d["degrade_ppm"]) // 1_000_000
        else:
            lost = sent * min(over * d["slope_ppm"] // capacity, 1_000_000) // 1_000_000
        lost += stray % 1_000_000 < d["stray_ppm"]
        return sent, max(sent - lost, 0)

    def measure(self, intended_duration, intended_load):
        load, ms = round(intended_load), int(intended_duration * 1000)
        sent, forwarded = self.play(load, ms)
        self.seconds += intended_duration
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=load * ms // 1000,
            offered_count=sent,
            forwarding_count=forwarded,
        )


def judge(case):
    """What MLRsearch finds on the device of a case."""
    config = Config()
    config.goals = [
        SearchGoal(
            loss_ratio=goal["loss_ratio"],
            exceed_ratio=goal["exceed_ratio"],
            relative_width=goal["relative_width"],
            initial_trial_duration=goal["initial_trial_seconds"],
            final_trial_duration=goal["final_trial_seconds"],
            duration_sum=goal["duration_sum_seconds"],
            preceding_targets=goal["preceding_stages"],
            expansion_coefficient=2,
            fail_fast=False,
        )
        for goal in case["goals"]
    ]
    config.max_load = case["most"]
    config.min_load = case["least"]
    config.search_duration_max = 1e6
    config.warmup_duration = None
    device = Device(case["device"])
    results = MultipleLossRatioSearch(config).search(device)
    found = []
    for goal in config.goals:
        bounds = getattr(results[goal], "relevant_lower_bound", None)
        found.append(float(bounds) if bounds is not None else None)
    return {"lower_pps": found, "trials": device.trials, "seconds": device.seconds}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    json.dump([judge(case) for case in json.load(sys.stdin)], sys.stdout)
