//! The DOCSIS MAC header (CM-SP-MULPI, MAC frame formats).
//!
//! ```text
//! | FC | MAC_PARM | LEN, 2 | extended header, MAC_PARM bytes | HCS, 2 | Ethernet frame from DA through CRC |
//! ```
//!
//! FC is TYPE `0xc0`, PARM `0x3e`, EHDR_ON `0x01`. LEN counts the extended header and everything behind the HCS. The
//! HCS is [`crate::crc::hcs`] from FC through the extended header, low byte first.

mod element;
mod header;
pub mod management;

pub use element::{Element, Elements, Privacy};
pub use header::{BondedPrivacy, Header, Kind, emit_bonded, emit_frame, emit_request};

/// FC, MAC_PARM, LEN and HCS: a header without extended header, in bytes.
pub const HEADER_LEN: usize = 6;
/// What the HCS takes, in bytes.
pub const HCS_LEN: usize = 2;
/// The most an extended header may take, in bytes (MAC_PARM is at most 240).
pub const MAX_EXTENDED: usize = 240;
/// The extended header of a bonded and encrypted downstream frame, in bytes: BP_DOWN of 5, DS service of 6.
const BONDED_EXTENDED: u8 = 5 + 6;
/// The header of such a frame, in bytes.
pub const BONDED_HEADER_LEN: usize = HEADER_LEN + BONDED_EXTENDED as usize;
/// Bytes of an Ethernet frame that are never encrypted: its addresses (CM-SP-SEC, BPI+).
pub const CLEAR: usize = 12;
/// Bytes of the Ethernet frame check sequence.
pub const CRC_LEN: usize = 4;
