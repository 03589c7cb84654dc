//! The control socket: one JSON object a line, each way, over a Unix stream.

mod client;
mod protocol;
mod server;

pub use client::{Client, ClientError};
pub use protocol::{Ask, DrainView, PortView, RawAnswer, RawRequest, Reply, Request, TraceLine, TraceView, hex};
pub use server::{Answers, Place, STREAMS, Server, ServerError, TAKE_OVER, bind};
