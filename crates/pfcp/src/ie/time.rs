//! Points in time and durations.

/// Seconds from 1900 to 1970.
const UNIX_EPOCH: u64 = 2_208_988_800;

/// Seconds since 1900, modulo 2³², of seconds since 1970.
pub(super) const fn from_unix(seconds: u64) -> u32 {
    seconds.wrapping_add(UNIX_EPOCH) as u32
}

/// The other way around. Times with the highest bit clear are those after 2036, when the count wraps (RFC 4330, 3).
pub(super) const fn to_unix(seconds: u32) -> u64 {
    let era = if seconds & 0x8000_0000 != 0 { 0 } else { 1 << 32 };
    seconds as u64 + era - UNIX_EPOCH
}

times! {
    /// Recovery Time Stamp (8.2.65): when the node started. A change says that it has lost its sessions.
    RecoveryTimeStamp = 96;
    /// Monitoring Time (8.2.15): when the subsequent thresholds and quotas take over.
    MonitoringTime = 33;
    /// Time of First Packet (8.2.46) of what is reported.
    TimeOfFirstPacket = 69;
    /// Time of Last Packet (8.2.47) of what is reported.
    TimeOfLastPacket = 70;
    /// Start Time (8.2.52) of what is reported.
    StartTime = 75;
    /// End Time (8.2.53) of what is reported.
    EndTime = 76;
    /// Event Time Stamp (8.2.114): when the reported event happened.
    EventTimeStamp = 156;
    /// Activation Time (8.2.121) of a rule.
    ActivationTime = 163;
    /// Deactivation Time (8.2.122) of a rule.
    DeactivationTime = 164;
}

numbers! {
    /// Time Threshold (8.2.14), in seconds: a report is due after that.
    TimeThreshold(u32) = 32;
    /// Subsequent Time Threshold (8.2.17), in seconds: applies from the Monitoring Time on.
    SubsequentTimeThreshold(u32) = 35;
    /// Inactivity Detection Time (8.2.18), in seconds: after that without a packet time is no longer counted.
    InactivityDetectionTime(u32) = 36;
    /// Measurement Period (8.2.42), in seconds: between two periodic reports.
    MeasurementPeriod(u32) = 64;
    /// Duration Measurement (8.2.45), in seconds.
    DurationMeasurement(u32) = 67;
    /// Quota Holding Time (8.2.48), in seconds: after that without a packet the quota is given back.
    QuotaHoldingTime(u32) = 71;
    /// Time Quota (8.2.51), in seconds.
    TimeQuota(u32) = 74;
    /// Subsequent Time Quota (8.2.87), in seconds: applies from the Monitoring Time on.
    SubsequentTimeQuota(u32) = 122;
    /// User Plane Inactivity Timer (8.2.83), in seconds: after that without a packet the session is reported.
    UserPlaneInactivityTimer(u32) = 117;
    /// Ethernet Inactivity Timer (8.2.105), in seconds.
    EthernetInactivityTimer(u32) = 146;
    /// Averaging Window (8.2.115), in milliseconds.
    AveragingWindow(u32) = 157;
    /// Quota Validity Time (8.2.132), in seconds.
    QuotaValidityTime(u32) = 181;
    /// Downlink Data Notification Delay (8.2.28), in units of 50 ms.
    DownlinkDataNotificationDelay(u8) = 46;
}

/// A duration in one octet: 3 bits of unit, 5 bits of how many.
macro_rules! coarse_durations {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        numbers! { $($(#[$doc])* $name(u8) = $number;)* }
        $(
            impl $name {
                /// For ever.
                pub const INFINITE: $name = $name(0b111_00000);

                /// The duration in seconds; `None` if it is infinite.
                pub const fn seconds(self) -> Option<u32> {
                    let unit = match self.0 >> 5 {
                        0 => 2,
                        1 => 60,
                        2 => 600,
                        3 => 3600,
                        4 => 36_000,
                        7 => return None,
                        _ => 60,
                    };
                    Some((self.0 & 0x1f) as u32 * unit)
                }

                /// The shortest duration there is a value for that is not shorter; infinite beyond 310 hours.
                pub const fn at_least(seconds: u32) -> $name {
                    let units = [2, 60, 600, 3600, 36_000];
                    let mut i = 0;
                    while i < units.len() {
                        let count = seconds.div_ceil(units[i]);
                        if count < 32 {
                            return $name((i as u8) << 5 | count as u8);
                        }
                        i += 1;
                    }
                    $name::INFINITE
                }
            }
        )*
    };
}

coarse_durations! {
    /// DL Buffering Duration (8.2.29).
    DlBufferingDuration = 47;
    /// Timer (8.2.35): how long overload information is valid.
    Timer = 55;
    /// Graceful Release Period (8.2.78): how long until the association is released.
    GracefulReleasePeriod = 112;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_1900_and_wrap_in_2036() {
        assert_eq!(RecoveryTimeStamp::from_unix(0).0, 2_208_988_800);
        for unix in [0, 1_700_000_000, (1 << 32) - UNIX_EPOCH - 1, (1 << 32) - UNIX_EPOCH, 4_000_000_000] {
            assert_eq!(RecoveryTimeStamp::from_unix(unix).unix(), unix);
        }
    }

    #[test]
    fn coarse_durations_round_up() {
        assert_eq!(Timer(0x21).seconds(), Some(60));
        assert_eq!(Timer::at_least(62).seconds(), Some(62));
        assert_eq!(Timer::at_least(63).seconds(), Some(120));
        assert_eq!(Timer::at_least(31 * 36_000).seconds(), Some(31 * 36_000));
        assert_eq!(Timer::at_least(31 * 36_000 + 1), Timer::INFINITE);
    }
}
