//! What is known, how well, and from where.
//!
//! A value is a range with its most likely point, and says what it rests on. What is not known at all is `None` next to
//! it: unknown is never zero and never unlimited.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// What a value rests on, from firm to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Measured by whoever plans.
    Measured,
    /// Measured or stated by somebody else, in public.
    Published,
    /// Somebody's best guess.
    #[default]
    Assumed,
    /// Nothing.
    Unknown,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Assumed => "assumed",
            Self::Unknown => "unknown",
        })
    }
}

/// A value as a range, with what it rests on: `low ≤ value ≤ high`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Known<T> {
    /// It may be as little as this.
    pub low: T,
    /// Most likely.
    pub value: T,
    /// It may be as much as this.
    pub high: T,
    /// What it rests on.
    pub from: Provenance,
    /// Who says so, when.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// Which end of a range to calculate with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The least.
    Low,
    /// The most likely.
    Value,
    /// The most.
    High,
}

impl End {}

impl<T: Quantity> Known<T> {
    /// A value without a range.
    pub fn exactly(value: T, from: Provenance, source: impl Into<String>) -> Self {
        Self { low: value, value, high: value, from, source: source.into() }
    }

    /// A value somebody assumes.
    pub fn assumed(value: T) -> Self {
        Self::exactly(value, Provenance::Assumed, "")
    }

    /// The same numbers without the words: nothing is allocated.
    #[must_use]
    pub fn bare(&self) -> Self {
        Self { low: self.low, value: self.value, high: self.high, from: self.from, source: String::new() }
    }

    /// At one end of the range.
    pub fn at(&self, end: End) -> T {
        match end {
            End::Low => self.low,
            End::Value => self.value,
            End::High => self.high,
        }
    }

    /// Another quantity that rises with this one.
    pub fn map<U: Quantity>(&self, of: impl Fn(T) -> U) -> Known<U> {
        let (low, high) = (of(self.low), of(self.high));
        Known { low, value: of(self.value), high, from: self.from, source: self.source.clone() }
    }

    /// A range wider by a relative error at both ends.
    #[must_use]
    pub fn within(mut self, error: f64) -> Self {
        self.low = T::new(self.low.get() * (1.0 - error).max(0.0));
        self.high = T::new(self.high.get() * (1.0 + error));
        self
    }

    /// Reads `2.5 Gbit/s` or a range `2.2..2.8 Gbit/s`, whose middle is the value.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((low, high)) = text.split_once("..") else { return Ok(Self::assumed(T::parse(text)?)) };
        let high_value = T::parse(high)?;
        // The unit may stand once, at the end.
        let unit = high.trim().trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+'));
        let low = T::parse(low).or_else(|_| T::parse(&format!("{low}{unit}")))?;
        if low > high_value {
            return Err(format!("the range \"{text}\" ends below its beginning; write the smaller number first"));
        }
        let value = T::new((low.get() + high_value.get()) / 2.0);
        Ok(Self { low, value, high: high_value, from: Provenance::Assumed, source: String::new() })
    }
}

impl<T: Quantity> fmt::Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high {
            return f.pad(&self.value.to_string());
        }
        f.pad(&format!("{} ({} … {})", self.value, self.low, self.high))
    }
}

impl<'de, T: Quantity> Deserialize<'de> for Known<T> {
    /// A text (`"2.5 Gbit/s"`, `"2.2..2.8 Gbit/s"`; assumed), a bare number where the quantity has no unit, or
    /// `{ value = "…", from = "measured", source = "…" }`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<T>(std::marker::PhantomData<T>);
        impl<'de, T: Quantity> Visitor<'de> for Read<T> {
            type Value = Known<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} such as \"{}\", or {{ value = \"{1}\", from = \"measured\" }}", T::NAME, T::EXAMPLE)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Known<T>, E> {
                Known::parse(text).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Known<T>, E> {
                Known::parse(&number.to_string()).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Known<T>, E> {
                Known::parse(&number.to_string()).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Known<T>, E> {
                Known::parse(&number.to_string()).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Known<T>, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Long {
                    value: Written,
                    low: Option<f64>,
                    high: Option<f64>,
                    #[serde(default)]
                    from: Provenance,
                    #[serde(default)]
                    source: String,
                }
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Written {
                    Text(String),
                    Base(f64),
                }
                let Long { value, low, high, from, source } =
                    Long::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let known = match (value, low.zip(high)) {
                    // As it is serialised: numbers in the base unit.
                    (Written::Base(value), Some((low, high))) => {
                        let [low, value, high] = [low, value, high].map(T::new);
                        return Ok(Known { low, value, high, from, source });
                    }
                    (Written::Text(text), None) => Known::parse(&text),
                    (Written::Base(number), None) => Known::parse(&number.to_string()),
                    (Written::Text(_), Some(_)) => Err("a range is written as \"2.2..2.8 Gbit/s\"".to_owned()),
                };
                Ok(Known { from, source, ..known.map_err(de::Error::custom)? })
            }
        }
        from.deserialize_any(Read(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{BitRate, Ratio};

    #[derive(Debug, Deserialize)]
    struct One {
        a: Known<BitRate>,
    }

    fn read(text: &str) -> Result<Known<BitRate>, String> {
        toml::from_str::<One>(text).map(|one| one.a).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_plain_text_is_an_assumption() {
        assert_eq!(read("a = '2.5 Gbit/s'"), Ok(Known::assumed(BitRate(2.5e9))));
    }

    #[test]
    fn a_range_has_its_middle() {
        let known = read("a = '2..3 Gbit/s'").unwrap();
        assert_eq!((known.low, known.value, known.high), (BitRate(2e9), BitRate(2.5e9), BitRate(3e9)));
        assert_eq!(known.to_string(), "2.5 Gbit/s (2 Gbit/s … 3 Gbit/s)");
        assert!(read("a = '3..2 Gbit/s'").unwrap_err().contains("smaller number first"));
    }

    #[test]
    fn a_table_names_its_source() {
        let known = read("a = { value = '6.48 Gbit/s', from = 'published', source = 'vcmts-cloud-2021' }").unwrap();
        assert_eq!((known.from, known.source.as_str()), (Provenance::Published, "vcmts-cloud-2021"));
        assert!(read("a = { value = '6 Gbit/s', form = 'measured' }").unwrap_err().contains("form"));
    }

    #[test]
    fn bare_numbers_go_where_there_is_no_unit() {
        assert!(read("a = 3").unwrap_err().contains("2.5 Gbit/s"));
        #[derive(Deserialize)]
        struct Two {
            a: Known<Ratio>,
        }
        assert_eq!(toml::from_str::<Two>("a = 3").unwrap().a.value, Ratio(3.0));
    }
}
