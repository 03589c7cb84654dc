//! What the host sends by its interface: to the wire, with the port's tags.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use dataplane::forward::PortView;
use dataplane::limit::{Allowance, Limit};
use engine::PortId;
use port::host_tap::HostTap;
use wire::{Mac, ethernet, ethertype, fast, protocol};

/// Frames a second that are taken from a host interface, and at once: a full table of BGP is less.
const FRAMES: Allowance = Allowance::new(20_000, 2000);
/// Bytes of the longest frame that a TAP interface gives.
const LONGEST: usize = 65_536;
const ROUTER_SOLICITATION: u8 = 133;
const NEIGHBOUR_SOLICITATION: u8 = 135;

/// Takes frames from host interfaces, and counts them.
pub(super) struct FromHost {
    space: Vec<u8>,
    limits: BTreeMap<PortId, Limit>,
    began: Instant,
    /// When a daemon last sent a message of BGP, OSPF or IS-IS.
    pub(super) heard: Option<Instant>,
    /// Frames that went on to the wire.
    pub(super) sent: u64,
    /// Frames beyond the rate.
    pub(super) limited: u64,
    /// Frames that are not the daemons': from other hardware addresses, as of a bridge, or autoconfiguration of the host.
    pub(super) refused: u64,
}

impl Default for FromHost {
    fn default() -> Self {
        let (limits, began) = (BTreeMap::new(), Instant::now());
        Self { space: vec![0; LONGEST], limits, began, heard: None, sent: 0, limited: 0, refused: 0 }
    }
}

impl FromHost {
    /// The next frame of the host's by the interface of a port, as it is to be sent by that; inside none: it is not sent. None: there is no frame.
    ///
    /// # Errors
    /// The interface is gone, or is down.
    pub(super) fn next(&mut self, id: PortId, tap: &HostTap, port: &PortView) -> io::Result<Option<Option<Vec<u8>>>> {
        let Some(len) = tap.read(&mut self.space)? else { return Ok(None) };
        let now = self.began.elapsed().as_nanos() as u64; // 584 years
        let frame = self.space.get(..len).unwrap_or_default();
        if is_routing(frame) {
            self.heard = Some(Instant::now());
        }
        let frame = to_wire(frame, port);
        let limit = self.limits.entry(id).or_insert_with(|| Limit::new(FRAMES));
        Ok(Some(match frame {
            None => {
                self.refused += 1;
                None
            }
            Some(_) if !limit.allow(now) => {
                self.limited += 1;
                None
            }
            Some(frame) => {
                self.sent += 1;
                Some(frame)
            }
        }))
    }
}

/// Whether a frame is of a protocol by which daemons announce prefixes: TCP, OSPF, or IS-IS, which has a length for a type.
pub(super) fn is_routing(frame: &[u8]) -> bool {
    const OSPF: u8 = 89;
    let Some((head, packet)) = frame.split_first_chunk::<14>() else { return false };
    let protocol = match u16::from_be_bytes([head[12], head[13]]) {
        ethertype::IP4 => packet.get(9),
        ethertype::IP6 => packet.get(6),
        kind => return kind <= 1500,
    };
    protocol.is_some_and(|protocol| [protocol::TCP, OSPF].contains(protocol))
}

/// A frame with the port's tags; none: it stays here.
pub(super) fn to_wire(frame: &[u8], port: &PortView) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_first_chunk::<14>()?;
    let (dst, src) = (Mac(fast::array(head, 0)?), Mac(fast::array(head, 6)?));
    let ethertype = u16::from_be_bytes([head[12], head[13]]);
    if src.0 != port.mac || (ethertype == ethertype::IP6 && is_autoconfiguration(payload)) {
        return None;
    }
    let head = ethernet::Repr { dst, src, tags: port.tags, ethertype };
    let mut out = vec![0; head.header_len() + payload.len()];
    let at = head.emit(&mut out).ok()?;
    out.get_mut(at..)?.copy_from_slice(payload);
    Some(out)
}

/// The kernel's search for duplicates of addresses that are the port's as well, and for routers: nothing of a daemon's.
fn is_autoconfiguration(packet: &[u8]) -> bool {
    let is_icmp = packet.get(6) == Some(&protocol::ICMP6);
    let unspecified = packet.get(8..24).is_some_and(|source| source == [0; 16]);
    match packet.get(40) {
        Some(&ROUTER_SOLICITATION) => is_icmp,
        Some(&NEIGHBOUR_SOLICITATION) => is_icmp && unspecified,
        _ => false,
    }
}
