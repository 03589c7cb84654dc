//! What control planes know by name: predefined rules and forwarding policies (3GPP TS 29.244, 5.19 and 8.2.23).

use super::super::*;

const NAMED: &str = r#"
n4.policy = [{ name = "video", dscp = 34 }]
n4.predefined = [
  { name = "blocked", filters = ["permit out 17 from 198.51.100.0/24 to assigned"], precedence = 5, action = "drop" },
  { name = "marked", filters = ["permit out 17 from 198.51.100.0/24 to assigned"], precedence = 10, policy = "video" },
  { name = "slow", mbr_up = "64 kbit/s" },
]
"#;

fn activate(bench: &mut Bench, session: &Session, on: &[&str], off: &[&str]) -> SessionModificationResponse {
    let update = UpdatePdr {
        pdr_id: PdrId(2),
        activate_predefined_rules: on.iter().map(|name| ActivatePredefinedRules::from(*name)).collect(),
        deactivate_predefined_rules: off.iter().map(|name| DeactivatePredefinedRules::from(*name)).collect(),
        ..UpdatePdr::default()
    };
    bench.modify(session, SessionModificationRequest { update_pdrs: vec![update], ..Default::default() })
}

#[test]
fn predefined_rules_are_activated_by_name() {
    let mut bench = Bench::new(NAMED);
    let (session, teid) = connected(&mut bench, &smf());
    let elsewhere = ip4(UE, Ipv4Addr::new(203, 0, 113, 1)).udp(40_000, 50_000).filled(32);
    let passes = |bench: &mut Bench, packet: &Wire| {
        bench.send("n3", &up(teid, packet));
        bench.received("n6").pop().map(|frame| frame[15] >> 2)
    };
    assert_eq!(passes(&mut bench, &request(UE)), Some(0));
    assert_eq!(activate(&mut bench, &session, &["marked"], &[]).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!((passes(&mut bench, &request(UE)), passes(&mut bench, &elsewhere)), (Some(34), Some(0)));
    assert_eq!(activate(&mut bench, &session, &["blocked"], &[]).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!((passes(&mut bench, &request(UE)), passes(&mut bench, &elsewhere)), (None, Some(0)));

    let refused = activate(&mut bench, &session, &["chess"], &[]);
    assert_eq!(refused.cause, Cause::UNKNOWN_PRE_DEFINED_RULE);
    assert_eq!(refused.offending_ie, Some(OffendingIe(106)), "Activate Predefined Rules");
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Pdr(2)));
    assert_eq!(passes(&mut bench, &request(UE)), None, "as before");

    assert_eq!(activate(&mut bench, &session, &[], &["blocked"]).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(passes(&mut bench, &request(UE)), Some(34));
    assert_eq!(activate(&mut bench, &session, &["slow"], &["marked"]).cause, Cause::REQUEST_ACCEPTED);
    let passed = (0..400).filter_map(|_| passes(&mut bench, &request(UE))).count();
    // A burst of 15,000 octets, in packets of 60.
    assert_eq!(passed, 250);
    bench.close();
}

#[test]
fn predefined_rules_bring_their_own_measurement_marking_and_page() {
    const OURS: u32 = 1 << 31;
    let mut bench = Bench::new(
        r#"
n4.predefined = [
  { name = "video", filters = ["permit out 17 from 198.51.100.0/24 to assigned"], precedence = 10, qfi = 5,
    usage = { id = 7, volume_threshold = 100 } },
  { name = "portal", filters = ["permit out 6 from any 80 to assigned"], precedence = 5, action = "redirect",
    page = "http://portal.example/" },
]
"#,
    );
    let profile = Profile { volume_threshold: Some(1 << 40), ..smf() };
    let (session, teid) = connected(&mut bench, &profile);
    let names = |names: &[&str]| names.iter().map(|name| ActivatePredefinedRules::from(*name)).collect::<Vec<_>>();
    let update = |pdr, on: &[&str]| UpdatePdr {
        pdr_id: PdrId(pdr),
        activate_predefined_rules: names(on),
        ..UpdatePdr::default()
    };
    let both = vec![update(1, &["video"]), update(2, &["video", "portal"])];
    let change = SessionModificationRequest { update_pdrs: both, ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);

    // Both directions are measured together, by the rule of ours and by the session's.
    bench.send("n3", &up(teid, &request(UE)));
    bench.send("n6", &from_router(&response(UE)).build());
    let marked = tunnel(Over::V4, GNB_TEID).container_down(5).carrying(&response(UE).ttl(63)).build();
    assert_eq!(bench.received("n3"), [marked]);
    let told: Vec<_> = bench.reports().into_iter().flat_map(|report| report.usage_reports).collect();
    let [UsageReport { urr_id: UrrId(id), usage_report_trigger: trigger, volume_measurement: Some(volume), .. }] =
        &told[..]
    else {
        panic!("one report: {told:?}")
    };
    assert_eq!((*id, *trigger), (OURS | 7, UsageReportTrigger::VOLTH));
    assert_eq!((volume.uplink, volume.downlink), (Some(60), Some(60)));

    // Who opens a page is sent to the other.
    let syn = super::redirect::segment(2, 1000, 0, b"");
    bench.send("n3", &up(teid, &syn));
    assert_eq!((bench.received("n3").len(), bench.received("n6").len()), (1, 1));

    // What is not its, it does not measure; a control plane asks for it by its number, and may change it.
    bench.send("n3", &up(teid, &ip4(UE, Ipv4Addr::new(203, 0, 113, 1)).udp(40_000, 50_000).filled(32)));
    bench.send("n3", &up(teid, &request(UE)));
    // What was counted and not reported yet counts.
    let quota = Some(VolumeQuota::total(61));
    let ask = SessionModificationRequest {
        query_urrs: vec![QueryUrr { urr_id: UrrId(OURS | 7), ..QueryUrr::default() }],
        update_urrs: vec![UpdateUrr { urr_id: UrrId(OURS | 7), volume_quota: quota, ..UpdateUrr::default() }],
        ..Default::default()
    };
    let asked = bench.modify(&session, ask).usage_reports;
    let of = |report: &UsageReport| (report.urr_id.0, report.volume_measurement.and_then(|v| v.total));
    assert_eq!(asked.iter().map(of).collect::<Vec<_>>(), [(OURS | 7, Some(60))]);
    bench.received("n6");
    (0..2).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    assert_eq!(bench.received("n6").len(), 1, "its quota is used up");

    // Deactivated, it has its last word; the session's own goes on.
    let gone = |pdr| UpdatePdr {
        pdr_id: PdrId(pdr),
        deactivate_predefined_rules: vec![DeactivatePredefinedRules::from("video")],
        ..UpdatePdr::default()
    };
    let first = SessionModificationRequest { update_pdrs: vec![gone(1)], ..Default::default() };
    assert_eq!(bench.modify(&session, first).usage_reports, [], "the other PDR has it still");
    let second = SessionModificationRequest { update_pdrs: vec![gone(2)], ..Default::default() };
    let last = bench.modify(&session, second).usage_reports;
    assert_eq!(last.iter().map(of).collect::<Vec<_>>(), [(OURS | 7, Some(60))]);
    assert_eq!(last[0].usage_report_trigger, UsageReportTrigger::TERMR);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    let total: Vec<_> = bench.delete(&session).usage_reports.iter().map(of).collect();
    assert_eq!(total.len(), 1, "the session's own");
    bench.close();
}

#[test]
fn a_pdr_may_have_predefined_rules_alone() {
    let mut bench = Bench::new(NAMED);
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    asked.create_pdrs[1].far_id = None;
    assert_eq!(cause(&bench.say(Some(0), asked.clone().into())), Cause::CONDITIONAL_IE_MISSING);
    asked.create_pdrs[1].activate_predefined_rules = vec![ActivatePredefinedRules::from("marked")];
    let Packet { message: Message::SessionEstablishmentResponse(response), .. } = bench.say(Some(0), asked.into())
    else {
        panic!("an answer of its kind")
    };
    let mut session = session;
    session.established(&response).expect("accepted");
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    bench.send("n3", &up(teid.0, &request(UE)));
    bench.send("n3", &up(teid.0, &ip4(UE, Ipv4Addr::new(203, 0, 113, 1)).udp(40_000, 50_000).filled(32)));
    let sent = bench.received("n6");
    assert_eq!((sent.len(), sent[0][15] >> 2), (1, 34), "what the rule is for, and nothing else");
    bench.close();
}

#[test]
fn forwarding_policies_are_named_by_control_planes() {
    let mut bench = Bench::new(NAMED);
    let (session, teid) = connected(&mut bench, &smf());
    let by = |name: &str| UpdateFar {
        far_id: FarId(2),
        update_forwarding_parameters: Some(UpdateForwardingParameters {
            forwarding_policy: Some(ForwardingPolicy(name.into())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let change = SessionModificationRequest { update_fars: vec![by("video")], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").pop().map(|frame| frame[15] >> 2), Some(34));
    let change = SessionModificationRequest { update_fars: vec![by("chess")], ..Default::default() };
    let refused = bench.modify(&session, change);
    assert_eq!(refused.cause, Cause::INVALID_FORWARDING_POLICY);
    assert_eq!(refused.offending_ie, Some(OffendingIe(41)), "Forwarding Policy");
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Far(2)));
    bench.close();
}

#[test]
fn a_policy_has_a_next_hop_of_its_own() {
    use crate::golden_cases::N6_MAC;
    use testkit::packet::eth;
    const PROBE: [u8; 6] = [2, 0, 0, 0, 6, 253];
    let mut bench = Bench::new("n4.policy = [{ name = \"inspected\", next_hop = \"10.0.6.253\", dscp = 8 }]");
    let (session, teid) = connected(&mut bench, &smf());
    let way = UpdateForwardingParameters {
        forwarding_policy: Some(ForwardingPolicy("inspected".into())),
        ..Default::default()
    };
    let update = UpdateFar { far_id: FarId(2), update_forwarding_parameters: Some(way), ..Default::default() };
    let change = SessionModificationRequest { update_fars: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    bench.turn_to(secs(1));
    let asked = bench.received("n6");
    assert!(!asked.is_empty() && asked.iter().all(|frame| frame[12..14] == [8, 6] && frame[38..42] == [10, 0, 6, 253]));
    bench.send("n6", &eth(PROBE, N6_MAC).arp_reply(PROBE, [10, 0, 6, 253], N6_MAC, crate::golden_cases::N6).build());
    let sent = eth(N6_MAC, PROBE).carrying(&request(UE).ttl(63).tos(32)).build();
    assert_eq!(bench.received("n6"), std::slice::from_ref(&sent), "it waited");
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6"), [sent]);
    assert_eq!(bench.sessions().paths().len(), 1, "the gNB's alone");
    // Too long for the way: its sender is told, as ever.
    bench.send("n3", &up(teid, &ip4(UE, SERVER).udp(40_000, 50_000).filled(1473)));
    assert_eq!((bench.received("n6").len(), bench.received("n3").len()), (0, 1));
    bench.close();
}

#[test]
fn mistakes_in_names_point_at_their_key() {
    use serde::Deserialize as _;
    let base = "gateway = \"upf\"\nn4.address = \"10.0.4.1\"\nport = [{ name = \"n3\", uri = \"memory:n3\", role = \"access\", addresses = [\"10.0.3.1/24\"] }, { name = \"n6\", uri = \"memory:n6\", role = \"core\", addresses = [\"10.0.6.1/24\"] }]\n";
    for (more, path) in [
        ("n4.policy = [{ name = \"a\", instance = \"moon\" }]", "n4.policy.0.instance"),
        ("n4.policy = [{ name = \"a\" }, { name = \"a\" }]", "n4.policy.1.name"),
        ("n4.policy = [{ name = \"a\", dscp = 64 }]", "n4.policy.0.dscp"),
        ("n4.policy = [{ name = \"a\", next_hop = \"10.0.3.9\" }]", "n4.policy.0.next_hop"),
        ("n4.predefined = [{ name = \"a\", policy = \"b\" }]", "n4.predefined.0.policy"),
        ("n4.predefined = [{ name = \"a\", filters = [\"permit all\"] }]", "n4.predefined.0.filters.0"),
        ("n4.predefined = [{ name = \"a\", mbr_up = \"fast\" }]", "n4.predefined.0.mbr_up"),
        ("n4.predefined = [{ name = \"a\", qfi = 64 }]", "n4.predefined.0.qfi"),
        ("n4.predefined = [{ name = \"a\", action = \"redirect\" }]", "n4.predefined.0.page"),
        ("n4.predefined = [{ name = \"a\", usage = { id = 2147483648 } }]", "n4.predefined.0.usage.id"),
        ("n4.rules_per_session = 0", "n4.rules_per_session"),
        ("n4.associations_per_address = 0", "n4.associations_per_address"),
        ("n4.peer = [{ node_id = \"a\", addresses = [] }]", "n4.peer.0.addresses"),
        ("n4.peer = [{ node_id = \"a\", addresses = [\"10.0.4.9\", \"smf\"] }]", "n4.peer.0.addresses.1"),
        (
            "n4.allow = [\"10.0.4.0/29\"]\nn4.peer = [{ node_id = \"a\", addresses = [\"10.0.4.9\"] }]",
            "n4.peer.0.addresses.0",
        ),
        (
            "n4.peer = [{ node_id = \"a\", addresses = [\"::1\"] }, { node_id = \"A\", addresses = [\"::1\"] }]",
            "n4.peer.1.node_id",
        ),
        ("n4.peer = [{ node_id = \"a\", addresses = [\"::1\"], sessions = 0 }]", "n4.peer.0.sessions"),
        ("gtpu.echo_seconds = 10", "gtpu.echo_seconds"),
    ] {
        let table: toml::Table = format!("{base}{more}").parse().expect("TOML");
        let config = upf::config::Config::deserialize(table).expect("a configuration");
        let error = config.check().expect_err(more);
        assert_eq!(error.path.join("."), path);
    }
}
