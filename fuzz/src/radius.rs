//! What the RADIUS target does with its bytes; `crates/radius/tests/replay.rs` includes this file.

use radius::coa::Server;
use radius::{Attribute, Packet, Secret, accounting};
use std::net::SocketAddr;
use std::time::Duration;

/// A packet that can be read is the same when it is written and read again; nothing unsigned is accepted.
pub fn radius_packet(bytes: &[u8]) {
    let secret = Secret(b"secret".to_vec());
    let from = SocketAddr::from(([192, 0, 2, 1], 3799));
    let mut server = Server::new([(from.ip(), secret.clone())], Duration::from_secs(300), false, 4);
    assert!(server.receive(from, bytes, 0, 0).is_err() || bytes.len() >= 38);
    if let Some(attributes) = accounting::from_record(bytes) {
        assert_eq!(accounting::to_record(&attributes).as_deref(), Ok(bytes));
    }
    let Ok(packet) = Packet::parse(bytes) else { return };
    for attribute in &packet.attributes {
        if let Some((prefix, len)) = attribute.to_prefix6() {
            let again = Attribute::prefix6(attribute.code, prefix, len);
            assert_eq!(again.to_prefix6().map(|(_, len)| len), Some(len));
        }
    }
    // Packed attributes of vendors take more room when each is written by itself.
    let Ok(octets) = packet.request(&secret) else { return };
    let read = Packet::read_request(&octets, &secret).expect("signed");
    assert_eq!((read.code, read.id, &read.attributes), (packet.code, packet.id, &packet.attributes));
    server.receive(from, &octets, 0, 0).ok();
}
