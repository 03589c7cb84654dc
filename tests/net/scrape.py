"""Scrapes a running weir and lets the library of Prometheus read it: scrape.py http://127.0.0.1:9464

Prints what the paths answered and every sample, as JSON. Fails on what the format or its conventions do not allow.
"""

import json
import re
import sys
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

UNITS = ("_bytes", "_seconds", "_packets", "_ratio", "_info", "_limit", "_slots", "_buffers", "_per_second")
PLAIN = {"weir_sessions", "weir_ready", "weir_draining", "weir_port_up", "weir_pfcp_associations",
         "weir_pfcp_waiting_requests", "weir_modems", "weir_service_flows", "weir_standby",
         "weir_certificate_alarm"}
LABELS = {"worker", "port", "role", "reason", "stage", "pipeline", "activity", "place", "gateway", "version", "state",
          "event", "service_group", "channel", "priority", "segments"}


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers.get("Content-Type"), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Content-Type"), error.read().decode()


def main(base):
    status, media, text = get(base + "/metrics")
    assert status == 200 and media == "text/plain; version=0.0.4; charset=utf-8", (status, media)
    samples, seen = {}, set()
    for family in text_string_to_metric_families(text):
        assert family.documentation.endswith("."), family.name
        assert family.type in ("counter", "gauge"), (family.name, family.type)
        assert family.name not in seen, f"{family.name} twice"
        seen.add(family.name)
        assert re.fullmatch(r"(weir|process)_[a-z0-9_]+", family.name), family.name
        if family.type == "gauge":
            assert family.name.endswith(UNITS) or family.name in PLAIN, f"{family.name}: in which unit?"
        for sample in family.samples:
            assert set(sample.labels) <= LABELS, sample
            key = sample.name + json.dumps(sample.labels, sort_keys=True)
            assert key not in samples, f"{key} twice"
            assert sample.value == sample.value and sample.value >= 0, sample
            samples[key] = sample.value
    paths = {path: get(base + path)[::2] for path in ("/healthz", "/readyz", "/other")}
    print(json.dumps({"samples": samples, "paths": paths}))


main(sys.argv[1])
