//! What is wrong with a message is said by the right cause, and what does not matter is ignored (7.6).

use crate::group::*;
use crate::ie::*;
use crate::message::*;
use crate::{Fault, Header, MAX_IES, Message, Packet, Refusal};

/// A message of these IEs: type and content.
fn message(message_type: u8, seid: u64, ies: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    Header::session(seid, 5).emit(message_type, &mut out);
    out.extend(octets(ies));
    crate::header::set_len(&mut out, 0).expect("short");
    out
}

fn octets(ies: &[(u16, &[u8])]) -> Vec<u8> {
    let ie = |(ie, content): &(u16, &[u8])| {
        [&ie.to_be_bytes()[..], &(content.len() as u16).to_be_bytes()[..], content].concat()
    };
    ies.iter().flat_map(ie).collect()
}

const NODE: (u16, &[u8]) = (60, &[0, 192, 0, 2, 1]);
const F_SEID: (u16, &[u8]) = (57, &[2, 0, 0, 0, 0, 0, 0, 0, 7, 192, 0, 2, 1]);
const PDI: (u16, &[u8]) = (2, &[0, 20, 0, 1, 0]);
const PDR_ID: (u16, &[u8]) = (56, &[0, 1]);
const FAR: (u16, &[u8]) = (3, &[0, 108, 0, 4, 0, 0, 0, 1, 0, 44, 0, 1, 1]);

fn establish(pdr: &[(u16, &[u8])], more: &[(u16, &[u8])]) -> Result<SessionEstablishmentRequest, Fault> {
    let pdr = octets(pdr);
    let ies = [&[NODE, F_SEID, (1, &pdr), FAR], more].concat();
    match Packet::parse(&message(50, 0, &ies)) {
        Ok(Packet { message: Message::SessionEstablishmentRequest(request), .. }) => Ok(request),
        Err(Refusal::Request { fault, cp_seid, .. }) => {
            assert_eq!(cp_seid, Some(7), "the peer can be answered");
            Err(fault)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_smallest_establishment_is_read() {
    let request = establish(&[PDR_ID, PDI], &[]).expect("all is there");
    assert_eq!((request.cp_f_seid.seid, request.create_pdrs.len(), request.create_fars.len()), (7, 1, 1));
    // One octet of Apply Action, as before Release 16.
    assert_eq!(request.create_fars[0].apply_action, ApplyAction::DROP);
}

#[test]
fn a_mandatory_ie_that_is_missing_is_named_wherever_it_is() {
    assert_eq!(establish(&[PDR_ID], &[]), Err(Fault::missing(2)), "in a group");
    assert_eq!(establish(&[PDI], &[]), Err(Fault::missing(56)), "in a group");
    let pdi = (2, &[][..]);
    assert_eq!(establish(&[PDR_ID, pdi], &[]), Err(Fault::missing(20)), "in a group in a group");
    let Err(Refusal::Request { fault, cp_seid, .. }) = Packet::parse(&message(50, 0, &[NODE])) else {
        panic!("refused")
    };
    assert_eq!((fault, cp_seid), (Fault::missing(57), None));
}

#[test]
fn a_conditional_ie_that_is_missing_is_named() {
    let forward: (u16, &[u8]) = (3, &[0, 108, 0, 4, 0, 0, 0, 2, 0, 44, 0, 1, 2]);
    assert_eq!(establish(&[PDR_ID, PDI], &[forward]), Err(Fault::missing_conditional(4)));
}

#[test]
fn a_mandatory_ie_that_is_wrong_is_named() {
    let nowhere: (u16, &[u8]) = (2, &[0, 20, 0, 1, 9]);
    let wrong = Fault { cause: Cause::MANDATORY_IE_INCORRECT, ie: 20 };
    assert_eq!(establish(&[PDR_ID, nowhere], &[]), Err(wrong));
    let short = Fault { cause: Cause::INVALID_LENGTH, ie: 56 };
    assert_eq!(establish(&[(56, &[1]), PDI], &[]), Err(short));
}

#[test]
fn an_ie_longer_than_what_it_stands_in_is_an_invalid_length() {
    let long: (u16, &[u8]) = (2, &[0, 20, 0, 9, 0]);
    assert_eq!(establish(&[PDR_ID, long], &[]), Err(Fault { cause: Cause::INVALID_LENGTH, ie: 20 }));
    let mut cut = message(54, 9, &[]);
    cut.extend([0, 99]);
    crate::header::set_len(&mut cut, 0).expect("short");
    let Err(Refusal::Request { fault, .. }) = Packet::parse(&cut) else { panic!("refused") };
    assert_eq!(fault, Fault { cause: Cause::INVALID_LENGTH, ie: 0 });
}

#[test]
fn an_optional_ie_that_is_wrong_is_as_if_it_were_not_there() {
    let request = establish(&[PDR_ID, PDI], &[(117, &[0, 1])]).expect("no reason to refuse");
    assert_eq!(request.user_plane_inactivity_timer, None);
}

#[test]
fn of_repeated_ies_the_first_counts() {
    let request = establish(&[PDR_ID, (56, &[0, 2]), PDI], &[]).expect("no reason to refuse");
    assert_eq!(request.create_pdrs[0].pdr_id, PdrId(1));
}

#[test]
fn more_octets_than_known_are_ignored() {
    let request = establish(&[(56, &[0, 1, 99, 99]), PDI], &[]).expect("later releases append");
    assert_eq!(request.create_pdrs[0].pdr_id, PdrId(1));
}

#[test]
fn the_number_of_ies_is_bounded() {
    let many: Vec<(u16, &[u8])> = vec![(0x7000, &[]); usize::from(MAX_IES)];
    assert_eq!(establish(&[PDR_ID, PDI], &many).map_err(|fault| fault.cause), Err(Cause::NO_RESOURCES_AVAILABLE));
    assert!(establish(&[PDR_ID, PDI], &many[100..]).is_ok());
}

#[test]
fn a_response_that_is_wrong_is_not_answered() {
    let refusal = Packet::parse(&message(51, 7, &[NODE])).expect_err("no cause");
    assert!(matches!(refusal, Refusal::Response { message_type: 51, fault, .. } if fault == Fault::missing(19)));
    assert_eq!(refusal.answer(&NodeId::default(), 7), None);
}

#[test]
fn every_request_but_a_heartbeat_has_an_answer_that_says_why_not() {
    let fault = Fault { cause: Cause::SYSTEM_FAILURE, ie: 0 };
    for message_type in 0..=255 {
        let answer = crate::refusal::rejection(message_type, &NodeId::default(), fault);
        assert_eq!(answer.is_some(), is_request(message_type) && message_type != HeartbeatRequest::TYPE);
        assert!(answer.is_none_or(|answer| answer.message_type() == message_type + 1));
    }
}

#[test]
fn a_message_that_is_too_long_is_not_sent() {
    let create_pdrs = vec![CreatePdr::default(); 4000];
    let message = SessionEstablishmentRequest { create_pdrs, ..Default::default() }.into();
    let mut out = vec![1, 2, 3];
    assert_eq!(Packet { header: Header::node(1), message }.emit(&mut out), Err(crate::TooLong));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn bundled_messages_are_read_one_by_one() {
    let mut datagram = Vec::new();
    for (sequence, follow_on) in [(1, true), (2, true), (3, false)] {
        let header = Header { follow_on, ..Header::session(9, sequence) };
        let packet = Packet { header, message: SessionDeletionRequest::default().into() };
        packet.emit(&mut datagram).expect("short");
    }
    datagram.extend([1, 2, 3]);
    let sequences =
        crate::messages(&datagram).map(|message| Packet::parse(message).map(|packet| packet.header.sequence));
    assert_eq!(sequences.collect::<Vec<_>>(), [Ok(1), Ok(2), Ok(3)]);
    // A promise that is not kept: nothing follows.
    let lone = Packet {
        header: Header { follow_on: true, ..Header::node(1) },
        message: VersionNotSupportedResponse::default().into(),
    };
    assert_eq!(crate::messages(&lone.to_vec().expect("short")).count(), 1);
}
