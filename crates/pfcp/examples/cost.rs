//! What messages cost on this machine, as JSON: `cargo run --release -p pfcp --example cost`.
//!
//! `read_ns` and `write_ns` are an establishment with 4 PDRs, `answer_ns` its response written; `node_ns` is all a user
//! plane's node does for one: receive, note, read, hand over, answer, keep. Best of several rounds, one thread.

use pfcp::group::{CreateFar, CreatePdr, CreateQer, CreateUrr, CreatedPdr, ForwardingParameters, Pdi};
use pfcp::ie::*;
use pfcp::message::*;
use pfcp::node::{Config, Event, Node, Role, Time};
use pfcp::{Header, Packet};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;
use wire::Teid;

const CP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const UP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// What a 5G core sends: up and down, control plane traffic, router solicitations.
fn establishment() -> SessionEstablishmentRequest {
    let pdr = |id: u16, source_interface, far: u32| CreatePdr {
        pdr_id: PdrId(id),
        precedence: Some(Precedence(255)),
        pdi: Pdi {
            source_interface,
            local_f_teid: (id > 1).then_some(FTeid::Choose { ip4: true, ip6: true, id: Some(5) }),
            network_instance: Some("internet".into()),
            ue_ip_addresses: vec![UeIpAddress::new(Ipv4Addr::new(10, 45, 0, 2).into(), id == 1)],
            qfis: vec![Qfi(1)],
            ..Default::default()
        },
        outer_header_removal: Some(OuterHeaderRemoval::GTP_U),
        far_id: Some(FarId(far)),
        urr_ids: vec![UrrId(1)],
        qer_ids: vec![QerId(1)],
        ..Default::default()
    };
    let mut solicitation = pdr(4, SourceInterface::Access, 3);
    solicitation.pdi.sdf_filters.push(SdfFilter::flow("permit out 58 from ff02::2/128 to assigned"));
    let far = |id: u32, destination_interface| CreateFar {
        far_id: FarId(id),
        apply_action: ApplyAction::FORW,
        forwarding_parameters: Some(ForwardingParameters {
            destination_interface,
            network_instance: Some("internet".into()),
            outer_header_creation: (id != 2)
                .then(|| OuterHeaderCreation::gtp_u(Teid(77), Some(Ipv4Addr::new(192, 0, 2, 3)), None)),
            ..Default::default()
        }),
        ..Default::default()
    };
    SessionEstablishmentRequest {
        node_id: CP.into(),
        cp_f_seid: FSeid::new(7, CP),
        create_pdrs: vec![
            pdr(1, SourceInterface::Core, 1),
            pdr(2, SourceInterface::Access, 2),
            pdr(3, SourceInterface::CpFunction, 1),
            solicitation,
        ],
        create_fars: vec![
            far(1, DestinationInterface::Access),
            far(2, DestinationInterface::Core),
            far(3, DestinationInterface::CpFunction),
        ],
        create_urrs: vec![CreateUrr {
            urr_id: UrrId(1),
            measurement_method: MeasurementMethod::VOLUM,
            reporting_triggers: ReportingTriggers::VOLTH,
            volume_threshold: Some(VolumeThreshold::total(100 << 20)),
            ..Default::default()
        }],
        create_qers: vec![CreateQer {
            qer_id: QerId(1),
            maximum_bitrate: Some(Mbr { uplink: 1_000_000, downlink: 1_000_000 }),
            qfi: Some(Qfi(1)),
            ..Default::default()
        }],
        pdn_type: Some(PdnType::Ip4),
        user_id: Some(UserId::of_imsi("001010000000001")),
        apn_dnn: Some("internet".into()),
        s_nssai: Some(SNssai { sst: 1, sd: 0xff_ffff }),
        ..Default::default()
    }
}

fn response() -> SessionEstablishmentResponse {
    let created =
        |id| CreatedPdr { pdr_id: PdrId(id), local_f_teid: Some(FTeid::new(Teid(1), UP)), ..Default::default() };
    SessionEstablishmentResponse {
        node_id: UP.into(),
        cause: Cause::REQUEST_ACCEPTED,
        up_f_seid: Some(FSeid::new(9, UP)),
        created_pdrs: vec![created(2), created(3), created(4)],
        ..Default::default()
    }
}

/// Nanoseconds a call takes, the best of some rounds.
fn best(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 500;
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..400).map(round).fold(f64::INFINITY, f64::min)
}

fn main() {
    let request = Packet { header: Header::session(0, 1), message: establishment().into() };
    let octets = request.to_vec().expect("not too long");
    let mut out = Vec::new();
    let read_ns = best(|| drop(black_box(Packet::parse(black_box(&octets)))));
    let mut write = |packet: &Packet| {
        out.clear();
        packet.emit(&mut out).expect("not too long");
        black_box(&out);
    };
    let write_ns = best(|| write(&request));
    let answer = Packet { header: Header::session(7, 1), message: response().into() };
    let answer_ns = best(|| write(&answer));

    let mut config = Config::new(UP.into(), Role::UserPlane(UpFunctionFeatures::FTUP));
    (config.message_rate, config.message_burst) = (u32::MAX, u32::MAX);
    let mut node = Node::new(config, RecoveryTimeStamp::from_unix(1_700_000_000));
    let peer = SocketAddr::new(CP, pfcp::PORT);
    let set_up = AssociationSetupRequest { node_id: CP.into(), ..Default::default() };
    let set_up = Packet { header: Header::node(0), message: set_up.into() };
    node.receive(peer, &set_up.to_vec().expect("short"), Time::ZERO);
    while node.next_event().is_some() {}
    let mut octets = octets.clone();
    let mut sequence = 0u32;
    let response = response();
    let node_ns = best(|| {
        sequence += 1;
        octets[12..15].copy_from_slice(&sequence.to_be_bytes()[1..]);
        let now = Time::from_micros(u64::from(sequence) * 20);
        node.receive(peer, &octets, now);
        let Some(Event::Request { ticket, .. }) = node.next_event() else { panic!("a request") };
        node.respond(ticket, Some(7), response.clone().into(), now);
        node.drain(|_, octets| _ = black_box(octets.len()));
    });
    println!(
        "{{\"octets\": {}, \"read_ns\": {read_ns:.0}, \"write_ns\": {write_ns:.0}, \"answer_ns\": {answer_ns:.0}, \
         \"node_ns\": {node_ns:.0}}}",
        octets.len()
    );
}
