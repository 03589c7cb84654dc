//! What control reports: in answer to queries, and unsolicited.

use std::net::IpAddr;

use dataplane::forward::InstanceId;

use crate::compile::CompileError;
use crate::rules::Usage;
use crate::sessions::Refused;

/// What control has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// Sessions there are.
    pub sessions: u64,
    /// Installations of rules while running: sessions that are new, and those whose rules have changed.
    pub made: u64,
    /// Sessions removed while running.
    pub removed: u64,
    /// Sessions a worker refused.
    pub refused: u64,
    /// Octets that removed sessions had used: final usage reports, summed.
    pub reported_bytes: u64,
    /// Error Indications received from peers.
    pub error_indications: u64,
    /// Those that were about a session of ours.
    pub lost_tunnels: u64,
    /// Reports that were not taken.
    pub reports_lost: u64,
    /// Idle subscribers that had packets waiting.
    pub pages: u64,
    /// Times forwarding tables were published.
    pub published: u64,
}

/// A reply that a caller waits for.
#[derive(Debug)]
pub enum Answer {
    /// The session is in place; what the rules it had before measured, if that was asked for.
    Installed(Vec<Usage>),
    /// It is not, and why.
    Refused(Refused),
    /// It is gone, and this is what it had used.
    Removed(Vec<Usage>),
    /// This is what it has used.
    Usage(Vec<Usage>),
    /// There is no such session.
    Unknown,
}

/// What happened to a session, for the control plane to hear (TS 29.244, 7.5.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Packets wait for an idle subscriber: Downlink Data Report.
    Buffered {
        /// The session's handle.
        handle: u32,
        /// The rule they matched.
        pdr: u16,
    },
    /// A bound on usage is reached: Usage Report.
    Reached {
        /// The session's handle.
        handle: u32,
    },
    /// A GTP-U peer answered an Echo Request.
    EchoResponse {
        /// The network it is in.
        instance: InstanceId,
        /// The peer.
        peer: IpAddr,
        /// The request's number.
        sequence: u16,
    },
    /// A packet is for a control plane's function.
    ForControl {
        /// Address of the control plane's function that the packet is for.
        to: IpAddr,
        /// Its tunnel endpoint.
        teid: u32,
        /// The user's packet.
        packet: Box<[u8]>,
    },
    /// A peer does not know a tunnel we send into any more: Error Indication Report.
    ErrorIndication {
        /// The session's worker.
        worker: u16,
        /// Its handle there.
        handle: u32,
        /// The peer's address.
        peer: IpAddr,
        /// *Its* tunnel endpoint.
        teid: u32,
    },
}

#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AskError {
    #[error(transparent)]
    Rules(#[from] CompileError),
    #[error("the worker has too many commands to see to; try again")]
    Busy,
    #[error("there is no worker {0}")]
    NoWorker(u16),
}
