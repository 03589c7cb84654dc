#!/usr/bin/env python3
"""Writes the lab's subscribers into free5GC's data base; needs pymongo.   usage: subscriber.py [COUNT]"""
import sys
import pymongo

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10
KEY, OPC = "465B5CE8B199B49FAA5F0A2EE238A6BC", "E8ED289DEBA952E4283B54E88E6183CA"
PLMN, SLICE = "20893", {"sst": 1, "sd": "010203"}
ID = "01010203"
AMBR = {"uplink": "1 Gbps", "downlink": "1 Gbps"}

base = pymongo.MongoClient("mongodb://127.0.0.1")["free5gc"]

def write(collection, key, document):
    base[collection].replace_one(key, {**key, **document}, upsert=True)

for n in range(1, COUNT + 1):
    ue = {"ueId": f"imsi-208930{n:09d}"}
    here = {**ue, "servingPlmnId": PLMN}
    write("subscriptionData.authenticationData.authenticationSubscription", ue, {
        "authenticationMethod": "5G_AKA", "authenticationManagementField": "8000",
        "encPermanentKey": KEY, "encOpcKey": OPC, "sequenceNumber": {"sqn": "000000000023"},
    })
    write("subscriptionData.provisionedData.amData", here, {
        "gpsis": [f"msisdn-{n:010d}"], "subscribedUeAmbr": AMBR,
        "nssai": {"defaultSingleNssais": [SLICE], "singleNssais": [SLICE]},
    })
    write("subscriptionData.provisionedData.smfSelectionSubscriptionData", here, {
        "subscribedSnssaiInfos": {ID: {"dnnInfos": [{"dnn": "internet"}]}},
    })
    write("subscriptionData.provisionedData.smData", here, {
        "singleNssai": SLICE,
        "dnnConfigurations": {"internet": {
            "pduSessionTypes": {"defaultSessionType": "IPV4", "allowedSessionTypes": ["IPV4"]},
            "sscModes": {"defaultSscMode": "SSC_MODE_1", "allowedSscModes": ["SSC_MODE_1"]},
            "5gQosProfile": {"5qi": 9, "arp": {"priorityLevel": 8, "preemptCap": "", "preemptVuln": ""}, "priorityLevel": 8},
            "sessionAmbr": AMBR,
        }},
    })
    write("policyData.ues.amData", ue, {"subscCats": ["free5gc"]})
    write("policyData.ues.smData", ue, {
        "smPolicySnssaiData": {ID: {"snssai": SLICE, "smPolicyDnnData": {"internet": {"dnn": "internet"}}}},
    })
print(f"{COUNT} subscribers from imsi-208930000000001")
