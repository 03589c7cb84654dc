//! What requests name of the node, checked before anything is made of it: network instances, and the addresses of tunnels
//! that control planes choose.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pfcp::group::{CreateTrafficEndpoint, ForwardingParameters, Pdi, UpdateForwardingParameters};
use pfcp::ie::{DestinationInterface, FTeid, FailedRuleId, NetworkInstance, OuterHeaderCreation, SourceInterface};
use pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};

use super::N4;
use super::change::Rules;
use super::networks::Known;
use super::problem::Problem;

/// Names kept at most: control planes may send any.
const NAMES: usize = 64;

/// Network instances that are not configured.
#[derive(Debug, Default)]
pub(super) struct UnknownNetworks {
    names: BTreeMap<Box<str>, u64>,
    /// Those that were taken for the first network of the core side.
    assumed: BTreeSet<Box<str>>,
    notices: VecDeque<(u32, String)>,
}

impl UnknownNetworks {
    /// Names and how many rules had them.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(|(name, rules)| (&**name, *rules))
    }

    /// Whether sessions may have a name as one of the first network of the core side.
    pub(crate) fn is_assumed(&self, name: &str) -> bool {
        self.assumed.contains(name)
    }

    pub(crate) fn take_notice(&mut self) -> Option<(u32, String)> {
        self.notices.pop_front()
    }

    /// A rule has such a name; it is logged the first time.
    fn count(&mut self, peer: u32, name: &NetworkInstance, refused: bool) {
        if !refused && self.assumed.len() < NAMES && !self.assumed.contains(&*name.text) {
            self.assumed.insert(name.text.clone());
        }
        if let Some(rules) = self.names.get_mut(&*name.text) {
            *rules += 1;
        } else if self.names.len() < NAMES {
            self.names.insert(name.text.clone(), 1);
            let what = if refused { "rules with it are refused" } else { "the first network of its side is taken" };
            tracing::warn!(
                target: "n4", event = "network_instance_unknown", network_instance = &*name.text, refused,
                "no port is in this network instance: {what}"
            );
            let notice = format!("network instance \"{}\" is that of no port: {what}", name.text.escape_default());
            self.notice(peer, notice);
        }
    }

    /// Something for the operator to read.
    pub fn notice(&mut self, peer: u32, what: String) {
        self.notices.push_back((peer, what));
    }
}

/// Something that a request names, and the rule that does.
enum Named<'a> {
    Network { name: &'a NetworkInstance, tunnelled: bool, rule: Option<FailedRuleId> },
    Tunnel { end: FTeid, rule: Option<FailedRuleId> },
}

impl N4 {
    /// Checks what a new session names.
    pub(super) fn check_new(&mut self, peer: u32, request: &SessionEstablishmentRequest) -> Result<(), Problem> {
        let mut named = Vec::new();
        for pdr in &request.create_pdrs {
            of_pdi(&mut named, &pdr.pdi, Some(FailedRuleId::Pdr(pdr.pdr_id.0)));
        }
        for far in &request.create_fars {
            let parameters = far.forwarding_parameters.as_ref();
            of_parameters(&mut named, parameters, Some(FailedRuleId::Far(far.far_id.0)));
        }
        request.create_traffic_endpoints.iter().for_each(|endpoint| of_endpoint(&mut named, endpoint));
        self.check_named(peer, &named, true)
    }

    /// Checks what a modification names anew; `rules` are the session's, changed by it.
    pub(super) fn check_change(
        &mut self,
        peer: u32,
        request: &SessionModificationRequest,
        rules: &Rules,
    ) -> Result<(), Problem> {
        let mut named = Vec::new();
        for pdr in &request.create_pdrs {
            of_pdi(&mut named, &pdr.pdi, Some(FailedRuleId::Pdr(pdr.pdr_id.0)));
        }
        for update in &request.update_pdrs {
            let Some(pdi) = &update.pdi else { continue };
            let rule = Some(FailedRuleId::Pdr(update.pdr_id.0));
            named.extend(pdi.local_f_teid.map(|end| Named::Tunnel { end, rule }));
            let changed = rules.create_pdrs.iter().find(|pdr| pdr.pdr_id == update.pdr_id);
            let changed = changed.filter(|_| pdi.network_instance.is_some());
            named.extend(changed.and_then(|pdr| network_of_pdi(&pdr.pdi, rule)));
        }
        for far in &request.create_fars {
            let parameters = far.forwarding_parameters.as_ref();
            of_parameters(&mut named, parameters, Some(FailedRuleId::Far(far.far_id.0)));
        }
        for update in &request.update_fars {
            let is_named = |to: &UpdateForwardingParameters| to.network_instance.is_some();
            let changed = rules.create_fars.iter().find(|far| far.far_id == update.far_id);
            let changed = changed.filter(|_| update.update_forwarding_parameters.as_ref().is_some_and(is_named));
            let parameters = changed.and_then(|far| far.forwarding_parameters.as_ref());
            of_parameters(&mut named, parameters, Some(FailedRuleId::Far(update.far_id.0)));
        }
        request.create_traffic_endpoints.iter().for_each(|endpoint| of_endpoint(&mut named, endpoint));
        for update in &request.update_traffic_endpoints {
            named.extend(update.local_f_teid.map(|end| Named::Tunnel { end, rule: None }));
        }
        self.check_named(peer, &named, false)
    }

    fn check_named(&mut self, peer: u32, named: &[Named<'_>], new: bool) -> Result<(), Problem> {
        for named in named {
            match *named {
                Named::Network { name, tunnelled, rule } => match self.networks.knows(name, tunnelled, new) {
                    Known::Yes => {}
                    Known::Assumed => self.unknown_networks.count(peer, name, false),
                    Known::No => {
                        self.unknown_networks.count(peer, name, true);
                        return Err(Problem { rule, ..Problem::incorrect::<NetworkInstance>() });
                    }
                },
                Named::Tunnel { end: FTeid::Given { ip4, ip6, .. }, rule } => {
                    let own = [ip4.map(Into::into), ip6.map(Into::into)];
                    if !own.into_iter().flatten().all(|address| self.networks.is_endpoint(address)) {
                        return Err(Problem { rule, ..Problem::incorrect::<FTeid>() });
                    }
                }
                Named::Tunnel { end: FTeid::Choose { .. }, .. } => {}
            }
        }
        Ok(())
    }
}

fn of_pdi<'a>(named: &mut Vec<Named<'a>>, pdi: &'a Pdi, rule: Option<FailedRuleId>) {
    named.extend(pdi.local_f_teid.map(|end| Named::Tunnel { end, rule }));
    named.extend(network_of_pdi(pdi, rule));
}

/// Access always has tunnels; a control plane's function is in none of the networks.
fn network_of_pdi(pdi: &Pdi, rule: Option<FailedRuleId>) -> Option<Named<'_>> {
    let tunnelled = pdi.local_f_teid.is_some() || pdi.source_interface == SourceInterface::Access;
    let name = pdi.network_instance.as_ref().filter(|_| pdi.source_interface != SourceInterface::CpFunction)?;
    Some(Named::Network { name, tunnelled, rule })
}

fn of_endpoint<'a>(named: &mut Vec<Named<'a>>, endpoint: &'a CreateTrafficEndpoint) {
    named.extend(endpoint.local_f_teid.map(|end| Named::Tunnel { end, rule: None }));
    let tunnelled = endpoint.local_f_teid.is_some();
    named.extend(endpoint.network_instance.as_ref().map(|name| Named::Network { name, tunnelled, rule: None }));
}

fn of_parameters<'a>(
    named: &mut Vec<Named<'a>>,
    parameters: Option<&'a ForwardingParameters>,
    rule: Option<FailedRuleId>,
) {
    let Some(parameters) = parameters else { return };
    let Some(name) = &parameters.network_instance else { return };
    let header = parameters.outer_header_creation.as_ref();
    named.extend(network_of(parameters.destination_interface, header, name, rule));
}

/// The network that a FAR leads into. The way to a control plane's function is in none of them.
fn network_of<'a>(
    to: DestinationInterface,
    header: Option<&OuterHeaderCreation>,
    name: &'a NetworkInstance,
    rule: Option<FailedRuleId>,
) -> Option<Named<'a>> {
    let gtpu = OuterHeaderCreation::GTP_U_IP4 | OuterHeaderCreation::GTP_U_IP6;
    let tunnelled = to == DestinationInterface::Access || header.is_some_and(|header| header.has(gtpu));
    (to != DestinationInterface::CpFunction).then_some(Named::Network { name, tunnelled, rule })
}
