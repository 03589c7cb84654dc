//! What real control planes and user planes say to each other: all of it is read, and says the same when sent again.

mod capture;

use capture::{canonical, datagrams};
use pfcp::{Message, Packet};

/// The IEs of which a peer sent more or fewer octets than we do: later releases append octets of flags, and how many of
/// them are zero and sent is everyone's own choice.
const LONGER: &[(u16, &str)] = &[
    (37, "Reporting Triggers: 3 octets since Release 16"),
    (44, "Apply Action: 2 octets since Release 16"),
    (63, "Usage Report Trigger: 3 octets since Release 16"),
    (43, "UP Function Features: 2 octets at first, more with each release"),
    (38, "Redirect Information: another address since Release 15"),
];

#[test]
fn every_message_is_read_and_says_the_same_when_sent_again() {
    let mut messages = 0;
    for (name, datagram) in datagrams() {
        let packet = Packet::parse(&datagram).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        let again = packet.to_vec().expect("it was not too long before");
        assert_eq!(Packet::parse(&again).as_ref(), Ok(&packet), "{name}");
        assert_eq!(canonical(&again, LONGER), canonical(&datagram, LONGER), "{name}: {packet:#?}");
        messages += 1;
    }
    assert_eq!(messages, 2_098);
}

#[test]
fn the_simulators_oddities_are_read() {
    let parse = |want: &str, message_type: u8| {
        let mut all = datagrams().filter(|(name, _)| name.contains(want)).map(|(_, datagram)| datagram);
        let datagram = all.find(|datagram| datagram[1] == message_type).expect("the capture has one");
        Packet::parse(&datagram).expect("readable")
    };
    let Packet { header, message: Message::AssociationReleaseRequest(release) } = parse("simulator-a", 9) else {
        panic!("a release")
    };
    assert_eq!((header.sequence, release.node_id.to_string().as_str()), (0, "0.0.0.0"));
    let Message::SessionDeletionRequest(deletion) = parse("simulator-a", 54).message else { panic!("a deletion") };
    assert!(deletion.cp_f_seid.is_some());
}
