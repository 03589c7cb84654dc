//! Who is connected: sessions, modems or subscribers, in one form for all gateways.
//!
//! A gateway implements [`Connected`] over its own tables; the control socket (`{"ask": "connected"}`), `weir show
//! sessions | modems | subscribers`, `weir trace --imsi …` and the HTTP API share everything else.
//!
//! Work is bounded, however many there are: control is locked for [`LOOK`] entries at a time, a worker reads the counters
//! of [`ASK`] at a time, and a request ends after [`LIMIT`] with the number at which the next one goes on.
//!
//! | file | content |
//! |---|---|
//! | `filter.rs` | which entries are wanted; options of the command line |
//! | `list.rs` | pages, and the entries with the most traffic |
//! | `table.rs`, `text.rs` | the topic of `weir show`, and its table |

mod filter;
mod list;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use ledger::Seid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use filter::{FILTER, Filter, KEYS, SELECTORS, filter_of, request};
pub use list::answer;
pub use table::{ConnectedTable, Topic, ask};
pub use text::{columns, find, find_by, text, whole, whole_by};

/// Entries that control is locked for at a time: some tens of microseconds.
pub const LOOK: usize = 64;
/// Entries whose counters a worker reads in a turn: some ten microseconds.
pub const ASK: usize = 64;
/// Time of a request.
pub const LIMIT: Duration = Duration::from_secs(2);
/// Entries of a page where no number is given, and at most.
pub const PAGE: usize = 50;
/// Entries of a page at most.
pub const MOST: usize = 1000;

/// What a gateway brings: its sessions, modems or subscribers by number. Called from several threads at once.
pub trait Connected: Send + Sync {
    /// What they are called: `sessions`, `modems`, `subscribers`; the topic of `weir show`.
    fn kind(&self) -> &'static str;

    /// Names of the [`Filter`]'s fields that they have.
    fn fields(&self) -> &'static [&'static str];

    /// How many there are.
    fn total(&self) -> u64;

    /// One more than the highest number.
    fn numbers(&self) -> u32;

    /// The numbers that a filter can lead to, where an index tells without looking at all. [`Filter::matches`] still
    /// decides about each.
    fn indexed(&self, _filter: &Filter) -> Option<Vec<u32>> {
        None
    }

    /// The entries of those numbers, without counters; free numbers are left out. At most [`LOOK`] are asked for; control is
    /// locked once.
    fn entries(&self, numbers: &[u32]) -> Vec<ConnectedView>;

    /// What those have carried since they came, each in its place; none: there is no such entry now. At most [`ASK`] are
    /// asked for.
    ///
    /// # Errors
    /// A worker does not answer; a sentence.
    fn used(&self, numbers: &[u32]) -> Result<Vec<Option<Used>>, String>;

    /// Entries and their memory by worker, where that is known.
    ///
    /// # Errors
    /// A worker does not answer; a sentence.
    fn workers(&self) -> Result<Vec<WorkerConnected>, String> {
        Ok(Vec::new())
    }

    /// What control has counted about them: identifier, value, sentence.
    fn control(&self) -> Vec<(String, u64, String)> {
        Vec::new()
    }
}

/// Traffic of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Packets from the subscriber.
    pub up_packets: u64,
    /// Their bytes.
    pub up_bytes: u64,
    /// Packets to the subscriber.
    pub down_packets: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// The hardware address that a worker has learnt, if any.
    pub mac: Option<[u8; 6]>,
}

impl Used {
    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.up_bytes.saturating_add(self.down_bytes)
    }
}

/// A session, modem or subscriber. Keys that a gateway does not have are not printed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConnectedView {
    /// Its number at control; pages go by it.
    pub number: u32,
    /// The worker that owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// The subscriber's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// IMSI, or the SUPI in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imsi: Option<String>,
    /// MSISDN, or the GPSI in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msisdn: Option<String>,
    /// Hardware address: the modem's, or the subscriber's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Addresses of the subscriber, prefixes with their length.
    pub addresses: Vec<String>,
    /// Tunnel endpoint identifiers on our side (TEID, TS 29.281).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub teids: Vec<u32>,
    /// The session's identifier here (SEID, TS 29.244).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seid: Option<Seid>,
    /// The session's identifier at its control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cp_seid: Option<Seid>,
    /// The data network's name (DNN, APN) that the control plane gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnn: Option<String>,
    /// The network instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_instance: Option<String>,
    /// The group: of subscribers, or the service group of a modem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The port of an access line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The outer VLAN of an access line; 0: no tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s_vlan: Option<u16>,
    /// The inner VLAN of an access line; 0: no tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c_vlan: Option<u16>,
    /// DHCP servers that have leased the addresses, where they are not the gateway's own leases: it is their relay agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leased_by: Vec<String>,
    /// Packets from the subscriber.
    pub up_packets: u64,
    /// Their bytes.
    pub up_bytes: u64,
    /// Packets to the subscriber.
    pub down_packets: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// Rate from the subscriber, bit/s; with `top` = `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_bps: Option<f64>,
    /// Rate to the subscriber, bit/s; with `top` = `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_bps: Option<f64>,
}

impl ConnectedView {
    fn set_used(&mut self, used: Used) {
        let Used { up_packets, up_bytes, down_packets, down_bytes, mac } = used;
        self.mac = mac.map(|mac| wire::Mac(mac).to_string()).or(self.mac.take());
        (self.up_packets, self.up_bytes, self.down_packets, self.down_bytes) =
            (up_packets, up_bytes, down_packets, down_bytes);
    }
}

/// Entries of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerConnected {
    /// Its number.
    pub worker: u16,
    /// How many.
    pub sessions: u64,
    /// Bytes of their records and of the indexes that lead to them.
    pub bytes: u64,
}

/// By what the first entries are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Top {
    /// Bit rate in both directions.
    Rate,
    /// Bytes in both directions since they came.
    Bytes,
}

/// Which entries are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectedRequest {
    /// What they must have.
    pub filter: Filter,
    /// Go on behind this number: `next` of the page before.
    pub after: Option<u32>,
    /// The most that are wanted; 0: 50. At most 1,000.
    pub limit: usize,
    /// Only those with the most traffic.
    pub top: Option<Top>,
    /// With `top` = `rate`: seconds over which rates are measured, 0.1 to 10; 0: 1.
    pub over_seconds: f64,
}

/// A page of sessions, modems or subscribers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConnectedPage {
    /// `sessions`, `modems` or `subscribers`.
    pub kind: String,
    /// How many there are, of any kind of entry.
    pub total: u64,
    /// Those that match, in the order of their numbers; with `top` those with the most traffic first.
    pub entries: Vec<ConnectedView>,
    /// There may be more behind this number: the next page is `after` it.
    pub next: Option<u32>,
    /// Entries and their memory by worker, where that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerConnected>,
    /// What control has counted about them: identifier, value and a sentence; what never happened is not there.
    #[serde(with = "crate::counters::explained", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, crate::counters::Explained>")]
    pub control: Vec<(String, u64, String)>,
}
