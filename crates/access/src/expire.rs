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

/// As [`expire`], of pools of which a relay agent has leases, too: `ended` is called for each granted lease that ends,
/// while it is still there.
pub fn expire_with(
    pools: &mut Pools,
    (dhcp4, dhcp6): (&mut Dhcp4Server, &mut Dhcp6Server),
    now: Time,
    most: usize,
    mut ended: impl FnMut(&Pools, u32),
) -> bool {
    pools.expire(now, most, |pools, slot| {
        ended(pools, slot);
        let (lease, place) = (pools.record(slot), pools.place(slot));
        match lease.key.kind {
            Kind::Ip4 => dhcp4.expired(place, lease),
            Kind::Na | Kind::Pd => dhcp6.expired(place, lease),
        }
    })
}
