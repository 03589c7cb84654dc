//! Sessions that survive a restart: what is acknowledged is on the disk.
//!
//! A change and the answer that acknowledges it wait here until the ledger has committed the change. When the ledger
//! fails, the answer says so: nothing is pretended.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use ledger::{Change, LedgerError, Refused, Ticket, Writer};
use pfcp::ie::Cause;
use pfcp::message::{AssociationSetupRequest, Message};
use pfcp::node::{Association, AssociationId, State};
use pfcp::{Header, Packet};

use super::Outgoing;

/// The way to the ledger.
pub struct Keeper {
    writer: Arc<Writer>,
    /// Answers whose changes are on their way, in order.
    held: VecDeque<(Ticket, Outgoing)>,
    /// Changes the ledger had no room for yet, with their answers.
    crowded: VecDeque<(Vec<Change>, Option<Outgoing>)>,
    failed: Option<LedgerError>,
}

impl Keeper {
    /// Over a ledger's writer.
    pub fn new(writer: Arc<Writer>) -> Self {
        Self { writer, held: VecDeque::new(), crowded: VecDeque::new(), failed: None }
    }

    /// Keeps changes; the answer goes when they are on the disk.
    pub fn keep(&mut self, changes: Vec<Change>, answer: Option<Outgoing>) {
        if self.crowded.is_empty() {
            self.submit(changes, answer);
        } else {
            self.crowded.push_back((changes, answer));
        }
    }

    fn submit(&mut self, changes: Vec<Change>, answer: Option<Outgoing>) {
        match self.writer.submit(changes) {
            Ok(ticket) => self.held.extend(answer.map(|answer| (ticket, answer))),
            Err(Refused::Full(changes)) => self.crowded.push_front((changes, answer)),
            Err(Refused::Failed(error)) => {
                self.failed = Some(error);
                // Ordered behind all others; let go with them.
                self.held.extend(answer.map(|answer| (Ticket(u64::MAX), answer)));
            }
        }
    }

    /// Whether answers wait.
    pub fn is_waiting(&self) -> bool {
        !self.held.is_empty() || !self.crowded.is_empty()
    }

    /// Changes that its writer had no room for.
    pub fn crowded(&self) -> usize {
        self.crowded.len()
    }

    /// Why nothing can be kept any more.
    pub fn failed(&self) -> Option<&LedgerError> {
        self.failed.as_ref()
    }

    /// Lets go the answers whose changes are on the disk.
    pub fn let_go(&mut self, out: &mut VecDeque<Outgoing>) {
        while let Some((changes, answer)) = self.crowded.pop_front() {
            let before = self.crowded.len();
            self.submit(changes, answer);
            if self.crowded.len() > before {
                break;
            }
        }
        if self.held.is_empty() {
            return;
        }
        let progress = self.writer.progress();
        self.failed = self.failed.take().or(progress.failed);
        while let Some((ticket, _)) = self.held.front() {
            let is_kept = *ticket <= progress.durable;
            if !is_kept && self.failed.is_none() {
                break;
            }
            let Some((_, answer)) = self.held.pop_front() else { break };
            out.push_back(if is_kept { answer } else { not_kept(answer) });
        }
    }
}

/// An answer whose change could not be kept.
fn not_kept(mut answer: Outgoing) -> Outgoing {
    if let Outgoing::Response { message, .. } = &mut answer {
        match message {
            Message::SessionEstablishmentResponse(response) => response.cause = Cause::SYSTEM_FAILURE,
            Message::SessionModificationResponse(response) => response.cause = Cause::SYSTEM_FAILURE,
            _ => {}
        }
    }
    answer
}

/// The key an association is kept under: sessions' keys, their SEIDs, have something in the lower half.
pub fn association_key(id: AssociationId) -> u64 {
    u64::from(id.0) << 32
}

/// The key that what applications are detected by is kept under: no association has that number.
pub const APPLICATIONS: u64 = (u32::MAX as u64) << 32;

/// Whether what is kept under a key is an association (or what [`APPLICATIONS`] names).
pub fn is_association(key: u64) -> bool {
    key & u64::from(u32::MAX) == 0
}

/// An association as octets: its address as text after its length, and the message that would set it up.
pub fn association_bytes(association: &Association) -> Vec<u8> {
    let address = association.address.to_string();
    let message = AssociationSetupRequest {
        node_id: association.node_id.clone(),
        recovery_time_stamp: association.recovery_time_stamp,
        cp_function_features: association.cp_function_features,
        ..AssociationSetupRequest::default()
    };
    let mut bytes = vec![address.len() as u8]; // an address and a port: some fifty at most
    bytes.extend(address.as_bytes());
    // A few octets; it fits a message.
    let _ = Packet { header: Header::node(0), message: message.into() }.emit(&mut bytes);
    bytes
}

/// The way back.
pub fn association_of(bytes: &[u8]) -> Option<Association> {
    let (len, rest) = bytes.split_first()?;
    let (address, message) = rest.split_at_checked(usize::from(*len))?;
    let address: SocketAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let Ok(Packet { message: Message::AssociationSetupRequest(request), .. }) = Packet::parse(message) else {
        return None;
    };
    Some(Association {
        node_id: request.node_id,
        address,
        recovery_time_stamp: request.recovery_time_stamp,
        up_function_features: None,
        cp_function_features: request.cp_function_features,
        user_plane_ip_resource_information: Vec::new(),
        state: State::Up,
        answers_heartbeats: false,
    })
}
