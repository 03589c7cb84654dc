//! The information elements, a type each (8.2).
//!
//! Names are the standard's, in Rust's spelling; where it says "IPv4" the field is `ip4`. All are
//! [`Default`], so that rules are written with what matters and `..Default::default()`.

#[macro_use]
mod declare;
mod cause;
mod features;
mod identity;
mod name;
mod qos;
mod rule;
mod session;
mod time;
mod usage;

pub use cause::*;
pub use features::*;
pub use identity::*;
pub use name::*;
pub use qos::*;
pub use rule::*;
pub use session::*;
pub use time::*;
pub use usage::*;

/// An octet of flags, the first as its lowest bit.
fn octet_of<const N: usize>(flags: [bool; N]) -> u8 {
    flags.into_iter().rev().fold(0, |octet, flag| octet << 1 | u8::from(flag))
}

/// Octets after their length in two octets.
fn put_text16(text: &[u8], out: &mut Vec<u8>) {
    let len = text.len().min(usize::from(u16::MAX));
    out.extend((len as u16).to_be_bytes());
    out.extend(&text[..len]);
}

/// Octets after their length in one octet; longer ones are cut.
fn put_octets8(octets: &[u8], out: &mut Vec<u8>) {
    let len = octets.len().min(usize::from(u8::MAX));
    out.push(len as u8);
    out.extend(&octets[..len]);
}
