//! The gateway's own stages. What is shared with other gateways is in the crate `dataplane`.

mod classify;
mod decap;
mod enqueue;
mod filter;
mod framing;
mod receive;
mod subscriber;

pub use classify::{Classify, Mark};
pub use decap::{CheckSource, DocsisDecap};
pub use enqueue::Enqueue;
pub use filter::Filter;
pub use framing::{Encrypt, Framing};
pub use receive::{ReceiveNetwork, ReceiveRpd, TakeIn};
pub use subscriber::{FindModem, ManageSubscriber};
