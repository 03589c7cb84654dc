//! One configuration for many gateways: which of them this is, and what its share is.
//!
//! Replica `n` of `of` takes part `n` of every pool of subscribers' addresses, cut into a power of two of equal parts;
//! its ports' addresses are the configured ones plus `n`, so that each can be routed to; made-up sessions follow the ones
//! before. Everything else is the same for all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::{Config, ConfigError, parse_prefix, wrong};

use super::{Loaded, N4_ADDRESS};
use gateway::cli::RunArgs;
use gateway::fail::Usage;
use gateway::load::Text;

/// Which one, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Which, from 0.
    pub ordinal: u32,
    /// How many there may be.
    pub of: u32,
}

/// The configuration that the command line asks for: as the file has it, or this replica's share of it.
///
/// # Errors
/// What is wrong with the file, or that the share is none.
pub fn load(args: &RunArgs, text: Text) -> anyhow::Result<Loaded> {
    let mut loaded = Loaded::of(text)?;
    if let Some(of) = args.pool_from_ordinal {
        let replica = Replica::of(args.ordinal, &host_name(), of)?;
        replica.apply(&mut loaded.config).map_err(|error| loaded.wrong(&error))?;
    }
    if let (Some(address), Some(n4)) =
        (args.keys.get(&N4_ADDRESS.key).and_then(|text| text.parse().ok()), &mut loaded.config.n4)
    {
        n4.address = address;
    }
    loaded.check()?;
    Ok(loaded)
}

fn host_name() -> String {
    // By a system call: a reload reads it when no file but the configuration may be opened any more.
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl Replica {
    /// As told, or as the host is called: `weir-3` is replica 3.
    fn of(ordinal: Option<u32>, host: &str, of: u32) -> Result<Self, Usage> {
        let of_host = || host.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let Some(ordinal) = ordinal.or_else(of_host) else {
            let what = format!("which replica is this? The host's name, {host:?}, does not end in a number");
            return Err(Usage(format!("{what}, such as weir-3: say --ordinal N")));
        };
        if ordinal >= of {
            return Err(Usage(format!("replica {ordinal} of {of}: the first is 0, the last {}", of - 1)));
        }
        Ok(Self { ordinal, of })
    }

    /// Takes its share.
    fn apply(self, config: &mut Config) -> Result<(), ConfigError> {
        for (n, port) in config.port.iter_mut().enumerate() {
            for (m, text) in port.addresses.iter_mut().enumerate() {
                // What is no address is said by whoever checks the configuration.
                let Some((address, len)) = parse_prefix(text) else { continue };
                *text = self.address(address, len).ok_or_else(|| {
                    let what =
                        format!("replica {}'s address, {text} + {}, is not in its network", self.ordinal, self.ordinal);
                    wrong(&[&"port", &n, &"addresses", &m], what, "begin lower, or take a larger network")
                })?;
            }
        }
        for (n, pool) in config.n4.iter_mut().flat_map(|n4| n4.pool.iter_mut()).enumerate() {
            for (key, text, least) in [("v4", &mut pool.v4, 30), ("v6", &mut pool.v6, 64)] {
                let Some((text, (network, len))) =
                    text.as_mut().and_then(|t| Some((parse_prefix(t)?, t))).map(|(p, t)| (t, p))
                else {
                    continue;
                };
                *text = self.part(network, len, least).ok_or_else(|| {
                    let what = format!("{text} is too small for {} replicas", self.of);
                    wrong(&[&"n4", &"pool", &n, &key], what, "take a larger network, or fewer replicas")
                })?;
            }
        }
        if let Some(simulate) = &mut config.simulate {
            let behind = self.ordinal.wrapping_mul(simulate.ues);
            let first4 = simulate.first4();
            simulate.ue_first = first4.map(|first| Ipv4Addr::from_bits(first.to_bits().wrapping_add(behind)));
            let six = |first: Ipv6Addr| Ipv6Addr::from_bits(first.to_bits().wrapping_add(u128::from(behind) << 64));
            simulate.ue6_first = simulate.ue6_first.map(six);
        }
        Ok(())
    }

    /// An address plus the ordinal, with its prefix length; none: it is not in the network any more.
    fn address(self, address: IpAddr, len: u8) -> Option<String> {
        let more = match address {
            IpAddr::V4(it) => {
                it.to_bits().checked_add(self.ordinal).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))?
            }
            IpAddr::V6(it) => {
                it.to_bits().checked_add(self.ordinal.into()).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))?
            }
        };
        let network = |address: IpAddr| match address {
            IpAddr::V4(it) => u128::from(it.to_bits()).checked_shr(32 - u32::from(len)).unwrap_or(0),
            IpAddr::V6(it) => it.to_bits().checked_shr(128 - u32::from(len)).unwrap_or(0),
        };
        let is_broadcast =
            matches!(more, IpAddr::V4(it) if len < 31 && it.to_bits() | (u32::MAX << (32 - len)) == u32::MAX);
        (network(more) == network(address) && !is_broadcast).then(|| format!("{more}/{len}"))
    }

    /// Its part of a network, cut into equal parts of prefixes no longer than `longest`.
    fn part(self, network: IpAddr, len: u8, longest: u8) -> Option<String> {
        let len = len + self.of.next_power_of_two().trailing_zeros() as u8; // at most 12 more
        if len > longest {
            return None;
        }
        let part = match network {
            IpAddr::V4(it) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(
                    (it.to_bits() & mask) | self.ordinal.checked_shl(32 - u32::from(len)).unwrap_or(0),
                ))
            }
            IpAddr::V6(it) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                let ordinal = u128::from(self.ordinal).checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits((it.to_bits() & mask) | ordinal))
            }
        };
        Some(format!("{part}/{len}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(&format!("gateway = \"upf\"\n{text}")).unwrap()
    }

    #[test]
    fn the_ordinal_is_told_or_in_the_hosts_name() {
        let of = |told, host| Replica::of(told, host, 8).ok().map(|replica| replica.ordinal);
        assert_eq!((of(None, "weir-3"), of(Some(5), "weir-3"), of(None, "upf-a-0")), (Some(3), Some(5), Some(0)));
        assert_eq!((of(None, "weir"), of(None, "weir-8"), of(Some(8), "x")), (None, None, None));
        assert!(Replica::of(None, "weir", 8).unwrap_err().to_string().contains("--ordinal"));
    }

    #[test]
    fn parts_of_a_pool_do_not_overlap_and_are_all_of_it() {
        let mut parts = Vec::new();
        for ordinal in 0..6 {
            let mut config =
                config("n4 = { address = \"10.0.4.1\", pool = [{ v4 = \"10.45.0.0/16\", v6 = \"2001:db8::/48\" }] }");
            Replica { ordinal, of: 6 }.apply(&mut config).unwrap();
            let pool = config.n4.unwrap().pool.remove(0);
            parts.push((pool.v4.unwrap(), pool.v6.unwrap()));
        }
        assert_eq!(parts[0], ("10.45.0.0/19".into(), "2001:db8::/51".into()));
        assert_eq!(parts[5], ("10.45.160.0/19".into(), "2001:db8:0:a000::/51".into()));
        let first = |text: &String| parse_prefix(text).unwrap().0;
        assert!(parts.windows(2).all(|two| first(&two[0].0) < first(&two[1].0)), "{parts:?}");
        let one = Replica { ordinal: 0, of: 1 };
        assert_eq!(one.part([10, 45, 0, 0].into(), 16, 30).unwrap(), "10.45.0.0/16", "one alone has all");
    }

    #[test]
    fn addresses_and_sessions_follow_each_other() {
        let ports = "port = [{ name = \"n3\", uri = \"memory:a\", role = \"access\", addresses = [\"10.0.3.16/24\", \"fd00:3::10/64\"] }]\n";
        let mut config = config(&format!("{ports}simulate = {{ ues = 1000, ue_first = \"10.60.0.1\" }}"));
        Replica { ordinal: 2, of: 4 }.apply(&mut config).unwrap();
        assert_eq!(config.port[0].addresses, ["10.0.3.18/24", "fd00:3::12/64"]);
        assert_eq!(config.simulate.unwrap().ue_first.unwrap().to_string(), "10.60.7.209");
    }

    #[test]
    fn what_does_not_fit_points_at_its_key() {
        let apply = |text: &str, ordinal, of| Replica { ordinal, of }.apply(&mut config(text)).unwrap_err();
        let port = "port = [{ name = \"n3\", uri = \"memory:a\", role = \"access\", addresses = [\"10.0.3.253/24\"] }]";
        assert_eq!(apply(port, 2, 4).path, ["port", "0", "addresses", "0"], "the broadcast address is nobody's");
        assert_eq!(apply(port, 3, 4).path, ["port", "0", "addresses", "0"]);
        let pool = "n4 = { address = \"10.0.4.1\", pool = [{ v4 = \"10.45.0.0/28\" }] }";
        assert_eq!(apply(pool, 0, 8).path, ["n4", "pool", "0", "v4"]);
    }
}
