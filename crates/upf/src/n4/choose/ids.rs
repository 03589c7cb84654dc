//! CHOOSE IDs of a session (3GPP TS 29.244, 5.5.3): which F-TEID was chosen for which.
//!
//! The standard promises the same F-TEID to PDRs of one request only. Control planes send a CHOOSE ID again in later
//! requests about the session and expect the F-TEID that they have, so it is kept as long as a PDR or traffic endpoint of
//! the session uses it. It is kept with the session's rules, as IEs that are never sent, and so survives a restart.

use std::cell::Cell;

use pfcp::ie::{FTeid, NetworkInstance, SourceInterface};
use pfcp::{Element, RawIe, Reader};
use wire::Teid;

use crate::n4::change::Rules;

/// The IE's type: a vendor's (8.1.1), of the reserved Enterprise ID 0.
const TYPE: u16 = u16::MAX;
const ENTERPRISE: [u8; 2] = [0; 2];
/// In the place of the source interface: a traffic endpoint, which has none.
const NO_INTERFACE: u8 = u8::MAX;

/// What tells CHOOSE IDs of a session apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChooseKey {
    id: u8,
    interface: u8,
    /// Families asked for: IPv4, IPv6.
    families: [bool; 2],
    network: Option<Box<str>>,
}

impl ChooseKey {
    /// The key of a CHOOSE in a PDI (with its source interface) or traffic endpoint; `None` if it has no ID.
    pub fn of(asked: &FTeid, interface: Option<SourceInterface>, network: Option<&NetworkInstance>) -> Option<Self> {
        let FTeid::Choose { ip4, ip6, id: Some(id) } = *asked else { return None };
        let interface = interface.map_or(NO_INTERFACE, |interface| interface as u8);
        Some(Self { id, interface, families: [ip4, ip6], network: network.map(|network| network.text.clone()) })
    }
}

/// The F-TEIDs chosen for a session's CHOOSE IDs.
#[derive(Debug, Default)]
pub struct ChooseIds(Vec<(ChooseKey, FTeid)>);

impl ChooseIds {
    /// Takes them out of a session's rules. Those that a request about a new session brings are not ours.
    pub fn take(rules: &mut Rules, is_new: bool) -> Self {
        let (own, others) = std::mem::take(&mut rules.others).into_iter().partition(|ie: &RawIe| ie.ie == TYPE);
        rules.others = others;
        let own: Vec<RawIe> = own;
        Self(own.iter().filter(|_| !is_new).filter_map(read).collect())
    }

    /// The F-TEID of a CHOOSE ID.
    pub fn get(&self, key: &ChooseKey) -> Option<FTeid> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, tunnel)| *tunnel)
    }

    /// Notes the F-TEID of a CHOOSE ID.
    pub fn set(&mut self, key: ChooseKey, tunnel: FTeid) {
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, tunnel));
    }

    /// Keeps those that the rules use, with the rules.
    pub fn keep(self, rules: &mut Rules) {
        let of_pdrs = rules.create_pdrs.iter().filter_map(|pdr| pdr.pdi.local_f_teid);
        let of_endpoints = rules.create_traffic_endpoints.iter().filter_map(|endpoint| endpoint.local_f_teid);
        let used: Vec<Teid> = of_pdrs.chain(of_endpoints).filter_map(teid).collect();
        let is_used = |tunnel: &FTeid| teid(*tunnel).is_some_and(|teid| used.contains(&teid));
        rules.others.extend(self.0.iter().filter(|(_, tunnel)| is_used(tunnel)).map(write));
    }
}

fn teid(tunnel: FTeid) -> Option<Teid> {
    match tunnel {
        FTeid::Given { teid, .. } => Some(teid),
        FTeid::Choose { .. } => None,
    }
}

/// Enterprise ID, CHOOSE ID, source interface, families, whether a network follows, F-TEID after its length, network.
fn write((key, tunnel): &(ChooseKey, FTeid)) -> RawIe {
    let mut f_teid = Vec::new();
    tunnel.emit(&mut f_teid);
    let flags = key.families.map(u8::from);
    let mut content = ENTERPRISE.to_vec();
    content.extend([key.id, key.interface, flags[0], flags[1], u8::from(key.network.is_some())]);
    content.push(f_teid.len() as u8); // 25 octets at most
    content.extend(f_teid);
    content.extend(key.network.iter().flat_map(|network| network.bytes()));
    RawIe { ie: TYPE, content: content.into() }
}

fn read(ie: &RawIe) -> Option<(ChooseKey, FTeid)> {
    let budget = Cell::new(0);
    let mut content = Reader::new(ie.content.strip_prefix(&ENTERPRISE)?, &budget);
    let [id, interface, ip4, ip6, has_network] = content.array().ok()?;
    let f_teid = content.octets8().ok()?;
    let tunnel = FTeid::parse(&mut Reader::new(&f_teid, &budget)).ok()?;
    let len = content.len();
    let network = (has_network != 0).then(|| content.text(len)).transpose().ok()?;
    Some((ChooseKey { id, interface, families: [ip4 != 0, ip6 != 0], network }, tunnel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pfcp::group::CreatePdr;

    #[test]
    fn ids_are_read_as_written_while_used() {
        let asked = FTeid::Choose { ip4: true, ip6: false, id: Some(5) };
        let tunnels = [1, 2].map(|n| FTeid::new(Teid(n), [10, 0, 3, 1].into()));
        let network = NetworkInstance::from("internet");
        let keys = [
            ChooseKey::of(&asked, Some(SourceInterface::Access), Some(&network)).expect("an ID"),
            ChooseKey::of(&asked, None, None).expect("an ID"),
        ];
        let mut rules = Rules { create_pdrs: vec![CreatePdr::default(), CreatePdr::default()], ..Rules::default() };
        let mut ids = ChooseIds::default();
        for ((pdr, tunnel), key) in rules.create_pdrs.iter_mut().zip(tunnels).zip(&keys) {
            pdr.pdi.local_f_teid = Some(tunnel);
            ids.set(key.clone(), tunnel);
        }
        ids.keep(&mut rules);
        let kept = ChooseIds::take(&mut rules, false);
        assert_eq!(keys.each_ref().map(|key| kept.get(key)), tunnels.map(Some));
        rules.create_pdrs.remove(0);
        kept.keep(&mut rules);
        let kept = ChooseIds::take(&mut rules, false);
        assert_eq!(keys.each_ref().map(|key| kept.get(key)), [None, Some(tunnels[1])]);
        kept.keep(&mut rules);
        assert!(ChooseIds::take(&mut rules, true).get(&keys[1]).is_none(), "a peer's IE of that type means nothing");
        assert!(rules.others.is_empty());
    }
}
