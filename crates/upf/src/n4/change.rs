//! A session's rules, as the request that would establish it, and what a modification makes of them
//! (3GPP TS 29.244, 7.5.4): removals first, then updates, then creations. What an update does not mention stays.

use pfcp::group::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateTrafficEndpoint, CreateUrr, DuplicatingParameters,
    ForwardingParameters, Pdi, RemoveTrafficEndpoint, UpdateBar, UpdateDuplicatingParameters, UpdateFar,
    UpdateForwardingParameters, UpdatePdr, UpdateQer, UpdateTrafficEndpoint, UpdateUrr,
};
use pfcp::ie::{FailedRuleId, FarId, OuterHeaderCreation, PfcpSmReqFlags, SdfFilter};
use pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};

use super::problem::Problem;

/// The rules of a session, identifiers chosen: the request that would establish it as it is now.
pub type Rules = SessionEstablishmentRequest;

/// Fields of an update that are there replace those of the rule.
macro_rules! take_over {
    ($rule:expr, $update:expr; $($field:ident),* $(; lists $($list:ident),*)?) => {
        $(if $update.$field.is_some() { $rule.$field = $update.$field.clone(); })*
        $($(if !$update.$list.is_empty() { $rule.$list = $update.$list.clone(); })*)?
    };
}

/// A tunnel that packets no longer take: its end gets an End Marker (5.2.3.1, SNDEM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftTunnel {
    /// Where the FAR sent packets.
    pub header: OuterHeaderCreation,
    /// The FAR, as it was.
    pub far: CreateFar,
}

/// Changes `rules` as a modification asks; returns the tunnels whose ends are to hear of it.
///
/// # Errors
/// The rule that is not there, or is there already; `rules` are then half changed and to be thrown away.
pub fn modify(rules: &mut Rules, request: &SessionModificationRequest) -> Result<Vec<LeftTunnel>, Problem> {
    let given = given_once(rules);
    remove(rules, request)?;
    let left = update(rules, request)?;
    create(rules, request)?;
    keep_given(rules, given);
    if let Some(timer) = request.user_plane_inactivity_timer {
        rules.user_plane_inactivity_timer = Some(timer);
    }
    if let Some(cp) = request.cp_f_seid {
        rules.cp_f_seid = cp;
    }
    if let Some(node) = &request.node_id {
        rules.node_id = node.clone();
    }
    Ok(left)
}

/// Filters that others in the session name, with their names.
fn given_once(rules: &Rules) -> Vec<SdfFilter> {
    let filters = || rules.create_pdrs.iter().flat_map(|pdr| &pdr.pdi.sdf_filters);
    let is_named = |id| filters().any(|filter| filter.id == id && filter.is_name());
    filters().filter(|filter| filter.id.is_some() && !filter.is_name() && is_named(filter.id)).cloned().collect()
}

/// A filter outlives the rule it was given in, where others go by its name (bidirectional filters, 5.2.1A.2A).
fn keep_given(rules: &mut Rules, given: Vec<SdfFilter>) {
    for old in given {
        let mut same = rules.create_pdrs.iter_mut().flat_map(|pdr| &mut pdr.pdi.sdf_filters).filter(|f| f.id == old.id);
        let Some(first) = same.next().filter(|first| first.is_name()) else { continue };
        if same.all(|filter| filter.is_name()) {
            *first = old;
        }
    }
}

fn remove(rules: &mut Rules, request: &SessionModificationRequest) -> Result<(), Problem> {
    for gone in &request.remove_pdrs {
        take(&mut rules.create_pdrs, FailedRuleId::Pdr(gone.pdr_id.0), |pdr| pdr.pdr_id == gone.pdr_id)?;
    }
    for gone in &request.remove_fars {
        take(&mut rules.create_fars, FailedRuleId::Far(gone.far_id.0), |far| far.far_id == gone.far_id)?;
    }
    for gone in &request.remove_urrs {
        take(&mut rules.create_urrs, FailedRuleId::Urr(gone.urr_id.0), |urr| urr.urr_id == gone.urr_id)?;
        rules.create_pdrs.iter_mut().for_each(|pdr| pdr.urr_ids.retain(|id| *id != gone.urr_id));
    }
    for gone in &request.remove_qers {
        take(&mut rules.create_qers, FailedRuleId::Qer(gone.qer_id.0), |qer| qer.qer_id == gone.qer_id)?;
        rules.create_pdrs.iter_mut().for_each(|pdr| pdr.qer_ids.retain(|id| *id != gone.qer_id));
    }
    if let Some(gone) = &request.remove_bar {
        let is_there = rules.create_bar.as_ref().is_some_and(|bar| bar.bar_id == gone.bar_id);
        if !is_there {
            return Err(Problem::rule(FailedRuleId::Bar(gone.bar_id.0)));
        }
        rules.create_bar = None;
    }
    for gone in &request.remove_traffic_endpoints {
        let id = gone.traffic_endpoint_id;
        if rules.create_traffic_endpoints.iter().all(|endpoint| endpoint.traffic_endpoint_id != id) {
            return Err(Problem::incorrect::<RemoveTrafficEndpoint>());
        }
        // PDRs that use an endpoint go with it (5.2.1A.2).
        rules.create_traffic_endpoints.retain(|endpoint| endpoint.traffic_endpoint_id != id);
        rules.create_pdrs.retain(|pdr| !pdr.pdi.traffic_endpoint_ids.contains(&id));
    }
    Ok(())
}

fn update(rules: &mut Rules, request: &SessionModificationRequest) -> Result<Vec<LeftTunnel>, Problem> {
    let mut left = Vec::new();
    for update in &request.update_traffic_endpoints {
        let id = update.traffic_endpoint_id;
        let endpoint = rules.create_traffic_endpoints.iter_mut().find(|endpoint| endpoint.traffic_endpoint_id == id);
        update_endpoint(endpoint.ok_or(Problem::incorrect::<UpdateTrafficEndpoint>())?, update);
    }
    for update in &request.update_pdrs {
        let rule = FailedRuleId::Pdr(update.pdr_id.0);
        update_pdr(find(&mut rules.create_pdrs, rule, |pdr| pdr.pdr_id == update.pdr_id)?, update);
    }
    for update in &request.update_fars {
        let rule = FailedRuleId::Far(update.far_id.0);
        let far = find(&mut rules.create_fars, rule, |far| far.far_id == update.far_id)?;
        left.extend(update_far(far, update));
    }
    for update in &request.update_urrs {
        let rule = FailedRuleId::Urr(update.urr_id.0);
        update_urr(find(&mut rules.create_urrs, rule, |urr| urr.urr_id == update.urr_id)?, update);
    }
    for update in &request.update_qers {
        let rule = FailedRuleId::Qer(update.qer_id.0);
        update_qer(find(&mut rules.create_qers, rule, |qer| qer.qer_id == update.qer_id)?, update);
    }
    if let Some(update) = &request.update_bar {
        let bar = rules.create_bar.as_mut().filter(|bar| bar.bar_id == update.bar_id);
        update_bar(bar.ok_or(Problem::rule(FailedRuleId::Bar(update.bar_id.0)))?, update);
    }
    Ok(left)
}

fn create(rules: &mut Rules, request: &SessionModificationRequest) -> Result<(), Problem> {
    for pdr in &request.create_pdrs {
        put(&mut rules.create_pdrs, pdr, FailedRuleId::Pdr(pdr.pdr_id.0), |old| old.pdr_id == pdr.pdr_id)?;
    }
    for far in &request.create_fars {
        put(&mut rules.create_fars, far, FailedRuleId::Far(far.far_id.0), |old| old.far_id == far.far_id)?;
    }
    for urr in &request.create_urrs {
        put(&mut rules.create_urrs, urr, FailedRuleId::Urr(urr.urr_id.0), |old| old.urr_id == urr.urr_id)?;
    }
    for qer in &request.create_qers {
        put(&mut rules.create_qers, qer, FailedRuleId::Qer(qer.qer_id.0), |old| old.qer_id == qer.qer_id)?;
    }
    if let Some(bar) = &request.create_bar {
        if rules.create_bar.as_ref().is_some_and(|old| old.bar_id == bar.bar_id) {
            return Err(Problem::rule(FailedRuleId::Bar(bar.bar_id.0)));
        }
        rules.create_bar = Some(bar.clone());
    }
    for endpoint in &request.create_traffic_endpoints {
        let id = endpoint.traffic_endpoint_id;
        if rules.create_traffic_endpoints.iter().any(|old| old.traffic_endpoint_id == id) {
            return Err(Problem::incorrect::<CreateTrafficEndpoint>());
        }
        rules.create_traffic_endpoints.push(endpoint.clone());
    }
    Ok(())
}

/// The rule that an update is about.
fn find<T>(list: &mut [T], rule: FailedRuleId, is: impl Fn(&T) -> bool) -> Result<&mut T, Problem> {
    list.iter_mut().find(|one| is(one)).ok_or(Problem::rule(rule))
}

/// Takes out the rule that a removal is about.
fn take<T>(list: &mut Vec<T>, rule: FailedRuleId, is: impl Fn(&T) -> bool) -> Result<T, Problem> {
    let at = list.iter().position(is).ok_or(Problem::rule(rule))?;
    Ok(list.remove(at))
}

/// Adds a rule that must not be there yet.
fn put<T: Clone>(list: &mut Vec<T>, new: &T, rule: FailedRuleId, is: impl Fn(&T) -> bool) -> Result<(), Problem> {
    if list.iter().any(is) {
        return Err(Problem::rule(rule));
    }
    list.push(new.clone());
    Ok(())
}

fn update_pdr(pdr: &mut CreatePdr, update: &UpdatePdr) {
    take_over!(pdr, update; outer_header_removal, precedence, far_id, activation_time, deactivation_time;
        lists urr_ids, qer_ids);
    if let Some(pdi) = &update.pdi {
        update_pdi(&mut pdr.pdi, pdi);
    }
    let gone = &update.deactivate_predefined_rules;
    pdr.activate_predefined_rules.retain(|rule| !gone.iter().any(|name| name.0 == rule.0));
    pdr.activate_predefined_rules.extend(update.activate_predefined_rules.iter().cloned());
}

/// Control planes send the part of a PDI that changes and mean the rest to stay, above all its F-TEID and address.
fn update_pdi(pdi: &mut Pdi, update: &Pdi) {
    pdi.source_interface = update.source_interface;
    take_over!(pdi, update; local_f_teid, network_instance, application_id, framed_routing, source_interface_type;
        lists ue_ip_addresses, traffic_endpoint_ids, sdf_filters, qfis, framed_routes, framed_ip6_routes);
}

fn update_endpoint(endpoint: &mut CreateTrafficEndpoint, update: &UpdateTrafficEndpoint) {
    take_over!(endpoint, update; local_f_teid, network_instance, framed_routing;
        lists ue_ip_addresses, framed_routes, framed_ip6_routes, qfis);
}

fn update_far(far: &mut CreateFar, update: &UpdateFar) -> Option<LeftTunnel> {
    let before = far.clone();
    if let Some(action) = update.apply_action {
        far.apply_action = action;
    }
    if update.bar_id.is_some() {
        far.bar_id = update.bar_id;
    }
    for (n, update) in update.update_duplicating_parameters.iter().enumerate() {
        // They have no names: the first is about the first.
        if n == far.duplicating_parameters.len() {
            far.duplicating_parameters.push(DuplicatingParameters::default());
        }
        update_duplicating(&mut far.duplicating_parameters[n], update);
    }
    let parameters = update.update_forwarding_parameters.as_ref()?;
    let old = before.forwarding_parameters.as_ref().and_then(|old| old.outer_header_creation);
    update_forwarding(far.forwarding_parameters.get_or_insert_default(), parameters);
    let asked = parameters.pfcp_sm_req_flags.is_some_and(|flags| flags.contains(PfcpSmReqFlags::SNDEM));
    old.filter(|_| asked).map(|header| LeftTunnel { header, far: before })
}

fn update_forwarding(parameters: &mut ForwardingParameters, update: &UpdateForwardingParameters) {
    if let Some(interface) = update.destination_interface {
        parameters.destination_interface = interface;
    }
    take_over!(parameters, update; network_instance, redirect_information, outer_header_creation,
        transport_level_marking, forwarding_policy, header_enrichment, linked_traffic_endpoint_id,
        destination_interface_type, data_network_access_identifier);
}

fn update_duplicating(parameters: &mut DuplicatingParameters, update: &UpdateDuplicatingParameters) {
    if let Some(interface) = update.destination_interface {
        parameters.destination_interface = interface;
    }
    take_over!(parameters, update; outer_header_creation, transport_level_marking, forwarding_policy);
}

fn update_urr(urr: &mut CreateUrr, update: &UpdateUrr) {
    if let Some(method) = update.measurement_method {
        urr.measurement_method = method;
    }
    if let Some(triggers) = update.reporting_triggers {
        urr.reporting_triggers = triggers;
    }
    take_over!(urr, update; measurement_period, volume_threshold, volume_quota, event_threshold, event_quota,
        time_threshold, time_quota, quota_holding_time, dropped_dl_traffic_threshold, quota_validity_time,
        monitoring_time, subsequent_volume_threshold, subsequent_time_threshold, subsequent_volume_quota,
        subsequent_time_quota, subsequent_event_threshold, subsequent_event_quota, inactivity_detection_time,
        measurement_information, time_quota_mechanism, far_id_for_quota_action, number_of_reports;
        lists linked_urr_ids, aggregated_urrs, additional_monitoring_times);
}

fn update_qer(qer: &mut CreateQer, update: &UpdateQer) {
    if let Some(gate) = update.gate_status {
        qer.gate_status = gate;
    }
    take_over!(qer, update; qer_correlation_id, maximum_bitrate, guaranteed_bitrate, packet_rate,
        dl_flow_level_marking, qfi, rqi, paging_policy_indicator, averaging_window, qer_control_indications);
}

fn update_bar(bar: &mut CreateBar, update: &UpdateBar) {
    take_over!(bar, update; downlink_data_notification_delay, suggested_buffering_packets_count);
}

/// The FAR a PDR names.
pub(crate) fn far_of(rules: &Rules, id: Option<FarId>) -> Option<&CreateFar> {
    rules.create_fars.iter().find(|far| Some(far.far_id) == id)
}
