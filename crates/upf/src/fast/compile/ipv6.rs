//! IPv6 filters and rules of a session's record → those of the program.

use dataplane::filter::{Filter6, Traits};
use table::records::Line;

use super::super::record::{self as kernel, Direction6};
use super::{Cells, NotEligible, part, rule};
use crate::fast::FastPath;
use crate::record::{self, Action, Match, NONE8, match_flags};

/// Where the tunnel endpoint stands in the state, and its bits there.
const END_SHIFT: u32 = 4;
const END_BITS: u8 = 0xf0;

/// What the program does with a direction's IPv6 packets: rules by precedence, a filter for everything where one has none.
pub(super) fn direction(
    lines: &[Line],
    uplink: bool,
    teids: &[u32],
    cells: &Cells,
    path: &FastPath,
) -> Result<Direction6, NotEligible> {
    let head = record::head(lines).ok_or(NotEligible::NoRoom)?;
    let (up, down) = record::matches(lines, head).split_at_checked(head.up.into()).ok_or(NotEligible::NoRoom)?;
    let (mut direction, mut count) = (Direction6::NONE, 0);
    for found in if uplink { up } else { down } {
        let filters = filters(lines, found)?;
        if filters.is_empty() {
            continue;
        }
        let action = part::<Action>(lines, found.then.action)?;
        let rule = rule(&found.then, &action, uplink, cells, path)?;
        if uplink && !path.has_routes6(action.instance.into()) {
            return Err(NotEligible::InstanceRoutes);
        }
        let end = teids.iter().position(|teid| *teid == found.teid).filter(|_| uplink).unwrap_or(0);
        for filter in filters {
            let places = direction.filters.get_mut(count).zip(direction.rules.get_mut(count));
            let (to, place) = places.ok_or(NotEligible::TooManyRules)?;
            *to = compile(&filter, end as u8, found.then.qfi)?; // an endpoint of a few
            *place = rule;
            count += 1;
        }
    }
    Ok(direction)
}

/// A rule's IPv6 filters; none: it is of IPv4 packets only.
fn filters(lines: &[Line], found: &Match) -> Result<Vec<Filter6>, NotEligible> {
    if found.then.flags & match_flags::FILTERED == 0 {
        return Ok(vec![Filter6::ANY]);
    }
    (0..found.count6).map(|n| part::<Filter6>(lines, found.first6.wrapping_add(n))).collect()
}

fn compile(filter: &Filter6, end: u8, qfi: u8) -> Result<kernel::Filter6, NotEligible> {
    if !filter.is_plain() {
        return Err(NotEligible::Filters);
    }
    let word = |traits: Traits, end: u8, class: u8| {
        u32::from_ne_bytes([traits.protocol, traits.tos, traits.state | end, class])
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(filter.remote_len.min(128))).unwrap_or(0);
    let mask = [(mask >> 64) as u64, mask as u64]; // halves
    let (class, class_mask) = if qfi == NONE8 { (0, 0) } else { (qfi, 0xff) };
    Ok(kernel::Filter6 {
        remote: [filter.remote[0] & mask[0], filter.remote[1] & mask[1]],
        remote_mask: mask,
        traits: word(filter.traits, end << END_SHIFT, class),
        traits_mask: word(filter.traits_mask, END_BITS, class_mask),
        port_lo: filter.ports.remote_lo,
        port_span: filter.ports.remote_span,
        spare: 0,
    })
}
