//! The simplest user plane there can be, for testing what tests it: takes packets out of their tunnels and puts them
//! into those the profile says they belong to. Allocates as it likes.
#![allow(dead_code)]

use std::net::IpAddr;
use std::sync::Arc;

use frame::{Batch, Pool, Port};
use traffic::{Direction, Plan, inspect};
use wire::gtpu::{self, Container};
use wire::{Qfi, Teid, checksum, ethernet, ethertype, ip4, ip6, protocol, udp};

/// What comes out at the other side; none for what is not a packet of the plan.
pub fn forward(plan: &Plan, direction: Direction, frame: &[u8]) -> Option<Vec<u8>> {
    let found = inspect(frame).ok()?;
    let profile = plan.profile();
    let exit = profile.entry(direction.reverse());
    let mut out = [exit.own.0, exit.gateway.0].concat();
    if let Some(tag) = exit.vlan {
        out.extend([ethertype::VLAN.to_be_bytes(), tag.to_be_bytes()].concat());
    }
    match direction {
        Direction::Uplink => {
            found.tunnel?;
            let kind = if found.head.version == 4 { ethertype::IP4 } else { ethertype::IP6 };
            out.extend(kind.to_be_bytes());
        }
        Direction::Downlink => {
            let who = plan.parties(found.mark.flow)?;
            let teid = Teid(profile.teid(direction, who.ue, who.bearer));
            let container = profile.qfis.get(usize::from(who.bearer)).map(|qfi| Container::down(Qfi(*qfi)));
            let tunnel = gtpu::Repr::g_pdu(teid, container, found.packet.len() as u16);
            let mut datagram = vec![0; udp::HEADER_LEN + tunnel.header_len()];
            tunnel.emit(&mut datagram[udp::HEADER_LEN..]).unwrap();
            datagram.extend(found.packet);
            let len = datagram.len() as u16;
            udp::Repr { src_port: gtpu::PORT, dst_port: gtpu::PORT, payload_len: len - udp::HEADER_LEN as u16 }
                .emit(&mut datagram)
                .unwrap();
            let mut head = [0; 40];
            let header = match (profile.upf_n3, profile.gnb(who.gnb)) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => {
                    out.extend(ethertype::IP4.to_be_bytes());
                    ip4::Repr::new(src, dst, protocol::UDP, len).emit(&mut head).unwrap()
                }
                (IpAddr::V6(src), IpAddr::V6(dst)) => {
                    out.extend(ethertype::IP6.to_be_bytes());
                    let pseudo = checksum::pseudo6(src.to_bits(), dst.to_bits(), protocol::UDP, len.into());
                    udp::Packet::new_checked(&mut datagram[..]).unwrap().fill_checksum(pseudo);
                    let next_header = protocol::UDP;
                    ip6::Repr {
                        src,
                        dst,
                        next_header,
                        payload_len: len,
                        hop_limit: 64,
                        traffic_class: 0,
                        flow_label: 0,
                    }
                    .emit(&mut head)
                    .unwrap()
                }
                mixed => unreachable!("{mixed:?}"),
            };
            out.extend(&head[..header]);
            out.extend(datagram);
            return Some(out);
        }
    }
    out.extend(found.packet);
    Some(out)
}

/// A gateway between two ports, N3 and N6. `change` sees every packet that would be sent, with its direction and
/// running number, and returns what is sent instead.
pub struct Gateway<F> {
    pub plan: Arc<Plan>,
    pub ports: [Box<dyn Port>; 2],
    pub pool: Pool,
    pub change: F,
    pub count: u64,
}

impl<F: FnMut(Direction, u64, Vec<u8>) -> Vec<Vec<u8>>> Gateway<F> {
    pub fn new(plan: &Arc<Plan>, n3: impl Port + 'static, n6: impl Port + 'static, pool: Pool, change: F) -> Self {
        Self { plan: plan.clone(), ports: [Box::new(n3), Box::new(n6)], pool, change, count: 0 }
    }

    /// One loop of the worker. Returns packets received.
    pub fn turn(&mut self) -> usize {
        let mut came = 0;
        for direction in Direction::BOTH {
            let (from, to) = (direction.index(), direction.reverse().index());
            let mut batch = Batch::new();
            came += self.ports[from].rx_burst(&mut self.pool, &mut batch);
            let frames: Vec<_> = batch.frames().iter().map(|f| self.pool.arena().bytes(f).to_vec()).collect();
            self.pool.give_all(&mut batch);
            for frame in frames {
                let Some(out) = forward(&self.plan, direction, &frame) else { continue };
                self.count += 1;
                for out in (self.change)(direction, self.count, out) {
                    self.send(to, &out);
                }
            }
        }
        came
    }

    /// That many loops.
    pub fn turns(&mut self, n: usize) {
        for _ in 0..n {
            self.turn();
        }
    }

    /// Sends a frame out of a port (0: N3, 1: N6).
    pub fn send(&mut self, port: usize, bytes: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.pool.make(bytes).expect("a free slot")).unwrap();
        assert_eq!(self.ports[port].tx_burst(&mut self.pool, &mut batch), 1);
    }

    /// Receives everything from a port without forwarding it.
    pub fn receive(&mut self, port: usize) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        self.ports[port].rx_burst(&mut self.pool, &mut batch);
        let frames = batch.frames().iter().map(|f| self.pool.arena().bytes(f).to_vec()).collect();
        self.pool.give_all(&mut batch);
        frames
    }
}

/// A gateway that changes nothing.
pub fn honest(_: Direction, _: u64, frame: Vec<u8>) -> Vec<Vec<u8>> {
    vec![frame]
}

/// Ethertype of a frame without tags.
pub fn kind(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[ethernet::field::TYPE], frame[ethernet::field::TYPE + 1]])
}
