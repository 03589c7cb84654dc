//! The two verbs.

use engine::{Burst, Ctx, Kind, Stage};
use frame::BURST;

use super::rewrite::End;
use super::tables::Nat;
use super::translate::{Outcome, Ticket};
use crate::StageConfig;
use crate::parse::HasIp;
use crate::punts;
use crate::route::HasHop;

/// State with translation in it.
pub trait Translates<L> {
    /// The worker's translation; `None`: nothing is translated.
    fn nat(&mut self) -> Option<&mut Nat>;

    /// The session of packet `i`, as a number that stays the same as long as the session lives. `None`: no subscriber's,
    /// which goes as it is. Asked only where something is translated.
    fn session(&self, lane: &L, i: usize) -> Option<u32>;

    /// Whether packet `i`, which came in by a translated network instance, goes to its destination as it is: an untranslated
    /// subscriber's, or it comes from another subscriber.
    fn is_untranslated(&self, _lane: &L, _i: usize) -> bool {
        false
    }

    /// Packet `i` from outside has its private destination now: whatever was looked up by the one before is to be asked
    /// for anew.
    fn readdressed(&mut self, _lane: &mut L, _i: usize) {}
}

/// Translates the source of subscribers' IPv4 packets that leave by a translated network instance ([`HasHop::instance`]),
/// not by a tunnel ([`HasHop::overhead`]). Stands before the next hop is looked up. `AGAIN`: for packets that may have been
/// translated before; those from a public address go as they are. See [`nat`](crate::nat).
pub struct TranslateOut<const AGAIN: bool = false> {
    tickets: [Ticket; BURST],
    sessions: [Option<u32>; BURST],
    is_on: bool,
}

impl<const AGAIN: bool> Default for TranslateOut<AGAIN> {
    fn default() -> Self {
        Self { tickets: [Ticket::default(); BURST], sessions: [None; BURST], is_on: false }
    }
}

impl<K: Kind, const AGAIN: bool> Stage<K> for TranslateOut<AGAIN>
where
    K::Lane: HasHop,
    K::State: Translates<K::Lane>,
    K::Config: StageConfig,
{
    const NAME: &'static str = "translate_out";

    fn build(config: &K::Config) -> Self {
        Self { is_on: config.translates(), ..Self::default() }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.is_on
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let (at, env) = (cx.at(), cx.env);
        if cx.state.nat().is_none() {
            return;
        }
        for i in burst.live() {
            self.sessions[i] = cx.state.session(&burst.lane, i);
        }
        let Some(nat) = cx.state.nat() else { return };
        nat.set_now(env.now);
        for i in burst.live() {
            let (ip, l3) = (burst.lane.ip(i), usize::from(burst.frame(i).meta.l3));
            let plain = ip.version == 4 && burst.lane.overhead(i) == 0 && self.sessions[i].is_some();
            let domain = nat.blocks.domain(burst.lane.instance(i)).filter(|_| plain);
            let domain = domain.filter(|domain| !AGAIN || !nat.blocks.is_public(*domain, ip.src));
            self.tickets[i] = domain.map_or(Ticket::default(), |domain| {
                let packet = burst.bytes(i, env.arena()).get(l3..).unwrap_or_default();
                nat.look(domain, ip, packet, End::Source)
            });
        }
        for i in burst.live() {
            nat.find(&mut self.tickets[i], End::Source);
        }
        for i in burst.live() {
            let session = self.sessions[i].unwrap_or(0); // a packet that has none is not looked up
            let (frame, lane) = burst.parts(i);
            let l3 = usize::from(frame.meta.l3);
            let packet = env.arena().bytes_mut(frame).get_mut(l3..).unwrap_or_default();
            match nat.outward(&self.tickets[i], session, lane.ip_mut(i), packet) {
                Ok(Outcome::Forward) => {}
                Ok(Outcome::Hairpin) => burst.punt(i, punts::HAIRPIN),
                Err(why) => burst.drop(i, why, at),
            }
        }
    }
}

/// Translates the destination of IPv4 packets from outside that came in by a translated network instance. Those not to a
/// public address are dropped: a private one is not to be addressed from there. Stands before the subscriber is looked
/// up. See [`nat`](crate::nat).
pub struct TranslateIn {
    tickets: [Ticket; BURST],
    untranslated: [bool; BURST],
    is_on: bool,
}

impl Default for TranslateIn {
    fn default() -> Self {
        Self { tickets: [Ticket::default(); BURST], untranslated: [false; BURST], is_on: false }
    }
}

impl<K: Kind> Stage<K> for TranslateIn
where
    K::Lane: HasHop,
    K::State: Translates<K::Lane>,
    K::Config: StageConfig,
{
    const NAME: &'static str = "translate_in";

    fn build(config: &K::Config) -> Self {
        Self { is_on: config.translates(), ..Self::default() }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.is_on
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let (at, env) = (cx.at(), cx.env);
        if cx.state.nat().is_none() {
            return;
        }
        for i in burst.live() {
            self.untranslated[i] = cx.state.is_untranslated(&burst.lane, i);
        }
        let Some(nat) = cx.state.nat() else { return };
        nat.set_now(env.now);
        for i in burst.live() {
            let (ip, l3) = (burst.lane.ip(i), usize::from(burst.frame(i).meta.l3));
            let plain = ip.version == 4 && !self.untranslated[i];
            let domain = nat.blocks.domain(burst.lane.instance(i)).filter(|_| plain);
            self.tickets[i] = domain.map_or(Ticket::default(), |domain| {
                let packet = burst.bytes(i, env.arena()).get(l3..).unwrap_or_default();
                nat.look(domain, ip, packet, End::Destination)
            });
        }
        for i in burst.live() {
            nat.find(&mut self.tickets[i], End::Destination);
        }
        for i in burst.live() {
            let (frame, lane) = burst.parts(i);
            let l3 = usize::from(frame.meta.l3);
            let packet = env.arena().bytes_mut(frame).get_mut(l3..).unwrap_or_default();
            if let Err(why) = nat.inward(&self.tickets[i], lane.ip_mut(i), packet) {
                burst.drop(i, why, at);
            }
        }
        for i in burst.live() {
            if self.tickets[i].is_ours() {
                cx.state.readdressed(&mut burst.lane, i);
            }
        }
    }
}
