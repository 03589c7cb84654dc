//! The least gateway that translates, filters and reassembles: subscribers on one port, the world on the other.
//!
//! It shows where the stages stand, and serves tests and fuzzing.

use dataplane::StageConfig;
use dataplane::acl::{AccessLists, CheckAcl, HasAccessLists, Hits};
use dataplane::nat::{HairpinQueue, Nat, TranslateIn, TranslateOut, Translates};
use dataplane::parse::{HasIp, UserIp, malformed};
use dataplane::reassemble::{CatchFragments, Reassembly, Whose};
use dataplane::route::HasHop;
use dataplane::{drops, punts};
use engine::{
    Burst, Clock, Ctx, Drop, Env, Gateway, Kind, Layout, Pipeline, PortId, Punt, Reason, Stage, TraceFilter, pipelines,
};
use frame::BURST;
use testkit::rig::PortSpec;
use wire::L3L4;

/// The network instance of the world's side.
pub const WORLD: u16 = 7;
/// Ports by number.
pub const INSIDE: PortId = 0;
pub const OUTSIDE: PortId = 1;

pub struct Toy;

#[derive(Default)]
pub struct Lane {
    ip: UserIp,
}

impl HasIp for Lane {
    fn ip(&self, i: usize) -> &L3L4 {
        &self.ip.0[i % BURST]
    }
    fn ip_mut(&mut self, i: usize) -> &mut L3L4 {
        &mut self.ip.0[i % BURST]
    }
}

impl HasHop for Lane {
    fn hop(&self, _: usize) -> u32 {
        0
    }
    fn set_hop(&mut self, _: usize, _: u32) {}
    fn instance(&self, _: usize) -> u16 {
        WORLD
    }
    fn set_instance(&mut self, _: usize, _: u16) {}
}

pub struct State {
    pub nat: Nat,
    pub lists: AccessLists,
}

impl Translates<Lane> for State {
    fn nat(&mut self) -> Option<&mut Nat> {
        Some(&mut self.nat)
    }

    fn session(&self, _: &Lane, _: usize) -> Option<u32> {
        Some(1)
    }
}

impl HasAccessLists for State {
    fn access_lists(&self) -> Option<&AccessLists> {
        Some(&self.lists)
    }
}

impl Kind for Toy {
    type Lane = Lane;
    type State = State;
    type Config = Everything;

    const DROPS: &'static [&'static [Reason<Drop>]] = &[engine::drops::ALL, dataplane::drops::ALL];
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[dataplane::punts::ALL];

    fn describe(burst: &Burst<Self>, i: usize, _: &Self::State) -> String {
        format!("{:?}", burst.lane.ip(i))
    }
}

/// Packets come without a link header.
#[derive(Default)]
pub struct Parse;

impl Stage<Toy> for Parse {
    const NAME: &'static str = "parse";

    fn run(&mut self, burst: &mut Burst<Toy>, cx: &mut Ctx<'_, Toy>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        for i in burst.live() {
            burst.frame_mut(i).meta.l3 = 0;
            match L3L4::parse(burst.bytes(i, arena)) {
                Ok(ip) => *burst.lane.ip_mut(i) = ip,
                Err(why) => burst.drop(i, malformed(why), at),
            }
        }
    }
}

/// All that is left goes there.
#[derive(Default)]
pub struct LeaveBy<const PORT: PortId>;

impl<const PORT: PortId> Stage<Toy> for LeaveBy<PORT> {
    const NAME: &'static str = "leave";

    fn run(&mut self, burst: &mut Burst<Toy>, _: &mut Ctx<'_, Toy>) {
        burst.live().for_each(|i| burst.set_out(i, PORT));
    }
}

const UPLINK: bool = true;
const DOWNLINK: bool = false;

pipelines! {
    struct Pipelines for Toy {
        up: Up("up") {
            parse: Parse, whole: CatchFragments, acl: CheckAcl<UPLINK>, nat: TranslateOut, out: LeaveBy<OUTSIDE>,
        }
        up_whole: UpWhole("up_whole") { acl: CheckAcl<UPLINK>, nat: TranslateOut, out: LeaveBy<OUTSIDE> }
        down: Down("down") {
            parse: Parse, whole: CatchFragments, nat: TranslateIn, acl: CheckAcl<DOWNLINK>, out: LeaveBy<INSIDE>,
        }
        down_whole: DownWhole("down_whole") { nat: TranslateIn, acl: CheckAcl<DOWNLINK>, out: LeaveBy<INSIDE> }
        down_hairpin: DownHairpin("down_turned") { acl: CheckAcl<DOWNLINK>, out: LeaveBy<INSIDE> }
    }
}

/// All functions are on.
pub struct Everything(Hits);

impl StageConfig for Everything {
    fn acl_hits(&self) -> Option<&Hits> {
        Some(&self.0)
    }

    fn reassembles(&self) -> bool {
        true
    }

    fn translates(&self) -> bool {
        true
    }
}

pub struct Plane {
    pipelines: Pipelines,
    pub state: State,
    /// Fragments from inside and from outside.
    reassembly: [Reassembly; 2],
    hairpins: HairpinQueue,
}

impl Plane {
    pub fn new(state: State, hits: &Hits, config: dataplane::reassemble::Config) -> (Self, Layout) {
        let mut layout = Layout::default();
        let plane = Self {
            pipelines: Pipelines::new(&mut layout, &Everything(hits.clone())),
            state,
            reassembly: [Reassembly::new(config, 1), Reassembly::new(config, 2)],
            hairpins: HairpinQueue::new(64),
        };
        (plane, layout)
    }

    /// Its two ports.
    pub fn ports() -> [PortSpec; 2] {
        ["inside", "outside"].map(|name| PortSpec { name: name.into(), mac: [2; 6], on: None })
    }
}

impl Gateway for Plane {
    type Kind = Toy;

    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Toy>, env: &Env) {
        let mut cx = Ctx::new(&mut self.state, env);
        match port {
            INSIDE => self.pipelines.up.run::<C>(burst, &mut cx),
            _ => self.pipelines.down.run::<C>(burst, &mut cx),
        }
    }

    fn punted(&mut self, burst: &mut Burst<Toy>, env: &mut Env) {
        while let Some((i, punt, frame)) = burst.take_punted() {
            match punt {
                punts::HAIRPIN => self.hairpins.push(frame, WORLD, env),
                punts::REASSEMBLE => {
                    let ip = *burst.lane.ip(i);
                    let side = usize::from(frame.meta.port);
                    let whose = Whose { domain: WORLD, owner: [ip.src, ip.dst][side].into(), tag: 0 };
                    self.reassembly[side].hold(env.arena().bytes(&frame), &ip, whose, env);
                    env.pool.give(frame);
                }
                _ => {
                    env.stats.drop_outside(drops::NOT_FOR_US, frame.len());
                    env.pool.give(frame);
                }
            }
        }
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<Toy>, env: &mut Env) -> bool {
        self.hairpins.poll(burst, env, |_, _, _| {});
        if !burst.is_empty() {
            self.pipelines.down_hairpin.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
            return true;
        }
        self.reassembly[0].poll(burst, env, |_, _, _| {});
        if !burst.is_empty() {
            self.pipelines.up_whole.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
            return true;
        }
        self.reassembly[1].poll(burst, env, |_, _, _| {});
        self.pipelines.down_whole.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
        !burst.is_empty()
    }

    fn held(&self) -> usize {
        self.hairpins.held() + self.reassembly.iter().map(Reassembly::held).sum::<usize>()
    }

    fn tick(&mut self, env: &mut Env) {
        self.reassembly.iter_mut().for_each(|reassembly| reassembly.tick(env));
        while !self.state.nat.tick(env.now) {}
    }

    fn follows(&self, _: &TraceFilter, _: PortId, _: &[u8]) -> bool {
        false
    }

    fn close(&mut self, env: &mut Env) {
        self.hairpins.close(env);
        self.reassembly.iter_mut().for_each(|reassembly| reassembly.close(env));
    }
}
