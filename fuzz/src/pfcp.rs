//! What the PFCP targets do with their bytes; `crates/pfcp/tests/replay.rs` includes this file.

use pfcp::ie::{Cause, CpFunctionFeatures, NodeId, RecoveryTimeStamp, UpFunctionFeatures};
use pfcp::message::{SessionEstablishmentResponse, SessionModificationResponse};
use pfcp::node::{Config, Event, Node, Role, Time};
use pfcp::{Message, Packet, Refusal};
use std::net::{Ipv4Addr, SocketAddr};

/// A message that can be read says the same when sent again; one that can't has an answer that can be read, or none.
pub fn pfcp_message(bytes: &[u8]) {
    for message in pfcp::messages(bytes) {
        match Packet::parse(message) {
            Ok(packet) => {
                // What is sent may be longer than what came: flags take more octets in later releases.
                let Ok(octets) = packet.to_vec() else { continue };
                assert_eq!(Packet::parse(&octets), Ok(packet));
            }
            Err(refusal) => {
                let answer = refusal.answer(&NodeId::default(), 1);
                assert!(answer.is_none() || matches!(refusal, Refusal::Request { .. }));
                if let Some(answer) = answer {
                    let octets = answer.to_vec().expect("refusals are short");
                    assert_eq!(Packet::parse(&octets), Ok(answer));
                }
            }
        }
    }
}

/// Two nodes, one of which says what the bytes say besides: datagrams, each after its length (an octet, in units of 4)
/// and the seconds that pass before it (an octet).
pub fn pfcp_node(bytes: &[u8]) {
    let address = |last| SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), pfcp::PORT));
    let (cp, up) = (address(1), address(2));
    let node = |at: SocketAddr, role| {
        let mut config = Config::new(at.ip().into(), role);
        (config.max_associations, config.max_responses, config.max_requests) = (4, 16, 16);
        Node::new(config, RecoveryTimeStamp(1))
    };
    let mut control = node(cp, Role::ControlPlane(CpFunctionFeatures::NONE));
    let mut user = node(up, Role::UserPlane(UpFunctionFeatures::FTUP));
    let mut now = Time::ZERO;
    control.associate(up, now).expect("room");
    let mut rest = bytes;
    while let [len, seconds, after @ ..] = rest {
        let (datagram, after) = after.split_at(after.len().min(usize::from(*len) * 4));
        rest = after;
        now += Time::from_secs((*seconds).into());
        // Odd times come from a stranger.
        let from = if seconds % 2 == 0 { cp } else { address(3) };
        user.receive(from, datagram, now);
        for _ in 0..4 {
            let (mut to_user, mut to_control) = (Vec::new(), Vec::new());
            control.drain(|to, octets| to_user.push((to, octets.to_vec())));
            user.drain(|to, octets| to_control.push((to, octets.to_vec())));
            to_user.into_iter().filter(|(to, _)| *to == up).for_each(|(_, octets)| user.receive(cp, &octets, now));
            to_control
                .into_iter()
                .filter(|(to, _)| *to == cp)
                .for_each(|(_, octets)| control.receive(up, &octets, now));
            control.tick(now);
            user.tick(now);
            while control.next_event().is_some() {}
            while let Some(event) = user.next_event() {
                react(&mut user, event, now);
            }
        }
        assert!(user.associations().count() <= 4);
    }
}

fn react(user: &mut Node, event: Event, now: Time) {
    match event {
        Event::Request { ticket, packet, .. } => {
            let cause = Cause::REQUEST_REJECTED;
            let message: Message = match packet.message {
                Message::SessionEstablishmentRequest(request) => {
                    SessionEstablishmentResponse { node_id: request.node_id, cause, ..Default::default() }.into()
                }
                _ => SessionModificationResponse { cause, ..Default::default() }.into(),
            };
            user.respond(ticket, packet.header.seid, message, now);
        }
        Event::Unreadable { ticket, seid, fault } => user.refuse(ticket, seid, fault, now),
        Event::Up(id) => assert!(user.association(id).is_some() || id.0 < 1000),
        _ => {}
    }
}
