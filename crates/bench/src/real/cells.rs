//! Cells: the same load for all contenders by turns, repeated until ratios are known well enough.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::contender::{Contender, Kind};
use super::options::{Offered, RealOptions};
use super::search::{self, Peak};
use super::stats::Ratio;
use super::trial::{Load, Trial, Trials};
use super::verify::Verified;
use crate::error::BenchError;

/// Times an invalid trial is repeated.
const AGAIN: usize = 3;
/// A ratio is known well enough when half its interval is this part of it.
pub const WELL_ENOUGH: f64 = 0.05;
/// Time counted in a trial of the search.
const SEARCH: Duration = Duration::from_millis(250);

/// What is asked of a load.
#[derive(Clone, Copy)]
struct Asked {
    pps: f64,
    most: bool,
}

/// What a contender did in a cell: one trial per round.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: Kind,
    /// Packets a second that were asked for.
    pub offered: f64,
    /// The load's CPU cannot send more.
    pub limited: bool,
    /// Valid trials, and those that stayed invalid.
    pub trials: Vec<Trial>,
}

/// One load, played to all contenders.
#[derive(Clone, Debug)]
pub struct Cell {
    pub offered: Offered,
    /// A row for each contender, the gateway's first.
    pub rows: Vec<Row>,
    /// Every ratio is known well enough.
    pub settled: bool,
}

impl Cell {
    /// The ratio of the gateway's trials to another contender's by pairs: `of` names what is compared.
    pub fn ratio(&self, to: Kind, of: impl Fn(&Trial) -> Option<f64>) -> Option<Ratio> {
        let row = |kind| self.rows.iter().find(|row| row.kind == kind);
        let (ours, theirs) = (row(Kind::Weir)?, row(to)?);
        let pairs = ours.trials.iter().zip(&theirs.trials);
        Ratio::of(pairs.filter_map(|(ours, theirs)| Some((of(ours)?, of(theirs)?))))
    }

    /// The ratio that the cell is about: of the rates at saturation, else of CPU time.
    pub(crate) fn main_ratio(&self, to: Kind) -> Option<Ratio> {
        match self.offered {
            Offered::Saturation => self.ratio(to, |trial| Some(trial.pps())),
            Offered::Pps(_) => self.ratio(to, Trial::cpu_ns_per_packet),
            Offered::Idle => self.ratio(to, |trial| Some(trial.cpu_percent())),
        }
    }
}

/// Plays cells, and keeps what all of them have in common.
pub struct Player<'a> {
    pub options: &'a RealOptions,
    pub trials: Trials,
    /// Set on Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Receives a line of progress.
    pub tell: &'a mut dyn FnMut(&str),
    /// Trials that were repeated as they were invalid.
    pub repeated: usize,
    /// What was carried in all cells, by contender.
    pub carried: BTreeMap<Kind, Carried>,
}

/// What a contender has carried in all cells.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Packets sent to it: uplink, downlink.
    pub sent: [u64; 2],
    /// Packets it delivered.
    pub delivered: [u64; 2],
    /// What samples of them showed.
    pub verified: Verified,
}

impl Player<'_> {
    /// Plays one load to all contenders by turns, until ratios are settled or the rounds are used up.
    ///
    /// # Errors
    /// Told to stop, or a contender has ended.
    pub fn cell(&mut self, contenders: &mut [Contender], offered: Offered) -> Result<Cell, BenchError> {
        let mut rows = Vec::new();
        for contender in contenders.iter_mut() {
            let load = match offered {
                Offered::Idle => Peak::default(),
                Offered::Pps(rate) => Peak { rate, limited: false },
                Offered::Saturation => self.saturation(contender)?,
            };
            rows.push(Row { kind: contender.kind, offered: load.rate, limited: load.limited, trials: Vec::new() });
        }
        let (least, most) = self.options.rounds;
        let mut cell = Cell { offered, rows, settled: false };
        for round in 0..most {
            // Every other round backwards: what drifts is the same for all.
            let mut order: Vec<usize> = (0..contenders.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let asked = (offered != Offered::Idle)
                    .then_some(Asked { pps: cell.rows[at].offered, most: offered == Offered::Saturation });
                (self.tell)(&format!(
                    "{offered}: {} round {} of {least} to {most}",
                    cell.rows[at].kind.label(),
                    round + 1
                ));
                let trial = self.valid(&mut contenders[at], asked, self.options.window)?;
                cell.rows[at].trials.push(trial);
            }
            let wide = |kind| cell.main_ratio(kind).is_some_and(|ratio| ratio.half_width() > WELL_ENOUGH);
            // What nothing costs is judged by itself: ratios of two times near zero never settle.
            let judged = offered != Offered::Idle;
            cell.settled = round + 1 >= 3 && !(judged && [Kind::Bare, Kind::Peer].into_iter().any(wide));
            if round + 1 >= least && cell.settled {
                break;
            }
        }
        Ok(cell)
    }

    /// A trial of the cells' packets; repeated while it is invalid, at most three times.
    fn valid(
        &mut self,
        contender: &mut Contender,
        asked: Option<Asked>,
        window: Duration,
    ) -> Result<Trial, BenchError> {
        let mut again = 0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            let trial = self.played(contender, asked, window)?;
            let Some(why) = &trial.invalid else { return Ok(trial) };
            if again == AGAIN {
                (self.tell)(&format!("{}: kept an invalid trial: {why}", contender.kind.label()));
                return Ok(trial);
            }
            again += 1;
            self.repeated += 1;
            (self.tell)(&format!("{}: trial repeated: {why}", contender.kind.label()));
        }
    }

    fn played(
        &mut self,
        contender: &mut Contender,
        asked: Option<Asked>,
        window: Duration,
    ) -> Result<Trial, BenchError> {
        contender.child.hold(false);
        let blast = contender.blast.clone();
        let load = asked.map(|Asked { pps, most }| Load { blast: &blast, pps: Some(pps), most });
        let trial = self.trials.run(contender, load, window);
        contender.child.hold(true);
        let trial = trial?;
        let carried = self.carried.entry(contender.kind).or_default();
        for way in 0..2 {
            carried.sent[way] += trial.whole.0[way];
            carried.delivered[way] += trial.whole.1[way];
        }
        let samples = contender.sink.take_samples();
        if contender.kind != Kind::Bare {
            carried.verified.add(&samples, &contender.plan);
        }
        Ok(trial)
    }

    /// The rate offered at which a contender delivers most: more load than that costs it packets.
    fn saturation(&mut self, contender: &mut Contender) -> Result<Peak, BenchError> {
        (self.tell)(&format!("max: looking for the rate at which {} delivers most", contender.kind.label()));
        let window = SEARCH.min(self.options.window);
        search::peak(|pps| {
            let trial = self.valid(contender, Some(Asked { pps, most: true }), window)?;
            Ok(search::Found { sent: trial.sent_pps(), delivered: trial.pps() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::cpu::Sched;

    fn trial(run_ns: u64) -> Trial {
        let mut trial = Trial { seconds: 1.0, ..Trial::default() };
        trial.sched = Sched { run_ns, ..Sched::default() };
        trial.arrived.packets = [[500, 0], [0, 500]];
        trial
    }

    #[test]
    fn a_cell_compares_round_by_round() {
        let row = |kind, run: [u64; 3]| Row { kind, offered: 1e3, limited: false, trials: run.map(trial).to_vec() };
        let rows = vec![row(Kind::Weir, [2000, 4000, 6000]), row(Kind::Bare, [1000, 2000, 3000])];
        let cell = Cell { offered: Offered::Pps(1e3), rows, settled: true };
        let ratio = cell.main_ratio(Kind::Bare).expect("pairs");
        assert!((ratio.mean - 2.0).abs() < 1e-9 && ratio.half_width() < 1e-9);
        assert_eq!(cell.main_ratio(Kind::Peer), None);
        assert_eq!(trial(2000).cpu_ns_per_packet(), Some(2.0));
    }
}
