//! Control's ends of the rings that lead to a worker.

use std::collections::VecDeque;

use table::command::{self, Ticket};
use table::ring::Consumer;
use table::waker::Waker;

use crate::gateway::{Command, Reply};
use crate::slow::Event;

/// Control's ends of one worker.
pub struct Link {
    pub(super) commands: command::Control<Command, Reply>,
    pub(super) events: Consumer<Event>,
    pub(super) waker: Waker,
    /// Commands the ring had no room for yet, in order.
    backlog: VecDeque<Command>,
    /// What was asked for by whom, oldest first: replies come in order.
    pub(super) asked: VecDeque<(Ticket, Purpose)>,
}

/// What a command was sent for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Churn,
    Caller(u64),
    Nothing,
}

impl Link {
    /// The ends as made.
    pub fn new(commands: command::Control<Command, Reply>, events: Consumer<Event>, waker: Waker) -> Self {
        Self { commands, events, waker, backlog: VecDeque::new(), asked: VecDeque::new() }
    }

    pub(super) fn send(&mut self, command: Command, purpose: Purpose) -> Result<(), Command> {
        let ticket = self.commands.send(command)?;
        self.asked.push_back((ticket, purpose));
        self.waker.nudge();
        Ok(())
    }

    /// Sends now or as soon as there is room; for commands without a waiting request.
    pub(super) fn post(&mut self, command: Command) {
        if !self.backlog.is_empty() {
            self.backlog.push_back(command);
        } else if let Err(command) = self.send(command, Purpose::Nothing) {
            self.backlog.push_back(command);
        }
    }

    /// Whether no command is under way.
    pub(super) fn is_settled(&self) -> bool {
        self.backlog.is_empty() && self.asked.is_empty()
    }

    /// Whether the worker has sent events or replies.
    pub(super) fn has_news(&mut self) -> bool {
        !self.events.is_empty() || self.commands.has_answers()
    }

    pub(super) fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(command) = self.send(command, Purpose::Nothing) {
                self.backlog.push_front(command);
                break;
            }
        }
    }
}
