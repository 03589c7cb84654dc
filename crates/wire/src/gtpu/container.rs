//! The PDU Session Container (3GPP TS 38.415, 5.5.2), carried as GTP-U extension header 0x85.
//!
//! ```text
//!            7   6   5   4   3   2   1   0
//! down   0 |      type 0   |QMP|SNP|MSN| - |     up   0 |      type 1   |QMP|DDI|UDI|SNP|
//!        1 |PPP|RQI|   QoS flow identifier |          1 |NDI|NIE|   QoS flow identifier |
//!        2 |    PPI    | -  (if PPP)       |          … time stamps (QMP), delays (DDI, UDI),
//!        … time stamp (QMP), sequence              sequence number (SNP), N3/N9 delay (NDI)
//!          numbers (SNP, MSN), padding             and further elements (NIE), padding
//! ```
//!
//! Written without measurement fields; read past them.

use crate::fast::be8;
use crate::{Malformed, NoRoom, Qfi};

/// A PDU Session Container, in one of its two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// DL PDU SESSION INFORMATION, PDU type 0 (5.5.2.1).
    Down {
        /// The QoS flow the packet belongs to.
        qfi: Qfi,
        /// Reflective QoS: the UE shall derive its uplink rules from this packet.
        rqi: bool,
        /// Paging Policy Indicator, 0 to 7, if paging policies are told apart.
        ppi: Option<u8>,
    },
    /// UL PDU SESSION INFORMATION, PDU type 1 (5.5.2.2).
    Up {
        /// The QoS flow the packet belongs to.
        qfi: Qfi,
    },
}

impl Container {
    /// The whole extension header without any optional field, in bytes.
    pub const SHORT_LEN: usize = 4;

    /// For the downlink, without reflective QoS or paging policy.
    pub const fn down(qfi: Qfi) -> Container {
        Container::Down { qfi, rqi: false, ppi: None }
    }

    /// For the uplink.
    pub const fn up(qfi: Qfi) -> Container {
        Container::Up { qfi }
    }

    /// The QoS flow identifier.
    pub const fn qfi(&self) -> Qfi {
        match *self {
            Container::Down { qfi, .. } | Container::Up { qfi } => qfi,
        }
    }

    /// Read an extension header's content, as [`super::Extension::content`] yields it.
    ///
    /// Checks that every field its flags announce is there; PDU types 2 to 15 are refused as [`Malformed::BadType`].
    pub fn parse(content: &[u8]) -> Result<Container, Malformed> {
        let first = be8(content, 0).ok_or(Malformed::BadExtension)?;
        let second = be8(content, 1).ok_or(Malformed::BadExtension)?;
        let has = |byte: u8, bit: u8, len: usize| if byte & 1 << bit != 0 { len } else { 0 };
        let qfi = Qfi(second & 0x3f);
        let (container, len) = match first >> 4 {
            0 => {
                let ppp = second & 0x80 != 0;
                let ppi = if ppp { Some(be8(content, 2).ok_or(Malformed::BadExtension)? >> 5) } else { None };
                let len = 2 + usize::from(ppp) + has(first, 3, 8) + has(first, 2, 3) + has(first, 1, 4);
                (Container::Down { qfi, rqi: second & 0x40 != 0, ppi }, len)
            }
            1 => {
                let delays = has(first, 2, 4) + has(first, 1, 4) + has(second, 7, 4);
                let len = 2 + has(first, 3, 24) + delays + has(first, 0, 3) + has(second, 6, 1);
                (Container::Up { qfi }, len)
            }
            _ => return Err(Malformed::BadType),
        };
        if len > content.len() {
            return Err(Malformed::BadExtension);
        }
        Ok(container)
    }

    /// Bytes of the extension header, its length and next-type octets included: a multiple of four.
    pub(crate) const fn extension_len(&self) -> usize {
        match self {
            Container::Down { ppi: Some(_), .. } => 8,
            _ => Self::SHORT_LEN,
        }
    }

    /// Write the extension header to the front of `out`, naming `next` as the one behind it; returns its length.
    pub fn emit_extension(&self, next: u8, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.extension_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        out.fill(0);
        out[0] = (len / 4) as u8;
        match *self {
            Container::Down { qfi, rqi, ppi } => {
                out[2] = u8::from(ppi.is_some()) << 7 | u8::from(rqi) << 6 | qfi.0 & 0x3f;
                if let Some(ppi) = ppi {
                    out[3] = ppi << 5;
                }
            }
            Container::Up { qfi } => {
                out[1] = 0x10;
                out[2] = qfi.0 & 0x3f;
            }
        }
        out[len - 1] = next;
        Ok(len)
    }
}

#[cfg(test)]
pub(super) fn strategy() -> impl proptest::strategy::Strategy<Value = Option<Container>> {
    use proptest::prelude::*;
    let qfi = || (0u8..64).prop_map(Qfi);
    proptest::option::of(prop_oneof![
        (qfi(), any::<bool>(), proptest::option::of(0u8..8)).prop_map(|(qfi, rqi, ppi)| Container::Down {
            qfi,
            rqi,
            ppi
        }),
        qfi().prop_map(Container::up),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_both_directions() {
        let mut out = [0xee; 8];
        assert_eq!(Container::up(Qfi(5)).emit_extension(0, &mut out), Ok(4));
        assert_eq!(out[..4], [1, 0x10, 5, 0]);
        let down = Container::Down { qfi: Qfi(9), rqi: true, ppi: Some(5) };
        assert_eq!(down.emit_extension(0xc0, &mut out), Ok(8));
        assert_eq!(out, [2, 0x00, 0xc9, 0xa0, 0, 0, 0, 0xc0]);
        assert_eq!(down.emit_extension(0, &mut out[..7]), Err(NoRoom));
    }

    #[test]
    fn reads_past_measurements_and_misses_none() {
        // QMP and SNP: 2 + 8 + 3 bytes, padded to 14.
        let mut down = [0u8; 14];
        (down[0], down[1]) = (0x0c, 7);
        assert_eq!(Container::parse(&down), Ok(Container::down(Qfi(7))));
        assert_eq!(Container::parse(&down[..10]), Err(Malformed::BadExtension));
        let mut up = [0u8; 30];
        (up[0], up[1]) = (0x19, 3);
        assert_eq!(Container::parse(&up), Ok(Container::up(Qfi(3))));
        assert_eq!(Container::parse(&up[..26]), Err(Malformed::BadExtension));
        assert_eq!(Container::parse(&[0x20, 0]), Err(Malformed::BadType));
        assert_eq!(Container::parse(&[0x00, 0x80]), Err(Malformed::BadExtension));
        assert_eq!(Container::parse(&[0x00]), Err(Malformed::BadExtension));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(container in strategy(), next: u8) {
            if let Some(container) = container {
                let mut out = [0xee; 8];
                let len = container.emit_extension(next, &mut out).unwrap();
                prop_assert_eq!(Container::parse(&out[1..len - 1]), Ok(container));
                prop_assert_eq!(out[len - 1], next);
            }
        }
    }
}
