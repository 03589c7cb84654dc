//! One subscriber's session in words: its rules as control knows them, its usage as the worker measured it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::Simulate;
use crate::rules::{Apply, Credit, Far, Interface, Mbr, Outer, PacketLimit, Pdr, Qer, Session, TunnelEnd, Urr, Usage};

use super::observer::Observer;
use super::protocol::{ControlPlaneView, CreditView, RuleUsage, RuleView, SessionView};
use super::query::{Query, QueryAnswer};
use gateway::shell::Product;
use ledger::Seid;

impl Observer {
    /// A subscriber's session, by its address.
    ///
    /// # Errors
    /// A sentence: there is none, or its worker does not answer.
    pub fn session(&self, ue: IpAddr) -> Result<SessionView, String> {
        if self.n4.is_some() {
            return self.session_of_control_plane(ue);
        }
        let (session, worker, handle) = {
            let control = self.control();
            let simulator = control.simulator().ok_or("there are no sessions: the configuration simulates none")?;
            let simulate = simulator.config();
            let i = index(simulate, ue).ok_or_else(|| format!("no session has the address {ue}"))?;
            let (worker, handle) = control.place(i);
            (simulator.session(i, i < simulate.idle), worker, handle)
        };
        self.view(ue, &session, (worker, handle), None)
    }

    /// As [`session`](Self::session), of one that a control plane brought.
    fn session_of_control_plane(&self, ue: IpAddr) -> Result<SessionView, String> {
        let none = || format!("no session has the address {ue}");
        let clock = self.shell().wall_clock();
        let (session, place, whose) = {
            let n4 = self.n4().ok_or_else(none)?;
            let sessions = n4.endpoint().sessions();
            let number = sessions.find_subscriber(ue).ok_or_else(none)?;
            let entry = sessions.store().get(number).ok_or_else(none)?;
            let peer = n4.endpoint().node().associations().find(|(id, _)| id.0 == entry.peer);
            let peer =
                peer.map_or_else(|| "a control plane that is gone".to_owned(), |(_, peer)| peer.address.to_string());
            let ours = sessions.store().seid(number).unwrap_or_default();
            let session = sessions.session(number, &clock).ok_or_else(none)?;
            let control_plane = ControlPlaneView { address: peer, cp_seid: Seid(entry.cp_seid), up_seid: Seid(ours) };
            (session, (entry.worker, number), control_plane)
        };
        self.view(ue, &session, place, Some(whose))
    }

    /// A session in words, with what its worker says of it.
    fn view(
        &self,
        ue: IpAddr,
        session: &Session,
        (worker, handle): (u16, u32),
        control_plane: Option<ControlPlaneView>,
    ) -> Result<SessionView, String> {
        let query = self.queries.get(usize::from(worker)).ok_or("its worker is not there")?;
        let ((usage, credits, fast_path), now) = match query.ask(Query::Usage { handle }) {
            Some(QueryAnswer::Usage(Some(measured), now)) => (measured, now),
            Some(_) => return Err(format!("no session has the address {ue} now")),
            None => return Err(format!("worker {worker} does not answer")),
        };
        let addresses = [session.ue4.map(IpAddr::from), session.ue6.map(IpAddr::from)];
        Ok(SessionView {
            addresses: addresses.into_iter().flatten().collect(),
            worker,
            handle,
            instance: self.config().instances().get(usize::from(session.instance)).cloned().unwrap_or_default(),
            rules: rules(session),
            usage: usage.iter().map(|usage| measured(usage, now)).collect(),
            credits: credits.iter().map(credit).collect(),
            control_plane,
            fast_path,
        })
    }
}

impl Observer {
    /// Rules that a subscriber's PDRs name, for a trace: `PDR 1` and `FAR 1, QER 1, URR 1`; empty: there is no such session.
    pub(super) fn rules_of(&self, ue: IpAddr) -> Vec<(String, String)> {
        let clock = self.shell().wall_clock();
        let session = match self.n4() {
            Some(n4) => {
                let sessions = n4.endpoint().sessions();
                sessions.find_subscriber(ue).and_then(|number| sessions.session(number, &clock))
            }
            None => {
                let control = self.control();
                let simulated = |simulator: &crate::simulate::Simulator| {
                    let i = index(simulator.config(), ue)?;
                    Some(simulator.session(i, i < simulator.config().idle))
                };
                control.simulator().and_then(simulated)
            }
        };
        let named = |pdr: &Pdr| {
            let list = |kind: &str, ids: &[u32]| ids.iter().map(|id| format!(", {kind} {id}")).collect::<String>();
            let rules = format!("FAR {}{}{}", pdr.far, list("QER", &pdr.qers), list("URR", &pdr.urrs));
            (format!("PDR {}", pdr.id), rules)
        };
        session.iter().flat_map(|session| &session.pdrs).map(named).collect()
    }
}

/// Which subscriber has an address.
pub(super) fn index(simulate: &Simulate, ue: IpAddr) -> Option<u32> {
    let i = match ue {
        IpAddr::V4(address) => Ipv4Addr::to_bits(address).checked_sub(simulate.first4()?.to_bits())?,
        IpAddr::V6(address) => {
            let prefix = |a: Ipv6Addr| (a.to_bits() >> 64) as u64;
            u32::try_from(prefix(address).checked_sub(prefix(simulate.ue6_first?))?).ok()?
        }
    };
    (i < simulate.ues).then_some(i)
}

fn measured(usage: &Usage, now: u64) -> RuleUsage {
    let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    RuleUsage {
        urr: usage.urr,
        up_packets: usage.up_packets,
        up_bytes: usage.up_bytes,
        down_packets: usage.down_packets,
        down_bytes: usage.down_bytes,
        seconds: seconds(usage.first_ns, usage.last_ns),
        idle: (usage.last_ns > 0).then(|| seconds(usage.last_ns, now)),
    }
}

fn credit(credit: &Credit) -> CreditView {
    CreditView {
        qer: credit.qer,
        direction: if credit.is_uplink { "up" } else { "down" }.to_owned(),
        unit: if credit.packets { "packets" } else { "bytes" }.to_owned(),
        left: credit.left,
        of: credit.of,
    }
}

fn rules(session: &Session) -> Vec<RuleView> {
    let rule = |kind: &str, id: u32, text: String| RuleView { kind: kind.to_owned(), id, text };
    let mut all = Vec::new();
    for pdr in &session.pdrs {
        all.push(rule("pdr", pdr.id.into(), pdr_text(pdr)));
        let flows = pdr.filters.iter().filter_map(|filter| filter.flow.as_ref());
        all.extend(flows.map(|flow| rule("pdr", pdr.id.into(), format!("  if {flow}"))));
    }
    for far in &session.fars {
        all.push(rule("far", far.id, far_text(far)));
    }
    for qer in &session.qers {
        all.push(rule("qer", qer.id, qer_text(qer)));
    }
    for urr in &session.urrs {
        all.push(rule("urr", urr.id, urr_text(urr)));
    }
    all
}

fn pdr_text(pdr: &Pdr) -> String {
    let mut text = match pdr.source {
        Interface::Access => "from access".to_owned(),
        Interface::Core => "from core".to_owned(),
        Interface::CpFunction => "from the control plane".to_owned(),
    };
    text += &format!(", precedence {}", pdr.precedence);
    if let Some(teid) = pdr.teid {
        text += &format!(", teid {teid:#010x}");
    }
    if let Some(qfi) = pdr.qfi {
        text += &format!(", qfi {qfi}");
    }
    match pdr.filters.len() {
        0 => text += ", any packet",
        n => text += &format!(", {}", gateway::tables::many(n, "filter")),
    }
    text += &format!(" → far {}", pdr.far);
    for (kind, list) in [("qer", &pdr.qers), ("urr", &pdr.urrs)] {
        for id in list {
            text += &format!(", {kind} {id}");
        }
    }
    text
}

fn far_text(far: &Far) -> String {
    let mut text = match far.apply {
        Apply::Forward => "forward",
        Apply::Drop => "drop",
        Apply::Buffer => "buffer",
        Apply::Redirect => "redirect",
        Apply::Closed => "closed, quota used up",
        Apply::Control => "forward to the control plane from the N4 address",
    }
    .to_owned();
    if let Some(page) = &far.page {
        text += &format!(" to {page}");
    }
    if let Some(tunnel) = far.tunnel {
        text += &format!(" to {}", end_text(&tunnel));
    }
    for duplicate in &far.duplicates {
        text += &format!(", duplicate to {}", end_text(&duplicate.tunnel));
    }
    if let Some(dscp) = far.dscp {
        text += &format!(", dscp {dscp}");
    }
    text
}

fn end_text(end: &TunnelEnd) -> String {
    match end.outer {
        Outer::GtpU => format!("{} teid {:#010x}", end.address, end.teid),
        Outer::Udp => format!("{} by UDP port {}", end.address, end.teid),
        Outer::Ip => format!("{} by IP", end.address),
        Outer::Nothing => format!("{}, the next hop", end.address),
    }
}

fn qer_text(qer: &Qer) -> String {
    let gate = |open: bool| if open { "open" } else { "closed" };
    let Mbr { up, down } = qer.mbr;
    let rate = |rate: Option<u64>| rate.map_or("no limit".to_owned(), |r| format!("{}bit/s", spaced(r)));
    let mut text = format!("gate {}/{}, up {}, down {}", gate(qer.gate_up), gate(qer.gate_down), rate(up), rate(down));
    if qer.gbr != Mbr::default() {
        text += &format!(", guaranteed {}/{}", rate(qer.gbr.up), rate(qer.gbr.down));
    }
    if let Some(qfi) = qer.qfi {
        text += &format!(", marks qfi {qfi}");
    }
    if qer.reflective {
        text += ", reflective";
    }
    if let Some(policy) = qer.paging_policy {
        text += &format!(", paging policy {policy}");
    }
    if let Some(dscp) = qer.mark {
        text += &format!(", marks dscp {dscp} downlink");
    }
    for (way, limit) in ["up", "down"].into_iter().zip(qer.packets) {
        if let Some(PacketLimit { most, period_ns }) = limit {
            let time = gateway::tables::duration(period_ns as f64 / 1e9);
            text += &format!(", {way} {most} packets in {time}");
        }
    }
    if qer.session {
        text += ", whole session";
    }
    text
}

fn urr_text(urr: &Urr) -> String {
    if urr.id == crate::n4::translate::WATCH {
        return "ours: packets that no other rule measures end the session's silence".to_owned();
    }
    let mut text = "volume, packets, time".to_owned();
    for (what, volumes) in [("reports at", urr.threshold), ("ends at", urr.quota)] {
        for (of, octets) in [("", volumes.total), (" up", volumes.up), (" down", volumes.down)] {
            text += &octets.map_or_else(String::new, |n| format!(", {what} {}{of}", gateway::tables::bytes(n)));
        }
    }
    if urr.before_qos {
        text += ", before gates and rates";
    }
    if urr.paused {
        text += ", not for now";
    }
    text
}

/// `100 M`, `7 `.
fn spaced(rate: u64) -> String {
    let text = gateway::tables::si(rate as f64);
    if text.contains(' ') { text } else { text + " " }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_is_found_by_its_address() {
        let first6 = "2001:db8:0:5::".parse().unwrap();
        let first4 = Some([10, 60, 0, 1].into());
        let simulate = Simulate { ues: 3, ue_first: first4, ue6_first: Some(first6), ..Simulate::default() };
        let find = |text: &str| index(&simulate, text.parse().unwrap());
        assert_eq!((find("10.60.0.1"), find("10.60.0.3"), find("10.60.0.4")), (Some(0), Some(2), None));
        assert_eq!((find("2001:db8:0:6::99"), find("2001:db8:0:4::1"), find("10.0.0.0")), (Some(1), None, None));
    }
}
