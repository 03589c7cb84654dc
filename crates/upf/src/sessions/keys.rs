//! What leads to a session: entered with it, and taken out again.

use stages::forward::InstanceId;
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
    routes: Box<[Route]>,
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

    fn as_slice(&self) -> &[u32] {
        match self {
            Self::Few(list, count) => &list[..usize::from(*count)],
            Self::Many(list) => list,
        }
    }
}

impl Sessions {
    pub(super) fn check_keys(&self, handle: u32, compiled: &Compiled, old: Option<Place>) -> Result<(), Refused> {
        let mine = old.map(|place| place.line.0);
        if compiled.routes.iter().any(|route| self.by_route.get(route).is_some_and(|owner| owner != handle)) {
            return Err(Refused::InUse);
        }
        let other = |found: Option<u32>| found.is_some() && found != mine;
        let taken = compiled.teids.iter().any(|teid| other(self.by_teid.get(*teid)))
            || compiled.ue4.is_some_and(|(n, a)| other(self.by_v4.get(n, a)))
            || compiled.ue6.is_some_and(|(n, p)| other(self.by_v6.get(n, p)));
        if taken { Err(Refused::InUse) } else { Ok(()) }
    }

    pub(super) fn link(&mut self, at: usize, line: LineId) -> Result<(), Refused> {
        let keys = &self.keys[at];
        for teid in keys.teids.as_slice() {
            self.by_teid.insert(*teid, line.0).map_err(|_| Refused::NoIndex)?;
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

    pub(super) fn unlink(&mut self, at: usize) {
        let keys = &mut self.keys[at];
        let (teids, ue4, ue6) = (std::mem::take(&mut keys.teids), keys.ue4.take(), keys.ue6.take());
        for teid in teids.as_slice() {
            self.by_teid.remove(*teid);
        }
        if let Some((instance, address)) = ue4 {
            self.by_v4.remove(instance, address);
        }
        if let Some((instance, prefix)) = ue6 {
            self.by_v6.remove(instance, prefix);
        }
    }
}
