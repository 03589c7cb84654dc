//! How large packets are: one size, or a weighted mix that is exact over a cycle.

use std::fmt;
use std::str::FromStr;

use quantity::Unit;
use serde::{Deserialize, Serialize};

use crate::error::ProfileError;

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Bytes of the N6-side Ethernet frame without FCS and without VLAN tag: 14 + the user's IP packet.
    pub bytes: u16,
    /// How many packets of a cycle have that size.
    pub weight: u32,
}

/// Packet sizes of one direction, as lengths of the N6-side Ethernet frame without FCS and without VLAN tag (14 + the
/// user's IP packet); on the access side a frame is larger by its tunnel. Sizes below what a signed packet needs (60
/// for IPv4 users, 80 for IPv6 users) are raised to it.
///
/// As text: `128`, or `84:65,256:18,1280:17` (size:weight).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sizes {
    /// All packets alike.
    Fixed(u16),
    /// Several, in these proportions.
    Mix(Vec<Share>),
}

/// The longest cycle a mix may have once its weights are reduced.
const LONGEST_CYCLE: u32 = 4096;
/// The largest frame a mix may ask for: a jumbo frame.
pub(crate) const LARGEST: u16 = 9216;

impl Sizes {
    /// A mix of these (bytes, weight).
    pub fn mix(shares: &[(u16, u32)]) -> Self {
        Self::Mix(shares.iter().map(|&(bytes, weight)| Share { bytes, weight }).collect())
    }

    /// The sizes with their weights.
    pub fn shares(&self) -> Vec<Share> {
        match self {
            Self::Fixed(bytes) => vec![Share { bytes: *bytes, weight: 1 }],
            Self::Mix(shares) => shares.clone(),
        }
    }

    /// The mean in bytes, before any size is raised.
    pub fn mean(&self) -> f64 {
        let shares = self.shares();
        let weight: f64 = shares.iter().map(|s| f64::from(s.weight)).sum();
        shares.iter().map(|s| f64::from(s.bytes) * f64::from(s.weight)).sum::<f64>() / weight
    }

    /// The order in which sizes follow each other, as indexes into [`Sizes::shares`]: weights are reduced by their
    /// common divisor and interleaved as evenly as can be, so that no size comes in clumps.
    ///
    /// # Errors
    /// When the mix is empty or weightless, has sizes over 9216 bytes, or its cycle would be longer than 4096 packets.
    pub(crate) fn cycle(&self, key: &'static str) -> Result<Box<[u16]>, ProfileError> {
        let shares = self.shares();
        if let Some(share) = shares.iter().find(|s| s.bytes > LARGEST) {
            return Err(ProfileError::TooLarge { key, value: share.bytes.into(), max: LARGEST.into() });
        }
        let divisor = shares.iter().fold(0, |a, s| gcd(a, s.weight));
        if divisor == 0 {
            return Err(ProfileError::NoSizes { key });
        }
        let length = shares.iter().map(|s| u64::from(s.weight / divisor)).sum::<u64>();
        if length > u64::from(LONGEST_CYCLE) {
            return Err(ProfileError::TooLarge { key, value: length, max: LONGEST_CYCLE.into() });
        }
        // Smooth weighted round robin: the one most behind its share goes next.
        let mut credit = vec![0i64; shares.len()];
        let next = |_| {
            for (credit, share) in credit.iter_mut().zip(&shares) {
                *credit += i64::from(share.weight / divisor);
            }
            let ahead = (0..credit.len()).max_by_key(|&i| (credit[i], std::cmp::Reverse(i))).unwrap_or(0);
            credit[ahead] -= length as i64;
            ahead as u16
        };
        Ok((0..length).map(next).collect())
    }
}

pub(crate) const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The text is neither a size nor a list of size:weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a size in bytes nor a list like 84:65,256:18,1280:17")]
pub struct BadSizes(String);

impl FromStr for Sizes {
    type Err = BadSizes;

    fn from_str(text: &str) -> Result<Self, BadSizes> {
        let bad = || BadSizes(text.to_owned());
        let bytes = |text: &str| Unit::Bytes.parse(text).ok().and_then(|bytes| u16::try_from(bytes).ok());
        if let Some(bytes) = bytes(text) {
            return Ok(Self::Fixed(bytes));
        }
        let share = |part: &str| {
            let (size, weight) = part.split_once(':').ok_or_else(bad)?;
            let bytes = bytes(size).ok_or_else(bad)?;
            let weight = weight.trim().parse().map_err(|_| bad())?;
            Ok(Share { bytes, weight })
        };
        text.split(',').map(share).collect::<Result<_, _>>().map(Self::Mix)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "{bytes}"),
            Self::Mix(shares) => {
                for (i, share) in shares.iter().enumerate() {
                    write!(f, "{}{}:{}", if i > 0 { "," } else { "" }, share.bytes, share.weight)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_both_ways() {
        for text in ["128", "84:65,256:18,1280:17"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        assert_eq!("128 B".parse::<Sizes>().unwrap(), Sizes::Fixed(128));
        for bad in ["", "a", "84:", "84:1,", "99999"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
        assert_eq!("84:65, 256:18, 1280:17".parse::<Sizes>().unwrap().mean().round(), 318.0);
    }

    #[test]
    fn an_impossible_mix_is_refused() {
        assert!(Sizes::Mix(vec![]).cycle("sizes").is_err());
        assert!(Sizes::mix(&[(64, 0)]).cycle("sizes").is_err());
        assert!(Sizes::mix(&[(64, 5000), (128, 4999)]).cycle("sizes").is_err());
        assert!(Sizes::Fixed(9217).cycle("sizes").is_err());
    }

    #[test]
    fn no_size_comes_in_clumps() {
        let cycle = Sizes::mix(&[(64, 50), (128, 50)]).cycle("sizes").unwrap();
        assert_eq!(*cycle, [0, 1]);
        let cycle = Sizes::mix(&[(64, 7), (576, 4), (1500, 1)]).cycle("sizes").unwrap();
        assert!(cycle.windows(3).all(|w| w != [0, 0, 0]), "{cycle:?}");
    }

    proptest! {
        #[test]
        fn weights_are_exact_over_a_cycle(weights in prop::collection::vec(0u32..200, 1..8)) {
            let shares: Vec<_> = weights.iter().map(|&w| (100, w)).collect();
            let total: u32 = weights.iter().sum();
            prop_assume!(total > 0);
            let cycle = Sizes::mix(&shares).cycle("sizes").unwrap();
            prop_assert_eq!(total % cycle.len() as u32, 0);
            let times = total / cycle.len() as u32;
            for (i, weight) in weights.iter().enumerate() {
                let count = cycle.iter().filter(|&&c| usize::from(c) == i).count() as u32;
                prop_assert_eq!(count * times, *weight);
            }
        }
    }
}
