//! Rules → record.
//!
//! ```text
//! by precedence ─► rule by rule into parts ─► groups ─► places ─► lines
//! ```

mod groups; // rules with many QERs or URRs
mod parts; // what a record grows of
mod places; // where in the record each part begins
mod rule; // one PDR into the parts
mod write; // the record's lines

use std::net::{IpAddr, Ipv6Addr};

use dataplane::filter::{self, Quad4};
use dataplane::forward::InstanceId;
use table::bucket::{Config, Rate};
use table::records::{Line, MAX_RECORD};

use crate::record::{MAX_DUPLICATES, NONE8};
use crate::routes::Route;
use crate::rules::{Pdr, Session, Usage};
use parts::Parts;
use places::Places;
use write::write;

/// A compiled session, on its way to a worker: the record's lines and the keys that lead to it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The record. State lines are fresh: full buckets, nothing measured.
    pub lines: Box<[Line]>,
    /// The IPv4 filters of uplink and of downlink rules, where all are plain.
    pub filters: [Box<[Quad4]>; 2],
    /// What the rules it replaces have measured, as the worker found it; filled as far as there is room, which control
    /// makes if it wants to know.
    pub before: Vec<Usage>,
    /// What waits for the subscriber is thrown away when the worker takes it.
    pub discards: bool,
    /// Our tunnel endpoints, in order: filters name them by their place here.
    pub teids: Vec<u32>,
    /// The subscriber's IPv4 address and its network.
    pub ue4: Option<(InstanceId, u32)>,
    /// The subscriber's IPv6 prefix and its network.
    pub ue6: Option<(InstanceId, u64)>,
    /// Networks behind the subscriber.
    pub routes: Box<[Route]>,
}

/// Rules that make no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum CompileError {
    #[error("PDR {pdr} names FAR {far}, which is not there")]
    NoFar { pdr: u16, far: u32 },
    #[error("PDR {pdr} names QER {qer}, which is not there")]
    NoQer { pdr: u16, qer: u32 },
    #[error("PDR {pdr} names URR {urr}, which is not there")]
    NoUrr { pdr: u16, urr: u32 },
    #[error("PDR {pdr} names {count} {what}s; at most {most} can apply to one packet")]
    TooManyPerRule { pdr: u16, what: &'static str, count: usize, most: usize },
    #[error("PDR {pdr} takes packets from a tunnel but has no tunnel endpoint")]
    NoTeid { pdr: u16 },
    #[error("PDR {pdr} takes plain packets but the subscriber has no address")]
    NoAddress { pdr: u16 },
    #[error("PDR {pdr} has an invalid filter: {why}")]
    Filter { pdr: u16, why: filter::CompileError },
    #[error("PDR {pdr} has QERs whose marks exclude each other: a paging policy, and a DSCP")]
    Marks { pdr: u16 },
    #[error("no path to the tunnel endpoint {address} that FAR {far} names")]
    NoTunnel { far: u32, address: IpAddr },
    #[error("FAR {far} has {count} duplicates; at most {MAX_DUPLICATES} are supported")]
    TooManyDuplicates { far: u32, count: usize },
    #[error("the page that FAR {far} sends subscribers to is none, or one too many")]
    NoPage { far: u32 },
    #[error("the session's rules need {lines} lines of 64 bytes; a record has at most {MAX_RECORD}")]
    TooLarge { lines: usize },
    #[error("the session has more than {most} {what}")]
    TooMany { what: &'static str, most: usize },
}

/// The shortest burst a policer lets pass: 10 ms at its rate, but at least ten full-size packets.
const BURST_NS: u64 = 10_000_000;
const BURST_BYTES: u64 = 15_000;

/// The bucket of a maximum bit rate; none: unlimited.
pub fn bucket(mbr: Option<u64>) -> Config {
    Config::over(mbr.map_or(Rate::UNLIMITED, Rate::bps), BURST_NS, BURST_BYTES)
}

/// What rules name, by the numbers workers know it by.
pub trait Ways {
    /// The tunnel to an address in an instance.
    fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32>;

    /// A control plane's function that packets are sent to from the N4 address.
    fn control_end(&mut self, _address: IpAddr) -> Option<u32> {
        None
    }

    /// The page of an address of the web.
    fn page(&mut self, _url: &str) -> Option<u32> {
        None
    }
}

impl<F: FnMut(InstanceId, IpAddr) -> Option<u32>> Ways for F {
    fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32> {
        self(instance, to)
    }
}

/// Compiles a session's rules.
///
/// # Errors
/// The rule that is invalid, and why; nothing is compiled then.
pub fn compile(session: &Session, handle: u32, ways: &mut impl Ways) -> Result<Compiled, CompileError> {
    let [up, down] = [true, false].map(|tunnelled| by_precedence(session, tunnelled));
    let mut parts = Parts::new(session);
    for pdr in up.iter().chain(&down) {
        parts.add(session, pdr, ways)?;
    }
    parts.place_the_rest(session);
    parts.place_groups(session);
    let entries = [parts.entries(0..up.len()), parts.entries(up.len()..up.len() + down.len())];
    let mut teids: Vec<u32> = up.iter().filter_map(|p| p.teid).chain(session.resting.iter().copied()).collect();
    teids.sort_unstable();
    teids.dedup();
    let places = Places::of(session, &parts, &entries, teids.len());
    check(session, &parts, &places)?;
    parts.settle(&places);
    let (filters, treatments) = parts.quads(&entries, &places, &teids);
    let lines = write(session, handle, [up.len(), down.len()], &parts, &treatments, &places);
    Ok(Compiled {
        lines,
        filters,
        before: Vec::new(),
        discards: false,
        teids,
        ue4: session.ue4.map(|a| (session.instance, a.into())),
        ue6: session.ue6.map(|a| (session.instance, prefix64(a))),
        routes: session.routes.iter().map(|(address, len)| Route::new(session.instance, *address, *len)).collect(),
    })
}

/// The rules of packets that come by tunnel, or of those that do not.
fn by_precedence(session: &Session, tunnelled: bool) -> Vec<&Pdr> {
    let mut list: Vec<&Pdr> = session.pdrs.iter().filter(|p| p.comes_by_tunnel() == tunnelled).collect();
    // Stable: rules of equal precedence keep the order they were given in.
    list.sort_by_key(|p| p.precedence);
    list
}

/// That positions and counts fit their eight bits.
fn check(session: &Session, parts: &Parts, places: &Places) -> Result<(), CompileError> {
    if places.lines > MAX_RECORD {
        return Err(CompileError::TooLarge { lines: places.lines });
    }
    let most = usize::from(NONE8);
    let counts = [
        ("SDF filters", parts.filters4.len().max(parts.filters6.len())),
        ("PDRs", parts.matches.len()),
        ("QERs", session.qers.len() + parts.limited.len()),
        ("URRs", session.urrs.len()),
    ];
    match counts.into_iter().find(|(_, count)| *count >= most) {
        Some((what, _)) => Err(CompileError::TooMany { what, most }),
        None => Ok(()),
    }
}

/// The first 64 bits of an IPv6 address.
pub(crate) fn prefix64(address: Ipv6Addr) -> u64 {
    (u128::from(address) >> 64) as u64
}
