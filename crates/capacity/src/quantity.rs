//! Quantities with their units as types: a packet rate is not a bit rate, and the compiler knows.
//!
//! Each holds its value in the base unit named in its documentation, is written by people with a unit
//! (`"2.5 Gbit/s"`), and multiplies into another quantity only where physics says so.

use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

use quantity::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What all quantities have in common.
pub trait Quantity: Copy + PartialOrd + fmt::Display {
    /// What it is, in words: `a bit rate`.
    const NAME: &'static str;
    /// One as people write it.
    const EXAMPLE: &'static str;
    /// Units people may write, each with its size in base units; an empty name: no unit is needed.
    const UNITS: &'static [(&'static str, f64)];

    /// From the base unit.
    fn new(base: f64) -> Self;
    /// In the base unit.
    fn get(self) -> f64;

    /// Reads `2.5 Gbit/s`.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split =
            text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+'))).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let wrong = || format!("\"{text}\" is not {}; write it such as \"{}\"", Self::NAME, Self::EXAMPLE);
        let number: f64 = number.replace('_', "").parse().map_err(|_| wrong())?;
        let unit = unit.trim();
        let named = |name: &str| Self::UNITS.iter().any(|(other, _)| *other == name);
        let exact = Self::UNITS.iter().find(|(name, _)| *name == unit);
        if let Some((_, size)) = exact.or(Self::UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))) {
            return Ok(Self::new(number * size));
        }
        let kinds = [
            ("bit/s", Unit::BitsPerSecond),
            ("pps", Unit::PacketsPerSecond),
            ("KiB", Unit::Bytes),
            ("ms", Unit::Seconds),
        ];
        let kind = kinds.into_iter().find(|(name, _)| named(name)).filter(|_| !unit.is_empty());
        let read = kind.and_then(|(_, kind)| kind.parse_fraction(text).ok());
        read.map(Self::new).ok_or_else(wrong)
    }
}

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident: $words:literal, $example:literal, [$($unit:literal = $size:expr),+];)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl Quantity for $name {
            const NAME: &'static str = $words;
            const EXAMPLE: &'static str = $example;
            const UNITS: &'static [(&'static str, f64)] = &[$(($unit, $size)),+];
            fn new(base: f64) -> Self { Self(base) }
            fn get(self) -> f64 { self.0 }
        }
        impl Add for $name { type Output = Self; fn add(self, other: Self) -> Self { Self(self.0 + other.0) } }
        impl Sub for $name { type Output = Self; fn sub(self, other: Self) -> Self { Self(self.0 - other.0) } }
        impl Mul<f64> for $name { type Output = Self; fn mul(self, by: f64) -> Self { Self(self.0 * by) } }
        impl Div<f64> for $name { type Output = Self; fn div(self, by: f64) -> Self { Self(self.0 / by) } }
        impl Div for $name { type Output = f64; fn div(self, other: Self) -> f64 { self.0 / other.0 } }
        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self { Self(all.map(|one| one.0).sum()) }
        }
        impl fmt::Display for $name {
            /// In the largest unit that leaves at least one, with up to four significant digits.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let fits = |size: &f64| self.0.abs() >= size * 0.99995;
                let units = Self::UNITS.iter();
                let unit = units.clone().filter(|(_, size)| fits(size)).max_by(|a, b| a.1.total_cmp(&b.1));
                let (unit, size) = unit.or(units.min_by(|a, b| a.1.total_cmp(&b.1))).copied().unwrap_or(("", 1.0));
                f.pad(format!("{} {unit}", digits(self.0 / size)).trim_end())
            }
        }
    )+};
}

quantities! {
    /// Bits a second. Ethernet frames without preamble, gap and FCS, unless said otherwise.
    BitRate: "a bit rate", "2.5 Gbit/s", ["bit/s" = 1.0, "kbit/s" = 1e3, "Mbit/s" = 1e6, "Gbit/s" = 1e9, "Tbit/s" = 1e12];
    /// Packets a second.
    PacketRate: "a packet rate", "0.2 Mpps", ["pps" = 1.0, "kpps" = 1e3, "Mpps" = 1e6];
    /// The size of a frame in bytes.
    FrameSize: "a frame size", "128 B", ["B" = 1.0];
    /// Seconds.
    Time: "a time", "5 ms", ["s" = 1.0, "ms" = 1e-3, "us" = 1e-6, "µs" = 1e-6, "ns" = 1e-9];
    /// Bytes of memory.
    Memory: "an amount of memory", "4 GiB",
        ["B" = 1.0, "KiB" = 1024.0, "MiB" = 1_048_576.0, "GiB" = 1_073_741_824.0, "TiB" = 1_099_511_627_776.0];
    /// Cycles a second.
    Clock: "a clock", "3.0 GHz", ["Hz" = 1.0, "MHz" = 1e6, "GHz" = 1e9];
    /// US dollars.
    Dollars: "an amount of money", "12000 $", ["$" = 1.0];
    /// US dollars an hour.
    Hourly: "a price per hour", "0.432 $/h", ["$/h" = 1.0];
    /// US dollars a year.
    Yearly: "a price per year", "1200 $/year", ["$/year" = 1.0];
    /// US dollars for a gigabyte (10⁹ bytes) carried.
    PerGigabyte: "a price per gigabyte", "0.02 $/GB", ["$/GB" = 1.0];
    /// US dollars for a kilowatt-hour.
    PerKilowattHour: "a price of energy", "0.15 $/kWh", ["$/kWh" = 1.0];
    /// Watts.
    Power: "a power", "450 W", ["W" = 1.0, "kW" = 1e3];
    Years: "a number of years", "5 years", ["years" = 1.0, "year" = 1.0];
    Count: "a number", "250000", ["" = 1.0];
    /// A share or factor.
    Ratio: "a number or a percentage", "0.9", ["" = 1.0, "%" = 0.01];
}

/// Bits in a byte.
pub const BITS: f64 = 8.0;
/// Hours in a year of 365 days.
pub const HOURS_A_YEAR: f64 = 8760.0;
/// Hours in a twelfth of a year.
pub const HOURS_A_MONTH: f64 = HOURS_A_YEAR / 12.0;

impl Mul<FrameSize> for PacketRate {
    type Output = BitRate;
    fn mul(self, size: FrameSize) -> BitRate {
        BitRate(self.0 * size.0 * BITS)
    }
}

impl Div<FrameSize> for BitRate {
    type Output = PacketRate;
    fn div(self, size: FrameSize) -> PacketRate {
        PacketRate(self.0 / (size.0 * BITS))
    }
}

impl Div<PacketRate> for BitRate {
    type Output = FrameSize;
    fn div(self, rate: PacketRate) -> FrameSize {
        FrameSize(self.0 / rate.0 / BITS)
    }
}

impl BitRate {
    /// Gigabytes (10⁹ bytes) an hour.
    pub fn gigabytes_an_hour(self) -> f64 {
        self.0 * 3600.0 / BITS / 1e9
    }

    /// In Gbit/s.
    pub fn gbps(self) -> f64 {
        self.0 / 1e9
    }
}

impl PacketRate {
    /// The time one of them may take.
    pub fn period(self) -> Time {
        Time(1.0 / self.0)
    }

    /// In millions a second.
    pub fn mpps(self) -> f64 {
        self.0 / 1e6
    }
}

impl Time {
    /// From nanoseconds.
    pub fn from_ns(ns: f64) -> Self {
        Self(ns / 1e9)
    }

    /// In nanoseconds.
    pub fn ns(self) -> f64 {
        self.0 * 1e9
    }

    /// How often a second something that takes so long can be done.
    pub fn rate(self) -> PacketRate {
        PacketRate(1.0 / self.0)
    }
}

impl Mul<PerGigabyte> for BitRate {
    type Output = Hourly;
    /// What carrying it costs.
    fn mul(self, price: PerGigabyte) -> Hourly {
        Hourly(self.gigabytes_an_hour() * price.0)
    }
}

impl From<Yearly> for Hourly {
    fn from(price: Yearly) -> Self {
        Self(price.0 / HOURS_A_YEAR)
    }
}

impl Mul<PerKilowattHour> for Power {
    type Output = Hourly;
    fn mul(self, price: PerKilowattHour) -> Hourly {
        Hourly(self.0 / 1e3 * price.0)
    }
}

/// Up to four significant digits, thousands kept whole, no trailing zeroes.
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let whole = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let places = usize::try_from(3 - whole).unwrap_or(0).min(9);
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_units() {
        assert_eq!(BitRate::parse("2.5 Gbit/s"), Ok(BitRate(2.5e9)));
        assert_eq!(PacketRate::parse("200_000 pps"), Ok(PacketRate(2e5)));
        assert_eq!(Ratio::parse("12.5 %"), Ok(Ratio(0.125)));
        assert_eq!(Ratio::parse("0.765"), Ok(Ratio(0.765)));
        let alike = ["100M", "100Mbps", "100 mbit/s", "0.1 Gbps"].map(BitRate::parse);
        assert!(alike.iter().all(|rate| *rate == Ok(BitRate(1e8))), "{alike:?}");
        assert_eq!((Time::parse("2 min"), Memory::parse("512kib")), (Ok(Time(120.0)), Ok(Memory(524_288.0))));
        let wrong = BitRate::parse("2.5 GB").unwrap_err();
        assert_eq!(wrong, "\"2.5 GB\" is not a bit rate; write it such as \"2.5 Gbit/s\"");
        assert!(PacketRate::parse("2.5 Gbit/s").is_err() && Time::parse("soon").is_err());
    }

    #[test]
    fn people_read_units() {
        let shown = [BitRate(2.5e9).to_string(), BitRate(54.545_45e9).to_string(), PacketRate(1.25e6).to_string()];
        assert_eq!(shown, ["2.5 Gbit/s", "54.55 Gbit/s", "1.25 Mpps"]);
        assert_eq!([Time(259e-9).to_string(), Time(0.005).to_string()], ["259 ns", "5 ms"]);
        assert_eq!([digits(0.0), digits(24_545.45), digits(0.000_12)], ["0", "24545", "0.00012"]);
        assert_eq!(format!("{:>12}", Power(846.0)), "       846 W");
    }

    #[test]
    fn physics() {
        assert_eq!(PacketRate(1e6) * FrameSize(128.0), BitRate(1.024e9));
        assert_eq!(BitRate(1.024e9) / FrameSize(128.0), PacketRate(1e6));
        assert_eq!(BitRate(1.024e9) / PacketRate(1e6), FrameSize(128.0));
        assert_eq!(BitRate(8e9).gigabytes_an_hour(), 3600.0);
        assert_eq!(Power(1000.0) * PerKilowattHour(0.15), Hourly(0.15));
    }
}
