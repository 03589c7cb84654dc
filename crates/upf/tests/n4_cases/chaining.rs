//! More than one user plane on a packet's path: I-UPF and uplink classifier on N9, indirect forwarding at a handover
//! (3GPP TS 23.501, 5.6.4.2; TS 23.502, 4.9.1.3.3).

use super::super::*;

fn given(created: &[CreatedPdr], pdr: u16) -> u32 {
    let found = created.iter().find(|created| created.pdr_id == PdrId(pdr));
    match found.and_then(|created| created.local_f_teid) {
        Some(FTeid::Given { teid, .. }) => teid.0,
        other => panic!("no tunnel: {other:?}"),
    }
}

fn choose(id: u8) -> Option<FTeid> {
    Some(FTeid::Choose { ip4: true, ip6: false, id: Some(id) })
}

fn pdr(id: u16, far: u32, precedence: u32, pdi: Pdi) -> CreatePdr {
    CreatePdr {
        pdr_id: PdrId(id),
        precedence: Some(Precedence(precedence)),
        outer_header_removal: pdi.local_f_teid.map(|_| OuterHeaderRemoval::GTP_U),
        pdi,
        far_id: Some(FarId(far)),
        ..CreatePdr::default()
    }
}

fn far(id: u32, destination_interface: DestinationInterface, tunnel: Option<OuterHeaderCreation>) -> CreateFar {
    CreateFar {
        far_id: FarId(id),
        apply_action: ApplyAction::FORW,
        forwarding_parameters: Some(ForwardingParameters {
            destination_interface,
            outer_header_creation: tunnel,
            ..Default::default()
        }),
        ..CreateFar::default()
    }
}

#[test]
fn an_uplink_classifier_parts_what_stays_here_from_what_goes_on() {
    let mut bench = Bench::new("");
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    // By default packets go on to the anchor, and come back from it.
    asked.create_fars[1] = far(2, DestinationInterface::Core, Some(access(FAR_AWAY, 0x55)));
    let from_anchor = Pdi { source_interface: SourceInterface::Core, local_f_teid: choose(9), ..Pdi::default() };
    asked.create_pdrs.push(pdr(10, 1, 200, from_anchor));
    // Those to one server leave here, by the same tunnel as all others.
    let mut local = asked.create_pdrs[1].clone();
    (local.pdr_id, local.far_id, local.precedence) = (PdrId(11), Some(FarId(11)), Some(Precedence(10)));
    local.pdi.sdf_filters = vec![SdfFilter::flow("permit out ip from 198.51.100.0/24 to assigned")];
    asked.create_pdrs.push(local);
    asked.create_fars.push(far(11, DestinationInterface::Core, None));
    let Message::SessionEstablishmentResponse(created) = bench.say(Some(0), asked.into()).message else {
        panic!("an answer of its kind")
    };
    session.established(&created).expect("accepted");
    let (n3, n9) = (given(&created.created_pdrs, 2), given(&created.created_pdrs, 10));
    assert_eq!(n3, given(&created.created_pdrs, 11), "one CHOOSE ID, one tunnel");
    let connect = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);

    bench.send("n3", &up(n3, &request(UE)));
    assert_eq!(bench.received("n6"), [to_router(&request(UE).ttl(63)).build()], "breaks out here");
    let elsewhere = ip4(UE, Ipv4Addr::new(203, 0, 113, 1)).udp(40_000, 50_000).filled(32);
    bench.send("n3", &up(n3, &elsewhere));
    let on = bench.received("n3");
    assert_eq!((on.len(), bench.received("n6").len()), (1, 0));
    assert_eq!((&on[0][30..34], &on[0][46..50]), (&FAR_AWAY.octets()[..], &0x55u32.to_be_bytes()[..]));
    assert!(on[0].ends_with(&elsewhere.build()), "a relay is no hop");

    // Towards the subscriber both ways lead into the one tunnel.
    bench.send("n6", &from_router(&response(UE)).build());
    let from_far = ip4(Ipv4Addr::new(203, 0, 113, 1), UE).udp(50_000, 40_000).filled(32);
    bench.send("n3", &from_gnb(Over::V4).gtpu(n9).carrying(&from_far).build());
    let sent = bench.received("n3");
    assert_eq!(sent.len(), 2);
    for frame in &sent {
        assert_eq!((&frame[30..34], &frame[46..50]), (&GNB.octets()[..], &GNB_TEID.to_be_bytes()[..]));
    }
    // Nobody sends as somebody else through either.
    bench.send("n3", &up(n3, &request(Ipv4Addr::new(10, 45, 0, 99))));
    assert_eq!((bench.received("n3").len(), bench.received("n6").len()), (0, 0));
    bench.close();
}

#[test]
fn indirect_forwarding_leads_from_the_old_gnb_to_the_new_one_and_ends() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let from_source = Pdi { source_interface: SourceInterface::Access, local_f_teid: choose(9), ..Pdi::default() };
    let begin = SessionModificationRequest {
        create_pdrs: vec![pdr(20, 20, 100, from_source)],
        create_fars: vec![far(20, DestinationInterface::Access, Some(access(FAR_AWAY, 0x66)))],
        ..Default::default()
    };
    let begun = bench.modify(&session, begin);
    assert_eq!(begun.cause, Cause::REQUEST_ACCEPTED);
    let forwarding = given(&begun.created_pdrs, 20);
    assert_ne!(forwarding, teid);
    // What the source gNB had not delivered: packets to the subscriber, from anybody.
    bench.send("n3", &from_gnb(Over::V4).gtpu(forwarding).carrying(&response(UE)).build());
    // And that this was the last.
    bench.send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(254, forwarding).build());
    let sent = bench.received("n3");
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|frame| frame[30..34] == FAR_AWAY.octets() && frame[46..50] == 0x66u32.to_be_bytes()));
    assert!(sent[0].ends_with(&response(UE).build()));
    assert_eq!(sent[1][43], 254, "End Marker");
    let end = SessionModificationRequest {
        remove_pdrs: vec![RemovePdr { pdr_id: PdrId(20), ..Default::default() }],
        remove_fars: vec![RemoveFar { far_id: FarId(20), ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(bench.modify(&session, end).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &from_gnb(Over::V4).gtpu(forwarding).carrying(&response(UE)).build());
    let sent = bench.received("n3");
    assert!(sent.iter().all(|frame| frame[43] == 26), "nobody's tunnel: Error Indication");
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1, "the session goes on");
    bench.close();
}
