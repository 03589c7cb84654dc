//! `bng-600g`: the published workload of a broadband gateway (40k, 80k and 256k IPoE subscribers behind two tags, 254 core
//! endpoints, 1400-byte packets, 8:1), in memory.
//!
//! | file | idea |
//! |---|---|
//! | `settings` | the workload: configuration and traffic from the same numbers |
//! | `filled` | how full queues were, where they are to be |
//! | `ends` | the access network and the core as the gateway's ports: frames made and checked where they are |

mod ends;
mod filled;
mod settings;

use bng::assemble::assemble;
use bng::gateway::BroadbandGateway;
use frame::{ArenaConfig, Caps};
use traffic::Clock;
use wire::Mac;

pub use settings::{KEYS, Settings};

use self::ends::End;
use self::settings::{ACCESS_MAC, CORE_MAC, GATEWAY_MAC};
use crate::ends::{FarEnds, Load};
use crate::error::BenchError;
use crate::report::Filled;
use crate::under_test::{Assembled, FarSide, Share, UnderTest};
use crate::window::Window;
use crate::work_clock::WorkClock;

/// A broadband gateway with a workload's subscribers.
#[derive(Clone, Debug, Default)]
pub struct BngUnderTest {
    /// Numbers that configuration and traffic are made from.
    pub settings: Settings,
}

impl UnderTest for BngUnderTest {
    type Gateway = BroadbandGateway;
    type Load = Load;

    fn kind(&self) -> &'static str {
        "bng"
    }

    fn profile(&self) -> &str {
        &self.settings.profile
    }

    fn size(&self) -> (u32, u64) {
        (self.settings.subscribers, self.settings.subscribers.into())
    }

    fn frames(&self) -> ArenaConfig {
        let few = ArenaConfig { slots: 2048, ..ArenaConfig::default() };
        if self.settings.is_filled() { ArenaConfig { slots: self.settings.buffers(), ..few } } else { few }
    }

    fn waiting(gateway: &BroadbandGateway) -> u64 {
        gateway.state().shaper.as_ref().map_or(0, |shaper| shaper.held() as u64)
    }

    fn backlog(gateway: &BroadbandGateway) -> (u64, u64) {
        let of = |shaper: &bng::shaper::Shaper| (shaper.backlogged() as u64, shaper.bytes());
        gateway.state().shaper.as_ref().map(|shaper| of(shaper)).unwrap_or_default()
    }

    fn filled(&self, windows: &[Window]) -> Option<Filled> {
        filled::of(&self.settings, windows)
    }

    fn memory_ports(&self) -> Vec<Caps> {
        [ACCESS_MAC, CORE_MAC].map(|mac| Caps { kind: "memory", mac, mtu: 1500, ..Caps::default() }).into()
    }

    fn wires(&self) -> Option<[Mac; 2]> {
        // Subscribers send to their group's address: no interface has to take what is for others. Queues are filled by a clock
        // that is the packets', which only far ends in memory move.
        (!self.settings.is_filled()).then_some([Mac(GATEWAY_MAC), Mac(CORE_MAC)])
    }

    fn assemble(&self, workers: u16, caps: &[Caps]) -> Result<Assembled<BroadbandGateway>, BenchError> {
        let made = assemble(&self.settings.config(workers)?, caps);
        let (mut control, inits) = made.map_err(|error| BenchError::Gateway(error.to_string()))?;
        let seats = inits.into_iter().enumerate().map(|(n, init)| {
            let users = self.settings.users(workers, n as u16);
            (init, users)
        });
        Ok(Assembled { workers: seats.collect(), control: Box::new(move |now_ns| control.poll(now_ns)) })
    }

    fn bytes(gateway: &BroadbandGateway) -> usize {
        let state = gateway.state();
        state.subscribers.bytes() + state.shaper.as_ref().map_or(0, |shaper| shaper.memory())
    }

    fn far_side(&self, share: &Share) -> Result<FarSide<Load>, BenchError> {
        let clock = self.settings.filling().map(|_| WorkClock::by_packets());
        let [access, core] = End::pair(&self.settings, (share.workers, share.worker), clock.as_ref());
        let offered = core.offered();
        let ends = FarEnds::new(Clock::tsc()).moving(clock, offered).with(access).with(core);
        Ok(ends.side(share.users.len() as u32))
    }
}
