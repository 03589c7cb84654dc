//! Frames out of nothing, straight into their slots.

use std::sync::Arc;

use frame::{Batch, Pool};

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::plan::{Fresh, Plan};
use crate::signature::Signature;
use crate::sizes::gcd;
use crate::template::{Fill, HEAD, Template};

/// What a generator has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub packets: u64,
    /// Bytes of their users' IP packets; an N6-side frame has 14 more.
    pub ip_bytes: u64,
    /// Packets asked for and not made, because the pool had no free slot.
    pub no_frame: u64,
    /// Packets asked for and not made, because a slot is too small for them.
    pub no_room: u64,
}

/// Makes the packets of one direction, in the order of its [`Plan`]. Owned by whoever sends; keeps no state per flow
/// and allocates nothing after construction.
pub struct Generator {
    plan: Arc<Plan>,
    direction: Direction,
    /// By [user's IP version][size][bearer].
    templates: Box<[Template]>,
    bearers: usize,
    sizes: usize,
    cycle: Cycle,
    place: usize,
    lane: u32,
    seq: u32,
    fresh: Fresh,
    made: Made,
}

impl Generator {
    /// At the first packet of that direction.
    ///
    /// # Errors
    /// None that the plan has not found already.
    pub fn new(plan: &Arc<Plan>, direction: Direction) -> Result<Self, ProfileError> {
        let profile = plan.profile();
        let sizes = profile.sizes(direction);
        let cycle = Cycle::new(sizes.cycle("sizes")?, plan.ues());
        let shares = sizes.shares();
        let mut templates = Vec::with_capacity(2 * shares.len() * usize::from(profile.bearers));
        for v6 in [false, true] {
            for share in &shares {
                for bearer in 0..profile.bearers {
                    templates.push(Template::new(profile, direction, v6, bearer, share.bytes));
                }
            }
        }
        Ok(Self {
            plan: plan.clone(),
            direction,
            templates: templates.into(),
            bearers: profile.bearers.into(),
            sizes: shares.len(),
            cycle,
            place: 0,
            lane: 0,
            seq: 0,
            fresh: plan.fresh(0),
            made: Made::default(),
        })
    }

    /// The plan it plays.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Which way its packets go.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// What it has made.
    pub fn made(&self) -> Made {
        self.made
    }

    /// Bytes of the largest IP packet it sends, tunnel included: the link needs that MTU.
    pub(crate) fn largest_packet(&self) -> usize {
        self.templates.iter().map(Template::packet_len).max().unwrap_or(0)
    }

    /// Bytes an arena's slots need behind their headroom.
    pub fn largest(&self) -> usize {
        self.templates.iter().map(Template::room).max().unwrap_or(0)
    }

    /// Makes the next `n` packets (at most what `out` has room for), signed with the time `now_ns`, and puts them at
    /// the end of `out`. Returns how many; fewer than asked are counted in [`Made`].
    pub fn fill(&mut self, pool: &mut Pool, out: &mut Batch, n: usize, now_ns: u64) -> usize {
        let wanted = n.min(out.room());
        for done in 0..wanted {
            let Some(mut frame) = pool.take() else {
                self.made.no_frame += (wanted - done) as u64;
                return done;
            };
            let Some(len) = self.next(pool.arena().space_mut(&mut frame), now_ns) else {
                pool.give(frame);
                self.made.no_room += (wanted - done) as u64;
                return done;
            };
            pool.arena().set_len(&mut frame, len);
            if let Err(frame) = out.push(frame) {
                pool.give(frame);
            }
        }
        wanted
    }

    /// Writes the next packet to the start of `space` and returns its length; none, and nothing changed, when there
    /// is less room than [`Generator::largest`] may need.
    #[inline(always)]
    pub fn next(&mut self, space: &mut [u8], now_ns: u64) -> Option<usize> {
        let (place, lane) = (self.place, self.lane);
        let mut who = self.plan.at(place, lane);
        let size = self.cycle.current();
        let index = (usize::from(who.v6) * self.sizes + size) * self.bearers + usize::from(who.bearer);
        let template = &self.templates[index];
        let len = template.frame_len;
        if space.len() < template.room() {
            return None;
        }
        let head: &mut [u8; HEAD] = space.first_chunk_mut()?;
        if self.fresh.chooses(place) {
            self.fresh.apply(&self.plan, place, &mut who);
        }
        let flow = self.plan.flow_base() + lane * self.plan.ues() + place as u32;
        let mark = Signature { direction: self.direction, flow, seq: self.seq, sent_ns: now_ns };
        let teid = match self.direction {
            Direction::Uplink => self.plan.teid_at(self.direction, place, who.ue, who.bearer),
            Direction::Downlink => 0,
        };
        template.write(head, &self.plan, &who, &Fill { teid, mark });
        if len > HEAD && template.summed {
            space[HEAD..len].fill(0);
        }
        self.made.packets += 1;
        self.made.ip_bytes += template.ip_len as u64;
        self.cycle.advance();
        self.place += 1;
        if self.place == self.plan.ues() as usize {
            self.next_round();
        }
        Some(len)
    }

    #[cold]
    fn next_round(&mut self) {
        self.place = 0;
        self.lane += 1;
        if self.lane == self.plan.flows_per_ue() {
            self.lane = 0;
            self.seq = self.seq.wrapping_add(1);
        }
        self.fresh = self.plan.fresh(u64::from(self.seq) * u64::from(self.plan.flows_per_ue()) + u64::from(self.lane));
    }
}

/// The cycle of sizes. Where its length and the number of users have a common divisor, users would always meet the
/// same sizes; so each time both begin together, the cycle begins one later.
struct Cycle {
    sizes: Box<[u16]>,
    at: usize,
    /// Packets until cycle and round begin together, and how many of them are left.
    together: u64,
    left: u64,
}

impl Cycle {
    fn new(sizes: Box<[u16]>, ues: u32) -> Self {
        let length = sizes.len() as u32;
        let together = u64::from(length / gcd(length, ues)) * u64::from(ues);
        Self { sizes, at: 0, together, left: together }
    }

    #[inline(always)]
    fn current(&self) -> usize {
        self.sizes[self.at].into()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at += 1;
        self.left -= 1;
        if self.left == 0 {
            self.left = self.together;
            self.at += 1;
        }
        while self.at >= self.sizes.len() {
            self.at -= self.sizes.len();
        }
    }
}
