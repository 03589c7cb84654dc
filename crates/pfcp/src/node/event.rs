//! What a node tells whoever drives it.

use super::{AssociationId, Ticket};
use crate::ie::{Cause, NodeId};
use crate::message::AssociationUpdateRequest;
use crate::{Fault, Packet};
use std::net::SocketAddr;

/// Something to react to.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "moved once; the large ones are the usual ones")]
pub enum Event {
    /// A request to be answered by [`Node::respond`](super::Node::respond): about a session, or a node report, PFD
    /// management or a set of sessions. Heartbeats and associations the node answers itself.
    Request {
        /// Gives the answer its way.
        ticket: Ticket,
        /// The association it names; if it names none, the first of its address: a session's request belongs to the
        /// association that owns the session if [`Node::belongs`](super::Node::belongs) says so.
        association: AssociationId,
        /// What it is.
        packet: Packet,
    },
    /// A request about a session that cannot be read, to be answered by [`Node::refuse`](super::Node::refuse) with the
    /// SEID the peer has for the session.
    Unreadable {
        /// Gives the answer its way.
        ticket: Ticket,
        /// The session, as we number it.
        seid: Option<u64>,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A response to [`Node::request`](super::Node::request).
    Response {
        /// As given there.
        token: u64,
        /// What it is.
        packet: Packet,
    },
    /// A request of ours that has failed.
    Failed {
        /// As given to [`Node::request`](super::Node::request).
        token: u64,
        /// Why.
        why: Failure,
    },
    /// An association is set up, by us or by the peer; by [`Node::association`](super::Node::association) one finds with
    /// whom. If it was there before, its sessions have been kept.
    Up(AssociationId),
    /// An association could not be set up by us.
    NotSetUp {
        /// With whom.
        to: SocketAddr,
        /// Why.
        why: Failure,
    },
    /// The peer has changed the association, or asks to be released.
    Updated(AssociationId, Box<AssociationUpdateRequest>),
    /// The peer no longer answers; its sessions are to be kept for now.
    Lost(AssociationId),
    /// A lost peer is back, with its sessions.
    Back(AssociationId),
    /// The association with that Node ID is gone, and its sessions are to go.
    Gone(AssociationId, Removal, NodeId),
    /// A request that would have ended or taken over the sessions of a peer was refused, or had to be granted without that
    /// peer's word: for the operator to know.
    Contested {
        /// The Node ID that two senders claim.
        node_id: NodeId,
        /// Where the request came from.
        from: SocketAddr,
        /// What became of it.
        outcome: Contest,
    },
}

/// What became of a request that would end or take over the sessions of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contest {
    /// Another address has the association now.
    #[error("association taken over: its address before did not answer")]
    TakenOver,
    /// The peer answers at the address it had.
    #[error("takeover refused: the peer answers at its own address")]
    TakeoverRefused,
    /// The peer did not send the Association Setup Request, by its Recovery Time Stamp or because it uses its sessions.
    #[error("association setup refused: the peer's heartbeat contradicts it")]
    SetupRefused,
    /// The peer goes on using its sessions.
    #[error("release refused: the peer uses its sessions")]
    ReleaseRefused,
    /// The peer's own answer has not the Recovery Time Stamp of a heartbeat in its name.
    #[error("restart not confirmed by the peer")]
    RestartNotConfirmed,
    /// The configuration has other addresses for the Node ID.
    #[error("association setup refused: the Node ID is configured for other addresses")]
    PinnedElsewhere,
}

/// Why a request has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody has answered.
    #[error("no answer")]
    NoAnswer,
    /// The answer cannot be used.
    #[error("unusable answer: {0}")]
    Unusable(Fault),
    /// The peer said no.
    #[error("{0}")]
    Rejected(Cause),
    /// The peer speaks another version.
    #[error("PFCP version 1 is not supported by the peer")]
    Version,
}

/// Why an association is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// One of us has released it.
    Released,
    /// The peer has restarted: it says so by its Recovery Time Stamp (TS 23.527, 4).
    Restarted,
    /// The peer sets it up anew, without wanting to keep its sessions.
    SetUpAnew,
    /// The peer has been lost for too long.
    Lost,
    /// The configuration does not have its address any more, and the peer has not released it in time.
    NotAllowed,
    /// It had no sessions, was never confirmed, and there were too many.
    Displaced,
}
