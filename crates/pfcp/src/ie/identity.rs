//! Who and where: nodes, sessions, rules, tunnels and addresses.

use crate::{Element, Fault, Reader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Teid;

numbers! {
    /// PDR ID (8.2.36), unique in its session.
    PdrId(u16) = 56;
    /// FAR ID (8.2.74), unique in its session; with the highest bit set the user plane predefines it.
    FarId(u32) = 108;
    /// QER ID (8.2.75), unique in its session; with the highest bit set the user plane predefines it.
    QerId(u32) = 109;
    /// URR ID (8.2.54), unique in its session; with the highest bit set the user plane predefines it.
    UrrId(u32) = 81;
    /// Linked URR ID (8.2.55): report that one together with this one.
    LinkedUrrId(u32) = 82;
    /// Aggregated URR ID (8.2.85).
    AggregatedUrrId(u32) = 120;
    /// BAR ID (8.2.57), unique in its session.
    BarId(u8) = 88;
    /// Traffic Endpoint ID (8.2.92), unique in its session.
    TrafficEndpointId(u8) = 131;
    /// QER Correlation ID (8.2.10): QERs of several sessions that share one rate.
    QerCorrelationId(u32) = 28;
    /// 3GPP Interface Type (8.2.118): which reference point an interface is.
    TgppInterfaceType(u8) = 160;
}

/// Highest bit of a FAR, QER or URR ID: the rule is predefined at the user plane (8.2.74).
pub const PREDEFINED: u32 = 0x8000_0000;

choices! {
    /// Source Interface (8.2.2): where a packet comes from.
    SourceInterface = 20, 4 bits {
        /// From the subscriber's side.
        Access = 0,
        /// From the network's side.
        Core = 1,
        /// From the SGi-LAN or N6-LAN.
        SgiLan = 2,
        /// From the control plane.
        CpFunction = 3,
        /// From another member of the same 5G LAN.
        VnInternal = 4,
    }

    /// Destination Interface (8.2.24): where a packet goes to.
    DestinationInterface = 42, 4 bits {
        /// To the subscriber's side.
        Access = 0,
        /// To the network's side.
        Core = 1,
        /// To the SGi-LAN or N6-LAN.
        SgiLan = 2,
        /// To the control plane.
        CpFunction = 3,
        /// To lawful interception.
        LiFunction = 4,
        /// To another member of the same 5G LAN.
        VnInternal = 5,
    }

    /// PDN Type (8.2.79): what kind of packets the session carries.
    PdnType = 113, 3 bits {
        /// IPv4.
        Ip4 = 1,
        /// IPv6.
        Ip6 = 2,
        /// Both.
        Ip4v6 = 3,
        /// Whatever the application sends.
        NonIp = 4,
        /// Ethernet frames.
        Ethernet = 5,
    }
}

/// Node ID (8.2.38): who a node is, whatever address its messages come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeId {
    /// An IPv4 address.
    Ip4(Ipv4Addr),
    /// An IPv6 address.
    Ip6(Ipv6Addr),
    /// A domain name, in dotted form.
    Fqdn(Box<str>),
}

impl Default for NodeId {
    /// 0.0.0.0, as some peers send to mean nobody in particular.
    fn default() -> NodeId {
        NodeId::Ip4(Ipv4Addr::UNSPECIFIED)
    }
}

impl From<IpAddr> for NodeId {
    fn from(address: IpAddr) -> NodeId {
        match address {
            IpAddr::V4(address) => NodeId::Ip4(address),
            IpAddr::V6(address) => NodeId::Ip6(address),
        }
    }
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NodeId::Ip4(address) => address.fmt(f),
            NodeId::Ip6(address) => address.fmt(f),
            NodeId::Fqdn(name) => name.fmt(f),
        }
    }
}

impl Element for NodeId {
    const TYPE: u16 = 60;

    fn parse(content: &mut Reader<'_>) -> Result<NodeId, Fault> {
        match content.u8()? & 0x0f {
            0 => content.ip4().map(NodeId::Ip4),
            1 => content.ip6().map(NodeId::Ip6),
            2 => super::name::text_of_labels(content.rest()).map(NodeId::Fqdn).ok_or(content.incorrect()),
            _ => Err(content.incorrect()),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            NodeId::Ip4(address) => {
                out.push(0);
                out.extend(address.octets());
            }
            NodeId::Ip6(address) => {
                out.push(1);
                out.extend(address.octets());
            }
            NodeId::Fqdn(name) => {
                out.push(2);
                super::name::put_labels(name, out);
            }
        }
    }
}

/// F-SEID (8.2.37): a session, as the node with these addresses numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FSeid {
    /// The number, to be put into the header of messages to that node.
    pub seid: u64,
    /// The node's IPv4 address.
    pub ip4: Option<Ipv4Addr>,
    /// The node's IPv6 address.
    pub ip6: Option<Ipv6Addr>,
}

impl FSeid {
    /// A session at an address.
    pub fn new(seid: u64, address: IpAddr) -> FSeid {
        let (ip4, ip6) = pair(address);
        FSeid { seid, ip4, ip6 }
    }
}

impl Element for FSeid {
    const TYPE: u16 = 57;

    fn parse(content: &mut Reader<'_>) -> Result<FSeid, Fault> {
        let flags = content.u8()?;
        let seid = content.u64()?;
        let ip4 = content.when(flags & 2 != 0, Reader::ip4)?;
        let ip6 = content.when(flags & 1 != 0, Reader::ip6)?;
        Ok(FSeid { seid, ip4, ip6 })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.ip4.is_some()) << 1 | u8::from(self.ip6.is_some()));
        out.extend(self.seid.to_be_bytes());
        put_addresses(self.ip4, self.ip6, out);
    }
}

/// F-TEID (8.2.3): the local end of a tunnel, given or to be chosen by the user plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FTeid {
    /// This one.
    Given {
        /// The tunnel's number.
        teid: Teid,
        /// Its IPv4 address.
        ip4: Option<Ipv4Addr>,
        /// Its IPv6 address.
        ip6: Option<Ipv6Addr>,
    },
    /// One the user plane chooses (CH).
    Choose {
        /// With an IPv4 address.
        ip4: bool,
        /// With an IPv6 address.
        ip6: bool,
        /// All PDRs of a request with the same CHOOSE ID get the same F-TEID (5.5.3).
        id: Option<u8>,
    },
}

impl Default for FTeid {
    fn default() -> FTeid {
        FTeid::Given { teid: Teid(0), ip4: None, ip6: None }
    }
}

impl FTeid {
    /// A tunnel at an address.
    pub fn new(teid: Teid, address: IpAddr) -> FTeid {
        let (ip4, ip6) = pair(address);
        FTeid::Given { teid, ip4, ip6 }
    }
}

impl Element for FTeid {
    const TYPE: u16 = 21;

    fn parse(content: &mut Reader<'_>) -> Result<FTeid, Fault> {
        let flags = content.u8()?;
        let (ip4, ip6) = (flags & 1 != 0, flags & 2 != 0);
        if flags & 4 != 0 {
            return Ok(FTeid::Choose { ip4, ip6, id: content.when(flags & 8 != 0, Reader::u8)? });
        }
        Ok(FTeid::Given {
            teid: Teid(content.u32()?),
            ip4: content.when(ip4, Reader::ip4)?,
            ip6: content.when(ip6, Reader::ip6)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            FTeid::Given { teid, ip4, ip6 } => {
                out.push(u8::from(ip4.is_some()) | u8::from(ip6.is_some()) << 1);
                out.extend(teid.0.to_be_bytes());
                put_addresses(ip4, ip6, out);
            }
            FTeid::Choose { ip4, ip6, id } => {
                out.push(u8::from(ip4) | u8::from(ip6) << 1 | 4 | u8::from(id.is_some()) << 3);
                out.extend(id);
            }
        }
    }
}

/// UE IP Address (8.2.62): the subscriber's addresses, given or to be chosen by the user plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UeIpAddress {
    /// In a PDI: the packets' destination is this address (S/D set), not their source.
    pub destination: bool,
    /// IPv4 address.
    pub ip4: Option<Ipv4Addr>,
    /// IPv6 address; with a prefix of 64 bits unless the lengths below say otherwise.
    pub ip6: Option<Ipv6Addr>,
    /// The user plane chooses the IPv4 address (CHV4).
    pub choose_ip4: bool,
    /// The user plane chooses the IPv6 address (CHV6).
    pub choose_ip6: bool,
    /// How many bits the prefix is shorter than 64 for prefix delegation (IPv6D).
    pub ip6_delegation_bits: Option<u8>,
    /// Length of the IPv6 prefix in bits (IP6PL).
    pub ip6_prefix_len: Option<u8>,
}

impl UeIpAddress {
    /// The packets' source (`destination` false) or destination is this address.
    pub fn new(address: IpAddr, destination: bool) -> UeIpAddress {
        let (ip4, ip6) = pair(address);
        UeIpAddress { destination, ip4, ip6, ..UeIpAddress::default() }
    }

    /// Length of the IPv6 prefix in bits: as said, else 64 less what is delegated.
    pub fn prefix_len(&self) -> u8 {
        self.ip6_prefix_len.unwrap_or(64u8.saturating_sub(self.ip6_delegation_bits.unwrap_or(0)))
    }
}

impl Element for UeIpAddress {
    const TYPE: u16 = 93;

    fn parse(content: &mut Reader<'_>) -> Result<UeIpAddress, Fault> {
        let flags = content.u8()?;
        let has = |bit: u8| flags & 1 << bit != 0;
        Ok(UeIpAddress {
            destination: has(2),
            ip4: content.when(has(1), Reader::ip4)?,
            ip6: content.when(has(0), Reader::ip6)?,
            choose_ip4: has(4),
            choose_ip6: has(5),
            ip6_delegation_bits: content.when(has(3), Reader::u8)?,
            ip6_prefix_len: content.when(has(6), Reader::u8)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = [
            self.ip6.is_some(),
            self.ip4.is_some(),
            self.destination,
            self.ip6_delegation_bits.is_some(),
            self.choose_ip4,
            self.choose_ip6,
            self.ip6_prefix_len.is_some(),
        ];
        out.push(super::octet_of(flags));
        put_addresses(self.ip4, self.ip6, out);
        out.extend(self.ip6_delegation_bits);
        out.extend(self.ip6_prefix_len);
    }
}

/// The address as the pair most IEs have.
fn pair(address: IpAddr) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    match address {
        IpAddr::V4(address) => (Some(address), None),
        IpAddr::V6(address) => (None, Some(address)),
    }
}

/// IPv4 first, as everywhere.
pub(super) fn put_addresses(ip4: Option<Ipv4Addr>, ip6: Option<Ipv6Addr>, out: &mut Vec<u8>) {
    if let Some(address) = ip4 {
        out.extend(address.octets());
    }
    if let Some(address) = ip6 {
        out.extend(address.octets());
    }
}

/// Addresses of a node other than the one that speaks: flags (V6 = 1, V4 = 2) and addresses.
macro_rules! node_addresses {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name {
                /// IPv4 address.
                pub ip4: Option<Ipv4Addr>,
                /// IPv6 address.
                pub ip6: Option<Ipv6Addr>,
                /// Flags without a meaning here, from bit 3 of octet 5 on.
                pub flags: u8,
            }

            impl Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut Reader<'_>) -> Result<$name, Fault> {
                    let flags = content.u8()?;
                    let ip4 = content.when(flags & 2 != 0, Reader::ip4)?;
                    let ip6 = content.when(flags & 1 != 0, Reader::ip6)?;
                    Ok($name { ip4, ip6, flags: flags >> 2 })
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    out.push(self.flags << 2 | u8::from(self.ip4.is_some()) << 1 | u8::from(self.ip6.is_some()));
                    put_addresses(self.ip4, self.ip6, out);
                }
            }
        )*
    };
}

node_addresses! {
    /// Alternative SMF IP Address (8.2.129): who else controls these sessions.
    AlternativeSmfIpAddress = 178;
    /// CP PFCP Entity IP Address (8.2.135): whose sessions are to be kept.
    CpPfcpEntityIpAddress = 185;
    /// CP IP Address (8.2.200): whose sessions are meant.
    CpIpAddress = 292;
}

/// Source IP Address (8.2.138): where something comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceIpAddress {
    /// IPv4 address.
    pub ip4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// Length of the network's prefix in bits (MPL); else it is an address alone.
    pub prefix_len: Option<u8>,
}

impl Element for SourceIpAddress {
    const TYPE: u16 = 192;

    fn parse(content: &mut Reader<'_>) -> Result<SourceIpAddress, Fault> {
        let flags = content.u8()?;
        Ok(SourceIpAddress {
            ip4: content.when(flags & 2 != 0, Reader::ip4)?,
            ip6: content.when(flags & 1 != 0, Reader::ip6)?,
            prefix_len: content.when(flags & 4 != 0, Reader::u8)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(super::octet_of([self.ip6.is_some(), self.ip4.is_some(), self.prefix_len.is_some()]));
        put_addresses(self.ip4, self.ip6, out);
        out.extend(self.prefix_len);
    }
}

/// Remote GTP-U Peer (8.2.70): the other end of a path, and where it lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteGtpUPeer {
    /// IPv4 address.
    pub ip4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// The interface it is reached by (DI), as in Destination Interface.
    pub destination_interface: Option<u8>,
    /// The network instance it is reached in (NI), as in Network Instance.
    pub network_instance: Option<Box<[u8]>>,
}

impl Element for RemoteGtpUPeer {
    const TYPE: u16 = 103;

    fn parse(content: &mut Reader<'_>) -> Result<RemoteGtpUPeer, Fault> {
        let flags = content.u8()?;
        let long = |content: &mut Reader<'_>| {
            let len = content.u16()?;
            content.take(usize::from(len)).map(Box::from)
        };
        let ip4 = content.when(flags & 2 != 0, Reader::ip4)?;
        let ip6 = content.when(flags & 1 != 0, Reader::ip6)?;
        let interface: Option<Box<[u8]>> = content.when(flags & 4 != 0, long)?;
        let destination_interface = match interface.as_deref() {
            Some([interface, ..]) => Some(interface & 0x0f),
            Some([]) => return Err(content.short()),
            None => None,
        };
        let network_instance = content.when(flags & 8 != 0, long)?;
        Ok(RemoteGtpUPeer { ip4, ip6, destination_interface, network_instance })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = [
            self.ip6.is_some(),
            self.ip4.is_some(),
            self.destination_interface.is_some(),
            self.network_instance.is_some(),
        ];
        out.push(super::octet_of(flags));
        put_addresses(self.ip4, self.ip6, out);
        if let Some(interface) = self.destination_interface {
            out.extend([0, 1, interface]);
        }
        if let Some(instance) = &self.network_instance {
            super::put_text16(instance, out);
        }
    }
}
