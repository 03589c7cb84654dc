//! Every information element of the table does what the table says.

use upf::n4::ies::{self, IeSupport, TABLE};

use super::super::*;

/// The group of a request that an IE stands in.
#[derive(Clone, Copy)]
enum Place {
    Pdr,
    Pdi,
    Forwarding,
    Urr,
    Qer,
    Session,
}

/// Content of every IE that is ignored or refused.
const SAMPLES: &[(u16, Place, &[u8])] = &[
    (28, Place::Qer, &[0, 0, 0, 1]),
    (72, Place::Urr, &[1, 0, 0, 0, 0, 0, 0, 0, 5]),
    (98, Place::Forwarding, &[0, 1, b'a', 1, b'b']),
    (115, Place::Urr, &[0, 0, 0, 0, 5]),
    (118, Place::Urr, &[0, 120, 0, 4, 0, 0, 0, 2, 0, 119, 0, 12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
    (142, Place::Pdi, &[1]),
    (146, Place::Urr, &[0, 0, 0, 9]),
    (154, Place::Pdi, &[0, 0, 0, 1]),
    (157, Place::Qer, &[0, 0, 7, 208]),
    (177, Place::Pdr, &[0, 1, b'a']),
    (182, Place::Urr, &[0, 3]),
    (186, Place::Session, &[1]),
    (193, Place::Qer, &[1, 0, 5]),
    (232, Place::Forwarding, b"dnai"),
    (251, Place::Qer, &[1]),
    // Of no standard we know, and a vendor's.
    (0x7ffe, Place::Session, &[1, 2, 3]),
    (0x8001, Place::Pdi, &[0, 10, 1]),
];

fn with(
    mut request: SessionEstablishmentRequest,
    ie: u16,
    place: Place,
    content: &[u8],
) -> SessionEstablishmentRequest {
    let raw = pfcp::RawIe { ie, content: content.into() };
    let others = match place {
        Place::Pdr => &mut request.create_pdrs[0].others,
        Place::Pdi => &mut request.create_pdrs[0].pdi.others,
        Place::Forwarding => &mut request.create_fars[1].forwarding_parameters.as_mut().expect("it forwards").others,
        Place::Urr => &mut request.create_urrs[0].others,
        Place::Qer => &mut request.create_qers[0].others,
        Place::Session => &mut request.others,
    };
    others.push(raw);
    request
}

#[test]
fn each_element_does_as_the_table_says() {
    let mut listed: Vec<u16> = TABLE
        .iter()
        .filter(|row| [IeSupport::Ignored, IeSupport::Refused].contains(&row.treatment))
        .map(|r| r.ie)
        .collect();
    // Parts of Aggregated URRs.
    listed.retain(|ie| ![119, 120].contains(ie));
    let sampled: Vec<u16> = SAMPLES.iter().map(|(ie, ..)| *ie).filter(|ie| ies::row(*ie).is_some()).collect();
    assert_eq!(sampled, listed, "each has a sample");
    let mut bench = Bench::new("");
    let profile = Profile { measurement_period: Some(3600), ..smf() };
    for (n, (ie, place, content)) in SAMPLES.iter().enumerate() {
        let cp_seid = n as u64 + 1;
        let ip4 = Some(Ipv4Addr::from(u32::from(UE) + n as u32));
        let session = Session { cp_seid, ip4, ..Session::default() };
        let good = session.establish(&profile, &NodeId::from(CP.ip()), CP.ip());
        let request = with(good, *ie, *place, content);
        let count = |bench: &Bench| bench.sessions().ignored_ies().find(|(seen, ..)| seen == ie).map_or(0, |(.., n)| n);
        let before = count(&bench);
        let Message::SessionEstablishmentResponse(answer) = bench.say(Some(0), request.into()).message else {
            panic!("an answer of its kind")
        };
        if ies::row(*ie).is_some_and(|row| row.treatment == IeSupport::Refused) {
            let refused = (answer.cause, answer.offending_ie);
            assert_eq!(refused, (Cause::SERVICE_NOT_SUPPORTED, Some(OffendingIe(*ie))), "IE {ie}");
            assert!(answer.failed_rule_id.is_some(), "IE {ie}: the rule is named");
            assert_eq!(count(&bench), before);
        } else {
            assert_eq!((answer.cause, count(&bench)), (Cause::REQUEST_ACCEPTED, before + 1), "IE {ie}");
        }
    }
    let news = bench.news().iter().filter(|news| news.contains("no effect")).count();
    assert_eq!(news, bench.sessions().ignored_ies().count(), "each is told once");
    // Nothing of the kind: nothing counted.
    let before: u64 = bench.sessions().ignored_ies().map(|(.., n)| n).sum();
    let session = Session { cp_seid: 99, ip4: Some(Ipv4Addr::new(10, 45, 1, 1)), ..Session::default() };
    assert_eq!(bench.establish(&session, &smf()).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.sessions().ignored_ies().map(|(.., n)| n).sum::<u64>(), before);
    bench.close();
}

#[test]
fn modifications_are_looked_at_too() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &Profile { measurement_period: Some(3600), ..smf() });
    let mechanism = UpdateUrr {
        urr_id: UrrId(1),
        time_quota_mechanism: Some(TimeQuotaMechanism::default()),
        ..UpdateUrr::default()
    };
    let change = SessionModificationRequest { update_urrs: vec![mechanism], ..Default::default() };
    let refused = bench.modify(&session, change);
    assert_eq!((refused.cause, refused.offending_ie), (Cause::SERVICE_NOT_SUPPORTED, Some(OffendingIe(115))));
    let window = UpdateQer { qer_id: QerId(1), averaging_window: Some(AveragingWindow(2000)), ..UpdateQer::default() };
    let change = SessionModificationRequest { update_qers: vec![window], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.sessions().ignored_ies().collect::<Vec<_>>(), [(157, Some("Averaging Window"), 1)]);
    bench.close();
}

#[test]
fn the_page_is_that_of_the_table() {
    let is_sorted = TABLE.windows(2).all(|two| two[0].ie < two[1].ie);
    assert!(is_sorted, "types come once, in order");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pfcp-ies.md");
    if std::env::var_os("WEIR_BLESS").is_some_and(|value| value != "0") {
        std::fs::write(&path, ies::markdown()).expect("docs are there");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == ies::markdown(), "WEIR_BLESS=1 writes docs/pfcp-ies.md anew");
}

/// A session of a flow with marks: the container of its downlink packets, and the user's packet.
fn downlink(qer: CreateQer) -> Vec<u8> {
    let mut bench = Bench::new("");
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut request = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    request.create_qers = vec![CreateQer { qer_id: QerId(1), ..qer }];
    let Message::SessionEstablishmentResponse(response) = bench.say(Some(0), request.into()).message else {
        panic!("an answer of its kind")
    };
    session.established(&response).expect("accepted");
    let connect = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&super::super::response(UE)).build());
    let mut sent = bench.received("n3");
    bench.close();
    sent.remove(0)
}

#[test]
fn marks_of_a_qer_are_carried_out() {
    let qfi = Some(Qfi(9));
    let plain = downlink(CreateQer { qfi, ..CreateQer::default() });
    assert_eq!(plain, down(&response(UE).ttl(63)));
    let reflective = downlink(CreateQer { qfi, rqi: Some(Rqi(true)), ..CreateQer::default() });
    assert_eq!(reflective[54..58], [1, 0, 0x49, 0]);
    let policy = Some(PagingPolicyIndicator(3));
    let paged = downlink(CreateQer { qfi, paging_policy_indicator: policy, ..CreateQer::default() });
    assert_eq!((&paged[54..62], paged.len()), (&[2, 0, 0x89, 3 << 5, 0, 0, 0, 0][..], plain.len() + 4));
    let marking = DlFlowLevelMarking { traffic_class: Some([0x88, 0xfc]), service_class: None };
    let marked = downlink(CreateQer { qfi, dl_flow_level_marking: Some(marking), ..CreateQer::default() });
    assert_eq!((marked[15], marked[59]), (0x88, 0x88), "the tunnel's header and the user's");
}

#[test]
fn guaranteed_rates_are_admitted_against_the_capacity() {
    let mut bench = Bench::new(r#"n4.gbr_capacity = [{ up = "10 Mbit/s", down = "100 Mbit/s" }]"#);
    // In kbit/s.
    let profile = |up, down| Profile { guaranteed_bitrate: Some(Gbr { uplink: up, downlink: down }), ..smf() };
    let session = |n: u8| Session { cp_seid: n.into(), ip4: Some(Ipv4Addr::new(10, 45, 0, n)), ..Session::default() };
    let mut first = session(1);
    first.established(&bench.establish(&first, &profile(6000, 1000))).expect("it fits");
    let refused = bench.establish(&session(2), &profile(5000, 1000));
    assert_eq!((refused.cause, refused.failed_rule_id), (Cause::NO_RESOURCES_AVAILABLE, Some(FailedRuleId::Qer(1))));
    assert_eq!(bench.establish(&session(3), &profile(4000, 99_000)).cause, Cause::REQUEST_ACCEPTED, "all there is");
    let view = bench.sessions().guaranteed();
    assert_eq!((view.sessions, view.up, view.down, view.refused), (2, 10_000_000, 100_000_000, 1));
    let change = |up| {
        let qer = UpdateQer {
            qer_id: QerId(1),
            guaranteed_bitrate: Some(Gbr { uplink: up, downlink: 1000 }),
            ..UpdateQer::default()
        };
        SessionModificationRequest { update_qers: vec![qer], ..Default::default() }
    };
    assert_eq!(bench.modify(&first, change(6001)).cause, Cause::NO_RESOURCES_AVAILABLE);
    assert_eq!(bench.modify(&first, change(2000)).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.sessions().guaranteed().up, 6_000_000);
    assert_eq!(bench.establish(&session(4), &smf()).cause, Cause::REQUEST_ACCEPTED, "others need none");
    bench.delete(&first);
    let view = bench.sessions().guaranteed();
    assert_eq!((view.sessions, view.up, view.down), (1, 4_000_000, 99_000_000));
    bench.close();
}
