//! The sessions of a node, kept as Session Establishment Requests.

use pfcp::group::UsageReport;
use pfcp::ie::{ConnectionSet, FqCsid};
use pfcp::message::Message;
use pfcp::{Header, Packet};
use sessions::FrontEnd;
pub use sessions::store::{Key, keys, mark};

use super::change::Rules;
use super::in_progress::Deferred;
use super::metering;

/// PFCP, of which a session is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pfcp;

/// The sessions of a node.
pub type SessionStore = sessions::store::SessionStore<Pfcp>;
/// A session.
pub type StoredSession = sessions::store::StoredSession<Pfcp>;
/// Rules that a session's worker may be given.
pub type Prepared = sessions::transaction::Prepared<Pfcp>;
/// A session as it was before its rules were replaced.
pub type Before = sessions::transaction::Before<Pfcp>;
/// What a session is in the middle of.
pub type Activity = sessions::activity::Activity<Deferred>;

impl FrontEnd for Pfcp {
    type Rules = Rules;
    type Report = UsageReport;
    type Deferred = Deferred;
    type Set = ConnectionSet;

    fn parse(message: &[u8]) -> Rules {
        match Packet::parse(message).map(|packet| packet.message) {
            Ok(Message::SessionEstablishmentRequest(rules)) => rules,
            // We wrote it ourselves.
            _ => Rules::default(),
        }
    }

    fn write(rules: &Rules, out: &mut Vec<u8>) -> bool {
        let header = Header { seid: Some(0), ..Header::default() };
        rules.write(&header, out).is_ok()
    }

    /// The mark is the message's sequence number, behind flags, type, length and SEID (3GPP TS 29.244, 7.2.2).
    fn stamp(message: &mut [u8], seid: u64, mark: u32) {
        if let Some(place) = message.get_mut(4..12) {
            place.copy_from_slice(&seid.to_be_bytes());
        }
        if let Some(place) = message.get_mut(12..15) {
            place.copy_from_slice(&mark.to_be_bytes()[1..]);
        }
    }

    fn peer_seid(rules: &Rules) -> u64 {
        rules.cp_f_seid.seid
    }

    fn sets(rules: &Rules) -> Vec<(ConnectionSet, Option<u8>)> {
        sets(&rules.fq_csids)
    }

    fn octets(report: &UsageReport) -> u64 {
        metering::octets(report)
    }

    fn write_reports(reports: &[UsageReport]) -> Vec<u8> {
        metering::write(reports)
    }

    fn read_reports(octets: &[u8]) -> Vec<UsageReport> {
        metering::read(octets)
    }
}

/// The sets of connections in FQ-CSIDs, each with the type of its node.
pub(super) fn sets(all: &[FqCsid]) -> Vec<(ConnectionSet, Option<u8>)> {
    all.iter().flat_map(FqCsid::sets).map(named).collect()
}

/// A set's name without the type of its node, and that.
pub(super) fn named(set: ConnectionSet) -> (ConnectionSet, Option<u8>) {
    (ConnectionSet { node_type: None, ..set }, set.node_type)
}
