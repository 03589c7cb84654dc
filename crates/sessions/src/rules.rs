//! A session's rules as control knows them: PDRs, FARs, QERs, URRs by name (3GPP TS 29.244, 5.2). Plain data; what the
//! workers use is compiled from it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::filter::Sdf;
use dataplane::forward::InstanceId;

/// Where a packet comes from (TS 29.244, 8.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// From the subscriber's side (N3, S1-U; N9 and S5/S8 towards the subscriber): always tunnelled.
    #[default]
    Access,
    /// From the network's side: plain IP (N6, SGi), or tunnelled when the rule has an endpoint (N9, S5/S8).
    Core,
    /// From the control plane's function (N4-u, Sx-u): tunnelled.
    CpFunction,
}

impl Interface {
    /// Whether its packets come from the subscriber.
    pub fn is_uplink(self) -> bool {
        self == Self::Access
    }
}

/// Packet detection rule.
#[derive(Clone, Debug, Default)]
pub struct Pdr {
    /// Rule ID, 1 to 65535 (8.2.36).
    pub id: u16,
    /// Lower values are tried first (8.2.11).
    pub precedence: u32,
    /// Where the packets come from.
    pub source: Interface,
    /// Our tunnel endpoint, for packets that come by tunnel (8.2.3).
    pub teid: Option<u32>,
    /// QoS flow the packet must carry (8.2.89).
    pub qfi: Option<u8>,
    /// The header of a data network's tunnel, which is taken off plain packets (Outer Header Removal, 8.2.64); GTP-U's is
    /// always, from those that come by it.
    pub removes: Option<Outer>,
    /// Any of these must match; none: everything matches (8.2.5).
    pub filters: Vec<Sdf>,
    /// The FAR that applies.
    pub far: u32,
    /// The QERs that apply, at most `upf::record::MAX_QERS`.
    pub qers: Vec<u32>,
    /// The URRs that apply, at most `upf::record::MAX_URRS`.
    pub urrs: Vec<u32>,
}

impl Pdr {
    /// Whether its packets come in a tunnel; the others are found by the subscriber's address.
    pub fn comes_by_tunnel(&self) -> bool {
        self.teid.is_some() || self.source != Interface::Core
    }
}

/// What to do with a packet (8.2.26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// FORW.
    Forward,
    /// DROP.
    #[default]
    Drop,
    /// BUFF: keep until told to forward or drop.
    Buffer,
    /// FORW with Redirect Information: send the subscriber to [`Far::page`].
    Redirect,
    /// The subscriber's quota is used up: drop, but for what we say ourselves.
    Closed,
    /// FORW to the control plane's function, from the N4 address.
    Control,
}

/// What is put before packets (Outer Header Creation, 8.2.56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outer {
    /// GTP-U, UDP and IP.
    #[default]
    GtpU,
    /// UDP and IP: a tunnel of a data network's (TS 23.501, 5.6.10.3).
    Udp,
    /// IP (RFC 2003, RFC 2473).
    Ip,
    /// Nothing: the far end is but the next hop (Forwarding Policy, 8.2.23).
    Nothing,
}

/// The far end of a tunnel (Outer Header Creation, 8.2.56).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// Its address.
    pub address: IpAddr,
    /// Its tunnel endpoint identifier; with [`Outer::Udp`] its port.
    pub teid: u32,
    /// What leads there.
    pub outer: Outer,
}

impl TunnelEnd {
    /// Of a GTP-U tunnel.
    pub fn gtpu(address: IpAddr, teid: u32) -> Self {
        Self { address, teid, outer: Outer::GtpU }
    }
}

/// Where a duplicate of each packet goes (Duplicating Parameters, 7.5.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The tunnel to put it in.
    pub tunnel: TunnelEnd,
    /// The network the tunnel leads through.
    pub instance: InstanceId,
    /// DSCP for the outer header; none: the packet's own.
    pub dscp: Option<u8>,
}

/// Forwarding action rule.
#[derive(Clone, Debug, Default)]
pub struct Far {
    /// Rule ID.
    pub id: u32,
    /// What to do.
    pub apply: Apply,
    /// The tunnel to put packets in; none: route them as they are.
    pub tunnel: Option<TunnelEnd>,
    /// The network instance to forward in.
    pub instance: InstanceId,
    /// DSCP for the (outer) header: transport level marking (8.2.12).
    pub dscp: Option<u8>,
    /// How many packets wait at most, with [`Apply::Buffer`] (Suggested Buffering Packets Count, 8.2.104); 0: as many as
    /// there is room for.
    pub keep: u8,
    /// The page that subscribers are sent to (8.2.20), with [`Apply::Redirect`].
    pub page: Option<Box<str>>,
    /// Packets go to the control plane's function (by a port, or with [`Apply::Control`]): link-local ones too.
    pub to_control: bool,
    /// Packets go towards the subscriber; those that come from its side as well are on their way to it already (indirect
    /// forwarding, TS 23.502, 4.9.1.3.3), and have anybody's addresses.
    pub to_access: bool,
    /// Where duplicates of its packets go, whatever becomes of them (DUPL); at most `upf::record::MAX_DUPLICATES`.
    pub duplicates: Vec<Duplicate>,
}

/// A rate in both directions, in bit/s; none: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mbr {
    /// From the subscriber.
    pub up: Option<u64>,
    /// To the subscriber.
    pub down: Option<u64>,
}

/// How many packets may pass in a time (8.2.63).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLimit {
    /// How many.
    pub most: u32,
    /// The time, in nanoseconds; the first packet begins it.
    pub period_ns: u64,
}

/// QoS enforcement rule.
#[derive(Clone, Debug, Default)]
pub struct Qer {
    /// Rule ID.
    pub id: u32,
    /// Whether the gate is open (8.2.7).
    pub gate_up: bool,
    /// As `gate_up`.
    pub gate_down: bool,
    /// Maximum bit rates (8.2.8).
    pub mbr: Mbr,
    /// How many packets may pass, from the subscriber and to it; none: any number.
    pub packets: [Option<PacketLimit>; 2],
    /// Guaranteed bit rates (8.2.9), for which capacity is set aside.
    pub gbr: Mbr,
    /// QoS flow to mark packets with towards the radio network.
    pub qfi: Option<u8>,
    /// With a QoS flow: packets to the subscriber ask it for reflective QoS (RQI, 8.2.88).
    pub reflective: bool,
    /// With a QoS flow: paging policy of packets to the subscriber (PPI, 8.2.116), 0 to 7.
    pub paging_policy: Option<u8>,
    /// DSCP that packets to the subscriber are marked with themselves (DL Flow Level Marking, 8.2.66).
    pub mark: Option<u8>,
    /// Whether it is the session's aggregate (APN-AMBR, Session-AMBR) rather than a flow's.
    pub session: bool,
}

/// Octets of user packets in all, from the subscriber and to the subscriber; none: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Both directions together.
    pub total: Option<u64>,
    /// From the subscriber.
    pub up: Option<u64>,
    /// To the subscriber.
    pub down: Option<u64>,
}

/// Usage reporting rule. A worker measures volume, packets and time of each, and tells when a bound is reached;
/// everything that goes by the clock is control's.
#[derive(Clone, Debug, Default)]
pub struct Urr {
    /// Rule ID.
    pub id: u32,
    /// What the counts may reach before control is told (volume threshold, 8.2.13), from the rule's beginning.
    pub threshold: Volumes,
    /// What the counts may reach before packets are dropped (volume quota, 8.2.50), from the rule's beginning.
    pub quota: Volumes,
    /// Packets are counted before gates and rates, not behind them (MBQE, 8.2.68).
    pub before_qos: bool,
    /// Nothing is counted for now (INAM).
    pub paused: bool,
}

/// A session: a subscriber's addresses in a network, and its rules.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Its data network.
    pub instance: InstanceId,
    /// The subscriber's IPv4 address.
    pub ue4: Option<Ipv4Addr>,
    /// The subscriber's IPv6 prefix, 64 bits of it.
    pub ue6: Option<Ipv6Addr>,
    /// Networks behind the subscriber (framed routes, 8.2.111 and 8.2.113), and its IPv6 prefix where that has other than
    /// 64 bits: address and length.
    pub routes: Vec<(IpAddr, u8)>,
    /// Detection rules.
    pub pdrs: Vec<Pdr>,
    /// Forwarding rules.
    pub fars: Vec<Far>,
    /// QoS rules.
    pub qers: Vec<Qer>,
    /// Usage rules.
    pub urrs: Vec<Urr>,
    /// Tunnel endpoints of rules that do not hold now (their time has not come or is over, their application is not known):
    /// they are the session's all the same.
    pub resting: Vec<u32>,
}

impl Session {
    /// Whether packets from or to the subscriber, or a network behind it, may be of that family.
    pub fn has_family(&self, ip6: bool) -> bool {
        let own = if ip6 { self.ue6.is_some() } else { self.ue4.is_some() };
        own || self.routes.iter().any(|(address, _)| address.is_ipv6() == ip6)
    }

    /// Whether an address of the subscriber's is known; in transit (SGW-U, I-UPF) it may not be.
    pub fn has_address(&self) -> bool {
        self.ue4.is_some() || self.ue6.is_some() || !self.routes.is_empty()
    }
}

/// What an URR has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The rule.
    pub urr: u32,
    /// Octets of user packets from the subscriber.
    pub up_bytes: u64,
    /// Octets of user packets to the subscriber.
    pub down_bytes: u64,
    /// Packets from the subscriber.
    pub up_packets: u64,
    /// Packets to the subscriber.
    pub down_packets: u64,
    /// Worker time of the first packet in nanoseconds; 0: none yet.
    pub first_ns: u64,
    /// Worker time of the last packet in nanoseconds.
    pub last_ns: u64,
}

/// What a QER still lets pass in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// The rule.
    pub qer: u32,
    /// From the subscriber, not to it.
    pub is_uplink: bool,
    /// Packets are counted, not bytes.
    pub packets: bool,
    /// How many may pass now.
    pub left: u64,
    /// How many could at most.
    pub of: u64,
}
