//! Out of a data network's tunnel.

use dataplane::parse::{HasIp, malformed};
use engine::{Burst, Drop};
use frame::Arena;
use wire::{Fragment, L3L4, protocol};

use crate::drops;
use crate::lane::Upf;
use crate::record::match_flags;

/// Takes the IP header off a packet, and UDP's if `flags` say so (Outer Header Removal, 3GPP TS 29.244, 8.2.64): what
/// stands behind is the user's. Its length is checked; it is looked at no further.
///
/// # Errors
/// The reason to drop the packet.
#[cold]
#[inline(never)]
pub(super) fn remove_header(burst: &mut Burst<Upf>, i: usize, flags: u16, arena: &Arena) -> Result<(), Drop> {
    const UDP: usize = 8;
    let ip = *burst.lane.ip(i);
    if ip.fragment != Fragment::Whole {
        return Err(drops::OUTER_FRAGMENT);
    }
    let behind = match ip.protocol {
        protocol::UDP if flags & match_flags::REMOVES_UDP != 0 => usize::from(ip.l4) + UDP,
        protocol::IP4 | protocol::IP6 if flags & match_flags::REMOVES_IP != 0 => ip.l4.into(),
        _ => return Err(drops::MALFORMED),
    };
    let l3 = usize::from(burst.frame(i).meta.l3) + behind;
    let inner = L3L4::parse(burst.bytes(i, arena).get(l3..).unwrap_or_default()).map_err(malformed)?;
    let frame = burst.frame_mut(i);
    frame.meta.l3 = l3 as u16; // within a frame
    let _ = frame.truncate(frame.meta.l3 + inner.total_len as u16); // fits: it was checked
    *burst.lane.ip_mut(i) = inner;
    Ok(())
}
