//! Reading quantities in configuration: for `#[serde(deserialize_with)]`, and their JSON schema for
//! `#[schemars(schema_with)]`.

use std::fmt;
use std::marker::PhantomData;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};

use crate::Unit;

struct Reader<T>(Unit, PhantomData<T>);

impl<T: TryFrom<u64>> Reader<T> {
    fn fit<E: de::Error>(&self, value: u64, given: &dyn fmt::Display) -> Result<T, E> {
        let unit = self.0;
        T::try_from(value).map_err(|_| E::custom(format!("{given} is too large; allowed: {}", unit.allowed())))
    }
}

impl<T: TryFrom<u64>> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.allowed())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        self.fit(value, &value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        match u64::try_from(value) {
            Ok(value) => self.fit(value, &value),
            Err(_) => Err(E::custom(format!("{value} is negative; allowed: {}", self.0.allowed()))),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        let text = value.to_string();
        self.visit_str(&text)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let value = self.0.parse(text).map_err(E::custom)?;
        self.fit(value, &text)
    }
}

struct Optional<T>(Unit, PhantomData<T>);

impl<'de, T: TryFrom<u64>> Visitor<'de> for Optional<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.allowed())
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(Reader(self.0, PhantomData)).map(Some)
    }
}

struct Fraction(Unit);

impl Visitor<'_> for Fraction {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.allowed())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        match value >= 0.0 && value.is_finite() {
            true => Ok(value),
            false => Err(E::custom(format!("{value} is out of range; allowed: {}", self.0.allowed()))),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        self.0.parse_fraction(text).map_err(E::custom)
    }
}

macro_rules! units {
    ($($(#[$doc:meta])* $name:ident = $unit:ident;)+) => {$(
        $(#[$doc])*
        pub mod $name {
            use super::*;

            /// Reads a value: a number in that unit, or text with any unit of the kind.
            ///
            /// # Errors
            /// The value given, and what is allowed.
            pub fn deserialize<'de, T: TryFrom<u64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
                from.deserialize_any(Reader(Unit::$unit, PhantomData))
            }

            /// Reads a value that may be left out.
            ///
            /// # Errors
            /// As [`deserialize`].
            pub fn optional<'de, T: TryFrom<u64>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
                from.deserialize_option(Optional(Unit::$unit, PhantomData))
            }

            /// Reads a value that may have a fraction.
            ///
            /// # Errors
            /// As [`deserialize`].
            pub fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
                from.deserialize_any(Fraction(Unit::$unit))
            }

            /// Reads a value that may have a fraction, of a key that may be left out.
            ///
            /// # Errors
            /// As [`deserialize`].
            pub fn optional_fraction<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
                from.deserialize_any(Fraction(Unit::$unit)).map(Some)
            }

            /// Its JSON schema.
            pub fn schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": ["integer", "string"],
                    "minimum": 0,
                    "x-unit": Unit::$unit.symbol(),
                    "x-allowed": Unit::$unit.allowed(),
                })
            }
        }
    )+};
}

units! {
    /// Sizes in bytes.
    bytes = Bytes;
    /// Durations in seconds.
    seconds = Seconds;
    /// Durations in milliseconds.
    milliseconds = Milliseconds;
    /// Durations in microseconds.
    microseconds = Microseconds;
    /// Packets a second.
    packets_per_second = PacketsPerSecond;
}

/// The JSON schema of a bit rate, which is text.
pub fn rate_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "x-unit": Unit::BitsPerSecond.symbol(),
        "x-allowed": Unit::BitsPerSecond.allowed(),
    })
}

/// The JSON schema of a bit rate that may be left out.
pub fn optional_rate_schema(from: &mut SchemaGenerator) -> Schema {
    let mut schema = rate_schema(from);
    schema.insert("type".to_owned(), serde_json::json!(["string", "null"]));
    schema
}
