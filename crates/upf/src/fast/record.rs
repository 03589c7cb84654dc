//! What the program in the kernel shares with us beside what all gateways' do. The layout is `bpf/record.h`'s.

use dataplane::filter::Quad4;
pub use gateway::fast_path::{Meter, Next, WAYS};
use gateway::fast_path_records;

/// Tunnel endpoints of a session.
pub const ENDS: usize = 4;
/// Buckets of a session, and counts.
pub const CELLS: usize = 4;
/// Of all that is here: one more with each change of it.
pub const LAYOUT: u32 = 1;
/// In place of a DSCP: the packet keeps its own.
pub const NONE8: u8 = u8::MAX;

/// Bits of [`Rule::flags`].
pub mod flag {
    pub const CLOSED: u8 = 1;
    pub const FROM_UE: u8 = 2;
    pub const SESSION0: u8 = 4;
    pub const SESSION1: u8 = 8;
}

/// Of [`Tunnel::flags`]: over IPv6 the UDP checksum is left out.
pub const ZERO_SUM: u8 = 1;

/// The kind of a key of the session index that is a TEID.
pub const KEY_TEID: u64 = gateway::fast_path::KEY_OWN;

fast_path_records! {
    /// What a URR has counted in one direction; time stamps in 2^20 ns of the kernel's clock.
    Tally { bytes: u64, trip: u64, packets: u64, first: u32, last: u32, }
    /// What is done with the packets of a filter.
    Rule {
        tunnel: u32, teid: u32, encap: u8, qfi: u8, dscp: u8, instance: u8, flags: u8, meters: [u8; 2],
        tallies: [u8; 2], spare: [u8; 15],
    }
    /// A direction's filters and rules.
    Direction { quad: Quad4, rules: [Rule; WAYS], spare: [u8; 16], }
    /// A session.
    Session {
        state: u32, ue4: u32, handle: u32, instance: u16, worker: u16, teids: [u32; ENDS], up: Direction, down: Direction,
        meters: [Meter; CELLS], tallies: [Tally; CELLS], spare: [u8; 32],
    }
    /// What an IPv6 packet must be for a rule; addresses in halves.
    Filter6 {
        remote: [u64; 2], remote_mask: [u64; 2], traits: u32, traits_mask: u32, port_lo: u16, port_span: u16, spare: u32,
    }
    /// A direction's IPv6 filters and rules.
    Direction6 { filters: [Filter6; WAYS], rules: [Rule; WAYS], }
    /// The IPv6 half of a session.
    Session6 { prefix: u64, spare: [u64; 7], up: Direction6, down: Direction6, }
    /// A far end of GTP-U.
    Tunnel {
        next: Next, header: [u8; 20], sum: u16, version: u8, flags: u8, spare: [u8; 8], header6: [u8; 40],
        spare6: [u8; 24],
    }
}

impl Tally {
    /// Has counted nothing and comes to no bound.
    pub const NONE: Self = Self { bytes: 0, trip: u64::MAX, packets: 0, first: 0, last: 0 };
}

impl Rule {
    /// Of no packet.
    pub const NONE: Self = Self {
        tunnel: u32::MAX,
        teid: 0,
        encap: 0,
        qfi: 0,
        dscp: NONE8,
        instance: 0,
        flags: 0,
        meters: [0; 2],
        tallies: [0; 2],
        spare: [0; 15],
    };
}

impl Direction {
    /// Without a rule.
    pub const NONE: Self = Self { quad: Quad4::NOTHING, rules: [Rule::NONE; WAYS], spare: [0; 16] };
}

impl Filter6 {
    /// Of no packet: none is in such a state.
    pub const NOTHING: Self = Self {
        remote: [0; 2],
        remote_mask: [0; 2],
        traits: u32::MAX,
        traits_mask: u32::MAX,
        port_lo: 0,
        port_span: 0,
        spare: 0,
    };
}

impl Session {
    /// Octets of what says whose it is.
    pub const HEAD: usize = std::mem::offset_of!(Self, up);
}

impl Direction6 {
    /// Without a rule.
    pub const NONE: Self = Self { filters: [Filter6::NOTHING; WAYS], rules: [Rule::NONE; WAYS] };
}

impl Session6 {
    /// A subscriber without an IPv6 prefix.
    pub const NONE: Self = Self { prefix: 0, spare: [0; 7], up: Direction6::NONE, down: Direction6::NONE };
    /// Octets up to its rules.
    pub const HEAD: usize = std::mem::offset_of!(Self, up);
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Tally>() == 32 && size_of::<Rule>() == 32);
    assert!(size_of::<Quad4>() == 80 && size_of::<Direction>() == 224 && offset_of!(Direction, rules) == 80);
    assert!(size_of::<Session>() == 768 && offset_of!(Session, up) == 32 && offset_of!(Session, down) == 256);
    assert!(offset_of!(Session, meters) == 480 && offset_of!(Session, tallies) == 608);
    assert!(size_of::<Tunnel>() == 128 && offset_of!(Tunnel, version) == 54 && offset_of!(Tunnel, header6) == 64);
    assert!(size_of::<Filter6>() == 48 && size_of::<Direction6>() == 320);
    assert!(size_of::<Session6>() == 704 && Session6::HEAD == 64);
    // Traits of filters are words of four octets that the program puts together in this order.
    assert!(cfg!(target_endian = "little"));
};
