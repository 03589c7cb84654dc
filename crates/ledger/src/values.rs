//! What a record's fields are made of. Each has one text form, which JSON, CSV and people share.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A text that is not what it should be, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadText(&'static str);

/// Serialized as its text.
macro_rules! as_text {
    ($($name:ident $pattern:literal $about:literal;)*) => {$(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $about })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text! {
    Moment r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$" "A time in UTC, RFC 3339 with milliseconds.";
    Seid "^0x[0-9a-f]{16}$" "A PFCP session endpoint identifier (TS 29.244, 5.6), 64 bits in hex.";
    Snssai r"^\d{1,3}(-[0-9a-f]{6})?$" "A network slice (TS 23.003, 28.4): SST, and SD in hex if there is one.";
    Prefix6 r"^[0-9a-f:.]+/\d{1,3}$" "An IPv6 prefix.";
    Measurement "^(none|(volume|duration|event)([+](duration|event))*)$"
        "What a URR measures (TS 29.244, 8.2.40): volume, duration, event, joined by +, or none.";
}

/// A moment: milliseconds since 1970 UTC. As text `2026-11-22T00:08:24.000Z` (RFC 3339).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// A moment so much later.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since an earlier moment; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        Self(0).after(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

const DAY_MS: u64 = 86_400_000;
/// The last millisecond of the year 9999: later ones have no RFC 3339 form.
const LAST_MS: u64 = 253_402_300_799_999;

impl Display for Moment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = self.0.min(LAST_MS);
        let (year, month, day) = date(shown / DAY_MS);
        let ms = shown % DAY_MS;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    }
}

/// Days since 1970 as year, month, day. The year is counted from March, so that the leap day is its last.
fn date(days: u64) -> (u64, u64, u64) {
    let since_0 = days + 719_468;
    let (era, of_era) = (since_0 / 146_097, since_0 % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Days since 1970 of a date that exists.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (years, from_march) = (year - u64::from(month <= 2), (month + 9) % 12);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = years * 365 + years / 4 - years / 100 + years / 400 + of_year - 719_468;
    (date(days) == (year, month, day)).then_some(days)
}

impl FromStr for Moment {
    type Err = BadText;

    /// `2026-11-22`, `2026-11-22T00:08`, `…:24`, `….123`; UTC, with a `Z` or without, `T` or a space.
    fn from_str(text: &str) -> Result<Self, BadText> {
        moment(text).ok_or(BadText("a time in UTC, like 2026-11-22 or 2026-11-22T08:30:00Z"))
    }
}

fn moment(text: &str) -> Option<Moment> {
    let digits = |text: &str, len: usize| {
        (text.len() == len && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<u64>().ok()).flatten()
    };
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.split('-');
    let days = days(digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?)?;
    if parts.next().is_some() {
        return None;
    }
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |text| digits(text, 2))?;
    if hour > 23 || minute > 59 || second > 59 || parts.next().is_some() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let ms = format!("{fraction:0<3}");
    digits(&ms, ms.len())?;
    let ms = digits(&ms[..3], 3)?;
    Some(Moment(days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1000 + ms))
}

/// A session endpoint identifier of PFCP (TS 29.244 clause 5.6). As text `0x00000000000012ab`: a JSON number would lose
/// digits in many readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seid(pub u64);

impl Display for Seid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl FromStr for Seid {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let hex = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        hex.map(Self).ok_or(BadText("a SEID, like 0x00000000000012ab"))
    }
}

/// A network slice (TS 23.003 clause 28.4): slice/service type, and differentiator of 24 bits. As text `1` or `1-00007b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Snssai {
    /// Slice/service type.
    pub sst: u8,
    /// Slice differentiator.
    pub sd: Option<u32>,
}

impl Display for Snssai {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.sd {
            Some(sd) => write!(f, "{}-{:06x}", self.sst, sd & 0xff_ffff),
            None => write!(f, "{}", self.sst),
        }
    }
}

impl FromStr for Snssai {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = || BadText("a slice, like 1 or 1-00007b");
        let (sst, sd) = text.split_once('-').map_or((text, None), |(sst, sd)| (sst, Some(sd)));
        let sd = match sd {
            Some(sd) if sd.len() == 6 => Some(u32::from_str_radix(sd, 16).map_err(|_| bad())?),
            Some(_) => return Err(bad()),
            None => None,
        };
        Ok(Self { sst: sst.parse().map_err(|_| bad())?, sd })
    }
}

/// A subscriber's IPv6 prefix. As text `2001:db8:0:7::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix6 {
    /// Its first address.
    pub address: Ipv6Addr,
    /// Its length in bits, 0 to 128.
    pub length: u8,
}

impl Prefix6 {
    /// Whether an address is of this prefix.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length.min(128))).unwrap_or(0);
        (self.address.to_bits() ^ address.to_bits()) & mask == 0
    }
}

impl Display for Prefix6 {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix6 {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = || BadText("an IPv6 prefix, like 2001:db8:0:7::/64");
        let (address, length) = text.split_once('/').unwrap_or((text, "128"));
        let (address, length) = (address.parse().map_err(|_| bad())?, length.parse().map_err(|_| bad())?);
        if length > 128 { Err(bad()) } else { Ok(Self { address, length }) }
    }
}

/// What a URR measures (Measurement Method, TS 29.244 clause 8.2.40). As text `volume`, `volume+duration`, …, `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Measurement {
    /// Octets and packets.
    pub volume: bool,
    /// Seconds.
    pub duration: bool,
    pub event: bool,
}

impl Measurement {
    fn named(self) -> [(&'static str, bool); 3] {
        [("volume", self.volume), ("duration", self.duration), ("event", self.event)]
    }
}

impl Display for Measurement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (name, _) in self.named().into_iter().filter(|(_, on)| *on) {
            write!(f, "{between}{name}")?;
            between = "+";
        }
        if between.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl FromStr for Measurement {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let mut parsed = Self::default();
        for name in text.split('+').filter(|name| *name != "none") {
            match name {
                "volume" => parsed.volume = true,
                "duration" => parsed.duration = true,
                "event" => parsed.event = true,
                _ => return Err(BadText("what is measured: volume, duration, event, joined by +, or none")),
            }
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments_are_dates() {
        assert_eq!(Moment(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Moment(1_709_164_800_000).to_string(), "2024-02-29T00:00:00.000Z");
        assert_eq!("2024-02-29".parse(), Ok(Moment(1_709_164_800_000)));
        assert_eq!("2024-02-29 00:01:02.5".parse(), Ok(Moment(1_709_164_862_500)));
        assert_eq!("2024-02-29T00:01Z".parse(), Ok(Moment(1_709_164_860_000)));
        assert_eq!("9999-12-31T23:59:59.999Z".parse(), Ok(Moment(LAST_MS)));
        for bad in
            ["", "2023-02-29", "2024-1-01", "2024-01-01T24:00", "2024-01-01T1:00", "2024-01-01T00:00:00.x", "now"]
        {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_read_back() {
        fn same<T: Display + FromStr<Err = BadText> + PartialEq + fmt::Debug>(text: &str) {
            assert_eq!(text.parse::<T>().map(|value| value.to_string()).as_deref(), Ok(text));
        }
        same::<Seid>("0x00000000000012ab");
        same::<Seid>("0xffffffffffffffff");
        same::<Snssai>("1");
        same::<Snssai>("255-00007b");
        same::<Prefix6>("2001:db8:0:7::/64");
        same::<Measurement>("volume+duration");
        same::<Measurement>("none");
        assert!("1-7b".parse::<Snssai>().is_err() && "12".parse::<Seid>().is_err());
        assert!("::/129".parse::<Prefix6>().is_err() && "weight".parse::<Measurement>().is_err());
    }

    #[test]
    fn a_prefix_contains_its_addresses() {
        let prefix: Prefix6 = "2001:db8:0:7::/64".parse().unwrap();
        assert!(prefix.contains("2001:db8:0:7::99".parse().unwrap()));
        assert!(!prefix.contains("2001:db8:0:8::".parse().unwrap()));
        assert!("::/0".parse::<Prefix6>().unwrap().contains("2001::".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn every_moment_reads_back(ms in 0..=LAST_MS) {
            prop_assert_eq!(Moment(ms).to_string().parse(), Ok(Moment(ms)));
        }
    }
}
