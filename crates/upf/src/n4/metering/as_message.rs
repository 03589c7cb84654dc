//! Reports, written down as a message that would bring them.

use pfcp::group::UsageReport;
use pfcp::message::{Message, SessionReportRequest};
use pfcp::{Header, Packet};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(reports: &[UsageReport], to: S) -> Result<S::Ok, S::Error> {
    let message = SessionReportRequest { usage_reports: reports.to_vec(), ..SessionReportRequest::default() };
    let packet = Packet { header: Header { seid: Some(0), ..Header::default() }, message: message.into() };
    packet.to_vec().unwrap_or_default().serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<UsageReport>, D::Error> {
    let octets = Vec::<u8>::deserialize(from)?;
    Ok(match Packet::parse(&octets).map(|packet| packet.message) {
        Ok(Message::SessionReportRequest(message)) => message.usage_reports,
        _ => Vec::new(),
    })
}
