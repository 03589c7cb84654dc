//! Quality of service: rates, gates and marks.

use crate::{Element, Fault, Reader};

/// Gate Status (8.2.7): a closed gate lets nothing pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GateStatus {
    /// Nothing passes uplink.
    pub uplink_closed: bool,
    /// Nothing passes downlink.
    pub downlink_closed: bool,
}

impl Element for GateStatus {
    const TYPE: u16 = 25;

    fn parse(content: &mut Reader<'_>) -> Result<GateStatus, Fault> {
        let octet = content.u8()?;
        // Values but 0 are for future use, to be read as closed.
        Ok(GateStatus { uplink_closed: octet & 0x0c != 0, downlink_closed: octet & 0x03 != 0 })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.uplink_closed) << 2 | u8::from(self.downlink_closed));
    }
}

/// Bit rates of both directions, in kbit/s (1,000 bit/s), 40 bits each.
macro_rules! bit_rates {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name {
                /// Uplink, in kbit/s; below 2⁴⁰.
                pub uplink: u64,
                /// Downlink, in kbit/s; below 2⁴⁰.
                pub downlink: u64,
            }

            impl Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut Reader<'_>) -> Result<$name, Fault> {
                    Ok($name { uplink: content.u40()?, downlink: content.u40()? })
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    for rate in [self.uplink, self.downlink] {
                        out.extend(&rate.min((1 << 40) - 1).to_be_bytes()[3..]);
                    }
                }
            }
        )*
    };
}

bit_rates! {
    /// MBR (8.2.8): more than that does not pass.
    Mbr = 26;
    /// GBR (8.2.9): as much as that passes.
    Gbr = 27;
}

numbers! {
    /// Precedence (8.2.11) of a PDR: the lowest value is looked at first.
    Precedence(u32) = 29;
    /// Paging Policy Indicator (8.2.116), 3 bits.
    PagingPolicyIndicator(u8) = 158;
    /// Metric (8.2.34): load or reduction, in per cent.
    Metric(u8) = 53;
    /// Sequence Number (8.2.33) of load and overload information.
    SequenceNumber(u32) = 52;
}

flags! {
    /// QER Control Indications (8.2.174).
    QerControlIndications(u8) = 251, 1 octets {
        /// Report the state of rate control when the session ends.
        RCSR = 0,
    }
}

/// QFI (8.2.89): which QoS flow, 6 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qfi(pub u8);

impl Element for Qfi {
    const TYPE: u16 = 124;

    fn parse(content: &mut Reader<'_>) -> Result<Qfi, Fault> {
        content.u8().map(|octet| Qfi(octet & 0x3f))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0 & 0x3f);
    }
}

/// RQI (8.2.88): whether the subscriber is to mirror the marking (reflective QoS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rqi(pub bool);

impl Element for Rqi {
    const TYPE: u16 = 123;

    fn parse(content: &mut Reader<'_>) -> Result<Rqi, Fault> {
        content.u8().map(|octet| Rqi(octet & 1 != 0))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.0));
    }
}

/// Transport Level Marking (8.2.12): what the outer header's traffic class becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TransportLevelMarking {
    /// Type of Service or Traffic Class.
    pub traffic_class: u8,
    /// The bits of it that count; 0xfc is the DSCP.
    pub mask: u8,
}

impl TransportLevelMarking {
    /// Mark with this DSCP, 6 bits.
    pub const fn dscp(dscp: u8) -> TransportLevelMarking {
        TransportLevelMarking { traffic_class: dscp << 2, mask: 0xfc }
    }
}

impl Element for TransportLevelMarking {
    const TYPE: u16 = 30;

    fn parse(content: &mut Reader<'_>) -> Result<TransportLevelMarking, Fault> {
        Ok(TransportLevelMarking { traffic_class: content.u8()?, mask: content.u8()? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend([self.traffic_class, self.mask]);
    }
}

/// DL Flow Level Marking (8.2.66).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DlFlowLevelMarking {
    /// Type of Service or Traffic Class, and its mask.
    pub traffic_class: Option<[u8; 2]>,
    /// Service Class Indicator, as in the GTP-U extension header of that name.
    pub service_class: Option<[u8; 2]>,
}

impl Element for DlFlowLevelMarking {
    const TYPE: u16 = 97;

    fn parse(content: &mut Reader<'_>) -> Result<DlFlowLevelMarking, Fault> {
        let flags = content.u8()?;
        Ok(DlFlowLevelMarking {
            traffic_class: content.when(flags & 1 != 0, Reader::array)?,
            service_class: content.when(flags & 2 != 0, Reader::array)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(super::octet_of([self.traffic_class.is_some(), self.service_class.is_some()]));
        out.extend([self.traffic_class, self.service_class].into_iter().flatten().flatten());
    }
}

/// Unit of a [`PacketRate`] (8.2.63).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RateUnit {
    /// A minute.
    #[default]
    Minute = 0,
    /// Six minutes.
    SixMinutes = 1,
    /// An hour.
    Hour = 2,
    /// A day.
    Day = 3,
    /// A week.
    Week = 4,
}

impl RateUnit {
    fn parse(content: &mut Reader<'_>) -> Result<RateUnit, Fault> {
        Ok(match content.u8()? & 7 {
            0 => RateUnit::Minute,
            1 => RateUnit::SixMinutes,
            2 => RateUnit::Hour,
            3 => RateUnit::Day,
            4 => RateUnit::Week,
            _ => return Err(content.incorrect()),
        })
    }

    /// Its length in seconds.
    pub const fn seconds(self) -> u32 {
        [60, 360, 3600, 86_400, 604_800][self as usize]
    }
}

/// So many packets in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketLimit {
    /// The time.
    pub unit: RateUnit,
    /// How many packets may pass in it.
    pub packets: u16,
}

impl PacketLimit {
    fn parse(content: &mut Reader<'_>) -> Result<PacketLimit, Fault> {
        Ok(PacketLimit { unit: RateUnit::parse(content)?, packets: content.u16()? })
    }

    fn emit(self, out: &mut Vec<u8>) {
        out.push(self.unit as u8);
        out.extend(self.packets.to_be_bytes());
    }
}

/// Packet Rate (8.2.63): limits in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketRate {
    /// Uplink (ULPR).
    pub uplink: Option<PacketLimit>,
    /// Downlink (DLPR).
    pub downlink: Option<PacketLimit>,
    /// Additional limits once these are used up (APRC): uplink, downlink.
    pub additional: Option<[PacketLimit; 2]>,
}

impl Element for PacketRate {
    const TYPE: u16 = 94;

    fn parse(content: &mut Reader<'_>) -> Result<PacketRate, Fault> {
        let flags = content.u8()?;
        Ok(PacketRate {
            uplink: content.when(flags & 1 != 0, PacketLimit::parse)?,
            downlink: content.when(flags & 2 != 0, PacketLimit::parse)?,
            additional: content
                .when(flags & 4 != 0, |content| Ok([PacketLimit::parse(content)?, PacketLimit::parse(content)?]))?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(super::octet_of([self.uplink.is_some(), self.downlink.is_some(), self.additional.is_some()]));
        let additional = self.additional.into_iter().flatten();
        for limit in self.uplink.into_iter().chain(self.downlink).chain(additional) {
            limit.emit(out);
        }
    }
}
