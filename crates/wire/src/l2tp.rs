//! L2TPv3 data messages (RFC 3931, 4.1): over IP protocol 115, or over UDP port 1701.
//!
//! ```text
//! over IP                session, 4 | cookie, 0, 4 or 8 | …      session 0: a control message
//! over UDP  00 03 00 00 | session, 4 | cookie, 0, 4 or 8 | …     first bit set: a control message
//! ```

use crate::fast::{array, at32, be32, part, put, put32};
use crate::{Malformed, NoRoom};

/// The UDP port.
pub const PORT: u16 = 1701;
/// What stands before the session over UDP, in bytes.
pub const UDP_EXTRA: usize = 4;
/// Data message of version 3, over UDP.
const UDP_DATA: u32 = 0x0003_0000;

/// What carries the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carrier {
    /// IP protocol 115.
    Ip,
    /// UDP port 1701.
    Udp,
}

/// What the sender proves itself with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookie {
    /// Nothing.
    #[default]
    None,
    /// 32 bits.
    Short(u32),
    /// 64 bits.
    Long(u64),
}

impl Cookie {
    /// Bytes it takes.
    pub const fn len(self) -> usize {
        match self {
            Cookie::None => 0,
            Cookie::Short(_) => 4,
            Cookie::Long(_) => 8,
        }
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        matches!(self, Cookie::None)
    }

    /// Whether `bytes`, what follows the session number, begin with it.
    #[inline]
    pub fn leads(self, bytes: &[u8]) -> bool {
        match self {
            Cookie::None => true,
            Cookie::Short(cookie) => be32(bytes, 0) == Some(cookie),
            Cookie::Long(cookie) => array(bytes, 0) == Some(cookie.to_be_bytes()),
        }
    }
}

/// What a data message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The receiver's number of the session; never 0.
    pub session: u32,
    /// Where the cookie begins, or, without one, the payload.
    pub offset: u16,
}

/// A message is either of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A data message.
    Data(Header),
    /// A control message, not looked into.
    Control,
}

impl Message {
    /// Reads the front of an IP payload or a UDP payload.
    #[inline]
    pub fn parse(bytes: &[u8], carrier: Carrier) -> Result<Message, Malformed> {
        let offset = match carrier {
            Carrier::Ip => 0,
            Carrier::Udp => {
                let flags = be32(bytes, 0).ok_or(Malformed::Short)?;
                // The version is the low half of the first word (RFC 3931, 4.1.2.1); reserved bits are ignored.
                if flags >> 16 & 0x000f != 3 {
                    return Err(Malformed::BadVersion);
                }
                if flags >> 31 != 0 {
                    return Ok(Message::Control);
                }
                UDP_EXTRA
            }
        };
        let session = be32(bytes, offset).ok_or(Malformed::Short)?;
        match (session, carrier) {
            (0, Carrier::Ip) => Ok(Message::Control),
            (0, Carrier::Udp) => Err(Malformed::BadType),
            _ => Ok(Message::Data(Header { session, offset: offset as u16 + 4 })),
        }
    }
}

impl Header {
    /// What follows the cookie, if that is the right one.
    #[inline]
    pub fn payload<'a>(&self, bytes: &'a [u8], cookie: Cookie) -> Option<&'a [u8]> {
        let rest = part(bytes, self.offset.into(), usize::MAX);
        cookie.leads(rest).then(|| part(rest, cookie.len(), usize::MAX))
    }
}

/// A data message's header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub carrier: Carrier,
    /// The receiver's number of the session.
    pub session: u32,
    /// What we prove ourselves with.
    pub cookie: Cookie,
}

impl Repr {
    /// Bytes the header takes.
    pub const fn header_len(&self) -> usize {
        4 + self.cookie.len()
            + match self.carrier {
                Carrier::Ip => 0,
                Carrier::Udp => UDP_EXTRA,
            }
    }

    /// Writes the header to the front of `out`; returns its length. Refused for session 0.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.header_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        if self.session == 0 {
            return Err(NoRoom);
        }
        let at = match self.carrier {
            Carrier::Ip => 0,
            Carrier::Udp => {
                put32(out, 0, UDP_DATA).ok_or(NoRoom)?;
                UDP_EXTRA
            }
        };
        put32(out, at, self.session).ok_or(NoRoom)?;
        match self.cookie {
            Cookie::None => {}
            Cookie::Short(cookie) => put32(out, at + 4, cookie).ok_or(NoRoom)?,
            Cookie::Long(cookie) => put(out, at + 4, cookie.to_be_bytes()).ok_or(NoRoom)?,
        }
        debug_assert_eq!(at32(out, at), self.session);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn data_and_control_are_told_apart() {
        let over_ip = [0, 0, 0x12, 0x34, 9];
        let header = Header { session: 0x1234, offset: 4 };
        assert_eq!(Message::parse(&over_ip, Carrier::Ip), Ok(Message::Data(header)));
        assert_eq!(header.payload(&over_ip, Cookie::None), Some(&[9][..]));
        assert_eq!(header.payload(&over_ip, Cookie::Short(9)), None);
        assert_eq!(Message::parse(&[0; 4], Carrier::Ip), Ok(Message::Control));
        assert_eq!(Message::parse(&[0; 3], Carrier::Ip), Err(Malformed::Short));
        let over_udp = [0, 3, 0, 0, 0, 0, 0x12, 0x34];
        let header = Header { session: 0x1234, offset: 8 };
        assert_eq!(Message::parse(&over_udp, Carrier::Udp), Ok(Message::Data(header)));
        assert_eq!(Message::parse(&[0xc8, 3, 0, 0], Carrier::Udp), Ok(Message::Control));
        assert_eq!(Message::parse(&[0, 2, 0, 0, 0, 0, 0, 1], Carrier::Udp), Err(Malformed::BadVersion));
        assert_eq!(Message::parse(&[0, 3, 0, 0, 0, 0, 0, 0], Carrier::Udp), Err(Malformed::BadType));
        assert_eq!(Message::parse(&[0, 3, 0, 0, 0, 0, 0], Carrier::Udp), Err(Malformed::Short));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            udp: bool, session in 1u32.., payload: [u8; 5],
            cookie in prop_oneof![
                Just(Cookie::None), any::<u32>().prop_map(Cookie::Short), any::<u64>().prop_map(Cookie::Long),
            ],
        ) {
            let carrier = if udp { Carrier::Udp } else { Carrier::Ip };
            let repr = Repr { carrier, session, cookie };
            let mut out = [0xee; 16];
            let len = repr.emit(&mut out).unwrap();
            let bytes = [&out[..len], &payload[..]].concat();
            let Ok(Message::Data(header)) = Message::parse(&bytes, carrier) else { panic!("a data message") };
            prop_assert_eq!((header.session, header.payload(&bytes, cookie)), (session, Some(&payload[..])));
            prop_assert_eq!(Repr { session: 0, ..repr }.emit(&mut out), Err(NoRoom));
        }
    }
}
