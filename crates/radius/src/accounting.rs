//! Accounting-Requests (RFC 2866, RFC 2869): sessions, their counters, and jittered interim updates.

use crate::dictionary::number;
use crate::packet::{Attribute, Malformed};
use std::time::Duration;

/// Acct-Status-Type (RFC 2866 clause 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the RFC")]
pub enum Status {
    Start = 1,
    Stop = 2,
    Interim = 3,
    On = 7,
    Off = 8,
}

/// What passed of one family. Input is what came from the subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Octets received from the subscriber (Acct-Input-Octets, RFC 2866, 5.3).
    pub input_octets: u64,
    /// Octets sent to the subscriber (Acct-Output-Octets, RFC 2866, 5.4).
    pub output_octets: u64,
    /// Packets received from the subscriber (Acct-Input-Packets, RFC 2866, 5.8).
    pub input_packets: u64,
    /// Packets sent to the subscriber (Acct-Output-Packets, RFC 2866, 5.9).
    pub output_packets: u64,
}

/// Vendor whose attributes count IPv6 apart (ERX-IPv6-Acct-*, enterprise 4874), as no RFC has any.
const ERX: u32 = 4874;

/// The counters as attributes: both families together in the standard ones, with gigawords (RFC 2869 clause 5.1 and 5.2),
/// and IPv6 alone in ERX-IPv6-Acct-* (enterprise 4874) if `ip6_apart`.
pub fn counters(ip4: Counters, ip6: Counters, ip6_apart: bool) -> Vec<Attribute> {
    let low = |n: u64| (n as u32).to_be_bytes();
    let high = |n: u64| ((n >> 32) as u32).to_be_bytes();
    let input = ip4.input_octets.wrapping_add(ip6.input_octets);
    let output = ip4.output_octets.wrapping_add(ip6.output_octets);
    let mut out = vec![
        Attribute::octets(number::ACCT_INPUT_OCTETS, low(input)),
        Attribute::octets(number::ACCT_OUTPUT_OCTETS, low(output)),
        Attribute::octets(number::ACCT_INPUT_GIGAWORDS, high(input)),
        Attribute::octets(number::ACCT_OUTPUT_GIGAWORDS, high(output)),
        Attribute::octets(number::ACCT_INPUT_PACKETS, low(ip4.input_packets.wrapping_add(ip6.input_packets))),
        Attribute::octets(number::ACCT_OUTPUT_PACKETS, low(ip4.output_packets.wrapping_add(ip6.output_packets))),
    ];
    if ip6_apart {
        let values = [
            (151, low(ip6.input_octets)),
            (152, low(ip6.output_octets)),
            (153, low(ip6.input_packets)),
            (154, low(ip6.output_packets)),
            (155, high(ip6.input_octets)),
            (156, high(ip6.output_octets)),
        ];
        out.extend(values.map(|(code, value)| Attribute::vendor(ERX, code, value)));
    }
    out
}

/// What an Accounting-Request of a session says, besides what identifies the subscriber.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Acct-Status-Type (RFC 2866, 5.1): start, interim update or stop.
    pub status: Status,
    /// Acct-Session-Id (RFC 2866, 5.5), the same in all records of a session.
    pub session: &'a str,
    /// Class attributes of the Access-Accept, echoed (RFC 2865 clause 5.25).
    pub class: &'a [Vec<u8>],
    /// When it was measured, in seconds since 1970 (Event-Timestamp): a report that waits keeps its time.
    pub at: u32,
    /// How long the session has lasted, in seconds.
    pub duration: u32,
    /// IPv4 and IPv6; not sent in a start.
    pub counters: (Counters, Counters),
    /// Whether IPv6 is reported apart as well.
    pub ip6_apart: bool,
    /// Acct-Terminate-Cause of a stop (RFC 2866 clause 5.10).
    pub cause: Option<u32>,
}

impl Report<'_> {
    /// Attributes of the Accounting-Request, in the order in which they are sent.
    pub fn attributes(&self) -> Vec<Attribute> {
        let mut out = vec![
            Attribute::integer(number::ACCT_STATUS_TYPE, self.status as u32),
            Attribute::octets(number::ACCT_SESSION_ID, self.session),
            Attribute::integer(number::EVENT_TIMESTAMP, self.at),
        ];
        out.extend(self.class.iter().map(|class| Attribute::octets(number::CLASS, class)));
        if matches!(self.status, Status::Interim | Status::Stop) {
            out.push(Attribute::integer(number::ACCT_SESSION_TIME, self.duration));
            out.extend(counters(self.counters.0, self.counters.1, self.ip6_apart));
        }
        let cause = self.cause.filter(|_| self.status == Status::Stop);
        out.extend(cause.map(|cause| Attribute::integer(number::ACCT_TERMINATE_CAUSE, cause)));
        out
    }
}

/// Attributes of an accounting request as a ledger keeps them until a server has acknowledged it: a version octet, and for each
/// attribute vendor (4), number (1), length (1) and value.
pub fn to_record(attributes: &[Attribute]) -> Result<Vec<u8>, Malformed> {
    let mut out = vec![1];
    for Attribute { vendor, code, value } in attributes {
        let len = u8::try_from(value.len()).map_err(|_| Malformed::Attribute(*code))?;
        out.extend_from_slice(&vendor.to_be_bytes());
        out.extend_from_slice(&[*code, len]);
        out.extend_from_slice(value);
    }
    Ok(out)
}

/// The attributes of a record; `None` if it is cut off or of another version.
pub fn from_record(record: &[u8]) -> Option<Vec<Attribute>> {
    let (1, mut rest) = record.split_first().map(|(version, rest)| (*version, rest))? else { return None };
    let mut attributes = Vec::new();
    while let Some((&[a, b, c, d, code, len], after)) = rest.split_first_chunk::<6>() {
        let (value, after) = after.split_at_checked(usize::from(len))?;
        attributes.push(Attribute::vendor(u32::from_be_bytes([a, b, c, d]), code, value));
        rest = after;
    }
    rest.is_empty().then_some(attributes)
}

/// The time to a session's next interim update: the interval, less up to a tenth by the random number (RFC 5080 clause 2.2.1).
/// Sessions that began together drift apart.
pub fn interim_after(interval: Duration, random: u32) -> Duration {
    interval - (interval / 10).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_beyond_32_bits_use_gigawords() {
        let ip4 = Counters { input_octets: (1 << 32) - 1, ..Counters::default() };
        let ip6 = Counters { input_octets: 6, output_octets: 5 << 32, ..Counters::default() };
        let attributes = counters(ip4, ip6, true);
        let of = |vendor, code| {
            let found = attributes.iter().find(|a| (a.vendor, a.code) == (vendor, code));
            found.and_then(Attribute::to_integer).expect("there")
        };
        assert_eq!((of(0, number::ACCT_INPUT_OCTETS), of(0, number::ACCT_INPUT_GIGAWORDS)), (5, 1));
        assert_eq!((of(0, number::ACCT_OUTPUT_OCTETS), of(0, number::ACCT_OUTPUT_GIGAWORDS)), (0, 5));
        assert_eq!((of(ERX, 151), of(ERX, 155), of(ERX, 156)), (6, 0, 5));
    }

    #[test]
    fn records_come_back_as_they_were() {
        let attributes = counters(Counters { input_octets: 1 << 40, ..Counters::default() }, Counters::default(), true);
        let record = to_record(&attributes).expect("short values");
        assert_eq!(from_record(&record), Some(attributes));
        assert!((0..record.len()).filter_map(|len| from_record(&record[..len])).all(|some| some.len() < 12));
        assert_eq!(from_record(&[2]), None);
    }

    #[test]
    fn interims_are_spread_over_a_tenth() {
        let minute = Duration::from_secs(60);
        assert_eq!(interim_after(minute, 0), minute);
        assert_eq!(interim_after(minute, u32::MAX), Duration::from_secs(54));
    }
}
