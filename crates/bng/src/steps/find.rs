//! Whose packet it is.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage, SteerKey};
use frame::Arena;
use wire::{L3L4, Outer, fast};

use crate::drops;
use crate::lane::{Bng, State};
use crate::link::Line;

/// Finds the subscriber of a line, and requests its record. What is of no subscriber is dropped: lines are not learnt.
#[derive(Default)]
pub struct FindByLine;

impl Stage<Bng> for FindByLine {
    const NAME: &'static str = "find_line";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let subscribers = &cx.state.subscribers;
        let shared = burst.lane.shared;
        for i in burst.live() {
            let found = if shared.has(i) {
                let bytes = burst.bytes(i, arena);
                let outer = Outer::parse(bytes).unwrap_or_default();
                let line = Line::of(burst.frame(i).meta.port, &outer);
                let mac = fast::array(bytes, 6).unwrap_or_default();
                subscribers.shared(burst.lane.hash[i], line.key(mac))
            } else {
                subscribers.at(burst.lane.place[i])
            };
            match found {
                Some(record) => {
                    subscribers.prefetch_record(record, true);
                    burst.lane.record[i] = record;
                }
                None => burst.drop(i, drops::UNKNOWN_LINE, at),
            }
        }
    }
}

/// Finds the subscriber that has the destination address, and requests its record.
#[derive(Default)]
pub struct FindByAddress;

impl Stage<Bng> for FindByAddress {
    const NAME: &'static str = "find_address";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let subscribers = &cx.state.subscribers;
        for i in burst.live() {
            let found = subscribers.at(burst.lane.place[i]).or_else(|| {
                let (ip, instance) = (burst.lane.ip(i), burst.lane.instance[i]);
                if ip.version == 4 {
                    return subscribers.host4(instance, ip.dst);
                }
                let to = usize::from(burst.frame(i).meta.l3) + L3L4::V6_DST;
                subscribers.host6(instance, fast::be64(burst.bytes(i, arena), to)?)
            });
            match found {
                Some(record) => {
                    subscribers.prefetch_record(record, false);
                    burst.lane.record[i] = record;
                }
                None => {
                    let reason = if is_away(burst, i, cx.state, arena) {
                        drops::GROUP_ELSEWHERE
                    } else {
                        drops::UNKNOWN_SUBSCRIBER
                    };
                    burst.drop(i, reason, at);
                }
            }
        }
    }
}

/// Whether a packet's destination is of a group that another process has.
#[cold]
fn is_away(burst: &Burst<Bng>, i: usize, state: &State, arena: &Arena) -> bool {
    let (ip, instance) = (burst.lane.ip(i), burst.lane.instance[i]);
    if ip.version == 4 {
        return state.directory.is_away(SteerKey::V4(instance, ip.dst));
    }
    let to = usize::from(burst.frame(i).meta.l3) + L3L4::V6_DST;
    let upper = fast::be64(burst.bytes(i, arena), to);
    upper.is_some_and(|upper| state.directory.is_away(SteerKey::V6(instance, upper)))
}
