//! A lease as the ledger keeps it: a fixed form of [`RECORD_LEN`] bytes with a version; [`RELAYED_LEN`] of one that another
//! server has granted; [`RATE_LEN`] more where an access node has told the line's rate.
//!
//! ```text
//! | version, 1 = 1 to 4 | kind, 1 | group, 2 | port, 2 | S-VLAN, 2 | C-VLAN, 2 | MAC, 6 |     0
//! | identifier, 8 | length of the prefix, 1 | address or prefix, 16 | expiry, 4 |        16
//! | server, 16: in versions 2 and 4 |                                                   45
//! | kbit/s up, 4 | kbit/s down, 4: in versions 3 and 4 |                            45 or 61
//! ```
//! Numbers are big-endian; an IPv4 address is written as an IPv4-mapped IPv6 address.

use crate::option82::LineRate;
use crate::{ClientKey, Line};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of an encoded record in bytes.
pub const RECORD_LEN: usize = 45;
/// Length of an encoded record with the server that has granted the lease, in bytes.
pub const RELAYED_LEN: usize = 61;
/// Bytes that the rate of the line takes.
pub const RATE_LEN: usize = 8;

/// Kind of lease; the number is part of the stored record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An IPv4 address (DHCPv4).
    #[default]
    Ip4 = 4,
    /// An IPv6 address of an IA_NA (RFC 8415, 21.4).
    Na = 6,
    /// A delegated prefix of an IA_PD (RFC 8415, 21.21).
    Pd = 7,
}

/// Which lease: stored records with the same key replace each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// Address or delegated prefix.
    pub kind: Kind,
    /// Client that holds the lease.
    pub client: ClientKey,
}

/// A granted lease in the form that is stored and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Kind, client and IAID.
    pub key: LeaseKey,
    /// The subscriber group that granted it.
    pub group: u16,
    /// The address, or the first address of the prefix; IPv4 as `::ffff:a.b.c.d`.
    pub address: Ipv6Addr,
    /// Bits of `address` that are leased: 128 but for delegated prefixes.
    pub prefix_len: u8,
    /// When it ends, in seconds since the Unix epoch; later than what the client was told.
    pub expiry: u32,
    /// The server of the core that has granted it; none: the gateway itself.
    pub server: Option<IpAddr>,
    /// What the client's line carries, as its access node told it.
    pub line_rate: LineRate,
}

/// Error of [`LeaseRecord::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Length in bytes, which is not the version's.
    #[error(
        "lease record of {0} bytes; version 1 has {RECORD_LEN}, version 2 {RELAYED_LEN}, versions 3 and 4 {RATE_LEN} more"
    )]
    Length(usize),
    /// Version of the format, which this release does not read.
    #[error("lease record of version {0}; this release reads versions 1 to 4")]
    Version(u8),
    /// Name of a field whose value is out of range.
    #[error("lease record with an invalid {0}")]
    Field(&'static str),
}

impl LeaseRecord {
    /// The leased address; none: the lease is of IPv6.
    pub fn ip4(&self) -> Option<Ipv4Addr> {
        self.address.to_ipv4_mapped()
    }

    /// Encodes the record: in version 1, with a server in version 2, with a line's rate in version 3, with both in version 4.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; RECORD_LEN];
        let ClientKey { line, mac, identifier } = self.key.client;
        let version = 1 + u8::from(self.server.is_some()) + 2 * u8::from(!self.line_rate.is_unknown());
        out[..2].copy_from_slice(&[version, self.key.kind as u8]);
        out[2..4].copy_from_slice(&self.group.to_be_bytes());
        out[4..6].copy_from_slice(&line.port.to_be_bytes());
        out[6..8].copy_from_slice(&line.s_vlan.to_be_bytes());
        out[8..10].copy_from_slice(&line.c_vlan.to_be_bytes());
        out[10..16].copy_from_slice(&mac);
        out[16..24].copy_from_slice(&identifier.to_be_bytes());
        out[24] = self.prefix_len;
        out[25..41].copy_from_slice(&self.address.octets());
        out[41..45].copy_from_slice(&self.expiry.to_be_bytes());
        match self.server {
            Some(IpAddr::V4(server)) => out.extend_from_slice(&server.to_ipv6_mapped().octets()),
            Some(IpAddr::V6(server)) => out.extend_from_slice(&server.octets()),
            None => {}
        }
        if version > 2 {
            let LineRate { up_kbps, down_kbps } = self.line_rate;
            [up_kbps, down_kbps].into_iter().for_each(|kbps| out.extend_from_slice(&kbps.to_be_bytes()));
        }
        out
    }

    /// Decodes what [`LeaseRecord::encode`] has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let wanted = match bytes.first() {
            Some(1) | None => RECORD_LEN,
            Some(2) => RELAYED_LEN,
            Some(3) => RECORD_LEN + RATE_LEN,
            Some(4) => RELAYED_LEN + RATE_LEN,
            Some(other) => return Err(BadRecord::Version(*other)),
        };
        let b: &[u8; RECORD_LEN] =
            bytes.first_chunk().filter(|_| bytes.len() == wanted).ok_or(BadRecord::Length(bytes.len()))?;
        let mut rest = &bytes[RECORD_LEN..];
        let server = rest.split_first_chunk::<16>().map(|(server, behind)| {
            rest = behind;
            Ipv6Addr::from(*server)
        });
        let rate = |at: usize| rest.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |kbps| u32::from_be_bytes(*kbps));
        let line_rate = LineRate { up_kbps: rate(0), down_kbps: rate(4) };
        if line_rate.is_unknown() == (b[0] > 2) {
            return Err(BadRecord::Field("line rate"));
        }
        let server = server.map(|server| server.to_ipv4_mapped().map_or(IpAddr::from(server), IpAddr::from));
        let kind = match b[1] {
            4 => Kind::Ip4,
            6 => Kind::Na,
            7 => Kind::Pd,
            _ => return Err(BadRecord::Field("kind")),
        };
        let at16 = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        let line = Line { port: at16(4), s_vlan: at16(6), c_vlan: at16(8) };
        let mut wide = [0; 16];
        wide.copy_from_slice(&b[25..41]);
        let address = Ipv6Addr::from(wide);
        let prefix_len = b[24];
        if address.to_ipv4_mapped().is_some() != (kind == Kind::Ip4) {
            return Err(BadRecord::Field("address"));
        }
        if prefix_len > 128 || (prefix_len != 128) && kind != Kind::Pd {
            return Err(BadRecord::Field("prefix length"));
        }
        let mac = [b[10], b[11], b[12], b[13], b[14], b[15]];
        let identifier = u64::from_be_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]]);
        Ok(Self {
            key: LeaseKey { kind, client: ClientKey { line, mac, identifier } },
            group: at16(2),
            address,
            prefix_len,
            expiry: u32::from_be_bytes([b[41], b[42], b[43], b[44]]),
            server,
            line_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_what_is_known() {
        let key = LeaseKey { kind: Kind::Ip4, client: ClientKey::default() };
        let address = "::ffff:10.0.0.7".parse().expect("an address");
        let line_rate = LineRate::default();
        let plain = LeaseRecord { key, group: 1, address, prefix_len: 128, expiry: 9, server: None, line_rate };
        let line_rate = LineRate { up_kbps: 1_000, down_kbps: 0 };
        let server = Some("2001:db8::5".parse().expect("an address"));
        let all = [
            plain,
            LeaseRecord { server, ..plain },
            LeaseRecord { line_rate, ..plain },
            LeaseRecord { server, line_rate, ..plain },
        ];
        for (record, (version, len)) in all.iter().zip([(1, 45), (2, 61), (3, 53), (4, 69)]) {
            let octets = record.encode();
            assert_eq!((octets[0], octets.len()), (version, len));
            assert_eq!(LeaseRecord::decode(&octets).as_ref(), Ok(record));
            assert_eq!(LeaseRecord::decode(&octets[1..]).ok(), None);
            assert_eq!(LeaseRecord::decode(&octets[..len - 1]), Err(BadRecord::Length(len - 1)));
        }
        let mut none = all[2].encode();
        none[45..].fill(0);
        assert_eq!(LeaseRecord::decode(&none), Err(BadRecord::Field("line rate")), "one form for each record");
    }
}
