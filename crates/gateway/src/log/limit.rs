//! So many events of a kind at once, and so many a second after that; the others are counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::record::Level;

/// Events of a kind that pass at once.
const BURST: f64 = 50.0;
/// Events of a kind that pass a second after that.
const PER_SECOND: f64 = 1.0;
/// Debug and trace events are asked for: so many times more of them pass.
const DEBUG_FACTOR: f64 = 20.0;
/// A kind that was not suppressed for so long has calmed down.
const CALM: Duration = Duration::from_secs(2);
/// Kinds told apart; the names of further ones count as one kind.
const KINDS: usize = 256;

/// Whether an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event is written.
    Pass,
    /// It is, and so many of its kind were not since the last that was.
    PassAfter(u64),
    /// It is not.
    Suppress,
}

/// A kind of event.
#[derive(Debug)]
struct Kind {
    tokens: f64,
    at: Instant,
    suppressed: u64,
    /// When the last was suppressed.
    last: Instant,
}

/// A token bucket for each kind of event.
#[derive(Debug, Default)]
pub struct Limiter(HashMap<String, Kind>);

impl Limiter {
    /// Takes an event of a kind in.
    pub fn take(&mut self, kind: &str, level: Level, now: Instant) -> Verdict {
        let factor = if level >= Level::Debug { DEBUG_FACTOR } else { 1.0 };
        let kind = if self.0.contains_key(kind) || self.0.len() < KINDS { kind } else { "" };
        let full = || Kind { tokens: BURST * factor, at: now, suppressed: 0, last: now };
        if !self.0.contains_key(kind) {
            self.0.insert(kind.to_owned(), full());
        }
        let Some(kind) = self.0.get_mut(kind) else { return Verdict::Pass };
        let earned = now.saturating_duration_since(kind.at).as_secs_f64() * PER_SECOND * factor;
        kind.tokens = (kind.tokens + earned).min(BURST * factor);
        kind.at = now;
        if kind.tokens < 1.0 {
            kind.suppressed += 1;
            kind.last = now;
            return Verdict::Suppress;
        }
        kind.tokens -= 1.0;
        match std::mem::take(&mut kind.suppressed) {
            0 => Verdict::Pass,
            suppressed => Verdict::PassAfter(suppressed),
        }
    }

    /// Whether events are suppressed that nothing has told of yet.
    pub(crate) fn is_suppressing(&self) -> bool {
        self.0.values().any(|kind| kind.suppressed > 0)
    }

    /// Kinds that have calmed down with events suppressed, and how many; all of them at the `end`. Each is told once.
    pub fn over(&mut self, now: Instant, end: bool) -> Vec<(String, u64)> {
        let calm = |kind: &Kind| end || now.saturating_duration_since(kind.last) >= CALM;
        let over = self.0.iter_mut().filter(|(_, kind)| kind.suppressed > 0 && calm(kind));
        let mut over: Vec<_> = over.map(|(name, kind)| (name.clone(), std::mem::take(&mut kind.suppressed))).collect();
        over.sort();
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_passes_its_burst_then_its_rate() {
        let (mut limiter, begin) = (Limiter::default(), Instant::now());
        let at = |limiter: &mut Limiter, ms: u64| {
            limiter.take("path_failed", Level::Warn, begin + Duration::from_millis(ms))
        };
        let first: Vec<_> = (0..1000).map(|_| at(&mut limiter, 0)).collect();
        assert_eq!(first.iter().filter(|verdict| **verdict == Verdict::Pass).count(), 50);
        assert_eq!(at(&mut limiter, 500), Verdict::Suppress);
        assert_eq!(at(&mut limiter, 1000), Verdict::PassAfter(951));
        assert_eq!(limiter.take("drain_begin", Level::Info, begin), Verdict::Pass, "another kind");
        let mut debug = |_| limiter.take("request", Level::Debug, begin) == Verdict::Pass;
        assert_eq!((0..2000).filter(|n| debug(*n)).count(), 1000);
    }

    #[test]
    fn what_was_suppressed_is_told_once() {
        let (mut limiter, begin) = (Limiter::default(), Instant::now());
        for _ in 0..60 {
            limiter.take("port_errors", Level::Warn, begin);
        }
        assert!(limiter.is_suppressing());
        assert!(limiter.over(begin + Duration::from_secs(1), false).is_empty(), "it may go on");
        let later = begin + Duration::from_secs(3);
        assert_eq!(limiter.over(later, false), [("port_errors".to_owned(), 10)]);
        assert!(limiter.over(later, true).is_empty() && !limiter.is_suppressing());
    }

    #[test]
    fn kinds_are_bounded() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        (0..10_000).for_each(|n| {
            limiter.take(&format!("kind{n}"), Level::Info, now);
        });
        assert_eq!(limiter.0.len(), KINDS + 1);
    }
}
