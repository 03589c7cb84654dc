//! Baseline Privacy (BPI+, CM-SP-SECv3.1) for the frames of many modems at once.
//!
//! ```
//! use crypto::{Key, bpi};
//!
//! let schedule = bpi::Schedule::new(&Key::aes128([7; 16], [9; 16]));
//! let mut body = *b"type, payload and CRC of a frame"; // from the 13th byte to the end
//! schedule.encrypt(&mut body);
//! schedule.decrypt(&mut body);
//! assert_eq!(&body, b"type, payload and CRC of a frame");
//! ```
//!
//! Downstream a frame gets its CRC32 first; then the bytes from its 13th to its end, CRC included, are encrypted: the
//! addresses stay in clear. The cipher is CBC, restarted with the security association's initialization vector for
//! every frame; the bytes behind the last whole block are XORed with that block's ciphertext, encrypted once more
//! (residual termination).
//!
//! - [`Key`]: algorithm, key and initialization vector of a security association.
//! - [`Engine`]: expanded keys, and encryption of frames in bulk. CBC is sequential within a frame, so the engine
//!   works on many frames in parallel: a frame can stay in it until later ones push it out, or until
//!   [`Engine::flush`].
//! - [`Library`]: the library's own calls without an engine around them, to compare with.
//! - [`bpi`]: the same on plain bytes, one frame at a time, by RustCrypto: the fallback, and the reference of the
//!   tests.

#![deny(unsafe_code)]

pub mod bpi;
mod engine;
mod key;
#[cfg(ipsec_mb)]
mod lanes;
mod library;
#[cfg(not(ipsec_mb))]
mod no_lanes;

pub use engine::{Crc, Direction, Done, Engine, FLIGHT, Job, Outcome, ROOM};
pub use key::{Cipher, Key, KeyId};
pub use library::Library;
