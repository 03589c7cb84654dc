//! Stages, and the lists they form.

use std::sync::Arc;

use frame::{Arena, Pool};

use crate::burst::Burst;
use crate::clock::{Clock, Look, Looks};
use crate::drops;
use crate::moves::Moves;
use crate::reason::{Drop, Punt, Reason};
use crate::stats::{Io, Stats};
use crate::trace::Tracer;

/// A family of pipelines that share per-packet arrays and worker-owned state: one per gateway.
pub trait Kind: Sized + 'static {
    /// Arrays beside the burst, one place a packet.
    type Lane: Default + Send;
    /// What the worker owns and its stages share: sessions, routes, buckets.
    type State: Send;
    /// What stages are built from: see [`Stage::build`].
    type Config;

    /// Tables of the reasons for drops: the engine's ([`drops::ALL`](crate::drops::ALL)), and those of each crate whose stages
    /// the pipelines have. A reason of no table here has no counter, so there is no default.
    const DROPS: &'static [&'static [Reason<Drop>]];
    /// Tables of the reasons for punts.
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[];

    /// Packet `i` in words, for the trace: what the lane knows of it by now, with the worker's state at hand.
    fn describe(burst: &Burst<Self>, i: usize, state: &Self::State) -> String;

    /// The port that packet `i` is to leave by, for the trace; none: it is not known yet.
    fn leaves_by(_burst: &Burst<Self>, _i: usize) -> Option<u8> {
        None
    }

    /// Wipes place `i` of the lane, where an earlier burst's packet may have left its values: called for traced packets
    /// only, which show them.
    fn forget(_lane: &mut Self::Lane, _i: usize) {}
}

/// Whether a worker receives from its ports. What other workers hand over it takes in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receiving {
    /// It does.
    #[default]
    Yes,
    /// Not yet: packets that another worker received earlier are on their way here. At most until that time, in nanoseconds.
    HeldUntil(u64),
    /// As soon as nothing that was handed over waits. At most until that time.
    AfterHandOver(u64),
}

/// What surrounds a burst: read by stages, changed by the worker between pipelines.
pub struct Env {
    /// The worker's free slots.
    pub pool: Pool,
    /// Time of this burst in nanoseconds; read once a turn.
    pub now: u64,
    /// Turns begun, this one among them.
    pub turn: u64,
    /// Each port has been found empty in this turn or a later one, and what came before has gone out since.
    pub drained: u64,
    /// Whether ports are received from: a gateway changes it when the ports begin to give it other packets.
    pub receiving: Receiving,
    /// The worker comes to rest: what it has only begun is finished, and what waits for its time waits on.
    pub is_settling: bool,
    /// Where everything is counted.
    pub stats: Stats,
    /// Follows flagged packets.
    pub tracer: Tracer,
    /// Complete frames of our own (ARP replies, ICMP errors) with the port they leave by.
    pub(crate) outbox: Vec<(u8, frame::Frame)>,
    /// Frames of our own that are as if they had come in by a port, for another worker.
    pub(crate) passed_on: Vec<(u8, frame::Frame)>,
    pub(crate) outbox_room: usize,
    /// Groups that move to or from this worker.
    pub moves: Moves,
    /// Which bursts are timed stage by stage.
    pub(crate) looks: Looks,
}

impl Env {
    /// The arena all frames of this worker are of.
    #[inline]
    pub fn arena(&self) -> &Arc<Arena> {
        self.pool.arena()
    }

    /// Looks at the clock before work on many packets that no pipeline does, to charge it to a stage of a span when done.
    /// As with pipelines, some looks chosen at random stand for the others, which cost nothing.
    #[inline(always)]
    pub fn look<C: Clock>(&self) -> Look {
        Look::at::<C>(&self.looks)
    }

    /// Charges a stage between pipelines for work on so many packets, done since that look.
    #[inline(always)]
    pub fn charge<C: Clock>(&self, stage: StageId, packets: u32, look: Look) {
        self.stats.stage(stage.0, packets, look.spent::<C>(&self.looks));
    }

    /// Sends a complete frame of our own by a port, at the end of this turn. When the queue is full the frame is
    /// dropped and counted; replies must not grow memory.
    pub fn send(&mut self, port: u8, frame: frame::Frame) {
        if self.outbox.len() < self.outbox_room {
            self.outbox.push((port, frame));
        } else {
            self.stats.add(Io::Originated, 1);
            self.stats.drop_outside(drops::OUT_QUEUE_FULL, frame.len());
            self.pool.give(frame);
        }
    }

    /// [Sends](Self::send) a frame of those bytes, counted as dropped where there is no packet buffer for it.
    pub fn send_copy(&mut self, port: u8, bytes: &[u8]) {
        match self.pool.make(bytes) {
            Some(frame) => self.send(port, frame),
            None => {
                self.stats.drop_outside(drops::NO_FRAME, bytes.len());
                self.stats.add(Io::Originated, 1);
            }
        }
    }

    /// Gives a frame of our own, counted as originated, to the worker that owns it, at the end of this turn, as if it had
    /// come in by that port. Where no other worker owns it, it is dropped by name.
    pub fn pass_on(&mut self, port: u8, frame: frame::Frame) {
        if self.passed_on.len() < self.outbox_room {
            self.passed_on.push((port, frame));
        } else {
            self.stats.drop_outside(drops::HAND_OFF_FULL, frame.len());
            self.pool.give(frame);
        }
    }
}

/// A stage's surroundings.
pub struct Ctx<'a, K: Kind> {
    /// The gateway's state on this worker.
    pub state: &'a mut K::State,
    /// Time, memory, counters.
    pub env: &'a Env,
    pub(crate) stage: usize,
}

impl<'a, K: Kind> Ctx<'a, K> {
    /// The surroundings of a pipeline about to run.
    #[inline]
    pub fn new(state: &'a mut K::State, env: &'a Env) -> Self {
        Self { state, env, stage: 0 }
    }

    /// Where drops are counted while this stage runs. Independent of the borrow of `state`.
    #[inline]
    pub fn at(&self) -> At<'a> {
        At { env: self.env, stage: self.stage }
    }
}

/// The place in the pipeline that events are charged to.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub(crate) env: &'a Env,
    pub(crate) stage: usize,
}

impl At<'_> {
    #[inline]
    pub(crate) fn count_drop(self, reason: Drop, bytes: usize) {
        self.env.stats.drop(self.stage, reason, bytes);
    }
}

/// One verb acting on a burst: it changes, drops or punts packets, and never holds one.
///
/// The default of a stage is what it is without any configuration.
pub trait Stage<K: Kind>: Default {
    /// Name in tables and results.
    const NAME: &'static str;

    /// Builds the stage from the gateway's configuration.
    fn build(_config: &K::Config) -> Self {
        Self::default()
    }

    /// False when the configuration switches the stage off: the pipeline leaves it out, and it is not in the tables.
    /// Must not change after [`Stage::build`].
    #[inline(always)]
    fn is_on(&self) -> bool {
        true
    }

    /// Acts on every live packet.
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>);
}

/// Something that holds packets and lets them go: it *ends* one pipeline and begins the next. The worker's ports are the
/// other beginnings.
pub trait Source<K: Kind> {
    /// Adds packets that are due to the burst, as far as it has room; says whether more are due.
    fn poll(&mut self, out: &mut Burst<K>, state: &K::State, env: &mut Env) -> bool;

    /// Packets it holds now, due or not: a term of the conservation law.
    fn held(&self) -> usize;
}

/// Where a pipeline's stages stand in the worker's statistics.
#[derive(Clone, Copy, Debug)]
pub struct StageSpan {
    /// Number of its first stage.
    pub first: usize,
}

/// A stage between pipelines, as [`pipelines!`](crate::pipelines) enters it: work on packets that are held, charged by
/// [`Env::charge`].
#[derive(Clone, Copy, Debug)]
pub struct StageId(pub(crate) usize);

/// A list of stages made by [`crate::pipeline!`].
pub trait Pipeline<K: Kind> {
    /// Its name.
    const NAME: &'static str;
    /// Its stages' names, in order.
    const STAGES: &'static [&'static str];

    /// Runs the burst through, charging each stage by clock `C`.
    fn run<C: Clock>(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>);
}

/// Declares a pipeline: a struct whose fields are its stages in order. The struct is the diagram.
///
/// ```
/// use engine::{Burst, Ctx, Kind, Layout, Pipeline, Stage, pipeline};
/// # use engine::{Drop, Reason, drops};
/// # struct Toy;
/// # impl Kind for Toy {
/// #     type Lane = ();
/// #     type State = ();
/// #     type Config = bool;
/// #     const DROPS: &'static [&'static [Reason<Drop>]] = &[drops::ALL];
/// #     fn describe(_: &Burst<Self>, _: usize, _: &()) -> String { String::new() }
/// # }
/// # #[derive(Default)]
/// # struct Parse;
/// # impl Stage<Toy> for Parse {
/// #     const NAME: &'static str = "parse";
/// #     fn run(&mut self, _: &mut Burst<Toy>, _: &mut Ctx<'_, Toy>) {}
/// # }
/// #[derive(Default)]
/// struct Decap(bool);
/// impl Stage<Toy> for Decap {
///     const NAME: &'static str = "decap";
///     fn build(tunnels: &bool) -> Self { Self(*tunnels) }
///     fn is_on(&self) -> bool { self.0 }
///     fn run(&mut self, _: &mut Burst<Toy>, _: &mut Ctx<'_, Toy>) { /* … */ }
/// }
/// pipeline! {
///     /// From access.
///     pub struct Uplink("uplink") for Toy { parse: Parse, decap: Decap }
/// }
/// let mut layout = Layout::default();
/// let uplink = Uplink::new(&mut layout, &true);
/// assert_eq!(Uplink::STAGES, ["parse", "decap"]);
/// let without = Uplink::new(&mut layout, &false);
/// assert_eq!(layout.stages().iter().filter(|stage| stage.is_on).count(), 3);
/// ```
///
/// `new` builds its stages from the configuration and enters them for counting; `run` calls those that are on in order
/// and leaves as soon as no packet is live.
#[macro_export]
macro_rules! pipeline {
    ($(#[$doc:meta])* $vis:vis struct $name:ident($text:literal) for $kind:ty { $($field:ident: $stage:ty),+ $(,)? }) => {
        $(#[$doc])*
        $vis struct $name {
            span: $crate::StageSpan,
            $(#[allow(missing_docs)] pub $field: $stage,)+
        }

        impl $name {
            /// The pipeline, built from the configuration, its stages entered in `layout`.
            $vis fn new(layout: &mut $crate::Layout, config: &<$kind as $crate::Kind>::Config) -> Self {
                $(let $field = <$stage as $crate::Stage<$kind>>::build(config);)+
                let on = [$($crate::Stage::<$kind>::is_on(&$field)),+];
                let stages = <Self as $crate::Pipeline<$kind>>::STAGES;
                let span = layout.add(<Self as $crate::Pipeline<$kind>>::NAME, stages, &on);
                Self { span, $($field),+ }
            }
        }

        impl $crate::Pipeline<$kind> for $name {
            const NAME: &'static str = $text;
            const STAGES: &'static [&'static str] = &[$(<$stage as $crate::Stage<$kind>>::NAME),+];

            #[inline]
            fn run<C: $crate::Clock>(&mut self, burst: &mut $crate::Burst<$kind>, cx: &mut $crate::Ctx<'_, $kind>) {
                let mut walk = $crate::Walk::start::<C>(self.span, burst.live(), cx.env);
                $(
                    if $crate::Stage::<$kind>::is_on(&self.$field) {
                        if burst.live().is_empty() {
                            return;
                        }
                        walk.enter(cx);
                        $crate::Stage::run(&mut self.$field, burst, cx);
                        walk.leave::<C, $kind>(<$stage as $crate::Stage<$kind>>::NAME, burst, cx);
                    }
                    walk.next();
                )+
            }
        }
    };
}

/// Declares all pipelines of a gateway, as [`pipeline!`](crate::pipeline) does one, and the struct that holds them. After
/// `between` stands what holds packets between pipelines; each is a [`StageId`] to be charged by [`Env::charge`].
///
/// ```
/// use engine::{Burst, Ctx, Kind, Layout, Stage, pipelines};
/// # use engine::{Drop, Reason, drops};
/// # struct Toy;
/// # impl Kind for Toy {
/// #     type Lane = ();
/// #     type State = ();
/// #     type Config = ();
/// #     const DROPS: &'static [&'static [Reason<Drop>]] = &[drops::ALL];
/// #     fn describe(_: &Burst<Self>, _: usize, _: &()) -> String { String::new() }
/// # }
/// # #[derive(Default)]
/// # struct Parse;
/// # impl Stage<Toy> for Parse {
/// #     const NAME: &'static str = "parse";
/// #     fn run(&mut self, _: &mut Burst<Toy>, _: &mut Ctx<'_, Toy>) {}
/// # }
/// pipelines! {
///     /// A toy.
///     pub struct Pipelines for Toy {
///         /// From access.
///         uplink: Uplink("uplink") { parse: Parse }
///         /// From the core.
///         downlink: Downlink("downlink") { parse: Parse }
///     }
///     between("between") { scheduler: "scheduler" }
/// }
/// let mut layout = Layout::default();
/// let all = Pipelines::new(&mut layout, &());
/// assert_eq!(layout.stages().iter().map(|stage| stage.name).collect::<Vec<_>>(), ["parse", "parse", "scheduler"]);
/// ```
#[macro_export]
macro_rules! pipelines {
    (
        $(#[$doc:meta])* $vis:vis struct $all:ident for $kind:ty {
            $($(#[$about:meta])* $pipeline:ident: $name:ident($text:literal) { $($field:ident: $stage:ty),+ $(,)? })+
        }
        $(between($between:literal) { $($holder:ident: $holder_name:literal),+ $(,)? })?
    ) => {
        $($crate::pipeline! {
            $(#[$about])*
            $vis struct $name($text) for $kind { $($field: $stage),+ }
        })+

        $(#[$doc])*
        $vis struct $all {
            $($(#[$about])* pub $pipeline: $name,)+
            $($(#[doc = concat!("Between pipelines: ", $holder_name, ".")] pub $holder: $crate::StageId,)+)?
        }

        impl $all {
            /// All pipelines, built from the configuration, their stages entered in `layout` in this order.
            $vis fn new(layout: &mut $crate::Layout, config: &<$kind as $crate::Kind>::Config) -> Self {
                Self {
                    $($pipeline: $name::new(layout, config),)+
                    $($($holder: layout.add_between($between, $holder_name),)+)?
                }
            }
        }
    };
}

/// Bookkeeping of one run through a pipeline. Used by [`crate::pipeline!`] only.
pub struct Walk {
    stage: usize,
    live: crate::Live,
    cycles: u64,
    /// How many bursts' cycles this one's stand for; 0: its stages are not timed.
    weight: u64,
}

impl Walk {
    /// Begins before the first stage.
    #[inline]
    pub fn start<C: Clock>(span: StageSpan, live: crate::Live, env: &Env) -> Self {
        let weight = env.looks.weight(live.count());
        let is_timed = weight != 0 || env.tracer.is_on();
        Self { stage: span.first, live, cycles: if is_timed { C::cycles() } else { 0 }, weight }
    }

    /// The next stage is about to run.
    #[inline]
    pub fn enter<K: Kind>(&mut self, cx: &mut Ctx<'_, K>) {
        cx.stage = self.stage;
    }

    /// It ran: its cycles and packets are charged, and traced packets get their line.
    #[inline]
    pub fn leave<C: Clock, K: Kind>(&mut self, name: &'static str, burst: &mut Burst<K>, cx: &Ctx<'_, K>) {
        let mut spent = 0;
        if self.weight != 0 {
            let now = C::cycles();
            spent = cx.env.looks.stand_for(now.wrapping_sub(self.cycles), self.weight);
            if cx.env.tracer.is_on() {
                self.trace::<C, K>(name, now, burst, cx);
            } else {
                self.cycles = now;
            }
        } else if cx.env.tracer.is_on() {
            self.trace::<C, K>(name, C::cycles(), burst, cx);
        }
        cx.env.stats.stage(self.stage, self.live.count(), spent);
        self.live = burst.live();
    }

    /// Traced packets get their line; the next stage's time begins after that.
    #[cold]
    fn trace<C: Clock, K: Kind>(&mut self, name: &'static str, now: u64, burst: &Burst<K>, cx: &Ctx<'_, K>) {
        // 0: the trace began within this burst.
        let cycles = if self.cycles == 0 { 0 } else { now.wrapping_sub(self.cycles) };
        cx.env.tracer.record(name, (self.live, cycles), burst, cx.state, cx.env);
        self.cycles = C::cycles();
    }

    /// On to the next stage, whether or not this one is on.
    #[inline(always)]
    pub fn next(&mut self) {
        self.stage += 1;
    }
}
