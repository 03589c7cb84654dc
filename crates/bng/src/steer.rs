//! What every worker knows of all groups: which worker owns a line or an address, and which addresses are the gateway's.
//! Immutable: a reload, and a group that moves, replace it. Owners have [`ARRIVING`] while their group is
//! on its way to them.

use std::net::IpAddr;

use dataplane::encap::same_vlans;
use dataplane::forward::InstanceId;
use dataplane::nat;
use engine::{ARRIVING, Overlap, Owner, Steer, SteerKey};
use gateway::shell::flows::to_addresses;
use port::flows::{FlowKey, Flows};
use wire::ethernet::{TAG_LEN, Tags};
use wire::{Outer, ethertype, fast};

use crate::config::{Config, GroupPlan, Layout, Role};
use crate::link::Line;

/// Owner of a group that no worker of this process has.
pub const ELSEWHERE: Owner = ARRIVING - 1;

/// VLAN identifiers of a port, the untagged one (0) among them.
pub const VLANS: usize = 4096;

/// Which side of the gateway a frame is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A subscriber's.
    Access,
    /// An IP network's.
    Core,
}

/// A port as far as frames are told apart by it.
#[derive(Clone, Debug)]
struct PortSide {
    role: Role,
    tags: Tags,
    instance: InstanceId,
    /// The worker of each outer VLAN, from 1; 0: no group's.
    owners: Box<[u16]>,
    /// The group of each outer VLAN, from 1; 0: none.
    groups: Box<[u16]>,
}

impl PortSide {
    /// Outer VLANs in a row that are one worker's.
    fn runs(&self) -> Vec<(u64, u64, Owner)> {
        let mut runs: Vec<(u64, u64, Owner)> = Vec::new();
        for (vlan, owner) in self.owners.iter().enumerate().skip(1) {
            let (vlan, Some(owner)) = (vlan as u64, owner.checked_sub(1)) else { continue };
            match runs.last_mut() {
                Some((_, last, of)) if (*last + 1, *of) == (vlan, owner) => *last = vlan,
                _ => runs.push((vlan, vlan, owner)),
            }
        }
        runs
    }
}

/// Who owns what.
pub struct Directory {
    ports: Vec<PortSide>,
    steer: Steer,
    /// Groups by their slices, in place of owners.
    groups: Steer,
    /// Which groups no worker has.
    away: Vec<bool>,
    /// Public addresses that subscribers' are translated to.
    public: Steer,
    /// Addresses of subscribers that are not translated in a VRF that is.
    untranslated: Vec<(InstanceId, u32, u32)>,
    /// Sets of /16s, and of IPv6 /32s by their hash, that slices and subscribers' addresses lie in: what is in none of
    /// them needs no further look.
    near4: Box<[u64]>,
    near6: Box<[u64]>,
    own: Own,
    /// DHCP servers that requests are relayed to, by group and VRF.
    dhcp_servers: Vec<(u16, InstanceId, IpAddr)>,
}

/// The gateway's own addresses.
#[derive(Default)]
struct Own {
    v4: Vec<(InstanceId, u32)>,
    v6: Vec<(InstanceId, u128)>,
    /// A bit for each of them by its hash.
    hashes: [u64; 8],
}

#[inline(always)]
fn hash4(address: u32) -> usize {
    (address.wrapping_mul(0x9e37_79b1) >> 23) as usize
}

#[inline(always)]
fn hash6(address: u128) -> usize {
    hash4((address as u64 ^ (address >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(32) as u32)
}

#[inline(always)]
fn has(bits: &[u64], at: usize) -> bool {
    bits.get(at >> 6).is_some_and(|word| word >> (at & 63) & 1 != 0)
}

fn set(bits: &mut [u64], at: usize) {
    if let Some(word) = bits.get_mut(at >> 6) {
        *word |= 1 << (at & 63);
    }
}

/// The bit of an IPv6 prefix's first 32 bits.
#[inline(always)]
fn near_bit6(upper: u64) -> usize {
    ((upper >> 32) as u32).wrapping_mul(0x9e37_79b1) as usize >> 20
}

impl Own {
    fn add(&mut self, instance: InstanceId, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.v4.push((instance, address.into()));
                set(&mut self.hashes, hash4(address.into()));
            }
            IpAddr::V6(address) => {
                self.v6.push((instance, address.into()));
                set(&mut self.hashes, hash6(address.into()));
            }
        }
    }
}

impl Directory {
    /// Of a configuration in numbers; `nat`: the public addresses that workers have.
    ///
    /// # Errors
    /// [`Overlap`] when addresses of several workers share an IPv6 /64.
    pub fn new(config: &Config, layout: &Layout, nat: Option<&nat::Addresses>) -> Result<Self, Overlap> {
        let port = |port: &crate::config::Port| PortSide {
            role: port.role,
            // It was checked.
            tags: port.vlan.as_ref().and_then(|vlan| vlan.tags().ok()).unwrap_or_default(),
            instance: config.instance(port.instance()),
            owners: vec![0; VLANS].into(),
            groups: vec![0; VLANS].into(),
        };
        let mut this = Self {
            ports: config.port.iter().map(port).collect(),
            steer: Steer::new(),
            groups: Steer::new(),
            away: layout.groups.iter().map(|group| group.worker == ELSEWHERE).collect(),
            public: Steer::new(),
            untranslated: Vec::new(),
            near4: vec![0; 1024].into(),
            near6: vec![0; 64].into(),
            own: Own::default(),
            dhcp_servers: Vec::new(),
        };
        for (number, group) in (0..).zip(&layout.groups) {
            this.number_slices(number, group);
            if group.worker == ELSEWHERE {
                continue;
            }
            for port in &group.ports {
                let first = usize::from(group.s_vlans.first);
                let owners = &mut this.ports[usize::from(*port)].owners;
                owners[first..first + usize::from(group.s_vlans.count)].fill(group.worker + 1);
            }
            for slice in &group.v4 {
                this.steer.own_v4(group.instance, slice.first, slice.last, group.worker)?;
                (slice.first >> 16..=slice.last >> 16).for_each(|at| set(&mut this.near4, at as usize));
                if !group.nat {
                    this.untranslated.push((group.instance, slice.first, slice.last));
                }
            }
            for slice in &group.v6 {
                this.steer.own_v6(group.instance, slice.first, slice.last, group.worker)?;
                (slice.first >> 32..=slice.last >> 32).for_each(|at| set(&mut this.near6, near_bit6(at << 32)));
            }
            group.gateways.iter().for_each(|address| this.own.add(group.instance, *address));
        }
        for ((group, plan), n) in config.group.iter().zip(&layout.groups).zip(0..) {
            let relay = group.sessions.as_ref().and_then(|sessions| sessions.relay.as_ref());
            let servers = relay.map(|relay| &relay.servers[..]).unwrap_or_default();
            this.dhcp_servers.extend(servers.iter().map(|server| (n, plan.instance, *server)));
        }
        this.own_outside(layout)?;
        this.untranslated.sort_unstable();
        nat.map_or(Ok(()), |nat| nat.steer(&mut this.public))?;
        for port in &config.port {
            let addresses = port.addresses.iter().filter_map(|text| dataplane::config::parse_prefix(text));
            addresses.for_each(|(address, _)| this.own.add(config.instance(port.instance()), address));
        }
        Ok(this)
    }

    /// Notes whose a group's lines and slices are, wherever it is.
    fn number_slices(&mut self, number: u16, group: &GroupPlan) {
        for port in &group.ports {
            let (first, count) = (usize::from(group.s_vlans.first), usize::from(group.s_vlans.count));
            if let Some(groups) = self.ports.get_mut(usize::from(*port)).map(|port| &mut port.groups) {
                groups[first..first + count].fill(number + 1);
            }
        }
        for slice in &group.v4 {
            // What two groups have is the first one's.
            let _ = self.groups.own_v4(group.instance, slice.first, slice.last, number);
        }
        for slice in &group.v6 {
            let _ = self.groups.own_v6(group.instance, slice.first, slice.last, number);
        }
    }

    /// Subscribers whose addresses are in no slice of their group.
    fn own_outside(&mut self, layout: &Layout) -> Result<(), Overlap> {
        for spec in &layout.subscribers {
            let group = &layout.groups[usize::from(spec.group)];
            if group.worker == ELSEWHERE {
                continue;
            }
            if let Some(address) = spec.ipv4
                && !group.v4.iter().any(|slice| (slice.first..=slice.last).contains(&address))
            {
                self.steer.own_v4(group.instance, address, address, group.worker)?;
                set(&mut self.near4, (address >> 16) as usize);
                if !group.nat {
                    self.untranslated.push((group.instance, address, address));
                }
            }
            for (first, len) in spec.wan.map(|wan| (wan, 64)).into_iter().chain(spec.pd) {
                let last = first | u64::MAX.checked_shr(u32::from(len)).unwrap_or(0);
                if !group.v6.iter().any(|slice| (slice.first..=slice.last).contains(&first)) {
                    self.steer.own_v6(group.instance, first, last, group.worker)?;
                    set(&mut self.near6, near_bit6(first));
                }
            }
        }
        Ok(())
    }

    /// Which side a frame is on that came in by a port; none: there is no such port.
    #[inline(always)]
    pub fn side(&self, port: u8, outer: &Outer) -> Option<Side> {
        let port = self.ports.get(usize::from(port))?;
        Some(match port.role {
            Role::Access => Side::Access,
            Role::Core => Side::Core,
            Role::Hybrid if same_vlans(port.tags, outer) => Side::Core,
            Role::Hybrid => Side::Access,
        })
    }

    /// The role of a port.
    #[inline(always)]
    pub fn role(&self, port: u8) -> Option<Role> {
        self.ports.get(usize::from(port)).map(|port| port.role)
    }

    /// Whether an address may be a subscriber's; if not, it is none.
    #[inline(always)]
    pub fn is_near4(&self, address: u32) -> bool {
        has(&self.near4, (address >> 16) as usize)
    }

    /// As [`is_near4`](Self::is_near4), by the upper half of an IPv6 address.
    #[inline(always)]
    pub(crate) fn is_near6(&self, upper: u64) -> bool {
        has(&self.near6, near_bit6(upper))
    }

    /// A bit for each /16 that slices and subscribers' addresses lie in, and for the hash of each such IPv6 /32.
    pub(crate) fn near(&self) -> (&[u64], &[u64]) {
        (&self.near4, &self.near6)
    }

    /// The gateway's own IPv4 addresses and their VRFs.
    pub(crate) fn own4(&self) -> &[(InstanceId, u32)] {
        &self.own.v4
    }

    /// As [`own4`](Self::own4).
    pub(crate) fn own6(&self) -> &[(InstanceId, u128)] {
        &self.own.v6
    }

    /// Whether an IPv4 address is one of subscribers that are not translated.
    #[inline]
    pub fn is_untranslated(&self, instance: InstanceId, address: u32) -> bool {
        let behind = self.untranslated.partition_point(|(at, first, _)| (*at, *first) <= (instance, address));
        let row = behind.checked_sub(1).and_then(|at| self.untranslated.get(at));
        row.is_some_and(|(at, _, last)| *at == instance && address <= *last)
    }

    /// The worker that owns subscribers' addresses there.
    pub fn owner4(&self, instance: InstanceId, address: u32) -> Option<Owner> {
        self.steer.owner(SteerKey::V4(instance, address))
    }

    /// As [`owner4`](Self::owner4), by the upper half of an IPv6 address.
    pub(crate) fn owner6(&self, instance: InstanceId, upper: u64) -> Option<Owner> {
        self.steer.owner(SteerKey::V6(instance, upper))
    }

    /// Whether an address is the gateway's own in that VRF.
    #[inline(always)]
    pub fn is_own4(&self, instance: InstanceId, address: u32) -> bool {
        has(&self.own.hashes, hash4(address)) && self.own.v4.contains(&(instance, address))
    }

    /// As [`is_own4`](Self::is_own4).
    #[inline(always)]
    pub(crate) fn is_own6(&self, instance: InstanceId, address: u128) -> bool {
        has(&self.own.hashes, hash6(address)) && self.own.v6.contains(&(instance, address))
    }

    /// A port with a core side in a VRF.
    pub(crate) fn core_port(&self, instance: InstanceId) -> Option<u8> {
        let mut ports = self.ports.iter().zip(0..);
        ports.find(|(port, _)| port.instance == instance && port.role.has_core()).map(|(_, id)| id)
    }

    /// Whether requests are relayed to DHCP servers.
    pub(crate) fn has_dhcp_servers(&self) -> bool {
        !self.dhcp_servers.is_empty()
    }

    /// Whether requests are relayed to a DHCP server of that address in that VRF.
    pub(crate) fn is_dhcp_server(&self, instance: InstanceId, address: IpAddr) -> bool {
        self.dhcp_servers.iter().any(|(_, vrf, server)| (*vrf, *server) == (instance, address))
    }

    /// Whether requests of a group are relayed to a DHCP server of that address.
    pub(crate) fn relays_to(&self, group: u16, address: IpAddr) -> bool {
        self.dhcp_servers.iter().any(|(of, _, server)| (*of, *server) == (group, address))
    }

    /// Whose each port's packets are, as far as a device can match what [`steer`](Self::steer) goes by: the outermost tag of
    /// lines, and destinations behind the core's own tags. What is untagged has no rule.
    pub fn flows(&self) -> Vec<Flows> {
        let of = |port: &PortSide| {
            let lines =
                Flows::default().with(FlowKey::Vlan, 1, if port.role == Role::Core { vec![] } else { port.runs() });
            if !port.role.has_core() {
                return lines;
            }
            let tags = (port.tags.len() / TAG_LEN) as u8; // two at most
            let flows = to_addresses(lines, tags, port.instance, &self.steer);
            to_addresses(flows, tags, port.instance, &self.public)
        };
        self.ports.iter().map(of).collect()
    }

    /// Whether an address is one of a group that no worker of this process has.
    #[cold]
    pub(crate) fn is_away(&self, key: SteerKey) -> bool {
        self.groups.owner(key).and_then(|group| self.away.get(usize::from(group)).copied()).unwrap_or(false)
    }

    /// The group of a frame, wherever that is; none: no group's, or of the core's own link.
    pub fn group_of(&self, port: u8, frame: &[u8]) -> Option<u16> {
        let outer = Outer::parse(frame).ok()?;
        match self.side(port, &outer)? {
            Side::Access => {
                let groups = &self.ports.get(usize::from(port))?.groups;
                groups.get(usize::from(Line::of(port, &outer).s_vlan))?.checked_sub(1)
            }
            Side::Core => {
                let (packet, instance) =
                    (frame.get(usize::from(outer.l3)..)?, self.ports.get(usize::from(port))?.instance);
                match outer.ethertype {
                    ethertype::IP4 => self.groups.owner(SteerKey::V4(instance, fast::be32(packet, 16)?)),
                    ethertype::IP6 => self.groups.owner(SteerKey::V6(instance, fast::be64(packet, 24)?)),
                    _ => None,
                }
            }
        }
    }

    /// The worker that owns a frame's subscriber; none: no group's, or of the core's own link.
    pub fn steer(&self, port: u8, frame: &[u8]) -> Option<SteerKey> {
        let outer = Outer::parse(frame).ok()?;
        let view = self.ports.get(usize::from(port))?;
        let owner = match self.side(port, &outer)? {
            Side::Access => {
                let owner = *view.owners.get(usize::from(Line::of(port, &outer).s_vlan))?;
                owner.checked_sub(1)?
            }
            Side::Core => {
                let packet = frame.get(usize::from(outer.l3)..)?;
                match outer.ethertype {
                    ethertype::IP4 => {
                        let to = fast::be32(packet, 16)?;
                        let public = || self.public.owner(SteerKey::V4(view.instance, to));
                        self.owner4(view.instance, to).or_else(public)?
                    }
                    ethertype::IP6 => self.owner6(view.instance, fast::be64(packet, 24)?)?,
                    _ => return None,
                }
            }
        };
        Some(SteerKey::Owner(owner))
    }
}
