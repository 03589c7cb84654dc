//! Choosing the next hop.

use engine::{Burst, Ctx, Drop, Kind, Punt, Stage};
use wire::{checksum, fast};

use crate::forward::{Forwarding, InstanceId, NONE, NoHop};
use crate::parse::HasIp;

/// A lane that says where packets are to go and takes the answer.
pub trait HasHop: HasIp {
    /// The hop of packet `i`; [`NONE`]: to be looked up by destination.
    fn hop(&self, i: usize) -> u32;
    /// Sets the hop of packet `i`.
    fn set_hop(&mut self, i: usize, hop: u32);
    /// The routing domain packet `i` is to be forwarded in.
    fn instance(&self, i: usize) -> InstanceId;
    /// Header bytes that will be put before the user's packet, for the MTU check.
    fn overhead(&self, i: usize) -> u16;
}

/// State with forwarding tables.
pub trait HasForwarding {
    /// The tables of this burst.
    fn forwarding(&self) -> &Forwarding;
}

/// Finds the hop (unless the packet has one already, as tunnelled ones do), takes one from the TTL, and checks the
/// size against the hop's MTU. RFC 1812, 5.2 and 5.3; RFC 8200, 3 and 5.
pub struct Route;

impl<K: Kind> Stage<K> for Route
where
    K::Lane: HasHop,
    K::State: HasForwarding,
{
    const NAME: &'static str = "route";

    #[inline]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let at = cx.at();
        let tables = cx.state.forwarding();
        let arena = cx.env.arena();
        for i in burst.live() {
            let ip = *burst.lane.ip(i);
            let l3 = usize::from(burst.frame(i).meta.l3);
            if ip.ttl <= 1 {
                burst.punt(i, Punt::TtlExpired);
                continue;
            }
            let mut hop = burst.lane.hop(i);
            if hop == NONE {
                let instance = burst.lane.instance(i);
                let found = match ip.version {
                    4 => tables.hop4(instance, ip.dst),
                    _ => tables.hop6(instance, ip.dst6(burst.bytes(i, arena).get(l3..).unwrap_or_default())),
                };
                match found {
                    Ok(found) => hop = found,
                    Err(NoHop::NoRoute) => {
                        burst.drop(i, Drop::NoRoute, at);
                        continue;
                    }
                    Err(NoHop::Unresolved { .. }) => {
                        burst.punt(i, Punt::Resolve);
                        continue;
                    }
                }
                burst.lane.set_hop(i, hop);
            }
            let Some(next) = tables.hop(hop) else {
                burst.drop(i, Drop::NoRoute, at);
                continue;
            };
            if ip.total_len + u32::from(burst.lane.overhead(i)) > u32::from(next.mtu) {
                burst.punt(i, Punt::Oversize);
                continue;
            }
            if !next.is_resolved() {
                burst.punt(i, Punt::Resolve);
                continue;
            }
            burst.set_out(i, next.port);
            decrement_ttl(burst.bytes_mut(i, arena).get_mut(l3..).unwrap_or_default(), ip.version);
        }
    }
}

/// Takes one from the TTL or hop limit of the packet, mending the IPv4 checksum (RFC 1624).
#[inline]
pub fn decrement_ttl(packet: &mut [u8], version: u8) {
    if version == 4 {
        if let (Some(word), Some(check)) = (fast::be16(packet, 8), fast::be16(packet, 10)) {
            let less = word.wrapping_sub(0x0100);
            fast::put16(packet, 8, less);
            fast::put16(packet, 10, checksum::adjust16(check, word, less));
        }
    } else if let Some(limit) = packet.get_mut(7) {
        *limit = limit.wrapping_sub(1);
    }
}
