//! A subscriber's rate and usage.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use table::bucket;
use table::records::LineId;

use crate::drops;
use crate::lane::Bng;
use crate::shaper::NO_LEAF;
use crate::subscribers::Subscribers;

/// Polices a packet by its subscriber's bucket of the direction, dual stack in one, and counts what passes by family. Both
/// are in one cache line. What waits in a queue is counted when it leaves.
#[derive(Default)]
pub struct Meter<const UPSTREAM: bool>;

impl<const UPSTREAM: bool> Stage<Bng> for Meter<UPSTREAM> {
    const NAME: &'static str = "meter";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, now) = (cx.at(), cx.env.now);
        for i in burst.live() {
            if !UPSTREAM && burst.lane.leaf[i] != NO_LEAF {
                continue;
            }
            let (ip, record) = (burst.lane.ip(i), burst.lane.record[i]);
            let bytes = ip.total_len + u32::from(burst.lane.overhead[i]);
            let family = usize::from(ip.version == 6);
            let Some(meter) = cx.state.subscribers.meter_mut(record, UPSTREAM) else {
                burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at);
                continue;
            };
            if bucket::conform(&meter.rate, &mut meter.bucket, now, bytes) {
                meter.packets[family] += 1;
                meter.bytes[family] += u64::from(bytes);
            } else if !again::<UPSTREAM>(&mut cx.state.subscribers, record, now, (bytes, family)) {
                burst.drop(i, drops::SUBSCRIBER_RATE, at);
            }
        }
    }
}

/// Whether a packet that its subscriber's bucket has no credit for passes all the same: the bucket was the in-kernel path's
/// until now.
#[cold]
#[inline(never)]
fn again<const UPSTREAM: bool>(
    subscribers: &mut Subscribers,
    record: LineId,
    now: u64,
    (bytes, family): (u32, usize),
) -> bool {
    if !subscribers.take_back(record) {
        return false;
    }
    let Some(meter) = subscribers.meter_mut(record, UPSTREAM) else { return false };
    let passes = bucket::conform(&meter.rate, &mut meter.bucket, now, bytes);
    if passes {
        meter.packets[family] += 1;
        meter.bytes[family] += u64::from(bytes);
    }
    passes
}
