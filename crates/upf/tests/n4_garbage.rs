//! Messages of real control planes, changed at random: whatever comes of them, nothing panics, every message gets
//! one answer at most, and control and worker have the same sessions in the end.

use std::net::SocketAddr;

use pfcp::message::{AssociationSetupRequest, Message};
use pfcp::{Header, Packet};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::capture;
use crate::n4_bench::Bench;

fn requests() -> Vec<(SocketAddr, Vec<u8>)> {
    let of_cp = |octets: &[u8]| matches!(octets.get(1), Some(3 | 5 | 14 | 50 | 52 | 54));
    let seen = capture::seen().filter(|seen| of_cp(&seen.octets));
    seen.map(|seen| (SocketAddr::new(seen.from.into(), pfcp::PORT), seen.octets)).collect()
}

/// How many messages say they are in a datagram, by their flags and lengths (TS 29.244, 6.6: bundling).
fn bundled(datagram: &[u8]) -> usize {
    const FOLLOW_ON: u8 = 4;
    let &[flags, _, high, low, ..] = datagram else { return 1 };
    let behind = datagram.get(4 + usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default();
    if flags & FOLLOW_ON == 0 || behind.is_empty() { 1 } else { 1 + bundled(behind) }
}

#[test]
fn changed_messages_do_no_harm() {
    let requests = requests();
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>());
    let script = prop::collection::vec((0..requests.len(), prop::collection::vec(change, 0..4), any::<bool>()), 1..120);
    let result = runner.run(&script, |script| {
        let mut bench = Bench::without_peer(r#"n4.pool = [{ v4 = "10.45.0.0/28" }]"#);
        for peer in [[10, 201, 4, 1], [127, 0, 0, 3], [127, 0, 0, 4]] {
            let node_id = pfcp::ie::NodeId::Ip4(peer.into());
            let hello = AssociationSetupRequest { node_id, ..AssociationSetupRequest::default() };
            let hello = Packet { header: Header::node(1), message: hello.into() }.to_vec().expect("fits");
            bench.datagram_from(SocketAddr::new(peer.into(), pfcp::PORT), &hello);
        }
        let mut known = Vec::new();
        // A request to end an association, which a changed type can make, is answered once that is found to be meant.
        let mut owed = 0;
        for (sequence, (which, changes, cut)) in (10u32..).zip(script) {
            let (from, mut octets) = requests[which].clone();
            let with_seid = octets[0] & 1 != 0;
            // A sequence number of its own, and often a session that is there.
            let at = if with_seid { 12 } else { 4 };
            octets[at..at + 3].copy_from_slice(&sequence.to_be_bytes()[1..]);
            if with_seid && octets[1] != 50 && !known.is_empty() {
                let seid: u64 = known[which % known.len()];
                octets[4..12].copy_from_slice(&seid.to_be_bytes());
            }
            for (at, _, value) in &changes {
                let at = at.index(octets.len());
                octets[at] = *value;
            }
            if let Some((_, len, _)) = changes.first().filter(|_| cut) {
                octets.truncate(len.index(octets.len()));
            }
            let sent = bench.datagram_from(from, &octets);
            owed += bundled(&octets);
            let answers = sent.iter().filter(|packet| !packet.message.is_request()).count();
            prop_assert!(answers <= owed, "{answers} answers to {owed} messages");
            owed -= answers;
            known.extend(sent.iter().filter_map(|packet| match &packet.message {
                Message::SessionEstablishmentResponse(response) => response.up_f_seid.map(|f_seid| f_seid.seid),
                _ => None,
            }));
        }
        bench.turn_to(1_000_000_000);
        prop_assert_eq!(bench.sessions().store().len(), bench.worker_sessions());
        bench.close();
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
