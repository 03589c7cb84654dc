//! What every gateway's program in the kernel shares with us. The layout is `bpf/shared.h`'s.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Neighbours of a bucket, and rules of a direction.
pub const WAYS: usize = 4;
/// IPv4 addresses of a port.
pub const ADDRESSES: usize = 8;
/// IPv6 addresses of a port.
pub const ADDRESSES6: usize = 4;
/// IPv4 routes of a network instance, and as many IPv6 ones.
pub const ROUTES: usize = 16;
/// Buckets of neighbours, a power of two.
pub const NEIGHBOURS: usize = 1024;
/// Of a key: its place in its block.
pub const BLOCK_BITS: u32 = 6;
/// Entries of a bucket of the session index.
pub const KEYS: usize = 8;
/// Sessions handed back and not seen yet, of one worker.
pub const MOVED: usize = 1024;
/// Where sessions handed back stand in [`Moved`], in words.
pub const MOVED_AT: usize = 2;
/// Counters of a CPU, and where they stand, in words.
pub const COUNTS: usize = 22;
pub const COUNTS_AT: usize = 2;
/// Of the counters: the first of what was counted without the process, and how many of them there are.
pub const ALONE_AT: usize = 16;
pub const ALONE_COUNTS: usize = 5;

/// Whose a session's packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Packets of the session are forwarded by the program.
    Kernel = 1,
    /// The program has handed it back; its state is still there.
    Moving = 2,
    /// Likewise, with a packet that only translation has to see: it may return soon.
    ForFlow = 3,
}

/// Values of [`Port::role`].
pub const ACCESS: u32 = 1;
pub const CORE: u32 = 2;
pub const HYBRID: u32 = 3;

/// Interface indexes that ports are found by. Ports on another's interface stand behind those, by their own number.
pub const INTERFACES: usize = 4096;

/// Values of [`Route::kind`].
pub const TO_USER: u32 = 0;
pub const GATEWAY: u32 = 1;
pub const ON_LINK: u32 = 2;

/// Bits of the number of a session in an entry of the session index, below those of the key.
pub const NUMBER_BITS: u32 = 24;
/// The kinds of keys of the session index.
pub const KEY_KINDS: u64 = 3 << 62;
/// The kind of a key that is an IPv6 prefix.
pub const KEY_PREFIX: u64 = 2 << 62;
/// The kind of the gateway's own.
pub const KEY_OWN: u64 = 3 << 62;

/// The key of a subscriber's IPv4 address in a network.
pub fn address_key(instance: u16, address: u32) -> u64 {
    debug_assert!(instance < 64, "an instance the program knows");
    1 << 62 | (u64::from(instance) << 32 | u64::from(address)) << NUMBER_BITS
}

/// The key of a subscriber's IPv6 prefix of `len` bits, up to 64, in a network. Two of them may have the same one: who follows
/// it compares.
pub fn prefix_key(instance: u16, upper: u64, len: u8) -> u64 {
    let unit = upper >> (64 - u32::from(len)).min(63);
    let of = (u64::from(instance) << 8 | u64::from(len)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (unit >> BLOCK_BITS).wrapping_add(of).wrapping_mul(0xd6e8_feb8_6659_fd93);
    KEY_PREFIX | (mixed >> 32 << BLOCK_BITS | unit & ((1 << BLOCK_BITS) - 1)) << NUMBER_BITS
}

/// A record that a program reads, or a part of it: plain data.
pub trait SharedRecord: FromBytes + IntoBytes + KnownLayout + Immutable {}

impl<T: FromBytes + IntoBytes + KnownLayout + Immutable> SharedRecord for T {}

/// Structures as the program has them.
#[macro_export]
macro_rules! fast_path_records {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable,
        )]
        #[repr(C)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $type,)* }
    )*};
}

fast_path_records! {
    /// A bucket as the time at which it is full again, in 2^-8 ns of the kernel's clock. `own` is the gateway's.
    Meter { full_at: u64, per_byte: u64, depth: u64, own: u64, }
    /// The next station of a packet.
    Next { valid: u32, mtu: u16, port: u8, len: u8, link: [u8; 22], kind: [u8; 2], }
    /// A route.
    Route { prefix: u32, mask: u32, kind: u32, port: u32, next: Next, }
    /// A network instance's routes, the longest prefix first.
    Instance { valid: u32, count: u32, seed: u64, routes: [Route; ROUTES], }
    /// An IPv6 route; addresses in halves.
    Route6 { prefix: [u64; 2], mask: [u64; 2], kind: u32, port: u32, next: Next, }
    /// A network instance's IPv6 routes, the longest prefix first.
    Instance6 { valid: u32, count: u32, seed: u64, routes: [Route6; ROUTES], }
    /// A neighbour on a link of ours.
    Neighbour { address: u32, port: u32, spare: [u64; 3], next: Next, }
    /// Neighbours whose addresses and ports fall into one bucket.
    Link { neighbours: [Neighbour; WAYS], }
    /// The same in IPv6.
    Neighbour6 { address: [u64; 2], port: u32, spare: [u32; 3], next: Next, }
    /// The same in IPv6.
    Link6 { neighbours: [Neighbour6; WAYS], }
    /// A port, by its interface's number or, on another's interface, its own. `beside`: the next one there, its number and 1. Tags are words as they lie in a frame, the outer one first.
    Port {
        role: u32, instance: u16, tags: u8, any_mac: u8, mac: [u8; 6], number: u8, beside: u8, tag: [u32; 2], tag_mask: [u32; 2],
        v4: [u32; ADDRESSES], v6: [[u64; 2]; ADDRESSES6],
    }
}

impl Next {
    /// There is none, or it is not known.
    pub const NONE: Self = Self { valid: 0, mtu: 0, port: 0, len: 0, link: [0; 22], kind: [0; 2] };
}

impl Meter {
    /// Of no use.
    pub const CLOSED: Self = Self { full_at: u64::MAX, per_byte: 0, depth: 0, own: 0 };
}

/// Octets of what is only looked at word by word.
pub const BUCKET: usize = KEYS * 8;
pub const BLOCK: usize = 4 << BLOCK_BITS;
pub const CPU: usize = (COUNTS_AT + COUNTS) * 8;
pub const LIST: usize = 4112;
pub const CONFIG: usize = 64;
pub const LOSS: usize = 16;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Meter>() == 32);
    // Two entries of a block share a word, the first one lower.
    assert!(cfg!(target_endian = "little"));
    assert!(size_of::<Next>() == 32 && size_of::<Route>() == 48);
    assert!(size_of::<Instance>() == 784 && size_of::<Neighbour>() == 64 && size_of::<Neighbour6>() == 64);
    assert!(size_of::<Port>() == 128 && offset_of!(Port, v4) == 32 && offset_of!(Port, number) == 14);
    assert!(size_of::<Route6>() == 72 && size_of::<Instance6>() == 1168);
    assert!(BUCKET == 64 && CPU == 192 && MOVED_AT * 8 + MOVED * 4 == LIST);
};
