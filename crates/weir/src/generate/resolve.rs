//! The gateway's hardware addresses, asked for by ARP (RFC 826) or neighbour discovery (RFC 4861) as an ordinary
//! neighbour would.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use dataplane::neighbour::{self, NeighbourMessage, Station};
use frame::{Batch, Pool, Port};
use traffic::{Profile, Segment};
use wire::Mac;
use wire::ethernet::{Tag, Tags};

use super::options::Spec;
use gateway::fail::Usage;

/// How long a gateway may take to answer, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(300);

/// Fills in hardware addresses that neither file nor command line say: our own are the ports', the gateway is asked.
///
/// # Errors
/// When it cannot be asked, or does not answer.
pub fn addresses(
    spec: &mut Spec,
    ports: [Option<&mut (dyn Port + 'static)>; 2],
    pool: &mut Pool,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let default = Profile::default();
    let profile = &mut spec.profile;
    profile.access.answers.append(&mut spec.answer_n3);
    profile.core.answers.append(&mut spec.answer_n6);
    let server = match spec.upf_n6 {
        Some(IpAddr::V6(_)) => IpAddr::from(profile.server6_first),
        _ => profile.server_first.into(),
    };
    let sides = [
        ("n3", &mut profile.access, default.access, profile.gnb_first, Some(profile.upf_n3)),
        ("n6", &mut profile.core, default.core, server, spec.upf_n6),
    ];
    for (((name, segment, unsaid, ours, theirs), port), mac) in sides.into_iter().zip(ports).zip(spec.macs) {
        let Some(port) = port else { continue };
        let said = (segment.own, segment.gateway) != (unsaid.own, unsaid.gateway);
        if !said {
            segment.own = Mac(port.caps().mac);
        }
        match (mac, port.caps().kind) {
            (Some(mac), _) => segment.gateway = mac,
            _ if said => {}
            // Nobody there to be asked.
            (None, "memory" | "pcap") => {}
            (None, _) => segment.gateway = ask(name, segment, ours, theirs, port, pool, stop)?,
        }
    }
    Ok(())
}

fn ask(
    name: &str,
    segment: &Segment,
    ours: IpAddr,
    theirs: Option<IpAddr>,
    port: &mut dyn Port,
    pool: &mut Pool,
    stop: &AtomicBool,
) -> anyhow::Result<Mac> {
    let asked = theirs.and_then(|theirs| Some((question(segment, ours, theirs)?, theirs)));
    let Some((question, theirs)) = asked else {
        let other = if name == "n6" { ", or its address there with --upf-n6" } else { "" };
        bail!(Usage(format!("give the gateway's hardware address on {name} with --{name}-mac{other}")));
    };
    let begin = Instant::now();
    let mut next = begin;
    let mut batch = Batch::new();
    while begin.elapsed() < PATIENCE && !stop.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += AGAIN;
            if let Some(frame) = pool.make(&question) {
                let _ = batch.push(frame).map_err(|frame| pool.give(frame));
                port.tx_burst(pool, &mut batch);
                pool.give_all(&mut batch);
            }
        }
        port.kick(pool);
        port.service(pool);
        port.rx_burst(pool, &mut batch);
        let answer = batch.frames().iter().find_map(|frame| answered(pool.arena().bytes(frame), theirs));
        pool.give_all(&mut batch);
        if let Some(mac) = answer {
            return Ok(mac);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!(
        "the gateway's address {theirs} does not answer on {name}: does it run, and is the port the right one? (or give --{name}-mac)"
    )
}

/// The frame that asks for `theirs`; none where it is of another family than we are.
fn question(segment: &Segment, ours: IpAddr, theirs: IpAddr) -> Option<Vec<u8>> {
    let tags = segment.vlan.map_or(Tags::None, |id| Tags::One(Tag::customer(wire::Vlan::of(id))));
    let us = Station { mac: segment.own, tags };
    neighbour::request(&us, ours, theirs, None)
}

/// Where `theirs` is, if the frame says so.
fn answered(frame: &[u8], theirs: IpAddr) -> Option<Mac> {
    match NeighbourMessage::parse(frame).ok()? {
        NeighbourMessage::ArpReply { sender, sender_ip, .. } if sender_ip == theirs => Some(sender),
        NeighbourMessage::NeighbourAdvertisement { target, link, .. } if target == theirs => link,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use traffic::{Direction, Neighbours};

    /// The generator's own answers, asked by its own question: a gateway's side does the same.
    #[test]
    fn a_question_is_answered_and_the_answer_read() {
        let profile = Profile { servers: 2, ..Profile::default() };
        let neighbour = Neighbours::new(&profile, Direction::Downlink);
        let six = Ipv6Addr::from_bits(profile.server6_first.to_bits() + 1);
        let (ours, ours6) = (IpAddr::from([10, 9, 9, 9]), "fe80::9".parse().unwrap());
        assert_eq!(question(&profile.core, ours, six.into()), None);
        for vlan in [None, Some(100)] {
            let asker = Segment { own: Mac([2, 0, 0, 0, 9, 9]), vlan, ..profile.core.clone() };
            for (ours, theirs) in [(ours, profile.server_first.into()), (ours6, six.into())] {
                let question = question(&asker, ours, theirs).expect("of one family");
                let mut space = [question.clone(), vec![0; 128]].concat();
                let len = neighbour.answer(&mut space, question.len()).expect("an answer");
                let answer = &space[..len];
                assert_eq!(answer[..6], asker.own.0);
                assert_eq!(answered(answer, theirs), Some(profile.core.own));
                assert_eq!(answered(answer, "192.0.2.1".parse().unwrap()), None);
                assert_eq!(answered(answer, "2001:db8::1".parse().unwrap()), None);
                assert_eq!(answered(&question, theirs), None, "a question is no answer");
            }
        }
    }
}
