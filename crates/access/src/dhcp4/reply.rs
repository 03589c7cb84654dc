//! Replies: options as configured, and where a reply goes.

use super::message::MAGIC;
use super::{Message, Type};
use crate::Line;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Mac;

/// Smallest message that every client takes (RFC 1542 clause 2.1), in bytes.
const MIN_LEN: usize = 300;

/// Options of OFFER and ACK (RFC 2132).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Length of the subnet's prefix, for option 1.
    pub prefix_len: u8,
    /// Routers, option 3. Some clients start over without one.
    pub routers: Vec<Ipv4Addr>,
    /// Domain name servers (option 6), in order of preference.
    pub dns: Vec<Ipv4Addr>,
    /// Domain name, option 15; empty: none.
    pub domain: String,
    /// NTP servers (option 42), in order of preference.
    pub ntp: Vec<Ipv4Addr>,
    /// Classless static routes, option 121 (RFC 3442): destination, prefix length, router.
    pub routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    /// Renewal time T1, option 58; half the lease if there is none.
    pub t1: Option<Duration>,
    /// Rebinding time T2, option 59; 7/8 of the lease if there is none.
    pub t2: Option<Duration>,
}

/// A configured option that does not fit its format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// Option code, and its length in octets, which is more than 255.
    #[error("DHCP option {0} takes {1} bytes; at most 255 fit")]
    TooLong(u8, usize),
    /// Option code, and a prefix length above 32.
    #[error("DHCP option {0}: a prefix length of {1} is invalid; allowed: 0 to 32")]
    PrefixLen(u8, u8),
    /// T1, T2 and lease time in seconds, which are not in ascending order.
    #[error("T1 of {0} s, T2 of {1} s and a lease of {2} s: each must be shorter than the next")]
    Times(u32, u32, u32),
}

fn put(out: &mut Vec<u8>, code: u8, data: &[u8]) -> Result<(), BadOption> {
    if data.is_empty() {
        return Ok(());
    }
    let len = u8::try_from(data.len()).map_err(|_| BadOption::TooLong(code, data.len()))?;
    out.extend_from_slice(&[code, len]);
    out.extend_from_slice(data);
    Ok(())
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

impl Options {
    fn times(&self, lease: Duration) -> (u32, u32) {
        let t1 = self.t1.unwrap_or(lease / 2);
        (seconds(t1), seconds(self.t2.unwrap_or(lease / 8 * 7)))
    }

    /// The options of an OFFER or ACK that do not depend on the client. The lease's times come first.
    pub(super) fn encode(&self, lease: Duration) -> Result<Vec<u8>, BadOption> {
        let (t1, t2) = self.times(lease);
        let whole = seconds(lease);
        if t1 >= t2 || t2 >= whole {
            return Err(BadOption::Times(t1, t2, whole));
        }
        if self.prefix_len > 32 {
            return Err(BadOption::PrefixLen(1, self.prefix_len));
        }
        let mut out = Vec::new();
        put(&mut out, 51, &whole.to_be_bytes())?;
        put(&mut out, 58, &t1.to_be_bytes())?;
        put(&mut out, 59, &t2.to_be_bytes())?;
        debug_assert_eq!(out.len(), TIMES_LEN);
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_len)).unwrap_or(0);
        put(&mut out, 1, &mask.to_be_bytes())?;
        let octets = |list: &[Ipv4Addr]| list.iter().flat_map(|a| a.octets()).collect::<Vec<u8>>();
        put(&mut out, 3, &octets(&self.routers))?;
        put(&mut out, 6, &octets(&self.dns))?;
        put(&mut out, 15, self.domain.as_bytes())?;
        put(&mut out, 42, &octets(&self.ntp))?;
        let mut routes = Vec::new();
        for (destination, len, router) in &self.routes {
            if *len > 32 {
                return Err(BadOption::PrefixLen(121, *len));
            }
            routes.push(*len);
            routes.extend_from_slice(&destination.octets()[..usize::from(len.div_ceil(8))]);
            routes.extend_from_slice(&router.octets());
        }
        put(&mut out, 121, &routes)?;
        Ok(out)
    }
}

/// Bytes of options 51, 58 and 59.
const TIMES_LEN: usize = 18;

/// Where a reply goes (RFC 2131 clause 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To the relay agent, UDP port 67.
    Relay(Ipv4Addr),
    /// To the client by its MAC, or a router's before it, UDP port 68: it may not answer ARP yet.
    Unicast(Mac, Ipv4Addr),
    /// To everybody on the line, UDP port 68.
    Broadcast,
}

/// A reply to be sent from UDP port 67.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Port and VLAN pair that the reply leaves by.
    pub line: Line,
    /// Source address of the IP packet: the server identifier (option 54).
    pub server: Ipv4Addr,
    /// Addresses of IP packet and frame.
    pub to: Destination,
    /// DHCP message type (option 53): OFFER, ACK or NAK.
    pub kind: Type,
    /// The address offered or granted; unspecified in other replies.
    pub address: Ipv4Addr,
    /// UDP payload, from the `op` octet on.
    pub octets: Vec<u8>,
}

/// A reply in the making.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub line: Line,
    /// The frame's source: the client's MAC, or a router's on the way to it.
    pub source: Mac,
    pub server: Ipv4Addr,
    pub message: &'a Message<'a>,
    pub kind: Type,
    pub lease: Duration,
    pub fixed: &'a [u8],
}

impl Draft<'_> {
    /// An OFFER or ACK with `yiaddr`, times and configured options.
    pub fn lease(self, address: Ipv4Addr) -> Reply {
        let message = self.message;
        let broadcast = message.flags & Message::BROADCAST != 0;
        let to = match (message.giaddr.is_unspecified(), message.ciaddr.is_unspecified()) {
            (false, _) => Destination::Relay(message.giaddr),
            (true, false) => Destination::Unicast(self.source, message.ciaddr),
            (true, true) if broadcast => Destination::Broadcast,
            (true, true) => Destination::Unicast(self.source, address),
        };
        debug_assert_eq!(seconds(self.lease).to_be_bytes(), self.fixed[2..6]);
        let ciaddr = if self.kind == Type::Ack { message.ciaddr } else { Ipv4Addr::UNSPECIFIED };
        self.finish(to, address, ciaddr, self.fixed)
    }

    /// The ACK to an INFORM: no address, no times (RFC 2131 clause 4.3.5).
    pub(crate) fn inform(self) -> Reply {
        let message = self.message;
        let to = if message.giaddr.is_unspecified() {
            Destination::Unicast(self.source, message.ciaddr)
        } else {
            Destination::Relay(message.giaddr)
        };
        self.finish(to, Ipv4Addr::UNSPECIFIED, message.ciaddr, &self.fixed[TIMES_LEN..])
    }

    /// A NAK: broadcast, as the client's address is wrong here; by the relay with the broadcast bit (clause 4.3.2).
    pub fn refuse(self) -> Reply {
        let message = self.message;
        let relayed = !message.giaddr.is_unspecified();
        let to = if relayed { Destination::Relay(message.giaddr) } else { Destination::Broadcast };
        self.finish(to, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, &[])
    }

    fn finish(self, to: Destination, yiaddr: Ipv4Addr, ciaddr: Ipv4Addr, options: &[u8]) -> Reply {
        let message = self.message;
        let nak_by_relay = self.kind == Type::Nak && matches!(to, Destination::Relay(_));
        let flags = if nak_by_relay { message.flags | Message::BROADCAST } else { message.flags };
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(&[2, 1, 6, 0]);
        out.extend_from_slice(&message.xid.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&flags.to_be_bytes());
        for address in [ciaddr, yiaddr, Ipv4Addr::UNSPECIFIED, message.giaddr] {
            out.extend_from_slice(&address.octets());
        }
        out.extend_from_slice(&message.chaddr.0);
        out.resize(236, 0);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[53, 1, self.kind as u8, 54, 4]);
        out.extend_from_slice(&self.server.octets());
        out.extend_from_slice(options);
        // Echoed: option 61 (RFC 6842), and option 82 as it came, last (RFC 3046 clause 2.2).
        for (code, data) in [(61, message.client_id), (82, message.agent)] {
            if let Some(data) = data {
                out.extend_from_slice(&[code, data.len() as u8]);
                out.extend_from_slice(data);
            }
        }
        out.push(255);
        if out.len() < MIN_LEN {
            out.resize(MIN_LEN, 0);
        }
        Reply { line: self.line, server: self.server, to, kind: self.kind, address: yiaddr, octets: out }
    }
}
