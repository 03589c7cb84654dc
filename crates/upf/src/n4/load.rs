//! How loaded the node is, and what it asks of those who load it: load and overload control (3GPP TS 29.244, 6.2.3, 6.2.4).
//!
//! Load is how full it is, for control planes to choose between user planes. Overload is told from there on where requests
//! may soon be refused: the share of requests a control plane is to keep to itself, for so long.

use pfcp::group::{LoadControlInformation, OverloadControlInformation};
use pfcp::ie::{CpFunctionFeatures, Metric, OciFlags, SequenceNumber, Timer};
use pfcp::message::Message;

use super::N4;

const SECOND: u64 = 1_000_000_000;
/// What is asked for holds so long, unless it is taken back.
const VALID: u32 = 20;
/// From so full a node on, in thousandths, fewer requests are asked for.
const NEAR: u64 = 980;
/// The most asked for in per cent before it is full: what there is room for must find it.
const MOST: u64 = 90;
/// The share is told in steps, for each one is news to everybody.
const STEP: u64 = 10;

/// Load as reported to control planes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Sequence number of the load reported last, and the load in per cent.
    load: (u32, u8),
    /// The same of the reduction asked for.
    reduction: (u32, u8),
    /// When no reduction was asked for any more.
    over: u64,
}

/// The share of requests to keep back, in per cent, of a node that is so full, in thousandths.
pub fn reduction(full: u64) -> u8 {
    if full >= 1000 {
        return 100;
    }
    let share = full.saturating_sub(NEAR) * MOST / (1000 - NEAR);
    share.next_multiple_of(STEP).min(MOST) as u8
}

/// Changes that may wait for the disk beside those its writer has taken, before fewer are asked for.
const CROWD: usize = 4096;

impl N4 {
    /// What may run out: its name, how much of it is used, how much there is.
    pub fn levels(&self) -> Vec<(String, u64, u64)> {
        let mut levels = vec![("sessions".to_owned(), self.store.len() as u64, self.limits.sessions as u64)];
        let (used, of) = self.teids.used();
        levels.push(("teids".to_owned(), used, of));
        for pools in &self.pools {
            let name = self.networks.name(pools.instance);
            let v4 = pools.v4.as_ref().map(|pool| ("v4", pool.used()));
            let v6 = pools.v6.as_ref().map(|pool| ("v6", pool.used()));
            let both = v4.into_iter().chain(v6);
            levels.extend(both.map(|(family, (used, of))| (format!("ue_addresses_{family}:{name}"), used, of)));
        }
        levels
    }

    /// How loaded the node is, in per cent: as many sessions as it has of those it may have, or all when it takes no more.
    pub fn load(&self) -> u8 {
        let share = self.store.len().saturating_mul(100) / self.limits.sessions.max(1);
        if self.draining { 100 } else { share.min(100) as u8 }
    }

    /// The share of requests, in per cent, that control planes are to keep to themselves: what is full soon is sessions, or
    /// the way to the workers, or the disk's.
    pub fn overload(&self) -> u8 {
        let thousandths = |many: usize, of: usize| many as u64 * 1000 / of.max(1) as u64;
        let sessions = thousandths(self.store.len(), self.limits.sessions);
        let waiting = thousandths(self.pending.len(), usize::from(self.workers) * crate::assemble::RING);
        let kept = self.keeper.as_ref().map_or(0, |keeper| thousandths(keeper.crowded(), CROWD));
        reduction(sessions.max(waiting).max(kept))
    }
}

impl Load {
    /// Adds to a message what a control plane of these features wants to hear: `load` and `reduction` in per cent.
    pub fn tell(&mut self, features: CpFunctionFeatures, load: u8, reduction: u8, message: &mut Message, now: u64) {
        if load != self.load.1 {
            self.load = (self.load.0.wrapping_add(1), load);
        }
        if reduction != self.reduction.1 {
            self.reduction = (self.reduction.0.wrapping_add(1), reduction);
            self.over = now;
        }
        let load = features.contains(CpFunctionFeatures::LOAD).then(|| LoadControlInformation {
            load_control_sequence_number: SequenceNumber(self.load.0),
            load_metric: Metric(load),
            ..LoadControlInformation::default()
        });
        // That it is over is told as long as somebody may think otherwise.
        let concerns = reduction > 0 || (self.reduction.0 > 0 && now < self.over + u64::from(VALID) * SECOND);
        let overload = (concerns && features.contains(CpFunctionFeatures::OVRL)).then(|| OverloadControlInformation {
            overload_control_sequence_number: SequenceNumber(self.reduction.0),
            overload_reduction_metric: Metric(reduction),
            period_of_validity: Timer::at_least(VALID),
            overload_control_information_flags: Some(OciFlags::AOCI),
            ..OverloadControlInformation::default()
        });
        let (to_load, to_overload) = match message {
            Message::SessionEstablishmentResponse(m) => {
                (&mut m.load_control_information, &mut m.overload_control_information)
            }
            Message::SessionModificationResponse(m) => {
                (&mut m.load_control_information, &mut m.overload_control_information)
            }
            Message::SessionDeletionResponse(m) => {
                (&mut m.load_control_information, &mut m.overload_control_information)
            }
            Message::SessionReportRequest(m) => (&mut m.load_control_information, &mut m.overload_control_information),
            _ => return,
        };
        (*to_load, *to_overload) = (load, overload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_asked_for_the_fuller_it_is() {
        let told = [0, 500, 980, 982, 990, 999, 1000, 2000].map(reduction);
        assert_eq!(told, [0, 0, 0, 10, 50, 90, 100, 100]);
    }
}
