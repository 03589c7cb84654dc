//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//! | hardware, 2 = 1 | protocol, 2 = 0x0800 | 6 | 4 | operation, 2 |                     0
//! | sender MAC, 6 | sender IP, 4 | target MAC, 6 | target IP, 4 |                       8
//! ```

use crate::fast::{array, at, at16, put, put16};
use crate::{Mac, Malformed, NoRoom};
use core::net::Ipv4Addr;

/// Where the fields are, in bytes from the start of the message.
pub mod field {
    /// Hardware type, protocol type and both address lengths.
    pub const KIND: usize = 0;
    pub const OPERATION: usize = 6;
    /// Sender's Ethernet address.
    pub const SENDER_MAC: usize = 8;
    /// Sender's IPv4 address.
    pub const SENDER_IP: usize = 14;
    /// Target's Ethernet address.
    pub const TARGET_MAC: usize = 18;
    /// Target's IPv4 address.
    pub const TARGET_IP: usize = 24;
}

/// The message's length, in bytes.
pub const LEN: usize = 28;
/// Operation: who has this address?
pub const REQUEST: u16 = 1;
/// Operation: I have.
pub const REPLY: u16 = 2;

/// Ethernet, IPv4, six and four bytes.
const KIND: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

/// A view of one ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees all 28 bytes, and that they speak of IPv4 over Ethernet.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < LEN {
            return Err(Malformed::Short);
        }
        if array(b, field::KIND) != Some(KIND) {
            return Err(Malformed::BadType);
        }
        Ok(Packet(bytes))
    }

    /// The bytes back.
    pub fn into_inner(self) -> T {
        self.0
    }

    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// [`REQUEST`], [`REPLY`] or something else.
    pub fn operation(&self) -> u16 {
        at16(self.b(), field::OPERATION)
    }

    /// Sender's Ethernet address.
    pub fn sender_mac(&self) -> Mac {
        Mac(at(self.b(), field::SENDER_MAC))
    }

    /// Sender's IPv4 address; unspecified in a probe (RFC 5227).
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(at::<4>(self.b(), field::SENDER_IP))
    }

    /// Target's Ethernet address; means nothing in a request.
    pub fn target_mac(&self) -> Mac {
        Mac(at(self.b(), field::TARGET_MAC))
    }

    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(at::<4>(self.b(), field::TARGET_IP))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    pub(crate) fn set_operation(&mut self, value: u16) {
        put16(self.0.as_mut(), field::OPERATION, value);
    }

    /// Set the sender's addresses.
    pub(crate) fn set_sender(&mut self, mac: Mac, ip: Ipv4Addr) {
        put(self.0.as_mut(), field::SENDER_MAC, mac.0);
        put(self.0.as_mut(), field::SENDER_IP, ip.octets());
    }

    /// Set the target's addresses.
    pub(crate) fn set_target(&mut self, mac: Mac, ip: Ipv4Addr) {
        put(self.0.as_mut(), field::TARGET_MAC, mac.0);
        put(self.0.as_mut(), field::TARGET_IP, ip.octets());
    }
}

/// The message as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`REQUEST`], [`REPLY`] or something else.
    pub operation: u16,
    /// Sender's Ethernet address.
    pub sender_mac: Mac,
    pub sender_ip: Ipv4Addr,
    /// Target's Ethernet address.
    pub target_mac: Mac,
    /// Target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// A question for the owner of `target_ip`.
    pub const fn request(sender_mac: Mac, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Repr {
        Repr { operation: REQUEST, sender_mac, sender_ip, target_mac: Mac::ZERO, target_ip }
    }

    /// The answer to this question, from the station `mac` that owns the address asked for.
    pub const fn answered_by(&self, mac: Mac) -> Repr {
        Repr {
            operation: REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Read a message, as checked by [`Packet::new_checked`].
    pub fn parse(bytes: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(bytes)?;
        Ok(Repr {
            operation: p.operation(),
            sender_mac: p.sender_mac(),
            sender_ip: p.sender_ip(),
            target_mac: p.target_mac(),
            target_ip: p.target_ip(),
        })
    }

    /// Bytes the message takes.
    pub const fn message_len(&self) -> usize {
        LEN
    }

    /// Write the message to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let out = out.get_mut(..LEN).ok_or(NoRoom)?;
        put(out, field::KIND, KIND).ok_or(NoRoom)?;
        let mut p = Packet(out);
        p.set_operation(self.operation);
        p.set_sender(self.sender_mac, self.sender_ip);
        p.set_target(self.target_mac, self.target_ip);
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHO_HAS: [u8; 28] = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    #[test]
    fn a_question_and_its_answer() {
        let question = Repr::parse(&WHO_HAS).unwrap();
        let us = Mac([2, 0, 0, 0, 0, 1]);
        assert_eq!(question, Repr::request(us, Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)));
        let mut out = [0xee; 28];
        assert_eq!(question.emit(&mut out), Ok(28));
        assert_eq!(out, WHO_HAS);
        question.answered_by(Mac([2, 0, 0, 0, 0, 2])).emit(&mut out).unwrap();
        assert_eq!(out[6..], [0, 2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    }

    #[test]
    fn refuses_other_hardware_and_short_messages() {
        let mut bytes = WHO_HAS;
        assert_eq!(Packet::new_checked(&bytes[..27]), Err(Malformed::Short));
        bytes[1] = 6;
        assert_eq!(Repr::parse(&bytes), Err(Malformed::BadType));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(operation: u16, a: [u8; 6], b: u32, c: [u8; 6], d: u32) {
            let repr = Repr {
                operation, sender_mac: Mac(a), sender_ip: b.into(), target_mac: Mac(c), target_ip: d.into(),
            };
            let mut out = [0xee; LEN];
            repr.emit(&mut out).unwrap();
            prop_assert_eq!(Repr::parse(&out), Ok(repr));
        }
    }
}
