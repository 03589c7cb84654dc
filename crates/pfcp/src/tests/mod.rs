//! Messages of all kinds, at random, and what becomes of them here and elsewhere.

mod differential;
mod draw;
mod faults;
mod judges;
mod round_trip;

pub use draw::{Draw, opaque};

use crate::{Header, Message, Packet};

/// One message of each type, with any values: all IEs in each if `full`.
fn packets(seed: u64, full: bool) -> Vec<Packet> {
    let mut draw = Draw::new(seed, full);
    let packet = |(i, message): (usize, Message)| {
        let seid = message.is_session().then_some(seed);
        Packet { header: Header { seid, ..Header::node(i as u32) }, message }
    };
    Message::samples(&mut draw).into_iter().enumerate().map(packet).collect()
}
