//! One subscriber's session in words: its rules as control knows them, its usage as the worker measured it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use upf::config::Simulate;
use upf::rules::{Apply, Far, Interface, Mbr, Pdr, Qer, Session, Urr, Usage};

use crate::asked::{Answer, Question};
use crate::observer::Observer;
use crate::socket::{RuleUsage, SessionView};

impl Observer {
    /// A subscriber's session, by its address.
    ///
    /// # Errors
    /// A sentence: there is none, or its worker does not answer.
    pub fn session(&self, ue: IpAddr) -> Result<SessionView, String> {
        let (session, worker, handle) = {
            let control = self.control();
            let simulator = control.simulator().ok_or("there are no sessions: the configuration simulates none")?;
            let simulate = simulator.config();
            let i = index(simulate, ue).ok_or_else(|| format!("no session has the address {ue}"))?;
            let (worker, handle) = control.place(i);
            (simulator.session(i, i < simulate.idle), worker, handle)
        };
        let ends = self.workers.get(usize::from(worker)).ok_or("its worker is not there")?;
        let (usage, now) = match ends.asker.ask(Question::Usage { handle }) {
            Some(Answer::Usage(Some(usage), now)) => (usage, now),
            Some(_) => return Err(format!("no session has the address {ue} now")),
            None => return Err(format!("worker {worker} does not answer")),
        };
        let addresses = [session.ue4.map(IpAddr::from), session.ue6.map(IpAddr::from)];
        Ok(SessionView {
            addresses: addresses.into_iter().flatten().collect(),
            worker,
            handle,
            instance: self.config.instances().get(usize::from(session.instance)).cloned().unwrap_or_default(),
            rules: rules(&session),
            usage: usage.iter().map(|usage| measured(usage, now)).collect(),
        })
    }
}

/// Which subscriber has an address.
fn index(simulate: &Simulate, ue: IpAddr) -> Option<u32> {
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

fn rules(session: &Session) -> Vec<(String, u32, String)> {
    let mut all = Vec::new();
    for pdr in &session.pdrs {
        all.push(("pdr".to_owned(), pdr.id.into(), pdr_text(pdr)));
        let flows = pdr.filters.iter().filter_map(|filter| filter.flow.as_ref());
        all.extend(flows.map(|flow| ("pdr".to_owned(), pdr.id.into(), format!("  if {flow}"))));
    }
    for far in &session.fars {
        all.push(("far".to_owned(), far.id, far_text(far)));
    }
    for qer in &session.qers {
        all.push(("qer".to_owned(), qer.id, qer_text(qer)));
    }
    for Urr { id, .. } in &session.urrs {
        all.push(("urr".to_owned(), *id, "volume, packets, time".to_owned()));
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
        n => text += &format!(", {}", crate::tables::many(n, "filter")),
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
    }
    .to_owned();
    if let Some(page) = &far.page {
        text += &format!(" to {page}");
    }
    if let Some(tunnel) = far.tunnel {
        text += &format!(" to {} teid {:#010x}", tunnel.address, tunnel.teid);
    }
    if let Some(dscp) = far.dscp {
        text += &format!(", dscp {dscp}");
    }
    text
}

fn qer_text(qer: &Qer) -> String {
    let gate = |open: bool| if open { "open" } else { "closed" };
    let Mbr { up, down } = qer.mbr;
    let rate = |rate: Option<u64>| rate.map_or("no limit".to_owned(), |r| format!("{}bit/s", spaced(r)));
    let mut text = format!("gate {}/{}, up {}, down {}", gate(qer.gate_up), gate(qer.gate_down), rate(up), rate(down));
    if let Some(qfi) = qer.qfi {
        text += &format!(", marks qfi {qfi}");
    }
    if qer.session {
        text += ", whole session";
    }
    text
}

/// `100 M`, `7 `.
fn spaced(rate: u64) -> String {
    let text = crate::tables::si(rate as f64);
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
