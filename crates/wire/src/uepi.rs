//! What a Remote-PHY device says of upstream bursts (CM-SP-R-UEPI).
//!
//! A data unit is a header segment, payload segments cut anywhere, and a trailer segment, in the PSP packets
//! ([`crate::psp`]) of one session; B is set on the header, E on the trailer. Bandwidth requests have a session of their
//! own.
//!
//! ```text
//! header    | version 0xc0, no burst 0x20 | IUC | SID, 2 | start minislot, 4 |
//! trailer   | status, 2 | good FEC, 2 | corrected | uncorrected | SNR, 2 | power, 2 | frequency, 2 | timing, 4 | …
//! request   | version 0xc0, cluster 0x38, valid 0x04, units 0x02, type 0x01 | IUC | size, 2 | scheduled SID, 2 |
//!           | embedded SID, 2 | minislot, 4 | data session, 4 |
//! ```

use crate::fast::{at8, at16, at32, put, put16, put32};
use crate::{Malformed, NoRoom};

/// What a data unit begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// No burst was seen where one was scheduled; there is no payload.
    pub no_burst: bool,
    /// Interval usage code of the grant.
    pub iuc: u8,
    /// Service identifier of the grant, 14 bits used.
    pub sid: u16,
    /// Where the burst began.
    pub minislot: u32,
}

impl Header {
    /// Bytes it takes.
    pub const LEN: usize = 8;

    /// Reads a header segment; bytes behind are ignored. Version 0 is the only one.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Header, Malformed> {
        if segment.len() < Self::LEN {
            return Err(Malformed::Short);
        }
        let first = at8(segment, 0);
        if first & 0xc0 != 0 {
            return Err(Malformed::BadVersion);
        }
        Ok(Header {
            no_burst: first & 0x20 != 0,
            iuc: at8(segment, 1),
            sid: at16(segment, 2),
            minislot: at32(segment, 4),
        })
    }

    /// Writes the header to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let out = out.get_mut(..Self::LEN).ok_or(NoRoom)?;
        put(out, 0, [u8::from(self.no_burst) << 5, self.iuc]).ok_or(NoRoom)?;
        put16(out, 2, self.sid).ok_or(NoRoom)?;
        put32(out, 4, self.minislot).ok_or(NoRoom)?;
        Ok(Self::LEN)
    }
}

/// What a data unit ends with: how the burst was received. The coefficients of the equaliser and what vendors add are
/// not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Status bits.
    pub status: u16,
    /// FEC codewords without error.
    pub good: u16,
    /// FEC codewords corrected.
    pub corrected: u8,
    /// FEC codewords that could not be.
    pub uncorrected: u8,
    /// Signal to noise ratio.
    pub snr: u16,
    /// Received power.
    pub power: u16,
    /// Frequency offset.
    pub frequency: u16,
    /// Timing offset.
    pub timing: u32,
}

impl Trailer {
    /// Bytes it takes at least.
    pub const LEN: usize = 16;

    /// Reads a trailer segment; bytes behind are ignored.
    pub fn parse(segment: &[u8]) -> Result<Trailer, Malformed> {
        if segment.len() < Self::LEN {
            return Err(Malformed::Short);
        }
        Ok(Trailer {
            status: at16(segment, 0),
            good: at16(segment, 2),
            corrected: at8(segment, 4),
            uncorrected: at8(segment, 5),
            snr: at16(segment, 6),
            power: at16(segment, 8),
            frequency: at16(segment, 10),
            timing: at32(segment, 12),
        })
    }

    /// Writes the trailer to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let out = out.get_mut(..Self::LEN).ok_or(NoRoom)?;
        put16(out, 0, self.status).ok_or(NoRoom)?;
        put16(out, 2, self.good).ok_or(NoRoom)?;
        put(out, 4, [self.corrected, self.uncorrected]).ok_or(NoRoom)?;
        put16(out, 6, self.snr).ok_or(NoRoom)?;
        put16(out, 8, self.power).ok_or(NoRoom)?;
        put16(out, 10, self.frequency).ok_or(NoRoom)?;
        put32(out, 12, self.timing).ok_or(NoRoom)?;
        Ok(Self::LEN)
    }
}

/// A bandwidth request, taken out of a burst by the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The SID cluster asked for, if it is said.
    pub cluster: Option<u8>,
    /// The size is in units of bytes, not in minislots.
    pub in_units: bool,
    /// The request was embedded in a burst, not alone in one.
    pub piggybacked: bool,
    /// Interval usage code it came in by.
    pub iuc: u8,
    /// What is asked for.
    pub size: u16,
    /// Service identifier the interval was scheduled for.
    pub scheduled_sid: u16,
    /// Service identifier that asks.
    pub sid: u16,
    /// When.
    pub minislot: u32,
    /// Session of the channel's data.
    pub session: u32,
}

impl Request {
    /// Bytes it takes.
    pub const LEN: usize = 16;

    /// Reads a request; bytes behind are ignored. Version 0 is the only one.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Request, Malformed> {
        if segment.len() < Self::LEN {
            return Err(Malformed::Short);
        }
        let first = at8(segment, 0);
        if first & 0xc0 != 0 {
            return Err(Malformed::BadVersion);
        }
        Ok(Request {
            cluster: (first & 0x04 != 0).then_some(first >> 3 & 7),
            in_units: first & 0x02 != 0,
            piggybacked: first & 0x01 != 0,
            iuc: at8(segment, 1),
            size: at16(segment, 2),
            scheduled_sid: at16(segment, 4),
            sid: at16(segment, 6),
            minislot: at32(segment, 8),
            session: at32(segment, 12),
        })
    }

    /// Writes the request to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let out = out.get_mut(..Self::LEN).ok_or(NoRoom)?;
        let cluster = self.cluster.map_or(0, |cluster| (cluster & 7) << 3 | 0x04);
        let first = cluster | u8::from(self.in_units) << 1 | u8::from(self.piggybacked);
        put(out, 0, [first, self.iuc]).ok_or(NoRoom)?;
        put16(out, 2, self.size).ok_or(NoRoom)?;
        put16(out, 4, self.scheduled_sid).ok_or(NoRoom)?;
        put16(out, 6, self.sid).ok_or(NoRoom)?;
        put32(out, 8, self.minislot).ok_or(NoRoom)?;
        put32(out, 12, self.session).ok_or(NoRoom)?;
        Ok(Self::LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_they_stand_on_the_wire() {
        let mut out = [0; 16];
        let header = Header { no_burst: true, iuc: 5, sid: 0x2aaa, minislot: 0x0102_0304 };
        assert_eq!(header.emit(&mut out), Ok(8));
        assert_eq!(out[..8], [0x20, 5, 0x2a, 0xaa, 1, 2, 3, 4]);
        let request = Request { cluster: Some(5), in_units: true, size: 300, sid: 7, ..Request::default() };
        assert_eq!(request.emit(&mut out), Ok(16));
        assert_eq!(out, [0x2e, 0, 1, 0x2c, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Header::parse(&[0x40; 8]), Err(Malformed::BadVersion));
        assert_eq!(Request::parse(&[0x80; 16]), Err(Malformed::BadVersion));
        assert_eq!(Header::parse(&out[..7]), Err(Malformed::Short));
        assert_eq!(Trailer::parse(&out[..15]), Err(Malformed::Short));
        assert_eq!(Request::parse(&out[..15]), Err(Malformed::Short));
        assert_eq!(Trailer::default().emit(&mut out[..15]), Err(NoRoom));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            bits: (bool, bool), bytes: (u8, u8, u8), halves: (u16, u16, u16, u16, u16), words: (u32, u32),
            cluster in prop::option::of(0u8..8),
        ) {
            let mut out = [0xee; 16];
            let header = Header { no_burst: bits.0, iuc: bytes.0, sid: halves.0, minislot: words.0 };
            prop_assert_eq!(header.emit(&mut out), Ok(8));
            prop_assert_eq!(Header::parse(&out), Ok(header));
            let trailer = Trailer {
                status: halves.0, good: halves.1, corrected: bytes.0, uncorrected: bytes.1, snr: halves.2,
                power: halves.3, frequency: halves.4, timing: words.0,
            };
            prop_assert_eq!(trailer.emit(&mut out), Ok(16));
            prop_assert_eq!(Trailer::parse(&out), Ok(trailer));
            let request = Request {
                cluster, in_units: bits.0, piggybacked: bits.1, iuc: bytes.2, size: halves.0,
                scheduled_sid: halves.1, sid: halves.2, minislot: words.0, session: words.1,
            };
            prop_assert_eq!(request.emit(&mut out), Ok(16));
            prop_assert_eq!(Request::parse(&out), Ok(request));
        }
    }
}
