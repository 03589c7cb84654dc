//! What is sent is what is read.

use super::packets;
use crate::{Element, Packet, RawIe};
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_message_is_read_as_it_was_sent(seed: u64, full: bool) {
        for packet in packets(seed, full) {
            let octets = packet.to_vec().expect("not too long");
            prop_assert_eq!(Packet::parse(&octets), Ok(packet));
        }
    }

    #[test]
    fn messages_cut_or_changed_anywhere_are_read_or_refused(seed: u64, at: prop::sample::Index, octet: u8) {
        for packet in packets(seed, false) {
            let mut octets = packet.to_vec().expect("not too long");
            let at = at.index(octets.len());
            prop_assert!(Packet::parse(&octets[..at]).is_err());
            octets[at] = octet;
            if let Ok(changed) = Packet::parse(&octets) {
                let again = changed.to_vec().expect("not longer than before by much");
                prop_assert_eq!(Packet::parse(&again), Ok(changed));
            }
        }
    }

    #[test]
    fn any_octets_at_all_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        _ = Packet::parse(&octets);
    }
}

#[test]
fn ies_nobody_knows_are_kept() {
    let packets = (0..20).flat_map(|seed| packets(seed, false));
    let kept = packets.filter_map(|packet| match packet.message {
        crate::Message::SessionModificationRequest(request) => Some(request.others),
        _ => None,
    });
    let kept: Vec<RawIe> = kept.flatten().collect();
    assert!(kept.iter().any(|ie| ie.enterprise() == Some(0x0d5f)));
    assert!(kept.iter().any(|ie| ie.enterprise().is_none() && ie.ie != crate::ie::Cause::TYPE));
}
