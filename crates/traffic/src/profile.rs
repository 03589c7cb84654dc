//! What a trial's traffic looks like: plain configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::direction::Direction;
use crate::sizes::Sizes;

/// Users, bearers, flows, places and sizes of a trial's traffic. Users are numbered from 0; user *i* has the *i*-th
/// address of its pool and is served by gNB *i* mod [`Profile::gnbs`]. Every user gets equally many packets, every
/// flow of a user too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Users (devices).
    pub ues: u32,
    /// IPv4 address of user 0; user *i* has this + *i*.
    pub ue_first: Ipv4Addr,
    /// IPv6 address of user 0; user *i* has the same interface identifier in the /64 that follows *i* later.
    pub ue6_first: Ipv6Addr,
    /// Share of the users, 0 to 1, that speak IPv6 (only); they are spread evenly over the numbers.
    pub ipv6_share: f64,
    /// Bearers (QoS flows) of a user.
    pub bearers: u16,
    /// Flows of a bearer.
    pub flows_per_bearer: u16,
    /// Port of the application servers for bearer 0's flow 0; flow *f* of bearer *b* has this + *b* ×
    /// [`Profile::port_span`] + *f*, so that a filter on the remote port tells bearers apart.
    pub server_port: u16,
    /// Server ports that belong to one bearer.
    pub port_span: u16,
    /// The user's port for flow 0 of bearer 0; the following flows have the following ports.
    pub ue_port: u16,
    /// QoS flow identifier of each bearer, sent in a PDU Session Container; empty: no container (4G).
    pub qfis: Vec<u8>,
    /// Tunnel identifiers the gateway chose: where the uplink is sent to.
    pub uplink_teids: Teids,
    /// Tunnel identifiers the gNBs chose: where the downlink must arrive.
    pub downlink_teids: Teids,
    pub gnbs: u32,
    /// Address of gNB 0, IPv4 or IPv6; gNB *g* has this + *g*.
    pub gnb_first: IpAddr,
    /// The gateway's address on N3, of the same family.
    pub upf_n3: IpAddr,
    /// Application servers.
    pub servers: u32,
    /// IPv4 address of server 0; server *s* has this + *s*.
    pub server_first: Ipv4Addr,
    /// IPv6 address of server 0; server *s* has this + *s*.
    pub server6_first: Ipv6Addr,
    /// The link to the gateway's N3.
    pub access: Segment,
    /// The link to the gateway's N6.
    pub core: Segment,
    /// Packet sizes of the uplink.
    pub uplink_sizes: Sizes,
    /// Packet sizes of the downlink.
    pub downlink_sizes: Sizes,
    /// How packets are divided between the directions.
    pub ratio: Ratio,
    /// Share of the packets, 0 to 1, sent with a 5-tuple that was not used before and will not be again for
    /// [`crate::Plan::new_flow_period`] packets; within the bearer's ports.
    pub new_flows: f64,
    /// Whether users' UDP over IPv4 has a checksum, over a payload of zeroes. Without, the payload is whatever the
    /// slot held, which spares the generator from touching it. IPv6 users always have one.
    pub user_checksums: bool,
    /// Decides the order users are served in.
    pub seed: u64,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            ues: 1000,
            ue_first: Ipv4Addr::new(10, 0, 0, 1),
            ue6_first: Ipv6Addr::new(0x2001, 0xdb8, 0x1000, 0, 0, 0, 0, 1),
            ipv6_share: 0.0,
            bearers: 1,
            flows_per_bearer: 1,
            server_port: 20_000,
            port_span: 100,
            ue_port: 10_000,
            qfis: vec![9],
            uplink_teids: Teids::from(1),
            downlink_teids: Teids::from(1),
            gnbs: 8,
            gnb_first: Ipv4Addr::new(172, 20, 0, 1).into(),
            upf_n3: Ipv4Addr::new(172, 21, 0, 1).into(),
            servers: 16,
            server_first: Ipv4Addr::new(198, 18, 0, 1),
            server6_first: Ipv6Addr::new(0x2001, 0xdb8, 0x8000, 0, 0, 0, 0, 1),
            access: Segment {
                own: Mac([2, 0, 0, 0, 3, 1]),
                gateway: Mac([2, 0, 0, 0, 3, 0]),
                vlan: None,
                answers: vec![],
            },
            core: Segment {
                own: Mac([2, 0, 0, 0, 6, 1]),
                gateway: Mac([2, 0, 0, 0, 6, 0]),
                vlan: None,
                answers: vec![],
            },
            uplink_sizes: Sizes::Fixed(128),
            downlink_sizes: Sizes::Fixed(128),
            ratio: Ratio::default(),
            new_flows: 0.0,
            user_checksums: true,
            seed: 1,
        }
    }
}

/// Tunnel identifiers of all bearers of all users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Teids {
    /// Bearer *b* of user *i* has `first` + *i* × `per_ue` + *b*.
    Formula {
        first: u32,
        /// From one user to the next; 0 stands for as many as there are bearers.
        #[serde(default)]
        per_ue: u32,
    },
    /// Bearer *b* of user *i* has the entry *i* × bearers + *b*: for control planes that choose freely. Not part of
    /// configuration files.
    #[serde(skip)]
    List(Arc<[u32]>),
}

impl From<u32> for Teids {
    /// Consecutive from `first`.
    fn from(first: u32) -> Self {
        Self::Formula { first, per_ue: 0 }
    }
}

/// One link between the generator and the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Hardware address of the generator's side.
    #[serde(with = "mac")]
    pub own: Mac,
    /// Hardware address of the gateway's side.
    #[serde(with = "mac")]
    pub gateway: Mac,
    /// VLAN tag (identifier and, in the upper bits, priority) of every frame; not counted in [`Sizes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Addresses the generator answers for besides those of its gNBs or servers, such as the next hop that the
    /// gateway's routes name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<IpAddr>,
}

/// Parts of the packets that go up and down, such as 1:9.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Uplink.
    pub up: f64,
    pub down: f64,
}

impl Default for Ratio {
    fn default() -> Self {
        Self { up: 1.0, down: 1.0 }
    }
}

impl Ratio {
    /// A direction's share of all packets, 0 to 1.
    pub fn share(self, direction: Direction) -> f64 {
        let part = match direction {
            Direction::Uplink => self.up,
            Direction::Downlink => self.down,
        };
        part / (self.up + self.down)
    }
}

/// The text is not two numbers with a colon between.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a ratio of uplink to downlink such as 1:9")]
pub struct BadRatio(String);

impl std::str::FromStr for Ratio {
    type Err = BadRatio;

    fn from_str(text: &str) -> Result<Self, BadRatio> {
        let part = |text: &str| text.trim().parse().ok();
        let both = text.split_once(':').and_then(|(up, down)| Some(Self { up: part(up)?, down: part(down)? }));
        both.ok_or_else(|| BadRatio(text.to_owned()))
    }
}

impl Profile {
    /// Flows of one user.
    pub fn flows_per_ue(&self) -> u32 {
        u32::from(self.bearers) * u32::from(self.flows_per_bearer)
    }

    /// Flows of all users.
    pub fn flows(&self) -> u64 {
        u64::from(self.ues) * u64::from(self.flows_per_ue())
    }

    /// Packet sizes of a direction.
    pub fn sizes(&self, direction: Direction) -> &Sizes {
        match direction {
            Direction::Uplink => &self.uplink_sizes,
            Direction::Downlink => &self.downlink_sizes,
        }
    }

    /// The tunnel identifiers packets of a direction travel with.
    pub fn teids(&self, direction: Direction) -> &Teids {
        match direction {
            Direction::Uplink => &self.uplink_teids,
            Direction::Downlink => &self.downlink_teids,
        }
    }

    /// The link packets of a direction leave the generator by.
    pub fn entry(&self, direction: Direction) -> &Segment {
        match direction {
            Direction::Uplink => &self.access,
            Direction::Downlink => &self.core,
        }
    }

    /// Tunnel identifier of a user's bearer; 0 when a list doesn't reach that far.
    pub fn teid(&self, direction: Direction, ue: u32, bearer: u16) -> u32 {
        let (ue, bearer, bearers) = (u64::from(ue), u64::from(bearer), u64::from(self.bearers));
        match self.teids(direction) {
            Teids::Formula { first, per_ue } => {
                let per_ue = if *per_ue == 0 { bearers } else { u64::from(*per_ue) };
                // Validation has shown that this fits.
                (u64::from(*first) + ue * per_ue + bearer) as u32
            }
            Teids::List(list) => list.get((ue * bearers + bearer) as usize).copied().unwrap_or(0),
        }
    }

    /// IPv4 address of a user.
    pub fn ue4(&self, ue: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.ue_first.to_bits().wrapping_add(ue))
    }

    /// IPv6 address of a user.
    pub fn ue6(&self, ue: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.ue6_first.to_bits().wrapping_add(u128::from(ue) << 64))
    }

    /// Whether a user speaks IPv6.
    pub fn is_ipv6(&self, ue: u32) -> bool {
        crosses(ue, v6_step(self.ipv6_share))
    }

    /// The gNB that serves a user.
    pub fn gnb_of(&self, ue: u32) -> u32 {
        ue % self.gnbs.max(1)
    }

    /// Address of a gNB.
    pub fn gnb(&self, gnb: u32) -> IpAddr {
        match self.gnb_first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(gnb)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(gnb.into())).into(),
        }
    }

    /// The server ports that belong to a bearer: first and last.
    pub fn server_ports(&self, bearer: u16) -> (u16, u16) {
        let first = self.server_port + bearer * self.port_span;
        (first, first + self.port_span - 1)
    }

    /// Bytes a user's packet gains on the access side: outer IP, UDP, GTP-U.
    pub fn tunnel_bytes(&self) -> usize {
        let ip = if self.gnb_first.is_ipv4() { 20 } else { 40 };
        ip + 8 + if self.qfis.is_empty() { wire::gtpu::HEADER_LEN } else { wire::gtpu::HEADER_WITH_CONTAINER_LEN }
    }
}

/// A share as a step of 2⁻³².
pub(crate) fn v6_step(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64
}

/// Whether the `i`-th of evenly spread things with density `step` × 2⁻³² is one of the chosen.
#[inline(always)]
pub(crate) fn crosses(i: u32, step: u64) -> bool {
    let before = u64::from(i).wrapping_mul(step);
    (before + step) >> 32 != before >> 32
}

mod mac {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use wire::Mac;

    pub fn serialize<S: Serializer>(mac: &Mac, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(mac)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Mac, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_only_what_differs() {
        let text = r#"
            ues = 100000
            bearers = 2
            flows_per_bearer = 4
            qfis = [9, 1]
            uplink_teids = { first = 256, per_ue = 4 }
            gnb_first = "2001:db8::1"
            upf_n3 = "2001:db8::ffff"
            access = { own = "02:00:00:00:00:01", gateway = "02:00:00:00:00:02", vlan = 100 }
            uplink_sizes = [{ bytes = 84, weight = 65 }, { bytes = 256, weight = 18 }, { bytes = 1280, weight = 17 }]
            downlink_sizes = 1400
            ratio = { up = 1, down = 9 }
        "#;
        let profile: Profile = toml::from_str(text).unwrap();
        profile.validate().unwrap();
        assert_eq!((profile.flows(), profile.flows_per_ue()), (800_000, 8));
        assert_eq!(profile.teid(Direction::Uplink, 10, 1), 256 + 41);
        assert_eq!(profile.teid(Direction::Downlink, 10, 1), 1 + 21);
        assert_eq!(profile.ratio.share(Direction::Downlink), 0.9);
        assert_eq!(profile.server_ports(1), (20_100, 20_199));
        assert_eq!(profile.gnb(3).to_string(), "2001:db8::4");
        assert_eq!(profile.ue6(2).to_string(), "2001:db8:1000:2::1");
        assert_eq!(profile.tunnel_bytes(), 40 + 8 + 16);
        let again: Profile = toml::from_str(&toml::to_string(&profile).unwrap()).unwrap();
        assert_eq!(again, profile);
    }

    #[test]
    fn a_ratio_is_read_as_it_is_written() {
        assert_eq!("2.5:7.5".parse(), Ok(Ratio { up: 2.5, down: 7.5 }));
        assert!("1".parse::<Ratio>().is_err() && "1:x".parse::<Ratio>().is_err());
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<Profile>("uess = 1").unwrap_err().to_string().contains("uess"));
    }

    #[test]
    fn ipv6_users_are_spread_evenly() {
        let profile = Profile { ipv6_share: 0.25, ..Profile::default() };
        assert_eq!((0..1000).filter(|&ue| profile.is_ipv6(ue)).count(), 250);
        assert_eq!((0..100).filter(|&ue| profile.is_ipv6(ue)).count(), 25);
        let all = Profile { ipv6_share: 1.0, ..Profile::default() };
        assert!((0..1000).all(|ue| all.is_ipv6(ue) && !Profile::default().is_ipv6(ue)));
    }
}
