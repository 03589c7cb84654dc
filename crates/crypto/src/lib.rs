//! Baseline Privacy (BPI+, CM-SP-SECv3.1) for the frames of many modems at once.
//!
//! Downstream a frame gets its CRC32 first; then the bytes from its 13th to its end, CRC included, are encrypted: the
//! addresses stay clear. The cipher is CBC, begun anew with the security association's initialization vector for every
//! frame; what is left over behind the last whole block is XORed with that block's ciphertext, encrypted once more
//! (residual termination).
//!
//! - [`Key`] is what a security association gives: algorithm, key, initialization vector.
//! - [`Engine`] holds expanded keys and takes frames in bulk. CBC can not go faster than one block after the other within
//!   a frame, so the engine works on many frames side by side: a frame may stay in it until later ones push it out, or
//!   until [`Engine::flush`].
//! - [`bpi`] is the same on plain bytes, one frame at a time, by RustCrypto: the fallback, and the oracle of the tests.

#![deny(unsafe_code)]

pub mod bpi;
mod engine;
mod key;
#[cfg(ipsec_mb)]
mod lanes;
#[cfg(not(ipsec_mb))]
mod no_lanes;

pub use engine::{Crc, Direction, Done, Engine, FLIGHT, Job, Outcome, ROOM};
pub use key::{Cipher, Key, KeyId};
