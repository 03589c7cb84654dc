//! What rules say: which packets, and what to do with them.

use crate::ie::Cause;
use crate::{Element, Fault, Reader};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Teid;

flags! {
    /// Apply Action (8.2.26): what becomes of a packet. Earlier releases have one octet, this one two.
    ApplyAction(u32) = 44, 2 octets {
        /// Drop it.
        DROP = 0,
        /// Forward it.
        FORW = 1,
        /// Buffer it.
        BUFF = 2,
        /// Tell the control plane of the first one.
        NOCP = 3,
        /// Duplicate it.
        DUPL = 4,
        /// Accept IP multicast joins.
        IPMA = 5,
        /// Deny IP multicast joins.
        IPMD = 6,
        /// Duplicate it for redundant transmission.
        DFRT = 7,
        /// Eliminate duplicates of redundant transmission.
        EDRT = 8,
        /// Tell the control plane of the first one buffered.
        BDPN = 9,
        /// Tell the control plane of the first one dropped.
        DDPN = 10,
        /// Forward it to subscribers of an MBS session, by multicast transport.
        FSSM = 11,
        /// Forward it to subscribers of an MBS session, by unicast transport.
        MBSU = 12,
    }
}

/// SDF Filter (8.2.5): packets of one service, and a number to name the filter by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SdfFilter {
    /// Flow Description: an IPFilterRule (RFC 6733, 4.3.1), `permit out … from … to assigned`.
    pub flow_description: Option<Box<str>>,
    /// Type of Service or Traffic Class, and its mask.
    pub traffic_class: Option<[u8; 2]>,
    /// Security Parameter Index of IPsec.
    pub spi: Option<u32>,
    /// IPv6 flow label, 20 bits.
    pub flow_label: Option<u32>,
    /// SDF Filter ID: the filter applies to both directions, and is given once in the session.
    pub id: Option<u32>,
}

impl SdfFilter {
    /// A filter that is a flow description alone.
    pub fn flow(description: &str) -> SdfFilter {
        SdfFilter { flow_description: Some(description.into()), ..SdfFilter::default() }
    }

    /// Whether it only names a filter that is given elsewhere in the session, for the other direction.
    pub fn is_name(&self) -> bool {
        self.id.is_some() && *self == SdfFilter { id: self.id, ..SdfFilter::default() }
    }
}

impl Element for SdfFilter {
    const TYPE: u16 = 23;

    fn parse(content: &mut Reader<'_>) -> Result<SdfFilter, Fault> {
        let flags = content.u8()?;
        content.u8()?;
        Ok(SdfFilter {
            flow_description: content.when(flags & 1 != 0, Reader::text16)?,
            traffic_class: content.when(flags & 2 != 0, Reader::array)?,
            spi: content.when(flags & 4 != 0, Reader::u32)?,
            flow_label: content.when(flags & 8 != 0, |content| {
                content.array().map(|[a, b, c]| u32::from_be_bytes([0, a & 0x0f, b, c]))
            })?,
            id: content.when(flags & 16 != 0, Reader::u32)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = [
            self.flow_description.is_some(),
            self.traffic_class.is_some(),
            self.spi.is_some(),
            self.flow_label.is_some(),
            self.id.is_some(),
        ];
        out.extend([super::octet_of(flags), 0]);
        if let Some(flow) = &self.flow_description {
            super::put_text16(flow.as_bytes(), out);
        }
        out.extend(self.traffic_class.into_iter().flatten());
        out.extend(self.spi.into_iter().flat_map(u32::to_be_bytes));
        out.extend(
            self.flow_label.into_iter().flat_map(|label| (label & 0x000f_ffff).to_be_bytes().into_iter().skip(1)),
        );
        out.extend(self.id.into_iter().flat_map(u32::to_be_bytes));
    }
}

texts! {
    /// Application ID (8.2.6): an application the user plane knows how to detect.
    ApplicationId = 24;
    /// Application Instance ID (8.2.60).
    ApplicationInstanceId = 91;
    /// Activate Predefined Rules (8.2.72), by name.
    ActivatePredefinedRules = 106;
    /// Deactivate Predefined Rules (8.2.73), by name.
    DeactivatePredefinedRules = 107;
    /// Predefined Rules Name (8.2.207).
    PredefinedRulesName = 299;
    /// Framed-Route (8.2.111): an IPv4 network behind the subscriber, as in RADIUS (RFC 2865, 5.22).
    FramedRoute = 153;
    /// Framed-IPv6-Route (8.2.113): an IPv6 network behind the subscriber, as in RADIUS (RFC 3162, 2.5).
    FramedIp6Route = 155;
}

numbers! {
    /// Framed-Routing (8.2.112), as in RADIUS (RFC 2865, 5.10).
    FramedRouting(u32) = 154;
}

/// Outer Header Removal (8.2.64): what is taken off a packet.
///
/// Peers send 6 for whatever carries GTP-U, 0 for GTP-U over IPv4 even where IPv6 is used: any value is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OuterHeaderRemoval {
    /// 0 and 1: GTP-U, UDP and IPv4 or IPv6; 2 and 3: UDP and IPv4 or IPv6; 4 and 5: IPv4 or IPv6; 6: GTP-U, UDP and
    /// IP; 7 and 8: VLAN S-TAG, or S-TAG and C-TAG.
    pub description: u8,
    /// GTP-U Extension Header Deletion: bit 1 is the PDU Session Container, which else goes along to the next tunnel.
    pub extension_header_deletion: Option<u8>,
}

impl OuterHeaderRemoval {
    /// GTP-U, UDP and IP, whichever version.
    pub const GTP_U: OuterHeaderRemoval = OuterHeaderRemoval { description: 6, extension_header_deletion: None };
    /// GTP-U, UDP and IPv4: what user planes of before release 15 know, too.
    pub const GTP_U_IP4: OuterHeaderRemoval = OuterHeaderRemoval { description: 0, extension_header_deletion: None };
    /// GTP-U, UDP and IPv6.
    pub const GTP_U_IP6: OuterHeaderRemoval = OuterHeaderRemoval { description: 1, extension_header_deletion: None };
}

impl Element for OuterHeaderRemoval {
    const TYPE: u16 = 95;

    fn parse(content: &mut Reader<'_>) -> Result<OuterHeaderRemoval, Fault> {
        let description = content.u8()?;
        let more = !content.is_empty();
        Ok(OuterHeaderRemoval { description, extension_header_deletion: content.when(more, Reader::u8)? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.description);
        out.extend(self.extension_header_deletion);
    }
}

/// Outer Header Creation (8.2.56): what is put before a packet.
///
/// The description's bits say both which headers and which fields follow; peers set several at once (GTP-U over IPv4
/// and over IPv6: the tunnel's end has both addresses).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OuterHeaderCreation {
    /// Outer Header Creation Description: octet 5 in the higher, octet 6 in the lower half.
    pub description: u16,
    /// The tunnel at the other end.
    pub teid: Option<Teid>,
    /// Destination.
    pub ip4: Option<Ipv4Addr>,
    /// Destination.
    pub ip6: Option<Ipv6Addr>,
    /// UDP destination port.
    pub port: Option<u16>,
    /// Customer VLAN tag, as in C-TAG (8.2.94).
    pub c_tag: Option<[u8; 3]>,
    /// Service VLAN tag, as in S-TAG (8.2.95).
    pub s_tag: Option<[u8; 3]>,
}

impl OuterHeaderCreation {
    /// GTP-U, UDP, IPv4.
    pub const GTP_U_IP4: u16 = 0x0100;
    /// GTP-U, UDP, IPv6.
    pub const GTP_U_IP6: u16 = 0x0200;
    /// UDP, IPv4.
    pub const UDP_IP4: u16 = 0x0400;
    /// UDP, IPv6.
    pub const UDP_IP6: u16 = 0x0800;
    /// IPv4.
    pub const IP4: u16 = 0x1000;
    /// IPv6.
    pub const IP6: u16 = 0x2000;
    /// VLAN C-TAG.
    pub const C_TAG: u16 = 0x4000;
    /// VLAN S-TAG.
    pub const S_TAG: u16 = 0x8000;
    /// N19: between the user planes of a 5G LAN.
    pub const N19: u16 = 0x0001;
    /// N6: to the data network.
    pub const N6: u16 = 0x0002;

    /// A GTP-U tunnel to here.
    pub fn gtp_u(teid: Teid, ip4: Option<Ipv4Addr>, ip6: Option<Ipv6Addr>) -> OuterHeaderCreation {
        let version4 = if ip4.is_some() { Self::GTP_U_IP4 } else { 0 };
        let version6 = if ip6.is_some() { Self::GTP_U_IP6 } else { 0 };
        OuterHeaderCreation { description: version4 | version6, teid: Some(teid), ip4, ip6, ..Default::default() }
    }

    /// Whether any of these headers is created.
    pub const fn has(&self, headers: u16) -> bool {
        self.description & headers != 0
    }
}

impl Element for OuterHeaderCreation {
    const TYPE: u16 = 84;

    fn parse(content: &mut Reader<'_>) -> Result<OuterHeaderCreation, Fault> {
        let description = content.u16()?;
        let has = |headers: u16| description & headers != 0;
        Ok(OuterHeaderCreation {
            description,
            teid: content.when(has(Self::GTP_U_IP4 | Self::GTP_U_IP6), Reader::u32)?.map(Teid),
            ip4: content.when(has(Self::GTP_U_IP4 | Self::UDP_IP4 | Self::IP4), Reader::ip4)?,
            ip6: content.when(has(Self::GTP_U_IP6 | Self::UDP_IP6 | Self::IP6), Reader::ip6)?,
            port: content.when(has(Self::UDP_IP4 | Self::UDP_IP6), Reader::u16)?,
            c_tag: content.when(has(Self::C_TAG), Reader::array)?,
            s_tag: content.when(has(Self::S_TAG), Reader::array)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        // The description rules: a field it asks for and that is not there is sent as zero.
        out.extend(self.description.to_be_bytes());
        if self.has(Self::GTP_U_IP4 | Self::GTP_U_IP6) {
            out.extend(self.teid.unwrap_or_default().0.to_be_bytes());
        }
        if self.has(Self::GTP_U_IP4 | Self::UDP_IP4 | Self::IP4) {
            out.extend(self.ip4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        }
        if self.has(Self::GTP_U_IP6 | Self::UDP_IP6 | Self::IP6) {
            out.extend(self.ip6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
        }
        if self.has(Self::UDP_IP4 | Self::UDP_IP6) {
            out.extend(self.port.unwrap_or_default().to_be_bytes());
        }
        if self.has(Self::C_TAG) {
            out.extend(self.c_tag.unwrap_or_default());
        }
        if self.has(Self::S_TAG) {
            out.extend(self.s_tag.unwrap_or_default());
        }
    }
}

/// Forwarding Policy (8.2.23): the name of a policy configured at the user plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ForwardingPolicy(pub Box<str>);

impl Element for ForwardingPolicy {
    const TYPE: u16 = 41;

    fn parse(content: &mut Reader<'_>) -> Result<ForwardingPolicy, Fault> {
        let len = content.u8()?;
        content.text(usize::from(len)).map(ForwardingPolicy)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        super::put_octets8(self.0.as_bytes(), out);
    }
}

/// Redirect Information (8.2.20): where to send a subscriber whose quota is used up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RedirectInformation {
    /// Redirect Address Type: 0 IPv4, 1 IPv6, 2 URL, 3 SIP URI, 4 IPv4 and IPv6.
    pub kind: u8,
    /// The address as text: dotted, colons, or a URL. With type 4 the IPv4 address.
    pub address: Box<str>,
    /// The IPv6 address, with type 4.
    pub other_address: Option<Box<str>>,
}

impl Element for RedirectInformation {
    const TYPE: u16 = 38;

    fn parse(content: &mut Reader<'_>) -> Result<RedirectInformation, Fault> {
        let kind = content.u8()? & 0x0f;
        let address = content.text16()?;
        // Before Release 15 there was no other address.
        let more = !content.is_empty();
        let other_address = content.when(more, Reader::text16)?.filter(|address| !address.is_empty());
        Ok(RedirectInformation { kind, address, other_address })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        super::put_text16(self.address.as_bytes(), out);
        super::put_text16(self.other_address.as_deref().unwrap_or_default().as_bytes(), out);
    }
}

/// Header Enrichment (8.2.31A): a field added to HTTP requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderEnrichment {
    /// Header Type: 0 is HTTP.
    pub kind: u8,
    /// Header field name.
    pub name: Box<[u8]>,
    /// Header field value.
    pub value: Box<[u8]>,
}

impl Element for HeaderEnrichment {
    const TYPE: u16 = 98;

    fn parse(content: &mut Reader<'_>) -> Result<HeaderEnrichment, Fault> {
        Ok(HeaderEnrichment { kind: content.u8()? & 0x1f, name: content.octets8()?, value: content.octets8()? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        super::put_octets8(&self.name, out);
        super::put_octets8(&self.value, out);
    }
}

/// Flow Information (8.2.61) of a detected application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowInformation {
    /// Flow Direction: 0 unspecified, 1 downlink, 2 uplink, 3 both.
    pub direction: u8,
    /// Flow Description, as in [`SdfFilter`].
    pub flow_description: Box<str>,
}

impl Element for FlowInformation {
    const TYPE: u16 = 92;

    fn parse(content: &mut Reader<'_>) -> Result<FlowInformation, Fault> {
        Ok(FlowInformation { direction: content.u8()? & 7, flow_description: content.text16()? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.direction);
        super::put_text16(self.flow_description.as_bytes(), out);
    }
}

/// PFD Contents (8.2.39): how to detect an application. The lists are those of Additional … (PFDE).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PfdContents {
    /// Flow Description, as in [`SdfFilter`].
    pub flow_description: Option<Box<str>>,
    /// URL.
    pub url: Option<Box<str>>,
    /// Domain name.
    pub domain_name: Option<Box<str>>,
    /// Custom PFD content.
    pub custom: Option<Box<[u8]>>,
    /// Domain name protocol.
    pub domain_name_protocol: Option<Box<str>>,
    /// Additional flow descriptions, still as they came: each after its length.
    pub additional_flow_descriptions: Option<Box<[u8]>>,
    /// Additional URLs, as they came.
    pub additional_urls: Option<Box<[u8]>>,
    /// Additional domain names and protocols, as they came.
    pub additional_domain_names: Option<Box<[u8]>>,
}

impl PfdContents {
    /// Of these flow descriptions: the first in its own place, the rest as additional ones.
    pub fn flows(texts: &[&str]) -> PfdContents {
        let mut more = Vec::new();
        texts.iter().skip(1).for_each(|text| super::put_text16(text.as_bytes(), &mut more));
        PfdContents {
            flow_description: texts.first().map(|text| Box::from(*text)),
            additional_flow_descriptions: (!more.is_empty()).then(|| more.into()),
            ..PfdContents::default()
        }
    }

    /// Its flow descriptions, the additional ones behind its own.
    ///
    /// # Errors
    /// [`Cause::INVALID_LENGTH`] or [`Cause::MANDATORY_IE_INCORRECT`]: the additional ones are not each a text behind its
    /// length.
    pub fn flow_descriptions(&self) -> Result<Vec<&str>, Fault> {
        let fault = |cause| Fault { cause, ie: Self::TYPE };
        let mut texts: Vec<&str> = self.flow_description.as_deref().into_iter().collect();
        let mut rest = self.additional_flow_descriptions.as_deref().unwrap_or_default();
        while !rest.is_empty() {
            let (len, behind) = rest.split_first_chunk().ok_or(fault(Cause::INVALID_LENGTH))?;
            let len = usize::from(u16::from_be_bytes(*len));
            let (text, behind) = behind.split_at_checked(len).ok_or(fault(Cause::INVALID_LENGTH))?;
            texts.push(std::str::from_utf8(text).map_err(|_| fault(Cause::MANDATORY_IE_INCORRECT))?);
            rest = behind;
        }
        Ok(texts)
    }

    /// Whether it has more to look for than flow descriptions: names and addresses of the web, and what only its sender
    /// knows.
    pub fn looks_into_packets(&self) -> bool {
        let flows = PfdContents {
            flow_description: self.flow_description.clone(),
            additional_flow_descriptions: self.additional_flow_descriptions.clone(),
            ..PfdContents::default()
        };
        *self != flows
    }
}

impl Element for PfdContents {
    const TYPE: u16 = 61;

    fn parse(content: &mut Reader<'_>) -> Result<PfdContents, Fault> {
        let flags = content.u8()?;
        content.u8()?;
        let octets = |content: &mut Reader<'_>| {
            let len = content.u16()?;
            content.take(usize::from(len)).map(Box::from)
        };
        Ok(PfdContents {
            flow_description: content.when(flags & 1 != 0, Reader::text16)?,
            url: content.when(flags & 2 != 0, Reader::text16)?,
            domain_name: content.when(flags & 4 != 0, Reader::text16)?,
            custom: content.when(flags & 8 != 0, octets)?,
            domain_name_protocol: content.when(flags & 16 != 0, Reader::text16)?,
            additional_flow_descriptions: content.when(flags & 32 != 0, octets)?,
            additional_urls: content.when(flags & 64 != 0, octets)?,
            additional_domain_names: content.when(flags & 128 != 0, octets)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let parts: [Option<&[u8]>; 8] = [
            self.flow_description.as_deref().map(str::as_bytes),
            self.url.as_deref().map(str::as_bytes),
            self.domain_name.as_deref().map(str::as_bytes),
            self.custom.as_deref(),
            self.domain_name_protocol.as_deref().map(str::as_bytes),
            self.additional_flow_descriptions.as_deref(),
            self.additional_urls.as_deref(),
            self.additional_domain_names.as_deref(),
        ];
        out.extend([super::octet_of(parts.map(|part| part.is_some())), 0]);
        for part in parts.into_iter().flatten() {
            super::put_text16(part, out);
        }
    }
}
