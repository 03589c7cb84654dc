//! Extended header elements: one byte of type and length, then the value.

use crate::fast::{at16, be16, put, put8, put16};
use crate::{Malformed, NoRoom};

/// What a privacy element says (CM-SP-SEC, BPI+).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privacy {
    /// Sequence number of the key, 4 bits.
    pub key_sequence: u8,
    /// Version of the protocol, 4 bits; 1.
    pub version: u8,
    /// The frame is encrypted.
    pub enabled: bool,
    /// Which of two keys: the lowest bit of the sequence number.
    pub toggle: bool,
    /// Downstream the security association, upstream the service identifier; 14 bits.
    pub id: u16,
}

impl Privacy {
    /// An encrypted frame's, with the toggle that goes with its key.
    pub const fn encrypted(key_sequence: u8, id: u16) -> Privacy {
        Privacy { key_sequence: key_sequence & 0x0f, version: 1, enabled: true, toggle: key_sequence & 1 != 0, id }
    }

    const fn parse([head, high, low]: [u8; 3]) -> Privacy {
        let word = u16::from_be_bytes([high, low]);
        Privacy {
            key_sequence: head >> 4,
            version: head & 0x0f,
            enabled: word & 0x8000 != 0,
            toggle: word & 0x4000 != 0,
            id: word & 0x3fff,
        }
    }

    pub(super) const fn bytes(self) -> [u8; 3] {
        let word = (self.enabled as u16) << 15 | (self.toggle as u16) << 14 | self.id & 0x3fff;
        let [high, low] = word.to_be_bytes();
        [self.key_sequence << 4 | self.version & 0x0f, high, low]
    }
}

/// One element of an extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// Downstream privacy (type 4).
    BpDown(Privacy),
    /// Upstream privacy with a request for bandwidth (type 3).
    BpUp {
        /// Key and service identifier.
        privacy: Privacy,
        /// Minislots asked for.
        request: u8,
        /// Fragmentation control, where it is there: first `0x20`, last `0x10`, sequence `0x0f`.
        fragment: Option<u8>,
    },
    /// Upstream privacy of modems with segment headers (type 7).
    BpUp2(Privacy),
    /// Downstream service (type 8).
    DsService {
        /// Traffic priority, 0 to 7.
        priority: u8,
        /// Sequence change count, one bit.
        change: bool,
        /// The downstream service identifier, 20 bits, and the number of the packet in it, where they are there.
        stream: Option<(u32, Option<u16>)>,
    },
    /// Any other.
    Other {
        /// Its type, 0 to 15.
        kind: u8,
        /// Its value, at most 15 bytes.
        value: &'a [u8],
    },
}

impl<'a> Element<'a> {
    /// Reads the value of an element of type `kind`.
    #[inline]
    fn parse(kind: u8, value: &'a [u8]) -> Element<'a> {
        match (kind, value) {
            (4, &[a, b, c, _]) => Element::BpDown(Privacy::parse([a, b, c])),
            (3, &[a, b, c, request]) => Element::BpUp { privacy: Privacy::parse([a, b, c]), request, fragment: None },
            (3, &[a, b, c, request, fragment]) => {
                Element::BpUp { privacy: Privacy::parse([a, b, c]), request, fragment: Some(fragment) }
            }
            (7, &[a, b, c]) => Element::BpUp2(Privacy::parse([a, b, c])),
            (8, &[head]) => Element::DsService { priority: head >> 5, change: head & 0x10 != 0, stream: None },
            (8, &[head, ref rest @ ..]) if matches!(rest.len(), 2 | 4) => Element::DsService {
                priority: head >> 5,
                change: head & 0x10 != 0,
                stream: Some((u32::from(head & 0x0f) << 16 | u32::from(at16(rest, 0)), be16(rest, 2))),
            },
            _ => Element::Other { kind, value },
        }
    }

    /// Bytes it takes, its first included.
    pub const fn len(&self) -> usize {
        1 + match self {
            Element::BpDown(_) | Element::BpUp { fragment: None, .. } => 4,
            Element::BpUp { .. } => 5,
            Element::BpUp2(_) => 3,
            Element::DsService { stream: None, .. } => 1,
            Element::DsService { stream: Some((_, None)), .. } => 3,
            Element::DsService { .. } => 5,
            Element::Other { value, .. } => value.len(),
        }
    }

    /// Never: an element is at least one byte.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes it to the front of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        let size = (len - 1) as u8;
        let kind = match self {
            Element::BpDown(privacy) => {
                put(out, 1, privacy.bytes()).ok_or(NoRoom)?;
                put8(out, 4, 0).ok_or(NoRoom)?;
                4
            }
            Element::BpUp { privacy, request, fragment } => {
                put(out, 1, privacy.bytes()).ok_or(NoRoom)?;
                put8(out, 4, *request).ok_or(NoRoom)?;
                if let Some(fragment) = fragment {
                    put8(out, 5, *fragment).ok_or(NoRoom)?;
                }
                3
            }
            Element::BpUp2(privacy) => {
                put(out, 1, privacy.bytes()).ok_or(NoRoom)?;
                7
            }
            Element::DsService { priority, change, stream } => {
                let (dsid, sequence) = stream.unwrap_or((0, None));
                let head = priority << 5 | u8::from(*change) << 4 | (dsid >> 16) as u8 & 0x0f;
                put8(out, 1, head).ok_or(NoRoom)?;
                if stream.is_some() {
                    put16(out, 2, dsid as u16).ok_or(NoRoom)?;
                }
                if let Some(sequence) = sequence {
                    put16(out, 4, sequence).ok_or(NoRoom)?;
                }
                8
            }
            Element::Other { kind, value } => {
                if *kind > 15 || value.len() > 15 {
                    return Err(NoRoom);
                }
                out.get_mut(1..).ok_or(NoRoom)?.copy_from_slice(value);
                *kind
            }
        };
        put8(out, 0, kind << 4 | size).ok_or(NoRoom)?;
        Ok(len)
    }
}

/// The elements of an extended header, in order. Ends with an error where one runs past it.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Those of an extended header.
    pub const fn of(extended: &'a [u8]) -> Self {
        Elements(extended)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&head, rest) = self.0.split_first()?;
        let Some((value, rest)) = rest.split_at_checked(usize::from(head & 0x0f)) else {
            self.0 = &[];
            return Some(Err(Malformed::BadExtension));
        };
        self.0 = rest;
        Some(Ok(Element::parse(head >> 4, value)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_as_they_stand_on_the_wire() {
        let down = Element::BpDown(Privacy::encrypted(5, 0x2001));
        let service = Element::DsService { priority: 3, change: false, stream: Some((0x1_2345, Some(0xabcd))) };
        let mut out = [0; 11];
        assert_eq!((down.emit(&mut out), service.emit(&mut out[5..])), (Ok(5), Ok(6)));
        assert_eq!(out, [0x44, 0x51, 0xe0, 0x01, 0, 0x85, 0x61, 0x23, 0x45, 0xab, 0xcd]);
        let mut elements = Elements::of(&out);
        assert_eq!((elements.next(), elements.next(), elements.next()), (Some(Ok(down)), Some(Ok(service)), None));
        assert_eq!(down.emit(&mut out[..4]), Err(NoRoom));
        assert_eq!(Elements::of(&out[..4]).next(), Some(Err(Malformed::BadExtension)));
        assert_eq!(Element::Other { kind: 16, value: &[] }.emit(&mut out), Err(NoRoom));
    }

    pub fn element() -> impl Strategy<Value = Element<'static>> {
        let privacy = (0u8..16, 0u8..16, any::<(bool, bool)>(), 0u16..0x4000).prop_map(
            |(key_sequence, version, (enabled, toggle), id)| Privacy { key_sequence, version, enabled, toggle, id },
        );
        let stream = prop::option::of((0u32..1 << 20, any::<Option<u16>>()));
        prop_oneof![
            privacy.clone().prop_map(Element::BpDown),
            (privacy.clone(), any::<(u8, Option<u8>)>()).prop_map(|(privacy, (request, fragment))| Element::BpUp {
                privacy,
                request,
                fragment
            }),
            privacy.prop_map(Element::BpUp2),
            (0u8..8, any::<bool>(), stream).prop_map(|(priority, change, stream)| Element::DsService {
                priority,
                change,
                stream
            }),
            (9u8..16).prop_map(|kind| Element::Other { kind, value: &[7; 15][..usize::from(kind)] }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(element in element()) {
            let mut out = [0xee; 16];
            let len = element.emit(&mut out).unwrap();
            prop_assert_eq!(len, element.len());
            let mut back = Elements::of(&out[..len]);
            prop_assert_eq!((back.next(), back.next()), (Some(Ok(element)), None));
        }
    }
}
