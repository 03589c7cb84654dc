//! Usage: what is measured, when it is reported, what is reported.

use crate::{Element, Fault, Reader};

flags! {
    /// Measurement Method (8.2.40).
    MeasurementMethod(u8) = 62, 1 octets {
        /// Time.
        DURAT = 0,
        /// Volume.
        VOLUM = 1,
        /// Events.
        EVENT = 2,
    }

    /// Reporting Triggers (8.2.19): what makes a URR report.
    ReportingTriggers(u32) = 37, 3 octets {
        /// Periodically.
        PERIO = 0,
        /// Volume threshold reached.
        VOLTH = 1,
        /// Time threshold reached.
        TIMTH = 2,
        /// Quota holding time over.
        QUHTI = 3,
        /// Traffic starts.
        START = 4,
        /// Traffic stops.
        STOPT = 5,
        /// Dropped downlink traffic threshold reached.
        DROTH = 6,
        /// A linked URR reports.
        LIUSA = 7,
        /// Volume quota used up.
        VOLQU = 8,
        /// Time quota used up.
        TIMQU = 9,
        /// Envelope closed.
        ENVCL = 10,
        /// MAC addresses seen or gone.
        MACAR = 11,
        /// Event threshold reached.
        EVETH = 12,
        /// Event quota used up.
        EVEQU = 13,
        /// IP multicast joined or left.
        IPMJL = 14,
        /// Quota validity time over.
        QUVTI = 15,
        /// Report when the end marker has come.
        REEMR = 16,
        /// User plane inactivity.
        UPINT = 17,
    }

    /// Usage Report Trigger (8.2.41): what made a URR report.
    UsageReportTrigger(u32) = 63, 3 octets {
        /// Periodically.
        PERIO = 0,
        /// Volume threshold reached.
        VOLTH = 1,
        /// Time threshold reached.
        TIMTH = 2,
        /// Quota holding time over.
        QUHTI = 3,
        /// Traffic has started.
        START = 4,
        /// Traffic has stopped.
        STOPT = 5,
        /// Dropped downlink traffic threshold reached.
        DROTH = 6,
        /// Asked for.
        IMMER = 7,
        /// Volume quota used up.
        VOLQU = 8,
        /// Time quota used up.
        TIMQU = 9,
        /// A linked URR has reported.
        LIUSA = 10,
        /// The session or the URR is removed.
        TERMR = 11,
        /// Monitoring time passed.
        MONIT = 12,
        /// Envelope closed.
        ENVCL = 13,
        /// MAC addresses seen or gone.
        MACAR = 14,
        /// Event threshold reached.
        EVETH = 15,
        /// Event quota used up.
        EVEQU = 16,
        /// The user plane ends the session.
        TEBUR = 17,
        /// IP multicast joined or left.
        IPMJL = 18,
        /// Quota validity time over.
        QUVTI = 19,
        /// The end marker has come.
        EMRRE = 20,
        /// User plane inactivity.
        UPINT = 21,
    }

    /// Measurement Information (8.2.67): how to measure.
    MeasurementInformation(u8) = 100, 1 octets {
        /// Before QoS enforcement.
        MBQE = 0,
        /// Inactive: measurement paused.
        INAM = 1,
        /// Reduced application detection information.
        RADI = 2,
        /// Time metering starts at once.
        ISTM = 3,
        /// Number of packets too.
        MNOP = 4,
        /// Send start or pause of charging.
        SSPOC = 5,
        /// Applicable for start or pause of charging.
        ASPOC = 6,
        /// Control of inactive measurement.
        CIAM = 7,
    }

    /// Usage Information (8.2.59): which part of the usage is reported.
    UsageInformation(u8) = 90, 1 octets {
        /// Before the monitoring time.
        BEF = 0,
        /// After the monitoring time.
        AFT = 1,
        /// After QoS enforcement.
        UAE = 2,
        /// Before QoS enforcement.
        UBE = 3,
    }
}

numbers! {
    /// UR-SEQN (8.2.71): numbers the reports of a URR.
    UrSeqn(u32) = 104;
    /// Query URR Reference (8.2.90): ties reports to the request that asked for them.
    QueryUrrReference(u32) = 125;
    /// Event Quota (8.2.107), in events.
    EventQuota(u32) = 148;
    /// Event Threshold (8.2.108), in events.
    EventThreshold(u32) = 149;
    /// Subsequent Event Quota (8.2.109), in events.
    SubsequentEventQuota(u32) = 150;
    /// Subsequent Event Threshold (8.2.110), in events.
    SubsequentEventThreshold(u32) = 151;
    /// Number of Reports (8.2.133): after so many the URR has done its work.
    NumberOfReports(u16) = 182;
    /// Additional Usage Reports Information (8.2.91): how many more reports come, by the lower 15 bits; the highest bit
    /// (AURI) says that more come.
    AdditionalUsageReportsInformation(u16) = 126;
}

/// Volumes by direction, in octets: flags (total, uplink, downlink) and a number of 64 bits each.
macro_rules! volumes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name {
                /// Both directions together, in octets.
                pub total: Option<u64>,
                /// Uplink, in octets.
                pub uplink: Option<u64>,
                /// Downlink, in octets.
                pub downlink: Option<u64>,
            }

            impl $name {
                /// So many octets in both directions together.
                pub const fn total(octets: u64) -> $name {
                    $name { total: Some(octets), uplink: None, downlink: None }
                }
            }

            impl Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut Reader<'_>) -> Result<$name, Fault> {
                    let flags = content.u8()?;
                    Ok($name {
                        total: content.when(flags & 1 != 0, Reader::u64)?,
                        uplink: content.when(flags & 2 != 0, Reader::u64)?,
                        downlink: content.when(flags & 4 != 0, Reader::u64)?,
                    })
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    put_counts([self.total, self.uplink, self.downlink], out);
                }
            }
        )*
    };
}

volumes! {
    /// Volume Threshold (8.2.13): a report is due after that.
    VolumeThreshold = 31;
    /// Subsequent Volume Threshold (8.2.16): applies from the Monitoring Time on.
    SubsequentVolumeThreshold = 34;
    /// Volume Quota (8.2.50): after that nothing passes.
    VolumeQuota = 73;
    /// Subsequent Volume Quota (8.2.86): applies from the Monitoring Time on.
    SubsequentVolumeQuota = 121;
}

/// Volume Measurement (8.2.44).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeMeasurement {
    /// Both directions together, in octets.
    pub total: Option<u64>,
    /// Uplink, in octets.
    pub uplink: Option<u64>,
    /// Downlink, in octets.
    pub downlink: Option<u64>,
    /// Both directions together, in packets.
    pub total_packets: Option<u64>,
    /// Uplink, in packets.
    pub uplink_packets: Option<u64>,
    /// Downlink, in packets.
    pub downlink_packets: Option<u64>,
}

impl Element for VolumeMeasurement {
    const TYPE: u16 = 66;

    fn parse(content: &mut Reader<'_>) -> Result<VolumeMeasurement, Fault> {
        let flags = content.u8()?;
        Ok(VolumeMeasurement {
            total: content.when(flags & 1 != 0, Reader::u64)?,
            uplink: content.when(flags & 2 != 0, Reader::u64)?,
            downlink: content.when(flags & 4 != 0, Reader::u64)?,
            total_packets: content.when(flags & 8 != 0, Reader::u64)?,
            uplink_packets: content.when(flags & 16 != 0, Reader::u64)?,
            downlink_packets: content.when(flags & 32 != 0, Reader::u64)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let VolumeMeasurement { total, uplink, downlink, total_packets, uplink_packets, downlink_packets } = *self;
        put_counts([total, uplink, downlink, total_packets, uplink_packets, downlink_packets], out);
    }
}

/// Dropped DL Traffic Threshold (8.2.49): a report is due after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DroppedDlTrafficThreshold {
    /// In packets.
    pub packets: Option<u64>,
    /// In octets.
    pub octets: Option<u64>,
}

impl Element for DroppedDlTrafficThreshold {
    const TYPE: u16 = 72;

    fn parse(content: &mut Reader<'_>) -> Result<DroppedDlTrafficThreshold, Fault> {
        let flags = content.u8()?;
        Ok(DroppedDlTrafficThreshold {
            packets: content.when(flags & 1 != 0, Reader::u64)?,
            octets: content.when(flags & 2 != 0, Reader::u64)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        put_counts([self.packets, self.octets], out);
    }
}

/// A flag for each count that is there, then the counts.
fn put_counts<const N: usize>(counts: [Option<u64>; N], out: &mut Vec<u8>) {
    out.push(super::octet_of(counts.map(|count| count.is_some())));
    for count in counts.into_iter().flatten() {
        out.extend(count.to_be_bytes());
    }
}

/// Time Quota Mechanism (8.2.81): time is used up by intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeQuotaMechanism {
    /// Base Time Interval Type: 0 continuous, 1 discrete time period.
    pub kind: u8,
    /// Base time interval, in seconds.
    pub interval: u32,
}

impl Element for TimeQuotaMechanism {
    const TYPE: u16 = 115;

    fn parse(content: &mut Reader<'_>) -> Result<TimeQuotaMechanism, Fault> {
        Ok(TimeQuotaMechanism { kind: content.u8()? & 3, interval: content.u32()? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.kind & 3);
        out.extend(self.interval.to_be_bytes());
    }
}

/// Multiplier (8.2.84): digits × 10^exponent, of the usage of an aggregated URR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// Value digits.
    pub digits: i64,
    /// Exponent.
    pub exponent: i32,
}

impl Element for Multiplier {
    const TYPE: u16 = 119;

    fn parse(content: &mut Reader<'_>) -> Result<Multiplier, Fault> {
        Ok(Multiplier { digits: i64::from_be_bytes(content.array()?), exponent: i32::from_be_bytes(content.array()?) })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.digits.to_be_bytes());
        out.extend(self.exponent.to_be_bytes());
    }
}
