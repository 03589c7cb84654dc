//! The control socket: one JSON object a line, each way, over a Unix stream.

mod client;
mod protocol;
mod server;
#[cfg(test)]
pub(crate) mod tests;

pub use client::{Client, ClientError};
pub use protocol::{
    AclRuleView, BlockView, CableReply, CableRequest, ChannelView, ChannelsView, CreditView, DrainView, FlowView,
    ModemView, NatView, PathView, PeerView, PeersView, PortView, RecordsView, Reply, Request, RuleUsage, SessionView,
    SessionsView, TraceLine, TraceView, WorkerSessions, hex,
};
pub use server::{Answers, Place, Server, ServerError, bind};
