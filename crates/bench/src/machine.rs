//! What the machine gives to any program, beside what a gateway makes of it: without it, a figure of one machine says
//! little about another's.

use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::records::{LineId, Lines};

use crate::thread::{Urgency, cpus, pin, urge};
use crate::window::median;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// What a line of memory takes, in nanoseconds, of 128 MiB on huge pages where there are some: in no order, 64
    /// asked for before the first is needed, as a burst does. A packet of the user plane touches seven, in four pairs.
    pub line_ns: f64,
    /// What two CPUs get done at the same time, by what one does alone, of work that needs nothing but a core: 2 where
    /// each has one, less where they are threads of one core (SMT) or others use the machine: then it is not the same from
    /// one measurement to the next. None where there is one CPU only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_cpus: Option<f64>,
}

impl Machine {
    /// Measures this one, in a third of a second.
    ///
    /// # Errors
    /// Too little memory.
    pub fn measure() -> io::Result<Self> {
        let all = cpus();
        let line_ns = thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                settle(all.last().copied());
                line_ns(128 << 20)
            });
            measuring.join().unwrap_or_else(|_| Err(io::Error::other("the measuring thread ended")))
        })?;
        Ok(Self { line_ns, two_cpus: all.first_chunk().map(|&two| two_cpus(two)) })
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let mut out =
            format!("this machine: a cache line from memory takes {:.1} ns with 64 requested at once", self.line_ns);
        if let Some(times) = self.two_cpus {
            out += &format!("; two CPUs at once get {times:.2} times done what one does alone");
        }
        out
    }
}

/// Puts the calling thread where gateways are measured.
fn settle(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        pin(cpu);
    }
    urge(Urgency::Packets);
}

/// The number after another, in no order (xorshift).
#[inline(always)]
fn after<const A: u32, const B: u32, const C: u32>(mut number: u64) -> u64 {
    number ^= number << A;
    number ^= number >> B;
    number ^ number << C
}

/// Lines asked for at once: a burst.
const TOGETHER: usize = 64;
/// Bursts of a piece, some hundred microseconds.
const BURSTS: usize = 200;
/// Pieces; the median counts.
const PIECES: usize = 101;

fn line_ns(bytes: usize) -> io::Result<f64> {
    let count = bytes / size_of::<table::records::Line>();
    let mut lines = Lines::with_capacity(count)?;
    while lines.alloc(1).is_some() {}
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let mut piece = || {
        let began = Instant::now();
        for _ in 0..BURSTS {
            let ids: [LineId; TOGETHER] = std::array::from_fn(|_| {
                random = after::<13, 7, 17>(random);
                let id = LineId((random % count as u64) as u32);
                lines.prefetch(id, 0);
                id
            });
            for id in ids {
                black_box(lines.get(id, 1).map_or(0, |line| line[0].0[0]));
            }
        }
        began.elapsed().as_nanos() as f64 / (BURSTS * TOGETHER) as f64
    };
    piece();
    Ok(median((0..PIECES).map(|_| piece())))
}

/// How long two CPUs work at a time.
const WORK: Duration = Duration::from_millis(4);
/// How often; the median counts.
const ROUNDS: usize = 25;

/// Each round on one CPU alone and on both at once, so that what others do to the machine in between does not count.
fn two_cpus(cpus: [usize; 2]) -> f64 {
    let barrier = Barrier::new(2);
    let work = |cpu: usize, first: bool| {
        settle(Some(cpu));
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            barrier.wait();
            let alone = if first { done_in(WORK) } else { 0.0 };
            barrier.wait();
            rounds.push((alone, done_in(WORK)));
        }
        rounds
    };
    let work = &work;
    thread::scope(|scope| {
        let threads = [(cpus[0], true), (cpus[1], false)].map(|(cpu, first)| scope.spawn(move || work(cpu, first)));
        let [one, other] = threads.map(|thread| thread.join().unwrap_or_default());
        let ratio = |((alone, first), (_, second)): (&(f64, f64), &(f64, f64))| (first + second) / alone.max(1.0);
        median(one.iter().zip(&other).map(ratio))
    })
}

/// How much of some work gets done in a second: four chains of arithmetic that do not wait for each other, in registers,
/// so that a core alone is nearly full of it, as it is of a gateway's stages. Each shifts by numbers of its own, or
/// compilers would make vectors of them.
fn done_in(time: Duration) -> f64 {
    let began = Instant::now();
    let [mut a, mut b, mut c, mut d] = [1, 2, 3, 4];
    let mut done = 0.0;
    while began.elapsed() < time {
        for _ in 0..1000 {
            a = after::<13, 7, 17>(a);
            b = after::<12, 25, 27>(b);
            c = after::<21, 35, 4>(c);
            d = after::<23, 17, 26>(d);
        }
        done += 1.0;
    }
    black_box([a, b, c, d]);
    done / began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_measured() {
        let found = Machine::measure().unwrap();
        assert!(found.line_ns > 0.1, "{found:?}");
        assert_eq!(found.two_cpus.is_some(), cpus().len() > 1);
        assert!(found.two_cpus.is_none_or(|times| times > 0.1), "{found:?}");
        assert_eq!(found.text().contains("two CPUs"), cpus().len() > 1);
    }
}
