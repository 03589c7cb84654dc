//! Ports: where frames are received and sent. Each kind implements [`frame::Port`]; wrappers go around any of them.
//!
//! | URI | port |
//! |---|---|
//! | `memory:left` | frames of the same process, for tests: [`memory`] |
//! | `pcap:in.pcap?out=out.pcap&loop=3` | capture files in and out: [`pcap`] |
//! | `packet:eth0?mode=auto\|ring\|slots\|mmsg\|plain` | AF_PACKET: [`packet`] |
//! | `xdp:eth0?queue=0&copy=auto` | AF_XDP: [`xdp`] |
//! | `tun:ogstun?offloads=on` | a TUN interface of the host: [`tun`] |
//! | `dpdk:0000:00:05.0?queue=0&queues=1` | a DPDK device: crate `port-dpdk`, an optional part of a build |
//!
//! | key on any of them | wrapper |
//! |---|---|
//! | `tap=seen.pcapng` | [`tap`] writes packets to a capture file |
//! | `loss=0.01&dup=…&reorder=…&corrupt=…&truncate=…&seed=1&faults=rx\|tx\|both` | [`faulty`] loses, repeats, reorders or damages packets |
//! | `pace=100000pps` or `pace=1Gbit/s` | [`paced`] limits the sending rate |
//!
//! ```no_run
//! # fn main() -> Result<(), port::PortError> {
//! # let arena = frame::Arena::new(frame::ArenaConfig::default()).unwrap();
//! let mut pool = frame::Pool::new(&arena, 1024);
//! let mut cx = port::OpenContext::new(&mut pool);
//! let port = port::open(&"packet:eth0?mode=tpacket3".parse()?, &mut cx)?;
//! # Ok(()) }
//! ```

pub mod bpf;
pub mod capture;
mod changes;
mod claim;
pub mod clock;
mod error;
pub mod faulty;
pub mod flows;
pub mod helper;
pub mod host;
pub mod host_tap;
pub mod iface;
pub mod logical;
pub mod memory;
mod moderate;
pub mod netns;
mod note;
pub mod offload;
mod open;
pub mod paced;
pub mod packet;
pub mod pcap;
mod quiet;
mod shared;
pub mod tap;
pub mod tun;
pub mod udp;
mod uri;
pub mod xdp;

pub use error::PortError;
pub use frame::{Caps, Link, Port, PortCounters, PortHandover};
pub use memory::Wires;
pub use moderate::{Moderation, files as sys_files};
pub use open::{Offloads, OpenContext, Opener, open, set_borrowed, set_dpdk_opener, take_over};
pub use packet::{Look, Steer, SteerExtensions, SteerSpec, complete_checksum, steer_anew};
pub use uri::Uri;
