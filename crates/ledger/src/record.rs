//! A charging data record: what one rule of a session measured between two moments, and why it was closed then.
//!
//! Field names are those of TS 32.298 (clause 5.1.2.2 PGW-CDR, 5.1.5 CHF-CDR) and TS 32.255 where they have one.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::{Measurement, Moment, Prefix6, Seid, Snssai};

/// What kind of record (RecordType, TS 32.298 clause 5.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecordType {
    /// Of a PDU session: chargingFunctionRecord (200), with the fields of TS 32.255.
    #[default]
    #[serde(rename = "chargingFunctionRecord")]
    PduSession,
    /// Of a PDN connection, by a PGW: pGWRecord (85).
    #[serde(rename = "pGWRecord")]
    Pgw,
    /// Of a PDN connection, by an SGW: sGWRecord (84).
    #[serde(rename = "sGWRecord")]
    Sgw,
}

impl RecordType {
    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        match self {
            Self::PduSession => "chargingFunctionRecord",
            Self::Pgw => "pGWRecord",
            Self::Sgw => "sGWRecord",
        }
    }

    /// Its number in the standard.
    pub fn code(self) -> u8 {
        match self {
            Self::PduSession => 200,
            Self::Pgw => 85,
            Self::Sgw => 84,
        }
    }
}

/// The causes: name in the standard, number, and when.
macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal;)*) => {
        /// Why a record was closed (CauseForRecClosing, TS 32.298 clause 5.1.2.2.7).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum Cause {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Cause {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in the standard.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Its number in the standard.
            pub fn code(self) -> u8 {
                match self { $(Self::$variant => $code),* }
            }
        }
    };
}

causes! {
    /// The session ended.
    #[default]
    NormalRelease = 0 "normalRelease";
    /// The session goes on; a record of a part, for another reason than those below.
    PartialRecord = 1 "partialRecord";
    /// The session was lost: path failure, a control plane gone, a restart.
    AbnormalRelease = 4 "abnormalRelease";
    /// A volume threshold or quota was reached.
    VolumeLimit = 16 "volumeLimit";
    /// A time threshold, quota or period was reached.
    TimeLimit = 17 "timeLimit";
    /// The gNB or SGW changed.
    ServingNodeChange = 18 "servingNodeChange";
    /// As many changes of conditions as a record holds.
    MaxChangeCond = 19 "maxChangeCond";
    /// An operator asked for it.
    ManagementIntervention = 20 "managementIntervention";
    /// The radio technology changed.
    RatChange = 22 "rATChange";
    /// The subscriber's time zone changed.
    MsTimeZoneChange = 23 "mSTimeZoneChange";
    /// The network changed.
    PlmnIdChange = 24 "sGSNPLMNIDChange";
    SgwChange = 25 "sGWChange";
    /// The aggregate rate changed.
    ApnAmbrChange = 26 "aPNAMBRChange";
}

/// A charging data record. Texts it does not know are empty, anything else it does not know is none; neither is exported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The record's number in this ledger, from 1, without gaps, kept over restarts (localSequenceNumber). Given by the
    /// ledger when the record is committed; whatever was there is overwritten.
    pub local_sequence_number: u64,
    /// What kind of record.
    pub record_type: RecordType,
    /// The user plane's node ID: name or address (nodeID; PFCP Node ID).
    #[serde(rename = "nodeID", skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// The address of whoever wrote the record: SMF, PGW or SGW (recordingNetworkFunctionID, p-GWAddress).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_address: Option<IpAddr>,
    /// The control plane's SEID of the session.
    pub cp_seid: Seid,
    /// The user plane's SEID of the session.
    pub up_seid: Seid,
    /// Which record of its session this is, from 1 (recordSequenceNumber).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_sequence_number: Option<u32>,
    /// The control plane's number of the session's charging (chargingID).
    #[serde(rename = "chargingID", skip_serializing_if = "Option::is_none")]
    pub charging_id: Option<u32>,
    /// IMSI digits or SUPI (servedIMSI, subscriberIdentifier).
    #[serde(rename = "servedIMSI", skip_serializing_if = "String::is_empty")]
    pub served_imsi: String,
    /// MSISDN digits or GPSI (servedMSISDN).
    #[serde(rename = "servedMSISDN", skip_serializing_if = "String::is_empty")]
    pub served_msisdn: String,
    /// IMEI(SV) digits or PEI (servedIMEISV, userEquipmentInfo).
    #[serde(rename = "servedIMEISV", skip_serializing_if = "String::is_empty")]
    pub served_imei: String,
    /// The subscriber's IPv4 address (servedPDPPDNAddress).
    #[serde(rename = "servedIPv4Address", skip_serializing_if = "Option::is_none")]
    pub served_ipv4: Option<Ipv4Addr>,
    /// The subscriber's IPv6 prefix (servedPDPPDNAddress).
    #[serde(rename = "servedIPv6Prefix", skip_serializing_if = "Option::is_none")]
    pub served_ipv6: Option<Prefix6>,
    /// Data network or access point name (dataNetworkNameIdentifier, accessPointNameNI).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub data_network_name: String,
    /// The slice (networkSliceInstanceID).
    #[serde(rename = "sNSSAI", skip_serializing_if = "Option::is_none")]
    pub snssai: Option<Snssai>,
    /// The gNB or SGW towards the subscriber (servingNodeAddress).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_node_address: Option<IpAddr>,
    /// What is charged together (ratingGroup).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating_group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_identifier: Option<u32>,
    /// The rule that measured (URR ID, TS 29.244 clause 8.2.54).
    #[serde(rename = "urrID", skip_serializing_if = "Option::is_none")]
    pub urr_id: Option<u32>,
    /// The number of the usage report among those of its rule, from 0 (UR-SEQN, TS 29.244 clause 8.2.71): a report is in
    /// one record.
    #[serde(rename = "uRSEQN", skip_serializing_if = "Option::is_none")]
    pub ur_seqn: Option<u32>,
    /// The QoS flow (qFI, TS 32.255).
    #[serde(rename = "qFI", skip_serializing_if = "Option::is_none")]
    pub qfi: Option<u8>,
    /// The most that might pass from the subscriber, in bits a second (maxRequestedBandwithUL).
    #[serde(rename = "maxBitRateUL", skip_serializing_if = "Option::is_none")]
    pub max_bit_rate_uplink: Option<u64>,
    /// The most that might pass to the subscriber, in bits a second (maxRequestedBandwithDL).
    #[serde(rename = "maxBitRateDL", skip_serializing_if = "Option::is_none")]
    pub max_bit_rate_downlink: Option<u64>,
    /// What was sure to pass from the subscriber, in bits a second (guaranteedBitrateUL).
    #[serde(rename = "guaranteedBitRateUL", skip_serializing_if = "Option::is_none")]
    pub guaranteed_bit_rate_uplink: Option<u64>,
    /// What was sure to pass to the subscriber, in bits a second (guaranteedBitrateDL).
    #[serde(rename = "guaranteedBitRateDL", skip_serializing_if = "Option::is_none")]
    pub guaranteed_bit_rate_downlink: Option<u64>,
    pub measurement_method: Measurement,
    /// Octets of IP packets from the subscriber (dataVolumeUplink).
    pub data_volume_uplink: u64,
    /// Octets of IP packets to the subscriber (dataVolumeDownlink).
    pub data_volume_downlink: u64,
    /// Packets from the subscriber.
    pub packets_uplink: u64,
    /// Packets to the subscriber.
    pub packets_downlink: u64,
    /// When its first packet passed (timeOfFirstUsage).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_of_first_usage: Option<Moment>,
    /// When its last packet passed (timeOfLastUsage).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_of_last_usage: Option<Moment>,
    /// Since when it counts (startTime, recordOpeningTime).
    pub start_time: Moment,
    /// When it was closed (stopTime).
    pub stop_time: Moment,
    /// Seconds measured by the rule's own clock, which may stand still while nothing passes (duration).
    pub duration: u64,
    /// Why it was closed (causeForRecClosing).
    pub cause_for_rec_closing: Cause,
    /// What made the user plane report: names of the flags of the Usage Report Trigger (TS 29.244 clause 8.2.41), joined by
    /// spaces: `VOLTH`, `TERMR`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub report_trigger: String,
    /// Events, where the rule measures them (EventBasedChargingInformation, numberOfEvents).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_events: Option<u32>,
}

impl Record {
    /// Whether it is of this subscriber: by IMSI/SUPI, MSISDN/GPSI, IMEI/PEI, an IPv4 address, or an address of the IPv6
    /// prefix.
    pub fn is_of(&self, subscriber: &str) -> bool {
        // A SUPI may be written with its kind (TS 29.571: "imsi-001010000000001") or without.
        fn bare(name: &str) -> &str {
            ["imsi-", "msisdn-", "imei-", "imeisv-"].iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name)
        }
        let named = [&self.served_imsi, &self.served_msisdn, &self.served_imei];
        if !subscriber.is_empty() && named.into_iter().any(|name| bare(name) == bare(subscriber)) {
            return true;
        }
        match subscriber.parse() {
            Ok(IpAddr::V4(address)) => self.served_ipv4 == Some(address),
            Ok(IpAddr::V6(address)) => self.served_ipv6.is_some_and(|prefix| prefix.contains(address)),
            Err(_) => self.served_ipv6.is_some_and(|prefix| subscriber.parse() == Ok(prefix)),
        }
    }

    /// As it is kept: JSON, so that a later weir reads an earlier one's records.
    pub(crate) fn kept(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("every field has a JSON form")
    }

    /// The same, with its number.
    pub(crate) fn numbered(&self, sequence: u64) -> Vec<u8> {
        Self { local_sequence_number: sequence, ..self.clone() }.kept()
    }

    pub(crate) fn read(sequence: u64, kept: &[u8]) -> Result<Self, serde_json::Error> {
        let mut record: Self = serde_json::from_slice(kept)?;
        record.local_sequence_number = sequence;
        Ok(record)
    }
}

/// Records for tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    /// A record with every field.
    pub fn full() -> Record {
        Record {
            local_sequence_number: 7,
            record_type: RecordType::PduSession,
            node_id: "upf-1.example".into(),
            node_address: Some([10, 0, 4, 2].into()),
            cp_seid: Seid(0x12ab),
            up_seid: Seid(u64::MAX),
            record_sequence_number: Some(2),
            charging_id: Some(77),
            served_imsi: "001010000000001".into(),
            served_msisdn: "15550100".into(),
            served_imei: "3534900698733190".into(),
            served_ipv4: Some([10, 60, 0, 1].into()),
            served_ipv6: "2001:db8:0:7::/64".parse().ok(),
            data_network_name: "internet".into(),
            snssai: "1-00007b".parse().ok(),
            serving_node_address: Some([10, 0, 3, 100].into()),
            rating_group: Some(10),
            service_identifier: Some(1),
            urr_id: Some(3),
            ur_seqn: Some(1),
            qfi: Some(9),
            max_bit_rate_uplink: Some(50_000_000),
            max_bit_rate_downlink: Some(200_000_000),
            guaranteed_bit_rate_uplink: Some(1_000_000),
            guaranteed_bit_rate_downlink: Some(2_000_000),
            measurement_method: "volume+duration+event".parse().unwrap(),
            data_volume_uplink: 1_000_000,
            data_volume_downlink: 20_000_000,
            packets_uplink: 5000,
            packets_downlink: 16_000,
            time_of_first_usage: Some(Moment(1_795_305_601_250)),
            time_of_last_usage: Some(Moment(1_795_305_650_000)),
            start_time: Moment(1_795_305_600_000),
            stop_time: Moment(1_795_305_660_000),
            duration: 60,
            cause_for_rec_closing: Cause::VolumeLimit,
            report_trigger: "VOLTH".into(),
            number_of_events: Some(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let full = examples::full();
        assert_eq!(Record::read(7, &full.kept()).unwrap(), full);
        let little = Record { stop_time: Moment(5), ..Record::default() };
        assert_eq!(Record::read(0, &little.kept()).unwrap(), little);
        let later = br#"{"causeForRecClosing":"timeLimit","aFieldOfTheFuture":[1]}"#;
        assert_eq!(Record::read(3, later).unwrap().cause_for_rec_closing, Cause::TimeLimit);
    }

    #[test]
    fn names_are_the_standards() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_string(cause).unwrap(), format!("\"{}\"", cause.name()));
        }
        for kind in [RecordType::PduSession, RecordType::Pgw, RecordType::Sgw] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
        }
        let codes: std::collections::BTreeSet<u8> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        assert_eq!(codes.len(), Cause::ALL.len());
    }

    #[test]
    fn a_subscriber_has_many_names() {
        let record = examples::full();
        let names = ["001010000000001", "imsi-001010000000001", "15550100", "10.60.0.1", "2001:db8:0:7::9"];
        assert!(names.iter().all(|name| record.is_of(name)));
        assert!(record.is_of("2001:db8:0:7::/64"));
        for other in ["00101000000000", "10.60.0.2", "2001:db8:0:8::", "2001:db8::/32", ""] {
            assert!(!record.is_of(other), "{other}");
        }
        assert!(!Record::default().is_of(""));
    }
}
