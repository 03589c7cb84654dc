//! A flow: its rates, its queue, what it has counted.

use table::bucket;

use super::Label;
use super::pie::{Pie, PieConfig};
use super::shaper::Shaper;

/// No flow or node.
pub const NONE: u32 = u32::MAX;

/// What a flow is given; made by control. What every packet asks for stands first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct FlowSpec {
    /// Active queue management; none: the queue's end alone drops.
    pub aqm: Option<PieConfig>,
    /// Bytes its queue holds at most.
    pub buffer: u32,
    /// The group of links its packets leave by.
    pub group: u16,
    /// Priority, 0 to 7, higher first.
    pub priority: u8,
    /// Minimum reserved rate in bit/s; none: nothing is reserved. Served before all priorities.
    pub reserved: Option<u64>,
    /// Maximum sustained rate in bit/s; none: unlimited.
    pub sustained: Option<u64>,
    /// Burst at the sustained rate, in bytes.
    pub burst: u64,
    /// Peak rate in bit/s; none: unlimited.
    pub peak: Option<u64>,
}

/// Default of [`FlowSpec::burst`], in bytes.
pub const DEFAULT_BURST: u64 = 3044;
/// What the peak rate's bucket holds, in bytes: one frame.
pub const PEAK_BURST: u64 = 1522;

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            sustained: None,
            burst: DEFAULT_BURST,
            peak: None,
            reserved: None,
            priority: 0,
            group: 0,
            buffer: 256 * 1024,
            aqm: None,
        }
    }
}

/// What a flow has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FlowCounts {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent: Ethernet with CRC.
    pub bytes: u64,
    /// Packets the queue had no room for.
    pub full: u64,
    /// Packets active queue management dropped.
    pub aqm: u64,
    /// Nanoseconds that sent packets waited, summed.
    pub waited_ns: u64,
    /// How much longer or shorter than the one before each of them waited, summed: units of 2¹⁰ ns.
    jitter: u64,
    /// The wait of the last one, and the longest: units of 2¹⁰ ns.
    last: u32,
    longest: u32,
}

/// Nanoseconds in a unit of short times, as a shift.
const UNIT: u32 = 10;

/// Words of what a flow has earned and counted.
pub const FLOW_WORDS: usize = FlowCounts::WORDS + 3 * 2 + Pie::WORDS + 1;

impl FlowCounts {
    const WORDS: usize = 8;

    fn words(&self) -> [u64; Self::WORDS] {
        let Self { packets, bytes, full, aqm, waited_ns, jitter, last, longest } = *self;
        [packets, bytes, full, aqm, waited_ns, jitter, last.into(), longest.into()]
    }

    fn of([packets, bytes, full, aqm, waited_ns, jitter, last, longest]: [u64; Self::WORDS]) -> Self {
        // As they were written.
        Self { packets, bytes, full, aqm, waited_ns, jitter, last: last as u32, longest: longest as u32 }
    }

    /// A packet of `len` bytes is sent that waited so many nanoseconds.
    #[inline(always)]
    pub fn sent(&mut self, len: u32, ns: u64) {
        self.packets += 1;
        self.bytes += u64::from(len);
        let units = (ns >> UNIT).min(u32::MAX.into()) as u32;
        self.waited_ns += ns;
        self.jitter += u64::from(units.abs_diff(std::mem::replace(&mut self.last, units)));
        self.longest = self.longest.max(units);
    }

    /// Packets that came, where so many wait.
    pub fn came(&self, waiting: u32) -> u64 {
        self.packets + self.full + self.aqm + u64::from(waiting)
    }

    /// The longest wait, in nanoseconds; rounded down to 2¹⁰.
    pub fn longest_ns(&self) -> u64 {
        u64::from(self.longest) << UNIT
    }

    /// How much longer or shorter than the one before a packet waited, in nanoseconds, summed: D of RFC 3550, 6.4.1.
    pub fn jitter_ns(&self) -> u64 {
        self.jitter << UNIT
    }
}

/// Where a flow stands with the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing waits.
    Idle,
    /// In the list of its group and [`Flow::level`].
    Listed,
    /// Until its timer rings.
    Parked,
}

/// Bits of [`Flow::asks`].
pub mod asks {
    /// It has a rate to keep, or to be given.
    pub const RATES: u8 = 1;
    /// It has a reserved rate.
    pub const RESERVED: u8 = 2;
    /// Its queue's drop probability is not zero.
    pub const AQM: u8 = 4;
}

/// What a flow was given, and how it stands with it: looked at only where the flow has rates, or active queue
/// management has something to do.
#[derive(Clone, Debug)]
pub struct Terms {
    /// As given.
    pub spec: FlowSpec,
    /// Active queue management.
    pub pie: Pie,
    sustained: Shaper,
    peak: Shaper,
    reserved: Shaper,
}

/// A flow in the worker's hands: two cache lines side by side, which every packet touches, where its label has at most 16
/// bytes.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub struct Flow<T> {
    /// First and last node of its queue.
    pub head: u32,
    /// See `head`.
    pub tail: u32,
    /// Bytes waiting, CRCs included.
    pub bytes: u32,
    /// Packets waiting.
    pub packets: u32,
    /// Its neighbours in the list.
    pub next: u32,
    /// See `next`.
    pub prev: u32,
    /// Bytes it may still send before its turn is over.
    pub deficit: i32,
    /// What its gateway keeps with it.
    pub label: T,
    /// The timer it waits for.
    pub timer: Option<table::wheel::Handle>,
    /// It exists.
    pub in_use: bool,
    /// Where it stands.
    pub standing: Standing,
    /// The list it is in, 0 first.
    pub level: u8,
    /// What packets must look further for: `asks`.
    pub asks: u8,
    /// Of `spec`, what every packet asks for.
    pub priority: u8,
    /// See `priority`.
    pub group: u16,
    /// See `priority`.
    pub buffer: u32,
    /// What it has counted.
    pub counts: FlowCounts,
    /// Its rates, elsewhere.
    pub terms: Box<Terms>,
}

const _: () = assert!(std::mem::offset_of!(Flow<[u32; 4]>, counts) == 64 && size_of::<Flow<[u32; 4]>>() == 128);

/// May the flow's first packet go?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// It may, and its credit is taken.
    Go,
    /// Not before that time, in nanoseconds.
    Wait(u64),
}

/// Lists of a group: 0 for flows within their reserved rate, then one for each priority, the highest first.
pub const LEVELS: usize = 9;

impl<T: Label> Flow<T> {
    /// A flow with nothing in it.
    pub fn new(spec: FlowSpec, label: T, now: u64) -> Self {
        let has_rates = [spec.sustained, spec.peak, spec.reserved].iter().any(Option::is_some);
        Self {
            in_use: true,
            asks: if has_rates { asks::RATES } else { 0 } | if spec.reserved.is_some() { asks::RESERVED } else { 0 },
            priority: spec.priority.min(7),
            group: spec.group,
            buffer: spec.buffer,
            standing: Standing::Idle,
            level: 0,
            head: NONE,
            tail: NONE,
            bytes: 0,
            packets: 0,
            next: NONE,
            prev: NONE,
            deficit: 0,
            label,
            timer: None,
            counts: FlowCounts::default(),
            terms: Box::new(Terms {
                spec,
                pie: Pie::new(now),
                sustained: Shaper::new(spec.sustained, spec.burst, now),
                peak: Shaper::new(spec.peak, PEAK_BURST, now),
                reserved: Shaper::new(Some(spec.reserved.unwrap_or(0)), DEFAULT_BURST, now),
            }),
        }
    }

    /// A place no flow has.
    pub fn none() -> Self {
        Self { in_use: false, ..Self::new(FlowSpec::default(), T::NONE, 0) }
    }

    /// Takes new parameters; what waits stays.
    pub fn change(&mut self, spec: FlowSpec, now: u64) {
        let fresh = Flow::new(spec, self.label, now);
        let keep = |mut new: Shaper, old: &Shaper| {
            new.state.credit = old.state.credit.min(new.config.depth);
            new
        };
        self.terms.sustained = keep(fresh.terms.sustained, &self.terms.sustained);
        self.terms.peak = keep(fresh.terms.peak, &self.terms.peak);
        self.terms.reserved = fresh.terms.reserved;
        self.terms.spec = spec;
        (self.priority, self.group, self.buffer) = (fresh.priority, fresh.group, fresh.buffer);
        self.asks = fresh.asks;
        self.note_aqm();
    }

    /// Asks for its lines.
    #[inline(always)]
    pub fn prefetch(&self) {
        table::hint::prefetch_read(self);
        table::hint::prefetch_read(&self.counts);
    }

    /// Whether arriving packets must ask active queue management.
    fn note_aqm(&mut self) {
        let drops = self.terms.spec.aqm.is_some() && self.terms.pie.probability() > 0.0;
        self.asks = self.asks & !asks::AQM | if drops { asks::AQM } else { 0 };
    }

    /// Computes its drop probability anew, if it is time; `whole` is its group's rate in bit/s.
    pub(crate) fn manage(&mut self, now: u64, whole: impl Fn(&Self) -> u64) {
        let Some(aqm) = self.terms.spec.aqm.filter(|_| self.in_use && self.terms.pie.is_due(now)) else { return };
        let (bytes, credit) = self.backlog();
        // A flow without rates is as fast as its group.
        let rate = |rate: Option<u64>| rate.unwrap_or_else(|| whole(self));
        let (sustained, peak) = (rate(self.terms.spec.sustained), rate(self.terms.spec.peak));
        self.terms.pie.update(&aqm, now, bytes, credit, sustained, peak);
        self.note_aqm();
    }

    /// Whether active queue management drops a packet of `len` bytes that comes.
    #[inline]
    pub(crate) fn aqm_drops(&mut self, len: u32) -> bool {
        self.asks & asks::AQM != 0
            && self.terms.spec.aqm.is_some_and(|aqm| self.terms.pie.drops(&aqm, len, self.bytes.into()))
    }

    /// Something waits in it again.
    #[inline]
    pub fn awake(&mut self, now: u64) {
        if self.asks & asks::RATES == 0 {
            return;
        }
        if !self.terms.sustained.is_open() {
            self.terms.sustained.awake(now);
        }
        if !self.terms.peak.is_open() {
            self.terms.peak.awake(now);
        }
    }

    /// The list it belongs to now.
    #[inline]
    pub(crate) fn level_now(&mut self, now: u64, bytes: u32) -> u8 {
        if self.asks & asks::RESERVED != 0 && self.terms.reserved.affords(now, bytes) {
            return 0;
        }
        8 - self.priority
    }

    /// When its reserved rate will let a packet of `bytes` go first.
    pub(crate) fn reserved_at(&self, bytes: u32) -> u64 {
        self.terms.reserved.ready_at(bytes)
    }

    /// Whether both buckets allow a packet of `bytes`; if so, its credit is taken.
    #[inline]
    pub(crate) fn may_send(&mut self, now: u64, bytes: u32) -> May {
        if self.asks & asks::RATES == 0 { May::Go } else { self.by_rates(now, bytes) }
    }

    /// Apart, as most flows of most networks have no rate of their own here, or wait by it.
    #[inline(never)]
    fn by_rates(&mut self, now: u64, bytes: u32) -> May {
        let terms = &mut *self.terms;
        let (sustained, peak) = (!terms.sustained.is_open(), !terms.peak.is_open());
        if sustained && !terms.sustained.affords(now, bytes) || peak && !terms.peak.affords(now, bytes) {
            let at = |on: bool, shaper: &mut Shaper| match on {
                true => {
                    let _ = shaper.affords(now, bytes);
                    shaper.ready_at(bytes)
                }
                false => 0,
            };
            return May::Wait(at(sustained, &mut terms.sustained).max(at(peak, &mut terms.peak)));
        }
        if sustained {
            bucket::take(&mut terms.sustained.state, bytes);
        }
        if peak {
            bucket::take(&mut terms.peak.state, bytes);
        }
        if terms.spec.reserved.is_some() {
            bucket::take(&mut terms.reserved.state, bytes);
            let floor = -terms.reserved.config.depth;
            terms.reserved.state.credit = terms.reserved.state.credit.max(floor);
        }
        May::Go
    }

    /// What it has earned and counted, for another process: counts, buckets, queue management, deficit.
    pub fn words(&self) -> [u64; FLOW_WORDS] {
        let mut words = [0; FLOW_WORDS];
        let Terms { pie, sustained, peak, reserved, .. } = &*self.terms;
        let buckets =
            [sustained, peak, reserved].map(|shaper| [shaper.state.credit.cast_unsigned(), shaper.state.last_ns]);
        let all = self.counts.words().into_iter().chain(buckets.into_iter().flatten()).chain(pie.words());
        words.iter_mut().zip(all).for_each(|(word, is)| *word = is);
        words[FLOW_WORDS - 1] = i64::from(self.deficit).cast_unsigned();
        words
    }

    /// Goes on with what [`words`](Self::words) said elsewhere; no bucket holds more than it can here.
    pub(super) fn carry_on(&mut self, words: &[u64; FLOW_WORDS]) {
        let Some((counts, rest)) = words.split_first_chunk() else { return };
        self.counts = FlowCounts::of(*counts);
        let (buckets, rest) = rest.split_at(6);
        let Terms { pie, sustained, peak, reserved, .. } = &mut *self.terms;
        for (shaper, state) in [sustained, peak, reserved].into_iter().zip(buckets.chunks_exact(2)) {
            shaper.state.credit = state[0].cast_signed().min(shaper.most());
            shaper.state.last_ns = state[1];
        }
        if let Some(state) = rest.first_chunk() {
            *pie = Pie::of(*state);
        }
        self.deficit = words[FLOW_WORDS - 1] as i32; // as it was written
        self.note_aqm();
    }

    /// What waits and what may go at once, for active queue management: bytes, and bytes of credit at the peak rate.
    pub fn backlog(&self) -> (u64, u64) {
        let credit = self.terms.sustained.state.credit.max(0) as u64 / 8_000_000_000;
        (self.bytes.into(), if self.terms.sustained.is_open() { u64::MAX } else { credit })
    }
}
