//! Counters in JSON: objects with an identifier for each, for `#[serde(with)]`.
//!
//! A list of pairs would have every reader search it; an object has `jq .rx_packets`. The order in which a gateway lists
//! its counters is kept.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

struct Pairs<V>(PhantomData<V>);

impl<'de, V: DeserializeOwned> Visitor<'de> for Pairs<V> {
    type Value = Vec<(String, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of counters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(0));
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// `{"rx_packets": 7}`, for counters whose meaning is in their names.
pub mod plain {
    use super::*;

    /// Writes an object.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(counters: &[(String, u64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(counters.iter().map(|(id, value)| (id, value)))
    }

    /// Reads counters by name.
    ///
    /// # Errors
    /// The value is not a map of numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, u64)>, D::Error> {
        from.deserialize_map(Pairs(PhantomData))
    }
}

/// A counter with its meaning beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// How often, or how much.
    pub value: u64,
    /// What it counts, in a sentence.
    pub help: String,
}

/// `{"malformed": {"value": 3, "help": "Messages that could not be read."}}`.
pub mod explained {
    use super::*;

    /// Writes an object.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(counters: &[(String, u64, String)], to: S) -> Result<S::Ok, S::Error> {
        let explained =
            |(id, value, help): &(String, u64, String)| (id.clone(), Explained { value: *value, help: help.clone() });
        to.collect_map(counters.iter().map(explained))
    }

    /// Reads counters by name.
    ///
    /// # Errors
    /// The value is not a map of numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, u64, String)>, D::Error> {
        let pairs: Vec<(String, Explained)> = from.deserialize_map(Pairs(PhantomData))?;
        Ok(pairs.into_iter().map(|(id, counter)| (id, counter.value, counter.help)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct View {
        #[serde(with = "plain")]
        port: Vec<(String, u64)>,
        #[serde(with = "explained")]
        peers: Vec<(String, u64, String)>,
    }

    #[test]
    fn counters_are_objects_in_order() {
        let view = View {
            port: vec![("rx_packets".into(), 7), ("rx_bytes".into(), 448)],
            peers: vec![("malformed".into(), 3, "Not a message.".into())],
        };
        let text = serde_json::to_string(&view).unwrap();
        let wanted =
            r#"{"port":{"rx_packets":7,"rx_bytes":448},"peers":{"malformed":{"value":3,"help":"Not a message."}}}"#;
        assert_eq!(text, wanted);
        assert_eq!(serde_json::from_str::<View>(&text).unwrap(), view);
    }
}
