//! Rates, sizes and durations as people write them: `100M`, `100Mbps`, `100 Mbit/s`, `512KiB`, `10 ms`.
//!
//! Input is forgiving (any case, optional spaces, `_` between digits); a number without a unit counts in the unit that
//! its key or option names. Output is uniform: the largest unit that leaves a whole number.
//!
//! ```
//! use quantity::Unit;
//!
//! assert_eq!(quantity::bit_rate("100 Mbit/s"), quantity::bit_rate("100M"));
//! assert_eq!(Unit::Milliseconds.parse("1.5 s"), Ok(1500));
//! assert_eq!(Unit::Bytes.parse("512 KiB"), Ok(524_288));
//! assert_eq!(Unit::Milliseconds.show(1500), "1500 ms");
//! ```

#![forbid(unsafe_code)]

pub mod read;

use std::fmt;

/// What a value of a key or option is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits a second.
    BitsPerSecond,
    /// Packets a second.
    PacketsPerSecond,
    /// Bytes.
    Bytes,
    /// Hours, minutes and seconds, as whole seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

/// A quantity that could not be read; says what was given and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    /// What was given.
    pub given: String,
    /// What it was to be.
    pub unit: Unit,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not {}; allowed: {}", self.given, self.unit.name(), self.unit.allowed())
    }
}

impl std::error::Error for QuantityError {}

/// Decimal prefixes, in lower case.
const DECIMAL: [(&str, f64); 5] = [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12)];

impl Unit {
    /// What it is, with an article.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "a bit rate",
            Self::PacketsPerSecond => "a packet rate",
            Self::Bytes => "a size in bytes",
            Self::Seconds | Self::Milliseconds | Self::Microseconds => "a duration",
        }
    }

    /// Its symbol.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit/s",
            Self::PacketsPerSecond => "packets/s",
            Self::Bytes => "bytes",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
        }
    }

    /// What may be written, for errors and the reference.
    pub const fn allowed(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "a number with a unit, such as \"100 Mbit/s\", \"100M\" or \"1.5 Gbps\"",
            Self::PacketsPerSecond => "a number of packets a second, such as 200000, \"200k\" or \"1.5 Mpps\"",
            Self::Bytes => "a number of bytes, or text with a unit, such as \"512 KiB\" or \"4 MiB\"",
            Self::Seconds => "a number of seconds, or text with a unit, such as \"30 s\" or \"5 min\"",
            Self::Milliseconds => "a number of milliseconds, or text with a unit, such as \"10 ms\" or \"1 s\"",
            Self::Microseconds => "a number of microseconds, or text with a unit, such as \"250 us\" or \"1 ms\"",
        }
    }

    /// The value of a unit as it is written, in this unit; none: it is not one of this kind.
    fn scale(self, written: &str) -> Option<f64> {
        let lower = written.to_lowercase();
        match self {
            // Bytes a second are not bits a second.
            Self::BitsPerSecond if written.ends_with("B/s") => None,
            Self::BitsPerSecond => prefixed(&lower, &["", "bit/s", "bits/s", "bps", "b/s", "bit"]),
            Self::PacketsPerSecond => prefixed(&lower, &["", "pps", "packets/s", "packet/s", "p/s"]),
            Self::Bytes => bytes(&lower),
            Self::Seconds => time(&lower, 1e9),
            Self::Milliseconds => time(&lower, 1e6),
            Self::Microseconds => time(&lower, 1e3),
        }
    }

    /// Reads a value, with a fraction if it has one.
    ///
    /// # Errors
    /// [`QuantityError`].
    pub fn parse_fraction(self, text: &str) -> Result<f64, QuantityError> {
        let wrong = || QuantityError { given: text.to_owned(), unit: self };
        let trimmed = text.trim();
        let digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_');
        let (number, unit) = trimmed.split_at(trimmed.find(|c| !digit(c)).unwrap_or(trimmed.len()));
        let number: f64 = number.replace('_', "").parse().map_err(|_| wrong())?;
        let value = number * self.scale(unit.trim()).ok_or_else(wrong)?;
        if value.is_finite() { Ok(value) } else { Err(wrong()) }
    }

    /// Reads a whole value; one that is not whole is wrong, not rounded.
    ///
    /// # Errors
    /// [`QuantityError`].
    pub fn parse(self, text: &str) -> Result<u64, QuantityError> {
        let plain = text.trim();
        if let Ok(exact) = plain.replace('_', "").parse::<u64>() {
            return Ok(exact);
        }
        let value = self.parse_fraction(text)?;
        let whole = value.round();
        // What multiplying a decimal fraction leaves, and no more.
        let is_whole = (value - whole).abs() <= (1e-9 * whole).min(1e-3);
        // Doubles hold every whole number up to 2^53.
        if is_whole && whole <= 9_007_199_254_740_992.0 {
            Ok(whole as u64)
        } else {
            Err(QuantityError { given: text.to_owned(), unit: self })
        }
    }

    /// Writes a value in the largest unit that leaves a whole number.
    pub fn show(self, value: u64) -> String {
        let units: &[(&str, u64)] = match self {
            Self::BitsPerSecond => {
                &[("Tbit/s", 1_000_000_000_000), ("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1000)]
            }
            Self::PacketsPerSecond => &[("Mpps", 1_000_000), ("kpps", 1000)],
            Self::Bytes => &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)],
            Self::Seconds => &[("h", 3600), ("min", 60)],
            Self::Milliseconds => &[("s", 1000)],
            Self::Microseconds => &[("s", 1_000_000), ("ms", 1000)],
        };
        let fits = |(_, size): &&(&str, u64)| value > 0 && value.is_multiple_of(*size);
        let smallest = match self {
            Self::PacketsPerSecond => "pps",
            Self::Bytes => "B",
            Self::Microseconds => "us",
            other => other.symbol(),
        };
        let (unit, size) = units.iter().find(fits).copied().unwrap_or((smallest, 1));
        format!("{} {unit}", value / size)
    }
}

/// A bit rate in bits a second, up to 400 Gbit/s: beyond any port there is, and token buckets are exact up to there.
pub fn bit_rate(text: &str) -> Option<u64> {
    let bits = Unit::BitsPerSecond.parse_fraction(text).ok()?;
    (0.0..=400e9).contains(&bits).then_some(bits.round() as u64)
}

/// Reads a count with an optional decimal prefix, such as `50_000`, `50k` or `1.5M`; one that is not whole is wrong.
///
/// ```
/// assert_eq!([quantity::count("50k"), quantity::count("1_000_000")], [Some(50_000), Some(1_000_000)]);
/// ```
pub fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    // Packet rates are counts: without their units.
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || "._ kKmMgGtT".contains(c));
    is_plain.then(|| Unit::PacketsPerSecond.parse(text).ok()).flatten()
}

/// Reads a share, such as `0.1` or `10 %`, as a number from 0 to 1.
///
/// ```
/// assert_eq!([quantity::share("10 %"), quantity::share("0.1")], [Some(0.1), Some(0.1)]);
/// ```
pub fn share(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok()? / scale;
    (0.0..=1.0).contains(&share).then_some(share)
}

fn prefixed(unit: &str, names: &[&str]) -> Option<f64> {
    let of = |name: &&str| DECIMAL.iter().find(|(prefix, _)| unit.strip_prefix(prefix) == Some(*name));
    names.iter().find_map(of).map(|(_, scale)| *scale)
}

fn bytes(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix("bytes").or(unit.strip_suffix("byte")).or(unit.strip_suffix('b')).unwrap_or(unit);
    let unit = unit.trim_end();
    if let Some(prefix) = unit.strip_suffix('i') {
        let power = ["k", "m", "g", "t"].iter().position(|name| *name == prefix)?;
        return Some(1024_f64.powi(power as i32 + 1));
    }
    DECIMAL.iter().find(|(prefix, _)| *prefix == unit).map(|(_, scale)| *scale)
}

/// What a unit of time is in one of `counted` nanoseconds; one without a name is that one.
///
/// Both are whole nanoseconds, so that a larger unit is a whole number of a smaller one: `1e-3 / 1e-6` is not.
fn time(unit: &str, counted: f64) -> Option<f64> {
    let nanoseconds = match unit {
        "" => counted,
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" | "sec" | "second" | "seconds" => 1e9,
        "m" | "min" | "minute" | "minutes" => 60e9,
        "h" | "hour" | "hours" => 3600e9,
        "d" | "day" | "days" => 86_400e9,
        _ => return None,
    };
    Some(nanoseconds / counted)
}

/// A whole number with its thousands apart: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
