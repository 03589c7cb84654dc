//! Choosing the next hop.

use engine::{Burst, Ctx, Kind, Live, Stage};
use frame::Arena;

use crate::forward::{Forwarding, InstanceId, NONE, NoHop, ON_LINK};
use crate::parse::HasIp;
use crate::{drops, punts};

/// A lane that says where packets are to go and takes the answer.
pub trait HasHop: HasIp {
    /// The hop of packet `i`; [`NONE`]: to be looked up by destination.
    fn hop(&self, i: usize) -> u32;
    /// Sets the hop of packet `i`.
    fn set_hop(&mut self, i: usize, hop: u32);
    /// The routing domain packet `i` is to be forwarded in.
    fn instance(&self, i: usize) -> InstanceId;
    /// Sets the routing domain of packet `i`.
    fn set_instance(&mut self, i: usize, instance: InstanceId);
    /// Header bytes that will be put before the user's packet, for the MTU check.
    #[inline(always)]
    fn overhead(&self, _i: usize) -> u16 {
        0
    }
    /// Whether packet `i` is only passed on, from one tunnel to another: no hop of its own way (TS 29.281, 4.4).
    #[inline(always)]
    fn is_relayed(&self, _i: usize) -> bool {
        false
    }
    /// Packets that have their hop's link header already: it came with a tunnel's.
    #[inline(always)]
    fn linked(&self) -> Live {
        Live::default()
    }
}

/// State with forwarding tables.
pub trait HasForwarding {
    /// The tables of this burst.
    fn forwarding(&self) -> &Forwarding;
}

/// Finds the hop (unless the packet has one already, as tunnelled ones do), checks that the TTL of what is not merely
/// relayed has one to take, and the size against the hop's MTU. RFC 1812, 5.2 and 5.3; RFC 8200, 3 and 5. The one is taken
/// by whoever puts the next header before the packet, who has its bytes in hand: [`RewriteL2`](crate::rewrite::RewriteL2),
/// or the stage of a tunnel.
#[derive(Default)]
pub struct Route {
    recent: Recent,
}

/// Destinations whose hop is remembered, a power of two.
const RECENT: usize = 64;

/// IPv4 destinations that took more than a glance at the routes, such as those on a link of ours, with their hops: a walk
/// through the routes and a look for the neighbour cost 45 ns more than this.
struct Recent {
    /// The tables the hops are of.
    version: u64,
    entries: [CachedRoute; RECENT],
}

#[derive(Clone, Copy)]
struct CachedRoute {
    to: u32,
    instance: InstanceId,
    hop: u32,
}

impl Default for Recent {
    fn default() -> Self {
        Self { version: 0, entries: [CachedRoute { to: 0, instance: 0, hop: NONE }; RECENT] }
    }
}

impl Recent {
    /// Forgets everything that is not of these tables.
    #[inline(always)]
    fn belong_to(&mut self, tables: &Forwarding) {
        if self.version != tables.version() {
            *self = Self { version: tables.version(), ..Self::default() };
        }
    }

    #[inline(always)]
    fn place(to: u32, instance: InstanceId) -> usize {
        let mixed = (to ^ u32::from(instance) << 16).wrapping_mul(0x9e37_79b1);
        (mixed >> 16) as usize % RECENT
    }

    /// The hop, or [`NONE`].
    #[inline(always)]
    fn get(&self, to: u32, instance: InstanceId) -> u32 {
        let entry = &self.entries[Self::place(to, instance)];
        if entry.to == to && entry.instance == instance { entry.hop } else { NONE }
    }

    #[inline(always)]
    fn put(&mut self, to: u32, instance: InstanceId, hop: u32) {
        self.entries[Self::place(to, instance)] = CachedRoute { to, instance, hop };
    }
}

impl<K: Kind> Stage<K> for Route
where
    K::Lane: HasHop,
    K::State: HasForwarding,
{
    const NAME: &'static str = "route";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let at = cx.at();
        let tables = cx.state.forwarding();
        let arena = cx.env.arena();
        self.recent.belong_to(tables);
        for i in burst.live() {
            let ip = burst.lane.ip(i);
            let total_len = ip.total_len;
            if ip.ttl <= 1 && !burst.lane.is_relayed(i) {
                burst.punt(i, punts::TTL_EXPIRED);
                continue;
            }
            let mut hop = burst.lane.hop(i);
            if hop == NONE && burst.lane.ip(i).version == 4 {
                hop = tables.glance4(burst.lane.instance(i), burst.lane.ip(i).dst);
                burst.lane.set_hop(i, hop);
            }
            if hop & ON_LINK != 0 {
                hop = match find(&mut self.recent, burst, i, tables, arena) {
                    Ok(found) => found,
                    Err(NoHop::NoRoute) => {
                        burst.punt(i, punts::NO_ROUTE);
                        continue;
                    }
                    Err(NoHop::Unresolved { .. }) => {
                        burst.punt(i, punts::RESOLVE);
                        continue;
                    }
                };
                burst.lane.set_hop(i, hop);
            }
            let Some(next) = tables.hop(hop) else {
                burst.drop(i, drops::NO_ROUTE, at);
                continue;
            };
            if total_len + u32::from(burst.lane.overhead(i)) > u32::from(next.mtu) {
                burst.punt(i, punts::OVERSIZE);
                continue;
            }
            if !next.is_resolved() {
                burst.punt(i, punts::RESOLVE);
                continue;
            }
            burst.set_out(i, next.port);
        }
    }
}

/// The hop of a packet that is routed by its destination.
#[inline(never)]
fn find<K: Kind>(
    recent: &mut Recent,
    burst: &Burst<K>,
    i: usize,
    tables: &Forwarding,
    arena: &Arena,
) -> Result<u32, NoHop>
where
    K::Lane: HasHop,
{
    let (ip, instance) = (burst.lane.ip(i), burst.lane.instance(i));
    if ip.version == 4 {
        let known = recent.get(ip.dst, instance);
        if known != NONE {
            return Ok(known);
        }
        let (hop, is_everyones) = tables.flow_hop4(instance, ip.src, ip.dst)?;
        if is_everyones {
            recent.put(ip.dst, instance, hop);
        }
        return Ok(hop);
    }
    let l3 = usize::from(burst.frame(i).meta.l3);
    let packet = burst.bytes(i, arena).get(l3..).unwrap_or_default();
    tables.flow_hop6(instance, ip.src6(packet), ip.dst6(packet))
}

/// Takes one from the TTL or hop limit of the packet, which is not zero, mending the IPv4 checksum.
#[inline(always)]
pub fn decrement_ttl(packet: &mut [u8], version: u8) {
    if version == 4 {
        // TTL, protocol and checksum as one word, the first byte its lowest.
        if let Some(word) = packet.get_mut(8..).and_then(|rest| rest.first_chunk_mut()) {
            let old = u32::from_le_bytes(*word);
            // The word of TTL and protocol falls by 0x0100 (unless it was below: such packets are not sent on), so the
            // checksum rises by as much, in one's complement, and never becomes 0xffff (RFC 1624, 3 and 4). Sums in one's
            // complement are the same in either order of bytes.
            let rises = 1 + u32::from(old >= 0xfffe_0000);
            *word = old.wrapping_add(rises << 16).wrapping_sub(1).to_le_bytes();
        }
    } else if let Some(limit) = packet.get_mut(7) {
        *limit = limit.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use wire::{checksum, fast};

    use super::*;

    #[test]
    fn the_checksum_falls_with_the_ttl_as_if_made_anew() {
        for (ttl, check) in (2..=255u8).flat_map(|ttl| (0..=u16::MAX).step_by(7).map(move |check| (ttl, check))) {
            let mut packet = [0u8; 20];
            (packet[0], packet[8], packet[9]) = (0x45, ttl, 17);
            fast::put16(&mut packet, 10, check);
            decrement_ttl(&mut packet, 4);
            let old = u16::from_be_bytes([ttl, 17]);
            assert_eq!(fast::be16(&packet, 10), Some(checksum::adjust16(check, old, old - 0x0100)), "{ttl} {check:#x}");
            assert_eq!(packet[8], ttl - 1);
        }
        let mut packet = [0x60, 0, 0, 0, 0, 0, 17, 64, 9];
        decrement_ttl(&mut packet, 6);
        assert_eq!(packet, [0x60, 0, 0, 0, 0, 0, 17, 63, 9]);
        decrement_ttl(&mut packet[..7], 6);
        decrement_ttl(&mut packet[..7], 4);
    }
}
