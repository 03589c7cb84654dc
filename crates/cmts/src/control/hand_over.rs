//! Control's part of a take-over by another process: it asks workers and comes to rest.

use super::{Control, Purpose};
use crate::gateway::Command;
use crate::hand_over::Handing;

/// A take-over by another process, if one has begun.
#[derive(Default)]
pub(super) struct HandOver {
    /// It has: what is told of modems to the other process is not changed any more.
    begun: bool,
    /// What workers have answered, with their numbers.
    answers: Vec<(usize, Box<Handing>)>,
}

impl HandOver {
    pub(super) fn answered(&mut self, worker: usize, handing: Box<Handing>) {
        self.answers.push((worker, handing));
    }
}

impl Control {
    /// Whether another process takes over: what is changed here does not reach it.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.hand_over.begun
    }

    /// Another process takes over.
    pub(crate) fn begin_hand_over(&mut self) {
        self.hand_over.begun = true;
    }

    /// It does not: all goes on as before.
    pub(crate) fn end_hand_over(&mut self) {
        self.hand_over = HandOver::default();
        for link in &mut self.links {
            link.post(Command::HandOver(Box::new(Handing::Follow(false))), Purpose::Nothing);
        }
    }

    /// Asks a worker; [`handing`](Self::handing) has its answer.
    pub(crate) fn ask_handing(&mut self, worker: usize, handing: Handing) {
        self.hand_over.answers.retain(|(of, _)| *of != worker);
        if let Some(link) = self.links.get_mut(worker) {
            link.post(Command::HandOver(Box::new(handing)), Purpose::Nothing);
        }
    }

    /// What a worker has answered.
    pub(crate) fn handing(&mut self, worker: usize) -> Option<Handing> {
        let at = self.hand_over.answers.iter().position(|(of, _)| *of == worker)?;
        Some(*self.hand_over.answers.remove(at).1)
    }

    /// A turn; whether nothing is under way between workers and control any more.
    pub(crate) fn settle(&mut self, now: u64) -> bool {
        self.poll(now);
        let is_still = self.links.iter().all(|link| link.backlog.is_empty() && link.asked.is_empty());
        is_still && !self.has_news()
    }
}
