//! What becomes of each information element (3GPP TS 29.244, 8.1.2): carried out, ignored or refused. What is ignored is
//! counted by IE, and told once; only what would falsify charging or policy if it were ignored is refused.

mod table;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pfcp::group::{CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi};
use pfcp::ie::*;
use pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use pfcp::{Element, RawIe};

use super::N4;
use super::problem::Problem;
pub use table::TABLE;

/// What becomes of an IE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IeSupport {
    /// It is carried out.
    Carried,
    /// The user plane sends it.
    Sent,
    /// It asks for nothing: it is kept with what it came with.
    Informative,
    /// It has no effect; it is counted.
    Ignored,
    /// The request is refused with the cause "service not supported" and this IE as the offending one.
    Refused,
}

impl IeSupport {
    fn word(self) -> &'static str {
        match self {
            Self::Carried => "carried out",
            Self::Sent => "sent",
            Self::Informative => "informative",
            Self::Ignored => "ignored, counted",
            Self::Refused => "refused",
        }
    }
}

/// An IE.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Type of the information element (8.1.2).
    pub ie: u16,
    /// Its name in the standard.
    pub name: &'static str,
    /// What becomes of it.
    pub treatment: IeSupport,
    /// Limits and reasons; may be empty.
    pub note: &'static str,
}

/// The row of a type; `None`: it is not known.
pub fn row(ie: u16) -> Option<&'static Row> {
    TABLE.binary_search_by_key(&ie, |row| row.ie).ok().map(|at| &TABLE[at])
}

/// The table for people.
pub fn markdown() -> String {
    let mut text = String::from(
        "# PFCP information elements\n\n\
         What the user plane does with each information element (IE) of 3GPP TS 29.244. The table is that of the code, \
         `crates/upf/src/n4/ies/table.rs`; a test keeps this page current.\n\n\
         - **carried out**: the gateway does what the IE asks for.\n\
         - **sent**: the gateway sends it to control planes.\n\
         - **informative**: the IE asks for nothing; it is kept with the session.\n\
         - **ignored, counted**: the IE has no effect, as its feature is not advertised. `weir show peers` counts such IEs \
         (`ies_ignored`) and names each type once.\n\
         - **refused**: the request is answered with the cause \u{201c}service not supported\u{201d} and the IE as Offending IE, because \
         ignoring it would falsify charging or policy.\n\n\
         IEs that are not in the table (later releases, vendors) are ignored and counted.\n\n\
         | type | IE | treatment | note |\n|---:|---|---|---|\n",
    );
    for Row { ie, name, treatment, note } in TABLE {
        // Strings take whatever is written.
        let _ = writeln!(text, "| {ie} | {name} | {} | {note} |", treatment.word());
    }
    text
}

/// Types counted apart at most: peers may send any.
const TYPES: usize = 256;

/// IEs that were ignored, by type.
#[derive(Debug, Default)]
pub(super) struct IgnoredIes(BTreeMap<u16, u64>);

/// IEs of a request that are not carried out, with the rules they are in.
#[derive(Default)]
struct Found(Vec<(u16, Option<FailedRuleId>)>);

impl Found {
    fn add<E: Element>(&mut self, is_there: bool, rule: FailedRuleId) {
        if is_there {
            self.0.push((E::TYPE, Some(rule)));
        }
    }

    fn others(&mut self, others: &[RawIe], rule: Option<FailedRuleId>) {
        self.0.extend(others.iter().map(|other| (other.ie, rule)));
    }

    fn pdr(&mut self, pdr: &CreatePdr) {
        let rule = FailedRuleId::Pdr(pdr.pdr_id.0);
        self.add::<UeIpAddressPoolIdentity>(!pdr.ue_ip_address_pool_ids.is_empty(), rule);
        self.others(&pdr.others, Some(rule));
        self.pdi(&pdr.pdi, rule);
    }

    fn pdi(&mut self, pdi: &Pdi, rule: FailedRuleId) {
        self.add::<EthernetPduSessionInformation>(pdi.ethernet_pdu_session_information.is_some(), rule);
        self.add::<FramedRouting>(pdi.framed_routing.is_some(), rule);
        self.others(&pdi.others, Some(rule));
    }

    fn far(&mut self, far: &CreateFar) {
        let rule = FailedRuleId::Far(far.far_id.0);
        self.others(&far.others, Some(rule));
        let Some(ForwardingParameters { header_enrichment, data_network_access_identifier, others, .. }) =
            &far.forwarding_parameters
        else {
            return;
        };
        self.add::<HeaderEnrichment>(header_enrichment.is_some(), rule);
        self.add::<DataNetworkAccessIdentifier>(data_network_access_identifier.is_some(), rule);
        self.others(others, Some(rule));
    }

    fn urr(&mut self, urr: &CreateUrr) {
        let rule = FailedRuleId::Urr(urr.urr_id.0);
        self.add::<TimeQuotaMechanism>(urr.time_quota_mechanism.is_some(), rule);
        self.add::<pfcp::group::AggregatedUrrs>(!urr.aggregated_urrs.is_empty(), rule);
        self.add::<DroppedDlTrafficThreshold>(urr.dropped_dl_traffic_threshold.is_some(), rule);
        self.add::<EthernetInactivityTimer>(urr.ethernet_inactivity_timer.is_some(), rule);
        self.add::<NumberOfReports>(urr.number_of_reports.is_some(), rule);
        self.others(&urr.others, Some(rule));
    }

    fn qer(&mut self, qer: &CreateQer) {
        let rule = FailedRuleId::Qer(qer.qer_id.0);
        self.add::<QerCorrelationId>(qer.qer_correlation_id.is_some(), rule);
        self.add::<PacketRateStatus>(qer.packet_rate_status.is_some(), rule);
        self.add::<AveragingWindow>(qer.averaging_window.is_some(), rule);
        self.add::<QerControlIndications>(qer.qer_control_indications.is_some(), rule);
        self.others(&qer.others, Some(rule));
    }
}

impl N4 {
    /// IEs ignored so far: type, name (none: unknown), how many.
    pub fn ignored_ies(&self) -> impl Iterator<Item = (u16, Option<&'static str>, u64)> {
        self.ignored_ies.0.iter().map(|(ie, count)| (*ie, row(*ie).map(|row| row.name), *count))
    }

    /// Counts what a new session's request asks for and is ignored; refuses what must not be ignored.
    pub(super) fn check_ies(&mut self, peer: u32, request: &SessionEstablishmentRequest) -> Result<(), Problem> {
        let mut found = Found::default();
        request.create_pdrs.iter().for_each(|pdr| found.pdr(pdr));
        request.create_fars.iter().for_each(|far| found.far(far));
        request.create_urrs.iter().for_each(|urr| found.urr(urr));
        request.create_qers.iter().for_each(|qer| found.qer(qer));
        found.others(&request.others, None);
        if request.pfcp_se_req_flags.is_some() {
            found.0.push((PfcpSeReqFlags::TYPE, None));
        }
        self.take_note(peer, &found)
    }

    /// As [`check_ies`](Self::check_ies), of a modification. What it updates is looked at as new rules are.
    pub(super) fn check_changed_ies(&mut self, peer: u32, request: &SessionModificationRequest) -> Result<(), Problem> {
        let mut found = Found::default();
        request.create_pdrs.iter().for_each(|pdr| found.pdr(pdr));
        request.create_fars.iter().for_each(|far| found.far(far));
        request.create_urrs.iter().for_each(|urr| found.urr(urr));
        request.create_qers.iter().for_each(|qer| found.qer(qer));
        for update in &request.update_pdrs {
            let rule = FailedRuleId::Pdr(update.pdr_id.0);
            update.pdi.iter().for_each(|pdi| found.pdi(pdi, rule));
            found.others(&update.others, Some(rule));
        }
        for update in &request.update_fars {
            let rule = FailedRuleId::Far(update.far_id.0);
            let parameters = update.update_forwarding_parameters.as_ref();
            if let Some(to) = parameters {
                found.add::<HeaderEnrichment>(to.header_enrichment.is_some(), rule);
                found.add::<DataNetworkAccessIdentifier>(to.data_network_access_identifier.is_some(), rule);
                found.others(&to.others, Some(rule));
            }
            found.others(&update.others, Some(rule));
        }
        for update in &request.update_urrs {
            found.urr(&CreateUrr {
                urr_id: update.urr_id,
                time_quota_mechanism: update.time_quota_mechanism,
                aggregated_urrs: update.aggregated_urrs.clone(),
                dropped_dl_traffic_threshold: update.dropped_dl_traffic_threshold,
                ethernet_inactivity_timer: update.ethernet_inactivity_timer,
                number_of_reports: update.number_of_reports,
                others: update.others.clone(),
                ..CreateUrr::default()
            });
        }
        for update in &request.update_qers {
            found.qer(&CreateQer {
                qer_id: update.qer_id,
                qer_correlation_id: update.qer_correlation_id,
                averaging_window: update.averaging_window,
                qer_control_indications: update.qer_control_indications,
                others: update.others.clone(),
                ..CreateQer::default()
            });
        }
        found.others(&request.others, None);
        self.take_note(peer, &found)
    }

    fn take_note(&mut self, peer: u32, found: &Found) -> Result<(), Problem> {
        for (ie, rule) in &found.0 {
            if row(*ie).is_some_and(|row| row.treatment == IeSupport::Refused) {
                let refused = Problem::of(Cause::SERVICE_NOT_SUPPORTED);
                return Err(Problem { ie: Some(OffendingIe(*ie)), rule: *rule, ..refused });
            }
        }
        for (ie, _) in &found.0 {
            let counted = &mut self.ignored_ies.0;
            if let Some(count) = counted.get_mut(ie) {
                *count += 1;
            } else if counted.len() < TYPES {
                counted.insert(*ie, 1);
                let name = row(*ie).map_or("unknown", |row| row.name);
                tracing::info!(target: "n4", event = "ie_ignored", ie = *ie, name, "an information element has no effect here");
                self.unknown_networks
                    .notice(peer, format!("IE {ie} ({name}) has no effect here; further ones are counted"));
            }
        }
        Ok(())
    }
}
