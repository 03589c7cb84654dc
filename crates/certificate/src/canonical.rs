//! JSON in one form only: keys in order of their bytes, no white space, numbers of nine digits. The same content has
//! the same hash, however a file is indented.

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// The text that is hashed.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                *out += &Value::String(key.clone()).to_string();
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (n, value) in list.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(value, out);
            }
            out.push(']');
        }
        Value::Number(number) => *out += &digits(number),
        other => *out += &other.to_string(),
    }
}

/// Whole numbers as they are, others by nine significant digits: what a reader of JSON makes of a number may be off
/// by its last bit.
fn digits(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => {
            let text = format!("{value:.8e}");
            let rounded: f64 = text.parse().unwrap_or(value);
            // Some writers print a whole number as an integer.
            if rounded.fract() == 0.0 && rounded.abs() < 1e15 { format!("{}", rounded as i64) } else { text }
        }
        _ => number.to_string(),
    }
}

/// The same value with numbers of nine digits.
pub fn rounded(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, rounded(value))).collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(rounded).collect()),
        Value::Number(number) if number.is_f64() => {
            digits(&number).parse::<f64>().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
        other => other,
    }
}

/// SHA-256 of the canonical text, in hexadecimal digits.
pub fn hash(value: &Value) -> String {
    hex(&Sha256::digest(text(value)))
}

/// Two hexadecimal digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Bytes of hexadecimal digits; none: they are not so many.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.trim();
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_does_not_depend_on_order_or_space() {
        let one: Value = serde_json::from_str("{\"b\": [1, 2.5],\n \"a\": \"x\\\"\"}").unwrap();
        let other: Value = serde_json::from_str("{\"a\":\"x\\\"\",\"b\":[1,2.50]}").unwrap();
        assert_eq!(text(&one), "{\"a\":\"x\\\"\",\"b\":[1,2.50000000e0]}");
        assert_eq!((text(&one), hash(&one)), (text(&other), hash(&other)));
    }

    /// Other writers print a whole number as an integer.
    #[test]
    fn a_whole_number_has_one_form() {
        assert_eq!(hash(&json!({ "n": 1.0, "m": 3e9 })), hash(&json!({ "n": 1, "m": 3_000_000_000_u64 })));
        assert_ne!(hash(&json!({ "n": 1.5 })), hash(&json!({ "n": 1 })));
    }

    #[test]
    fn the_hash_is_sha_256() {
        // Of two characters: {}.
        let known = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(hash(&json!({})), known);
        assert_eq!(unhex::<32>(known).map(|bytes| hex(&bytes)).as_deref(), Some(known));
        assert_eq!([unhex::<2>("0g00"), unhex::<2>("00"), unhex::<2>("é00")], [None; 3]);
    }

    proptest! {
        #[test]
        fn numbers_survive_a_file(number in prop::num::f64::NORMAL) {
            let value = rounded(json!({ "n": number }));
            let again: Value = serde_json::from_str(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
            prop_assert_eq!(hash(&value), hash(&again));
        }
    }
}
