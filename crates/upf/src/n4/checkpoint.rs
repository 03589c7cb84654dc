//! What a crash must not cost: usage that was counted and not reported yet, and reports that may not have arrived.
//!
//! ```text
//! each interval, a few sessions at a time:  measure ─► checkpoint                 a crash costs what was counted since
//! usage is reported:                        checkpoint with the report ─► disk ─► report ─► acknowledged: forgotten
//! a restart:                                counts go on where the checkpoint has them; its reports are sent again
//! ```
//!
//! So nothing is reported twice under different numbers: a report sent again has its number (UR-SEQN, 8.2.71), by which
//! the control plane knows it. Usage in responses counts as arrived after a while, for whoever misses a response asks
//! again; the response to a deletion is kept that long, for the session it was about is gone.

mod owed;

use std::collections::{BTreeMap, HashMap, VecDeque};

use ledger::Change;
use pfcp::ie::ReportType;
use pfcp::message::{Message, SessionReportRequest};
use pfcp::{Header, Packet};
use serde::{Deserialize, Serialize};
use sessions::reports::Owed;

use super::keep::Keeper;
use super::metering::{Metering, WallClock};
use super::{N4, Outgoing, SLICE};
use crate::control::Control;
use crate::rules::Usage;

const SECOND: u64 = 1_000_000_000;
/// A response has arrived by then, or has been asked for again (T1 and N1 of usual peers, twice).
const ARRIVED: u64 = 20 * SECOND;
/// Checkpoints written together, and how long the first may wait for others: few syncs of the disk.
const TOGETHER: usize = 256;
const GATHER: u64 = SECOND / 5;
/// Time until an unanswered report is retransmitted.
const AGAIN: u64 = 30 * SECOND;

/// A checkpoint, as the ledger keeps it: JSON, so that a later version reads an earlier one's.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Checkpoint {
    /// The URRs' accounts (times since 1970), and what the worker had counted: octets and packets, up and down.
    urrs: Vec<(Metering, [u64; 4])>,
    /// Reports that may not have arrived: Session Report Requests in hexadecimal.
    owed: Vec<String>,
    /// Of a session that is gone: whose it was, and the Session Deletion Response.
    gone: Option<(String, String)>,
}

/// The end of a session, for a control plane that has not heard of it.
#[derive(Debug)]
struct Gone {
    peer: u32,
    response: Vec<u8>,
}

/// Where the round is, and what is kept of sessions that are gone.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// The time of a round; 0: no rounds are made.
    interval: u64,
    began: u64,
    /// The next session to be asked.
    next: u32,
    /// Sessions whose workers have not answered; no request waits for it.
    asked: HashMap<u64, u32>,
    /// The round's, to be written together, since when. What is written at once goes before, and takes its place.
    gathered: BTreeMap<u64, Change>,
    since: u64,
    gone: HashMap<u64, Gone>,
    /// When the end of which session is no longer worth keeping, soonest first.
    over: VecDeque<(u64, u64)>,
}

impl Checkpoints {
    pub fn every(interval: u64, now: u64) -> Self {
        Self { interval, began: now, ..Self::default() }
    }

    /// Makes rounds from now on.
    pub fn begin(&mut self, interval: u64, now: u64) {
        (self.interval, self.began) = (interval, now);
    }

    /// The session that was asked for the round, if it was.
    pub fn asked(&mut self, ask: u64) -> Option<u32> {
        self.asked.remove(&ask)
    }

    /// The association that deleted a session lately.
    pub(crate) fn gone_of(&self, seid: u64) -> Option<u32> {
        self.gone.get(&seid).map(|gone| gone.peer)
    }

    /// A session's checkpoint of the round is out of date.
    pub(crate) fn outdate(&mut self, key: u64) {
        self.gathered.remove(&key);
    }

    /// A session's checkpoint for another process, without counts: those are the worker's, and go by themselves.
    pub fn handed(owed: &[Owed], meters: &[Metering], clock: &WallClock) -> Vec<u8> {
        let urrs = meters.iter().map(|meter| (meter.timed(|ns| ns + clock.epoch_ns), [0; 4])).collect();
        let owed = owed.iter().map(|owed| hex(&owed.message)).collect();
        Checkpoint { urrs, owed, gone: None }.bytes()
    }
}

/// What comes back with the answer to a report: the session, and the report's number if it is kept.
pub(super) fn token(session: u32, number: u32) -> u64 {
    u64::from(number) << 32 | u64::from(session)
}

/// The number of sessions, of `all`, that a round has come to after `elapsed` nanoseconds.
fn due(all: u32, elapsed: u64, interval: u64) -> u32 {
    let elapsed = if elapsed < interval { elapsed - elapsed % step(interval) } else { interval };
    (u128::from(all) * u128::from(elapsed) / u128::from(interval)) as u32 // no more than there are
}

/// A round asks sessions in steps that are so many nanoseconds apart, so that control and workers sleep in between.
fn step(interval: u64) -> u64 {
    (interval / 8).clamp(1, SECOND)
}

/// Nanoseconds after which a round of `all` sessions comes to session number `next`; of the last ones, to its end.
fn comes_to(all: u32, next: u32, interval: u64) -> u64 {
    let after = (u128::from(next) + 1) * u128::from(interval);
    let step = u128::from(step(interval));
    let after = after.div_ceil(u128::from(all.max(1))).div_ceil(step) * step;
    after.min(interval.into()) as u64
}

impl N4 {
    /// When [`go_round`](Self::go_round) or [`send_late`](Self::send_late) has something to do next; a time that is past: the
    /// rest of what was due.
    pub(super) fn next_checkpoint(&self) -> Option<u64> {
        let Checkpoints { interval, began, next, gathered, since, over, .. } = &self.checkpoints;
        let late = self.store.next_late();
        if self.keeper.is_none() || *interval == 0 {
            return late;
        }
        let after = comes_to(self.store.numbers(), *next, *interval);
        let written = (!gathered.is_empty()).then(|| since + GATHER);
        [late, Some(began + after), written, over.front().map(|(at, _)| *at)].into_iter().flatten().min()
    }

    /// Asks the next sessions of the round what they have counted, and writes what has been gathered.
    pub(super) fn go_round(&mut self, control: &mut Control, now: u64) {
        let Some(all) = self.keeper.is_some().then(|| self.store.numbers()).filter(|_| self.checkpoints.interval > 0)
        else {
            return;
        };
        let elapsed = now.saturating_sub(self.checkpoints.began);
        let due = due(all, elapsed, self.checkpoints.interval);
        for _ in 0..SLICE {
            let number = self.checkpoints.next;
            if number >= due {
                break;
            }
            if let Some(entry) = self.store.get(number).filter(|entry| !entry.meters.is_empty()) {
                // A worker with much to do is asked in the next turn: half of its command ring is left to requests.
                if !control.has_background_room(entry.worker)
                    || !self.keeper.as_ref().is_none_or(Keeper::has_background_room)
                {
                    break;
                }
                let Ok(ask) = control.measure(entry.worker, number) else { break };
                self.checkpoints.asked.insert(ask, number);
            }
            self.checkpoints.next += 1;
        }
        if self.checkpoints.next >= all && elapsed >= self.checkpoints.interval {
            (self.checkpoints.next, self.checkpoints.began) = (0, now);
        }
        for _ in 0..SLICE {
            let Some((_, seid)) = self.checkpoints.over.front().copied().filter(|(at, _)| *at <= now) else { break };
            self.checkpoints.over.pop_front();
            self.checkpoints.gone.remove(&seid);
            self.gather(seid, Change::DropCheckpoint { key: seid }, now);
        }
        let is_due = now.saturating_sub(self.checkpoints.since) >= GATHER;
        if is_due || self.checkpoints.gathered.len() >= TOGETHER {
            self.write_gathered();
        }
    }

    fn gather(&mut self, key: u64, change: Change, now: u64) {
        if self.checkpoints.gathered.is_empty() {
            self.checkpoints.since = now;
        }
        self.checkpoints.gathered.insert(key, change);
    }

    fn write_gathered(&mut self) {
        let gathered = std::mem::take(&mut self.checkpoints.gathered);
        if !gathered.is_empty() {
            self.keep(|_| gathered.into_values().collect(), None);
        }
    }

    /// What a session has counted, for the round.
    pub(super) fn measured(&mut self, number: u32, usage: &[Usage], control: &mut Control, clock: &WallClock) {
        if !self.store.has_request(number) {
            return self.write_down(number, usage, clock);
        }
        // What its worker may yet refuse must not be what a restart goes on with. Queried again, it answers behind that.
        let Some(entry) = self.store.get(number) else { return };
        match control.measure(entry.worker, number) {
            Ok(ask) => drop(self.checkpoints.asked.insert(ask, number)),
            // The round comes back to it.
            Err(_) => self.checkpoints.next = self.checkpoints.next.min(number),
        }
    }

    /// Has a session's usage written down if it is news.
    fn write_down(&mut self, number: u32, usage: &[Usage], clock: &WallClock) {
        let mut is_news = self.store.forget_arrived(number, clock.now);
        let Some(entry) = self.store.get_mut(number) else { return };
        for meter in &mut entry.meters {
            let counted = super::counted(usage, meter.urr);
            meter.look(&counted, clock.now);
            is_news |= meter.is_unsaved(&counted);
        }
        let key = self.store.seid(number).filter(|_| is_news);
        if let Some((key, change)) = key.and_then(|key| Some((key, self.checkpoint(number, usage, clock)?))) {
            self.gather(key, change, clock.now);
        }
    }

    /// What is to be kept of a session's usage now, in place of what was gathered.
    fn checkpoint(&mut self, number: u32, usage: &[Usage], clock: &WallClock) -> Option<Change> {
        let key = self.store.seid(number)?;
        self.checkpoints.outdate(key);
        let entry = self.store.get_mut(number)?;
        let urrs = entry.meters.iter_mut().map(|meter| {
            let counted = super::counted(usage, meter.urr);
            meter.set_saved(&counted);
            let Usage { up_bytes, down_bytes, up_packets, down_packets, .. } = counted;
            (meter.timed(|ns| ns + clock.epoch_ns), [up_bytes, down_bytes, up_packets, down_packets])
        });
        let urrs = urrs.collect();
        let owed = self.store.owed(number).iter().map(|owed| hex(&owed.message)).collect();
        Some(Change::Checkpoint { key, bytes: Checkpoint { urrs, owed, gone: None }.bytes() })
    }

    /// Sends what an earlier run may not have, and goes on with it.
    pub(super) fn go_on(&mut self, number: u32, kept: Kept) {
        let Some((peer, seid)) = self.store.get(number).map(|entry| (entry.peer, entry.cp_seid)) else { return };
        for message in kept.owed {
            let id = self.store.owe(number, message.clone(), 0).unwrap_or(0);
            let own = self.store.seid(number);
            self.out.extend(outgoing((peer, seid), own, token(number, id), &message));
        }
    }

    /// A session that ended just before a restart: its control plane may not know. `peer` finds that.
    pub(super) fn restore_gone(&mut self, key: u64, bytes: &[u8], peer: impl FnOnce(&str) -> Option<u32>, now: u64) {
        let kept = Kept::read(bytes, &WallClock::default());
        let whose = kept.gone.as_ref().and_then(|(node, _)| peer(node));
        let (Some((_, response)), Some(peer)) = (kept.gone, whose) else {
            return self.gather(key, Change::DropCheckpoint { key }, now);
        };
        for message in kept.owed {
            let seid = Packet::parse(&message).ok().and_then(|packet| packet.header.seid).unwrap_or(0);
            self.out.extend(outgoing((peer, seid), None, token(u32::MAX, 0), &message));
        }
        self.checkpoints.gone.insert(key, Gone { peer, response });
        self.checkpoints.over.push_back((now + ARRIVED, key));
    }

    /// Writes down what all sessions have counted: workers stand still, and `usage` is what they have.
    pub fn close(&mut self, clock: &WallClock, usage: &mut dyn FnMut(u16, u32) -> Option<Vec<Usage>>) {
        if self.keeper.is_none() {
            return;
        }
        for number in 0..self.store.numbers() {
            let counted = self.store.get(number).and_then(|entry| usage(entry.worker, number));
            if let Some(counted) = counted {
                self.write_down(number, &counted, clock);
            }
            if self.checkpoints.gathered.len() >= TOGETHER {
                self.write_gathered();
            }
        }
        self.write_gathered();
        while let Some(keeper) = self.keeper.as_mut().filter(|keeper| keeper.is_waiting() && keeper.failed().is_none())
        {
            keeper.let_go(&mut self.out);
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
}

/// A decoded checkpoint.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The URRs' accounts, by the clock of now.
    pub meters: Vec<Metering>,
    /// What workers had counted.
    pub counted: Vec<Usage>,
    owed: Vec<Vec<u8>>,
    gone: Option<(String, Vec<u8>)>,
}

impl Kept {
    /// Takes the reports out that may not have arrived.
    pub(crate) fn take_owed(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.owed)
    }

    /// Reads a checkpoint; nothing, if it is none.
    pub fn read(bytes: &[u8], clock: &WallClock) -> Self {
        let Checkpoint { urrs, owed, gone } = serde_json::from_slice(bytes).unwrap_or_default();
        let here = |ns: u64| ns.saturating_sub(clock.epoch_ns).max(1);
        let counted = urrs.iter().map(|(meter, [up_bytes, down_bytes, up_packets, down_packets])| Usage {
            urr: meter.urr,
            up_bytes: *up_bytes,
            down_bytes: *down_bytes,
            up_packets: *up_packets,
            down_packets: *down_packets,
            ..Usage::default()
        });
        Self {
            counted: counted.collect(),
            meters: urrs.iter().map(|(meter, _)| meter.timed(here)).collect(),
            owed: owed.iter().filter_map(|text| unhex(text)).collect(),
            gone: gone.and_then(|(node, text)| Some((node, unhex(&text)?))),
        }
    }
}

impl Checkpoint {
    fn bytes(&self) -> Vec<u8> {
        // Numbers and texts; every one has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Reports of usage as a message of their own.
fn report_of(reports: &[pfcp::group::UsageReport]) -> Message {
    let usage_reports = reports.to_vec();
    SessionReportRequest { report_type: ReportType::USAR, usage_reports, ..SessionReportRequest::default() }.into()
}

/// What a session has used that is over already, as a report.
pub(super) fn last_report(peer: u32, seid: u64, reports: &[pfcp::group::UsageReport]) -> Option<Outgoing> {
    let report =
        || Outgoing::Report { peer, seid, session: None, token: token(u32::MAX, 0), message: report_of(reports) };
    (!reports.is_empty()).then(report)
}

fn octets(seid: u64, message: Message) -> Vec<u8> {
    // As long as the one that is sent.
    Packet { header: Header { seid: Some(seid), ..Header::default() }, message }.to_vec().unwrap_or_default()
}

/// A kept report again, about our session of that SEID, if it is still there.
fn outgoing((peer, seid): (u32, u64), session: Option<u64>, token: u64, message: &[u8]) -> Option<Outgoing> {
    let message = Packet::parse(message).ok()?.message;
    Some(Outgoing::Report { peer, seid, session, token, message })
}

fn hex(octets: &[u8]) -> String {
    use std::fmt::Write as _;
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        // Strings take whatever is written.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_comes_to_each_session_when_it_says() {
        for interval in [3, 1000, SECOND, 30 * SECOND, 30 * SECOND + 7] {
            for all in [0, 1, 2, 7, 100, 4096, 1_000_000] {
                for next in (0..=all).step_by((all as usize / 100).max(1)) {
                    let at = comes_to(all, next, interval);
                    let is_last = next >= all;
                    assert!(at == interval || due(all, at, interval) > next, "{next} of {all} in {interval} ns");
                    assert!(is_last || due(all, interval, interval) > next);
                    assert!(at == 0 || due(all, at - 1, interval) <= next, "{next} of {all} in {interval} ns");
                }
            }
        }
        assert_eq!(due(7, u64::MAX, 30 * SECOND), 7);
    }

    #[test]
    fn a_round_has_few_steps() {
        let steps = |all, interval| {
            let all: std::collections::BTreeSet<u64> = (0..all).map(|next| comes_to(all, next, interval)).collect();
            all.len()
        };
        assert_eq!((steps(100_000, 30 * SECOND), steps(5, 30 * SECOND)), (30, 5));
        assert_eq!((steps(1000, SECOND), steps(1000, SECOND / 8)), (8, 8));
    }
}
