//! What the program in the kernel shares with us beside what all gateways' do. The layout is `bpf/record.h`'s.

pub use gateway::fast_path::Meter;
use gateway::fast_path_records;

/// The gateway's own addresses of a family that are in no subscriber's neighbourhood.
pub const OWN: usize = 16;
/// Lengths of subscribers' IPv6 prefixes.
pub const LENGTHS: usize = 4;
/// Of all that is here and in what is shared: one more with each change of it.
pub const LAYOUT: u32 = 2;
/// In the key of a line of a shared VLAN pair, of which the hardware address is a part.
pub const KEY_SHARED: u64 = 1 << 61;

/// Bits of [`Session::flags`].
pub mod flag {
    pub const LEARNT: u8 = 1;
    pub const SHARED_LINE: u8 = 2;
    pub const METERED_DOWN: u8 = 4;
    pub const METERED_UP: u8 = 8;
    pub const MARKED: u8 = 16;
}

fast_path_records! {
    /// One direction of a subscriber: its policer, of which `own` is when a packet came last, in nanoseconds of the kernel's
    /// clock; what passed, IPv4 and IPv6.
    Lane { meter: Meter, packets: [u64; 2], bytes: [u64; 2], }
    /// A subscriber as the program has it.
    Session {
        state: u32, ipv4: u32, wan: u64, pd: u64, line: u32, mtu: u16, worker: u16, to: [u8; 6], from: [u8; 6],
        acl: [u16; 2], dscp: u64, classes: u32, flags: u8, overhead: u8, instance: u8, tags: u8, down: Lane, up: Lane,
    }
    /// Addresses that packets from subscribers are not forwarded to in the kernel.
    Places {
        valid: u32, lengths: [u8; LENGTHS], own4_count: u32, own6_count: u32, counters: u32, spare: u32, near4: [u64; 1024], near6: [u64; 64], own4: [u64; OWN], own6: [[u64; 3]; OWN],
    }
}

impl Lane {
    /// Nothing has passed, and the last packet came at `last`.
    pub fn new(meter: Meter, last: u64) -> Self {
        Self { meter: Meter { own: last, ..meter }, packets: [0; 2], bytes: [0; 2] }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Lane>() == 64 && size_of::<Session>() == 192 && offset_of!(Session, to) == 32);
    assert!(offset_of!(Session, dscp) == 48 && offset_of!(Session, tags) == 63 && offset_of!(Session, down) == 64);
    assert!(size_of::<Places>() == 9240);
    assert!(cfg!(target_endian = "little"));
};
