//! One node of the trie: six bits of the address, and which prefixes and children there are.

/// Address bits a node decides.
pub(super) const STRIDE: u8 = 6;

/// `values` has a bit for every prefix of 0 to 5 further bits, numbered like a heap: prefix `p` of `l` bits is
/// `1 << l | p`, so a longer one always has the higher number. `children` has a bit for each of the 64 ways on. Both
/// kinds lie in runs without gaps, found by counting the bits below.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    pub(super) values: u64,
    pub(super) children: u64,
    pub(super) value_base: u32,
    pub(super) child_base: u32,
}

/// For six address bits: the prefixes of 0 to 5 bits that cover them.
static COVER: [u64; 64] = {
    let mut cover = [0; 64];
    let mut v = 0;
    while v < 64 {
        let mut number = (64 | v) >> 1;
        while number > 0 {
            cover[v] |= 1 << number;
            number >>= 1;
        }
        v += 1;
    }
    cover
};

/// Bits of `map` below `bit`.
#[inline(always)]
pub(super) fn rank(map: u64, bit: u32) -> u32 {
    (map & ((1 << bit) - 1)).count_ones()
}

impl Node {
    /// The numbers of this node's prefixes that cover the six bits `v`.
    #[inline(always)]
    pub(super) fn covering(&self, v: u32) -> u64 {
        self.values & COVER[(v & 63) as usize]
    }

    /// Where the child for the six bits `v` is.
    #[inline(always)]
    pub(super) fn child(&self, v: u32) -> Option<u32> {
        (self.children >> v & 1 != 0).then(|| self.child_base + rank(self.children, v))
    }

    /// Where the value of prefix `number` is.
    #[inline(always)]
    pub(super) fn value(&self, number: u32) -> Option<u32> {
        (self.values >> number & 1 != 0).then(|| self.value_base + rank(self.values, number))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values | self.children == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cover_of_an_address_is_its_prefixes() {
        assert!(COVER.iter().all(|c| c.count_ones() == 6 && c & 2 != 0 && c & 1 == 0));
        // 0b101101: prefixes "", 1, 10, 101, 1011, 10110.
        let expected = [1, 0b11, 0b110, 0b1101, 0b1_1011, 0b11_0110u64].iter().fold(0, |m, n| m | 1 << n);
        assert_eq!(COVER[0b101101], expected);
        assert_eq!(size_of::<Node>(), 24);
    }
}
