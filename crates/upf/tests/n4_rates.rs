//! Rates are kept over ten seconds to one in a hundred, whatever they are: frames in, a clock that is turned by hand,
//! frames out. What a bucket that begins full lets pass beside is subtracted.

use std::net::Ipv4Addr;

use pfcp::control::{Profile, Session};
use pfcp::group::CreateQer;
use pfcp::ie::{Mbr, NodeId, QerId};
use pfcp::message::Message;

use crate::golden_cases::{GNB, SERVER, from_router, ip4};
use crate::n4_bench::{Bench, CP, access, smf};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const SECONDS: u64 = 10;
/// Octets of a packet, with its IP header.
const PACKET: u64 = 1400;
/// Offers half as much again as passes, and holds what passes against the rate.
fn is_kept(bench: &mut Bench, kilobits: u64) {
    let rate = kilobits * 1000;
    let payload = vec![0; PACKET as usize - 28];
    let frame = from_router(&ip4(SERVER, UE).udp(53, 40_000).payload(&payload)).build();
    let offered = rate * SECONDS * 3 / 2 / 8 / PACKET;
    // As `compile` gives out: ten milliseconds, or ten packets of full size. What comes together is less, or the bucket
    // would be full before it comes.
    let burst = (rate / 8 / 100).max(15_000);
    let together = (burst / PACKET / 8).clamp(1, 16);
    let bursts = offered / together;
    bench.received("n3");
    let (start, mut passed) = (1_000_000, 0);
    for n in 0..=bursts {
        bench.turn_to(start + n * SECONDS * 1_000_000_000 / bursts);
        bench.send_many("n6", &frame, together as usize);
        passed += bench.received("n3").len() as u64;
    }
    let (wanted, found) = (rate * SECONDS / 8, (passed * PACKET) as f64 - burst as f64);
    let off = (found - wanted as f64).abs();
    println!("{kilobits} kbit/s: {found} octets of {wanted}, {:.3} %", 100.0 * off / wanted as f64);
    assert!(off <= (wanted as f64 / 100.0).max(PACKET as f64), "{kilobits} kbit/s: {found} octets, {wanted} wanted");
}

fn connected(maximum: u64, aggregate: Option<u64>) -> Bench {
    let mut bench = Bench::new("");
    let both = |kilobits| Mbr { uplink: kilobits, downlink: kilobits };
    let profile = Profile { maximum_bitrate: Some(both(maximum)), ..smf() };
    let session = Session { cp_seid: 1, ip4: Some(UE), access: Some(access(GNB, 0x77)), ..Session::default() };
    let mut request = session.establish(&profile, &NodeId::from(CP.ip()), CP.ip());
    if let Some(aggregate) = aggregate {
        let qer_id = QerId(9);
        let maximum_bitrate = Some(both(aggregate));
        request.create_qers.push(CreateQer { qer_id, maximum_bitrate, ..CreateQer::default() });
        request.create_pdrs.iter_mut().for_each(|pdr| pdr.qer_ids.push(qer_id));
    }
    match bench.say(Some(0), request.into()).message {
        Message::SessionEstablishmentResponse(response) => assert!(response.cause.is_acceptance(), "{response:?}"),
        other => panic!("no answer: {other:?}"),
    }
    bench
}

#[test]
fn a_flows_rate_is_kept() {
    for kilobits in [64, 10_000, 1_000_000] {
        let mut bench = connected(kilobits, None);
        is_kept(&mut bench, kilobits);
        bench.close();
    }
}

#[test]
fn a_sessions_rate_is_kept() {
    for kilobits in [64, 10_000, 1_000_000] {
        let mut bench = connected(kilobits * 10, Some(kilobits));
        is_kept(&mut bench, kilobits);
        bench.close();
    }
}
