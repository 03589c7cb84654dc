//! Where packets go: ports, routes, next hops, tunnels. Control builds it, workers read it as a published snapshot.
//!
//! [`Plan`] is the control side: plain collections that change. [`Forwarding`] is what it compiles to: flat tables in
//! which a packet's path is one prefix lookup and one indexed record.

mod neighbourhood;
mod plan;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame::HostInterface;
use table::bulk::BulkMap;
use table::lpm::Lpm;
use table::snapshot::Reader;
use wire::ethernet::{self, HEADER_LEN, Tags};
use wire::{Mac, Outer, ethertype};

use crate::encap::{LinkEncap, same_vlans};
pub use neighbourhood::{Neighbourhood, Settled};
pub use plan::{Plan, Route, Via};

/// Nothing there: an index that names no hop or tunnel.
pub const NONE: u32 = u32::MAX;
/// Set in a route's value: the destination is on the link of the port in the low bits.
pub(crate) const ON_LINK: u32 = 1 << 31;
/// Set beside [`ON_LINK`]: the route has several next hops, by its number in the low bits.
const SHARED: u32 = 1 << 30;
/// A route's value: packets for there are not forwarded, whatever the default route says.
const NOWHERE: u32 = NONE;

/// Spreads numbers of 64 bits evenly over 32 bits, neighbours and multiples too (the finalizer of MurmurHash3). The in-kernel
/// path has the same.
#[inline(always)]
const fn mix(value: u64) -> u32 {
    let value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (value >> 32) as u32
}

/// A number by which flows between two IPv4 addresses are spread over next hops: all packets of a flow take one, fragments
/// too (RFC 2991). By the same `seed` the same in every process: a flow keeps its next hop when a gateway is replaced.
#[inline(always)]
fn spread4(seed: u64, from: u32, to: u32) -> u32 {
    mix(((u64::from(from) << 32) | u64::from(to)) ^ seed)
}

/// As [`spread4`], between IPv6 addresses.
#[inline(always)]
fn spread6(seed: u64, from: u128, to: u128) -> u32 {
    let folded = |address: u128| (address >> 64) as u64 ^ (address as u64).rotate_left(32);
    mix(folded(from).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ folded(to) ^ seed)
}

/// The part of `count` that a spread number falls into, by equal ranges: of next hops that come and go as few flows as
/// possible change theirs (RFC 2992).
#[inline(always)]
fn part(spread: u32, count: usize) -> usize {
    ((u64::from(spread) * count as u64) >> 32) as usize
}

/// Whether no host, or none beyond its own link, can have sent from that address: this network, loopback, link-local,
/// multicast, broadcast (RFC 1812, 5.3.7; RFC 3927, 2.7).
#[inline(always)]
pub fn is_martian4(source: u32) -> bool {
    const ALL: u8 = 1;
    const SOME: u8 = 2;
    // By the first octet: one look for nearly every packet.
    const NETWORKS: [u8; 256] = {
        let mut networks = [0; 256];
        (networks[0], networks[127], networks[169]) = (ALL, ALL, SOME);
        let mut multicast = 224;
        while multicast < networks.len() {
            networks[multicast] = ALL;
            multicast += 1;
        }
        networks
    };
    let network = NETWORKS[(source >> 24) as usize];
    network != 0 && (network == ALL || source >> 16 == 0xa9fe)
}

/// As [`is_martian4`]: unspecified, loopback, link-local, multicast (RFC 4291, 2.5 and 2.7).
#[inline(always)]
pub fn is_martian6(source: u128) -> bool {
    source <= 1 || source >> 118 == 0xfe80 >> 6 || source >> 120 == 0xff
}

/// A routing domain; networks of different instances may overlap (3GPP TS 29.244, 8.2.4).
pub type InstanceId = u16;

/// A port as the stages see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortView {
    /// Its name in the configuration.
    pub name: String,
    /// Hardware address; zeros accept any.
    pub mac: [u8; 6],
    /// The tags its frames carry.
    pub tags: Tags,
    /// Other stacks of tags that it takes frames with: those of neighbours that have their own.
    pub also: Vec<Tags>,
    /// The priority code point of tags on output, by class selector (DSCP / 8).
    pub pcp: [u8; 8],
    /// Largest network-layer packet it sends, in bytes.
    pub mtu: u16,
    /// The routing domain it belongs to.
    pub instance: InstanceId,
    /// Our addresses on it, with the length of the connected prefix.
    pub v4: Vec<(u32, u8)>,
    /// As `v4`.
    pub v6: Vec<(u128, u8)>,
    /// Whether UDP checksums of what comes in by it are verified.
    pub verify_udp: bool,
    /// Whether it makes UDP checksums over IPv6 that are left to it.
    pub completes_udp6: bool,
    /// The number of the port whose device it shares; none: it has its own.
    pub on: Option<u8>,
    /// Of ports with the same tags on one device, it has what is to no address of theirs.
    pub has_rest: bool,
    /// The port has no link layer: every packet goes to this hardware address, and no neighbour is resolved.
    pub peer: Option<[u8; 6]>,
    /// The interface of the host that gets messages of routing protocols; none: they are dropped.
    pub host: Option<HostInterface>,
}

impl PortView {
    /// No port: without address, it takes nothing.
    pub const NONE: Self = Self {
        name: String::new(),
        mac: [0; 6],
        tags: Tags::None,
        also: Vec::new(),
        pcp: [0; 8],
        mtu: 0,
        instance: 0,
        v4: Vec::new(),
        v6: Vec::new(),
        verify_udp: false,
        completes_udp6: false,
        on: None,
        has_rest: false,
        peer: None,
        host: None,
    };

    /// Whether the tags of a received frame are the port's, or those of a neighbour on it ([`same_vlans`]).
    #[inline]
    pub fn has_tags(&self, outer: &Outer) -> bool {
        same_vlans(self.tags, outer) || self.also.iter().any(|tags| same_vlans(*tags, outer))
    }

    /// The tags of an answer to a frame that the port took.
    pub(crate) fn tags_towards(&self, frame: &[u8]) -> Tags {
        let Ok(outer) = Outer::parse(frame) else { return self.tags };
        let own = same_vlans(self.tags, &outer);
        self.also.iter().copied().find(|tags| !own && same_vlans(*tags, &outer)).unwrap_or(self.tags)
    }

    /// Whether the address is one of ours on this port.
    #[inline]
    pub fn is_mine4(&self, address: u32) -> bool {
        self.v4.iter().any(|(mine, _)| *mine == address)
    }

    /// Whether the address is one of ours on this port.
    #[inline]
    pub fn is_mine6(&self, address: u128) -> bool {
        self.v6.iter().any(|(mine, _)| *mine == address)
    }

    /// The link header of a packet of that version as it would come in by this port, from itself: for packets that enter a
    /// pipeline as if they had been received.
    pub fn as_received(&self, version: u8) -> ethernet::Repr {
        let ethertype = if version == 6 { ethertype::IP6 } else { ethertype::IP4 };
        ethernet::Repr { dst: Mac(self.mac), src: Mac(self.mac), tags: self.tags, ethertype }
    }

    /// Writes a packet with that header before it; `write` is given the room behind it. Returns the frame's length.
    pub fn write_as_received(&self, space: &mut [u8], write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<usize> {
        let at = self.as_received(4).header_len();
        let len = write(space.get_mut(at..)?)?;
        let version = space.get(at)? >> 4;
        self.as_received(version).emit(space).ok()?;
        Some(at + len)
    }

    /// Our address to speak from to `to`: the one on the same link if there is one.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            IpAddr::V4(to) => {
                let on_link = self.v4.iter().find(|(mine, len)| prefix4(*mine, *len) == prefix4(to.into(), *len));
                on_link.or(self.v4.first()).map(|(mine, _)| Ipv4Addr::from(*mine).into())
            }
            IpAddr::V6(to) => {
                let on_link = self.v6.iter().find(|(mine, len)| prefix6(*mine, *len) == prefix6(to.into(), *len));
                on_link.or(self.v6.first()).map(|(mine, _)| Ipv6Addr::from(*mine).into())
            }
        }
    }
}

/// The first `len` bits.
pub fn prefix4(address: u32, len: u8) -> u32 {
    address & u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0)
}

/// The first `len` bits.
pub fn prefix6(address: u128, len: u8) -> u128 {
    address & u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}

/// The next station of a packet: a port and the link header to put before it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Hop {
    /// The link header.
    pub encap: LinkEncap,
    /// Largest network-layer packet, in bytes.
    pub mtu: u16,
    /// The port to leave by.
    pub port: u8,
    /// Whether `encap` is whole: the neighbour's hardware address is known.
    pub resolved: bool,
    /// The priority code point of the tags, by class selector; zeros where there is no tag.
    pub pcp: [u8; 8],
}

const _: () = assert!(size_of::<Hop>() == 64);

impl Hop {
    /// Whether its hardware address is known.
    #[inline]
    pub fn is_resolved(&self) -> bool {
        self.resolved
    }

    /// Writes the link header to the front of a frame, as [`LinkEncap::write`], with the tags' priority by the packet's DSCP.
    #[inline(always)]
    pub fn write(&self, frame: &mut [u8]) -> bool {
        let written = self.encap.write(frame);
        if self.pcp != [0; 8] && written {
            self.mark(frame);
        }
        written
    }

    #[inline(never)]
    fn mark(&self, frame: &mut [u8]) {
        let class = match frame.get(self.encap.len()..) {
            Some([first, second, ..]) if first >> 4 == 4 => second >> 5,
            Some([first, ..]) => first >> 1 & 7, // the traffic class's upper half ends the first byte
            _ => return,
        };
        self.encap.set_pcp(frame, self.pcp[usize::from(class)]);
    }
}

/// A tunnel's far end, as a template of the headers that lead there.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Tunnel {
    /// The hop its packets take; [`NONE`]: no route.
    pub hop: u32,
    /// Bytes of `header` that count: 28 (IPv4 + UDP) or 48 (IPv6 + UDP).
    pub len: u8,
    /// 4 or 6.
    pub version: u8,
    /// Header bytes before the user's packet, without the tunnel protocol's own; behind those of IPv4, see
    /// [`link`](Self::link).
    pub header: [u8; 48],
    /// Sum of the IPv4 header with length, identification and DSCP zero, not complemented; for IPv6 the sum of the
    /// pseudo header without lengths.
    pub sum: u16,
    /// Bytes of [`link`](Self::link).
    pub link_len: u8,
    /// The port of its hop makes the UDP checksum over IPv6, and the neighbour is known: nothing else sees the packet.
    pub leaves_sum: bool,
}

impl Tunnel {
    /// The longest link header a tunnel has with it.
    pub const LINK: usize = HEADER_LEN;
    /// Where it is kept.
    pub const LINK_AT: usize = 28;

    /// The hop's link header, where it can be written with the tunnel's in one go: over IPv4, to a neighbour that is
    /// known, on a link without tag.
    #[inline(always)]
    pub fn link(&self) -> Option<&[u8; Self::LINK]> {
        self.header[Self::LINK_AT..].first_chunk().filter(|_| self.link_len != 0)
    }

    /// The tunnel with the link header of its hop.
    fn linked(mut self, hop: Option<&Hop>) -> Self {
        let hop = hop.filter(|hop| self.version == 4 && hop.is_resolved());
        if let Some(link) = hop.and_then(|hop| hop.encap.untagged()) {
            self.header[Self::LINK_AT..Self::LINK_AT + Self::LINK].copy_from_slice(link);
            self.link_len = Self::LINK as u8; // 14
        }
        self
    }

    /// The tunnel, its checksums over IPv6 left to the port of its hop where that makes them.
    fn leaving(mut self, hop: Option<&Hop>, ports: &[PortView]) -> Self {
        let makes = |hop: &Hop| ports.get(usize::from(hop.port)).is_some_and(|port| port.completes_udp6);
        self.leaves_sum = self.version == 6 && hop.is_some_and(|hop| hop.is_resolved() && makes(hop));
        self
    }
}

/// Why a packet has no hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHop {
    /// No route to there.
    NoRoute,
    /// On the port's link, but the neighbour's hardware address is not known.
    Unresolved {
        /// The port.
        port: u8,
    },
}

struct Instance {
    v4: Lpm<u32>,
    v6: Lpm<u128>,
}

/// A prefix with several next hops.
struct SharedRoute {
    prefix: (InstanceId, IpAddr, u8),
    /// Those that are resolved, or all, if none is.
    hops: Box<[u32]>,
}

/// A port that has no address and drops everything.
static NO_PORT: PortView = PortView::NONE;

/// A worker's view of the tables as published, taken anew between bursts.
pub struct Tables {
    reader: Reader<Forwarding>,
    /// Stands in before anything was published.
    empty: Forwarding,
}

impl Tables {
    /// What `reader` reads.
    pub fn new(reader: Reader<Forwarding>) -> Self {
        Self { reader, empty: Plan::default().compile() }
    }

    /// The tables in hand.
    #[inline]
    pub fn in_hand(&self) -> &Forwarding {
        self.reader.in_hand().unwrap_or(&self.empty)
    }

    /// Takes the newest.
    #[inline]
    pub fn renew(&mut self) {
        self.reader.get();
    }

    /// Holds no old tables back while the worker sleeps.
    pub fn park(&mut self) {
        self.reader.park();
    }
}

/// The compiled tables. Immutable; replaced whole.
pub struct Forwarding {
    /// Which tables they are: no two of a process have the same.
    version: u64,
    /// The worker's ports, by number.
    pub ports: Vec<PortView>,
    /// All hops.
    pub hops: Vec<Hop>,
    /// All tunnels.
    pub tunnels: Vec<Tunnel>,
    instances: Vec<Instance>,
    /// Routes with several next hops that are usable.
    shared: Vec<SharedRoute>,
    /// See [`Plan::seed`].
    seed: u64,
    neighbours4: BulkMap<(u32, u32), u32>,
    neighbours6: Vec<BulkMap<u128, u32>>,
}

impl Forwarding {
    /// Which tables these are, from 1: what was looked up in others may differ.
    #[inline(always)]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The hop towards an IPv4 address; of several next hops that of packets without a source.
    #[inline(always)]
    pub fn hop4(&self, instance: InstanceId, to: u32) -> Result<u32, NoHop> {
        self.flow_hop4(instance, 0, to).map(|(hop, _)| hop)
    }

    /// The hop of a packet between two IPv4 addresses, and whether it is every packet's to that destination.
    #[inline(always)]
    pub fn flow_hop4(&self, instance: InstanceId, from: u32, to: u32) -> Result<(u32, bool), NoHop> {
        let target = self.instances.get(usize::from(instance)).and_then(|i| i.v4.lookup(to)).ok_or(NoHop::NoRoute)?;
        match self.shared_by(target) {
            _ if target & ON_LINK == 0 => Ok((target, true)),
            Some(hops) => {
                hops.get(part(spread4(self.seed, from, to), hops.len())).map(|hop| (*hop, false)).ok_or(NoHop::NoRoute)
            }
            None => self.on_link4(target, to).map(|hop| (hop, true)),
        }
    }

    /// Spreads flows over next hops: another number in each router.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The hops of a prefix that has several usable ones, in order; none: it has one, or is not routed.
    pub fn several(&self, prefix: (InstanceId, IpAddr, u8)) -> Option<&[u32]> {
        self.shared.iter().find(|route| route.prefix == prefix).map(|route| &*route.hops)
    }

    /// The hops of a route that has several next hops; none: it has not.
    #[inline(always)]
    fn shared_by(&self, target: u32) -> Option<&[u32]> {
        let is_shared = target != NOWHERE && target & (ON_LINK | SHARED) == ON_LINK | SHARED;
        self.shared.get((target & !(ON_LINK | SHARED)) as usize).filter(|_| is_shared).map(|route| &*route.hops)
    }

    /// The hop towards an IPv4 address through a gateway, if one look tells it; else a number with [`ON_LINK`] set.
    #[inline(always)]
    pub(crate) fn glance4(&self, instance: InstanceId, to: u32) -> u32 {
        self.instances.get(usize::from(instance)).map_or(NONE, |i| i.v4.glance(to))
    }

    /// The hop of an address on a link. Apart, so that the usual way, through a gateway, has the registers to itself.
    #[inline(never)]
    fn on_link4(&self, target: u32, to: u32) -> Result<u32, NoHop> {
        if target == NOWHERE {
            return Err(NoHop::NoRoute);
        }
        let port = target & 0xff;
        self.neighbours4.get((port, to)).ok_or(NoHop::Unresolved { port: port as u8 })
    }

    /// The hop towards an IPv6 address; of several next hops that of packets without a source.
    #[inline]
    pub fn hop6(&self, instance: InstanceId, to: u128) -> Result<u32, NoHop> {
        self.flow_hop6(instance, 0, to)
    }

    /// The hop of a packet between two IPv6 addresses.
    #[inline]
    pub fn flow_hop6(&self, instance: InstanceId, from: u128, to: u128) -> Result<u32, NoHop> {
        let target = self.instances.get(usize::from(instance)).and_then(|i| i.v6.lookup(to)).ok_or(NoHop::NoRoute)?;
        match self.shared_by(target) {
            _ if target & ON_LINK == 0 => Ok(target),
            Some(hops) => hops.get(part(spread6(self.seed, from, to), hops.len())).copied().ok_or(NoHop::NoRoute),
            None => self.on_link6(target, to),
        }
    }

    /// As [`on_link4`](Self::on_link4).
    #[inline(never)]
    fn on_link6(&self, target: u32, to: u128) -> Result<u32, NoHop> {
        if target == NOWHERE {
            return Err(NoHop::NoRoute);
        }
        let port = target & 0xff;
        self.neighbours6[port as usize].get(to).ok_or(NoHop::Unresolved { port: port as u8 })
    }

    /// The hop with that number. Numbers come from this snapshot's own tables, so a missing one is a hop that was
    /// never resolved.
    #[inline]
    pub fn hop(&self, id: u32) -> Option<&Hop> {
        self.hops.get(id as usize)
    }

    /// The port with that number; of an unknown one, a port that has no address and drops everything.
    #[inline]
    pub fn port(&self, id: u8) -> &PortView {
        self.ports.get(usize::from(id)).unwrap_or(&NO_PORT)
    }

    /// The tunnel with that number.
    #[inline]
    pub fn tunnel(&self, id: u32) -> Option<&Tunnel> {
        self.tunnels.get(id as usize)
    }
}
