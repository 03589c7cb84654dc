//! What workers tell: events of the network, and replies to what they were asked.

use std::net::IpAddr;

use dataplane::neighbour::Wanted;

use super::link::Purpose;
use super::{Answer, Control, Report};
use crate::gateway::{Command, Reply};
use crate::remotes::Owner;
use crate::slow::Event;

/// Reports that wait for who takes them, at most, for each worker: what a turn can bring.
const REPORTS: usize = super::EVENTS;

impl Control {
    pub(super) fn on_event(&mut self, worker: usize, event: Event, now: u64) {
        match event {
            Event::Neighbour(heard) => {
                self.neighbourhood.hear(heard.port, &heard.message, heard.for_us, now);
            }
            Event::Resolve { instance, address, key } => {
                let Some((neighbour, wanted)) = self.neighbourhood.want(instance, address, now) else {
                    self.links[worker].post(Command::GiveUp { key });
                    return;
                };
                match wanted {
                    Wanted::Known(_) => {
                        self.publish();
                        self.links[worker].post(Command::Retry { key });
                    }
                    Wanted::Asked => {
                        self.waiting.entry(neighbour).or_default().insert((worker, key));
                    }
                    Wanted::Unreachable | Wanted::Full => self.links[worker].post(Command::GiveUp { key }),
                }
            }
            Event::ErrorIndication { teid, peer } => {
                self.counters.error_indications += 1;
                let Some(owner) = self.owner_of(peer, teid) else { return };
                self.counters.lost_tunnels += 1;
                self.remotes.count(owner);
                self.tell(Report::ErrorIndication { worker: owner.0, handle: owner.1, peer, teid });
            }
            Event::EchoResponse { instance, peer, sequence } => {
                self.tell(Report::EchoResponse { instance, peer, sequence });
            }
            Event::ForControl { end, teid, packet } => {
                let Some(to) = self.control_ends.get(end as usize).copied() else { return };
                self.tell(Report::ForControl { to, teid, packet });
            }
            Event::Reached { handle } => self.tell(Report::Reached { handle }),
            Event::Buffered { handle, pdr } => {
                self.counters.pages += 1;
                if self.simulator.is_none() {
                    self.tell(Report::Buffered { handle, pdr });
                }
                if let Some(ms) = self.simulator.as_ref().and_then(|s| s.config().paging_ms) {
                    let ready = now.saturating_add(ms.saturating_mul(1_000_000));
                    self.paging.push_back((ready, worker as u16, handle));
                }
            }
        }
    }

    /// Queues a report until it is taken.
    fn tell(&mut self, report: Report) {
        if self.reports.len() < REPORTS * self.links.len() {
            self.reports.push_back(report);
        } else {
            self.counters.reports_lost += 1;
        }
    }

    /// The session that sends into a peer's tunnel: as its rules were given last, or, if they never were, by formula.
    fn owner_of(&self, peer: IpAddr, teid: u32) -> Option<Owner> {
        let by_formula = || {
            let ue = self.simulator.as_ref()?.by_gnb_teid(peer, teid).filter(|ue| self.churn.out != Some(*ue))?;
            Some(self.place(ue)).filter(|owner| !self.remotes.has(*owner))
        };
        self.remotes.owner(peer, teid).or_else(by_formula)
    }

    pub(super) fn take_replies(&mut self, worker: usize) {
        while let Some((ticket, reply)) = self.links[worker].commands.poll() {
            let purpose = match self.links[worker].asked.pop_front() {
                Some((asked, purpose)) if asked == ticket => purpose,
                _ => Purpose::Nothing,
            };
            let answer = match reply {
                Ok(Reply::Installed(compiled)) => Some(Answer::Installed(compiled.before)),
                Ok(Reply::Refused(why, _)) => Some(Answer::Refused(why)),
                Ok(Reply::Removed(usage)) => Some(Answer::Removed(usage)),
                Ok(Reply::Usage(usage)) => Some(Answer::Usage(usage)),
                Ok(Reply::Unknown) | Err(_) => Some(Answer::Unknown),
                Ok(Reply::Sent(_) | Reply::Waiting(_) | Reply::Done) => None,
            };
            if let Some(answer) = answer {
                self.account(&answer, purpose);
                if let Purpose::Caller(number) = purpose {
                    self.answers.push_back((number, answer));
                }
            }
        }
    }

    fn account(&mut self, answer: &Answer, purpose: Purpose) {
        match answer {
            Answer::Installed(_) => {
                self.counters.made += 1;
                // A caller's installation may replace rules; only the simulator knows that its sessions are new.
                self.counters.sessions += u64::from(matches!(purpose, Purpose::Churn));
            }
            Answer::Refused(_) => self.counters.refused += 1,
            Answer::Removed(usage) => {
                self.counters.removed += 1;
                self.counters.sessions = self.counters.sessions.saturating_sub(1);
                self.counters.reported_bytes += usage.iter().map(|u| u.up_bytes + u.down_bytes).sum::<u64>();
            }
            Answer::Usage(_) | Answer::Unknown => {}
        }
    }
}
