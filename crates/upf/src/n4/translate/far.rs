//! FARs: where packets go, and their duplicates (5.2.1, 5.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pfcp::group::{CreateFar, DuplicatingParameters};
use pfcp::ie::{ApplyAction, Cause, DestinationInterface, FailedRuleId, OuterHeaderCreation, RedirectInformation};
use stages::forward::InstanceId;

use super::Translator;
use crate::n4::catalogue::Policy;
use crate::n4::change::LeftTunnel;
use crate::n4::problem::Problem;
use crate::rules::{Apply, Duplicate, Far, Outer, Session, TunnelEnd};

/// Set in the ID of a FAR that only what we say ourselves passes by; control planes give no such IDs (8.2.74).
pub(super) const CLOSED: u32 = 1 << 31;

impl Translator<'_> {
    /// What a FAR does with packets; where, if it has a way.
    pub(super) fn far(&self, far: &CreateFar) -> Result<Far, Problem> {
        let rule = FailedRuleId::Far(far.far_id.0);
        let action = far.apply_action;
        let way = far.forwarding_parameters.as_ref();
        let page = way.and_then(|way| way.redirect_information.as_ref()).map(page).transpose();
        let page = page.map_err(|problem| problem.in_rule(rule))?;
        let apply = if action.contains(ApplyAction::FORW) && page.is_some() {
            Apply::Redirect
        } else if action.contains(ApplyAction::FORW) {
            Apply::Forward
        } else if action.contains(ApplyAction::BUFF) {
            Apply::Buffer
        } else {
            Apply::Drop
        };
        let mut new = Far { id: far.far_id.0, apply, page, ..Far::default() };
        if action.contains(ApplyAction::DUPL) {
            let duplicates = far.duplicating_parameters.iter().map(|way| self.duplicate(way));
            new.duplicates = duplicates.collect::<Result<_, _>>().map_err(|problem| problem.in_rule(rule))?;
        }
        let Some(way) = &far.forwarding_parameters else { return Ok(new) };
        let to_access = way.destination_interface == DestinationInterface::Access;
        (new.to_access, new.to_control) = (to_access, way.destination_interface == DestinationInterface::CpFunction);
        new.instance = match &way.outer_header_creation {
            Some(header) if is_gtpu(header) => self.networks.find_tunnelled(way.network_instance.as_ref()),
            _ => self.networks.find(way.network_instance.as_ref(), to_access || new.to_control),
        };
        new.dscp = way.transport_level_marking.map(|marking| marking.traffic_class >> 2);
        if let Some(header) = &way.outer_header_creation {
            let end = self.tunnel_end(header, new.instance).map_err(|problem| problem.in_rule(rule))?;
            new.tunnel = Some(end);
        } else if to_access && apply == Apply::Forward {
            // Towards a subscriber there is no way but a tunnel: nothing is to be forwarded yet.
            new.apply = Apply::Drop;
        }
        if let Some(name) = &way.forwarding_policy {
            self.catalogue.policy(name).map_err(|problem| problem.in_rule(rule))?.apply(&mut new);
        }
        Ok(new)
    }

    /// The end of a tunnel that packets no longer take, and its network.
    pub fn left_tunnel(&self, left: &LeftTunnel) -> Option<(InstanceId, TunnelEnd)> {
        let way = left.far.forwarding_parameters.as_ref()?;
        let instance = self.networks.find_tunnelled(way.network_instance.as_ref());
        let end = self.tunnel_end(&left.header, instance).ok()?;
        Some((instance, end)).filter(|(_, end)| end.outer == Outer::GtpU)
    }

    /// Where duplicates go (7.5.2.3-3): into a tunnel. Routed by their own addresses they would reach their destination
    /// twice.
    fn duplicate(&self, way: &DuplicatingParameters) -> Result<Duplicate, Problem> {
        let header = way.outer_header_creation.as_ref().ok_or(Problem::missing::<OuterHeaderCreation>())?;
        let instance = match is_gtpu(header) {
            true => self.networks.find_tunnelled(None),
            false => self.networks.find(None, way.destination_interface == DestinationInterface::Access),
        };
        let policy = way.forwarding_policy.as_ref().map(|name| self.catalogue.policy(name)).transpose()?;
        let marking = way.transport_level_marking.map(|marking| marking.traffic_class >> 2);
        let dscp = marking.or(policy.and_then(Policy::dscp));
        Ok(Duplicate { tunnel: self.tunnel_end(header, instance)?, instance, dscp })
    }

    /// The end of a tunnel: with both addresses given, the family that we have an address of.
    fn tunnel_end(&self, header: &OuterHeaderCreation, instance: InstanceId) -> Result<TunnelEnd, Problem> {
        use OuterHeaderCreation as Header;
        if header.has(Header::C_TAG | Header::S_TAG) {
            // For Ethernet sessions (5.13.1), which there are none of here.
            return Err(Problem::of(Cause::SERVICE_NOT_SUPPORTED));
        }
        let outer = match header {
            _ if is_gtpu(header) => Outer::GtpU,
            _ if header.has(Header::UDP_IP4 | Header::UDP_IP6) => Outer::Udp,
            _ if header.has(Header::IP4 | Header::IP6) => Outer::Ip,
            _ => return Err(Problem::incorrect::<Header>()),
        };
        let (ours4, ours6) = self.networks.endpoint(instance);
        let four = header.ip4.filter(|_| ours4.is_some()).map(IpAddr::V4);
        let six = header.ip6.filter(|_| ours6.is_some()).map(IpAddr::V6);
        let address = four.or(six).ok_or(Problem::of(Cause::RULE_CREATION_MODIFICATION_FAILURE))?;
        let number = if outer == Outer::Udp { header.port.map(u32::from) } else { header.teid.map(|teid| teid.0) };
        Ok(TunnelEnd { address, teid: number.unwrap_or(0), outer })
    }
}

/// Whether a tunnel is one of GTP-U.
fn is_gtpu(header: &OuterHeaderCreation) -> bool {
    header.has(OuterHeaderCreation::GTP_U_IP4 | OuterHeaderCreation::GTP_U_IP6)
}

/// The page that subscribers are sent to: of an address, the one it serves.
fn page(to: &RedirectInformation) -> Result<Box<str>, Problem> {
    let wrong = Problem::incorrect::<RedirectInformation>();
    let url: Box<str> = match to.kind {
        0 | 4 => format!("http://{}/", to.address.parse::<Ipv4Addr>().map_err(|_| wrong)?).into(),
        1 => format!("http://[{}]/", to.address.parse::<Ipv6Addr>().map_err(|_| wrong)?).into(),
        2 => to.address.clone(),
        // Nobody here speaks SIP.
        _ => return Err(Problem::of(Cause::SERVICE_NOT_SUPPORTED)),
    };
    stages::redirect::page(&url).map(|_| url).ok_or(wrong)
}

/// Enters those FARs that rules name with [`CLOSED`]: as their own, but only what we say ourselves passes.
pub(super) fn close(session: &mut Session) {
    for id in closed(session) {
        let own = session.fars.iter().find(|far| far.id == id & !CLOSED).cloned();
        session.fars.extend(own.map(|far| {
            let apply = if far.apply == Apply::Forward { Apply::Closed } else { far.apply };
            Far { id, apply, ..far }
        }));
    }
}

/// Such FARs that rules name.
fn closed(session: &Session) -> Vec<u32> {
    let mut ids: Vec<u32> = session.pdrs.iter().map(|pdr| pdr.far).filter(|far| far & CLOSED != 0).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|id| session.fars.iter().all(|far| far.id != *id));
    ids
}
