//! What workers are asked about subscribers: a bounded number in a turn, reports by number, usage by handle.

use engine::Owner;

use super::steer_ports::Waits;
use super::{Control, HANDLES, SESSIONS, WorkerReport};
use crate::gateway::{Answer, Blocks, Command, PortsStep, Report};
use crate::moving::Step;
use crate::subscribers::Usage;

impl Control {
    /// The worker that has a subscriber; none: it has gone, or its group has no worker.
    pub(crate) fn worker_of(&self, handle: u32) -> Option<usize> {
        let spec = self.subscribers.get(handle as usize).copied().flatten()?;
        self.worker(spec.group).ok()
    }

    /// The process ends, and workers stand still: sessions keep what `usage` tells by worker and handle.
    pub(crate) fn close(&mut self, usage: &dyn Fn(usize, u32) -> Option<Usage>) {
        self.stop_fast_path();
        (0..self.links.len()).for_each(|worker| self.take_answers(worker));
        if let Some(mut sessions) = self.sessions.take_if(|_| !self.succession.is_still()) {
            sessions.close(self, usage);
            self.sessions = Some(sessions);
        }
    }

    /// Asks workers what those subscribers have used, each its own; [`Control::reports`] has it when all have answered.
    /// Workers are queried for a few at a time: they have packets to carry.
    pub fn ask_reports(&mut self, handles: &[u32]) {
        self.reports.question += 1;
        self.reports.usage.clear();
        self.reports.places.clear();
        self.reports.queued.clear();
        self.reports
            .workers
            .iter_mut()
            .for_each(|report_of| *report_of = WorkerReport { waits: true, ..WorkerReport::default() });
        for handle in handles {
            let spec = self.subscribers.get(*handle as usize).copied().flatten();
            if let Some(worker) = spec.and_then(|spec| self.worker(spec.group).ok()) {
                self.reports.workers[worker].left.push_back(*handle);
            }
        }
        (0..self.links.len()).for_each(|worker| self.ask_on(worker));
    }

    /// A group is another worker's now: what was still to be asked about its subscribers is asked of their worker.
    pub(super) fn ask_moved(&mut self, of: &gateway::moves::Move) {
        let (from, to) = (usize::from(of.from), usize::from(of.to));
        let is_moved = |subscribers: &[Option<crate::record::SubscriberSpec>], handle: u32| {
            subscribers.get(handle as usize).copied().flatten().is_some_and(|spec| spec.group == of.group)
        };
        if self.worker(of.group) != Ok(to) || from.max(to) >= self.reports.workers.len() {
            return;
        }
        let left = std::mem::take(&mut self.reports.workers[from].left);
        let (moved, stay) = left.into_iter().partition(|handle| is_moved(&self.subscribers, *handle));
        self.reports.workers[from].left = stay;
        let new = &mut self.reports.workers[to];
        let idle = !new.waits;
        std::collections::VecDeque::extend(&mut new.left, std::collections::VecDeque::into_iter(moved));
        if idle && !new.left.is_empty() {
            new.waits = true;
            self.ask_on(to);
        }
    }

    /// Asks a worker for the next few.
    pub(super) fn ask_on(&mut self, worker: usize) {
        let (question, report_of) = (self.reports.question, &mut self.reports.workers[worker]);
        let few = report_of.left.len().min(HANDLES);
        let usage = report_of.left.drain(..few).map(|handle| (handle, None)).collect();
        self.links[worker].post(Command::Read(Box::new(Report { question, usage, ..Report::default() })));
    }

    /// Asks a worker for a page of the blocks of public ports it has given out; [`Control::blocks`] has it when it has
    /// answered.
    pub fn ask_blocks(&mut self, worker: usize, from: usize) {
        self.blocks.0 += 1;
        self.blocks.1 = None;
        self.links[worker].post(Command::Blocks(Box::new(Blocks::page(self.blocks.0, from))));
    }

    /// The page that was asked for last, once it is there.
    pub fn blocks(&mut self) -> Option<Box<Blocks>> {
        self.blocks.1.take()
    }

    /// Asks what subscribers have used, for sessions; it comes by [`usage_news`](Self::usage_news).
    pub(crate) fn ask_usage(&mut self, handles: &[u32]) {
        for worker in 0..self.links.len() {
            let is_his = |handle: &&u32| {
                let spec = self.subscribers.get(**handle as usize).copied().flatten();
                spec.is_some_and(|spec| self.worker(spec.group) == Ok(worker))
            };
            let own: Vec<_> = handles.iter().filter(is_his).map(|handle| (*handle, None)).collect();
            for few in own.chunks(HANDLES) {
                let report = Report { question: SESSIONS, usage: few.to_vec(), ..Report::default() };
                self.links[worker].post(Command::Read(Box::new(report)));
            }
        }
    }

    /// What came of [`ask_usage`](Self::ask_usage) since the last call.
    pub(crate) fn usage_news(&mut self) -> Vec<(u32, Usage)> {
        std::mem::take(&mut self.usage_news)
    }

    /// Subscribers that workers have taken out since the last call, and what they had used.
    pub(crate) fn removed(&mut self) -> Vec<(u32, Usage)> {
        std::mem::take(&mut self.removed)
    }

    /// Takes in a part of what was queried. An answer to an earlier question is of no use.
    pub(super) fn on_report(&mut self, worker: usize, report: &Report) {
        if report.question == SESSIONS {
            self.usage_news.extend(report.usage.iter().filter_map(|(handle, usage)| Some((*handle, (*usage)?))));
            return;
        }
        if report.question != self.reports.question {
            return;
        }
        let known = report.usage.iter().filter_map(|(handle, usage)| Some((*handle, (*usage)?)));
        self.reports.usage.extend(known);
        self.reports.places.extend(report.places.iter().copied());
        self.reports.queued.extend(report.queued.iter().copied());
        let report_of = &mut self.reports.workers[worker];
        (report_of.subscribers, report_of.counts) = (report.subscribers, report.counts);
        (report_of.waiting, report_of.nat) = (report.waiting, report.nat);
        if report_of.left.is_empty() {
            report_of.waits = false;
        } else {
            self.ask_on(worker);
        }
    }

    pub(super) fn take_answers(&mut self, worker: usize) {
        while let Some((_, answer)) = self.links[worker].commands.poll() {
            match answer {
                Ok(Answer::Report(report)) => self.on_report(worker, &report),
                Ok(Answer::Installed(spec)) => {
                    self.not_installed.remove(&spec.handle);
                }
                Ok(Answer::Removed(handle, usage)) if self.sessions.is_some() => self.removed.push((handle, usage)),
                Ok(Answer::Unknown(handle)) => {
                    self.refused += 1;
                    self.not_installed.remove(&handle);
                    self.removed.push((handle, Usage::default()));
                }
                Ok(Answer::Blocks(blocks)) if blocks.question == self.blocks.0 => self.blocks.1 = Some(blocks),
                Ok(Answer::Moved(step, done)) => {
                    if let Step::Copy { refused: Some(why), .. } = step {
                        self.copy_refused = Some(why);
                    }
                    self.moves.answered(done);
                }
                Ok(Answer::Ports(PortsStep::Hold(number))) => self.on_ports(worker as Owner, number, Waits::Hold),
                Ok(Answer::HandOver(handing)) => self.succession.answered(worker, handing),
                Ok(Answer::Refreshed) => self.refreshing = self.refreshing.saturating_sub(1),
                Ok(Answer::Refused(_, spec)) => {
                    self.refused += 1;
                    self.not_installed.insert(spec.handle);
                }
                Err(_) => self.refused += 1,
                _ => {}
            }
        }
    }
}
