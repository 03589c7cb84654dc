//! What leads to a session: entered with it, and taken out again.

use dataplane::filter::ENDS;
use dataplane::forward::InstanceId;
use table::records::LineId;

use super::{Place, Refused, Sessions};
use crate::compile::Compiled;
use crate::routes::Route;

/// What leads to a session; kept for taking it out again.
#[derive(Clone, Default)]
pub(super) struct Keys {
    pub(super) teids: TeidList,
    pub(super) ue4: Option<(InstanceId, u32)>,
    pub(super) ue6: Option<(InstanceId, u64)>,
    pub(super) routes: Box<[Route]>,
}

impl Keys {
    /// Whether packets are led alike, networks aside.
    pub(super) fn lead_alike(&self, other: &Self) -> bool {
        self.teids.as_slice() == other.teids.as_slice() && (self.ue4, self.ue6) == (other.ue4, other.ue6)
    }
}

/// What a tunnel endpoint leads to: a session's record, and its place among the session's own endpoints, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The record.
    pub line: LineId,
    /// Which of the session's endpoints it is; the last number stands for all beyond.
    pub end: u8,
}

impl Endpoint {
    const END_BITS: u32 = ENDS.trailing_zeros();

    /// None for a record too far into its heap: beyond 32 GiB.
    fn new(line: LineId, end: usize) -> Option<Self> {
        let fits = line.0.is_multiple_of(2) && line.0 / 2 < 1 << (u32::BITS - Self::END_BITS);
        fits.then_some(Self { line, end: end.min(ENDS - 1) as u8 })
    }

    fn bits(self) -> u32 {
        ((self.line.0 / 2) << Self::END_BITS) | u32::from(self.end)
    }

    #[inline(always)]
    pub(super) fn from_bits(bits: u32) -> Self {
        Self { line: LineId((bits >> Self::END_BITS) * 2), end: bits as u8 & (ENDS - 1) as u8 }
    }
}

/// Most sessions have one or two tunnel endpoints; those need no allocation.
#[derive(Clone)]
pub(super) enum TeidList {
    Few([u32; 2], u8),
    Many(Box<[u32]>),
}

impl Default for TeidList {
    fn default() -> Self {
        Self::Few([0; 2], 0)
    }
}

impl TeidList {
    pub(super) fn new(list: &[u32]) -> Self {
        match *list {
            [] => Self::default(),
            [a] => Self::Few([a, 0], 1),
            [a, b] => Self::Few([a, b], 2),
            _ => Self::Many(list.into()),
        }
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::Few(list, count) => &list[..usize::from(*count)],
            Self::Many(list) => list,
        }
    }
}

impl Keys {
    /// Those of a session that begins, but for its networks, which [`Sessions::reroute`] enters.
    pub(super) fn of(compiled: &Compiled) -> Self {
        let Compiled { ue4, ue6, .. } = *compiled;
        Self { teids: TeidList::new(&compiled.teids), ue4, ue6, routes: Box::default() }
    }
}

impl Sessions {
    pub(super) fn check_keys(&self, handle: u32, compiled: &Compiled, old: Option<Place>) -> Result<(), Refused> {
        let mine = old.map(|place| place.line.0);
        if compiled.routes.iter().any(|route| self.by_route.get(route).is_some_and(|owner| owner != handle)) {
            return Err(Refused::InUse);
        }
        let other = |found: Option<u32>| found.is_some() && found != mine;
        let by_teid = |teid: &u32| self.by_teid.get(*teid).map(|found| Endpoint::from_bits(found).line.0);
        let taken = compiled.teids.iter().any(|teid| other(by_teid(teid)))
            || compiled.ue4.is_some_and(|(n, a)| other(self.by_v4.get(n, a)))
            || compiled.ue6.is_some_and(|(n, p)| other(self.by_v6.get(n, p)));
        if taken { Err(Refused::InUse) } else { Ok(()) }
    }

    /// Has new keys lead to a session's record instead of its old ones, which led to `old`; its networks stay.
    ///
    /// # Errors
    /// [`Refused::NoIndex`]: all is as it was then. What leads there already needs no room.
    pub(super) fn relink(
        &mut self,
        at: usize,
        mut new: Keys,
        line: LineId,
        old: Option<LineId>,
    ) -> Result<(), Refused> {
        let before = std::mem::take(&mut self.keys[at]);
        let result = self.link(&new, line);
        if result.is_ok() {
            self.unlink(&before, &new);
            new.routes = before.routes;
            self.keys[at] = new;
        } else {
            self.unlink(&new, &before);
            // They were not taken out: there is room for them.
            let _ = old.map(|old| self.link(&before, old));
            self.keys[at] = before;
        }
        result
    }

    fn link(&mut self, keys: &Keys, line: LineId) -> Result<(), Refused> {
        let full = self.by_teid.len() >= self.room.keys;
        for (end, teid) in keys.teids.as_slice().iter().enumerate() {
            if full && self.by_teid.get(*teid).is_none() {
                return Err(Refused::NoIndex);
            }
            let leads_to = Endpoint::new(line, end).ok_or(Refused::NoRecord)?;
            self.by_teid.insert(*teid, leads_to.bits()).map_err(|_| Refused::NoIndex)?;
        }
        if let Some((instance, address)) = keys.ue4 {
            self.by_v4.insert(instance, address, line.0).map_err(|_| Refused::NoIndex)?;
        }
        if let Some((instance, prefix)) = keys.ue6 {
            self.by_v6.insert(instance, prefix, line.0).map_err(|_| Refused::NoIndex)?;
        }
        Ok(())
    }

    /// Replaces the networks that lead to a session, if they change: rarely, and short prefixes take their time.
    pub(super) fn reroute(&mut self, at: usize, routes: &[Route]) {
        let old = &mut self.keys[at].routes;
        if **old == *routes {
            return;
        }
        old.iter().for_each(|route| self.by_route.remove(route));
        routes.iter().for_each(|route| self.by_route.insert(route, at as u32)); // a handle
        *old = routes.into();
    }

    /// Has keys lead nowhere, but for those that `others` has too.
    pub(super) fn unlink(&mut self, keys: &Keys, others: &Keys) {
        for teid in keys.teids.as_slice().iter().filter(|teid| !others.teids.as_slice().contains(teid)) {
            self.by_teid.remove(*teid);
        }
        if let Some((instance, address)) = keys.ue4.filter(|_| keys.ue4 != others.ue4) {
            self.by_v4.remove(instance, address);
        }
        if let Some((instance, prefix)) = keys.ue6.filter(|_| keys.ue6 != others.ue6) {
            self.by_v6.remove(instance, prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_fits_a_word() {
        for line in [0, 2, 0x1fff_fffe] {
            for end in [0, 7, ENDS - 1, ENDS, 1000] {
                let endpoint = Endpoint::new(LineId(line), end).unwrap();
                assert_eq!((endpoint.line, usize::from(endpoint.end)), (LineId(line), end.min(ENDS - 1)));
                assert_eq!(Endpoint::from_bits(endpoint.bits()), endpoint);
            }
        }
        assert_eq!(Endpoint::new(LineId(0x2000_0000), 0), None);
    }
}
