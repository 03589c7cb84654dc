//! Identifiers left to us: F-TEIDs with CHOOSE, addresses with CHV4 and CHV6 (3GPP TS 29.244, 5.5.3 and 5.21).

mod ids;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::forward::InstanceId;
use pfcp::group::{CreatedPdr, CreatedTrafficEndpoint};
use pfcp::ie::{Cause, FTeid, FailedRuleId, NetworkInstance, SourceInterface, UeIpAddress};
use wire::Teid;

use super::change::Rules;
use super::identifiers::Teids;
use super::networks::Networks;
use super::pools::AddressPools;
use super::problem::Problem;
use ids::{ChooseIds, ChooseKey};

/// What was chosen in one request, to be told to the control plane, or to be given back when the request fails.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// PDRs with something chosen.
    pub pdrs: Vec<CreatedPdr>,
    /// Traffic endpoints with something chosen.
    pub endpoints: Vec<CreatedTrafficEndpoint>,
    /// Tunnel endpoints taken.
    pub teids: Vec<u32>,
    /// Addresses taken.
    pub addresses: Vec<(InstanceId, IpAddr)>,
}

/// What is needed to choose for a session.
pub struct Chooser<'a> {
    /// Names of networks.
    pub networks: &'a Networks,
    /// Tunnel endpoints.
    pub teids: &'a mut Teids,
    /// Addresses.
    pub pools: &'a mut AddressPools,
    /// The session's worker.
    pub worker: u16,
    /// Whether a tunnel endpoint is a session's.
    pub teid_used: &'a dyn Fn(u32) -> bool,
    /// Whether an address is a session's.
    pub address_used: &'a dyn Fn(InstanceId, IpAddr) -> bool,
}

/// F-TEIDs by CHOOSE ID.
struct Shared {
    /// Of this request: all of the same ID get the same (5.5.3).
    request: Vec<(u8, FTeid)>,
    /// Of earlier requests about the session.
    session: ChooseIds,
}

impl Chooser<'_> {
    /// Replaces every CHOOSE in the rules by what is chosen, for a session that is new or not. `home` is the subscriber's
    /// network.
    ///
    /// # Errors
    /// No address left; an address family that we don't have on that interface. What was taken by then is in `chosen`.
    pub fn choose(
        &mut self,
        rules: &mut Rules,
        is_new: bool,
        home: InstanceId,
        chosen: &mut Chosen,
    ) -> Result<(), Problem> {
        // One address a family and session, whichever PDRs ask for it.
        let mut given = (None, None);
        let mut shared = Shared { request: Vec::new(), session: ChooseIds::take(rules, is_new) };
        for endpoint in &mut rules.create_traffic_endpoints {
            let network = endpoint.network_instance.as_ref();
            let tunnel = self.tunnel(&mut endpoint.local_f_teid, None, network, &mut shared, chosen)?;
            let addresses = self.addresses(&mut endpoint.ue_ip_addresses, home, &mut given, chosen)?;
            if tunnel.is_some() || !addresses.is_empty() {
                chosen.endpoints.push(CreatedTrafficEndpoint {
                    traffic_endpoint_id: endpoint.traffic_endpoint_id,
                    local_f_teid: tunnel,
                    ue_ip_addresses: addresses,
                    ..CreatedTrafficEndpoint::default()
                });
            }
        }
        for pdr in &mut rules.create_pdrs {
            let rule = FailedRuleId::Pdr(pdr.pdr_id.0);
            let network = pdr.pdi.network_instance.as_ref();
            let from = Some(pdr.pdi.source_interface);
            let tunnel = self.tunnel(&mut pdr.pdi.local_f_teid, from, network, &mut shared, chosen);
            let tunnel = tunnel.map_err(|problem| problem.in_rule(rule))?;
            let addresses = self.addresses(&mut pdr.pdi.ue_ip_addresses, home, &mut given, chosen)?;
            if tunnel.is_some() || !addresses.is_empty() {
                chosen.pdrs.push(CreatedPdr {
                    pdr_id: pdr.pdr_id,
                    local_f_teid: tunnel,
                    ue_ip_addresses: addresses,
                    ..CreatedPdr::default()
                });
            }
        }
        shared.session.keep(rules);
        Ok(())
    }

    fn tunnel(
        &mut self,
        slot: &mut Option<FTeid>,
        from: Option<SourceInterface>,
        network: Option<&NetworkInstance>,
        shared: &mut Shared,
        chosen: &mut Chosen,
    ) -> Result<Option<FTeid>, Problem> {
        let Some(asked @ FTeid::Choose { ip4, ip6, id }) = *slot else { return Ok(None) };
        let key = ChooseKey::of(&asked, from, network);
        let of_request = id.and_then(|id| shared.request.iter().find(|(other, _)| *other == id));
        let known = of_request.map(|(_, tunnel)| *tunnel);
        let tunnel = match known.or_else(|| key.as_ref().and_then(|key| shared.session.get(key))) {
            Some(known) => known,
            None => self.new_tunnel((ip4, ip6), from, network, chosen)?,
        };
        shared.request.extend(id.map(|id| (id, tunnel)).filter(|_| known.is_none()));
        if let Some(key) = key {
            shared.session.set(key, tunnel);
        }
        *slot = Some(tunnel);
        Ok(*slot)
    }

    /// A tunnel endpoint that the session does not have yet.
    fn new_tunnel(
        &mut self,
        (ip4, ip6): (bool, bool),
        from: Option<SourceInterface>,
        network: Option<&NetworkInstance>,
        chosen: &mut Chosen,
    ) -> Result<FTeid, Problem> {
        let instance = self.networks.find_tunnelled(network);
        let of_control = from.filter(|from| *from == SourceInterface::CpFunction);
        let of_control = of_control.and_then(|_| self.networks.control_endpoint((ip4, ip6)));
        let (ours4, ours6) = of_control.unwrap_or_else(|| self.networks.endpoint(instance));
        let (ip4, ip6) = (ours4.filter(|_| ip4), ours6.filter(|_| ip6));
        if ip4.is_none() && ip6.is_none() {
            return Err(Problem::incorrect::<FTeid>());
        }
        let none_left = Problem::of(Cause::NO_RESOURCES_AVAILABLE);
        let teid = self.teids.take(self.worker, self.teid_used).ok_or(none_left)?;
        chosen.teids.push(teid);
        Ok(FTeid::Given { teid: Teid(teid), ip4, ip6 })
    }

    fn addresses(
        &mut self,
        list: &mut [UeIpAddress],
        home: InstanceId,
        given: &mut (Option<Ipv4Addr>, Option<Ipv6Addr>),
        chosen: &mut Chosen,
    ) -> Result<Vec<UeIpAddress>, Problem> {
        let mut told = Vec::new();
        let none_left = Problem::of(Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED);
        for address in list.iter_mut().filter(|address| address.choose_ip4 || address.choose_ip6) {
            if address.choose_ip4 && given.0.is_none() {
                let used = |ip4: Ipv4Addr| (self.address_used)(home, ip4.into());
                let new = self.pools.take4(home, self.worker, used).ok_or(none_left)?;
                chosen.addresses.push((home, new.into()));
                given.0 = Some(new);
            }
            if address.choose_ip6 && given.1.is_none() {
                let used = |ip6: Ipv6Addr| (self.address_used)(home, ip6.into());
                let new = self.pools.take6(home, self.worker, used).ok_or(none_left)?;
                chosen.addresses.push((home, new.into()));
                given.1 = Some(new);
            }
            if address.choose_ip4 {
                address.ip4 = given.0;
            }
            if address.choose_ip6 {
                address.ip6 = given.1;
            }
            (address.choose_ip4, address.choose_ip6) = (false, false);
            told.push(*address);
        }
        Ok(told)
    }
}
