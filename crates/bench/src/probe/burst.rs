//! Burst credit, as cloud instances have it: full speed from rest until the credit is used, then a baseline. Pure: a
//! device is seen only through [`Device`], and time only through what its answers say.
//!
//! ```text
//!  rate  p ┤■■■■■■■■■■■■┐              ┌■■■┐
//!        r ┤            └■■■■■■■■      │   └■■■■
//!          └────────────┴────────┴─────┴─────────► time
//!           from rest   t₁        idle τ  again
//! ```
//! Depth B = (p − r) t₁: the credit that was used beyond what came back meanwhile.

use certificate::{Allowance, BurstUnit, Direction, Limiter, Refill};

/// A device whose allowance is looked for. Units are bytes or packets.
pub trait Device {
    /// Why it cannot be loaded.
    type Error;

    /// Offers units for some seconds at a rate, at most as many as can be sent, and reports what arrived in this time.
    ///
    /// # Errors
    /// It could not be loaded, or was interrupted.
    fn load(&mut self, per_second: f64, seconds: f64) -> Result<Slice, Self::Error>;

    /// Leaves it alone.
    ///
    /// # Errors
    /// It was interrupted.
    fn idle(&mut self, seconds: f64) -> Result<(), Self::Error>;
}

/// What happened in a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// How long it took.
    pub seconds: f64,
    /// Units offered.
    pub offered: f64,
    /// Units that arrived.
    pub delivered: f64,
    /// Median latency in microseconds, where it is measured.
    pub latency_us: Option<f64>,
}

impl Slice {
    fn rate(&self) -> f64 {
        self.delivered / self.seconds.max(1e-9)
    }
}

/// How an allowance is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstOptions {
    /// Received or sent, for the result.
    pub direction: Direction,
    /// What is counted, for the result.
    pub unit: BurstUnit,
    /// The largest rate that is offered.
    pub peak_per_second: f64,
    /// Seconds without packets before the first: the credit is full then, if it was long enough.
    pub rest_seconds: f64,
    /// Seconds at peak, after which it is not exhausted.
    pub peak_seconds: f64,
    /// Seconds of a sample.
    pub slice_seconds: f64,
    /// A baseline that is known from elsewhere: where the peak lasts to the end, the depth is at least (p − r) × the
    /// time.
    pub baseline_per_second: Option<f64>,
}

/// Idle times as parts of the time in which all of the credit would come back at the baseline.
const IDLE: [f64; 2] = [0.25, 0.5];
/// Samples that a level needs.
const LEVEL: usize = 8;
/// Samples of a trial near the baseline.
const CONFIRM: usize = 40;
/// Parts of the baseline that must go through, and must not.
const BELOW: f64 = 0.98;
const ABOVE: f64 = 1.02;
/// A trial near the baseline goes through where at least this part of it arrives: between 0.98 and 1 / 1.02 of an
/// error of 1 % each.
const THROUGH: f64 = 0.993;
/// A level lower by less than this is none.
const LEAST_DROP: f64 = 0.05;
/// The sum of squares must be better by so many of its remaining means: five standard errors.
const SURE: f64 = 25.0;
/// Latency that grows by this factor is of packets that wait.
const WAITS: f64 = 3.0;
/// Microseconds that latency grows at least, where packets wait.
const WAITS_US: f64 = 200.0;

/// Looks for an allowance. `show` is told the phase and the seconds that it takes at most.
///
/// # Errors
/// The device's.
pub fn allowance<D: Device>(
    device: &mut D,
    options: &BurstOptions,
    show: &mut dyn FnMut(&str, f64),
) -> Result<Allowance, D::Error> {
    if options.rest_seconds > 0.0 {
        show("rest", options.rest_seconds);
        device.idle(options.rest_seconds)?;
    }
    show("peak from rest", options.peak_seconds);
    let slices = until_baseline(device, options, options.peak_seconds)?;
    let rates: Vec<f64> = slices.iter().map(Slice::rate).collect();
    let samples = timed(&slices);
    let empty = Allowance {
        direction: options.direction,
        unit: options.unit,
        peak_per_second: trimmed_mean(&rates),
        baseline_per_second: trimmed_mean(&rates),
        depth: None,
        is_lower_bound: true,
        peak_seconds: slices.iter().map(|slice| slice.seconds).sum(),
        refills: vec![],
        refill_per_second: None,
        is_confirmed: None,
        limiter: Limiter::None,
        samples,
    };
    let Some(at) = change_point(&rates) else {
        let beyond = options.baseline_per_second.map(|baseline| (empty.peak_per_second - baseline).max(0.0));
        return Ok(Allowance { depth: beyond.map(|beyond| beyond * empty.peak_seconds), ..empty });
    };
    let (peak, baseline) = levels(&rates, at);
    let depth = credit(&slices[..(at + 2).min(slices.len())], baseline);
    let limiter = limiter(&slices, at);
    let mut found = Allowance {
        peak_per_second: peak,
        baseline_per_second: baseline,
        depth: Some(depth),
        is_lower_bound: false,
        peak_seconds: depth / (peak - baseline).max(1e-9),
        limiter,
        ..empty
    };
    for part in IDLE {
        // A baseline of nothing would have it wait for ever.
        let idle = (part * depth / baseline.max(1e-9)).clamp(options.slice_seconds, part * options.peak_seconds);
        let peak_again = (3.0 * part * depth / (peak - baseline).max(1e-9)).min(options.peak_seconds);
        let longest = peak_again + 4.0 * LEVEL as f64 * options.slice_seconds;
        show("idle, and peak again", idle + longest);
        device.idle(idle)?;
        let again = until_baseline(device, options, longest)?;
        let rates: Vec<f64> = again.iter().map(Slice::rate).collect();
        let used = change_point(&rates).map_or(again.len(), |at| (at + 2).min(again.len()));
        let credit = credit(&again[..used], baseline).max(0.0);
        found.refills.push(Refill { idle_seconds: idle, credit, per_second: credit / idle });
    }
    if let [first, second] = found.refills[..] {
        // What waits in a shaper's queue when idle begins costs both the same.
        found.refill_per_second =
            Some((second.credit - first.credit) / (second.idle_seconds - first.idle_seconds).max(1e-9));
    }
    let seconds = CONFIRM as f64 * options.slice_seconds;
    show("0.98 and 1.02 of the baseline", 2.0 * seconds);
    // With nothing left of the credit, the upper one first.
    let above = settled(device, ABOVE * baseline, options)?;
    let below = settled(device, BELOW * baseline, options)?;
    let through = |slice: &Slice| slice.delivered / slice.offered.max(1e-9);
    // A sender that is held back loses nothing: there the rate tells.
    let is_held = through(&above) <= THROUGH || above.rate() <= 1.01 * baseline;
    found.is_confirmed = Some(is_held && through(&below) >= THROUGH);
    Ok(found)
}

/// Loads at peak until the rate has been lower for some samples, or for `longest` seconds.
fn until_baseline<D: Device>(device: &mut D, options: &BurstOptions, longest: f64) -> Result<Vec<Slice>, D::Error> {
    let (mut slices, mut rates, mut seconds) = (Vec::new(), Vec::new(), 0.0);
    while seconds < longest {
        let slice = device.load(options.peak_per_second, options.slice_seconds)?;
        seconds += slice.seconds.max(options.slice_seconds / 2.0);
        slices.push(slice);
        rates.push(slice.rate());
        if let Some(at) = change_point(&rates)
            && rates.len() - at >= (at / 4).clamp(4 * LEVEL, 10 * LEVEL)
        {
            break;
        }
    }
    Ok(slices)
}

/// Loads at a rate; what the later three quarters came to.
fn settled<D: Device>(device: &mut D, per_second: f64, options: &BurstOptions) -> Result<Slice, D::Error> {
    let mut sum = Slice::default();
    for n in 0..CONFIRM {
        let slice = device.load(per_second, options.slice_seconds)?;
        if n >= CONFIRM / 4 {
            sum.seconds += slice.seconds;
            sum.offered += slice.offered;
            sum.delivered += slice.delivered;
        }
    }
    Ok(sum)
}

/// Where a sequence falls from one level to a lower one: the index of the first sample of the lower level, chosen so
/// that the squares around both means are least. None where one level explains it nearly as well, or the fall is
/// below 5 %.
pub fn change_point(rates: &[f64]) -> Option<usize> {
    let count = rates.len();
    if count < 2 * LEVEL {
        return None;
    }
    let sums: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
        .chain(rates.iter().scan((0.0, 0.0), |(sum, squares), rate| {
            (*sum, *squares) = (*sum + rate, *squares + rate * rate);
            Some((*sum, *squares))
        }))
        .collect();
    let around = |from: usize, to: usize| {
        let (sum, squares) = (sums[to].0 - sums[from].0, sums[to].1 - sums[from].1);
        (squares - sum * sum / (to - from) as f64).max(0.0)
    };
    let mean = |from: usize, to: usize| (sums[to].0 - sums[from].0) / (to - from) as f64;
    let both = |at: &usize| around(0, *at) + around(*at, count);
    let at = (2..=count - LEVEL).min_by(|a, b| both(a).total_cmp(&both(b)))?;
    let (one, two) = (around(0, count), both(&at));
    let is_lower = mean(at, count) < (1.0 - LEAST_DROP) * mean(0, at);
    let is_sure = (one - two) * (count - 2) as f64 > SURE * two;
    (is_lower && is_sure).then_some(at)
}

/// Peak and baseline: means on both sides of the change, without the samples that it may lie in and without the
/// outermost.
fn levels(rates: &[f64], at: usize) -> (f64, f64) {
    let before = &rates[..at.saturating_sub(1).max(1)];
    let after = &rates[(at + 1).min(rates.len() - 1)..];
    (trimmed_mean(before), trimmed_mean(after))
}

/// Units beyond the baseline.
fn credit(slices: &[Slice], baseline: f64) -> f64 {
    slices.iter().map(|slice| slice.delivered - baseline * slice.seconds).sum()
}

/// Waiting or dropping, by latency and loss before the change and after.
fn limiter(slices: &[Slice], at: usize) -> Limiter {
    let latency = |slices: &[Slice]| {
        let all: Vec<f64> = slices.iter().filter_map(|slice| slice.latency_us).collect();
        (!all.is_empty()).then(|| median(&all))
    };
    let after = &slices[(at + 1).min(slices.len() - 1)..];
    let waits = latency(&slices[..at]).zip(latency(after));
    let offered: f64 = after.iter().map(|slice| slice.offered).sum();
    let delivered: f64 = after.iter().map(|slice| slice.delivered).sum();
    match waits {
        Some((before, after)) if after > WAITS * before && after > before + WAITS_US => Limiter::Shaper,
        _ if delivered < 0.98 * offered => Limiter::Policer,
        // Nothing is lost and nothing waits: the sender was held back.
        _ => Limiter::Shaper,
    }
}

fn timed(slices: &[Slice]) -> Vec<[f64; 2]> {
    let begin = |at: &mut f64, slice: &Slice| {
        let begun = *at;
        *at += slice.seconds;
        Some([begun, slice.rate()])
    };
    slices.iter().scan(0.0, begin).collect()
}

/// The mean without a tenth of the values at each end.
fn trimmed_mean(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let inner = &sorted[sorted.len() / 10..sorted.len() - sorted.len() / 10];
    inner.iter().sum::<f64>() / inner.len().max(1) as f64
}

fn median(values: &[f64]) -> f64 {
    crate::window::median(values.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Bucket;
    use super::*;

    fn options() -> BurstOptions {
        BurstOptions {
            direction: Direction::Out,
            unit: BurstUnit::Bytes,
            peak_per_second: 1e9,
            rest_seconds: 0.0,
            peak_seconds: 7200.0,
            slice_seconds: 5.0,
            baseline_per_second: None,
        }
    }

    fn found(mut bucket: Bucket) -> Allowance {
        allowance(&mut bucket, &options(), &mut |_, _| {}).unwrap()
    }

    fn is_near(found: f64, truth: f64, part: f64) -> bool {
        (found / truth - 1.0).abs() <= part
    }

    /// Credit of 5 to 60 minutes, as instances have it, with noise.
    #[test]
    fn rates_and_depth_of_simulated_devices_are_found() {
        for seed in 0..20 {
            for (minutes, noise_ppm) in [(5.0, 0), (5.0, 20_000), (20.0, 30_000), (60.0, 30_000)] {
                for queue in [0.0, 2e6] {
                    for (peak, baseline) in [(1e9, 0.4e9), (1e9, 0.1e9), (0.8e9, 0.6e9)] {
                        let depth = (peak - baseline) * minutes * 60.0;
                        let bucket = Bucket { queue, noise_ppm, seed, ..Bucket::new(peak, baseline, depth) };
                        let found = found(bucket.clone());
                        let what = format!("{bucket:?}: {:?}", Allowance { samples: vec![], ..found.clone() });
                        assert!(is_near(found.peak_per_second, peak, 0.02), "{what}");
                        assert!(is_near(found.baseline_per_second, baseline, 0.02), "{what}");
                        assert!(!found.is_lower_bound && is_near(found.depth.unwrap(), depth, 0.1), "{what}");
                        assert!(is_near(found.refill_per_second.unwrap(), baseline, 0.15), "{what}");
                        assert_eq!(found.is_confirmed, Some(true), "{what}");
                        let limiter = if queue > 0.0 { Limiter::Shaper } else { Limiter::Policer };
                        assert_eq!(found.limiter, limiter, "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_limit_is_found_where_there_is_none() {
        for noise_ppm in [0, 30_000] {
            let found = found(Bucket { noise_ppm, seed: 3, ..Bucket::unlimited(1e9) });
            assert!(found.is_lower_bound && found.depth.is_none() && found.refills.is_empty(), "{:?}", found.limiter);
            assert_eq!((found.limiter, found.is_confirmed), (Limiter::None, None));
            assert!(is_near(found.peak_seconds, 7200.0, 0.01) && is_near(found.peak_per_second, 1e9, 0.02));
        }
    }

    #[test]
    fn a_credit_that_lasts_has_a_lower_bound() {
        let mut bucket = Bucket::new(1e9, 0.4e9, 0.6e9 * 10_000.0);
        let known = BurstOptions { baseline_per_second: Some(0.4e9), ..options() };
        let found = allowance(&mut bucket, &known, &mut |_, _| {}).unwrap();
        assert!(found.is_lower_bound && is_near(found.depth.unwrap(), 0.6e9 * 7200.0, 0.01));
    }

    /// A credit without a baseline: idle times stay bounded, and every number is one.
    #[test]
    fn a_baseline_of_nothing_ends() {
        let mut bucket = Bucket::new(1e9, 0.0, 1e9 * 600.0);
        let found = allowance(&mut bucket, &options(), &mut |_, _| {}).unwrap();
        let numbers = [found.baseline_per_second, found.peak_seconds, found.depth.unwrap()];
        assert!(numbers.iter().all(|number| number.is_finite()), "{numbers:?}");
        assert!(found.refills.iter().all(|refill| refill.idle_seconds <= 2.0 * 7200.0), "{:?}", found.refills);
    }

    #[test]
    fn a_baseline_that_is_not_one_is_not_confirmed() {
        // Ten minutes after the credit is used, a second limit takes half of the baseline.
        let mut bucket = Bucket { halved_after: Some(1300.0), ..Bucket::new(1e9, 0.4e9, 0.6e9 * 300.0) };
        let found = allowance(&mut bucket, &options(), &mut |_, _| {}).unwrap();
        assert_eq!(found.is_confirmed, Some(false));
    }

    #[test]
    fn a_change_is_where_the_level_falls() {
        let levels = |high: usize, low: usize, to: f64| [vec![1.0; high], vec![to; low]].concat();
        assert_eq!(change_point(&levels(20, 10, 0.5)), Some(20));
        assert_eq!(change_point(&levels(3, 40, 0.5)), Some(3));
        assert_eq!(change_point(&levels(20, 10, 0.97)), None, "a fall of 3 %");
        assert_eq!(change_point(&levels(20, 10, 1.5)), None, "a rise");
        assert_eq!(change_point(&levels(20, 2, 0.5)), None, "two samples are no level");
        assert_eq!((change_point(&[]), change_point(&[1.0; 100])), (None, None));
    }
}
