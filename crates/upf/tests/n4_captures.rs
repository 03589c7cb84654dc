//! What real control planes said to real user planes, said to this one: it takes what those took.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use pfcp::ie::{Cause, FTeid};
use pfcp::message::Message;
use pfcp::{Header, Packet};

use crate::capture::{self, Seen};
use crate::golden_cases::N3;
use crate::n4_bench::Bench;

/// Cause and, of an establishment, our SEID.
fn outcome(message: &Message) -> Option<(Cause, Option<u64>)> {
    Some(match message {
        Message::SessionEstablishmentResponse(r) => (r.cause, r.up_f_seid.map(|f_seid| f_seid.seid)),
        Message::SessionModificationResponse(r) => (r.cause, None),
        Message::SessionDeletionResponse(r) => (r.cause, None),
        Message::AssociationSetupResponse(r) => (r.cause, None),
        _ => return None,
    })
}

/// Tunnels that the control plane chose end at our address instead of theirs.
fn moved_here(mut packet: Packet) -> Packet {
    let here = |end: &mut Option<FTeid>| {
        if let Some(FTeid::Given { ip4, ip6, .. }) = end {
            (*ip4, *ip6) = (Some(N3), None);
        }
    };
    match &mut packet.message {
        Message::SessionEstablishmentRequest(request) => {
            request.create_pdrs.iter_mut().for_each(|pdr| here(&mut pdr.pdi.local_f_teid));
        }
        Message::SessionModificationRequest(request) => {
            request.create_pdrs.iter_mut().for_each(|pdr| here(&mut pdr.pdi.local_f_teid));
            let updated = request.update_pdrs.iter_mut().filter_map(|pdr| pdr.pdi.as_mut());
            updated.for_each(|pdi| here(&mut pdi.local_f_teid));
        }
        _ => {}
    }
    packet
}

/// One capture: every request of a control plane is said again, to our SEIDs instead of theirs.
fn replay(name: &str, capture: &[Seen], more: &str) {
    let parsed: Vec<(&Seen, Packet)> =
        capture.iter().filter_map(|seen| Some((seen, Packet::parse(&seen.octets).ok()?))).collect();
    // What the user plane of the capture answered, by who asked and by sequence number.
    let mut answers = HashMap::new();
    for (seen, packet) in &parsed {
        if let Some(outcome) = outcome(&packet.message) {
            answers
                .entry((seen.to, seen.from, packet.header.sequence, packet.message.message_type()))
                .or_insert(outcome);
        }
    }
    let mut bench = Bench::without_peer(more);
    let mut seids: HashMap<(Ipv4Addr, u64), u64> = HashMap::new();
    let (mut associated, mut now) = (Vec::new(), 1);
    let (mut said, mut taken, mut wrong) = (0, 0, Vec::new());
    for (seen, packet) in parsed {
        let from_cp = matches!(
            packet.message,
            Message::AssociationSetupRequest(_)
                | Message::SessionEstablishmentRequest(_)
                | Message::SessionModificationRequest(_)
                | Message::SessionDeletionRequest(_)
        );
        if !from_cp {
            continue;
        }
        let cp = SocketAddr::new(seen.from.into(), pfcp::PORT);
        // Some captures begin when the association is there already.
        if !associated.contains(&seen.from) && packet.message.is_session() {
            let request = pfcp::message::AssociationSetupRequest {
                node_id: pfcp::ie::NodeId::Ip4(seen.from),
                ..pfcp::message::AssociationSetupRequest::default()
            };
            let header = Header { sequence: 0x00ff_fff0, ..Header::default() };
            bench.datagram_from(cp, &Packet { header, message: request.into() }.to_vec().expect("fits"));
        }
        if associated.contains(&seen.from) && matches!(packet.message, Message::AssociationSetupRequest(_)) {
            // An association is confirmed once in a second at most.
            now += 2_000_000_000;
            bench.turn_to(now);
        }
        associated.push(seen.from);
        let kind = packet.message.message_type() + 1;
        let sequence = packet.header.sequence;
        let Some((cause, theirs)) = answers.get(&(seen.from, seen.to, sequence, kind)).copied() else { continue };
        let packet = moved_here(packet);
        let seid = packet.header.seid.map(|seid| seids.get(&(seen.to, seid)).copied().unwrap_or(seid));
        let header = Header { seid, ..packet.header };
        let sent = bench.datagram_from(cp, &Packet { header, ..packet.clone() }.to_vec().expect("fits"));
        let mut answer = sent.iter().filter(|sent| sent.header.sequence == sequence);
        let ours = answer.find_map(|sent| outcome(&sent.message));
        said += 1;
        match ours {
            Some((our_cause, our_seid)) if our_cause == cause => {
                taken += 1;
                if let (Some(theirs), Some(ours)) = (theirs, our_seid) {
                    seids.insert((seen.to, theirs), ours);
                }
            }
            ours => wrong.push(format!("{}: {cause} there, {:?} here\n{:?}", seen.name, ours, packet.message)),
        }
    }
    assert!(wrong.is_empty(), "{name}: {taken} of {said}\n{}", wrong[..wrong.len().min(3)].join("\n"));
    assert!(said > 10, "{name}: only {said} requests");
    bench.close();
}

#[test]
fn what_others_took_is_taken() {
    let all: Vec<Seen> = capture::seen().collect();
    let mut names: Vec<&str> = all.iter().filter_map(|seen| seen.name.split(',').next()).collect();
    names.dedup();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let mut rest = all;
    for name in names {
        let (capture, others): (Vec<Seen>, Vec<Seen>) =
            rest.into_iter().partition(|seen| seen.name.split(',').next() == Some(&name));
        replay(&name, &capture, "");
        rest = others;
    }
}
