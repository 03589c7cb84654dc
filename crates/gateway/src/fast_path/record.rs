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
/// Entries of a bucket of the session index.
pub const KEYS: usize = 4;
/// Sessions handed back and not seen yet, of one worker.
pub const MOVED: usize = 1024;
/// Where sessions handed back stand in [`Moved`], in words.
pub const MOVED_AT: usize = 2;
/// Counters of a CPU.
pub const COUNTS: usize = 22;

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
pub const HYBRID: u32 = 3;

/// Values of [`Route::kind`].
pub const TO_USER: u32 = 0;
pub const GATEWAY: u32 = 1;
pub const ON_LINK: u32 = 2;

/// The kind of a key of the session index that is an IPv4 address: the network instance and the address stand below.
pub const KEY_ADDRESS: u64 = 1 << 62;
/// The kind of one that is an IPv6 prefix. The top bit is the gateway's own.
pub const KEY_PREFIX: u64 = 1 << 61;

/// The key of a subscriber's IPv6 prefix in a network. Two of them may have the same one: who follows it compares.
pub fn prefix_key(instance: u16, prefix: u64) -> u64 {
    let instance = u64::from(instance).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = prefix.wrapping_add(instance).wrapping_mul(0xd6e8_feb8_6659_fd93);
    KEY_PREFIX | (mixed ^ mixed >> 32) & (KEY_PREFIX - 1)
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
    /// A bucket as the time at which it is full again, in 2^-8 ns of the kernel's clock.
    Meter { full_at: u64, per_byte: u64, depth: u64, spare: u64, }
    /// The next station of a packet.
    Next { valid: u32, mtu: u16, port: u8, len: u8, link: [u8; 22], kind: [u8; 2], }
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
        role: u32, instance: u16, tags: u8, any_mac: u8, mac: [u8; 6], number: u16, tag: [u32; 2], tag_mask: [u32; 2],
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

/// Octets of what is only looked at word by word.
pub const BUCKET: usize = KEYS * 16;
pub const CPU: usize = (2 + COUNTS) * 8;
pub const LIST: usize = 4112;
pub const CONFIG: usize = 64;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Meter>() == 32);
    assert!(size_of::<Next>() == 32 && size_of::<Route>() == 48);
    assert!(size_of::<Instance>() == 784 && size_of::<Neighbour>() == 64 && size_of::<Neighbour6>() == 64);
    assert!(size_of::<Port>() == 128 && offset_of!(Port, v4) == 32 && offset_of!(Port, number) == 14);
    assert!(size_of::<Route6>() == 72 && size_of::<Instance6>() == 1168);
    assert!(BUCKET == 64 && CPU == 192 && MOVED_AT * 8 + MOVED * 4 == LIST);
};
