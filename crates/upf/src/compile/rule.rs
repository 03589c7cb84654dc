//! One PDR, with its FAR, its QERs and its URRs, into the parts of a record.

use dataplane::filter::{self, Direction, Sdf, UeAddresses};
use dataplane::forward::NONE;

use super::groups::{Few, Many};
use super::parts::Parts;
use super::{CompileError, Ways};
use crate::record::{
    Action, MAX_DUPLICATES, MAX_QERS, MAX_URRS, Match, NONE8, RuleResult, apply, container, match_flags, outer,
};
use crate::rules::{Apply, Duplicate, Outer, Pdr, Session, TunnelEnd};

impl Parts {
    /// Enters a rule; it comes behind those before it.
    pub fn add(&mut self, session: &Session, pdr: &Pdr, ways: &mut impl Ways) -> Result<(), CompileError> {
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
        let own = || qers.list().iter().map(|at| &session.qers[*at]);
        let mut marks = Marks { qfi: own().find_map(|qer| qer.qfi), ..Marks::default() };
        if !uplink {
            marks.reflective = own().any(|qer| qer.reflective);
            marks.paging_policy = own().find_map(|qer| qer.paging_policy).filter(|_| marks.qfi.is_some());
            marks.dscp = own().find_map(|qer| qer.mark);
        }
        if marks.is_too_much() {
            return Err(CompileError::Marks { pdr: id });
        }
        let action = self.add_action(session, pdr, marks, ways)?;
        let beside = self.begin_cells(direction);
        qers.list().iter().for_each(|n| self.place_qer(*n, direction, beside));
        urrs.list().iter().for_each(|n| self.place_urr(*n, direction, beside));
        self.matches.push(Match {
            teid: pdr.teid.unwrap_or(0),
            first4,
            count4,
            first6,
            count6,
            then: RuleResult {
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
        marks: Marks,
        ways: &mut impl Ways,
    ) -> Result<u8, CompileError> {
        let far = session.fars.iter().find(|f| f.id == pdr.far);
        let far = far.ok_or(CompileError::NoFar { pdr: pdr.id, far: pdr.far })?;
        let mut tunnel = |instance, end: TunnelEnd| {
            let missing = CompileError::NoTunnel { far: far.id, address: end.address };
            ways.tunnel(instance, end.address).ok_or(missing)
        };
        let own = far.tunnel.filter(|_| far.apply != Apply::Control);
        let way = own.map(|end| Ok((tunnel(far.instance, end)?, end))).transpose()?;
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
        // Without a path, or with more control planes than there are numbers for, its packets are dropped by name.
        let control = far.tunnel.filter(|_| far.apply == Apply::Control);
        let control = control.and_then(|end| Some((ways.control_end(end.address)?, end)));
        let kind = match far.apply {
            Apply::Forward => apply::FORWARD,
            Apply::Drop => apply::DROP,
            Apply::Buffer => apply::BUFFER,
            Apply::Redirect => apply::REDIRECT,
            Apply::Closed => apply::CLOSED,
            Apply::Control => apply::CONTROL,
        };
        let (kind, keep) = match (far.apply, marks) {
            (Apply::Forward, Marks { dscp: Some(dscp), .. }) => (apply::MARKED, dscp),
            (Apply::Forward | Apply::Closed, Marks { paging_policy: Some(policy), .. }) => (kind, policy),
            _ => (kind, far.keep),
        };
        let at = self.actions.len();
        self.actions.push(Action {
            tunnel: way.or(control).map_or(NONE, |(id, _)| id),
            teid: way.or(control).map_or(page, |(_, end)| end.teid),
            pdr: pdr.id,
            instance: far.instance,
            apply: kind | (duplicates.len() as u8) << apply::DUPLICATES,
            dscp: far.dscp.unwrap_or(NONE8),
            qfi: way.map_or(NONE8, |(_, end)| behind_ip(end.outer, marks.container())),
            keep,
        });
        self.actions.extend(duplicates);
        // Truncation is mended by the check on the record's length before anything is made of it.
        Ok(at as u8)
    }
}

/// What a rule's QERs mark packets with.
#[derive(Clone, Copy, Default)]
struct Marks {
    qfi: Option<u8>,
    reflective: bool,
    paging_policy: Option<u8>,
    /// The user packet's own.
    dscp: Option<u8>,
}

impl Marks {
    /// An action has room for either a paging policy or a DSCP; and [`outer`]'s values stand where the last QoS flows with
    /// both flags would.
    fn is_too_much(&self) -> bool {
        let last = self.reflective && self.qfi.is_some_and(|qfi| qfi >= outer::NOTHING & 0x3f);
        self.paging_policy.is_some() && (self.dscp.is_some() || last)
    }

    /// The QoS flow with its flags.
    fn container(&self) -> Option<u8> {
        let reflective = if self.reflective { container::RQI } else { 0 };
        let policy = if self.paging_policy.is_some() { container::PPP } else { 0 };
        self.qfi.map(|qfi| qfi | reflective | policy)
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
