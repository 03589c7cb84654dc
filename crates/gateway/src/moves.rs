//! Groups of subscribers that move between workers: one at a time, step by step.
//!
//! ```text
//! copy      the new owner gets copies of the group's subscribers, while the old one serves them
//! prepare   the old owner is told that the group leaves, the new one that it comes
//! switch    every worker takes the new steering table; workers drain and hand the state over themselves (engine::Moves)
//! announce  the steering table without the move; what announces the group; the old owner frees its copies
//! ```
//!
//! Of a move to another process, and from one, the other owner is the [passage]; what becomes of the state in between is
//! the gateway's.
//!
//! A gateway brings what each step sends to its workers ([`Mover`]), and tells of their answers. A worker that cannot take
//! the copies ends the move before anything has changed.

pub mod owners;
pub mod park;
pub mod passage;

use std::collections::{BTreeMap, VecDeque};

use engine::{Arrival, Owner};

/// A group that goes from a worker to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The group's number.
    pub group: u16,
    /// The worker that owns it.
    pub from: Owner,
    /// The worker that is to own it.
    pub to: Owner,
}

/// A step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The new owner gets copies.
    Copy,
    /// Both owners are told.
    Prepare,
    /// Workers take the new steering table; the state goes over.
    Switch,
    /// The move is left out of the steering table, and the old owner frees its copies.
    Announce,
    /// The copies could not be made: the new owner frees those that were.
    Undo,
}

/// How a move ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Subscribers that moved.
    pub subscribers: u64,
    /// From the first step to the last, in nanoseconds.
    pub took_ns: u64,
    /// What the new owner saw: packets held, and for how long.
    pub arrival: Arrival,
    /// It failed: nothing has changed.
    pub failed: bool,
}

/// What a gateway does for each step of a move.
pub trait Mover {
    /// Sends what a step needs to workers. Returns how many answers, or events, there are to be before the next one.
    fn begin(&mut self, step: Step, of: &Move) -> usize;

    /// How many subscribers a group has.
    fn subscribers(&self, group: u16) -> u64;

    /// A move has ended: what waited for it goes on.
    fn ended(&mut self, of: &Move, outcome: &Outcome);
}

/// A move that is being made.
#[derive(Clone, Copy, Debug)]
struct Running {
    of: Move,
    step: Step,
    /// Answers that are still to come.
    awaited: usize,
    failed: bool,
    since: u64,
    outcome: Outcome,
}

/// Moves of a gateway's groups: the one that is being made, those that wait, and those that were.
#[derive(Debug, Default)]
pub struct Moves {
    running: Option<Running>,
    waiting: VecDeque<Move>,
    /// How the last move of each group ended, and how many there were.
    last: BTreeMap<u16, (Outcome, u64)>,
    done: u64,
    failed: u64,
}

impl Moves {
    /// Has a group move once those before it have. False: it moves, or waits to move, already.
    pub fn request(&mut self, of: Move) -> bool {
        let is_it = |other: &Move| other.group == of.group;
        if self.running.as_ref().is_some_and(|running| is_it(&running.of)) || self.waiting.iter().any(is_it) {
            return false;
        }
        self.waiting.push_back(of);
        true
    }

    /// The step of the move that is being made, and how many answers it waits for.
    pub fn stage(&self) -> Option<(Step, usize)> {
        self.running.map(|running| (running.step, running.awaited))
    }

    /// A step waits for so many answers more.
    pub fn await_more(&mut self, answers: usize) {
        if let Some(running) = &mut self.running {
            running.awaited += answers;
        }
    }

    /// The group that moves now.
    pub fn moving(&self) -> Option<u16> {
        self.running.map(|running| running.of.group)
    }

    /// Whether a group moves now, or is to.
    pub fn is_busy(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// Whether that group moves, or waits to move.
    pub fn concerns(&self, group: u16) -> bool {
        self.moving() == Some(group) || self.waiting.iter().any(|of| of.group == group)
    }

    /// Moves made, and moves that failed.
    pub fn counts(&self) -> (u64, u64) {
        (self.done, self.failed)
    }

    /// How the last move of a group ended, and how many moves it has made.
    pub fn last(&self, group: u16) -> Option<(Outcome, u64)> {
        self.last.get(&group).copied()
    }

    /// A worker has answered a step.
    pub fn answered(&mut self, done: bool) {
        if let Some(running) = &mut self.running {
            running.awaited = running.awaited.saturating_sub(1);
            running.failed |= !done;
        }
    }

    /// The new owner forwards the group's packets.
    pub fn arrived(&mut self, arrival: Arrival) {
        if let Some(running) = &mut self.running {
            running.outcome.arrival = arrival;
        }
        self.answered(true);
    }

    /// Goes on as far as it can without further answers.
    pub fn turn(&mut self, mover: &mut impl Mover, now: u64) {
        loop {
            let Some(running) = &mut self.running else {
                let Some(of) = self.waiting.pop_front() else { return };
                let outcome = Outcome { subscribers: mover.subscribers(of.group), ..Outcome::default() };
                let awaited = mover.begin(Step::Copy, &of);
                self.running = Some(Running { of, step: Step::Copy, awaited, failed: false, since: now, outcome });
                continue;
            };
            if running.awaited > 0 {
                return;
            }
            let next = match running.step {
                Step::Copy if running.failed => Some(Step::Undo),
                Step::Copy => Some(Step::Prepare),
                Step::Prepare => Some(Step::Switch),
                Step::Switch => Some(Step::Announce),
                Step::Announce | Step::Undo => None,
            };
            if let Some(step) = next {
                (running.step, running.awaited) = (step, mover.begin(step, &running.of));
                continue;
            }
            let failed = running.step == Step::Undo;
            let outcome = Outcome { took_ns: now.saturating_sub(running.since), failed, ..running.outcome };
            let of = running.of;
            self.running = None;
            let made = self.last.get(&of.group).map_or(0, |last| last.1);
            self.last.insert(of.group, (outcome, made + u64::from(!failed)));
            *(if failed { &mut self.failed } else { &mut self.done }) += 1;
            mover.ended(&of, &outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers nothing by itself; notes what it was told.
    #[derive(Default)]
    struct Noted(Vec<(Step, u16)>, Vec<(u16, bool)>);

    impl Mover for Noted {
        fn begin(&mut self, step: Step, of: &Move) -> usize {
            self.0.push((step, of.group));
            2
        }

        fn subscribers(&self, group: u16) -> u64 {
            u64::from(group) * 10
        }

        fn ended(&mut self, of: &Move, outcome: &Outcome) {
            self.1.push((of.group, outcome.failed));
        }
    }

    #[test]
    fn steps_follow_answers_and_moves_each_other() {
        let (mut moves, mut mover) = (Moves::default(), Noted::default());
        assert!(moves.request(Move { group: 1, from: 0, to: 1 }));
        assert!(moves.request(Move { group: 2, from: 0, to: 1 }));
        assert!(!moves.request(Move { group: 1, from: 0, to: 2 }), "it waits already");
        for now in 0..4 {
            moves.turn(&mut mover, now);
            assert_eq!((moves.moving(), mover.0.len()), (Some(1), now as usize + 1));
            moves.answered(true);
            moves.turn(&mut mover, now);
            assert_eq!(mover.0.len(), now as usize + 1, "one answer is missing");
            moves.arrived(Arrival { held: 3, pause_ns: 7 });
        }
        moves.turn(&mut mover, 50);
        let (outcome, made) = moves.last(1).unwrap();
        assert_eq!((outcome.subscribers, outcome.took_ns, outcome.arrival.held, made), (10, 50, 3, 1));
        assert_eq!((moves.moving(), &mover.1[..]), (Some(2), &[(1, false)][..]));
    }

    #[test]
    fn failed_copy_is_undone_before_anything_changes() {
        let (mut moves, mut mover) = (Moves::default(), Noted::default());
        moves.request(Move { group: 1, from: 0, to: 1 });
        for answers in [[true, false], [true, true]] {
            moves.turn(&mut mover, 0);
            answers.into_iter().for_each(|done| moves.answered(done));
        }
        moves.turn(&mut mover, 0);
        assert_eq!(mover.0, [(Step::Copy, 1), (Step::Undo, 1)]);
        assert_eq!((moves.counts(), &mover.1[..]), ((0, 1), &[(1, true)][..]));
        assert!(!moves.is_busy());
    }
}
