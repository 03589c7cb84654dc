//! The control plane itself: sessions brought up, lived with and taken down. No socket, no clock: both are passed in.
//!
//! ```text
//!  Associating ──► Working: establish, connect, then idle, wake, hand over, limit, query, churn
//!                     │ end
//!                     ▼
//!                  Ending: delete ──► Releasing ──► Over
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `association.rs` | the user plane comes, goes, asks to be released |
//! | `work.rs` | what is done to sessions, and when |
//! | `answers.rs` | what became of it |
//! | `overload.rs` | what is not asked for, as the user plane has too much to do |
//! | `reports.rs` | what the user plane says unasked |

mod answers;
mod association;
mod overload;
mod reports;
mod work;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ledger::Moment;
use pfcp::ie::{Cause, CpFunctionFeatures, FSeid, NodeId, RecoveryTimeStamp};
use pfcp::message::{Message, SessionReportResponse};
use pfcp::node::{AssociationId, Config, Failure, Node, Role, Ticket, Time};

use super::charging::From;
use super::kept::Batch;
use super::pace::Pace;
use super::spec::Spec;
use super::subscriber::{Doing, State, Subscriber, tunnel};
use super::tally::{Asked, Tally};
use overload::Overload;

/// How far the whole is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The user plane has been asked to work together.
    Associating,
    /// Sessions come up and live.
    Working,
    /// Sessions go.
    Ending,
    /// The association goes.
    Releasing,
    /// Nothing is left to do.
    Over,
    /// There is no user plane.
    Failed(Failure),
}

/// The answer to a report of usage, which waits for its records.
#[derive(Debug)]
pub struct Acknowledgement {
    ticket: Ticket,
    seid: u64,
    cause: Cause,
}

/// Things done to sessions that are up, and how often.
struct Paces {
    establish: Pace,
    hand_over: Pace,
    limit: Pace,
    query: Pace,
    churn: Pace,
}

/// The control plane.
pub struct ControlPlane {
    spec: Spec,
    node: Node,
    address: IpAddr,
    stage: Stage,
    association: Option<AssociationId>,
    subscribers: Vec<Subscriber>,
    /// To be brought up.
    waiting: VecDeque<u32>,
    /// Who is to be woken or put to sleep when, each in the order of time.
    wakes: VecDeque<(Time, u32)>,
    naps: VecDeque<(Time, u32)>,
    paces: Paces,
    /// Where the next one to do something with is looked for.
    cursor: usize,
    in_flight: usize,
    up: u32,
    most_up: u32,
    refused: u32,
    limits: usize,
    began: Option<Time>,
    complete: Option<Time>,
    /// Sessions that got their first gNB since last asked.
    fresh: Vec<u32>,
    /// Records made, and acknowledgements of what they were made of, since last asked.
    batches: Vec<Batch>,
    /// What the user plane calls itself.
    user_plane: String,
    charging_id: u32,
    /// Tells our sessions from those of an earlier run.
    run: u32,
    /// The calendar's time when our clock was at zero.
    epoch: Moment,
    keep: bool,
    silent: bool,
    /// The user plane asks to be released: it gets no new sessions.
    asked_to_release: bool,
    /// What the user plane says of its load and wants kept back.
    overload: Overload,
    tally: Tally,
}

impl ControlPlane {
    /// One that speaks from `address`, began at `started`, and asks its user plane to work together `now`.
    pub fn new(spec: Spec, address: IpAddr, started: RecoveryTimeStamp, now: Time) -> Self {
        let features = CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL;
        let config = Config {
            t1: spec.patience,
            n1: spec.n1_requests,
            max_requests: spec.window + 64,
            ..Config::new(NodeId::from(address), Role::ControlPlane(features))
        };
        let mut node = Node::new(config, started);
        // Nothing waits yet: there is room for a request.
        _ = node.associate(spec.upf, now);
        let subscribers = (0..spec.sessions).map(|i| Subscriber::new(i, &spec.places)).collect();
        let life = &spec.life;
        let paces = Paces {
            establish: Pace::new(spec.rate),
            hand_over: Pace::new(life.handovers),
            limit: Pace::new(life.limits),
            query: Pace::new(life.queries),
            churn: Pace::new(life.churn),
        };
        Self {
            node,
            address,
            stage: Stage::Associating,
            association: None,
            subscribers,
            waiting: (0..spec.sessions).collect(),
            wakes: VecDeque::new(),
            naps: VecDeque::new(),
            paces,
            cursor: 0,
            in_flight: 0,
            up: 0,
            most_up: 0,
            refused: 0,
            limits: 0,
            began: None,
            complete: None,
            fresh: Vec::new(),
            batches: Vec::new(),
            user_plane: String::new(),
            charging_id: 0,
            run: started.0.wrapping_mul(0x9e37_79b1),
            // To the second, as time stamps of the protocol are.
            epoch: Moment(started.unix() * 1000),
            keep: false,
            silent: false,
            asked_to_release: false,
            overload: Overload::default(),
            tally: Tally::default(),
            spec,
        }
    }

    /// Its end of PFCP.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What it was told to do.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What it has done.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// As [`tally`](Self::tally), to begin response times anew.
    pub(crate) fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Sessions that are up; the most there have been.
    pub fn up(&self) -> (u32, u32) {
        (self.up, self.most_up)
    }

    /// Subscribers that sleep.
    pub fn idle(&self) -> usize {
        self.subscribers.iter().filter(|subscriber| subscriber.state == State::Idle).count()
    }

    /// The subscribers, by number.
    pub fn subscribers(&self) -> &[Subscriber] {
        &self.subscribers
    }

    /// When the first session was asked for, and when the last was there or refused.
    pub(crate) fn bring_up(&self) -> (Option<Time>, Option<Time>) {
        (self.began, self.complete)
    }

    /// Sessions that got their gNB since last asked.
    pub fn take_fresh(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.fresh)
    }

    /// Charging records since last asked, and acknowledgements that wait for them: to be handed back to
    /// [`acknowledge`](Self::acknowledge) when the records are safe.
    pub(crate) fn take_batches(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.batches)
    }

    /// Acknowledges usage.
    pub fn acknowledge(&mut self, Acknowledgement { ticket, seid, cause }: Acknowledgement, now: Time) {
        let response = SessionReportResponse { cause, ..SessionReportResponse::default() };
        self.node.respond(ticket, Some(seid), response.into(), now);
    }

    /// Takes in a datagram.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], now: Time) {
        self.node.receive(from, datagram, now);
        self.react(now);
    }

    /// Hands over what is to be sent.
    pub fn drain(&mut self, send: impl FnMut(SocketAddr, &[u8])) {
        self.node.drain(send);
    }

    /// Does what is due.
    pub fn turn(&mut self, now: Time) {
        self.node.tick(now);
        self.react(now);
        match self.stage {
            Stage::Working => self.work(now),
            Stage::Ending => self.take_down(now),
            Stage::Releasing if self.association.is_none() => self.stage = Stage::Over,
            _ => {}
        }
    }

    /// How long nothing is to be done, if no datagram comes.
    pub(crate) fn idle_for(&self, now: Time) -> Time {
        let due = [self.node.due_at(), first_due(&self.wakes), first_due(&self.naps)].into_iter().flatten().min();
        if self.has_work() { Time::ZERO } else { due.map_or(Time::MAX, |due| due.saturating_sub(now)) }
    }

    /// Whether something is to be done at a rate, or at once.
    fn has_work(&self) -> bool {
        let Paces { establish: _, hand_over, limit, query, churn } = &self.paces;
        match self.stage {
            Stage::Associating | Stage::Releasing => false,
            Stage::Working => {
                let lives = [hand_over, limit, query, churn].into_iter().any(|pace| !pace.is_zero());
                self.complete.is_none() || lives || (!self.waiting.is_empty() && !self.asked_to_release)
            }
            Stage::Ending => {
                let all_asked = self.keep || self.silent || self.cursor >= self.subscribers.len();
                self.in_flight == 0 || (self.in_flight < self.spec.window && !all_asked)
            }
            Stage::Over | Stage::Failed(_) => true,
        }
    }

    /// Ends it: sessions deleted and the association released, unless they are to be kept.
    pub fn end(&mut self, keep: bool) {
        self.keep = keep;
        self.cursor = 0;
        self.stage = if self.association.is_some() { Stage::Ending } else { Stage::Over };
    }

    fn up_seid(&self, i: u32) -> Option<u64> {
        let f_seid: Option<FSeid> =
            self.subscribers.get(i as usize).and_then(|subscriber| subscriber.session.up_f_seid);
        Some(f_seid.map_or(0, |f_seid| f_seid.seid))
    }

    fn send(&mut self, i: u32, doing: Doing, seid: Option<u64>, message: Message, now: Time) {
        // The window is smaller than what the node lets wait, and none of our requests is too long.
        if self.node.request(self.spec.upf, seid, message, i.into(), now).is_ok() {
            self.subscribers[i as usize].doing = Some((doing, now));
            self.in_flight += 1;
        }
    }
}

/// When the first of those is due.
fn first_due(all: &VecDeque<(Time, u32)>) -> Option<Time> {
    all.front().map(|(due, _)| *due)
}
