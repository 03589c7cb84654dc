//! What the program in the kernel shares with us. The layout is `bpf/record.h`'s.

use dataplane::filter::Quad4;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Rules of a direction.
pub const WAYS: usize = 4;
/// Tunnel endpoints of a session.
pub const ENDS: usize = 4;
/// Buckets of a session, and counts.
pub const CELLS: usize = 4;
/// IPv4 addresses of a port.
pub const ADDRESSES: usize = 8;
/// IPv6 addresses of a port.
pub const ADDRESSES6: usize = 4;
/// IPv4 routes of a network instance, and as many IPv6 ones.
pub const ROUTES: usize = 16;
/// Buckets of neighbours, a power of two.
pub const NEIGHBOURS: usize = 1024;
/// Entries of a bucket of the session index.
pub const KEYS: usize = 4;
/// Sessions handed back and not seen yet, of one worker.
pub const MOVED: usize = 1024;
/// Where sessions handed back stand in [`Moved`], in words.
pub const MOVED_AT: usize = 2;
/// Counters of a CPU.
pub const COUNTS: usize = 22;
/// Of all that is here: one more with each change of it.
pub const LAYOUT: u32 = 1;
/// In place of a DSCP: the packet keeps its own.
pub const NONE8: u8 = u8::MAX;

/// Whose a session's packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Packets of the session are forwarded by the program.
    Kernel = 1,
    /// The program has handed it back; its state is still there.
    Moving = 2,
}

/// Values of [`Port::role`].
pub const ACCESS: u32 = 1;
pub const CORE: u32 = 2;

/// Bits of [`Rule::flags`].
pub mod flag {
    pub const CLOSED: u8 = 1;
    pub const FROM_UE: u8 = 2;
    pub const SESSION0: u8 = 4;
    pub const SESSION1: u8 = 8;
}

/// Values of [`Route::kind`].
pub const TO_USER: u32 = 0;
pub const GATEWAY: u32 = 1;
pub const ON_LINK: u32 = 2;

/// The kind of a key of the session index.
pub const KEY_TEID: u64 = 1 << 63;
pub const KEY_ADDRESS: u64 = 1 << 62;
pub const KEY_PREFIX: u64 = 1 << 61;

/// The key of a subscriber's IPv6 prefix in a network. Two of them may have the same one: who follows it compares.
pub fn prefix_key(instance: u16, prefix: u64) -> u64 {
    let instance = u64::from(instance).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = prefix.wrapping_add(instance).wrapping_mul(0xd6e8_feb8_6659_fd93);
    KEY_PREFIX | (mixed ^ mixed >> 32) & (KEY_PREFIX - 1)
}

macro_rules! shared {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $type,)* }
    )*};
}

shared! {
    /// A bucket as the time at which it is full again, in 2^-8 ns of the kernel's clock.
    Meter { full_at: u64, per_byte: u64, depth: u64, spare: u64, }
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
    /// The next station of a packet.
    Next { valid: u32, mtu: u16, port: u8, len: u8, link: [u8; 22], kind: [u8; 2], }
    /// A far end of GTP-U over IPv4.
    Tunnel { next: Next, header: [u8; 20], sum: u16, spare: [u16; 5], }
    /// A route.
    Route { prefix: u32, mask: u32, kind: u32, port: u32, next: Next, }
    /// A network instance's routes, the longest prefix first.
    Instance { valid: u32, count: u32, spare: u64, routes: [Route; ROUTES], }
    /// An IPv6 route; addresses in halves.
    Route6 { prefix: [u64; 2], mask: [u64; 2], kind: u32, port: u32, next: Next, }
    /// A network instance's IPv6 routes, the longest prefix first.
    Instance6 { valid: u32, count: u32, spare: u64, routes: [Route6; ROUTES], }
    /// A neighbour on a link of ours.
    Neighbour { address: u32, port: u32, spare: [u64; 3], next: Next, }
    /// Neighbours whose addresses and ports fall into one bucket.
    Link { neighbours: [Neighbour; WAYS], }
    /// The same in IPv6.
    Neighbour6 { address: [u64; 2], port: u32, spare: [u32; 3], next: Next, }
    /// The same in IPv6.
    Link6 { neighbours: [Neighbour6; WAYS], }
    /// A port, by its interface's number. Tags are words as they lie in a frame, the outer one first.
    Port {
        role: u32, instance: u16, tags: u8, any_mac: u8, mac: [u8; 6], spare: u16, tag: [u32; 2], tag_mask: [u32; 2],
        v4: [u32; ADDRESSES], v6: [[u64; 2]; ADDRESSES6],
    }
}

impl Next {
    /// There is none, or it is not known.
    pub const NONE: Self = Self { valid: 0, mtu: 0, port: 0, len: 0, link: [0; 22], kind: [0; 2] };
}

impl Meter {
    /// Of no use.
    pub const CLOSED: Self = Self { full_at: u64::MAX, per_byte: 0, depth: 0, spare: 0 };
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

/// Octets of what is only looked at word by word.
pub const BUCKET: usize = KEYS * 16;
pub const CPU: usize = (2 + COUNTS) * 8;
pub const LIST: usize = 4112;
pub const CONFIG: usize = 64;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Meter>() == 32 && size_of::<Tally>() == 32 && size_of::<Rule>() == 32);
    assert!(size_of::<Quad4>() == 80 && size_of::<Direction>() == 224 && offset_of!(Direction, rules) == 80);
    assert!(size_of::<Session>() == 768 && offset_of!(Session, up) == 32 && offset_of!(Session, down) == 256);
    assert!(offset_of!(Session, meters) == 480 && offset_of!(Session, tallies) == 608);
    assert!(size_of::<Next>() == 32 && size_of::<Tunnel>() == 64 && size_of::<Route>() == 48);
    assert!(size_of::<Instance>() == 784 && size_of::<Neighbour>() == 64 && size_of::<Neighbour6>() == 64);
    assert!(size_of::<Port>() == 128 && offset_of!(Port, v4) == 32);
    assert!(size_of::<Filter6>() == 48 && size_of::<Direction6>() == 320);
    assert!(size_of::<Session6>() == 704 && Session6::HEAD == 64);
    assert!(size_of::<Route6>() == 72 && size_of::<Instance6>() == 1168);
    assert!(BUCKET == 64 && CPU == 192 && MOVED_AT * 8 + MOVED * 4 == LIST);
    // Traits of filters are words of four octets that the program puts together in this order.
    assert!(cfg!(target_endian = "little"));
};
