//! Values at random.

use crate::{Element, RawIe, Reader};
use std::cell::Cell;

/// Draws values: the same ones for the same seed.
pub struct Draw {
    state: u64,
    /// Whether everything that may be there is there.
    full: bool,
}

impl Draw {
    pub fn new(seed: u64, full: bool) -> Draw {
        Draw { state: seed, full }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An octet that often is a small length, a flag or a letter.
    fn octet(&mut self) -> u8 {
        match self.below(6) {
            0 | 1 => 0,
            2 => self.below(8) as u8,
            3 | 4 => b'a' + self.below(26) as u8,
            _ => self.next() as u8,
        }
    }

    pub fn octets(&mut self, max: u64) -> Vec<u8> {
        let len = self.below(max + 1);
        (0..len).map(|_| self.octet()).collect()
    }

    /// What any octets that mean something mean.
    pub fn leaf<T: Element>(&mut self) -> T {
        let read = |octets: Vec<u8>| T::parse(&mut Reader::new(&octets, &Cell::new(0))).ok();
        let found = (0..10_000).find_map(|_| read(self.octets(40)));
        found.unwrap_or_else(|| panic!("no octets mean anything as IE {}", T::TYPE))
    }

    pub fn maybe<T: Element>(&mut self) -> Option<T> {
        (self.full || self.below(3) == 0).then(|| T::sample(self))
    }

    pub fn many<T: Element>(&mut self, least: u64) -> Vec<T> {
        let count = if self.full { least.max(1) } else { least + self.below(3) };
        (0..count).map(|_| T::sample(self)).collect()
    }

    /// IEs nobody knows, of 3GPP and of vendors.
    pub fn others(&mut self) -> Vec<RawIe> {
        if self.full || self.below(4) > 0 {
            return Vec::new();
        }
        let unknown = RawIe { ie: 0x7000 + self.below(100) as u16, content: self.octets(20).into() };
        let vendors =
            RawIe { ie: 0x8000 + self.below(100) as u16, content: [&[0x0d, 0x5f], &*self.octets(20)].concat().into() };
        vec![unknown, vendors]
    }
}

/// What others understand of the IEs we don't look into.
pub fn opaque(ie: u16) -> &'static [u8] {
    match ie {
        // Trace Information: PLMN, trace ID, triggering events, depth, interfaces, address of the collector.
        152 => &[0, 0xf1, 0x10, 0, 0, 1, 1, 0, 0, 1, 0, 4, 192, 0, 2, 9],
        // SMF Set ID: a domain name.
        180 => b"\0\x03set\x03smf",
        // UE IP Address Pool Identity: a name after its length.
        177 => b"\0\x04pool",
        // Packet Rate Status: none.
        193 => &[0],
        // NF Instance ID: a UUID.
        253 => &[7; 16],
        // Ethernet PDU Session Information: all frames.
        142 => &[1],
        // Offending IE Information: a PDR ID.
        274 => &[0, 56, 0, 1],
        _ => b"group",
    }
}
