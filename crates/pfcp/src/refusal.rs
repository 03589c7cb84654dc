//! Why a message was not taken, and what is to be said about it (7.6).

use crate::element::Fault;
use crate::header::{Malformed, Parts};
use crate::ie::{FSeid, NodeId, OffendingIe};
use crate::message::{self, Message};
use crate::{Element, Header, Packet};

/// A message that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No message at all: to be ignored.
    #[error(transparent)]
    Malformed(Malformed),
    /// A version we don't speak: the answer is Version Not Supported (7.6.2).
    #[error("PFCP version {version} is not supported")]
    Version {
        /// The version it says it is.
        version: u8,
    },
    /// A type of message nobody here knows: to be ignored (7.6.4).
    #[error("unknown message type {message_type}")]
    UnknownMessage {
        /// Its type.
        message_type: u8,
    },
    /// A response that can't be used: the request it answers has failed, nothing is sent (7.6.1).
    #[error("unusable response {message_type}: {fault}")]
    Response {
        /// Its type.
        message_type: u8,
        /// Its header, to find the request it answers.
        header: Header,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A request that can't be used: to be answered with the fault.
    #[error("unusable request {message_type}: {fault}")]
    Request {
        /// Its type.
        message_type: u8,
        /// Its header.
        header: Header,
        /// Cause and Offending IE of the answer.
        fault: Fault,
        /// The SEID by which a control plane wants to be answered, if this would have established a session.
        cp_seid: Option<u64>,
    },
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Refusal {
        match malformed {
            Malformed::Version(version) => Refusal::Version { version },
            other => Refusal::Malformed(other),
        }
    }
}

impl Refusal {
    pub(crate) fn of_ie(parts: &Parts<'_>, fault: Fault) -> Refusal {
        let Parts { header, message_type, ies, .. } = *parts;
        if !message::is_request(message_type) {
            return Refusal::Response { message_type, header, fault };
        }
        Refusal::Request { message_type, header, fault, cp_seid: cp_seid(ies) }
    }

    /// The answer, by a node that calls itself `node`, to a peer that calls the session `seid`; `None` if the message is
    /// to be ignored.
    ///
    /// The session is that of the request for all but establishments, which bring the peer's SEID along.
    pub fn answer(&self, node: &NodeId, seid: u64) -> Option<Packet> {
        match *self {
            Refusal::Request { message_type, header, fault, cp_seid } => {
                let message = rejection(message_type, node, fault)?;
                let seid = header.seid.map(|_| cp_seid.unwrap_or(seid));
                Some(Packet { header: Header { seid, follow_on: false, ..header }, message })
            }
            _ => None,
        }
    }
}

/// The SEID of the first F-SEID among `ies`, as far as they can be read.
fn cp_seid(mut ies: &[u8]) -> Option<u64> {
    while let [t0, t1, l0, l1, rest @ ..] = ies {
        let content = rest.get(..usize::from(u16::from_be_bytes([*l0, *l1])))?;
        if u16::from_be_bytes([*t0, *t1]) == FSeid::TYPE {
            return content.get(1..)?.first_chunk().map(|seid| u64::from_be_bytes(*seid));
        }
        ies = &rest[content.len()..];
    }
    None
}

/// The response to a request of this type that says why not; heartbeats have none.
pub fn rejection(message_type: u8, node: &NodeId, fault: Fault) -> Option<Message> {
    use message::*;
    let Fault { cause, ie } = fault;
    let offending_ie = (ie != 0).then_some(OffendingIe(ie));
    let node_id = node.clone();
    Some(match message_type {
        PfdManagementRequest::TYPE => PfdManagementResponse { cause, offending_ie, ..Default::default() }.into(),
        AssociationSetupRequest::TYPE => AssociationSetupResponse { node_id, cause, ..Default::default() }.into(),
        AssociationUpdateRequest::TYPE => AssociationUpdateResponse { node_id, cause, ..Default::default() }.into(),
        AssociationReleaseRequest::TYPE => AssociationReleaseResponse { node_id, cause, ..Default::default() }.into(),
        NodeReportRequest::TYPE => NodeReportResponse { node_id, cause, offending_ie, ..Default::default() }.into(),
        SessionSetDeletionRequest::TYPE => {
            SessionSetDeletionResponse { node_id, cause, offending_ie, ..Default::default() }.into()
        }
        SessionSetModificationRequest::TYPE => {
            SessionSetModificationResponse { node_id, cause, offending_ie, ..Default::default() }.into()
        }
        SessionEstablishmentRequest::TYPE => {
            SessionEstablishmentResponse { node_id, cause, offending_ie, ..Default::default() }.into()
        }
        SessionModificationRequest::TYPE => {
            SessionModificationResponse { cause, offending_ie, ..Default::default() }.into()
        }
        SessionDeletionRequest::TYPE => SessionDeletionResponse { cause, offending_ie, ..Default::default() }.into(),
        SessionReportRequest::TYPE => SessionReportResponse { cause, offending_ie, ..Default::default() }.into(),
        _ => return None,
    })
}
