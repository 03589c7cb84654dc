//! A leaf: a subscriber's rates and the queues of its classes.

use table::bucket;
use table::wheel::Handle;

use super::super::codel::{Codel, CodelConfig};
use super::super::flow::NONE;
use super::list::{ASSURED, Member, Place, SHARED, URGENT};
use super::longest::rank;
use super::pace::Pace;

/// Classes of a leaf.
pub const CLASSES: usize = 4;

/// What a class of a tier is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassTerms {
    /// Its share of what priority classes leave; 0: it is a priority class, and lower numbers go first.
    pub weight: u8,
    /// Bytes its queue holds at most.
    pub buffer: u32,
    /// Controlled Delay; none: only a full queue drops.
    pub aqm: Option<CodelConfig>,
}

impl Default for ClassTerms {
    fn default() -> Self {
        Self { weight: 1, buffer: 1 << 20, aqm: Some(CodelConfig::default()) }
    }
}

/// What leaves have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// By class; places that a tier does not use are never asked for.
    pub classes: [ClassTerms; CLASSES],
    /// What a leaf gets before others share the rest of their node; none: nothing.
    pub minimum: Option<bucket::Config>,
    /// What priority classes may send before all other leaves of the node; none: they go first within their leaf only.
    pub urgent: Option<bucket::Config>,
}

impl Tier {
    /// Priority classes, a bit each.
    #[inline(always)]
    pub(super) fn priority(&self) -> u8 {
        self.classes.iter().enumerate().fold(0, |set, (n, class)| set | u8::from(class.weight == 0) << n)
    }
}

/// How a line carries frames: what its rate counts of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// As they are.
    #[default]
    Whole,
    /// In ATM cells: 53 bytes for each 48 that have begun, with the trailer of AAL5 (8 bytes; ITU-T I.363.5, 6).
    Atm,
    /// In PTM with 64/65-octet encapsulation: a byte more for each 64 that have begun (IEEE 802.3, 61.3.3).
    Ptm,
}

impl Framing {
    /// Bytes on the line of a frame of `len` bytes, overhead included.
    #[inline(always)]
    pub const fn charged(self, len: u32) -> u32 {
        match self {
            Self::Whole => len,
            Self::Atm => (len + 8).div_ceil(48) * 53,
            Self::Ptm => len + len.div_ceil(64),
        }
    }
}

/// A leaf as control installs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSpec {
    /// The node that it shares with others, by the number given to [`Tree::set_node`](super::Tree::set_node).
    pub node: u32,
    /// The tier that its classes are of, by the number given to [`Tree::set_tier`](super::Tree::set_tier).
    pub tier: u16,
    /// Its maximum rate and burst.
    pub rate: bucket::Config,
    /// Its share of the node among leaves; 0 counts as 1.
    pub weight: u16,
    /// Bytes that its rates count beside each frame's (without CRC); may be negative.
    pub overhead: i8,
    /// How its line carries what that makes.
    pub framing: Framing,
}

/// A class's queue and counters: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Queue {
    pub head: u32,
    pub tail: u32,
    pub bytes: u32,
    pub packets: u32,
    pub codel: Codel,
    pub counts: ClassCounts,
}

/// What a class has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Packets that left for their port; those dropped are counted apart.
    pub packets: u64,
    /// Bytes sent: frames without CRC.
    pub bytes: u64,
    /// Nanoseconds that sent packets waited, summed.
    pub waited_ns: u64,
    /// Packets that its queue, or what all queues share, had no room for.
    pub full: u32,
    /// Packets that Controlled Delay dropped.
    pub aqm: u32,
}

impl Queue {
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        bytes: 0,
        packets: 0,
        codel: Codel::NEW,
        counts: ClassCounts { packets: 0, bytes: 0, waited_ns: 0, full: 0, aqm: 0 },
    };

    /// The rank that it has grown to; none: it stays in its list.
    #[inline(always)]
    pub fn grown(&self) -> Option<u8> {
        let now = rank(self.bytes);
        (now > self.codel.rank && self.packets > 1).then_some(now)
    }

    /// The rank that it has shrunk to, 0 for a packet at most; none: it stays in its list.
    #[inline(always)]
    pub fn shrunk(&self) -> Option<u8> {
        let now = rank(self.bytes);
        if self.codel.rank == 0 || self.packets > 1 && now + 1 >= self.codel.rank {
            return None;
        }
        Some(if self.packets > 1 { now } else { 0 })
    }
}

/// Where a leaf or a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing waits.
    Idle,
    /// In the list of its level.
    Listed,
    /// Over its rate, until its timer rings.
    Parked,
}

/// A leaf in the worker's hands: two cache lines, and one for each class.
#[repr(C, align(64))]
pub(super) struct Leaf<T> {
    pub pace: Pace,
    pub place: Place,
    pub node: u32,
    pub deficit: i32,
    pub timer: Option<Handle>,
    pub tier: u16,
    /// How its line carries frames; none: the place is free.
    pub framing: Option<Framing>,
    pub standing: Standing,
    pub level: u8,
    /// Classes with packets, a bit each.
    pub backlog: u8,
    /// The weighted class whose turn it is.
    pub turn: u8,
    pub overhead: i8,
    // The second line.
    pub quantum: i32,
    pub credit: [i32; CLASSES],
    pub minimum: bucket::State,
    pub urgent: bucket::State,
    pub label: T,
    pub queues: [Queue; CLASSES],
}

const _: () = assert!(std::mem::offset_of!(Leaf<[u32; 2]>, quantum) == 64 && size_of::<Leaf<[u32; 2]>>() == 384);

impl<T: Copy> Leaf<T> {
    /// A place no leaf has.
    pub fn none(label: T) -> Self {
        Self {
            pace: Pace::open(),
            place: Place::NONE,
            node: NONE,
            deficit: 0,
            timer: None,
            tier: 0,
            framing: None,
            standing: Standing::Idle,
            level: SHARED,
            backlog: 0,
            turn: 0,
            overhead: 0,
            quantum: super::QUANTUM,
            credit: [0; CLASSES],
            minimum: bucket::State::default(),
            urgent: bucket::State::default(),
            label,
            queues: [Queue::EMPTY; CLASSES],
        }
    }

    /// Whether a leaf has the place.
    #[inline(always)]
    pub fn is_in_use(&self) -> bool {
        self.framing.is_some()
    }

    /// Takes terms; what waits, is counted and is earned stays.
    pub fn install(&mut self, spec: &LeafSpec, tier: &Tier, label: T, now: u64) {
        if !self.is_in_use() {
            let full =
                |config: Option<bucket::Config>| config.map_or_else(Default::default, |c| bucket::State::full(&c, now));
            (self.minimum, self.urgent) = (full(tier.minimum), full(tier.urgent));
            self.pace = Pace::new(spec.rate, now);
        } else {
            self.pace.change(spec.rate, now);
        }
        (self.node, self.tier, self.label) = (spec.node, spec.tier, label);
        (self.overhead, self.framing) = (spec.overhead, Some(spec.framing));
        self.quantum = super::QUANTUM.saturating_mul(i32::from(spec.weight.max(1)));
    }

    /// The level it belongs to now.
    #[inline(always)]
    pub(crate) fn level_now(&mut self, tier: &Tier, now: u64) -> u8 {
        if self.backlog & tier.priority() != 0
            && tier.urgent.is_some_and(|rate| bucket::affords(&rate, &mut self.urgent, now, 1))
        {
            return URGENT;
        }
        if tier.minimum.is_some_and(|rate| bucket::affords(&rate, &mut self.minimum, now, 1)) {
            return ASSURED;
        }
        SHARED
    }

    /// The class whose packet goes next; some class has one.
    #[inline(always)]
    pub(crate) fn next_class(&mut self, tier: &Tier) -> usize {
        let first = self.backlog & tier.priority();
        if first != 0 {
            return first.trailing_zeros() as usize;
        }
        if self.backlog.is_power_of_two() {
            return self.backlog.trailing_zeros() as usize;
        }
        self.weighted_class(tier)
    }

    /// By deficit round robin among several weighted classes.
    fn weighted_class(&mut self, tier: &Tier) -> usize {
        // Each turn earns more than nothing, and no debt is larger than a frame: it ends.
        loop {
            let at = usize::from(self.turn) % CLASSES;
            let has = self.backlog >> at & 1 != 0;
            let credit = &mut self.credit[at];
            if has && *credit > 0 {
                return at;
            }
            *credit = if has { *credit + super::QUANTUM * i32::from(tier.classes[at].weight.max(1)) } else { 0 };
            self.turn = ((at + 1) % CLASSES) as u8;
        }
    }
}

impl<T> Member for Leaf<T> {
    #[inline(always)]
    fn place(&mut self) -> &mut Place {
        &mut self.place
    }
}
