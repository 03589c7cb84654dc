//! What an operator writes.

use gateway::routed::Port;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

gateway::configuration! {
    /// A policing router's configuration.
    pub struct Config of Port {
        /// Source prefixes that are policed and counted; the longest that matches counts.
        #[serde(default)]
        pub source: Vec<SourceSection>,
    }
}

/// A source prefix.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSection {
    /// IPv4 prefix: `10.1.0.0/16`.
    pub prefix: String,
    /// Most bits a second: `"50 Mbit/s"`; left out: counted only.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub rate: Option<String>,
}
