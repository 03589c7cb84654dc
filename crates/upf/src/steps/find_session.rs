//! From a packet to its session.

use engine::{Burst, Ctx, Drop, Punt, Stage};
use stages::parse::HasIp;

use crate::lane::Upf;
use crate::record;

/// The session of a tunnel endpoint (PDI's local F-TEID, TS 29.244, 8.2.3). Unknown ones go to the slow path, which
/// answers with Error Indication (TS 29.281, 7.3.1).
pub struct FindByTeid;

impl Stage<Upf> for FindByTeid {
    const NAME: &'static str = "find_by_teid";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        for i in burst.live() {
            match cx.state.sessions.get_teid(burst.lane.hash[i], burst.lane.teid[i]) {
                Some(session) => burst.lane.session[i] = session,
                None => burst.punt(i, Punt::UnknownTeid),
            }
        }
    }
}

/// The session of a destination address in the port's network (PDI's UE IP address, TS 29.244, 8.2.62).
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
        for i in live {
            let (ip, hash) = (burst.lane.ip(i), burst.lane.hash[i]);
            let found = match ip.version {
                4 => sessions.get_v4(index, hash, ip.dst),
                _ => {
                    let l3 = usize::from(burst.frame(i).meta.l3);
                    let prefix = (ip.dst6(burst.bytes(i, arena).get(l3..).unwrap_or_default()) >> 64) as u64;
                    sessions.get_v6(hash, instance, prefix)
                }
            };
            match found {
                Some(session) => {
                    burst.lane.session[i] = session;
                    sessions.prefetch_pair(session, record::ACTION_PAIR);
                }
                None => burst.drop(i, Drop::UnknownSubscriber, at),
            }
        }
    }
}
