//! One PDR, with its FAR, its QERs and its URRs, into the parts of a record.

use dataplane::filter::{self, Direction, Sdf, UeAddresses};
use dataplane::forward::{InstanceId, NONE};

use super::groups::{Few, Many};
use super::parts::Parts;
use super::{CompileError, Ways};
use crate::record::{
    Action, Encap, MAX_DUPLICATES, MAX_QERS, MAX_URRS, Match, NONE8, RuleResult, container, encap, kind, match_flags,
};
use crate::rules::{Apply, Duplicate, Far, Outer, Pdr, Session, TunnelEnd};

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
        let direction = usize::from(!uplink);
        let named = Named::find(session, pdr)?;
        let (metered, limited) = self.by_limit(session, &named, direction);
        let flags = flags_of(session, pdr, &named, &metered);
        let (first4, count4, first6, count6) = self.add_filters(session, pdr)?;
        let Named { qers, urrs } = named;
        let marks = Marks::of(session, pdr, &qers)?;
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

    /// Those of a rule's QERs that have a bucket in that direction, and those that limit the number of packets.
    fn by_limit(&self, session: &Session, named: &Named, direction: usize) -> (Few<MAX_QERS>, Few<MAX_QERS>) {
        let (mut metered, mut limited) = (Few::default(), Few::default());
        for at in named.qers.list() {
            if self.qer_cells[*at][direction].is_some() {
                metered.push(*at);
            }
            if session.qers[*at].packets[direction].is_some() {
                limited.push(*at);
            }
        }
        (metered, limited)
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

    /// Enters what the rule does, with where its duplicates go behind it; its place.
    fn add_action(
        &mut self,
        session: &Session,
        pdr: &Pdr,
        marks: Marks,
        ways: &mut impl Ways,
    ) -> Result<u8, CompileError> {
        let far = session.fars.iter().find(|f| f.id == pdr.far);
        let far = far.ok_or(CompileError::NoFar { pdr: pdr.id, far: pdr.far })?;
        if far.duplicates.len() > MAX_DUPLICATES {
            return Err(CompileError::TooManyDuplicates { far: far.id, count: far.duplicates.len() });
        }
        let mut action = own_action(far, pdr.id, marks, ways)?;
        action.kind |= (far.duplicates.len() as u8) << kind::DUPLICATES;
        let duplicates = far.duplicates.iter().map(|duplicate| duplicate_action(far, pdr.id, duplicate, ways));
        let duplicates = duplicates.collect::<Result<Vec<_>, _>>()?;
        let at = self.actions.len();
        self.actions.push(action);
        self.actions.extend(duplicates);
        // Truncation is mended by the check on the record's length before anything is made of it.
        Ok(at as u8)
    }
}

/// A rule's QERs and URRs, by their places in the session.
struct Named {
    qers: Few<MAX_QERS>,
    urrs: Few<MAX_URRS>,
}

impl Named {
    /// Finds what the rule names; URRs that pause are left out.
    fn find(session: &Session, pdr: &Pdr) -> Result<Self, CompileError> {
        let id = pdr.id;
        let mut named = Self { qers: Few::default(), urrs: Few::default() };
        for qer in &pdr.qers {
            let at = session.qers.iter().position(|q| q.id == *qer);
            named.qers.push(at.ok_or(CompileError::NoQer { pdr: id, qer: *qer })?);
        }
        for urr in &pdr.urrs {
            let at = session.urrs.iter().position(|u| u.id == *urr);
            let at = at.ok_or(CompileError::NoUrr { pdr: id, urr: *urr })?;
            if !session.urrs[at].paused {
                named.urrs.push(at);
            }
        }
        named.qers.check(id, "QER")?;
        named.urrs.check(id, "URR")?;
        Ok(named)
    }
}

/// The rule's [`match_flags`].
fn flags_of(session: &Session, pdr: &Pdr, named: &Named, metered: &Few<MAX_QERS>) -> u16 {
    let uplink = pdr.source.is_uplink();
    let mut flags = if pdr.filters.is_empty() { 0 } else { match_flags::FILTERED };
    for at in named.qers.list() {
        let qer = &session.qers[*at];
        let open = if uplink { qer.gate_up } else { qer.gate_down };
        flags |= if open { 0 } else { match_flags::CLOSED };
    }
    for (n, at) in metered.list().iter().enumerate() {
        let flag = [match_flags::SESSION0, match_flags::SESSION1][n.min(1)];
        flags |= if session.qers[*at].session { flag } else { 0 };
    }
    for (n, at) in named.urrs.list().iter().enumerate() {
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
    flags | if uplink && session.has_address() && !elsewhere { match_flags::FROM_UE } else { 0 }
}

/// What the rule does with the packet itself.
fn own_action(far: &Far, pdr: u16, marks: Marks, ways: &mut impl Ways) -> Result<Action, CompileError> {
    // Nothing is put into the tunnel of a FAR that sends its subscriber to a page: the identifier is the page's number.
    let own = far.tunnel.filter(|_| !matches!(far.apply, Apply::Control | Apply::Redirect));
    let own = own.map(|end| Ok((tunnel(far, far.instance, end, ways)?, end))).transpose()?;
    // Without a path, or with more control planes than there are numbers for, its packets are dropped by name.
    let control = far.tunnel.filter(|_| far.apply == Apply::Control);
    let control = control.and_then(|end| Some((ways.control_end(end.address)?, end)));
    let page = match (&far.page, far.apply) {
        (Some(url), Apply::Redirect) => ways.page(url).ok_or(CompileError::NoPage { far: far.id })?,
        _ => 0,
    };
    let kind = match far.apply {
        Apply::Forward => kind::FORWARD,
        Apply::Drop => kind::DROP,
        Apply::Buffer => kind::BUFFER,
        Apply::Redirect => kind::REDIRECT,
        Apply::Closed => kind::CLOSED,
        Apply::Control => kind::CONTROL,
    };
    let (kind, value) = match (far.apply, marks) {
        (Apply::Forward, Marks { dscp: Some(dscp), .. }) => (kind::MARKED, dscp),
        (Apply::Forward | Apply::Closed, Marks { paging_policy: Some(policy), .. }) => (kind, policy),
        _ => (kind, far.keep),
    };
    Ok(Action {
        tunnel: own.or(control).map_or(NONE, |(id, _)| id),
        id: own.or(control).map_or(page, |(_, end)| end.teid),
        pdr,
        instance: instance(far.instance)?,
        kind,
        encap: own.map_or(Encap::NONE, |(_, end)| encap_of(end.outer, marks.container())),
        dscp: far.dscp.unwrap_or(NONE8),
        value,
    })
}

/// Where a duplicate goes.
fn duplicate_action(far: &Far, pdr: u16, to: &Duplicate, ways: &mut impl Ways) -> Result<Action, CompileError> {
    Ok(Action {
        tunnel: tunnel(far, to.instance, to.tunnel, ways)?,
        id: to.tunnel.teid,
        pdr,
        instance: instance(to.instance)?,
        kind: kind::FORWARD,
        encap: encap_of(to.tunnel.outer, None),
        dscp: to.dscp.unwrap_or(NONE8),
        value: 0,
    })
}

/// The number of a FAR's tunnel.
fn tunnel(far: &Far, instance: InstanceId, end: TunnelEnd, ways: &mut impl Ways) -> Result<u32, CompileError> {
    let missing = CompileError::NoTunnel { far: far.id, address: end.address };
    ways.tunnel(instance, end.address).ok_or(missing)
}

/// The network instance as an action has it.
fn instance(id: InstanceId) -> Result<u8, CompileError> {
    u8::try_from(id).map_err(|_| CompileError::TooMany { what: "network instances to choose from", most: 256 })
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
    /// The marks of a rule with those QERs. An action has room for either a paging policy or a DSCP.
    fn of(session: &Session, pdr: &Pdr, qers: &Few<MAX_QERS>) -> Result<Self, CompileError> {
        let own = || qers.list().iter().map(|at| &session.qers[*at]);
        let mut marks = Self { qfi: own().find_map(|qer| qer.qfi), ..Self::default() };
        if !pdr.source.is_uplink() {
            marks.reflective = own().any(|qer| qer.reflective);
            marks.paging_policy = own().find_map(|qer| qer.paging_policy).filter(|_| marks.qfi.is_some());
            marks.dscp = own().find_map(|qer| qer.mark);
        }
        if marks.paging_policy.is_some() && marks.dscp.is_some() {
            return Err(CompileError::Marks { pdr: pdr.id });
        }
        Ok(marks)
    }

    /// The QoS flow with its flags.
    fn container(&self) -> Option<u8> {
        let reflective = if self.reflective { container::RQI } else { 0 };
        let policy = if self.paging_policy.is_some() { container::PPP } else { 0 };
        self.qfi.map(|qfi| qfi | reflective | policy)
    }
}

/// The headers of a tunnel, with the QoS flow where there is one.
fn encap_of(header: Outer, qfi: Option<u8>) -> Encap {
    match (header, qfi) {
        (Outer::GtpU, Some(qfi)) => Encap::container(qfi),
        (Outer::GtpU, None) => Encap::of(encap::GTPU),
        (Outer::Udp, _) => Encap::of(encap::UDP),
        (Outer::Ip, _) => Encap::of(encap::IP),
        (Outer::Nothing, _) => Encap::of(encap::NEXT_HOP),
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::record::Id;

    /// Every address has tunnel 3, and every page is number 5.
    struct Everywhere;

    impl Ways for Everywhere {
        fn tunnel(&mut self, _instance: InstanceId, _to: IpAddr) -> Option<u32> {
            Some(3)
        }

        fn control_end(&mut self, _address: IpAddr) -> Option<u32> {
            Some(4)
        }

        fn page(&mut self, _url: &str) -> Option<u32> {
            Some(5)
        }
    }

    #[test]
    fn tunnel_does_not_hide_the_page() {
        let end = TunnelEnd::gtpu([192, 0, 2, 1].into(), 0x1234);
        let page = Some("http://portal.example/".into());
        let far = Far { apply: Apply::Redirect, tunnel: Some(end), page, ..Far::default() };
        let action = own_action(&far, 1, Marks::default(), &mut Everywhere).expect("an action");
        assert_eq!((action.what(), action.id()), (kind::REDIRECT, Id::Page(5)));
        let forward = Far { apply: Apply::Forward, ..far };
        let action = own_action(&forward, 1, Marks::default(), &mut Everywhere).expect("an action");
        assert_eq!((action.what(), action.id(), action.tunnel), (kind::FORWARD, Id::Teid(0x1234), 3));
    }
}
