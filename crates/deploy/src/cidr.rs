//! IPv4 networks, and what is cut from them.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// A network: its first address and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    first: u32,
    len: u8,
}

impl Cidr {
    /// The prefix length.
    pub fn prefix(self) -> u8 {
        self.len
    }

    /// How many addresses it has.
    pub fn size(self) -> u64 {
        1 << (32 - self.len)
    }

    /// Its address number `n`; none: there are not so many.
    pub fn address(self, n: u64) -> Option<Ipv4Addr> {
        (n < self.size()).then(|| Ipv4Addr::from_bits(self.first + n as u32))
    }

    /// Part `n` of as many parts of prefix length `len` as fit; none: there is no such part.
    pub fn part(self, n: u32, len: u8) -> Option<Cidr> {
        let parts = 1_u64 << len.checked_sub(self.len).filter(|_| len <= 32)?;
        let first = u64::from(self.first) + (u64::from(n) << (32 - len));
        (u64::from(n) < parts).then_some(Cidr { first: first as u32, len })
    }

    /// Whether they have an address in common.
    pub fn overlaps(self, other: Cidr) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Whether all of the other is in it.
    pub fn contains(self, other: Cidr) -> bool {
        other.len >= self.len && u64::from(other.first ^ self.first) >> (32 - self.len) == 0
    }

    /// Whether an address is in it.
    pub fn has(self, address: Ipv4Addr) -> bool {
        self.contains(Cidr { first: address.to_bits(), len: 32 })
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(address, len)| {
            Some((address.parse::<Ipv4Addr>().ok()?, len.parse::<u8>().ok().filter(|len| *len <= 32)?))
        });
        let (address, len) = parts.ok_or_else(|| format!("\"{text}\" is no IPv4 network; such as \"10.20.0.0/16\""))?;
        let cidr = Cidr { first: address.to_bits(), len };
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        match cidr.first & !mask {
            0 => Ok(cidr),
            _ => Err(format!(
                "\"{text}\" begins inside a network; {}/{len} would be right",
                Ipv4Addr::from_bits(cidr.first & mask)
            )),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.first), self.len)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_and_their_parts() {
        let pool = of("10.64.0.0/12");
        assert_eq!(pool.part(15, 16).unwrap().to_string(), "10.79.0.0/16");
        assert_eq!((pool.part(16, 16), pool.part(0, 11)), (None, None));
        assert_eq!(of("0.0.0.0/0").part(3, 2).unwrap().to_string(), "192.0.0.0/2");
        assert_eq!(of("10.0.3.0/24").address(255), Some(Ipv4Addr::new(10, 0, 3, 255)));
        assert_eq!(of("10.0.3.0/24").address(256), None);
        assert!(pool.overlaps(of("10.79.255.0/24")) && of("10.79.255.0/24").overlaps(pool));
        assert!(
            !pool.overlaps(of("10.80.0.0/16")) && of("0.0.0.0/0").contains(pool) && !pool.contains(of("10.0.0.0/8"))
        );
    }

    #[test]
    fn what_is_no_network_is_said() {
        assert!("10.0.3.1/24".parse::<Cidr>().unwrap_err().contains("10.0.3.0/24 would be right"));
        assert!("10.0.3.0/33".parse::<Cidr>().is_err() && "ten".parse::<Cidr>().is_err());
    }
}
