#!/usr/bin/env python3
"""Writes the lab's subscribers into Open5GS's data base; needs pymongo.   usage: subscriber.py [COUNT]"""
import sys
import pymongo

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10
KEY, OPC = "465B5CE8B199B49FAA5F0A2EE238A6BC", "E8ED289DEBA952E4283B54E88E6183CA"
GBIT = {"value": 1, "unit": 3}

subscribers = pymongo.MongoClient("mongodb://127.0.0.1")["open5gs"]["subscribers"]
for n in range(1, COUNT + 1):
    imsi = f"001010{n:09d}"
    session = {
        "name": "internet", "type": 3,  # IPv4v6: the UE chooses
        "ambr": {"uplink": GBIT, "downlink": GBIT},
        "qos": {"index": 9, "arp": {"priority_level": 8, "pre_emption_capability": 1, "pre_emption_vulnerability": 1}},
        "pcc_rule": [],
    }
    subscribers.replace_one({"imsi": imsi}, {
        "schema_version": 1, "imsi": imsi, "msisdn": [], "imeisv": [], "mme_host": [], "mme_realm": [], "purge_flag": [],
        "security": {"k": KEY, "op": None, "opc": OPC, "amf": "8000", "sqn": 64},
        "ambr": {"uplink": GBIT, "downlink": GBIT},
        "slice": [{"sst": 1, "default_indicator": True, "session": [session]}],
        "access_restriction_data": 32, "subscriber_status": 0, "network_access_mode": 0, "subscribed_rau_tau_timer": 12,
    }, upsert=True)
print(f"{COUNT} subscribers from imsi-001010000000001")
