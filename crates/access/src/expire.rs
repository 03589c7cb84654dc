//! The end of leases in time.

use crate::Time;
use crate::dhcp4::Dhcp4Server;
use crate::dhcp6::Dhcp6Server;
use crate::lease::Kind;
use crate::pool::Pools;

/// Ends up to `most` leases and offers whose time is over. Records are erased by the server that stored them, so that an erasure
/// never overtakes, or is overtaken by, a record of the same client. Returns whether more are due.
pub fn expire(
    pools: &mut Pools,
    mut dhcp4: Option<&mut Dhcp4Server>,
    mut dhcp6: Option<&mut Dhcp6Server>,
    now: Time,
    most: usize,
) -> bool {
    pools.expire(now, most, |pools, slot| {
        let (lease, place) = (pools.record(slot), pools.place(slot));
        match (lease.key.kind, &mut dhcp4, &mut dhcp6) {
            (Kind::Ip4, Some(server), _) => server.expired(place, lease),
            (Kind::Na | Kind::Pd, _, Some(server)) => server.expired(place, lease),
            _ => {}
        }
    })
}
