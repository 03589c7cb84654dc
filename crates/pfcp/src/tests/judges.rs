//! Judges from outside: tshark reads what we send, scapy talks to a node of ours. `make setup` installs both.

#[path = "../../tests/capture/mod.rs"]
mod capture;

use crate::control::{Kind, Profile, Session};
use crate::group::{ApplicationIdsPfds, PfdContext};
use crate::ie::*;
use crate::message::*;
use crate::node::{Config, Event, Node, Role, Time};
use crate::{Header, Message, Packet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A capture file of UDP datagrams to PFCP's port.
fn pcap(datagrams: &[Vec<u8>]) -> Vec<u8> {
    // Classic pcap, little-endian, link type raw IP.
    let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101];
    let mut file: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for datagram in datagrams {
        let len = datagram.len() as u16 + 28;
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        let udp = [crate::PORT, crate::PORT, len - 20, 0].map(u16::to_be_bytes);
        file.extend([0, 0, u32::from(len), u32::from(len)].into_iter().flat_map(u32::to_le_bytes));
        file.extend(ip.into_iter().chain(udp.into_iter().flatten()).chain(datagram.iter().copied()));
    }
    file
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
    fs::create_dir_all(&folder).expect("a folder for scratch files");
    folder.join(format!("pfcp-{}-{name}", std::process::id()))
}

/// What a control plane of ours says, of every kind.
fn session() -> Vec<Packet> {
    let tunnel = OuterHeaderCreation::gtp_u(wire::Teid(1), Some(Ipv4Addr::new(192, 0, 2, 3)), None);
    let of_kind = |kind| {
        let profile = Profile {
            kind,
            dnn: "internet".into(),
            access_instance: Some("access".into()),
            maximum_bitrate: Some(Mbr { uplink: 1000, downlink: 2000 }),
            qfi: Some(Qfi(9)),
            volume_threshold: Some(1 << 20),
            volume_quota: Some(1 << 30),
            measurement_period: Some(60),
            control_tunnel: Some(tunnel),
            inactivity_timer: Some(600),
            ..Profile::default()
        };
        let mut session = Session { cp_seid: 7, ip4: Some(Ipv4Addr::new(10, 0, 0, 1)), ..Session::default() };
        let said: [Message; 5] = [
            session.establish(&profile, &NodeId::Fqdn("smf.example".into()), Ipv4Addr::LOCALHOST.into()).into(),
            session.connect(tunnel).into(),
            session.connect(tunnel).into(),
            session.query().into(),
            session.idle().into(),
        ];
        said.map(|message| Packet { header: Header::session(9, 5), message })
    };
    let texts = ["permit out ip from 192.0.2.0/24 to assigned", "permit out 17 from any 443 to assigned"];
    let pfd_contexts = vec![PfdContext { pfd_contents: vec![PfdContents::flows(&texts)], ..Default::default() }];
    let application = ApplicationIdsPfds { application_id: "video".into(), pfd_contexts, ..Default::default() };
    let pfds = PfdManagementRequest { application_ids_pfds: vec![application], ..Default::default() };
    let said = [Kind::Smf, Kind::PgwC, Kind::SgwC].into_iter().flat_map(of_kind);
    said.chain([Packet { header: Header::node(9), message: pfds.into() }]).collect()
}

#[test]
fn tshark_finds_nothing_malformed_in_what_we_send() {
    let said = capture::datagrams().map(|(_, datagram)| Packet::parse(&datagram).expect("readable"));
    let sent: Vec<Packet> = said.chain(session()).collect();
    let datagrams: Vec<Vec<u8>> = sent.iter().map(|packet| packet.to_vec().expect("not too long")).collect();
    let path = scratch("sent.pcap");
    fs::write(&path, pcap(&datagrams)).expect("a capture written");
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&path).args(["-T", "fields", "-e", "frame.number", "-e", "pfcp.msg_type"]);
    // 0x800000 is Wireshark's severity "error".
    tshark.args(["-e", "_ws.malformed", "-e", "_ws.expert.severity", "-e", "_ws.expert.message"]);
    let output = tshark.output().expect("tshark is needed: `make setup` installs it");
    fs::remove_file(&path).expect("no longer needed");
    let lines = String::from_utf8(output.stdout).expect("text");
    assert_eq!(lines.lines().count(), sent.len());
    for line in lines.lines() {
        let [number, message_type, malformed, severity, says] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let packet = &sent[number.parse::<usize>().expect("a number") - 1];
        assert_eq!(message_type, packet.message.message_type().to_string());
        let is_error = !malformed.is_empty() || severity.split(',').any(|severity| severity == "8388608");
        assert!(!is_error, "{says}: {packet:?}");
    }
}

/// A user plane that agrees to everything, until `client` has ended.
fn serve(socket: &UdpSocket, mut client: std::process::Child) -> std::process::Output {
    let mut node = Node::new(
        Config::new(NodeId::Ip4(Ipv4Addr::LOCALHOST), Role::UserPlane(UpFunctionFeatures::FTUP)),
        RecoveryTimeStamp::from_unix(1_700_000_000),
    );
    let start = Instant::now();
    let mut datagram = [0; 65_536];
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    while client.try_wait().expect("a child").is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            client.kill().expect("a child");
        }
        let now = Time::from_secs(1000) + start.elapsed();
        if let Ok((len, from)) = socket.recv_from(&mut datagram) {
            node.receive(from, &datagram[..len], now);
        }
        node.tick(now);
        while let Some(event) = node.next_event() {
            let Event::Request { ticket, packet, .. } = event else { continue };
            let response: Message = match packet.message {
                Message::SessionEstablishmentRequest(request) => {
                    let chosen = FTeid::new(wire::Teid(0x1234), Ipv4Addr::LOCALHOST.into());
                    let created = request
                        .create_pdrs
                        .iter()
                        .filter(|pdr| matches!(pdr.pdi.local_f_teid, Some(FTeid::Choose { .. })));
                    SessionEstablishmentResponse {
                        node_id: node.config().node_id.clone(),
                        cause: Cause::REQUEST_ACCEPTED,
                        up_f_seid: Some(FSeid::new(request.cp_f_seid.seid + 1, Ipv4Addr::LOCALHOST.into())),
                        created_pdrs: created
                            .map(|pdr| crate::group::CreatedPdr {
                                pdr_id: pdr.pdr_id,
                                local_f_teid: Some(chosen),
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    }
                    .into()
                }
                Message::SessionModificationRequest(_) => {
                    SessionModificationResponse { cause: Cause::REQUEST_ACCEPTED, ..Default::default() }.into()
                }
                Message::SessionDeletionRequest(_) => {
                    SessionDeletionResponse { cause: Cause::REQUEST_ACCEPTED, ..Default::default() }.into()
                }
                _ => continue,
            };
            node.respond(ticket, Some(7), response, now);
        }
        node.drain(|to, octets| _ = socket.send_to(octets, to).expect("loopback takes it"));
    }
    client.wait_with_output().expect("a child")
}

#[test]
fn scapy_sets_up_an_association_and_a_session() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback");
    let port = socket.local_addr().expect("an address").port().to_string();
    let client = Command::new(root.join("target/judge/bin/python3"))
        .arg(root.join("tests/judge/pfcp.py"))
        .arg(port)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("scapy is needed: `make setup` installs it");
    let output = serve(&socket, client);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "11 exchanges as they should be");
}
