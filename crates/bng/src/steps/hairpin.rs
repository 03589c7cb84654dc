//! From subscriber to subscriber.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use wire::{L3L4, fast};

use crate::lane::Bng;
use crate::punts;

/// Takes packets to other subscribers' addresses off: they go on as if the core had sent them, through the other
/// subscriber's access lists and policer.
#[derive(Default)]
pub struct Hairpin;

impl Stage<Bng> for Hairpin {
    const NAME: &'static str = "hairpin";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let near = burst.lane.near;
        if near.is_empty() {
            return;
        }
        let (arena, directory) = (cx.env.arena(), &cx.state.directory);
        for i in burst.live() {
            if !near.has(i) {
                continue;
            }
            let (ip, instance) = (burst.lane.ip(i), burst.lane.instance[i]);
            let owner = if ip.version == 4 {
                directory.owner4(instance, ip.dst)
            } else {
                let to = usize::from(burst.frame(i).meta.l3) + L3L4::V6_DST;
                fast::be64(burst.bytes(i, arena), to).and_then(|upper| directory.owner6(instance, upper))
            };
            if owner.is_some() {
                burst.punt(i, punts::HAIRPIN);
            }
        }
    }
}
