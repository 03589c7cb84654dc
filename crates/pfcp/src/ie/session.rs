//! What else sessions and reports carry.

use crate::{Element, Fault, Reader};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Downlink Data Service Information (8.2.27): what the packet that waits belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DownlinkDataServiceInformation {
    /// Paging Policy Indication: the packet's DSCP, 6 bits (PPI).
    pub paging_policy: Option<u8>,
    /// The QoS flow, 6 bits (QFII).
    pub qfi: Option<u8>,
}

impl Element for DownlinkDataServiceInformation {
    const TYPE: u16 = 45;

    fn parse(content: &mut Reader<'_>) -> Result<DownlinkDataServiceInformation, Fault> {
        let flags = content.u8()?;
        Ok(DownlinkDataServiceInformation {
            paging_policy: content.when(flags & 1 != 0, Reader::u8)?.map(|octet| octet & 0x3f),
            qfi: content.when(flags & 2 != 0, Reader::u8)?.map(|octet| octet & 0x3f),
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(super::octet_of([self.paging_policy.is_some(), self.qfi.is_some()]));
        out.extend(self.paging_policy);
        out.extend(self.qfi);
    }
}

flags! {
    /// Data Status (8.2.178) of downlink data.
    DataStatus(u8) = 260, 1 octets {
        /// The first packet was dropped.
        DROP = 0,
        /// The first packet was buffered.
        BUFF = 1,
    }
}

/// DL Buffering Suggested Packet Count (8.2.30), in one octet or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DlBufferingSuggestedPacketCount(pub u16);

impl Element for DlBufferingSuggestedPacketCount {
    const TYPE: u16 = 48;

    fn parse(content: &mut Reader<'_>) -> Result<DlBufferingSuggestedPacketCount, Fault> {
        let count = if content.len() < 2 { content.u8()?.into() } else { content.u16()? };
        Ok(DlBufferingSuggestedPacketCount(count))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match u8::try_from(self.0) {
            Ok(count) => out.push(count),
            Err(_) => out.extend(self.0.to_be_bytes()),
        }
    }
}

numbers! {
    /// Suggested Buffering Packets Count (8.2.100): how many to keep while a subscriber is idle.
    SuggestedBufferingPacketsCount(u8) = 140;
    /// RAT Type (8.2.186): the radio the subscriber uses.
    RatType(u8) = 275;
}

octets! {
    /// Trace Information (8.2.110).
    TraceInformation = 152;
    /// Group Id (8.2.199): sessions that are restored together.
    GroupId = 291;
    /// SMF Set ID (8.2.131).
    SmfSetId = 180;
    /// UE IP Address Pool Identity (8.2.128).
    UeIpAddressPoolIdentity = 177;
    /// Packet Rate Status (8.2.139).
    PacketRateStatus = 193;
    /// NF Instance ID (8.2.175): 16 octets, a UUID.
    NfInstanceId = 253;
    /// Ethernet PDU Session Information (8.2.102).
    EthernetPduSessionInformation = 142;
    /// Offending IE Information (8.2.184): the type and the content of the IE to blame.
    OffendingIeInformation = 274;
    /// Data Network Access Identifier (8.2.159).
    DataNetworkAccessIdentifier = 232;
}

/// S-NSSAI (8.2.176): the slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SNssai {
    /// Slice/service type.
    pub sst: u8,
    /// Slice differentiator, 24 bits; 0xffffff is none.
    pub sd: u32,
}

impl Element for SNssai {
    const TYPE: u16 = 257;

    fn parse(content: &mut Reader<'_>) -> Result<SNssai, Fault> {
        content.array().map(|[sst, a, b, c]| SNssai { sst, sd: u32::from_be_bytes([0, a, b, c]) })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let [_, a, b, c] = self.sd.to_be_bytes();
        out.extend([self.sst, a, b, c]);
    }
}

/// User ID (8.2.101): who the subscriber is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserId {
    /// IMSI, in semi-octets (BCD).
    pub imsi: Option<Box<[u8]>>,
    /// IMEI, in semi-octets.
    pub imei: Option<Box<[u8]>>,
    /// MSISDN, in semi-octets.
    pub msisdn: Option<Box<[u8]>>,
    /// NAI, as text.
    pub nai: Option<Box<[u8]>>,
    /// SUPI, as text.
    pub supi: Option<Box<[u8]>>,
    /// GPSI, as text.
    pub gpsi: Option<Box<[u8]>>,
    /// PEI, as text.
    pub pei: Option<Box<[u8]>>,
}

impl UserId {
    /// By IMSI, given as decimal digits.
    pub fn of_imsi(digits: &str) -> UserId {
        let digits: Vec<u8> = digits.bytes().map(|digit| digit & 0x0f).collect();
        let octets = digits.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0x0f) << 4);
        UserId { imsi: Some(octets.collect()), ..UserId::default() }
    }

    /// The IMSI as decimal digits.
    pub fn imsi_digits(&self) -> Option<String> {
        self.imsi.as_deref().map(digits)
    }

    /// The MSISDN as decimal digits.
    pub fn msisdn_digits(&self) -> Option<String> {
        self.msisdn.as_deref().map(digits)
    }
}

/// Semi-octets as decimal digits, the lower half first; fillers are left out.
fn digits(octets: &[u8]) -> String {
    let nibbles = octets.iter().flat_map(|octet| [octet & 0x0f, octet >> 4]);
    nibbles.filter(|nibble| *nibble < 10).map(|nibble| char::from(b'0' + nibble)).collect()
}

impl Element for UserId {
    const TYPE: u16 = 141;

    fn parse(content: &mut Reader<'_>) -> Result<UserId, Fault> {
        let flags = content.u8()?;
        let mut part = |bit: u8| content.when(flags & 1 << bit != 0, Reader::octets8);
        Ok(UserId {
            imsi: part(0)?,
            imei: part(1)?,
            msisdn: part(2)?,
            nai: part(3)?,
            supi: part(4)?,
            gpsi: part(5)?,
            pei: part(6)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let parts = [&self.imsi, &self.imei, &self.msisdn, &self.nai, &self.supi, &self.gpsi, &self.pei];
        out.push(super::octet_of(parts.map(Option::is_some)));
        for part in parts.into_iter().flatten() {
            super::put_octets8(part, out);
        }
    }
}

/// FQ-CSID (8.2.43): sets of connections that fail together (TS 23.007, 23).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FqCsid {
    /// FQ-CSID Node-ID Type (0 IPv4, 1 IPv6, 2 MCC, MNC and a number) and number of CSIDs, 4 bits each.
    pub kind_and_count: u8,
    /// Node address and CSIDs, and in later releases the node's type.
    pub content: Box<[u8]>,
}

impl FqCsid {
    /// Sets of a node, by its address.
    pub fn new(node: std::net::IpAddr, csids: &[u16]) -> FqCsid {
        let (kind, mut content) = match node {
            std::net::IpAddr::V4(node) => (0, node.octets().to_vec()),
            std::net::IpAddr::V6(node) => (1, node.octets().to_vec()),
        };
        content.extend(csids.iter().flat_map(|csid| csid.to_be_bytes()));
        // Four bits for the count: more sets than fit are none a node has.
        FqCsid { kind_and_count: kind << 4 | csids.len().min(15) as u8, content: content.into() }
    }

    /// The node, its sets, and what kind of node it is, if that is told.
    fn parts(&self) -> Option<(&[u8], &[u8], &[u8])> {
        let node = if self.kind_and_count >> 4 == 1 { 16 } else { 4 };
        let (node, rest) = self.content.split_at_checked(node)?;
        let (sets, kind) = rest.split_at_checked(2 * usize::from(self.kind_and_count & 15))?;
        Some((node, sets, kind))
    }

    /// The sets it names, one by one; none if its octets are fewer than its count says.
    pub fn sets(&self) -> impl Iterator<Item = ConnectionSet> + '_ {
        let (address, csids, kind) = self.parts().unwrap_or((&[], &[], &[]));
        let mut node = [0; 16];
        node[..address.len()].copy_from_slice(address);
        let (node_id_type, node_type) = (self.kind_and_count >> 4, kind.first().map(|octet| octet & 0x0f));
        csids.chunks_exact(2).map(move |csid| ConnectionSet {
            node_id_type,
            node,
            csid: u16::from_be_bytes([csid[0], csid[1]]),
            node_type,
        })
    }
}

/// One set of connections of one node, as an [`FqCsid`] names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionSet {
    /// FQ-CSID Node-ID Type: 0 IPv4, 1 IPv6, 2 MCC, MNC and a number.
    pub node_id_type: u8,
    /// The node's address, followed by zeros.
    pub node: [u8; 16],
    /// The set's number at that node.
    pub csid: u16,
    /// FQ-CSID Node Type (MME, SGW-C, PGW-C, ...), if it is present.
    pub node_type: Option<u8>,
}

impl Element for FqCsid {
    const TYPE: u16 = 65;

    fn parse(content: &mut Reader<'_>) -> Result<FqCsid, Fault> {
        Ok(FqCsid { kind_and_count: content.u8()?, content: content.rest().into() })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.kind_and_count);
        out.extend(&self.content);
    }

    #[cfg(test)]
    fn sample(_: &mut crate::tests::Draw) -> FqCsid {
        FqCsid { kind_and_count: 1, content: [192, 0, 2, 1, 0, 7].into() }
    }
}

/// User Plane IP Resource Information (8.2.82, until Release 15): addresses and TEIDs the control plane may give out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserPlaneIpResourceInformation {
    /// How many of the TEID's highest bits are fixed, 1 to 7, and their value.
    pub teid_range: Option<(u8, u8)>,
    /// IPv4 address.
    pub ip4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// The network instance these are for, as in Network Instance (ASSONI).
    pub network_instance: Option<Box<[u8]>>,
    /// The source interface these are for, as in Source Interface (ASSOSI).
    pub source_interface: Option<u8>,
}

impl Element for UserPlaneIpResourceInformation {
    const TYPE: u16 = 116;

    fn parse(content: &mut Reader<'_>) -> Result<UserPlaneIpResourceInformation, Fault> {
        let flags = content.u8()?;
        let bits = flags >> 2 & 7;
        let teid_range = content.when(bits != 0, Reader::u8)?.map(|value| (bits, value));
        let ip4 = content.when(flags & 1 != 0, Reader::ip4)?;
        let ip6 = content.when(flags & 2 != 0, Reader::ip6)?;
        // The network instance has no length: it is what the source interface leaves over.
        let behind = usize::from(flags & 64 != 0);
        let network_instance = content.when(flags & 32 != 0, |content| {
            let len = content.len().checked_sub(behind).ok_or(content.short())?;
            content.take(len).map(Box::from)
        })?;
        let source_interface = content.when(behind != 0, Reader::u8)?.map(|octet| octet & 0x0f);
        Ok(UserPlaneIpResourceInformation { teid_range, ip4, ip6, network_instance, source_interface })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let (bits, value) = self.teid_range.unzip();
        let flags = [self.ip4.is_some(), self.ip6.is_some()];
        let associated = [self.network_instance.is_some(), self.source_interface.is_some()];
        out.push(super::octet_of(flags) | (bits.unwrap_or(0) & 7) << 2 | super::octet_of(associated) << 5);
        out.extend(value);
        super::identity::put_addresses(self.ip4, self.ip6, out);
        out.extend(self.network_instance.as_deref().unwrap_or_default());
        out.extend(self.source_interface);
    }
}
