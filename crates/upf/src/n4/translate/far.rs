//! FARs: where packets go, and their duplicates (5.2.1, 5.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::forward::InstanceId;
use pfcp::group::{CreateFar, DuplicatingParameters};
use pfcp::ie::{ApplyAction, Cause, DestinationInterface, FailedRuleId, OuterHeaderCreation, RedirectInformation};

use super::Translator;
use crate::n4::catalogue::Policy;
use crate::n4::change::LeftTunnel;
use crate::n4::networks::ControlPath;
use crate::n4::problem::Problem;
use crate::rules::{Apply, Duplicate, Far, Interface, Outer, Pdr, Session, TunnelEnd};

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
        new.dscp = way.transport_level_marking.map(|marking| marking.traffic_class >> 2);
        if new.to_control {
            if apply == Apply::Forward {
                let header = way.outer_header_creation.as_ref();
                self.to_control(&mut new, header).map_err(|problem| problem.in_rule(rule))?;
            }
            return Ok(new);
        }
        new.instance = match &way.outer_header_creation {
            Some(header) if is_gtpu(header) => self.networks.find_tunnelled(way.network_instance.as_ref()),
            _ => self.networks.find(way.network_instance.as_ref(), to_access),
        };
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

    /// Lets a FAR lead to the control plane's function: through a port, or by the socket at the N4 address. One that names
    /// no tunnel of the control plane's, or an address that nothing leads to, ends packets by name.
    fn to_control(&self, far: &mut Far, header: Option<&OuterHeaderCreation>) -> Result<(), Problem> {
        let header = header.filter(|header| is_gtpu(header));
        let end =
            |address, header: &OuterHeaderCreation| TunnelEnd::gtpu(address, header.teid.map_or(0, |teid| teid.0));
        far.apply = Apply::Control;
        match (self.networks.control_path(), header) {
            (ControlPath::Port(instance), Some(header)) => {
                (far.apply, far.instance) = (Apply::Forward, instance);
                far.tunnel = Some(self.tunnel_end(header, instance)?);
            }
            (ControlPath::Socket(IpAddr::V4(_)), Some(header)) => {
                far.tunnel = header.ip4.map(|address| end(address.into(), header));
            }
            (ControlPath::Socket(IpAddr::V6(_)), Some(header)) => {
                far.tunnel = header.ip6.map(|address| end(address.into(), header));
            }
            (ControlPath::None, _) | (_, None) => {}
        }
        Ok(())
    }

    /// The end of a tunnel that packets no longer take, and its network.
    pub(crate) fn left_tunnel(&self, left: &LeftTunnel) -> Option<(InstanceId, TunnelEnd)> {
        let way = left.far.forwarding_parameters.as_ref()?;
        // A control plane's function does not take End Markers.
        if way.destination_interface == DestinationInterface::CpFunction {
            return None;
        }
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
    dataplane::redirect::page(&url).map(|_| url).ok_or(wrong)
}

/// Leaves out downlink PDRs of dedicated QoS flows that the radio network has not accepted yet: their FARs buffer and have
/// never had a tunnel. Open5GS's SMF creates them so before it asks the gNB, and expects that packets go, or wait, by the
/// default flow's PDR meanwhile.
pub(super) fn leave_out_pending(session: &mut Session) {
    let far = |id: u32| session.fars.iter().find(|far| far.id == id);
    let is_plain = |pdr: &Pdr| pdr.source == Interface::Core && pdr.teid.is_none();
    let is_default = |pdr: &&Pdr| {
        let takes = |far: &Far| matches!(far.apply, Apply::Forward | Apply::Buffer);
        is_plain(pdr) && pdr.filters.is_empty() && far(pdr.far).is_some_and(takes)
    };
    let Some(default) = session.pdrs.iter().filter(is_default).map(|pdr| pdr.precedence).max() else { return };
    let is_pending = |pdr: &Pdr| {
        let waits = |far: &Far| far.apply == Apply::Buffer && far.tunnel.is_none();
        is_plain(pdr) && !pdr.filters.is_empty() && pdr.precedence < default && far(pdr.far).is_some_and(waits)
    };
    let pending: Vec<u16> = session.pdrs.iter().filter(|pdr| is_pending(pdr)).map(|pdr| pdr.id).collect();
    session.pdrs.retain(|pdr| pdr.source != Interface::Core || !pending.contains(&pdr.id));
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
