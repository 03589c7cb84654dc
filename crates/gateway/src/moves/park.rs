//! Groups move together onto fewer workers while there is little to do, so that the others sleep; and back.
//!
//! A worker's load is the part of its time in which it carries packets. While the two workers with the least load have, together,
//! no more than `below`, the groups of the one move to the other: one worker after the other, until that would be too much.
//! A worker with `above` gives groups back to the workers they are of.

use dataplane::config::{ConfigError, wrong};
use engine::Owner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Move;

/// When groups move together onto fewer workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParkSection {
    /// Groups of two workers move together while both carry packets for no more than this part of the time of one, 0 to 1.
    pub below: f64,
    /// Groups move back when a worker carries packets for this part of its time, or more, for two seconds.
    pub above: f64,
    /// For how many seconds the load must be below before groups move together, at most 86,400.
    pub seconds: u64,
    /// Hours of the day (UTC) in which groups may move together, as `"22:30-06:00"`; at other times they are on their own
    /// workers. Left out: always.
    pub hours: Vec<String>,
}

impl Default for ParkSection {
    fn default() -> Self {
        Self { below: 0.4, above: 0.7, seconds: 60, hours: Vec::new() }
    }
}

/// Seconds for which a load must be too high before groups move back.
const HIGH_SECONDS: u64 = 2;
/// Seconds of a day: what a threshold may last at most.
const MOST_SECONDS: u64 = 86_400;
const SECOND: u64 = 1_000_000_000;

/// Minutes of the day, from and until.
fn hours(text: &str) -> Option<(u16, u16)> {
    let minute = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60 || (hour, minute) == (24, 0)).then_some(hour * 60 + minute)
    };
    let (from, until) = text.split_once('-')?;
    Some((minute(from)?, minute(until)?)).filter(|(from, until)| from != until)
}

impl ParkSection {
    /// Reports what is invalid.
    ///
    /// # Errors
    /// A value that is out of range, with its key.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(self.below > 0.0 && self.below < self.above && self.above <= 1.0) {
            let what = format!("below = {}, above = {}", self.below, self.above);
            return Err(wrong(
                &[&"park", &"below"],
                what,
                "0 < below < above, and above at most 1: parts of a worker's time",
            ));
        }
        if self.seconds > MOST_SECONDS {
            let what = format!("seconds = {}", self.seconds);
            return Err(wrong(&[&"park", &"seconds"], what, "at most 86400, a day"));
        }
        for (n, text) in self.hours.iter().enumerate() {
            if hours(text).is_none() {
                let what = format!("\"{text}\" is no range of hours");
                return Err(wrong(&[&"park", &"hours", &n], what, "such as \"22:30-06:00\", in UTC"));
            }
        }
        Ok(())
    }
}

/// What is decided by.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Nanoseconds of any clock.
    pub now: u64,
    /// Minute of the day, UTC.
    pub minute: u16,
    /// Load of each worker, 0 to 1.
    pub loads: &'a [f64],
    /// The worker of each group, and whether the group can move.
    pub groups: &'a [(Owner, bool)],
}

/// Why groups are to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A worker is to sleep.
    Little,
    /// A worker has too much to do.
    Much,
    /// It is not the time of day for it any more.
    Hours,
}

/// Decides which groups move, and when.
#[derive(Clone, Debug)]
pub struct Policy {
    section: ParkSection,
    hours: Vec<(u16, u16)>,
    /// The worker that each group is of.
    homes: Vec<Owner>,
    low_since: Option<u64>,
    high_since: Option<u64>,
}

impl Policy {
    /// Of a section that was checked, and the worker that each group is of.
    pub fn new(section: &ParkSection, homes: Vec<Owner>) -> Self {
        let hours = section.hours.iter().filter_map(|text| hours(text)).collect();
        Self { section: section.clone(), hours, homes, low_since: None, high_since: None }
    }

    /// Moves that are to be made now, and why; none: nothing is to change. Ask once a second, and not while groups move.
    pub fn decide(&mut self, sight: &Sight<'_>) -> Option<(Reason, Vec<Move>)> {
        if !self.is_time(sight.minute) {
            (self.low_since, self.high_since) = (None, None);
            let moves = self.back(sight, |_, _| true);
            return (!moves.is_empty()).then_some((Reason::Hours, moves));
        }
        let moves = self.relieve(sight);
        let since = *self.high_since.get_or_insert(sight.now);
        if moves.is_empty() {
            self.high_since = None;
        } else if sight.now.saturating_sub(since) >= HIGH_SECONDS * SECOND {
            (self.low_since, self.high_since) = (None, None);
            return Some((Reason::Much, moves));
        }
        let moves = self.together(sight);
        let since = *self.low_since.get_or_insert(sight.now);
        if moves.is_empty() {
            self.low_since = None;
        } else if sight.now.saturating_sub(since) >= self.section.seconds.saturating_mul(SECOND) {
            (self.low_since, self.high_since) = (None, None);
            return Some((Reason::Little, moves));
        }
        None
    }

    fn is_time(&self, minute: u16) -> bool {
        let within = |(from, until): &(u16, u16)| match from < until {
            true => (*from..*until).contains(&minute),
            false => minute >= *from || minute < *until,
        };
        self.hours.is_empty() || self.hours.iter().any(within)
    }

    /// Groups that are not at home and chosen, back to it.
    fn back(&self, sight: &Sight<'_>, chosen: impl Fn(Owner, Owner) -> bool) -> Vec<Move> {
        let groups = (0..).zip(sight.groups).zip(&self.homes);
        let away = groups.filter(|((_, (owner, can)), home)| owner != *home && *can && chosen(*owner, **home));
        away.map(|((group, (from, _)), to)| Move { group, from: *from, to: *to }).collect()
    }

    /// Groups that a worker with too much load gives back to one that sleeps: of those that can, the one with the most.
    fn relieve(&self, sight: &Sight<'_>) -> Vec<Move> {
        let load = |worker: Owner| sight.loads.get(usize::from(worker)).copied().unwrap_or(1.0);
        let workers = 0..sight.loads.len() as Owner; // fewer than 64
        let mut busy: Vec<_> = workers.filter(|worker| load(*worker) >= self.section.above).collect();
        busy.sort_by(|a, b| load(*b).total_cmp(&load(*a)));
        let all = busy.into_iter().map(|worker| self.back(sight, |owner, _| owner == worker));
        let Some(all) = all.into_iter().find(|all| !all.is_empty()) else { return Vec::new() };
        let home = all.iter().map(|of| of.to).min_by(|a, b| load(*a).total_cmp(&load(*b)));
        all.into_iter().filter(|of| Some(of.to) == home).collect()
    }

    /// All groups of the worker with the least load, to the one with the least of the others, if that is not too much.
    fn together(&self, sight: &Sight<'_>) -> Vec<Move> {
        let workers = 0..sight.loads.len() as Owner; // fewer than 64
        let has = |worker: &Owner| sight.groups.iter().any(|(owner, _)| owner == worker);
        let stays = |worker: &Owner| sight.groups.iter().any(|(owner, can)| owner == worker && !can);
        let mut active: Vec<_> = workers.filter(has).collect();
        active.sort_by(|a, b| sight.loads[usize::from(*a)].total_cmp(&sight.loads[usize::from(*b)]));
        let Some(from) = active.iter().position(|worker| !stays(worker)).map(|at| active.remove(at)) else {
            return Vec::new();
        };
        let Some(to) = active.first().copied() else { return Vec::new() };
        if sight.loads[usize::from(from)] + sight.loads[usize::from(to)] > self.section.below {
            return Vec::new();
        }
        let groups = (0..).zip(sight.groups).filter(|(_, (owner, _))| *owner == from);
        groups.map(|(group, _)| Move { group, from, to }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        policy: Policy,
        groups: Vec<(Owner, bool)>,
        now: u64,
        minute: u16,
    }

    impl World {
        fn new(section: &ParkSection, homes: &[Owner]) -> Self {
            let groups = homes.iter().map(|home| (*home, true)).collect();
            Self { policy: Policy::new(section, homes.to_vec()), groups, now: 0, minute: 0 }
        }

        /// So many seconds with those loads; moves are made as soon as they are decided. Their number.
        fn pass(&mut self, seconds: u64, loads: &[f64]) -> usize {
            let mut count = 0;
            for _ in 0..seconds {
                self.now += SECOND;
                let sight = Sight { now: self.now, minute: self.minute, loads, groups: &self.groups };
                for of in self.policy.decide(&sight).map(|(_, moves)| moves).unwrap_or_default() {
                    assert_eq!(self.groups[usize::from(of.group)].0, of.from);
                    self.groups[usize::from(of.group)].0 = of.to;
                    count += 1;
                }
            }
            count
        }

        fn owners(&self) -> Vec<Owner> {
            self.groups.iter().map(|group| group.0).collect()
        }
    }

    #[test]
    fn groups_gather_when_little_is_to_do_and_return_when_much_is() {
        let mut world = World::new(&ParkSection::default(), &[0, 1, 1, 2]);
        assert_eq!(world.pass(60, &[0.1, 0.05, 0.3]), 0, "not for long enough yet");
        assert_eq!(world.pass(1, &[0.1, 0.05, 0.3]), 2);
        assert_eq!(world.owners(), [0, 0, 0, 2]);
        assert_eq!(world.pass(300, &[0.15, 0.0, 0.3]), 0, "together they are above");
        assert_eq!(world.pass(61, &[0.1, 0.0, 0.2]), 3);
        assert_eq!(world.owners(), [2, 2, 2, 2]);
        assert_eq!(world.pass(300, &[0.0, 0.0, 0.69]), 0);
        assert_eq!(world.pass(1, &[0.0, 0.0, 0.75]), 0, "not for long enough yet");
        assert_eq!(world.pass(2, &[0.0, 0.0, 0.75]), 1, "those of one worker");
        assert_eq!(world.owners(), [0, 2, 2, 2]);
        assert_eq!(world.pass(3, &[0.1, 0.0, 0.75]), 2);
        assert_eq!(world.owners(), [0, 1, 1, 2]);
        assert_eq!(world.pass(300, &[0.9, 0.9, 0.9]), 0, "nothing is away from home");
    }

    #[test]
    fn busiest_worker_without_guests_does_not_keep_another_busy() {
        let mut world = World::new(&ParkSection::default(), &[0, 1, 2]);
        world.groups[1].0 = 2;
        assert_eq!(world.pass(3, &[0.95, 0.0, 0.9]), 1);
        assert_eq!(world.owners(), [0, 1, 2]);
    }

    #[test]
    fn load_between_the_bounds_changes_nothing() {
        let mut world = World::new(&ParkSection::default(), &[0, 1]);
        world.pass(61, &[0.1, 0.1]);
        assert_eq!(world.owners(), [1, 1]);
        for load in [0.3, 0.5, 0.65, 0.41, 0.69] {
            assert_eq!(world.pass(100, &[0.0, load]), 0, "{load}");
        }
    }

    #[test]
    fn a_short_pause_moves_nothing() {
        let mut world = World::new(&ParkSection::default(), &[0, 1]);
        for _ in 0..10 {
            assert_eq!(world.pass(59, &[0.1, 0.1]) + world.pass(1, &[0.3, 0.3]), 0);
        }
    }

    #[test]
    fn hours_bound_it_over_midnight() {
        let section = ParkSection { hours: vec!["22:30-06:00".into()], seconds: 10, ..ParkSection::default() };
        let mut world = World::new(&section, &[0, 1]);
        for (minute, owners) in [(12 * 60, [0, 1]), (22 * 60 + 30, [1, 1]), (0, [1, 1]), (359, [1, 1]), (360, [0, 1])] {
            world.minute = minute;
            world.pass(12, &[0.1, 0.1]);
            assert_eq!(world.owners(), owners, "minute {minute}");
        }
    }

    #[test]
    fn worker_with_a_group_that_must_stay_is_not_parked() {
        let mut world = World::new(&ParkSection::default(), &[0, 0, 1]);
        world.groups[0].1 = false;
        world.pass(61, &[0.0, 0.1]);
        assert_eq!(world.owners(), [0, 0, 0]);
        assert_eq!(world.pass(100, &[0.1, 0.0]), 0, "the last worker stays");
    }

    #[test]
    fn invalid_sections_are_reported() {
        let of =
            |below, above, hours: &str| ParkSection { below, above, hours: vec![hours.into()], seconds: 1 }.check();
        assert!(of(0.4, 0.7, "00:00-24:00").is_ok());
        for (below, above, hours) in [(0.0, 0.5, "1:00-2:00"), (0.6, 0.5, "1:00-2:00"), (0.1, 1.1, "1:00-2:00")] {
            assert!(of(below, above, hours).unwrap_err().to_string().contains("below <"));
        }
        for hours in ["1-2", "01:00", "25:00-26:00", "03:00-03:00", ""] {
            assert!(of(0.4, 0.7, hours).unwrap_err().to_string().contains("UTC"), "{hours}");
        }
        let of = |seconds| ParkSection { seconds, ..ParkSection::default() }.check();
        assert!(of(86_400).is_ok());
        assert!(of(u64::MAX).unwrap_err().to_string().contains("at most 86400"));
    }
}
