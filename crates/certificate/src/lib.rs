//! Capacity certificates: what a machine was measured to carry, when and how, with a content hash and a signature.
//! `weir probe` writes them, `weir plan --from` reads them as machines, and a running gateway compares itself with one.
//!
//! ```
//! use certificate::{Certificate, Key, check};
//!
//! let key = Key::from_seed([7; 32]);
//! let text = key.sign(&Certificate { date: "2026-01-31T12:00:00Z".into(), ..Certificate::default() }).text();
//! let checked = check(&text, Some(&key.public())).unwrap();
//! assert_eq!(checked.certificate.date, "2026-01-31T12:00:00Z");
//! assert!(check(&text.replace("2026-01-31", "2026-02-01"), None).unwrap_err().to_string().contains("`date`"));
//! ```
//!
//! | file | content |
//! |---|---|
//! | `content` | what a certificate says: machine, run, rates, bursts |
//! | `canonical` | JSON in one form only, and its hash |
//! | `sign` | keys, signing, checking |

#![forbid(unsafe_code)]

mod canonical;
mod content;
mod sign;

pub use content::{
    Allowance, Band, BurstUnit, Certificate, Direction, FlowKey, FlowRate, GatewayRate, GeneratorRate, Host, Latency,
    LatencyAt, Limiter, Rate, Refill, Run, SCHEMA, Skipped, SpreadRate, Task,
};
pub use sign::{CheckError, Checked, Key, KeyError, check};
