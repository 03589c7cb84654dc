//! What control planes are told of the node, and what they name of it that is not there.

use super::super::*;

fn set_up(bench: &mut Bench) -> AssociationSetupResponse {
    let hello = AssociationSetupRequest {
        node_id: NodeId::from(CP.ip()),
        recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
        ..AssociationSetupRequest::default()
    };
    match bench.say(None, hello.into()).message {
        Message::AssociationSetupResponse(response) => response,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn ip_resources_are_told_where_f_teids_are_not_chosen() {
    let mut bench = Bench::without_peer("n4.choose_f_teid = false");
    let [resource] = &set_up(&mut bench).user_plane_ip_resource_information[..] else { panic!("one network") };
    assert_eq!((resource.ip4, resource.network_instance.as_ref()), (Some(N3), None), "whatever name it is given");
    assert_eq!(resource.ip6, Some(crate::golden_cases::N3_6));
    bench.drain(true);
    let told = bench.unasked().into_iter().find_map(|packet| match packet.message {
        Message::AssociationUpdateRequest(request) => Some(request.user_plane_ip_resource_information),
        _ => None,
    });
    assert_eq!(told.map(|told| told.len()), Some(1));
    bench.close();
    let mut bench = Bench::without_peer("");
    assert_eq!(set_up(&mut bench).user_plane_ip_resource_information, []);
    bench.close();
}

#[test]
fn ueip_is_told_with_a_pool_only() {
    for (more, has_pool) in [("", false), (r#"n4.pool = [{ v4 = "10.45.0.0/24" }]"#, true)] {
        let mut bench = Bench::without_peer(more);
        let features = set_up(&mut bench).up_function_features.expect("a user plane");
        assert_eq!(features.contains(UpFunctionFeatures::UEIP), has_pool);
        bench.close();
    }
}

#[test]
fn an_f_teid_at_a_foreign_address_is_refused() {
    let mut bench = Bench::new("");
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut wrong = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    wrong.create_pdrs[1].pdi.local_f_teid = Some(FTeid::new(wire::Teid(0x99), Ipv4Addr::new(192, 0, 2, 1).into()));
    let Message::SessionEstablishmentResponse(refused) = bench.say(Some(0), wrong.clone().into()).message else {
        panic!("an answer of its kind")
    };
    assert_eq!((refused.cause, refused.offending_ie), (Cause::MANDATORY_IE_INCORRECT, Some(OffendingIe(21))));
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Pdr(2)));
    // N6's is ours, but no tunnel ends there.
    wrong.create_pdrs[1].pdi.local_f_teid = Some(FTeid::new(wire::Teid(0x99), crate::golden_cases::N6.into()));
    assert_eq!(cause(&bench.say(Some(0), wrong.clone().into())), Cause::MANDATORY_IE_INCORRECT);
    wrong.create_pdrs[1].pdi.local_f_teid = Some(FTeid::new(wire::Teid(0x99), N3.into()));
    assert_eq!(cause(&bench.say(Some(0), wrong.into())), Cause::REQUEST_ACCEPTED);
    bench.close();
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let pdi = Pdi {
        source_interface: SourceInterface::Access,
        local_f_teid: Some(FTeid::new(wire::Teid(0x99), Ipv4Addr::new(192, 0, 2, 1).into())),
        ..Pdi::default()
    };
    let update = UpdatePdr { pdr_id: PdrId(2), pdi: Some(pdi), ..UpdatePdr::default() };
    let change = SessionModificationRequest { update_pdrs: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).offending_ie, Some(OffendingIe(21)));
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1, "it is where it was");
    bench.close();
}

#[test]
fn an_unknown_network_instance_is_refused_or_counted() {
    let ims = Profile { dnn: "ims".into(), ..smf() };
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let count =
        |bench: &Bench| bench.sessions().unknown_networks().map(|(name, n)| (name.to_owned(), n)).collect::<Vec<_>>();
    // Where ports name no network, any name is that of the only one: counted and shown.
    let mut bench = Bench::new("");
    assert_eq!(bench.establish(&session, &ims).cause, Cause::REQUEST_ACCEPTED);
    bench.settle();
    assert_eq!(count(&bench), [("ims".to_owned(), 2)], "a PDR and a FAR");
    assert_eq!(bench.news().iter().filter(|news| news.contains("\"ims\"")).count(), 1, "told once");
    bench.close();
    // Where they do, it is refused by name.
    let mut bench = Bench::with_named_core("");
    let refused = bench.establish(&session, &ims);
    assert_eq!((refused.cause, refused.offending_ie), (Cause::MANDATORY_IE_INCORRECT, Some(OffendingIe(22))));
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Pdr(1)));
    assert_eq!(count(&bench), [("ims".to_owned(), 1)]);
    let (session, _) = connected(&mut bench, &smf());
    let far = UpdateFar {
        far_id: FarId(2),
        update_forwarding_parameters: Some(UpdateForwardingParameters {
            network_instance: Some(NetworkInstance::from("ims")),
            ..Default::default()
        }),
        ..Default::default()
    };
    let change = SessionModificationRequest { update_fars: vec![far], ..Default::default() };
    let refused = bench.modify(&session, change);
    assert_eq!((refused.offending_ie, refused.failed_rule_id), (Some(OffendingIe(22)), Some(FailedRuleId::Far(2))));
    bench.close();
    // Unless the configuration says otherwise.
    let mut bench = Bench::with_named_core("n4.unknown_network_instance = \"first\"");
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    assert_eq!(bench.establish(&session, &ims).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(count(&bench), [("ims".to_owned(), 2)]);
    bench.close();
    let mut bench = Bench::new("n4.unknown_network_instance = \"refuse\"");
    assert_eq!(bench.establish(&session, &ims).offending_ie, Some(OffendingIe(22)));
    bench.close();
}

#[test]
fn a_report_answered_with_an_error_makes_no_loop() {
    for cause in [Cause::REQUEST_REJECTED, Cause::SESSION_CONTEXT_NOT_FOUND, Cause::SYSTEM_FAILURE] {
        let mut bench = Bench::new("");
        let profile = Profile {
            volume_threshold: Some(150),
            volume_quota: Some(300),
            measurement_period: Some(10),
            inactivity_timer: Some(20),
            ..smf()
        };
        let (mut session, teid) = connected(&mut bench, &profile);
        let mut reports = 0;
        let refuse = |bench: &mut Bench| bench.reports_answered(|response| response.cause = cause).len();
        for _ in 0..8 {
            bench.send("n3", &up(teid, &request(UE)));
            reports += refuse(&mut bench);
        }
        let ies = [&[16][..], &GNB_TEID.to_be_bytes(), &[133, 0, 4], &GNB.octets()].concat();
        bench.send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).payload(&ies).build());
        reports += refuse(&mut bench);
        if cause != Cause::SESSION_CONTEXT_NOT_FOUND {
            let idle = session.idle();
            bench.modify(&session, idle);
            bench.send("n6", &from_router(&response(UE)).build());
        }
        for second in 1..=60 {
            bench.turn_to(secs(second));
            bench.send("n6", &from_router(&response(UE)).build());
            (0..5).for_each(|_| reports += refuse(&mut bench));
        }
        // Six periods, a threshold, a quota, an Error Indication, packets that wait, silence.
        assert!((1..=12).contains(&reports), "{cause:?}: {reports} reports");
        let is_over = cause == Cause::SESSION_CONTEXT_NOT_FOUND;
        assert_eq!(bench.sessions().store().len(), usize::from(!is_over), "one it does not know is none");
        bench.close();
    }
}
