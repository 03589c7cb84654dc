//! Datagrams to be sent, in one buffer.

use std::net::SocketAddr;

/// Datagrams one after the other.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    octets: Vec<u8>,
    /// To whom, and where in `octets` the datagram ends.
    datagrams: Vec<(SocketAddr, usize)>,
}

impl Outbox {
    /// Adds a datagram.
    pub fn push(&mut self, to: SocketAddr, octets: &[u8]) {
        self.octets.extend(octets);
        self.datagrams.push((to, self.octets.len()));
    }

    /// Adds a datagram that `write` appends, and says where it is; nothing is added if that fails.
    pub fn write<E>(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<&[u8], E> {
        let start = self.octets.len();
        write(&mut self.octets)?;
        self.datagrams.push((to, self.octets.len()));
        Ok(&self.octets[start..])
    }

    /// Hands all datagrams over, in order.
    pub fn drain(&mut self, mut send: impl FnMut(SocketAddr, &[u8])) {
        let mut start = 0;
        for (to, end) in self.datagrams.drain(..) {
            send(to, &self.octets[start..end]);
            start = end;
        }
        self.octets.clear();
    }
}
