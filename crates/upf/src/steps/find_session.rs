//! From a packet to its session.

use dataplane::forward::InstanceId;
use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Live, Stage};
use frame::Arena;
use table::records::LineId;

use crate::lane::Upf;
use crate::sessions::Sessions;
use crate::{drops, punts};

/// The session of a tunnel endpoint (PDI's local F-TEID, TS 29.244, 8.2.3). Unknown ones go to the slow path, which
/// answers with Error Indication (TS 29.281, 7.3.1).
#[derive(Default)]
pub struct FindByTeid;

impl Stage<Upf> for FindByTeid {
    const NAME: &'static str = "find_by_teid";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let sessions = &cx.state.sessions;
        let mut rest = Live::default();
        for i in burst.live() {
            match sessions.get_teid(burst.lane.hash[i], burst.lane.teid[i]) {
                Some(found) => (burst.lane.session[i], burst.lane.end[i]) = (found.line, found.end),
                None => rest.add(i),
            }
        }
        for i in rest {
            match sessions.get_teid_again(burst.lane.hash[i], burst.lane.teid[i]) {
                Some(found) => (burst.lane.session[i], burst.lane.end[i]) = (found.line, found.end),
                None => burst.punt(i, punts::UNKNOWN_TEID),
            }
        }
    }
}

/// The session of a destination address in the port's network (PDI's UE IP address, TS 29.244, 8.2.62).
#[derive(Default)]
pub struct FindByAddress;

impl Stage<Upf> for FindByAddress {
    const NAME: &'static str = "find_by_address";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let sessions = &cx.state.sessions;
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        // A burst is of one port, and a port of one network.
        let instance = burst.lane.instance[first];
        let index = sessions.index4(instance);
        let mut rest = Live::default();
        for i in live {
            let (ip, hash) = (burst.lane.ip(i), burst.lane.hash[i]);
            let found = if ip.version == 4 { sessions.get_v4(index, hash, ip.dst) } else { None };
            match found {
                Some(session) => burst.lane.session[i] = session,
                None => rest.add(i),
            }
        }
        for i in rest {
            let (ip, hash) = (burst.lane.ip(i), burst.lane.hash[i]);
            let found = if ip.version == 4 { sessions.get_v4_again(index, hash, ip.dst) } else { None };
            match found.or_else(|| find_any(burst, i, instance, sessions, arena)) {
                Some(session) => burst.lane.session[i] = session,
                None => burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at),
            }
        }
    }
}

/// The session of any other destination.
fn find_any(burst: &Burst<Upf>, i: usize, at: InstanceId, sessions: &Sessions, arena: &Arena) -> Option<LineId> {
    let own = if burst.lane.ip(i).version == 6 { find6(burst, i, at, sessions, arena) } else { None };
    own.or_else(|| find_behind(burst, i, at, sessions, arena))
}

/// The session of an IPv6 destination.
fn find6(burst: &Burst<Upf>, i: usize, instance: InstanceId, sessions: &Sessions, arena: &Arena) -> Option<LineId> {
    let l3 = usize::from(burst.frame(i).meta.l3);
    let to = burst.lane.ip(i).dst6(burst.bytes(i, arena).get(l3..).unwrap_or_default());
    sessions.get_v6(burst.lane.hash[i], instance, (to >> 64) as u64)
}

/// The session with a network behind it that the destination is in.
#[cold]
#[inline(never)]
fn find_behind(burst: &Burst<Upf>, i: usize, at: InstanceId, sessions: &Sessions, arena: &Arena) -> Option<LineId> {
    let ip = burst.lane.ip(i);
    if ip.version == 4 {
        return sessions.behind4(at, ip.dst);
    }
    let l3 = usize::from(burst.frame(i).meta.l3);
    sessions.behind6(at, ip.dst6(burst.bytes(i, arena).get(l3..).unwrap_or_default()))
}
