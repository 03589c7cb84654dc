//! Charging records of a ledger that a running process has open: what it is asked about them, and answers.

mod answer;
mod opening;
mod protocol;

use std::sync::Arc;

use ledger::{Ledger, Writer};

pub use answer::{AN_ANSWER, answered};
pub use opening::Opening;
pub use protocol::{RecordsView, Reply, Request};

/// The socket, in the ledger's folder, at which a process answers that has the ledger open and no control socket.
pub const SOCKET: &str = "cdr.sock";

/// A ledger a process has open, and its writer.
pub type Kept = (Ledger, Arc<Writer>);
