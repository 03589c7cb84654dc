//! Packets between subscribers and control planes' functions (N4-u, 3GPP TS 29.244, 5.3.3): router solicitations, router
//! advertisements.

use std::net::SocketAddr;

use super::super::*;

/// The SMF's GTP-U address is its PFCP one.
const SMF: SocketAddr = SocketAddr::new(CP.ip(), 2152);
const SMF_TEID: u32 = 0x42;
/// Ours for PFCP.
const N4: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 1);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);

fn smf_at(address: std::net::IpAddr) -> Profile {
    let std::net::IpAddr::V4(address) = address else { panic!("IPv4") };
    Profile { control_tunnel: Some(access(address, SMF_TEID)), ..smf() }
}

/// A session of IPv6 that is connected to its gNB.
fn session(bench: &mut Bench, profile: &Profile) -> Session {
    let ip6 = Some("2001:db8:60:1::".parse().expect("address"));
    let mut session = Session { cp_seid: 1, ip6, ..Session::default() };
    let established = bench.establish(&session, profile);
    session.established(&established).expect("accepted");
    let connect = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    session
}

fn end(f_teid: Option<FTeid>) -> (u32, Option<Ipv4Addr>) {
    let Some(FTeid::Given { teid, ip4, .. }) = f_teid else { panic!("a tunnel was chosen") };
    (teid.0, ip4)
}

fn solicitation() -> Wire {
    let routers: Ipv6Addr = "ff02::2".parse().expect("address");
    ip6(HOST, routers).ttl(255).icmp6(133, 0, 0)
}

fn advertisement() -> Wire {
    let hosts: Ipv6Addr = "ff02::1".parse().expect("address");
    ip6(ROUTER, hosts).ttl(255).icmp6(134, 0, 0)
}

fn g_pdu(teid: u32, packet: &[u8]) -> Vec<u8> {
    let len = packet.len() as u16;
    [&[0x30, 255][..], &len.to_be_bytes(), &teid.to_be_bytes(), packet].concat()
}

fn count(bench: &Bench, name: &str) -> u64 {
    bench.sessions().control_packets().all().into_iter().find(|(known, ..)| *known == name).expect("a counter").1
}

fn drops(bench: &Bench, name: &str) -> u64 {
    bench.drops().iter().filter(|(_, why, _)| *why == name).map(|(.., packets)| packets).sum()
}

#[test]
fn solicitations_leave_from_the_n4_address() {
    let mut bench = Bench::new("");
    let session = session(&mut bench, &smf_at(CP.ip()));
    let (teid, _) = end(session.uplink_f_teid);
    bench.send("n3", &up(teid, &solicitation()));
    assert_eq!(bench.gtpu_sent(), [(SMF, g_pdu(SMF_TEID, &solicitation().build()))], "with its hop limit of 255");
    assert_eq!((bench.received("n3").len(), bench.received("n6").len()), (0, 0));
    assert_eq!(count(&bench, "control_packets_sent"), 1);
    assert!(bench.news().iter().all(|news| !news.contains("no path")));
    bench.close();
}

#[test]
fn advertisements_come_to_the_n4_address() {
    let mut bench = Bench::new("");
    let session = session(&mut bench, &smf_at(CP.ip()));
    let (teid, at) = end(session.downlink_f_teid);
    assert_eq!(at, Some(N4), "where the control plane's packets are to go");
    bench.gtpu_from(SMF, &g_pdu(teid, &advertisement().build()));
    assert_eq!(bench.received("n3"), [down(&advertisement())], "as it came, in the subscriber's QoS flow");
    // With a sequence number, as some send.
    let packet = advertisement().build();
    let len = packet.len() as u16 + 4;
    let head = [&[0x32, 255][..], &len.to_be_bytes(), &teid.to_be_bytes(), &[0, 7, 0, 0]].concat();
    bench.gtpu_from(SMF, &[&head[..], &packet].concat());
    assert_eq!(bench.received("n3").len(), 1);
    assert_eq!(count(&bench, "control_packets_received"), 2);
    bench.close();
}

#[test]
fn the_n4_address_takes_in_nothing_else() {
    let mut bench = Bench::new("n4.allow = [\"10.0.4.0/24\"]");
    let session = session(&mut bench, &smf_at(CP.ip()));
    let ((teid, _), (uplink, _)) = (end(session.downlink_f_teid), end(session.uplink_f_teid));
    let packet = advertisement().build();
    bench.gtpu_from(SMF, &g_pdu(uplink, &request(UE).build()));
    bench.gtpu_from(SMF, &g_pdu(teid ^ 1, &packet));
    assert_eq!(count(&bench, "control_packets_unknown_teid"), 2, "access is not this way");
    bench.gtpu_from(SocketAddr::from(([192, 0, 2, 1], 2152)), &g_pdu(teid, &packet));
    assert_eq!(count(&bench, "control_packets_not_allowed"), 1);
    for garbage in [&[][..], &[0x30], &[0x10, 255, 0, 0, 0, 0, 0, 0], &[0x30, 255, 0, 9, 0, 0, 0, 1]] {
        bench.gtpu_from(SMF, garbage);
    }
    bench.gtpu_from(SMF, &g_pdu(teid, &[0x60, 0]));
    assert_eq!(drops(&bench, "malformed"), 1, "no packet of a user's");
    assert_eq!((bench.received("n3").len(), bench.received("n6").len()), (0, 0));
    assert_eq!(count(&bench, "control_packets_malformed"), 4);
    // A control plane asks whether we are there (TS 29.281, 7.2.1).
    bench.gtpu_from(SMF, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
    assert_eq!(bench.gtpu_sent(), [(SMF, vec![0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0])]);
    bench.close();
}

#[test]
fn a_missing_control_path_is_named() {
    let mut bench = Bench::without_peer("");
    bench.close_control_path();
    bench.associate(0);
    assert!(bench.news().iter().any(|news| news.contains("no path for packets to the control plane")));
    let session = session(&mut bench, &smf_at(CP.ip()));
    let (teid, _) = end(session.uplink_f_teid);
    assert_eq!(end(session.downlink_f_teid).1, Some(N3), "tunnels end at N3 then");
    bench.send("n3", &up(teid, &solicitation()));
    assert_eq!((drops(&bench, "no_control_path"), drops(&bench, "far_incomplete")), (1, 0));
    assert_eq!(bench.gtpu_sent(), []);
    bench.close();
    // A FAR without the control plane's tunnel.
    let mut bench = Bench::new("");
    let session = self::session(&mut bench, &smf_at(CP.ip()));
    let far = CreateFar {
        far_id: FarId(30),
        apply_action: ApplyAction::FORW,
        forwarding_parameters: Some(ForwardingParameters {
            destination_interface: DestinationInterface::CpFunction,
            ..Default::default()
        }),
        ..Default::default()
    };
    let pdr = UpdatePdr { pdr_id: PdrId(4), far_id: Some(FarId(30)), ..Default::default() };
    let change = SessionModificationRequest { create_fars: vec![far], update_pdrs: vec![pdr], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(end(session.uplink_f_teid).0, &solicitation()));
    assert_eq!(drops(&bench, "no_control_path"), 1);
    bench.close();
}

#[test]
fn a_flood_for_the_control_plane_is_bounded_and_counted() {
    let mut bench = Bench::new("");
    let session = session(&mut bench, &smf_at(CP.ip()));
    let (teid, _) = end(session.uplink_f_teid);
    (0..20).for_each(|_| bench.send_many("n3", &up(teid, &solicitation()), 100));
    let sent = bench.gtpu_sent().len() as u64;
    let (busy, full) = (drops(&bench, "control_busy"), count(&bench, "control_packets_send_queue_full"));
    assert!((1..=1000).contains(&sent) && busy > 0, "{sent} sent, {busy} dropped");
    assert_eq!(sent + busy + full, 2000);
    let (teid, _) = end(session.downlink_f_teid);
    (0..3000).for_each(|_| bench.gtpu_from(SMF, &g_pdu(teid, &advertisement().build())));
    let (passed, limited) = (bench.received("n3").len() as u64, count(&bench, "control_packets_limited"));
    assert!(passed > 0 && limited > 0);
    assert_eq!(passed + limited, 3000);
    bench.close();
}

#[test]
fn a_named_port_leads_to_the_control_plane() {
    let mut bench = Bench::new("n4.cp_port = \"n3\"");
    let session = session(&mut bench, &smf_at(FAR_AWAY.into()));
    let (teid, _) = end(session.uplink_f_teid);
    bench.send("n3", &up(teid, &solicitation()));
    let sent = bench.received("n3");
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0][30..34], &sent[0][46..50]), (&FAR_AWAY.octets()[..], &SMF_TEID.to_be_bytes()[..]));
    assert!(sent[0].ends_with(&solicitation().build()), "with its hop limit of 255, or nobody would believe it");
    let (teid, at) = end(session.downlink_f_teid);
    assert_eq!(at, Some(N3));
    bench.send("n3", &from_gnb(Over::V4).gtpu(teid).carrying(&advertisement()).build());
    assert_eq!(bench.received("n3"), [down(&advertisement())]);
    assert_eq!(bench.sessions().paths().len(), 1, "only the gNB is asked whether it is there");
    bench.close();
}
