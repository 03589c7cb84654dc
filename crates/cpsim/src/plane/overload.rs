//! Load and overload control, the other side of it (3GPP TS 29.244, 6.2.3, 6.2.4): of what is not urgent, as much is kept
//! back as the user plane asks for, for as long as it says. What a subscriber waits for is not.

use std::time::Duration;

use pfcp::group::{LoadControlInformation, OverloadControlInformation};
use pfcp::node::Time;

use super::ControlPlane;

/// What a user plane has said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overload {
    /// Its load in per cent, with the number it was told under.
    load: Option<(u32, u8)>,
    /// The share to keep back in per cent, with its number, and until when.
    reduction: Option<(u32, u8, Time)>,
    /// Per cents owed: with a hundred of them a request is kept back.
    owed: u32,
}

/// Whether a number is later than another (they wrap around).
fn is_later(number: u32, than: u32) -> bool {
    number.wrapping_sub(than) as i32 > 0
}

impl Overload {
    /// Takes note of what came with a message: of what is told twice, or comes late, nothing.
    pub fn hear(
        &mut self,
        load: Option<&LoadControlInformation>,
        overload: Option<&OverloadControlInformation>,
        now: Time,
    ) {
        if let Some(told) = load {
            let number = told.load_control_sequence_number.0;
            if self.load.is_none_or(|(before, _)| is_later(number, before)) {
                self.load = Some((number, told.load_metric.0));
            }
        }
        if let Some(told) = overload {
            let number = told.overload_control_sequence_number.0;
            // The same number again: it is still so.
            if self.reduction.is_none_or(|(before, ..)| number == before || is_later(number, before)) {
                let valid = told.period_of_validity.seconds().map_or(Duration::MAX, |s| Duration::from_secs(s.into()));
                self.reduction = Some((number, told.overload_reduction_metric.0, now.saturating_add(valid)));
            }
        }
    }

    /// The user plane's load in per cent, if it tells.
    pub fn load(&self) -> Option<u8> {
        self.load.map(|(_, load)| load)
    }

    /// The share of requests to keep back now, in per cent.
    pub fn reduction(&self, now: Time) -> u8 {
        self.reduction.filter(|(_, _, until)| now < *until).map_or(0, |(_, share, _)| share.min(100))
    }

    /// Whether the next request is one of those to keep back.
    pub(crate) fn keeps_back(&mut self, now: Time) -> bool {
        self.owed += u32::from(self.reduction(now));
        let back = self.owed >= 100;
        self.owed -= if back { 100 } else { 0 };
        back
    }
}

impl ControlPlane {
    /// What the user plane says of its load, in per cent.
    pub fn load(&self) -> Option<u8> {
        self.overload.load()
    }

    /// Whether a request that can wait is kept back; it is counted then.
    pub(super) fn keeps_back(&mut self, now: Time) -> bool {
        let back = self.overload.keeps_back(now);
        self.tally.counts.kept_back += u64::from(back);
        back
    }
}

#[cfg(test)]
mod tests {
    use pfcp::ie::{Metric, SequenceNumber, Timer};

    use super::*;

    #[test]
    fn as_much_is_kept_back_as_was_said_last_and_for_so_long() {
        let told = |number, metric| OverloadControlInformation {
            overload_control_sequence_number: SequenceNumber(number),
            overload_reduction_metric: Metric(metric),
            period_of_validity: Timer::at_least(20),
            ..OverloadControlInformation::default()
        };
        let mut overload = Overload::default();
        let at = Time::from_secs;
        let mut share = |told: Option<&OverloadControlInformation>, now| {
            overload.hear(None, told, now);
            (0..100).filter(|_| overload.keeps_back(now)).count()
        };
        assert_eq!(share(None, at(0)), 0);
        assert_eq!(share(Some(&told(1, 30)), at(1)), 30);
        assert_eq!(share(Some(&told(2, 100)), at(2)), 100);
        assert_eq!(share(Some(&told(1, 30)), at(3)), 100, "late");
        assert_eq!(share(Some(&told(2, 100)), at(15)), 100, "it is still so");
        assert_eq!(share(None, at(34)), 100);
        assert_eq!(share(None, at(35)), 0, "nobody says so any more");
        assert_eq!(share(Some(&told(3, 0)), at(36)), 0);
    }
}
