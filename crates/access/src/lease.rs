//! A lease as the ledger keeps it: a fixed form of [`RECORD_LEN`] bytes with a version; [`RELAYED_LEN`] of one that another
//! server has granted.
//!
//! ```text
//! | version, 1 = 1 or 2 | kind, 1 | group, 2 | port, 2 | S-VLAN, 2 | C-VLAN, 2 | MAC, 6 |     0
//! | identifier, 8 | length of the prefix, 1 | address or prefix, 16 | expiry, 4 |        16
//! | server, 16: in version 2 only |                                                     45
//! ```
//! Numbers are big-endian; an IPv4 address is written as an IPv4-mapped IPv6 address.

use crate::{ClientKey, Line};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of an encoded record in bytes.
pub const RECORD_LEN: usize = 45;
/// Length of an encoded record with the server that has granted the lease, in bytes.
pub const RELAYED_LEN: usize = 61;

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
}

/// Error of [`LeaseRecord::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Length in bytes, which is not the version's.
    #[error("lease record of {0} bytes; version 1 has {RECORD_LEN}, version 2 {RELAYED_LEN}")]
    Length(usize),
    /// Version of the format, which this release does not read.
    #[error("lease record of version {0}; this release reads versions 1 and 2")]
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

    /// Encodes the record: in version 1, or, with a server, in version 2.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; RECORD_LEN];
        let ClientKey { line, mac, identifier } = self.key.client;
        out[..2].copy_from_slice(&[if self.server.is_some() { 2 } else { 1 }, self.key.kind as u8]);
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
        out
    }

    /// Decodes what [`LeaseRecord::encode`] has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        let wanted = match bytes.first() {
            Some(1) | None => RECORD_LEN,
            Some(2) => RELAYED_LEN,
            Some(other) => return Err(BadRecord::Version(*other)),
        };
        let b: &[u8; RECORD_LEN] =
            bytes.first_chunk().filter(|_| bytes.len() == wanted).ok_or(BadRecord::Length(bytes.len()))?;
        let server = bytes.get(RECORD_LEN..).and_then(|octets| <[u8; 16]>::try_from(octets).ok()).map(Ipv6Addr::from);
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
        })
    }
}
