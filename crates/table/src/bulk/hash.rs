//! Keys and the seeded hash over them.

use std::hash::{BuildHasher, RandomState};

/// What can be a key of a [`BulkMap`](super::BulkMap): at most 128 bits that say all there is to say.
pub trait Key: Copy + Eq {
    /// The key's bits, low and high half. Equal keys must give equal words.
    fn words(&self) -> (u64, u64);
}

impl Key for u32 {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        (u64::from(*self), 0)
    }
}

impl Key for u64 {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        (*self, 0)
    }
}

impl Key for u128 {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        (*self as u64, (*self >> 64) as u64)
    }
}

/// A network instance and an IPv4 address, for one.
impl Key for (u32, u32) {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        (u64::from(self.0) << 32 | u64::from(self.1), 0)
    }
}

/// A network instance and an IPv6 prefix of at most 64 bits, for one.
impl Key for (u32, u64) {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        (self.1, u64::from(self.0))
    }
}

impl Key for [u8; 16] {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        u128::from_le_bytes(*self).words()
    }
}

impl Key for [u8; 6] {
    #[inline(always)]
    fn words(&self) -> (u64, u64) {
        let [a, b, c, d, e, f] = *self;
        (u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), 0)
    }
}

/// The secret of a table's hash: peers that choose keys (tunnels, addresses, ports) can't choose collisions without it.
#[derive(Clone, Copy)]
pub struct Seed {
    low: u64,
    high: u64,
    /// What the second product's factors are seeded with: made of the others.
    second: [u64; 2],
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

impl Seed {
    /// A seed from 128 bits the caller chose, for reproducible runs.
    pub const fn new(bits: u128) -> Self {
        // The constants keep a seed of zero from degenerating the first product.
        let (low, high) = (bits as u64 ^ 0x2d35_8dcc_aa6c_78a5, (bits >> 64) as u64 ^ 0x8bb8_4b93_962e_acc9);
        Self { low, high, second: [high ^ 0x4b33_a62e_d433_d4a3, low ^ 0x4d5a_2da5_1de1_aa47] }
    }

    /// A seed from the operating system's randomness.
    pub fn random() -> Self {
        let word = || u128::from(RandomState::new().hash_one(0u64));
        Self::new(word() << 64 | word())
    }

    /// Two folded multiplications (the scheme of wyhash) over the seeded words.
    #[inline(always)]
    pub(crate) fn hash<K: Key>(&self, key: &K) -> Hash {
        let (low, high) = key.words();
        let first = u128::from(low ^ self.low) * u128::from(high ^ self.high);
        let second = u128::from(first as u64 ^ self.second[0]) * u128::from((first >> 64) as u64 ^ self.second[1]);
        Hash(second as u64 ^ (second >> 64) as u64)
    }
}

/// The hash of a key under one map's seed: the ticket between the phases of a lookup. Meaningless to other maps, and
/// harmless there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hash(pub(crate) u64);

impl Hash {
    /// Eight bits that tell most keys of a bucket apart; never 0, which marks an empty slot.
    #[inline(always)]
    pub(crate) fn tag(self) -> u8 {
        (self.0 as u8).max(1)
    }

    /// The bucket, of `n`, where the key lives when there is room.
    #[inline(always)]
    pub(crate) fn home(self, n: usize) -> usize {
        (((self.0 >> 32) * n as u64) >> 32) as usize
    }

    /// The bucket where it lives otherwise: never the home as long as `n` ≥ 2.
    #[inline(always)]
    pub(crate) fn away(self, n: usize) -> usize {
        let at = (((self.0 & 0xffff_ffff) * n as u64) >> 32) as usize;
        if at != self.home(n) {
            at
        } else if at + 1 < n {
            at + 1
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_and_strided_keys_spread_evenly() {
        let (n, per) = if cfg!(miri) { (1 << 5, 4) } else { (1 << 10, 64) };
        for stride in [1u64, 256, 4096, 1 << 24, 1 << 40] {
            let seed = Seed::new(u128::from(stride) * 77);
            let mut homes = vec![0u32; n];
            let mut aways = vec![0u32; n];
            for i in 0..(n * per) as u64 {
                let h = seed.hash(&(i * stride));
                homes[h.home(n)] += 1;
                aways[h.away(n)] += 1;
                assert!(h.tag() != 0 && h.home(n) != h.away(n));
            }
            // Poisson with mean `per`: eight standard deviations is far beyond chance for 1024 cells.
            let limit = per as u32 + 8 * (per as f64).sqrt() as u32;
            assert!(homes.iter().chain(&aways).all(|&c| c <= limit), "stride {stride}");
        }
    }

    #[test]
    fn buckets_stay_in_range_for_every_hash() {
        for n in [2, 3, 1000, 1 << 32] {
            for h in [0, 1, u64::MAX, 1 << 32, u64::from(u32::MAX), u64::MAX << 32] {
                assert!(Hash(h).home(n) < n && Hash(h).away(n) < n && Hash(h).home(n) != Hash(h).away(n));
            }
        }
    }

    #[test]
    fn seeds_matter_and_hide_themselves() {
        let (a, b) = (Seed::new(1), Seed::new(2));
        assert!((0..100u32).all(|k| a.hash(&k) != b.hash(&k)));
        assert_eq!(format!("{a:?}"), "Seed(secret)");
        assert_ne!(Seed::random().hash(&1u32), Seed::random().hash(&1u32));
    }
}
