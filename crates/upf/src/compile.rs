//! Rules → record.

mod groups;

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use stages::filter::{self, Direction, Filter4, Filter6, Quad4, Sdf, UeAddresses, WAYS};
use stages::forward::{InstanceId, NONE};
use table::bucket::{Config, Rate, State};
use table::records::{Line, MAX_RECORD};
use zerocopy::IntoBytes;

use crate::record::{
    Action, Bounds, CELLS, Head, LINE, MAX_DUPLICATES, MAX_QERS, MAX_URRS, Match, Meter, NONE8, PacketQuota, Quad, Row,
    Tally, Treatment, Treatments, apply, match_flags, outer,
};
use crate::routes::Route;
use crate::rules::{Apply, Duplicate, Outer, PacketLimit, Pdr, Session, TunnelEnd, Usage};
use groups::{Few, Group, Many};

/// A compiled session, on its way to a worker: the record's lines and the keys that lead to it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The record. State lines are fresh: full buckets, nothing measured.
    pub lines: Box<[Line]>,
    /// What the rules it replaces have measured, as the worker found it; filled as far as there is room, which control
    /// makes if it wants to know.
    pub before: Vec<Usage>,
    /// What waits for the subscriber is thrown away when the worker takes it.
    pub discards: bool,
    /// Our tunnel endpoints.
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
    #[error("PDR {pdr} has a filter that can not be: {why}")]
    Filter { pdr: u16, why: filter::CompileError },
    #[error("no path to the tunnel endpoint {address} that FAR {far} names")]
    NoTunnel { far: u32, address: IpAddr },
    #[error("FAR {far} asks for {count} duplicates; at most {MAX_DUPLICATES} are made")]
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
/// Which rule can not be, and why; nothing is made then.
pub fn compile(session: &Session, handle: u32, ways: &mut impl Ways) -> Result<Compiled, CompileError> {
    let ordered = |tunnelled| {
        let mut list: Vec<&Pdr> = session.pdrs.iter().filter(|p| p.comes_by_tunnel() == tunnelled).collect();
        // Stable: rules of equal precedence keep the order they were given in.
        list.sort_by_key(|p| p.precedence);
        list
    };
    let (up, down) = (ordered(true), ordered(false));
    let mut parts = Parts::new(session);
    for pdr in up.iter().chain(&down) {
        parts.add(session, pdr, ways)?;
    }
    parts.place_the_rest(session);
    parts.place_groups(session);
    let bounds = session.urrs.iter().map(|urr| Bounds::of(urr.threshold, urr.quota));
    let bounds = bounds.map(|bounds| (!bounds.is_none()).then_some(bounds));
    let entries = [parts.entries(0..up.len()), parts.entries(up.len()..up.len() + down.len())];
    let places = Places::of(session, &parts, &entries);
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
    if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count >= most) {
        return Err(CompileError::TooMany { what, most });
    }
    let position = |cell: u8| if cell == NONE8 { 0 } else { cell + (places.cells * CELLS) as u8 };
    parts.enter_groups(position);
    // Every position is below MAX_RECORD lines and every count below 255, both checked above; in units of filters,
    // actions and cells positions still fit eight bits.
    for rule in &mut parts.matches {
        rule.first4 += (places.filters4 * LINE / size_of::<Filter4>()) as u8;
        rule.first6 += places.filters6 as u8;
        rule.then.action += places.first_action as u8;
        for cell in rule.then.meters.iter_mut().chain(&mut rule.then.tallies) {
            *cell = position(*cell);
        }
    }
    let row = |(id, places): (u32, &[u8; 2])| {
        let [up, down] = places.map(position);
        Row { id, up, down, bounds: 0, limits: 0 }
    };
    let qers = session.qers.iter().map(|q| q.id).zip(&parts.qer_places).map(row);
    let limits = parts.limited.iter().map(|at| session.qers[*at].id).zip(&parts.limit_places).map(row);
    let qers = qers.chain(limits.map(|row| Row { limits: 1, ..row }));
    let urrs = session.urrs.iter().map(|u| u.id).zip(&parts.urr_places).map(row);
    let mut next_bounds = places.bounds as u8;
    let urrs = urrs.zip(bounds.clone()).map(|(row, bounds)| {
        let line = next_bounds;
        next_bounds += u8::from(bounds.is_some());
        Row { bounds: if bounds.is_some() { line } else { 0 }, ..row }
    });
    let head = Head {
        generation: 0,
        handle,
        ue4: session.ue4.map_or(0, u32::from),
        instance: session.instance,
        lines: places.lines as u8,
        up: up.len() as u8,
        ue6: session.ue6.map_or(0, prefix64),
        down: down.len() as u8,
        rules: places.rules as u8,
        quads: places.quads as u8,
        up_quads: places.of_direction[0] as u8,
        down_quads: places.of_direction[1] as u8,
        rows: places.rows as u8,
        qers: (session.qers.len() + parts.limited.len()) as u8,
        urrs: session.urrs.len() as u8,
    };
    let mut lines = vec![Line::ZERO; places.lines].into_boxed_slice();
    let mut put = |line: usize, offset: usize, bytes: &[u8]| {
        let at = line * LINE + offset;
        lines.as_mut_bytes()[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let (quads, treatments) = parts.quads(&entries, &places);
    for (n, quad) in quads.iter().enumerate() {
        put(0, n * size_of::<Quad>(), quad.as_bytes());
    }
    put(0, quads.len() * size_of::<Quad>(), treatments.as_bytes());
    put(0, 0, head.as_bytes());
    put(0, places.first_action * size_of::<Action>(), parts.actions.as_bytes());
    put(places.rules, 0, parts.matches.as_bytes());
    if places.quads == 0 {
        put(places.filters4, 0, parts.filters4.as_bytes());
    }
    put(places.filters6, 0, parts.filters6.as_bytes());
    put(places.cells, 0, parts.cells.as_bytes());
    for (n, bounds) in bounds.flatten().enumerate() {
        put(places.bounds, n * size_of::<Bounds>(), bounds.as_bytes());
    }
    for (n, row) in qers.chain(urrs).enumerate() {
        put(places.rows, n * size_of::<Row>(), row.as_bytes());
    }
    let mut teids: Vec<u32> = up.iter().filter_map(|p| p.teid).chain(session.resting.iter().copied()).collect();
    teids.sort_unstable();
    teids.dedup();
    Ok(Compiled {
        lines,
        before: Vec::new(),
        discards: false,
        teids,
        ue4: session.ue4.map(|a| (session.instance, a.into())),
        ue6: session.ue6.map(|a| (session.instance, prefix64(a))),
        routes: session.routes.iter().map(|(address, len)| Route::new(session.instance, *address, *len)).collect(),
    })
}

/// The first 64 bits of an IPv6 address.
pub fn prefix64(address: Ipv6Addr) -> u64 {
    (u128::from(address) >> 64) as u64
}

/// A filter of a direction's quads, and the place of its rule.
type Entry = (usize, Filter4);

/// Where a record's parts begin, in lines.
struct Places {
    /// Quads in all; 0: some filter is not plain, or there are too many.
    quads: usize,
    /// Quads for uplink packets, and for downlink packets: the same ones, or others.
    of_direction: [usize; 2],
    /// In actions.
    first_action: usize,
    rules: usize,
    filters4: usize,
    filters6: usize,
    cells: usize,
    bounds: usize,
    rows: usize,
    lines: usize,
}

impl Places {
    fn of(session: &Session, parts: &Parts, entries: &[Vec<Entry>; 2]) -> Self {
        let of_direction = entries.each_ref().map(|list| list.len().div_ceil(WAYS));
        // Tunnel endpoint and QFI are not asked of downlink packets.
        let [up, down] = entries.each_ref().map(|list| list.iter().map(|(_, filter)| filter));
        let shared = up.eq(down);
        let quads = if shared { of_direction[0] } else { of_direction.iter().sum() };
        let plain = session.ue4.is_some() && parts.filters4.iter().all(Filter4::is_plain);
        let quick = Self::with_quads(session, parts, quads, of_direction);
        if plain && quick.lines <= MAX_RECORD { quick } else { Self::with_quads(session, parts, 0, [0; 2]) }
    }

    fn with_quads(session: &Session, parts: &Parts, quads: usize, of_direction: [usize; 2]) -> Self {
        let treatments = of_direction.iter().sum::<usize>() * size_of::<Treatments>();
        let before = (quads * size_of::<Quad>() + treatments).max(size_of::<Head>());
        let mut lines = 0;
        // Whole lines for so many bytes; the first.
        let mut take = |bytes: usize| {
            let at = lines;
            lines += bytes.div_ceil(LINE);
            at
        };
        take(before + parts.actions.len() * size_of::<Action>());
        let rules = take(parts.matches.len() * size_of::<Match>());
        let filters4 = take(if quads > 0 { 0 } else { parts.filters4.len() * size_of::<Filter4>() });
        let filters6 = take(parts.filters6.len() * size_of::<Filter6>());
        let cells = take(parts.cells.len() * LINE / CELLS);
        let bounds = session.urrs.iter().map(|urr| Bounds::of(urr.threshold, urr.quota));
        let bounds = take(bounds.filter(|bounds| !bounds.is_none()).count() * size_of::<Bounds>());
        let rows = session.qers.len() + parts.limited.len() + session.urrs.len();
        let rows = take(rows * size_of::<Row>());
        // All records have an even number of lines, so that all begin at even ones.
        let lines = lines.next_multiple_of(2);
        let first_action = before / size_of::<Action>();
        Self { quads, of_direction, first_action, rules, filters4, filters6, cells, bounds, rows, lines }
    }
}

/// A cell as bytes: a `Meter` or a `Tally`.
type Cell = [u8; LINE / CELLS];

/// The parts of a record while it grows. Positions here are relative to their own part; [`NONE8`]: none yet.
struct Parts {
    matches: Vec<Match>,
    filters4: Vec<Filter4>,
    filters6: Vec<Filter6>,
    actions: Vec<Action>,
    cells: Vec<Cell>,
    /// The up and down cells of each QER and URR.
    qer_places: Vec<[u8; 2]>,
    urr_places: Vec<[u8; 2]>,
    /// What to put there; a direction without limit needs no cell.
    qer_cells: Vec<[Option<Cell>; 2]>,
    /// QERs with limits on the number of packets, and their up and down cells.
    limited: Vec<usize>,
    limit_places: Vec<[u8; 2]>,
    /// Rules with more of them than a treatment has places, and the groups they are given.
    many: Vec<Many>,
    groups: Vec<Group>,
}

impl Parts {
    fn new(session: &Session) -> Self {
        let cell = |mbr: Option<u64>| -> Option<Cell> {
            let config = bucket(Some(mbr?));
            Some(zerocopy::transmute!(Meter { config, state: State { credit: config.depth, last_ns: 0 } }))
        };
        let mut parts = Self {
            matches: Vec::with_capacity(session.pdrs.len()),
            filters4: Vec::new(),
            filters6: Vec::new(),
            actions: Vec::with_capacity(session.pdrs.len()),
            cells: Vec::with_capacity(2 * (session.pdrs.len() + session.qers.len() + session.urrs.len())),
            qer_places: vec![[NONE8; 2]; session.qers.len()],
            urr_places: vec![[NONE8; 2]; session.urrs.len()],
            qer_cells: session.qers.iter().map(|q| [cell(q.mbr.up), cell(q.mbr.down)]).collect(),
            limited: (0..session.qers.len()).filter(|n| session.qers[*n].packets != [None; 2]).collect(),
            limit_places: Vec::new(),
            many: Vec::new(),
            groups: Vec::new(),
        };
        // The session's own buckets: both directions in one line.
        for (n, _) in session.qers.iter().enumerate().filter(|(_, q)| q.session) {
            parts.place_qer(n, 0);
            parts.place_qer(n, 1);
        }
        parts
    }

    fn place_qer(&mut self, n: usize, direction: usize) {
        if let (NONE8, Some(cell)) = (self.qer_places[n][direction], self.qer_cells[n][direction]) {
            self.qer_places[n][direction] = self.cells.len().min(usize::from(NONE8)) as u8;
            self.cells.push(cell);
        }
    }

    fn place_urr(&mut self, n: usize, direction: usize) {
        if self.urr_places[n][direction] == NONE8 {
            self.urr_places[n][direction] = self.cells.len().min(usize::from(NONE8)) as u8;
            self.cells.push(zerocopy::transmute!(Tally::default()));
        }
    }

    /// Cells no rule needs (yet): a QER or URR keeps its state from when it is made. And those few packets need.
    fn place_the_rest(&mut self, session: &Session) {
        for direction in 0..2 {
            (0..self.qer_places.len()).for_each(|n| self.place_qer(n, direction));
            (0..self.urr_places.len()).for_each(|n| self.place_urr(n, direction));
        }
        for n in &self.limited {
            let place = |limit: Option<PacketLimit>| {
                let quota = limit.map_or(PacketQuota::default(), |limit| {
                    let PacketLimit { most, period_ns } = limit;
                    PacketQuota { most, period_ns, ..PacketQuota::default() }
                });
                self.cells.push(zerocopy::transmute!(quota));
                (self.cells.len() - 1).min(usize::from(NONE8)) as u8
            };
            self.limit_places.push(session.qers[*n].packets.map(place));
        }
    }

    fn add(&mut self, session: &Session, pdr: &Pdr, ways: &mut impl Ways) -> Result<(), CompileError> {
        let id = pdr.id;
        let (uplink, tunnelled) = (pdr.source.is_uplink(), pdr.comes_by_tunnel());
        if tunnelled && pdr.teid.is_none() {
            return Err(CompileError::NoTeid { pdr: id });
        }
        if !tunnelled && !session.has_address() {
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
        let direction = usize::from(!uplink);
        let (mut qers, mut urrs) = (Few::<MAX_QERS>::default(), Few::<MAX_URRS>::default());
        for qer in &pdr.qers {
            qers.push(find_qer(qer)?);
        }
        for urr in &pdr.urrs {
            let at = find_urr(urr)?;
            if !session.urrs[at].paused {
                urrs.push(at);
            }
        }
        qers.check(id, "QER")?;
        urrs.check(id, "URR")?;
        let mut flags = if pdr.filters.is_empty() { 0 } else { match_flags::FILTERED };
        let (mut metered, mut limited) = (Few::<MAX_QERS>::default(), Few::<MAX_QERS>::default());
        for at in qers.list() {
            let qer = &session.qers[*at];
            let open = if uplink { qer.gate_up } else { qer.gate_down };
            flags |= if open { 0 } else { match_flags::CLOSED };
            if self.qer_cells[*at][direction].is_some() {
                metered.push(*at);
            }
            if qer.packets[direction].is_some() {
                limited.push(*at);
            }
        }
        for (n, at) in metered.list().iter().enumerate() {
            let flag = [match_flags::SESSION0, match_flags::SESSION1][n.min(1)];
            flags |= if session.qers[*at].session { flag } else { 0 };
        }
        for (n, at) in urrs.list().iter().enumerate() {
            let before = session.urrs[*at].before_qos;
            flags |= if before { [match_flags::BEFORE_QOS0, match_flags::BEFORE_QOS1][n.min(1)] } else { 0 };
        }
        flags |= match pdr.removes {
            Some(Outer::Ip) => match_flags::REMOVES_IP,
            Some(Outer::Udp) => match_flags::REMOVES_UDP,
            Some(Outer::GtpU | Outer::Nothing) | None => 0,
        };
        let elsewhere = session.fars.iter().any(|far| far.id == pdr.far && (far.to_control || far.to_access));
        // In transit (SGW-U, I-UPF) the subscriber's address may not be known; it is checked where it is.
        flags |= if uplink && session.has_address() && !elsewhere { match_flags::FROM_UE } else { 0 };
        let (first4, count4, first6, count6) = self.add_filters(session, pdr)?;
        let qfi = qers.list().iter().find_map(|at| session.qers[*at].qfi);
        let action = self.add_action(session, pdr, qfi, ways)?;
        // A flow's bucket and its count begin a line of their own.
        if !self.cells.len().is_multiple_of(CELLS) {
            self.cells.push([0; LINE / CELLS]);
        }
        qers.list().iter().for_each(|n| self.place_qer(*n, direction));
        urrs.list().iter().for_each(|n| self.place_urr(*n, direction));
        self.matches.push(Match {
            teid: pdr.teid.unwrap_or(0),
            first4,
            count4,
            first6,
            count6,
            then: Treatment {
                qfi: pdr.qfi.unwrap_or(NONE8),
                action,
                flags,
                meters: metered.places(&self.qer_places, direction),
                tallies: urrs.places(&self.urr_places, direction),
            },
        });
        let many = Many { rule: self.matches.len() - 1, direction, metered, limited, urrs };
        if many.is_one() {
            self.many.push(many);
        }
        Ok(())
    }

    /// The IPv4 filters of a direction's rules by precedence; one for everything where a rule has none.
    fn entries(&self, rules: Range<usize>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(rules.len());
        for n in rules {
            let rule = &self.matches[n];
            let own = &self.filters4[rule.first4.into()..][..rule.count4.into()];
            let list = if rule.then.flags & match_flags::FILTERED == 0 { &[Filter4::ANY] } else { own };
            entries.extend(list.iter().map(|filter| (n, *filter)));
        }
        entries
    }

    /// The quads, and what is done with their packets in either direction. The rules' positions are final.
    fn quads(&self, entries: &[Vec<Entry>; 2], places: &Places) -> (Vec<Quad>, Vec<Treatments>) {
        let [up, down] = places.of_direction;
        let mut quads = vec![Quad { before: [0; _], filters: Quad4::NOTHING }; places.quads];
        let mut treatments = vec![[Treatment::default(); WAYS]; up + down];
        // Downlink first: where quads are shared, uplink rules have more to ask.
        for (list, count, quad, then) in [(&entries[1], down, places.quads - down, up), (&entries[0], up, 0, 0)] {
            for (n, (rule, filter)) in list.iter().enumerate().take(count * WAYS) {
                let Match { teid, then: treatment, .. } = self.matches[*rule];
                let qfi = Some(treatment.qfi).filter(|qfi| *qfi != NONE8);
                quads[quad + n / WAYS].filters.set(n % WAYS, filter, teid, qfi);
                treatments[then + n / WAYS][n % WAYS] = treatment;
            }
        }
        (quads, treatments)
    }

    /// Enters the rule's filters, of the families the subscriber has; a list that is there already (usually the other
    /// direction's) is shared. Returns first and count of either family.
    fn add_filters(&mut self, session: &Session, pdr: &Pdr) -> Result<(u8, u8, u8, u8), CompileError> {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        let in_transit = !session.has_address();
        for filter in &pdr.filters {
            // The session was found by the subscriber's address already: `assigned` needs no second comparison.
            let compiled = filter::compile(&seen_from_below(filter, pdr), &UeAddresses::UNKNOWN);
            let filters = compiled.map_err(|why| CompileError::Filter { pdr: pdr.id, why })?;
            four.extend(filters.v4.into_iter().filter(|_| session.has_family(false) || in_transit));
            six.extend(filters.v6.into_iter().filter(|_| session.has_family(true) || in_transit));
        }
        let (first4, count4) = share(&mut self.filters4, &four);
        let (first6, count6) = share(&mut self.filters6, &six);
        Ok((first4, count4, first6, count6))
    }

    fn add_action(
        &mut self,
        session: &Session,
        pdr: &Pdr,
        qfi: Option<u8>,
        ways: &mut impl Ways,
    ) -> Result<u8, CompileError> {
        let far = session.fars.iter().find(|f| f.id == pdr.far);
        let far = far.ok_or(CompileError::NoFar { pdr: pdr.id, far: pdr.far })?;
        let mut tunnel = |instance, end: TunnelEnd| {
            let missing = CompileError::NoTunnel { far: far.id, address: end.address };
            ways.tunnel(instance, end.address).ok_or(missing)
        };
        let way = far.tunnel.map(|end| Ok((tunnel(far.instance, end)?, end))).transpose()?;
        if far.duplicates.len() > MAX_DUPLICATES {
            return Err(CompileError::TooManyDuplicates { far: far.id, count: far.duplicates.len() });
        }
        let mut duplicates = Vec::new();
        for Duplicate { tunnel: end, instance, dscp } in far.duplicates.iter().copied() {
            duplicates.push(Action {
                tunnel: tunnel(instance, end)?,
                teid: end.teid,
                pdr: pdr.id,
                instance,
                apply: apply::FORWARD,
                dscp: dscp.unwrap_or(NONE8),
                qfi: behind_ip(end.outer, None),
                keep: 0,
            });
        }
        let page = match (&far.page, far.apply) {
            (Some(url), Apply::Redirect) => ways.page(url).ok_or(CompileError::NoPage { far: far.id })?,
            _ => 0,
        };
        let kind = match far.apply {
            Apply::Forward => apply::FORWARD,
            Apply::Drop => apply::DROP,
            Apply::Buffer => apply::BUFFER,
            Apply::Redirect => apply::REDIRECT,
            Apply::Closed => apply::CLOSED,
        };
        let at = self.actions.len();
        self.actions.push(Action {
            tunnel: way.map_or(NONE, |(id, _)| id),
            teid: way.map_or(page, |(_, end)| end.teid),
            pdr: pdr.id,
            instance: far.instance,
            apply: kind | (duplicates.len() as u8) << apply::DUPLICATES,
            dscp: far.dscp.unwrap_or(NONE8),
            qfi: way.map_or(NONE8, |(_, end)| behind_ip(end.outer, qfi)),
            keep: far.keep,
        });
        self.actions.extend(duplicates);
        // Truncation is mended by the check on the record's length before anything is made of it.
        Ok(at as u8)
    }
}

/// What stands behind the outer IP header, as an action says it.
fn behind_ip(header: Outer, qfi: Option<u8>) -> u8 {
    match header {
        Outer::GtpU => qfi.unwrap_or(NONE8),
        Outer::Udp => outer::UDP,
        Outer::Ip => outer::IP,
        Outer::Nothing => outer::NOTHING,
    }
}

/// A rule's filter for the way its packets are looked at: what comes by tunnel is taken to come from the subscriber, so
/// that a tunnel towards it (N9, S5/S8) has the ends of its filters exchanged.
fn seen_from_below(filter: &Sdf, pdr: &Pdr) -> Sdf {
    let mut filter = filter.clone();
    let is_downward = pdr.comes_by_tunnel() && !pdr.source.is_uplink();
    if let Some(flow) = filter.flow.as_mut().filter(|_| is_downward) {
        flow.direction = if flow.direction == Direction::In { Direction::Out } else { Direction::In };
    }
    filter
}

/// Finds `list` within `all`, or adds it; first and count. Truncation is mended by the check on totals.
fn share<T: Clone + PartialEq>(all: &mut Vec<T>, list: &[T]) -> (u8, u8) {
    let known = (0..all.len()).find(|at| !list.is_empty() && all[*at..].starts_with(list));
    let first = known.unwrap_or(all.len());
    if known.is_none() {
        all.extend_from_slice(list);
    }
    (first as u8, list.len() as u8)
}
