//! RADIUS packets (RFC 2865 clause 3) and their authentication.
//!
//! ```text
//! | code, 1 | identifier, 1 | length, 2 | authenticator, 16 | attributes: type, length, value |
//! ```

use crate::dictionary::number;
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets before the attributes: code, identifier, length, authenticator (RFC 2865, 3).
pub const HEADER_LEN: usize = 20;
/// Longest packet (RFC 2865 clause 3).
pub const MAX_LEN: usize = 4096;

/// Packet types (RFC 2865, 2866, 5176).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the RFCs")]
#[repr(u8)]
pub enum Code {
    AccessRequest = 1,
    AccessAccept = 2,
    AccessReject = 3,
    AccountingRequest = 4,
    AccountingResponse = 5,
    AccessChallenge = 11,
    StatusServer = 12,
    DisconnectRequest = 40,
    DisconnectAck = 41,
    DisconnectNak = 42,
    CoaRequest = 43,
    CoaAck = 44,
    CoaNak = 45,
}

impl Code {
    pub(crate) fn of(code: u8) -> Option<Self> {
        use Code::*;
        let all = [
            AccessRequest,
            AccessAccept,
            AccessReject,
            AccountingRequest,
            AccountingResponse,
            AccessChallenge,
            StatusServer,
            DisconnectRequest,
            DisconnectAck,
            DisconnectNak,
            CoaRequest,
            CoaAck,
            CoaNak,
        ];
        all.into_iter().find(|known| *known as u8 == code)
    }

    /// Whether the request's authenticator is random, instead of a digest of the packet.
    fn has_random_authenticator(self) -> bool {
        matches!(self, Self::AccessRequest | Self::StatusServer)
    }
}

/// A secret shared with a server; not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An attribute; vendor-specific ones are unpacked (RFC 2865 clause 5.26), one for each sub-attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The vendor's enterprise number; 0: a standard attribute.
    pub vendor: u32,
    /// Type of the attribute, or of the vendor's attribute.
    pub code: u8,
    /// Its value, at most 253 bytes (247 of a vendor's).
    pub value: Vec<u8>,
}

impl Attribute {
    /// A standard attribute of octets or text.
    pub fn octets(code: u8, value: impl AsRef<[u8]>) -> Self {
        Self { vendor: 0, code, value: value.as_ref().to_vec() }
    }

    /// A standard attribute with an unsigned value of 32 bits.
    pub fn integer(code: u8, value: u32) -> Self {
        Self::octets(code, value.to_be_bytes())
    }

    /// A standard attribute with an IPv4 address.
    pub fn ip4(code: u8, address: Ipv4Addr) -> Self {
        Self::octets(code, address.octets())
    }

    /// A standard attribute with an IPv6 prefix (RFC 3162 clause 2.3); bits beyond `len` are cleared.
    pub fn prefix6(code: u8, prefix: Ipv6Addr, len: u8) -> Self {
        let len = len.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        let octets = (prefix.to_bits() & mask).to_be_bytes();
        let mut value = vec![0, len];
        value.extend_from_slice(&octets[..usize::from(len.div_ceil(8))]);
        Self::octets(code, value)
    }

    /// A Vendor-Specific attribute (RFC 2865, 5.26) with one sub-attribute.
    pub fn vendor(vendor: u32, code: u8, value: impl AsRef<[u8]>) -> Self {
        Self { vendor, code, value: value.as_ref().to_vec() }
    }

    /// The value as an unsigned number; none: it does not have four octets.
    pub fn to_integer(&self) -> Option<u32> {
        self.value.as_slice().try_into().ok().map(u32::from_be_bytes)
    }

    /// The value as text; none: it is not UTF-8.
    pub fn to_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }

    /// The value as an IPv4 address; none: it does not have four octets.
    pub fn to_ip4(&self) -> Option<Ipv4Addr> {
        <[u8; 4]>::try_from(self.value.as_slice()).ok().map(Ipv4Addr::from)
    }

    /// The value as an IPv6 prefix and its length in bits (RFC 3162, 2.3); none: it is not one.
    pub fn to_prefix6(&self) -> Option<(Ipv6Addr, u8)> {
        let [_, len, ref octets @ ..] = *self.value else { return None };
        let mut wide = [0; 16];
        wide.get_mut(..octets.len())?.copy_from_slice(octets);
        (len <= 128 && octets.len() >= usize::from(len.div_ceil(8))).then_some((Ipv6Addr::from(wide), len))
    }
}

/// Reason for which a packet is not valid (RFC 2865, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The packet is cut off, or longer than [`MAX_LEN`].
    #[error("RADIUS packet cut off, or longer than {MAX_LEN} bytes")]
    Length,
    /// A code that this crate does not read.
    #[error("RADIUS packet of unknown code {0}")]
    Code(u8),
    /// Type of an attribute with an invalid length.
    #[error("RADIUS attribute {0} has an invalid length")]
    Attribute(u8),
    /// The authenticator does not match the shared secret.
    #[error("RADIUS authenticator is wrong: is the shared secret the same on both sides?")]
    Authenticator,
    /// Message-Authenticator (RFC 2869, 5.14) is missing.
    #[error("RADIUS packet without Message-Authenticator (CVE-2024-3596): update the server, or have it send one")]
    NoMessageAuthenticator,
}

/// A RADIUS packet (RFC 2865, 3) with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Type of the packet (RFC 2865, 3).
    pub code: Code,
    /// Identifier, by which a response is matched to its request (RFC 2865, 3).
    pub id: u8,
    /// Request Authenticator or Response Authenticator.
    pub authenticator: [u8; 16],
    /// Its attributes in order, without Message-Authenticator.
    pub attributes: Vec<Attribute>,
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut digest = Md5::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize().into()
}

fn hmac(secret: &Secret) -> Hmac<Md5> {
    Hmac::new_from_slice(&secret.0).expect("HMAC takes keys of any length")
}

/// Compares without telling by its time where the difference is.
fn same(a: &[u8; 16], b: &[u8; 16]) -> bool {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Where Message-Authenticator's value is in a packet.
fn find_authenticator(octets: &[u8]) -> Option<usize> {
    let mut at = HEADER_LEN;
    while let [code, len, ..] = *octets.get(at..)? {
        if code == number::MESSAGE_AUTHENTICATOR && len == 18 && at + 18 <= octets.len() {
            return Some(at + 2);
        }
        at += usize::from(len.max(2));
    }
    None
}

impl Packet {
    /// Reads a packet without checking its authenticators. Octets behind its length are ignored.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let head: &[u8; HEADER_LEN] = octets.first_chunk().ok_or(Malformed::Length)?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if !(HEADER_LEN..=MAX_LEN).contains(&len) || len > octets.len() {
            return Err(Malformed::Length);
        }
        let code = Code::of(head[0]).ok_or(Malformed::Code(head[0]))?;
        let mut authenticator = [0; 16];
        authenticator.copy_from_slice(&head[4..]);
        let mut attributes = Vec::new();
        let mut rest = &octets[HEADER_LEN..len];
        while let Some(kind) = rest.first() {
            let whole = rest.get(1).map(|len| usize::from(*len)).filter(|len| *len >= 2);
            let value = whole.and_then(|len| rest.get(2..len)).ok_or(Malformed::Attribute(*kind))?;
            match *kind {
                number::MESSAGE_AUTHENTICATOR if value.len() != 16 => return Err(Malformed::Attribute(*kind)),
                number::MESSAGE_AUTHENTICATOR => {}
                number::VENDOR_SPECIFIC => unpack(value, &mut attributes)?,
                code => attributes.push(Attribute::octets(code, value)),
            }
            rest = &rest[2 + value.len()..];
        }
        Ok(Self { code, id: head[1], authenticator, attributes })
    }

    /// The first standard attribute of that number.
    pub fn get(&self, code: u8) -> Option<&Attribute> {
        self.get_of(0, code)
    }

    /// The first attribute of this vendor (its Private Enterprise Number) and type.
    pub fn get_of(&self, vendor: u32, code: u8) -> Option<&Attribute> {
        self.attributes.iter().find(|a| (a.vendor, a.code) == (vendor, code))
    }

    /// All standard attributes of that number.
    pub fn all(&self, code: u8) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(move |a| (a.vendor, a.code) == (0, code))
    }

    fn write(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = vec![self.code as u8, self.id, 0, 0];
        out.extend_from_slice(&self.authenticator);
        // First of all attributes, so that nothing of an attacker's choice stands before it (CVE-2024-3596).
        out.extend_from_slice(&[number::MESSAGE_AUTHENTICATOR, 18]);
        out.extend_from_slice(&[0; 16]);
        for attribute in &self.attributes {
            let Attribute { vendor, code, value } = attribute;
            let bad = Malformed::Attribute(*code);
            let room = if *vendor == 0 { 253 } else { 247 };
            let len = u8::try_from(value.len()).ok().filter(|len| *len <= room).ok_or(bad)?;
            if *vendor == 0 {
                out.extend_from_slice(&[*code, len + 2]);
            } else {
                out.extend_from_slice(&[number::VENDOR_SPECIFIC, len + 8]);
                out.extend_from_slice(&vendor.to_be_bytes());
                out.extend_from_slice(&[*code, len + 2]);
            }
            out.extend_from_slice(value);
        }
        if out.len() > MAX_LEN {
            return Err(Malformed::Length);
        }
        let len = (out.len() as u16).to_be_bytes();
        out[2..4].copy_from_slice(&len);
        Ok(out)
    }

    /// A request as octets. The authenticator is kept for Access-Request (it must be random) and computed for the others.
    pub fn request(&self, secret: &Secret) -> Result<Vec<u8>, Malformed> {
        let mut out = self.write()?;
        if !self.code.has_random_authenticator() {
            out[4..20].fill(0);
        }
        let mut mac = hmac(secret);
        mac.update(&out);
        out[22..38].copy_from_slice(&mac.finalize().into_bytes());
        if !self.code.has_random_authenticator() {
            let digest = md5(&[&out, &secret.0]);
            out[4..20].copy_from_slice(&digest);
        }
        Ok(out)
    }

    /// A response as octets, to a request of that authenticator.
    pub fn response(&self, request: &[u8; 16], secret: &Secret) -> Result<Vec<u8>, Malformed> {
        let mut out = self.write()?;
        out[4..20].copy_from_slice(request);
        let mut mac = hmac(secret);
        mac.update(&out);
        out[22..38].copy_from_slice(&mac.finalize().into_bytes());
        let digest = md5(&[&out, &secret.0]);
        out[4..20].copy_from_slice(&digest);
        Ok(out)
    }

    /// Reads a request and checks it (RFC 2866 clause 3, RFC 5176 clause 2.3, RFC 3579 clause 3.2).
    pub fn read_request(octets: &[u8], secret: &Secret) -> Result<Self, Malformed> {
        let packet = Self::parse(octets)?;
        let octets = exact(octets);
        if !packet.code.has_random_authenticator() {
            let digest = md5(&[&octets[..4], &[0; 16], &octets[HEADER_LEN..], &secret.0]);
            if !same(&digest, &packet.authenticator) {
                return Err(Malformed::Authenticator);
            }
        }
        let over = if packet.code.has_random_authenticator() { packet.authenticator } else { [0; 16] };
        check_message(octets, &over, secret)?;
        Ok(packet)
    }

    /// Reads a response to a request of that authenticator and checks it.
    pub fn read_response(octets: &[u8], request: &[u8; 16], secret: &Secret) -> Result<Self, Malformed> {
        let packet = Self::parse(octets)?;
        let octets = exact(octets);
        let digest = md5(&[&octets[..4], request, &octets[HEADER_LEN..], &secret.0]);
        if !same(&digest, &packet.authenticator) {
            return Err(Malformed::Authenticator);
        }
        // Accounting-Response has none by RFC 2866, and carries nothing that could be forged into something else.
        if packet.code != Code::AccountingResponse || find_authenticator(octets).is_some() {
            check_message(octets, request, secret)?;
        }
        Ok(packet)
    }
}

/// A packet without what stands behind its length; [`Packet::parse`] was content.
fn exact(octets: &[u8]) -> &[u8] {
    &octets[..usize::from(u16::from_be_bytes([octets[2], octets[3]]))]
}

fn check_message(octets: &[u8], authenticator: &[u8; 16], secret: &Secret) -> Result<(), Malformed> {
    let at = find_authenticator(octets).ok_or(Malformed::NoMessageAuthenticator)?;
    let mut mac = hmac(secret);
    [&octets[..4], authenticator, &octets[HEADER_LEN..at], &[0; 16], &octets[at + 16..]]
        .iter()
        .for_each(|part| mac.update(part));
    mac.verify_slice(&octets[at..at + 16]).map_err(|_| Malformed::Authenticator)
}

fn unpack(value: &[u8], into: &mut Vec<Attribute>) -> Result<(), Malformed> {
    let bad = Malformed::Attribute(number::VENDOR_SPECIFIC);
    let [a, b, c, d, ref rest @ ..] = *value else { return Err(bad) };
    let vendor = u32::from_be_bytes([a, b, c, d]);
    if vendor == 0 {
        // Reserved (IANA, Private Enterprise Numbers): what is inside must not pass for a standard attribute.
        return Ok(());
    }
    let mut rest = rest;
    while let Some(code) = rest.first() {
        let whole = rest.get(1).map(|len| usize::from(*len)).filter(|len| *len >= 2);
        let Some(value) = whole.and_then(|len| rest.get(2..len)) else {
            // Some vendors use another form inside: it is nobody's fault, and nothing of it is known here.
            return Ok(());
        };
        into.push(Attribute::vendor(vendor, *code, value));
        rest = &rest[2 + value.len()..];
    }
    Ok(())
}

/// User-Password, hidden (RFC 2865 clause 5.2).
pub fn hide_password(password: &[u8], authenticator: &[u8; 16], secret: &Secret) -> Vec<u8> {
    let mut out = password[..password.len().min(128)].to_vec();
    out.resize(out.len().max(1).next_multiple_of(16), 0);
    let mut last = *authenticator;
    for block in out.chunks_exact_mut(16) {
        let key = md5(&[&secret.0, &last]);
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        last.copy_from_slice(block);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret() -> Secret {
        Secret(b"xyzzy5461".to_vec())
    }

    #[test]
    fn password_is_hidden_as_rfc_2865_shows() {
        // RFC 2865 clause 7.1.
        let authenticator =
            [0x0f, 0x40, 0x3f, 0x94, 0x73, 0x97, 0x80, 0x57, 0xbd, 0x83, 0xd5, 0xcb, 0x98, 0xf4, 0x22, 0x7a];
        let hidden = [0x0d, 0xbe, 0x70, 0x8d, 0x93, 0xd4, 0x13, 0xce, 0x31, 0x96, 0xe4, 0x3f, 0x78, 0x2a, 0x0a, 0xee];
        assert_eq!(hide_password(b"arctangent", &authenticator, &secret()), hidden);
    }

    #[test]
    fn responses_without_message_authenticator_are_refused() {
        let request = [7; 16];
        let mut octets = vec![2, 1, 0, 20];
        octets.extend_from_slice(&request);
        let digest = md5(&[&octets, &secret().0]);
        octets[4..20].copy_from_slice(&digest);
        assert_eq!(Packet::read_response(&octets, &request, &secret()), Err(Malformed::NoMessageAuthenticator));
    }

    #[test]
    fn attributes_of_vendor_0_are_not_standard_ones() {
        let mut octets = vec![1, 1, 0, 30];
        octets.extend_from_slice(&[7; 16]);
        octets.extend_from_slice(&[number::VENDOR_SPECIFIC, 10, 0, 0, 0, 0, number::USER_NAME, 4, b'm', b'e']);
        assert_eq!(Packet::parse(&octets).expect("well formed").attributes, []);
    }

    fn attribute() -> impl Strategy<Value = Attribute> {
        let value = proptest::collection::vec(any::<u8>(), 0..100);
        let code = any::<u8>().prop_filter("handled apart", |code| ![26, 80].contains(code));
        (prop_oneof![Just(0), Just(3561)], code, value).prop_map(|(vendor, code, value)| Attribute {
            vendor,
            code,
            value,
        })
    }

    proptest! {
        #[test]
        fn packets_are_read_as_written(attributes in proptest::collection::vec(attribute(), 0..20), flip in any::<u16>()) {
            let packet = Packet { code: Code::CoaRequest, id: 9, authenticator: [0; 16], attributes };
            let octets = packet.request(&secret()).unwrap();
            let read = Packet::read_request(&octets, &secret()).unwrap();
            prop_assert_eq!(&read.attributes, &packet.attributes);
            let answer = Packet { code: Code::CoaAck, ..read.clone() };
            let response = answer.response(&read.authenticator, &secret()).unwrap();
            prop_assert!(Packet::read_response(&response, &read.authenticator, &secret()).is_ok());
            for octets in [&octets, &response] {
                let mut bad = octets.clone();
                let at = usize::from(flip) % bad.len();
                bad[at] ^= 1;
                prop_assert!(Packet::read_request(&bad, &secret()).is_err());
                prop_assert!(Packet::read_response(&bad, &read.authenticator, &secret()).is_err());
            }
        }
    }
}
