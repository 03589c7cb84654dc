//! Sixteen rules side by side.

use std::ops::RangeInclusive;

use wire::L3L4;

use super::Match;

/// Rules a block holds side by side.
pub(super) const WAYS: usize = 16;

/// Sixteen rules, a packet compared with all of them at once. Written so that compilers make vectors of it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Block {
    pub src: [u32; WAYS],
    pub src_mask: [u32; WAYS],
    pub dst: [u32; WAYS],
    pub dst_mask: [u32; WAYS],
    pub src_port: [u16; WAYS],
    pub src_span: [u16; WAYS],
    pub dst_port: [u16; WAYS],
    pub dst_span: [u16; WAYS],
    pub tos: [u16; WAYS],
    pub tos_span: [u16; WAYS],
    pub tos_mask: [u16; WAYS],
    pub protocol: [u16; WAYS],
    pub protocol_mask: [u16; WAYS],
    /// Rules that may match an IPv4 packet, an IPv6 packet; rules with more fields than stand here.
    pub only: [u16; 2],
    pub more: u16,
    pub rule: [u16; WAYS],
    /// Which fields a rule of the block looks at: [`uses`]. Blocks tend to look alike, so that asking is cheaper than
    /// comparing.
    pub uses: u8,
    /// Where the ports lie that its rules look for.
    pub around: Around,
}

/// Ranges around the ports that rules look for, first and span; source, destination. A packet outside matches none of
/// them, which most packets are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Around([(u16, u16); 2]);

impl Around {
    /// Whether a packet lies within: a rule may match it.
    #[inline(always)]
    pub fn has(&self, ip: &L3L4) -> bool {
        let [(src, src_span), (dst, dst_span)] = self.0;
        // Both are compared: which of them fails is unpredictable.
        (ip.src_port.wrapping_sub(src) <= src_span) & (ip.dst_port.wrapping_sub(dst) <= dst_span)
    }

    /// What is around both.
    pub fn with(self, other: Self) -> Self {
        let both = |(a, a_span): (u16, u16), (b, b_span): (u16, u16)| {
            let low = a.min(b);
            (low, (a + a_span).max(b + b_span) - low)
        };
        Self([both(self.0[0], other.0[0]), both(self.0[1], other.0[1])])
    }
}

/// Bits of [`Block::uses`].
mod uses {
    pub const SRC_PORT: u8 = 1;
    pub const DST_PORT: u8 = 2;
    pub const TOS: u8 = 4;
    pub const ADDRESSES: u8 = 8;
}

/// What all rules of a block are compared with.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub src: u32,
    pub dst: u32,
    pub src_port: u16,
    pub dst_port: u16,
    pub tos: u16,
    pub protocol: u16,
}

impl Block {
    pub const EMPTY: Self = Self {
        src: [0; WAYS],
        src_mask: [0; WAYS],
        dst: [0; WAYS],
        dst_mask: [0; WAYS],
        src_port: [0; WAYS],
        src_span: [u16::MAX; WAYS],
        dst_port: [0; WAYS],
        dst_span: [u16::MAX; WAYS],
        tos: [0; WAYS],
        tos_span: [u16::MAX; WAYS],
        tos_mask: [0; WAYS],
        protocol: [0; WAYS],
        protocol_mask: [0; WAYS],
        only: [0; 2],
        more: 0,
        rule: [0; WAYS],
        uses: 0,
        around: Around([(0, 0); 2]),
    };

    /// The rules whose plain fields match, one bit each.
    #[inline(always)]
    pub fn matches(&self, key: &Key) -> u16 {
        let mut differs: [u16; WAYS] =
            std::array::from_fn(|n| (key.protocol ^ self.protocol[n]) & self.protocol_mask[n]);
        // A range is a difference that does not exceed the span.
        let ranges = [
            (uses::SRC_PORT, key.src_port, &self.src_port, &self.src_span),
            (uses::DST_PORT, key.dst_port, &self.dst_port, &self.dst_span),
        ];
        for (used, key, first, span) in ranges {
            if self.uses & used != 0 {
                for (n, differs) in differs.iter_mut().enumerate() {
                    *differs |= key.wrapping_sub(first[n]).saturating_sub(span[n]);
                }
            }
        }
        if self.uses & uses::TOS != 0 {
            for (n, differs) in differs.iter_mut().enumerate() {
                *differs |= (key.tos & self.tos_mask[n]).wrapping_sub(self.tos[n]).saturating_sub(self.tos_span[n]);
            }
        }
        let mut same: [u8; WAYS] = std::array::from_fn(|n| u8::from(differs[n] == 0));
        if self.uses & uses::ADDRESSES != 0 {
            for (n, same) in same.iter_mut().enumerate() {
                let (src, dst) =
                    ((key.src ^ self.src[n]) & self.src_mask[n], (key.dst ^ self.dst[n]) & self.dst_mask[n]);
                *same &= u8::from(src | dst == 0);
            }
        }
        // Eight bytes of 0 or 1 become eight bits: the product moves byte n's bit to the top byte's bit n.
        let same = u128::from_le_bytes(same);
        let bits = |half: u64| (half.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u16;
        bits(same as u64) | bits((same >> 64) as u64) << 8
    }

    pub fn set(&mut self, n: usize, number: u16, fields: &Match, protocol: Option<u8>) {
        let bit = 1 << n;
        self.rule[n] = number;
        for (used, field) in [
            (fields.src4.is_some() || fields.dst4.is_some(), uses::ADDRESSES),
            (fields.src_ports.is_some(), uses::SRC_PORT),
            (fields.dst_ports.is_some(), uses::DST_PORT),
            (fields.tos.is_some(), uses::TOS),
        ] {
            self.uses |= if used { field } else { 0 };
        }
        if let Some((value, mask)) = fields.src4 {
            (self.src[n], self.src_mask[n]) = (value & mask, mask);
        }
        if let Some((value, mask)) = fields.dst4 {
            (self.dst[n], self.dst_mask[n]) = (value & mask, mask);
        }
        let range = |range: &RangeInclusive<u16>| (*range.start(), range.end() - range.start());
        if let Some(ports) = &fields.src_ports {
            (self.src_port[n], self.src_span[n]) = range(ports);
        }
        if let Some(ports) = &fields.dst_ports {
            (self.dst_port[n], self.dst_span[n]) = range(ports);
        }
        if let Some((low, high, mask)) = fields.tos {
            (self.tos[n], self.tos_span[n], self.tos_mask[n]) = (low.into(), (high - low).into(), mask.into());
        }
        if let Some(protocol) = protocol {
            (self.protocol[n], self.protocol_mask[n]) = (protocol.into(), u16::MAX);
        }
        if !fields.is_only6() {
            self.only[0] |= bit;
        }
        if !fields.is_only4() {
            self.only[1] |= bit;
        }
        if !fields.is_plain() || fields.is_only6() {
            self.more |= bit;
        }
        let around = Around([(self.src_port[n], self.src_span[n]), (self.dst_port[n], self.dst_span[n])]);
        self.around = if n == 0 { around } else { self.around.with(around) };
    }
}
