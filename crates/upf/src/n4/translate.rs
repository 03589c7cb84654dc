//! From what a control plane said to what workers go by: PFCP's groups become [`rules`](crate::rules).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pfcp::group::{CreateFar, CreatePdr, CreateQer, CreateTrafficEndpoint, CreateUrr, DuplicatingParameters, Pdi};
use pfcp::ie::{
    ApplyAction, Cause, DestinationInterface, FTeid, FailedRuleId, FramedIp6Route, FramedRoute, MeasurementInformation,
    OuterHeaderCreation, OuterHeaderRemoval, PacketLimit as IeLimit, PacketRate, Precedence, RedirectInformation,
    SdfFilter, SourceInterface, UeIpAddress,
};
use stages::filter::{FlowDescription, Prefix, Sdf, Tos};
use stages::forward::InstanceId;

use super::catalogue::{Catalogue, Policy, Predefined};
use super::change::{LeftTunnel, Rules};
use super::metering::Metering;
use super::networks::Networks;
use super::problem::Problem;
use crate::config::Action;
use crate::record::{MAX_QERS, MAX_URRS};
use crate::routes::Route;
use crate::rules::{
    Apply, Duplicate, Far, Interface, Mbr, Outer, PacketLimit, Pdr, Qer, Session, TunnelEnd, Urr, Volumes,
};

/// What translation needs to know of the node.
pub struct Translator<'a> {
    /// Names of networks.
    pub networks: &'a Networks,
    /// The filters of applications, by name (PFDs, 5.11).
    pub applications: &'a HashMap<Box<str>, Vec<FlowDescription>>,
    /// What control planes know by name.
    pub catalogue: &'a Catalogue,
    /// Now, in seconds since 1970: rules may have a time.
    pub unix: u64,
}

impl Translator<'_> {
    /// The rules of a session. Identifiers have been chosen before; `meters` is what was measured up to now. What detects an
    /// application that nobody describes (any more) detects nothing.
    ///
    /// # Errors
    /// The rule that can not be, with the cause to answer.
    pub fn session(&self, rules: &Rules, meters: &[Metering]) -> Result<Session, Problem> {
        let mut session = Session {
            instance: self.home(rules),
            pdrs: Vec::with_capacity(rules.create_pdrs.len()),
            fars: Vec::with_capacity(rules.create_fars.len()),
            ..Session::default()
        };
        for pdr in &rules.create_pdrs {
            let rule = FailedRuleId::Pdr(pdr.pdr_id.0);
            self.pdr(&mut session, rules, pdr, meters).map_err(|problem| match problem.rule {
                Some(_) => problem,
                None => problem.in_rule(rule),
            })?;
        }
        for far in &rules.create_fars {
            let mut new = self.far(far)?;
            let bar = rules.create_bar.as_ref().filter(|bar| Some(bar.bar_id) == far.bar_id);
            new.keep = bar.and_then(|bar| bar.suggested_buffering_packets_count).map_or(0, |count| count.0);
            session.fars.push(new);
        }
        for id in closed(&session) {
            let own = session.fars.iter().find(|far| far.id == id & !CLOSED).cloned();
            session.fars.extend(own.map(|far| {
                let apply = if far.apply == Apply::Forward { Apply::Closed } else { far.apply };
                Far { id, apply, ..far }
            }));
        }
        check_supported(rules)?;
        let qer = |qer: &CreateQer| translate_qer(qer, is_aggregate(rules, qer));
        session.qers.extend(rules.create_qers.iter().map(qer));
        session.urrs = rules.create_urrs.iter().map(|urr| translate_urr(urr, meters)).collect();
        if rules.user_plane_inactivity_timer.is_some_and(|timer| timer.0 > 0) {
            watch(&mut session);
        }
        Ok(session)
    }

    /// The network a session's subscriber is in: that of its plain packets, else where its uplink goes.
    pub fn home(&self, rules: &Rules) -> InstanceId {
        let plain = rules
            .create_pdrs
            .iter()
            .find(|pdr| pdr.pdi.local_f_teid.is_none() && pdr.pdi.source_interface != SourceInterface::Access);
        if let Some(pdr) = plain {
            let endpoint = endpoint_of(rules, &pdr.pdi);
            let network = pdr.pdi.network_instance.as_ref().or(endpoint.and_then(|e| e.network_instance.as_ref()));
            return self.networks.find(network, false);
        }
        let to_core = |far: &CreateFar| {
            let way = far.forwarding_parameters.as_ref()?;
            let core = matches!(way.destination_interface, DestinationInterface::Core | DestinationInterface::SgiLan);
            core.then(|| self.networks.find(way.network_instance.as_ref(), false))
        };
        rules.create_fars.iter().find_map(to_core).unwrap_or_else(|| self.networks.find(None, false))
    }

    fn pdr(&self, session: &mut Session, rules: &Rules, pdr: &CreatePdr, meters: &[Metering]) -> Result<(), Problem> {
        let pdi = self.of_endpoint(rules, &pdr.pdi)?;
        let source = match pdr.pdi.source_interface {
            SourceInterface::Access => Interface::Access,
            SourceInterface::CpFunction => Interface::CpFunction,
            _ => Interface::Core,
        };
        for address in pdi.ue {
            claim(session, address)?;
        }
        for route in pdi.routes {
            behind(session, route);
        }
        let teid = match pdi.teid {
            Some(FTeid::Given { teid, .. }) => Some(teid.0),
            Some(FTeid::Choose { .. }) => return Err(Problem::of(Cause::SYSTEM_FAILURE)),
            None if source == Interface::Core => None,
            None => return Err(Problem::missing::<FTeid>()),
        };
        let mut filters = Vec::with_capacity(pdr.pdi.sdf_filters.len());
        for filter in &pdr.pdi.sdf_filters {
            filters.push(sdf(whole(rules, filter))?);
        }
        let application = pdr.pdi.application_id.as_ref().map(|application| self.applications.get(&application.0));
        if !is_active(pdr, self.unix) || application == Some(None) {
            session.resting.extend(teid);
            return Ok(());
        }
        filters.extend(application.flatten().into_iter().flatten().cloned().map(Sdf::from));
        if pdr.far_id.is_none() && pdr.activate_predefined_rules.is_empty() {
            return Err(Problem::missing::<pfcp::ie::FarId>());
        }
        let far = pdr.far_id.map_or(0, |id| id.0);
        let far = match quota_action(rules, pdr, meters) {
            // Towards the subscriber nothing passes but the answers to it.
            Some(action) if source != Interface::Access && is_redirection(rules, action) => far | CLOSED,
            action => action.unwrap_or(far),
        };
        if pdr.qer_ids.len() > MAX_QERS || pdr.urr_ids.len() > MAX_URRS {
            return Err(Problem::of(Cause::RULE_CREATION_MODIFICATION_FAILURE));
        }
        let new = Pdr {
            id: pdr.pdr_id.0,
            // SGW-Cs leave it out: their PDRs don't overlap.
            precedence: pdr.precedence.unwrap_or(Precedence(u32::MAX)).0,
            source,
            teid,
            qfi: None,
            removes: removal(pdr, pdi.teid.is_some())?,
            filters,
            far,
            qers: pdr.qer_ids.iter().map(|id| id.0).collect(),
            urrs: pdr.urr_ids.iter().map(|id| id.0).collect(),
        };
        // One rule for each QoS flow that would do; all have the same ID.
        let any = pdr.pdi.qfis.is_empty().then_some(None);
        let qfis = pdr.pdi.qfis.iter().map(|qfi| Some(qfi.0)).chain(any);
        // Those that are activated come first among rules of their precedence.
        for name in &pdr.activate_predefined_rules {
            let (number, predefined) = self.catalogue.predefined(name)?;
            let rule = self.activate(session, rules, pdr, &new, (number, predefined))?;
            enter(session, rule, qfis.clone());
        }
        if pdr.far_id.is_some() {
            enter(session, new, qfis);
        }
        Ok(())
    }

    /// The rule that predefined ones make of the PDR that activates them; their FAR and QER are entered. Their URR is in the
    /// session's rules already ([`Catalogue::measure`]).
    fn activate(
        &self,
        session: &mut Session,
        rules: &Rules,
        pdr: &CreatePdr,
        own: &Pdr,
        (number, predefined): (u32, &Predefined),
    ) -> Result<Pdr, Problem> {
        let mut far = match rules.create_fars.iter().find(|far| Some(far.far_id) == pdr.far_id) {
            Some(far) => self.far(far)?,
            // To the data network there is a way without one; to a subscriber there is not.
            None if own.source == Interface::Access || predefined.action == Some(Action::Drop) => {
                Far { apply: Apply::Forward, instance: session.instance, ..Far::default() }
            }
            None => return Err(Problem::missing::<pfcp::ie::FarId>()),
        };
        predefined.apply(&mut far);
        far.id = PREDEFINED | session.fars.len() as u32; // a handful
        let mut rule = own.clone();
        rule.precedence = predefined.precedence.unwrap_or(own.precedence);
        if !predefined.filters.is_empty() {
            rule.filters = predefined.filters.clone();
        }
        if pdr.far_id.is_none_or(|id| id.0 == own.far) {
            rule.far = far.id;
            session.fars.push(far);
        }
        if predefined.mbr != Mbr::default() || predefined.qfi.is_some() {
            let (id, mbr, qfi) = (PREDEFINED | number, predefined.mbr, predefined.qfi);
            // Its mark goes before the PDR's own.
            rule.qers.insert(0, id);
            if session.qers.iter().all(|qer| qer.id != id) {
                session.qers.push(Qer { id, gate_up: true, gate_down: true, mbr, qfi, ..Qer::default() });
            }
        }
        rule.urrs.extend(predefined.urr.as_ref().map(|urr| urr.urr_id.0).filter(|urr| !own.urrs.contains(urr)));
        if rule.qers.len() > MAX_QERS || rule.urrs.len() > MAX_URRS {
            return Err(Problem::of(Cause::RULE_CREATION_MODIFICATION_FAILURE));
        }
        Ok(rule)
    }

    /// A PDI's tunnel and addresses: its own, or those of the traffic endpoint it names.
    fn of_endpoint<'a>(&self, rules: &'a Rules, pdi: &'a Pdi) -> Result<Endpoint<'a>, Problem> {
        let endpoint = endpoint_of(rules, pdi);
        let framed = endpoint.map(|e| (&e.framed_routes, &e.framed_ip6_routes));
        let (four, six) = match framed {
            Some(framed) if pdi.framed_routes.is_empty() && pdi.framed_ip6_routes.is_empty() => framed,
            _ => (&pdi.framed_routes, &pdi.framed_ip6_routes),
        };
        let four = four.iter().map(|route| {
            framed_route(&route.0).filter(|(to, _)| to.is_ipv4()).ok_or(Problem::incorrect::<FramedRoute>())
        });
        let six = six.iter().map(|route| {
            framed_route(&route.0).filter(|(to, _)| to.is_ipv6()).ok_or(Problem::incorrect::<FramedIp6Route>())
        });
        Ok(Endpoint {
            teid: pdi.local_f_teid.or(endpoint.and_then(|e| e.local_f_teid)),
            ue: endpoint
                .map(|e| &*e.ue_ip_addresses)
                .filter(|_| pdi.ue_ip_addresses.is_empty())
                .unwrap_or(&pdi.ue_ip_addresses),
            routes: four.chain(six).collect::<Result<_, _>>()?,
        })
    }

    fn far(&self, far: &CreateFar) -> Result<Far, Problem> {
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

/// What is taken off a PDR's packets beside GTP-U (8.2.64); that, whatever control planes say of its IP version, is taken
/// off what comes by it, and VLAN tags at the port.
fn removal(pdr: &CreatePdr, comes_by_tunnel: bool) -> Result<Option<Outer>, Problem> {
    let removes = match pdr.outer_header_removal.map(|removal| removal.description) {
        Some(2 | 3) => Outer::Udp,
        Some(4 | 5) => Outer::Ip,
        _ => return Ok(None),
    };
    // Of what GTP-U carries nothing is taken off.
    if comes_by_tunnel { Err(Problem::incorrect::<OuterHeaderRemoval>()) } else { Ok(Some(removes)) }
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

/// What a PDI says of where packets come from.
struct Endpoint<'a> {
    teid: Option<FTeid>,
    ue: &'a [UeIpAddress],
    routes: Vec<(IpAddr, u8)>,
}

/// Enters a rule for each of these QoS flows.
fn enter(session: &mut Session, rule: Pdr, qfis: impl Iterator<Item = Option<u8>>) {
    let mut qfis = qfis.peekable();
    let mut rule = Some(rule);
    while let Some(qfi) = qfis.next() {
        // The last one need not be a copy.
        let one = if qfis.peek().is_some() { rule.clone() } else { rule.take() };
        session.pdrs.extend(one.map(|rule| Pdr { qfi, ..rule }));
    }
}

/// Set in the ID of a FAR that only what we say ourselves passes by; control planes give no such IDs (8.2.74).
const CLOSED: u32 = 1 << 31;

/// Set in the IDs of FARs and QERs that predefined rules bring.
const PREDEFINED: u32 = 3 << 30;

/// The ID of the URR of ours that sees the packets no other measures, where silence matters.
pub const WATCH: u32 = u32::MAX;

/// Has all packets seen: the session's silence is to be told of.
fn watch(session: &mut Session) {
    let mut unseen = session.pdrs.iter_mut().filter(|pdr| pdr.urrs.is_empty()).peekable();
    if unseen.peek().is_some() {
        unseen.for_each(|pdr| pdr.urrs.push(WATCH));
        session.urrs.push(Urr { id: WATCH, ..Urr::default() });
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

fn is_redirection(rules: &Rules, far: u32) -> bool {
    let far = rules.create_fars.iter().find(|rule| rule.far_id.0 == far);
    far.and_then(|far| far.forwarding_parameters.as_ref()).is_some_and(|way| way.redirect_information.is_some())
}

/// The FAR that takes the place of a PDR's own while a quota of its URRs is used up (5.2.2.2.1).
fn quota_action(rules: &Rules, pdr: &CreatePdr, meters: &[Metering]) -> Option<u32> {
    let mut urrs = rules.create_urrs.iter().filter(|urr| pdr.urr_ids.contains(&urr.urr_id));
    urrs.find_map(|urr| {
        let spent = meters.iter().any(|meter| meter.urr == urr.urr_id.0 && meter.is_exhausted());
        urr.far_id_for_quota_action.filter(|_| spent).map(|far| far.0)
    })
}

/// The traffic endpoint a PDI names.
fn endpoint_of<'a>(rules: &'a Rules, pdi: &Pdi) -> Option<&'a CreateTrafficEndpoint> {
    let named = |endpoint: &&CreateTrafficEndpoint| pdi.traffic_endpoint_ids.contains(&endpoint.traffic_endpoint_id);
    rules.create_traffic_endpoints.iter().find(named)
}

/// Whether a PDR applies now (activation and deactivation time, 5.2.1.5).
fn is_active(pdr: &CreatePdr, unix: u64) -> bool {
    pdr.activation_time.is_none_or(|time| time.unix() <= unix)
        && pdr.deactivation_time.is_none_or(|time| unix < time.unix())
}

/// The next time after `unix` at which one of the rules begins or ends to apply.
pub fn next_change(rules: &Rules, unix: u64) -> Option<u64> {
    let times = rules
        .create_pdrs
        .iter()
        .flat_map(|pdr| [pdr.activation_time.map(|time| time.unix()), pdr.deactivation_time.map(|time| time.unix())]);
    times.flatten().filter(|time| *time > unix).min()
}

/// Enters a subscriber's address into the session; a second one of a family must be the same.
fn claim(session: &mut Session, address: &UeIpAddress) -> Result<(), Problem> {
    if let Some(ip4) = address.ip4 {
        if session.ue4.is_some_and(|other| other != ip4) || ip4.is_unspecified() {
            return Err(Problem::incorrect::<UeIpAddress>());
        }
        session.ue4 = Some(ip4);
    }
    if let Some(ip6) = address.ip6 {
        let len = address.prefix_len();
        let prefix = Ipv6Addr::from(u128::from(ip6) & !u128::from(u64::MAX));
        if prefix.is_unspecified() || !(SHORTEST6..=128).contains(&len) {
            return Err(Problem::incorrect::<UeIpAddress>());
        }
        if len != 64 {
            behind(session, (ip6.into(), len));
        }
        // Others may have their addresses beside one that is longer.
        if len <= 64 {
            if session.ue6.is_some_and(|other| other != prefix) {
                return Err(Problem::incorrect::<UeIpAddress>());
            }
            session.ue6 = Some(prefix);
        }
    }
    Ok(())
}

/// Shorter prefixes than these are nobody's behind a subscriber, and take a worker long to enter.
const SHORTEST4: u8 = 8;
const SHORTEST6: u8 = 16;

/// Enters a network behind the subscriber, which several PDRs may name.
fn behind(session: &mut Session, (address, len): (IpAddr, u8)) {
    let Route { address, len, .. } = Route::new(session.instance, address, len);
    if !session.routes.contains(&(address, len)) {
        session.routes.push((address, len));
    }
}

/// A filter that is only named is the one of that name elsewhere in the session (bidirectional filters, 5.2.1A.2A).
fn whole<'a>(rules: &'a Rules, filter: &'a SdfFilter) -> &'a SdfFilter {
    if filter.id.is_none() || filter.flow_description.is_some() || filter.traffic_class.is_some() {
        return filter;
    }
    let all = rules.create_pdrs.iter().flat_map(|pdr| &pdr.pdi.sdf_filters);
    let mut same = all.filter(|other| other.id == filter.id);
    same.find(|other| other.flow_description.is_some() || other.traffic_class.is_some()).unwrap_or(filter)
}

fn sdf(filter: &SdfFilter) -> Result<Sdf, Problem> {
    if filter.spi.is_some() || filter.flow_label.is_some() {
        return Err(Problem::of(Cause::SERVICE_NOT_SUPPORTED));
    }
    let flow = filter.flow_description.as_deref().map(str::parse::<FlowDescription>).transpose();
    let flow = flow.map_err(|_| Problem::incorrect::<SdfFilter>())?;
    Ok(Sdf { flow, tos: filter.traffic_class.map(|[value, mask]| Tos { value, mask }) })
}

/// The prefix of a Framed-Route (RFC 2865, 5.22) or Framed-IPv6-Route (RFC 3162, 2.5): `10.1.0.0/16 0.0.0.0 1`.
fn framed_route(text: &str) -> Option<(IpAddr, u8)> {
    let prefix = text.split_whitespace().next()?;
    let (address, len) = match prefix.split_once('/') {
        Some((address, len)) => (address.parse().ok()?, len.parse().ok()?),
        None => {
            let address: IpAddr = prefix.parse().ok()?;
            (address, Prefix::bits(address))
        }
    };
    let shortest = if address.is_ipv4() { SHORTEST4 } else { SHORTEST6 };
    (shortest..=Prefix::bits(address)).contains(&len).then_some((address, len))
}

/// Refuses what rules ask for and is not done here, rather than to charge or limit otherwise than was meant.
fn check_supported(rules: &Rules) -> Result<(), Problem> {
    for urr in &rules.create_urrs {
        let is_there = |id| rules.create_fars.iter().any(|far| far.far_id == id);
        if !urr.far_id_for_quota_action.is_none_or(is_there) {
            return Err(Problem::rule(FailedRuleId::Urr(urr.urr_id.0)));
        }
    }
    Ok(())
}

fn translate_qer(qer: &CreateQer, session: bool) -> Qer {
    let bits = |kbits: u64| kbits.saturating_mul(1000);
    let mbr = qer
        .maximum_bitrate
        .map_or(Mbr::default(), |mbr| Mbr { up: Some(bits(mbr.uplink)), down: Some(bits(mbr.downlink)) });
    Qer {
        id: qer.qer_id.0,
        gate_up: !qer.gate_status.uplink_closed,
        gate_down: !qer.gate_status.downlink_closed,
        mbr,
        packets: packet_limits(qer.packet_rate),
        qfi: qer.qfi.map(|qfi| qfi.0),
        session,
    }
}

/// How many packets may pass from and to the subscriber. What may pass beyond that by exception (APRC; TS 23.401,
/// 4.7.7.3) is added: which packets are exceptions, only the subscriber knows.
fn packet_limits(rate: Option<PacketRate>) -> [Option<PacketLimit>; 2] {
    let Some(rate) = rate else { return [None; 2] };
    let of = |own: Option<IeLimit>, more: Option<IeLimit>| {
        let own = own?;
        let seconds = |limit: IeLimit| u64::from(limit.unit.seconds());
        let more = more.map_or(0, |more| u64::from(more.packets) * seconds(own) / seconds(more));
        let most = u32::try_from(u64::from(own.packets) + more).unwrap_or(u32::MAX);
        Some(PacketLimit { most, period_ns: seconds(own) * 1_000_000_000 })
    };
    let [up, down] = rate.additional.map_or([None; 2], |more| more.map(Some));
    [of(rate.uplink, up), of(rate.downlink, down)]
}

/// Whether a QER is the session's aggregate (Session-AMBR, APN-AMBR): several flows' rules share it. PFCP does not say.
fn is_aggregate(rules: &Rules, qer: &CreateQer) -> bool {
    let mut with = rules.create_pdrs.iter().filter(|pdr| pdr.qer_ids.contains(&qer.qer_id));
    // A flow with a guaranteed rate is none of those that share it.
    let is_flow = qer.qfi.is_some() || qer.guaranteed_bitrate.is_some();
    !is_flow && with.clone().count() > 1 && with.any(|pdr| pdr.qer_ids.len() > 1)
}

fn translate_urr(urr: &CreateUrr, meters: &[Metering]) -> Urr {
    let meter = meters.iter().find(|meter| meter.urr == urr.urr_id.0);
    let (threshold, quota) = meter.map_or((Volumes::default(), Volumes::default()), |meter| meter.bounds(urr));
    let before_qos = urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::MBQE));
    let paused = urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::INAM));
    Urr { id: urr.urr_id.0, threshold, quota, before_qos, paused }
}
