//! Token buckets on either side: nano-bits of credit in a worker's record, a time in the kernel's.

use table::bucket;

use super::record::Meter;

/// The clocks' distance: the kernel's monotonic one less the worker's, in nanoseconds.
pub type Offset = i64;

/// Fractions of a nanosecond in the time of a bucket, and of that in the time of a byte.
const FRACTION: u32 = 8;
const BYTE_FRACTION: u32 = 24;

/// A token bucket as a time (GCRA): that at which it is full. None: a rate of so few bits that a packet's time is too long.
pub fn bucket_to_kernel(config: &bucket::Config, state: &bucket::State, offset: Offset) -> Option<Meter> {
    let rate = u128::from(config.rate.0);
    let nano_bits = |bits: u128| (bits << FRACTION).checked_div(rate).and_then(|time| u64::try_from(time).ok());
    let per_byte = (8_000_000_000u128 << BYTE_FRACTION).checked_add(rate / 2)?.checked_div(rate)?;
    let per_byte = u64::try_from(per_byte).ok().filter(|time| *time < 1 << 48)?;
    if config.rate == bucket::Rate::UNLIMITED {
        return Some(Meter { full_at: 0, per_byte: 0, depth: 0, own: 0 });
    }
    let depth = nano_bits(u128::try_from(config.depth).ok()?)?;
    let missing = nano_bits(u128::try_from(config.depth.saturating_sub(state.credit)).unwrap_or(0))?;
    let last = state.last_ns.saturating_add_signed(offset) << FRACTION;
    Some(Meter { full_at: last.saturating_add(missing), per_byte, depth, own: 0 })
}

/// The bucket again, with what it holds at the worker's time `now`.
pub fn bucket_from_kernel(config: &bucket::Config, from: &Meter, now: u64, offset: Offset) -> bucket::State {
    let at = now.saturating_add_signed(offset) << FRACTION;
    let missing = (u128::from(from.full_at.saturating_sub(at)) * u128::from(config.rate.0)) >> FRACTION;
    let missing = if config.rate == bucket::Rate::UNLIMITED { 0 } else { missing };
    let credit = config.depth.saturating_sub(i64::try_from(missing).unwrap_or(i64::MAX));
    bucket::State { credit, last_ns: now }
}
