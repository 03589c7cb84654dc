//! Rules → record.

use std::net::{IpAddr, Ipv6Addr};

use stages::filter::{self, Filter4, Filter6, UeAddresses};
use stages::forward::{InstanceId, NONE};
use table::bucket::{Config, Rate, State};
use table::records::{Line, MAX_RECORD};
use zerocopy::IntoBytes;

use crate::record::{
    Action, Head, LINE, MAX_QERS, MAX_URRS, Match, Meter, Meters, NONE8, Tally, apply, match_flags,
};
use crate::rules::{Apply, Interface, Pdr, Qer, Session};

/// A compiled session, on its way to a worker: the record's lines and the keys that lead to it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The record. State lines are fresh: full buckets, nothing measured.
    pub lines: Box<[Line]>,
    /// Our tunnel endpoints.
    pub teids: Vec<u32>,
    /// The subscriber's IPv4 address and its network.
    pub ue4: Option<(InstanceId, u32)>,
    /// The subscriber's IPv6 prefix and its network.
    pub ue6: Option<(InstanceId, u64)>,
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
    #[error("PDR {pdr} takes packets from access but has no tunnel endpoint")]
    NoTeid { pdr: u16 },
    #[error("PDR {pdr} takes packets from the core but the subscriber has no address")]
    NoAddress { pdr: u16 },
    #[error("PDR {pdr} has a filter that can not be: {why}")]
    Filter { pdr: u16, why: filter::CompileError },
    #[error("no path to the tunnel endpoint {address} that FAR {far} names")]
    NoTunnel { far: u32, address: IpAddr },
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

/// Compiles a session's rules. `tunnel` gives the number of the tunnel to an address in an instance.
///
/// # Errors
/// Which rule can not be, and why; nothing is made then.
pub fn compile(
    session: &Session,
    handle: u32,
    tunnel: &mut impl FnMut(InstanceId, IpAddr) -> Option<u32>,
) -> Result<Compiled, CompileError> {
    let mut parts = Parts::default();
    let ordered = |source| {
        let mut list: Vec<&Pdr> = session.pdrs.iter().filter(|p| p.source == source).collect();
        // Stable: rules of equal precedence keep the order they were given in.
        list.sort_by_key(|p| p.precedence);
        list
    };
    let (up, down) = (ordered(Interface::Access), ordered(Interface::Core));
    for pdr in up.iter().chain(&down) {
        parts.add(session, pdr, tunnel)?;
    }
    parts.meters = session.qers.iter().map(meters).collect();
    let ids: Vec<u32> = session.qers.iter().map(|q| q.id).chain(session.urrs.iter().map(|u| u.id)).collect();
    let mut layout = Layout { lines: 0 };
    layout.take(size_of::<Head>() + parts.matches.len() * size_of::<Match>());
    let filters4 = layout.take(parts.filters4.len() * size_of::<Filter4>());
    let filters6 = layout.take(parts.filters6.len() * size_of::<Filter6>());
    let actions = layout.take(parts.actions.len() * LINE);
    let meters = layout.take(parts.meters.len() * LINE);
    let tallies = layout.take(session.urrs.len() * LINE);
    let id_line = layout.take(ids.len() * 4);
    if layout.lines > MAX_RECORD {
        return Err(CompileError::TooLarge { lines: layout.lines });
    }
    let most = usize::from(NONE8);
    let counts = [("SDF filters", parts.filters4.len().max(parts.filters6.len())), ("rules", parts.matches.len())];
    if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count >= most) {
        return Err(CompileError::TooMany { what, most });
    }
    // Every position is below MAX_RECORD and every count below 255, both checked above.
    let head = Head {
        generation: 0,
        handle,
        ue4: session.ue4.map_or(0, u32::from),
        instance: session.instance,
        lines: layout.lines as u8,
        has_v6: u8::from(session.ue6.is_some()),
        ue6: session.ue6.map_or(0, prefix64),
        up: up.len() as u8,
        down: down.len() as u8,
        filters4: filters4 as u8,
        filters6: filters6 as u8,
        actions: actions as u8,
        meters: meters as u8,
        tallies: tallies as u8,
        ids: id_line as u8,
    };
    let mut lines = vec![Line::ZERO; layout.lines].into_boxed_slice();
    let mut put = |line: usize, offset: usize, bytes: &[u8]| {
        let at = line * LINE + offset;
        lines.as_mut_bytes()[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(0, 0, head.as_bytes());
    put(0, size_of::<Head>(), parts.matches.as_bytes());
    put(filters4, 0, parts.filters4.as_bytes());
    put(filters6, 0, parts.filters6.as_bytes());
    put(actions, 0, parts.actions.as_bytes());
    put(meters, 0, parts.meters.as_bytes());
    put(tallies, 0, vec![Tally::default(); session.urrs.len()].as_bytes());
    put(id_line, 0, ids.as_bytes());
    let mut teids: Vec<u32> = up.iter().filter_map(|p| p.teid).collect();
    teids.sort_unstable();
    teids.dedup();
    Ok(Compiled {
        lines,
        teids,
        ue4: session.ue4.map(|a| (session.instance, a.into())),
        ue6: session.ue6.map(|a| (session.instance, prefix64(a))),
    })
}

/// The first 64 bits of an IPv6 address.
pub fn prefix64(address: Ipv6Addr) -> u64 {
    (u128::from(address) >> 64) as u64
}

struct Layout {
    lines: usize,
}

impl Layout {
    /// Reserves whole lines for `bytes`; returns the first.
    fn take(&mut self, bytes: usize) -> usize {
        let at = self.lines;
        self.lines += bytes.div_ceil(LINE);
        at
    }
}

#[derive(Default)]
struct Parts {
    matches: Vec<Match>,
    filters4: Vec<Filter4>,
    filters6: Vec<Filter6>,
    actions: Vec<Action>,
    meters: Vec<Meters>,
}

impl Parts {
    fn add(
        &mut self,
        session: &Session,
        pdr: &Pdr,
        tunnel: &mut impl FnMut(InstanceId, IpAddr) -> Option<u32>,
    ) -> Result<(), CompileError> {
        let id = pdr.id;
        let uplink = pdr.source == Interface::Access;
        if uplink && pdr.teid.is_none() {
            return Err(CompileError::NoTeid { pdr: id });
        }
        if !uplink && session.ue4.is_none() && session.ue6.is_none() {
            return Err(CompileError::NoAddress { pdr: id });
        }
        let find_qer = |qer: &u32| {
            let at = session.qers.iter().position(|q| q.id == *qer);
            at.ok_or(CompileError::NoQer { pdr: id, qer: *qer })
        };
        let find_urr = |urr: &u32| {
            let at = session.urrs.iter().position(|u| u.id == *urr);
            at.ok_or(CompileError::NoUrr { pdr: id, urr: *urr })
        };
        let qers = pdr.qers.iter().map(find_qer).collect::<Result<Vec<_>, _>>()?;
        let urrs = pdr.urrs.iter().map(find_urr).collect::<Result<Vec<_>, _>>()?;
        let rules: Vec<&Qer> = qers.iter().map(|at| &session.qers[*at]).collect();
        let mut flags = 0;
        for (n, qer) in rules.iter().enumerate() {
            flags |= if qer.session { [match_flags::SESSION0, match_flags::SESSION1][n.min(1)] } else { 0 };
            let open = if uplink { qer.gate_up } else { qer.gate_down };
            flags |= if open { 0 } else { match_flags::CLOSED };
        }
        if !pdr.filters.is_empty() {
            flags |= match_flags::FILTERED;
        }
        let (first4, first6) = (self.filters4.len(), self.filters6.len());
        for filter in &pdr.filters {
            // The session was found by the subscriber's address already: `assigned` needs no second comparison.
            let compiled = filter::compile(filter, &UeAddresses::UNKNOWN);
            let filters = compiled.map_err(|why| CompileError::Filter { pdr: id, why })?;
            self.filters4.extend(filters.v4);
            self.filters6.extend(filters.v6);
        }
        let action = self.action(session, pdr, rules.iter().find_map(|q| q.qfi), tunnel)?;
        // Truncating counts here is mended by the check on totals before anything is made of them.
        self.matches.push(Match {
            teid: if uplink { pdr.teid.unwrap_or(0) } else { 0 },
            first4: first4 as u8,
            count4: (self.filters4.len() - first4) as u8,
            first6: first6 as u8,
            count6: (self.filters6.len() - first6) as u8,
            qfi: pdr.qfi.unwrap_or(NONE8),
            action: action as u8,
            flags,
            qers: places(id, "QER", &qers)?,
            urrs: places(id, "URR", &urrs)?,
        });
        Ok(())
    }

    fn action(
        &mut self,
        session: &Session,
        pdr: &Pdr,
        qfi: Option<u8>,
        tunnel: &mut impl FnMut(InstanceId, IpAddr) -> Option<u32>,
    ) -> Result<usize, CompileError> {
        let far = session.fars.iter().find(|f| f.id == pdr.far);
        let far = far.ok_or(CompileError::NoFar { pdr: pdr.id, far: pdr.far })?;
        let way = match far.tunnel {
            Some(end) => {
                let missing = CompileError::NoTunnel { far: far.id, address: end.address };
                Some((tunnel(far.instance, end.address).ok_or(missing)?, end.teid))
            }
            None => None,
        };
        self.actions.push(Action {
            tunnel: way.map_or(NONE, |(id, _)| id),
            teid: way.map_or(0, |(_, teid)| teid),
            far: far.id,
            instance: far.instance,
            pdr: pdr.id,
            apply: match far.apply {
                Apply::Forward => apply::FORWARD,
                Apply::Drop => apply::DROP,
                Apply::Buffer => apply::BUFFER,
            },
            dscp: far.dscp.unwrap_or(NONE8),
            qfi: qfi.filter(|_| way.is_some()).unwrap_or(NONE8),
            spare: [0; 45],
        });
        Ok(self.actions.len() - 1)
    }
}

fn places<const N: usize>(pdr: u16, what: &'static str, list: &[usize]) -> Result<[u8; N], CompileError> {
    const { assert!(MAX_QERS == 2 && MAX_URRS == 2) };
    if list.len() > N {
        return Err(CompileError::TooManyPerRule { pdr, what, count: list.len(), most: N });
    }
    let mut places = [NONE8; N];
    for (place, at) in places.iter_mut().zip(list) {
        *place = u8::try_from(*at).ok().filter(|at| *at != NONE8).ok_or(CompileError::TooMany { what, most: 255 })?;
    }
    Ok(places)
}

fn meters(qer: &Qer) -> Meters {
    let meter = |mbr| {
        let config = bucket(mbr);
        Meter { config, state: State { credit: config.depth, last_ns: 0 } }
    };
    Meters { up: meter(qer.mbr.up), down: meter(qer.mbr.down) }
}
