//! Records asked for, and the forms they leave in: JSON lines, and CSV by RFC 4180.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::record::Record;
use crate::values::Moment;

/// Which records. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Closed then or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Moment>,
    /// Closed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Moment>,
    /// Of this subscriber: see [`Record::is_of`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// With sequence numbers above this one.
    pub after: u64,
    /// With sequence numbers up to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

impl Filter {
    /// Whether a record is one of those; the sequence range apart.
    pub fn wants(&self, record: &Record) -> bool {
        self.from.is_none_or(|from| record.stop_time >= from)
            && self.to.is_none_or(|to| record.stop_time < to)
            && self.subscriber.as_ref().is_none_or(|subscriber| record.is_of(subscriber))
    }
}

/// Some of the records asked for, in order of their sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    pub records: Vec<Record>,
    /// There may be more: ask again with this as [`Filter::after`]. None: that was all.
    pub next: Option<u64>,
}

/// A record as a line of JSON, without the line's end.
pub fn json_line(record: &Record) -> String {
    String::from_utf8(record.kept()).expect("JSON is UTF-8")
}

/// A column: its name, which is the field's in JSON, and its text.
type Column = (&'static str, fn(&Record) -> String);

/// The columns of the CSV form, in order. New ones are added at the end.
const COLUMNS: &[Column] = &[
    ("localSequenceNumber", |r| r.local_sequence_number.to_string()),
    ("recordType", |r| r.record_type.name().to_owned()),
    ("nodeID", |r| r.node_id.clone()),
    ("cpSeid", |r| r.cp_seid.to_string()),
    ("upSeid", |r| r.up_seid.to_string()),
    ("recordSequenceNumber", |r| known(r.record_sequence_number)),
    ("chargingID", |r| known(r.charging_id)),
    ("servedIMSI", |r| r.served_imsi.clone()),
    ("servedMSISDN", |r| r.served_msisdn.clone()),
    ("servedIMEISV", |r| r.served_imei.clone()),
    ("servedIPv4Address", |r| known(r.served_ipv4)),
    ("servedIPv6Prefix", |r| known(r.served_ipv6)),
    ("dataNetworkName", |r| r.data_network_name.clone()),
    ("sNSSAI", |r| known(r.snssai)),
    ("servingNodeAddress", |r| known(r.serving_node_address)),
    ("ratingGroup", |r| known(r.rating_group)),
    ("serviceIdentifier", |r| known(r.service_identifier)),
    ("urrID", |r| known(r.urr_id)),
    ("measurementMethod", |r| r.measurement_method.to_string()),
    ("dataVolumeUplink", |r| r.data_volume_uplink.to_string()),
    ("dataVolumeDownlink", |r| r.data_volume_downlink.to_string()),
    ("packetsUplink", |r| r.packets_uplink.to_string()),
    ("packetsDownlink", |r| r.packets_downlink.to_string()),
    ("timeOfFirstUsage", |r| known(r.time_of_first_usage)),
    ("timeOfLastUsage", |r| known(r.time_of_last_usage)),
    ("startTime", |r| r.start_time.to_string()),
    ("stopTime", |r| r.stop_time.to_string()),
    ("duration", |r| r.duration.to_string()),
    ("causeForRecClosing", |r| r.cause_for_rec_closing.name().to_owned()),
    ("reportTrigger", |r| r.report_trigger.clone()),
    ("nodeAddress", |r| known(r.node_address)),
    ("uRSEQN", |r| known(r.ur_seqn)),
    ("qFI", |r| known(r.qfi)),
    ("maxBitRateUL", |r| known(r.max_bit_rate_uplink)),
    ("maxBitRateDL", |r| known(r.max_bit_rate_downlink)),
    ("guaranteedBitRateUL", |r| known(r.guaranteed_bit_rate_uplink)),
    ("guaranteedBitRateDL", |r| known(r.guaranteed_bit_rate_downlink)),
    ("numberOfEvents", |r| known(r.number_of_events)),
];

fn known(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The first line of a CSV file, with its end.
pub fn csv_header() -> String {
    line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()))
}

/// A record as a line of a CSV file, with its end. What is not known is empty.
pub fn csv_line(record: &Record) -> String {
    line(COLUMNS.iter().map(|(_, text)| text(record)))
}

/// Fields, quoted where RFC 4180 clause 2 wants it, and a line's end.
fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    for (n, field) in fields.enumerate() {
        if n > 0 {
            line.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
            let _ = write!(line, "\"{}\"", field.replace('"', "\"\""));
        } else {
            line += &field;
        }
    }
    line + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::examples::full;

    #[test]
    fn csv_and_json_say_the_same() {
        let awkward = Record { data_network_name: "a,\"b\"\r\nc".into(), ..full() };
        let text = csv_header() + &csv_line(&full()) + &csv_line(&awkward) + &csv_line(&Record::default());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let heads: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
        for (record, row) in [full(), awkward, Record::default()].iter().zip(&rows) {
            let json: serde_json::Value = serde_json::from_str(&json_line(record)).unwrap();
            for (head, cell) in heads.iter().zip(row) {
                let said = match &json[head] {
                    serde_json::Value::Null => String::new(),
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                assert_eq!(said, cell, "{head}");
            }
            let fields = json.as_object().unwrap().keys();
            assert!(fields.into_iter().all(|field| heads.contains(field)), "a field has no column");
        }
        assert_eq!((rows.len(), rows[1].get(12)), (3, Some("a,\"b\"\r\nc")));
    }

    #[test]
    fn filters() {
        let record = full();
        let all = Filter::default();
        let at = record.stop_time;
        assert!(all.wants(&record));
        assert!(Filter { from: Some(at), ..all.clone() }.wants(&record));
        assert!(!Filter { to: Some(at), ..all.clone() }.wants(&record));
        assert!(Filter { subscriber: Some("10.60.0.1".into()), ..all.clone() }.wants(&record));
        assert!(!Filter { subscriber: Some("10.60.0.2".into()), ..all }.wants(&record));
    }
}
