//! A message with its header, from octets and to octets.

use crate::element::Reader;
use crate::header::{Header, set_len};
use crate::{MAX_IES, Message, Refusal};
use std::cell::Cell;

/// One message and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Session, sequence number, priority.
    pub header: Header,
    /// What is said.
    pub message: Message,
}

/// A message longer than its length field can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is longer than 65,535 octets")]
pub struct TooLong;

impl Packet {
    /// Reads the first message of a datagram; [`messages`] gives all of them.
    ///
    /// # Errors
    /// What is to be answered or ignored, and why.
    pub fn parse(datagram: &[u8]) -> Result<Packet, Refusal> {
        let parts = Header::split(datagram)?;
        let budget = Cell::new(MAX_IES);
        match Message::parse_ies(parts.message_type, &mut Reader::new(parts.ies, &budget)) {
            Some(Ok(message)) => Ok(Packet { header: parts.header, message }),
            Some(Err(fault)) => Err(Refusal::of_ie(&parts, fault)),
            None => Err(Refusal::UnknownMessage { message_type: parts.message_type }),
        }
    }

    /// Appends the message, header first.
    ///
    /// # Errors
    /// If it is too long; `out` is then as it was.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        write(&self.header, self.message.message_type(), out, |out| self.message.emit_ies(out))
    }

    /// The octets of the message.
    ///
    /// # Errors
    /// If it is too long.
    pub fn to_vec(&self) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::with_capacity(512);
        self.emit(&mut out)?;
        Ok(out)
    }
}

/// Appends a message: the header, and the IEs that `ies` writes.
pub(crate) fn write(
    header: &Header,
    message_type: u8,
    out: &mut Vec<u8>,
    ies: impl FnOnce(&mut Vec<u8>),
) -> Result<(), TooLong> {
    let start = out.len();
    header.emit(message_type, out);
    ies(out);
    set_len(out, start).ok_or_else(|| {
        out.truncate(start);
        TooLong
    })
}

/// The messages of a datagram, each as its octets: several if they are bundled (6.6), usually one.
///
/// A message that cannot be told from the next one ends the list, as its own last item.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(datagram);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        match Header::split(all) {
            Ok(parts) if parts.header.follow_on && !parts.behind.is_empty() => {
                rest = Some(parts.behind);
                Some(&all[..all.len() - parts.behind.len()])
            }
            _ => Some(all),
        }
    })
}
