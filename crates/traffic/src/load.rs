//! A load over real ports.

use std::sync::Arc;
use std::time::Duration;

use frame::{Batch, Frame, Pool, Port};

use crate::checker::{Checker, Verify};
use crate::clock::Clock;
use crate::direction::Direction;
use crate::error::ProfileError;
use crate::generator::Generator;
use crate::neighbours::Neighbours;
use crate::plan::Plan;
use crate::responder::reflect;
use crate::sender::{Balance, Sender};

/// Bursts received from a port before the other gets its turn.
const RX_BURSTS: usize = 4;

/// Where the downlink comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Downlink {
    #[default]
    Generated,
    /// The uplink is turned around at this load's N6 port; latencies of the downlink are round trips.
    Mirrored,
    /// The uplink is turned around by another process: this load has no N6 port, and counts as forwarded up what came
    /// back.
    MirroredElsewhere,
    /// Generated, and what a port sends comes back to it as it is: beyond it is a bare forwarder. Only signatures are
    /// checked; latencies are round trips.
    Returned,
}

/// What a [`Load`] does.
#[derive(Clone)]
pub struct LoadOptions {
    /// Whether it sends. Sending and receiving can be two loads, each on its own ports and its own core; see
    /// [`crate::TrialResult::with_received`].
    pub send: bool,
    /// Whether it receives and checks.
    pub receive: bool,
    /// Where the downlink comes from.
    pub downlink: Downlink,
    /// What is checked.
    pub verify: Verify,
    /// What packets are signed and paced by. Two halves of a load need clones of one.
    pub clock: Clock,
    /// How far the clocks of sender and receiver may be apart: a packet signed further in the future counts as corrupt.
    pub clock_skew: Duration,
}

impl Default for LoadOptions {
    /// Sends and checks both directions by the monotonic clock.
    fn default() -> Self {
        Self {
            send: true,
            receive: true,
            downlink: Downlink::default(),
            verify: Verify::default(),
            clock: Clock::monotonic(),
            // Of two cores.
            clock_skew: Duration::from_millis(1),
        }
    }
}

/// One port of a load, with what waits to be sent there.
pub(crate) struct Door {
    pub port: Box<dyn Port>,
    /// Made and not yet taken by the port. Never more than a burst: what is due beyond it waits in the pacer.
    pub pending: Batch,
    /// Answers and packets turned around.
    answers: Batch,
    neighbours: Neighbours,
}

/// Generator and checker at the ports of a gateway, driven by whoever owns it: [`Load::turn`] sends what is due and
/// checks what came. Allocates nothing after construction.
pub struct Load {
    pub(crate) plan: Arc<Plan>,
    pub(crate) clock: Clock,
    pub(crate) downlink: Downlink,
    /// N3, N6.
    pub(crate) doors: [Option<Door>; 2],
    /// By direction; [uplink's] leaves by N3.
    pub(crate) senders: [Option<Sender>; 2],
    /// By the door they receive from: N3's checks the downlink.
    pub(crate) checkers: [Option<Checker>; 2],
    pub(crate) pool: Pool,
    /// Packets turned around, and those of them the port took, since counting began.
    pub(crate) turned: u64,
    pub(crate) turned_sent: u64,
    /// By door, packets its port had no room for when counting began.
    pub(crate) missed_before: [u64; 2],
    scratch: Batch,
}

impl Load {
    /// A load on a gateway's N3 and N6 (the generator's ends of those links), standing still until
    /// [`Load::start`]. A port that is missing sends and receives nothing.
    ///
    /// # Errors
    /// [`ProfileError::Mtu`] or [`ProfileError::Slot`] when the largest packets can't be sent.
    pub fn new(
        plan: &Arc<Plan>,
        n3: Option<Box<dyn Port>>,
        n6: Option<Box<dyn Port>>,
        pool: Pool,
        options: LoadOptions,
    ) -> Result<Self, ProfileError> {
        let LoadOptions { send, receive, downlink, verify, clock, clock_skew } = options;
        let is_returned = downlink == Downlink::Returned;
        let generated = downlink == Downlink::Generated || is_returned;
        let balance = if generated { Balance::new(plan.profile().ratio) } else { Balance::mirrored() };
        let sender = |sends: Direction, wanted: bool| {
            let make = || Ok::<_, ProfileError>(Sender::new(Generator::new(plan, sends)?, balance.clone()));
            wanted.then(make).transpose()
        };
        let senders = [
            sender(Direction::Uplink, send && n3.is_some())?,
            sender(Direction::Downlink, send && generated && n6.is_some())?,
        ];
        for (sender, port) in senders.iter().zip([&n3, &n6]) {
            if let (Some(sender), Some(port)) = (sender, port) {
                fits(&sender.generator, &**port, &pool)?;
            }
        }
        let returned = |sent: Direction| Checker::new(plan, sent, Verify::NONE).within(clock_skew);
        let back = || match generated {
            _ if is_returned => returned(Direction::Uplink),
            true => Checker::new(plan, Direction::Downlink, verify).within(clock_skew),
            false => Checker::round_trip(plan, verify).within(clock_skew),
        };
        let checkers = [
            (receive && n3.is_some()).then(back),
            (receive && n6.is_some()).then(|| match is_returned {
                true => returned(Direction::Downlink),
                false => Checker::new(plan, Direction::Uplink, verify).within(clock_skew),
            }),
        ];
        let door = |port: Option<Box<dyn Port>>, sends| {
            port.map(|port| Door {
                port,
                pending: Batch::new(),
                answers: Batch::new(),
                neighbours: Neighbours::new(plan.profile(), sends),
            })
        };
        Ok(Self {
            plan: plan.clone(),
            clock,
            downlink,
            doors: [door(n3, Direction::Uplink), door(n6, Direction::Downlink)],
            senders,
            checkers,
            pool,
            turned: 0,
            turned_sent: 0,
            missed_before: [0; 2],
            scratch: Batch::new(),
        })
    }

    /// Goes by another clock from now on: not while it sends.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// The clock that packets are signed and paced by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sends what is due, checks what came, answers what asks for the generator's addresses. Returns how many packets
    /// moved.
    pub fn turn(&mut self) -> usize {
        let sent = self.send();
        sent + self.receive()
    }

    /// The sending half of a turn.
    fn send(&mut self) -> usize {
        let mut moved = 0;
        for (door, sender) in self.doors.iter_mut().zip(&mut self.senders) {
            let Some(door) = door else { continue };
            door.port.service(&mut self.pool);
            if let Some(sender) = sender
                && door.pending.is_empty()
            {
                sender.fill(&mut self.pool, &mut door.pending, self.clock.now_ns());
            }
            if !door.pending.is_empty() {
                moved += door.port.tx_burst(&mut self.pool, &mut door.pending);
            }
            door.port.kick(&mut self.pool);
        }
        moved
    }

    /// The receiving half of a turn.
    fn receive(&mut self) -> usize {
        let mut moved = 0;
        for index in 0..2 {
            let mirrors = self.downlink == Downlink::Mirrored && index == 1;
            let Some(door) = &mut self.doors[index] else { continue };
            // The sending half of a split load leaves its ports' packets to the other.
            if self.checkers[index].is_none() && !mirrors {
                continue;
            }
            for _ in 0..RX_BURSTS {
                let came = door.port.rx_burst(&mut self.pool, &mut self.scratch);
                if came == 0 {
                    break;
                }
                moved += came;
                let now_ns = self.clock.now_ns();
                let Self { pool, scratch, checkers, turned, .. } = self;
                scratch.drain(|mut frame| {
                    let wanted = match &mut checkers[index] {
                        Some(checker) => checker.check_signed(pool.arena().bytes(&frame), now_ns),
                        None => false,
                    };
                    // Without a checker everything that can be is turned around.
                    let turns = mirrors && (wanted || checkers[index].is_none());
                    if turns && reflect(pool.arena().bytes_mut(&mut frame)) {
                        *turned += 1;
                        keep(&mut door.answers, pool, frame);
                    } else if wanted {
                        pool.give(frame);
                    } else if door.answer(pool, frame).is_none()
                        && let Some(checker) = &mut checkers[index]
                    {
                        checker.note_foreign();
                    }
                });
                if !door.answers.is_empty() {
                    let sent = door.port.tx_burst(&mut self.pool, &mut door.answers);
                    if mirrors {
                        self.turned_sent += sent as u64;
                    }
                }
            }
            if !door.answers.is_empty() {
                door.port.kick(&mut self.pool);
                door.port.service(&mut self.pool);
                let sent = door.port.tx_burst(&mut self.pool, &mut door.answers);
                if mirrors {
                    self.turned_sent += sent as u64;
                }
            }
            door.port.kick(&mut self.pool);
        }
        moved
    }

    /// Everything back to the pool, and the ports closed.
    pub fn close(&mut self) {
        for door in self.doors.iter_mut().flatten() {
            self.pool.give_all(&mut door.pending);
            self.pool.give_all(&mut door.answers);
            door.port.close(&mut self.pool);
        }
    }

    /// Its stock of frames; a gauge for tests.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The ports, N3 and N6, as far as there are any.
    pub fn ports(&self) -> [Option<&dyn Port>; 2] {
        self.doors.each_ref().map(|door| door.as_ref().map(|door| &*door.port))
    }
}

impl Door {
    /// Answers a frame if there is something to answer; it is used up either way.
    #[cold]
    fn answer(&mut self, pool: &mut Pool, mut frame: Frame) -> Option<()> {
        let len = frame.len();
        let answer = self.neighbours.answer(pool.arena().space_mut(&mut frame), len);
        let Some(len) = answer else {
            pool.give(frame);
            return None;
        };
        pool.arena().set_len(&mut frame, len);
        keep(&mut self.answers, pool, frame);
        Some(())
    }
}

/// Whether a port and the packet memory can carry all a generator makes.
fn fits(generator: &Generator, port: &dyn Port, pool: &Pool) -> Result<(), ProfileError> {
    let key = match generator.direction() {
        Direction::Uplink => "uplink_sizes",
        Direction::Downlink => "downlink_sizes",
    };
    let (needed, room) = (generator.largest(), pool.arena().room());
    if needed > room {
        return Err(ProfileError::Slot { key, needed, room });
    }
    let (caps, needed) = (port.caps(), generator.largest_packet());
    // 0: the port doesn't know.
    if caps.mtu > 0 && needed > caps.mtu as usize {
        return Err(ProfileError::Mtu { key, port: caps.name, mtu: caps.mtu, needed });
    }
    Ok(())
}

/// Adds a frame to a batch, or gives it back when that is full.
fn keep(batch: &mut Batch, pool: &mut Pool, frame: Frame) {
    if let Err(frame) = batch.push(frame) {
        pool.give(frame);
    }
}
