//! CHOOSE IDs over the life of a session (3GPP TS 29.244, 5.5.3, and what control planes make of it).

use super::super::*;

/// The CHOOSE ID of the uplink's F-TEID, as the control plane of these tests sends it.
const UPLINK_ID: u8 = 5;

/// A PDR of a dedicated QoS flow whose F-TEID is chosen.
fn dedicated(id: u16, choose: FTeid) -> CreatePdr {
    CreatePdr {
        pdr_id: PdrId(id),
        precedence: Some(Precedence(100)),
        pdi: Pdi {
            source_interface: SourceInterface::Access,
            local_f_teid: Some(choose),
            sdf_filters: vec![SdfFilter::flow("permit out 17 from 198.51.100.7 50001 to assigned")],
            ..Pdi::default()
        },
        outer_header_removal: Some(OuterHeaderRemoval::GTP_U),
        far_id: Some(FarId(2)),
        ..CreatePdr::default()
    }
}

fn id(id: u8) -> FTeid {
    FTeid::Choose { ip4: true, ip6: false, id: Some(id) }
}

fn creation(pdrs: Vec<CreatePdr>) -> SessionModificationRequest {
    SessionModificationRequest { create_pdrs: pdrs, ..Default::default() }
}

fn removal(pdrs: &[u16]) -> SessionModificationRequest {
    let remove = |id: &u16| RemovePdr { pdr_id: PdrId(*id), ..Default::default() };
    SessionModificationRequest { remove_pdrs: pdrs.iter().map(remove).collect(), ..Default::default() }
}

/// The TEID that a modification chose for a PDR.
fn chosen(response: &SessionModificationResponse, pdr: u16) -> u32 {
    assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
    let created = response.created_pdrs.iter().find(|created| created.pdr_id == PdrId(pdr)).expect("it is told");
    let Some(FTeid::Given { teid, ip4: Some(at), .. }) = created.local_f_teid else { panic!("a tunnel was chosen") };
    assert_eq!(at, N3);
    teid.0
}

/// A packet of the dedicated flow.
fn flow(teid: u32) -> Vec<u8> {
    up(teid, &ip4(UE, SERVER).udp(40_000, 50_001).filled(32))
}

#[test]
fn a_choose_id_keeps_its_tunnel_in_later_requests() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let response = bench.modify(&session, creation(vec![dedicated(20, id(UPLINK_ID))]));
    assert_eq!(chosen(&response, 20), teid, "the F-TEID that the ID got at establishment");
    bench.send("n3", &flow(teid));
    assert_eq!(bench.received("n6").len(), 1);
    // Its end takes the tunnel from nobody else.
    assert_eq!(bench.modify(&session, removal(&[20])).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    let again = bench.modify(&session, creation(vec![dedicated(21, id(UPLINK_ID))]));
    assert_eq!(chosen(&again, 21), teid);
    bench.close();
}

#[test]
fn other_ids_families_and_interfaces_get_other_tunnels() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let both = FTeid::Choose { ip4: true, ip6: true, id: Some(UPLINK_ID) };
    let mut from_core = dedicated(22, id(UPLINK_ID));
    from_core.pdi.source_interface = SourceInterface::Core;
    let mut named = dedicated(23, id(UPLINK_ID));
    named.pdi.network_instance = Some(NetworkInstance::from("access"));
    let none = FTeid::Choose { ip4: true, ip6: false, id: None };
    let requests = [dedicated(20, id(UPLINK_ID + 50)), dedicated(21, both), from_core, named, dedicated(24, none)];
    let mut all: Vec<u32> = vec![teid];
    for pdr in requests {
        let number = pdr.pdr_id.0;
        all.push(chosen(&bench.modify(&session, creation(vec![pdr])), number));
    }
    // In one request the ID alone counts (5.5.3).
    let mut other = dedicated(26, id(77));
    other.pdi.source_interface = SourceInterface::Core;
    let together = bench.modify(&session, creation(vec![dedicated(25, id(77)), other]));
    assert_eq!(chosen(&together, 25), chosen(&together, 26));
    all.push(chosen(&together, 25));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "each has its own");
    // Of another session too.
    let mut second = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    let established = bench.establish(&second, &smf());
    second.established(&established).expect("accepted");
    assert_ne!(second.uplink_f_teid, session.uplink_f_teid);
    bench.close();
}

#[test]
fn a_choose_id_survives_a_restart() {
    let folder = std::env::temp_dir().join(format!("weir-choose-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    let (session, teid) = connected(&mut bench, &smf());
    let other = chosen(&bench.modify(&session, creation(vec![dedicated(20, id(70))])), 20);
    bench.close();
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!(restored.sessions, 1);
    let response = bench.modify(&session, creation(vec![dedicated(30, id(UPLINK_ID)), dedicated(31, id(70))]));
    assert_eq!((chosen(&response, 30), chosen(&response, 31)), (teid, other));
    bench.close();
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn the_last_pdr_releases_its_choose_id() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &smf());
    let response = bench.modify(&session, creation(vec![dedicated(20, id(70)), dedicated(21, id(70))]));
    let teid = chosen(&response, 20);
    assert_eq!(chosen(&response, 21), teid);
    assert_eq!(bench.modify(&session, removal(&[20])).cause, Cause::REQUEST_ACCEPTED);
    let response = bench.modify(&session, creation(vec![dedicated(20, id(70))]));
    assert_eq!(chosen(&response, 20), teid, "one PDR is left that uses it");
    assert_eq!(bench.modify(&session, removal(&[20, 21])).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &flow(teid));
    assert_eq!(bench.received("n6").len(), 0, "nobody's tunnel");
    let response = bench.modify(&session, creation(vec![dedicated(20, id(70))]));
    assert_ne!(chosen(&response, 20), teid);
    bench.close();
}

#[test]
fn a_refused_modification_leaves_choose_ids_alone() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let good = chosen(&bench.modify(&session, creation(vec![dedicated(20, id(70))])), 20);
    // It removes the only PDR of an ID, brings a new ID, and fails.
    let mut refused = removal(&[20]);
    let without_far = CreatePdr { far_id: Some(FarId(99)), ..dedicated(22, id(70)) };
    refused.create_pdrs = vec![dedicated(21, id(71)), without_far];
    assert_ne!(bench.modify(&session, refused).cause, Cause::REQUEST_ACCEPTED);
    let response = bench.modify(&session, creation(vec![dedicated(30, id(UPLINK_ID)), dedicated(31, id(70))]));
    assert_eq!((chosen(&response, 30), chosen(&response, 31)), (teid, good));
    // The worker refuses what control would take.
    bench.set_room(upf::sessions::Room { lines: 0, ..Default::default() });
    let refused = bench.modify(&session, creation(vec![dedicated(32, id(72))]));
    assert_ne!(refused.cause, Cause::REQUEST_ACCEPTED);
    bench.set_room(upf::sessions::Room::default());
    let response = bench.modify(&session, creation(vec![dedicated(33, id(UPLINK_ID)), dedicated(34, id(70))]));
    assert_eq!((chosen(&response, 33), chosen(&response, 34)), (teid, good));
    bench.close();
}

#[test]
fn a_peer_can_not_bring_choose_ids_of_its_own() {
    let mut bench = Bench::new("");
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut establishment = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    // As it is kept: CHOOSE ID 70 of access, IPv4, no network, TEID 0x1234 at N3.
    let f_teid = [&[1, 0, 0, 0x12, 0x34][..], &N3.octets()].concat();
    let content = [&[0, 0, 70, 0, 1, 0, 0, f_teid.len() as u8][..], &f_teid].concat();
    establishment.others = vec![pfcp::RawIe { ie: u16::MAX, content: content.into() }];
    establishment.create_pdrs.push(dedicated(20, FTeid::new(wire::Teid(0x1234), N3.into())));
    let answer = bench.say(Some(0), establishment.into());
    let Message::SessionEstablishmentResponse(answer) = answer.message else { panic!("an answer of its kind") };
    let up = Session { up_f_seid: answer.up_f_seid, ..session };
    let response = bench.modify(&up, creation(vec![dedicated(21, id(70))]));
    assert_ne!(chosen(&response, 21), 0x1234);
    bench.close();
}
