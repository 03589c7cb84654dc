//! What a profile must fulfil before it is played.

use std::net::IpAddr;

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::profile::{Profile, Teids};

/// The most flows a plan numbers: half of what a signature's 32 bits hold.
const MOST_FLOWS: u64 = 1 << 31;
/// The most flows of one user.
const MOST_FLOWS_PER_UE: u64 = 4096;
/// The most users: their order takes 4 bytes each.
const MOST_UES: u64 = 1 << 24;

impl Profile {
    /// Checks that the profile can be played.
    ///
    /// # Errors
    /// The first thing wrong, naming its key.
    pub fn validate(&self) -> Result<(), ProfileError> {
        self.counts()?;
        self.ports()?;
        self.places()?;
        self.tunnels()?;
        share("ipv6_share", self.ipv6_share)?;
        share("new_flows", self.new_flows)?;
        let parts = [self.ratio.up, self.ratio.down];
        if parts.iter().any(|p| !p.is_finite() || *p < 0.0) || parts.iter().sum::<f64>() <= 0.0 {
            return Err(ProfileError::Ratio { key: "ratio" });
        }
        self.uplink_sizes.cycle("uplink_sizes")?;
        self.downlink_sizes.cycle("downlink_sizes")?;
        for (key, segment) in [("access.vlan", &self.access), ("core.vlan", &self.core)] {
            at_most(key, u64::from(segment.vlan.map_or(0, |v| v & 0xfff)), 4094)?;
        }
        Ok(())
    }

    fn counts(&self) -> Result<(), ProfileError> {
        let counts = [
            ("ues", self.ues),
            ("bearers", self.bearers.into()),
            ("flows_per_bearer", self.flows_per_bearer.into()),
            ("gnbs", self.gnbs),
            ("servers", self.servers),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ProfileError::Zero { key });
        }
        at_most("ues", self.ues.into(), MOST_UES)?;
        at_most("flows_per_bearer", self.flows_per_ue().into(), MOST_FLOWS_PER_UE)?;
        at_most("ues", self.flows(), MOST_FLOWS)
    }

    fn ports(&self) -> Result<(), ProfileError> {
        let flows = u64::from(self.flows_per_bearer);
        // A packet of a new flow needs a server port that no lasting flow has.
        let needed = if self.new_flows > 0.0 { flows + 1 } else { flows };
        if u64::from(self.port_span) < needed {
            return Err(ProfileError::TooSmall { key: "port_span", value: self.port_span.into(), min: needed });
        }
        at_most(
            "server_port",
            u64::from(self.server_port) + u64::from(self.bearers) * u64::from(self.port_span),
            1 << 16,
        )?;
        at_most("ue_port", u64::from(self.ue_port) + u64::from(self.flows_per_ue()), 1 << 16)
    }

    fn places(&self) -> Result<(), ProfileError> {
        let four = [
            ("ue_first", IpAddr::V4(self.ue_first), self.ues),
            ("server_first", IpAddr::V4(self.server_first), self.servers),
            ("gnb_first", self.gnb_first, self.gnbs),
            ("server6_first", IpAddr::V6(self.server6_first), self.servers),
        ];
        for (key, first, count) in four {
            if last(first, count).is_none() {
                return Err(ProfileError::Addresses { key, first: first.to_string(), count });
            }
        }
        if self.ue6_first.to_bits().checked_add(u128::from(self.ues - 1) << 64).is_none() {
            return Err(ProfileError::Addresses {
                key: "ue6_first",
                first: self.ue6_first.to_string(),
                count: self.ues,
            });
        }
        let overlap = |a: (IpAddr, u32), b: (IpAddr, u32)| {
            let end = |(first, count)| last(first, count).unwrap_or(first);
            a.0.is_ipv4() == b.0.is_ipv4() && a.0 <= end(b) && b.0 <= end(a)
        };
        let ues = (self.ue_first.into(), self.ues);
        let servers = (self.server_first.into(), self.servers);
        let gnbs = (self.gnb_first, self.gnbs);
        let gateway = (self.upf_n3, 1);
        let pairs = [
            ("server_first", servers, "ue_first", ues),
            ("gnb_first", gnbs, "ue_first", ues),
            ("gnb_first", gnbs, "server_first", servers),
            ("upf_n3", gateway, "gnb_first", gnbs),
            ("upf_n3", gateway, "ue_first", ues),
        ];
        match pairs.into_iter().find(|(_, a, _, b)| overlap(*a, *b)) {
            Some((key, _, other, _)) => Err(ProfileError::Overlap { key, other }),
            None => Ok(()),
        }
    }

    fn tunnels(&self) -> Result<(), ProfileError> {
        if self.gnb_first.is_ipv4() != self.upf_n3.is_ipv4() {
            return Err(ProfileError::Families);
        }
        if self.gnb_first.is_ipv6() && !self.user_checksums {
            return Err(ProfileError::ChecksumNeeded);
        }
        if !self.qfis.is_empty() && self.qfis.len() != usize::from(self.bearers) {
            return Err(ProfileError::Qfis { bearers: self.bearers, given: self.qfis.len() });
        }
        for &qfi in &self.qfis {
            at_most("qfis", qfi.into(), 63)?;
        }
        for (key, direction) in [("uplink_teids", Direction::Uplink), ("downlink_teids", Direction::Downlink)] {
            match self.teids(direction) {
                Teids::Formula { first, per_ue } => {
                    let bearers = u64::from(self.bearers);
                    let per_ue = if *per_ue == 0 { bearers } else { u64::from(*per_ue) };
                    if per_ue < bearers {
                        return Err(ProfileError::TooSmall { key, value: per_ue, min: bearers });
                    }
                    at_most(key, u64::from(*first) + u64::from(self.ues - 1) * per_ue + bearers - 1, u32::MAX.into())?;
                }
                Teids::List(list) => {
                    let needed = self.ues as usize * usize::from(self.bearers);
                    if list.len() < needed {
                        return Err(ProfileError::TeidList { key, given: list.len(), needed });
                    }
                }
            }
        }
        Ok(())
    }
}

/// The last of `count` addresses, if the address space reaches that far.
fn last(first: IpAddr, count: u32) -> Option<IpAddr> {
    match first {
        IpAddr::V4(a) => a.to_bits().checked_add(count - 1).map(|a| std::net::Ipv4Addr::from_bits(a).into()),
        IpAddr::V6(a) => a.to_bits().checked_add((count - 1).into()).map(|a| std::net::Ipv6Addr::from_bits(a).into()),
    }
}

fn at_most(key: &'static str, value: u64, max: u64) -> Result<(), ProfileError> {
    if value > max { Err(ProfileError::TooLarge { key, value, max }) } else { Ok(()) }
}

fn share(key: &'static str, value: f64) -> Result<(), ProfileError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ProfileError::NotAShare { key }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Profile)) -> String {
        let mut profile = Profile::default();
        change(&mut profile);
        profile.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_default_and_a_million_users_can_be_played() {
        Profile::default().validate().unwrap();
        let bearers = 2;
        let qfis = vec![9, 1];
        Profile { ues: 1_000_000, bearers, flows_per_bearer: 4, qfis, ..Profile::default() }.validate().unwrap();
    }

    #[test]
    fn every_refusal_names_its_key() {
        type Change = fn(&mut Profile);
        let cases: &[(&str, Change)] = &[
            ("`ues`", |p| p.ues = 0),
            ("`ues`", |p| p.ues = 1 << 25),
            ("`gnbs`", |p| p.gnbs = 0),
            ("`servers`", |p| p.servers = 0),
            ("`bearers`", |p| p.bearers = 0),
            ("`flows_per_bearer`", |p| p.flows_per_bearer = 5000),
            ("`port_span`", |p| p.flows_per_bearer = 101),
            ("`port_span`", |p| (p.flows_per_bearer, p.new_flows) = (100, 0.1)),
            ("`server_port`", |p| p.server_port = 65_500),
            ("`ue_port`", |p| (p.ue_port, p.flows_per_bearer) = (65_500, 50)),
            ("`ue_first`", |p| p.ue_first = [255, 255, 255, 0].into()),
            ("`ue6_first`", |p| p.ue6_first = u128::MAX.to_be_bytes().into()),
            ("`gnb_first` and `ue_first`", |p| p.gnb_first = IpAddr::from([10, 0, 0, 9])),
            ("`upf_n3` and `gnb_first`", |p| p.upf_n3 = IpAddr::from([172, 20, 0, 8])),
            ("`server_first` and `ue_first`", |p| p.server_first = [9, 255, 255, 250].into()),
            ("`gnb_first` and `upf_n3` must be", |p| p.upf_n3 = IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1])),
            ("`qfis`", |p| p.bearers = 2),
            ("`qfis`", |p| p.qfis = vec![64]),
            ("`uplink_teids`", |p| p.uplink_teids = Teids::from(u32::MAX)),
            ("`uplink_teids`", |p| {
                p.uplink_teids = Teids::Formula { first: 1, per_ue: 1 };
                (p.bearers, p.qfis) = (2, vec![1, 2]);
            }),
            ("`downlink_teids`", |p| p.downlink_teids = Teids::List([1].into())),
            ("`ipv6_share`", |p| p.ipv6_share = 1.5),
            ("`new_flows`", |p| p.new_flows = f64::NAN),
            ("`ratio`", |p| p.ratio.up = -1.0),
            ("`ratio`", |p| (p.ratio.up, p.ratio.down) = (0.0, 0.0)),
            ("`uplink_sizes`", |p| p.uplink_sizes = crate::Sizes::Mix(vec![])),
            ("`downlink_sizes`", |p| p.downlink_sizes = crate::Sizes::Fixed(10_000)),
            ("`core.vlan`", |p| p.core.vlan = Some(4095)),
            ("`user_checksums`", |p| {
                (p.gnb_first, p.upf_n3) = (IpAddr::from([1u16; 8]), IpAddr::from([2u16; 8]));
                p.user_checksums = false;
            }),
        ];
        for (key, change) in cases {
            let said = refused(change);
            assert!(said.starts_with(key), "{key}: {said}");
        }
    }
}
