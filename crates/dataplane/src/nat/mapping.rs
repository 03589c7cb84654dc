//! A private end and the public end that stands for it.

use table::records::Line;
use wire::tcp::flag;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute, transmute_mut, transmute_ref};

use super::config::Timeouts;
use super::kind::Protocol;

/// Nanoseconds to ticks, as a shift: a tick is about an eighth of a second.
pub(super) const TICK_SHIFT: u32 = 27;

/// Ticks in so many seconds, rounded up.
pub(super) fn ticks(seconds: u32) -> u32 {
    let ticks = (u64::from(seconds) * 1_000_000_000).div_ceil(1 << TICK_SHIFT);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// What was seen of a mapping's packets, as bits.
pub(super) mod seen {
    /// A packet from outside.
    pub const INWARD: u8 = 1;
    /// TCP: a segment outwards that opens nothing.
    pub const OUTWARD: u8 = 2;
    /// TCP: FIN or RST, and no new connection since.
    pub const CLOSING: u8 = 4;
}

/// An end in a domain, as a key: no two ends of any protocols and domains have the same. Never 0.
#[inline(always)]
pub(super) fn key(domain: u16, protocol: Protocol, address: u32, port: u16) -> u64 {
    u64::from(domain) << 50 | (protocol as u64) << 48 | u64::from(port) << 32 | u64::from(address)
}

/// The lives of mappings in ticks.
#[derive(Clone, Copy)]
pub(super) struct Lives {
    tcp_established: u32,
    tcp_transitory: u32,
    udp_unanswered: u32,
    udp: u32,
    icmp: u32,
}

impl From<&Timeouts> for Lives {
    fn from(t: &Timeouts) -> Self {
        Self {
            tcp_established: ticks(t.tcp_established),
            tcp_transitory: ticks(t.tcp_transitory),
            udp_unanswered: ticks(t.udp_unanswered),
            udp: ticks(t.udp),
            icmp: ticks(t.icmp),
        }
    }
}

/// One mapping: a cache line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Mapping {
    /// Where the private end is looked up; 0 in a line that is no mapping.
    pub out_key: u64,
    /// Where the public end is looked up.
    pub in_key: u64,
    pub private: u32,
    pub public: u32,
    pub private_port: u16,
    pub public_port: u16,
    /// As a number of [`Protocol`].
    pub number: u8,
    /// See [`seen`].
    pub seen: u8,
    pub pad: [u8; 2],
    /// The session it belongs to.
    pub session: u32,
    /// The block its public port is of.
    pub block: u32,
    /// When it was last refreshed, in ticks.
    pub last: u32,
    /// Its timer.
    pub timer: u32,
    /// 1 and its number in the process that handed it over; 0: it was made here.
    pub known_as: u32,
    pub rest: [u32; 3],
}

impl Mapping {
    pub(super) const NONE: Self = transmute!(Line::ZERO);

    pub(super) fn of(line: &Line) -> &Self {
        transmute_ref!(line)
    }

    pub(super) fn of_mut(line: &mut Line) -> &mut Self {
        transmute_mut!(line)
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self.number {
            1 => Protocol::Tcp,
            2 => Protocol::Udp,
            _ => Protocol::Icmp,
        }
    }

    /// How long it lives from its last refresh on, in ticks.
    pub(super) fn life(&self, lives: &Lives) -> u32 {
        match self.protocol() {
            Protocol::Tcp if self.seen == seen::INWARD | seen::OUTWARD => lives.tcp_established,
            Protocol::Tcp => lives.tcp_transitory,
            Protocol::Udp if self.seen & seen::INWARD != 0 => lives.udp,
            Protocol::Udp => lives.udp_unanswered,
            Protocol::Icmp => lives.icmp,
        }
    }

    /// Takes note of a packet outwards; for TCP of its flags. True: from now on it is to live for a shorter time.
    #[inline(always)]
    pub(super) fn went_out(&mut self, flags: u8, now: u32) -> bool {
        self.last = now;
        if self.number != Protocol::Tcp as u8 {
            return false;
        }
        if flags & (flag::SYN | flag::ACK) == flag::SYN {
            self.seen = 0;
        } else if flags & (flag::FIN | flag::RST) != 0 {
            return self.close();
        } else {
            self.seen |= seen::OUTWARD;
        }
        false
    }

    /// Takes note of a packet inwards. True as for [`went_out`](Self::went_out).
    #[inline(always)]
    pub(super) fn came_in(&mut self, flags: u8, refresh: Option<u32>) -> bool {
        self.seen |= seen::INWARD;
        if let Some(now) = refresh {
            self.last = now;
        }
        self.number == Protocol::Tcp as u8 && flags & (flag::FIN | flag::RST) != 0 && self.close()
    }

    #[cold]
    fn close(&mut self) -> bool {
        let first = self.seen & seen::CLOSING == 0;
        self.seen |= seen::CLOSING;
        first
    }
}
