//! The gateway's hardware addresses, asked for by ARP (RFC 826) as an ordinary neighbour would.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use frame::{Batch, Pool, Port};
use traffic::{Profile, Segment};
use wire::ethernet::{self, Tag, Tags};
use wire::{Mac, Outer, arp, ethertype};

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
    let sides = [
        ("n3", &mut profile.access, default.access, profile.gnb_first, Some(profile.upf_n3)),
        ("n6", &mut profile.core, default.core, profile.server_first.into(), spec.upf_n6.map(IpAddr::from)),
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
    let (IpAddr::V4(ours), Some(IpAddr::V4(theirs))) = (ours, theirs) else {
        let other = if name == "n6" { " or, for ARP, its address there with --upf-n6" } else { "" };
        bail!(Usage(format!("give the gateway's hardware address on {name} with --{name}-mac{other}")));
    };
    let question = question(segment, ours, theirs);
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

fn question(segment: &Segment, ours: Ipv4Addr, theirs: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 64];
    let tags = segment.vlan.map_or_else(Tags::default, |vlan| Tags::One(Tag::customer(wire::Vlan::of(vlan))));
    let head = ethernet::Repr { dst: Mac([0xff; 6]), src: segment.own, tags, ethertype: ethertype::ARP };
    let emitted = head.emit(&mut frame).ok().and_then(|at| {
        let len = arp::Repr::request(segment.own, ours, theirs).emit(frame.get_mut(at..)?).ok()?;
        Some(at + len)
    });
    frame.truncate(emitted.unwrap_or(0).max(60));
    frame
}

fn answered(frame: &[u8], theirs: Ipv4Addr) -> Option<Mac> {
    let l2 = Outer::parse(frame).ok()?;
    let message = arp::Repr::parse(frame.get(usize::from(l2.l3)..)?).ok().filter(|_| l2.ethertype == ethertype::ARP)?;
    (message.operation == arp::REPLY && message.sender_ip == theirs).then_some(message.sender_mac)
}
