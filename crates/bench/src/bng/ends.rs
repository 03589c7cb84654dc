//! The access network and the core in memory: what the gateway receives is written where it is, what it sends is checked
//! there: tags, hardware addresses, TTL and header checksum of every packet.

use std::sync::atomic::{AtomicU64, Ordering};

use frame::{BURST, Caps};
use traffic::Clock;
use wire::{checksum, ethertype, fast};

use super::settings::{ACCESS_MAC, BUSY, CORE_MAC, ENDPOINT, GATEWAY_MAC, LIGHT, LINES, Settings, endpoint_mac};
use crate::ends::{self, Checked, Offered, Shared};
use crate::work_clock::WorkClock;

/// One end: the access network, or the core.
pub struct End {
    access: bool,
    settings: Settings,
    /// Workers of the gateway, this one, and its subscribers.
    place: (u16, u16, u32),
    /// The next subscriber, and from one to the next: all of them in an order that no cache foresees.
    next: u32,
    stride: u32,
    /// The same of those whose queues are filled; none: nobody's are.
    busy: Option<(u32, u32)>,
    turn: u32,
    endpoint: u32,
    size: usize,
    /// The time of this burst, in nanoseconds.
    now_ns: u64,
    /// The gateway's clock, which each packet moves, and by how much: picoseconds, and those that are no whole nanosecond yet.
    moves: Option<(WorkClock, u64, u64)>,
    /// Bytes made for each outer VLAN, where queues are filled.
    offered: Offered,
}

/// Where the time stands in an IP packet: behind the UDP header.
const STAMP: usize = 28;
/// TTL of what is made.
const TTL: u8 = 64;
/// Room that any header here fits into.
const HEAD: usize = 64;
const PORTS: [u16; 2] = [40_000, 443];

fn coprime(n: u32) -> u32 {
    let gcd = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // The golden section of all: neighbours in time are far apart in memory.
    let first = (f64::from(n) * 0.618_034) as u32 | 1;
    (first..).find(|step| gcd(*step, n) == 1).unwrap_or(1)
}

impl End {
    /// Both ends of a worker: access, core. `clock`: the worker's, where packets move it.
    pub fn pair(settings: &Settings, (workers, worker): (u16, u16), clock: Option<&WorkClock>) -> [Self; 2] {
        let users = settings.users(workers, worker).len() as u32;
        let nodes = settings.filling().map_or(0, |filling| filling.nodes);
        [true, false].map(|access| Self {
            access,
            settings: settings.clone(),
            place: (workers, worker, users),
            next: 0,
            stride: coprime(users),
            busy: (!access && settings.is_filled()).then(|| (0, coprime(users.div_ceil(BUSY)))),
            turn: 0,
            endpoint: 0,
            size: 0,
            now_ns: 0,
            moves: clock.cloned().zip(settings.filling()).map(|(clock, filling)| (clock, filling.gap_ps, 0)),
            offered: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Bytes that it has made for each outer VLAN, where queues are filled.
    pub fn offered(&self) -> Offered {
        self.offered.clone()
    }

    /// The time that packets are stamped with, in nanoseconds.
    fn now(&self, clock: &Clock) -> u64 {
        self.moves.as_ref().map_or_else(|| clock.now_ns(), |(clock, ..)| clock.now_ns())
    }

    /// Whose packet comes next: of all subscribers in turns, or, where queues are filled, of those whose are, but for one
    /// packet in [`LIGHT`].
    fn whose(&mut self, users: u32) -> u32 {
        let step = |at: u32, stride: u32, of: u32| ((u64::from(at) + u64::from(stride)) % u64::from(of)) as u32;
        self.turn = (self.turn + 1) % LIGHT;
        match &mut self.busy {
            Some((at, stride)) if self.turn != 0 => {
                let busy = *at * BUSY;
                *at = step(*at, *stride, users.div_ceil(BUSY));
                busy
            }
            _ => {
                let next = step(self.next, self.stride, users);
                std::mem::replace(&mut self.next, next)
            }
        }
    }

    /// Length on the access side of a frame of the gateway that is right.
    fn length(&self, bytes: &[u8]) -> Option<usize> {
        let (workers, worker, users) = self.place;
        let l3 = match (self.access, self.settings.core_vlan) {
            (true, _) => 22,
            (false, Some(_)) => 18,
            (false, None) => 14,
        };
        let ip = bytes.get(l3..)?;
        let (from, to) = (fast::be32(ip, 12)?, fast::be32(ip, 16)?);
        let user = if self.access { to } else { from };
        let n = user.wrapping_sub(self.settings.line(workers, worker, 0).address);
        if n >= users || fast::be8(ip, 8)? != TTL - 1 || !checksum::is_valid20(ip.first_chunk()?) {
            return None;
        }
        let line = self.settings.line(workers, worker, n);
        let right = if self.access {
            let tags = [ethertype::SERVICE_VLAN, line.s_vlan, ethertype::VLAN, line.c_vlan, ethertype::IP4];
            let is = |(at, tag): (usize, &u16)| fast::be16(bytes, 12 + 2 * at) == Some(*tag);
            bytes[..6] == line.mac && bytes[6..12] == GATEWAY_MAC && tags.iter().enumerate().all(is)
        } else {
            let tag =
                self.settings.core_vlan.is_none_or(|id| fast::be32(bytes, 12) == Some(0x8100_0000 | u32::from(id)));
            bytes[..6] == endpoint_mac(to.wrapping_sub(ENDPOINT.to_bits())) && bytes[6..12] == CORE_MAC && tag
        };
        right.then_some(bytes.len() - l3 + 22)
    }
}

impl ends::End for End {
    fn caps(&self) -> Caps {
        let (name, mac) = if self.access { ("access", ACCESS_MAC) } else { ("core", CORE_MAC) };
        Caps { kind: "memory", name: name.to_owned(), mac, mtu: 1500, ..Caps::default() }
    }

    fn tags(&self) -> u64 {
        if self.access { 8 } else { self.settings.core_vlan.map_or(0, |_| 4) }
    }

    fn due(&mut self, shared: &Shared, given: u64, clock: &Clock) -> u64 {
        self.now_ns = self.now(clock);
        let ratio = u64::from(self.settings.ratio);
        let share = if self.access { 1 } else { ratio };
        let [up, down] = [0, 1].map(|n: usize| shared.given[n].load(Ordering::Relaxed));
        let ahead = if self.access { up * ratio > down } else { down > up * ratio };
        shared.due(given, (share, ratio + 1), clock).unwrap_or(if ahead { 0 } else { BURST as u64 })
    }

    fn write(&mut self, space: &mut [u8]) -> Option<usize> {
        let (workers, worker, users) = self.place;
        if let Some((clock, gap_ps, rest)) = &mut self.moves {
            let all = *rest + *gap_ps;
            clock.advance(all / 1000);
            *rest = all % 1000;
        }
        let user = self.whose(users);
        let line = self.settings.line(workers, worker, user);
        self.endpoint = (self.endpoint + 1) % self.settings.endpoints;
        let (host, host_mac) = (ENDPOINT.to_bits() + self.endpoint, endpoint_mac(self.endpoint));
        let size = self.settings.sizes[self.size];
        self.size = (self.size + 1) % self.settings.sizes.len();
        if let Some(bytes) = self.offered.get((user / LINES) as usize) {
            // Nobody else writes it. As its queue counts it: behind two tags.
            bytes.store(bytes.load(Ordering::Relaxed) + u64::from(size) + 8, Ordering::Relaxed);
        }
        let head: &mut [u8; HEAD] = space.first_chunk_mut()?;
        let l3 = if self.access {
            head[..6].copy_from_slice(&GATEWAY_MAC);
            head[6..12].copy_from_slice(&line.mac);
            fast::put16(head, 12, ethertype::SERVICE_VLAN)?;
            fast::put16(head, 14, line.s_vlan)?;
            fast::put16(head, 16, ethertype::VLAN)?;
            fast::put16(head, 18, line.c_vlan)?;
            22
        } else {
            head[..6].copy_from_slice(&CORE_MAC);
            head[6..12].copy_from_slice(&host_mac);
            match self.settings.core_vlan {
                Some(id) => {
                    fast::put16(head, 12, ethertype::VLAN)?;
                    fast::put16(head, 14, id)?;
                    18
                }
                None => 14,
            }
        };
        fast::put16(head, l3 - 2, ethertype::IP4)?;
        let total = size - 14;
        let (from, to) = if self.access { (line.address, host) } else { (host, line.address) };
        let (sport, dport) = if self.access { (PORTS[0], PORTS[1]) } else { (PORTS[1], PORTS[0]) };
        let ip = &mut head[l3..];
        ip[..12].copy_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8, 0, 1, 0x40, 0, TTL, 17, 0, 0]);
        fast::put32(ip, 12, from)?;
        fast::put32(ip, 16, to)?;
        let check = checksum::of(&ip[..20]);
        fast::put16(ip, 10, check)?;
        fast::put16(ip, 20, sport)?;
        fast::put16(ip, 22, dport)?;
        fast::put16(ip, 24, total - 20)?;
        fast::put16(ip, 26, 0)?;
        fast::put32(ip, STAMP, (self.now_ns >> 32) as u32)?;
        fast::put32(ip, STAMP + 4, self.now_ns as u32)?;
        Some(l3 + usize::from(total))
    }

    fn arrived(&mut self, clock: &Clock) {
        self.now_ns = self.now(clock);
    }

    fn check(&mut self, frame: &[u8]) -> Checked {
        let Some(len) = self.length(frame) else { return Checked::Wrong };
        // As long as its IP packet on the access side, behind two tags.
        let sent_ns = frame.get(frame.len() + 22 - len..).and_then(|ip| fast::be64(ip, STAMP));
        sent_ns.map_or(Checked::Wrong, |sent_ns| Checked::Timed(len as u64, self.now_ns.saturating_sub(sent_ns)))
    }
}
