//! The gateway's hardware addresses, asked for by ARP (RFC 826) or neighbour discovery (RFC 4861) as an ordinary
//! neighbour would.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use frame::{Batch, Pool, Port};
use traffic::{Profile, Segment};
use wire::ethernet::{self, Tag, Tags};
use wire::{Mac, Outer, arp, ethertype, icmp6, ip6, ndp, protocol};

use super::options::Spec;
use crate::fail::Usage;

/// How long a gateway may take to answer, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(300);

/// Fills in hardware addresses that neither file nor command line say: our own are the ports', the gateway is asked.
///
/// # Errors
/// When it can not be asked, or does not answer.
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
    let (question, theirs) = match (ours, theirs) {
        (IpAddr::V4(ours), Some(IpAddr::V4(to))) => (request(segment, ours, to), IpAddr::from(to)),
        (IpAddr::V6(ours), Some(IpAddr::V6(to))) => (solicitation(segment, ours, to), to.into()),
        _ => {
            let other = if name == "n6" { ", or its address there with --upf-n6" } else { "" };
            bail!(Usage(format!("give the gateway's hardware address on {name} with --{name}-mac{other}")));
        }
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

/// An Ethernet header to `dst`, and behind it what `fill` writes; at least 60 bytes.
fn framed(segment: &Segment, dst: Mac, ethertype: u16, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut frame = vec![0; 128];
    let tags = segment.vlan.map_or_else(Tags::default, |vlan| Tags::One(Tag::customer(wire::Vlan::of(vlan))));
    let head = ethernet::Repr { dst, src: segment.own, tags, ethertype };
    let emitted = head.emit(&mut frame).ok().and_then(|at| Some(at + fill(frame.get_mut(at..)?)?));
    frame.truncate(emitted.unwrap_or(0).max(60));
    frame
}

fn request(segment: &Segment, ours: Ipv4Addr, theirs: Ipv4Addr) -> Vec<u8> {
    framed(segment, Mac([0xff; 6]), ethertype::ARP, |out| arp::Repr::request(segment.own, ours, theirs).emit(out).ok())
}

fn solicitation(segment: &Segment, ours: Ipv6Addr, theirs: Ipv6Addr) -> Vec<u8> {
    let group = ndp::solicited_node(theirs);
    framed(segment, Mac::multicast6(group.to_bits()), ethertype::IP6, |out| {
        let message = ndp::Repr::NeighbourSolicit { target: theirs, source: Some(segment.own) };
        let message = icmp6::Repr::Ndp(message);
        let head = ip6::Repr {
            src: ours,
            dst: group,
            next_header: protocol::ICMP6,
            payload_len: message.message_len() as u16,
            hop_limit: 255,
            traffic_class: 0,
            flow_label: 0,
        };
        let at = head.emit(out).ok()?;
        Some(at + message.emit(&head, out.get_mut(at..)?).ok()?)
    })
}

/// Where `theirs` is, if the frame says so.
fn answered(frame: &[u8], theirs: IpAddr) -> Option<Mac> {
    let l2 = Outer::parse(frame).ok()?;
    let inside = frame.get(usize::from(l2.l3)..)?;
    match (theirs, l2.ethertype) {
        (IpAddr::V4(theirs), ethertype::ARP) => {
            let message = arp::Repr::parse(inside).ok()?;
            (message.operation == arp::REPLY && message.sender_ip == theirs).then_some(message.sender_mac)
        }
        (IpAddr::V6(theirs), ethertype::IP6) => {
            let head = ip6::Repr::parse(inside).ok()?;
            let message = inside.get(ip6::HEADER_LEN..ip6::HEADER_LEN + usize::from(head.payload_len))?;
            // Nobody from beyond the link may say so (RFC 4861, 7.1.2); the checksum is verified by parsing.
            if head.next_header != protocol::ICMP6 || head.hop_limit != 255 {
                return None;
            }
            match icmp6::Repr::parse(&head, message).ok()? {
                icmp6::Repr::Ndp(ndp::Repr::NeighbourAdvert { target, address, .. }) if target == theirs => address,
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use traffic::{Direction, Neighbours};

    /// The generator's own answers, asked by its own question: a gateway's side does the same.
    #[test]
    fn a_question_is_answered_and_the_answer_read() {
        let profile = Profile { servers: 2, ..Profile::default() };
        let neighbour = Neighbours::new(&profile, Direction::Downlink);
        let six = Ipv6Addr::from_bits(profile.server6_first.to_bits() + 1);
        let (ours, ours6) = (Ipv4Addr::new(10, 9, 9, 9), "fe80::9".parse().unwrap());
        for vlan in [None, Some(100)] {
            let asker = Segment { own: Mac([2, 0, 0, 0, 9, 9]), vlan, ..profile.core.clone() };
            let asked = [
                (request(&asker, ours, profile.server_first), IpAddr::from(profile.server_first)),
                (solicitation(&asker, ours6, six), six.into()),
            ];
            for (question, theirs) in asked {
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
