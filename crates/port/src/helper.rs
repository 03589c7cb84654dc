//! Opening ports without privileges: a helper process does the privileged part and passes descriptors.
//!
//! A process that has called [`connect`] opens every port through the helper at the other end of the socket, now and
//! when an interface that was removed is made again. [`serve`] is that helper. Requests are a closed set
//! (`message::Request`), and name only interfaces that the helper was started for. The process that asks is not trusted:
//! [`Scope`] limits what it can have, and how much of it at one time ([`Refusal`]).
//!
//! | done by the helper | done by the process itself |
//! |---|---|
//! | AF_PACKET and AF_XDP sockets: made, bound, socket buffers sized | rings, fanout, memberships of AF_PACKET sockets, all packets |
//! | offloads switched off and on again | asking the kernel about an interface |
//! | BPF programs and maps: loaded, attached, the socket put into the map; multicast or all addresses received beside | UMEM registration of its own memory, if it may lock that much |
//! | UMEM registration of shared memory | |
//! | queues of TUN interfaces, the interface made, its MTU set | |
//! | host interfaces beside ports: made, with addresses; routes by them added and removed | frames, reading the kernel's routes |
//! | entering network namespaces | |
//!
//! What the helper changed on an interface it undoes when it is told to, or when the process is gone: also after SIGKILL.

mod client;
mod memory;
mod message;
mod scope;
#[cfg(test)]
mod scope_tests;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

pub use client::Client;
pub(crate) use client::{Kept, Lease};
pub(crate) use message::Request;
pub use scope::{Kind, Refusal, Scope, ScopedPort};
pub use server::serve;

use crate::PortError;

static CLIENT: OnceLock<Client> = OnceLock::new();

/// From now on this process opens ports through the helper behind that client. Once in a process's life.
///
/// # Errors
/// The client, if there is a helper already.
pub fn connect(client: Client) -> Result<&'static Client, Client> {
    CLIENT.set(client)?;
    client_of_process().ok_or_else(|| unreachable!("set just now"))
}

/// What the helper of this process says of itself; none: it has no helper.
pub fn report() -> Option<Result<String, PortError>> {
    CLIENT.get().map(Client::report)
}

/// The socket to the helper of this process, if it has one.
pub fn socket() -> Option<std::os::fd::BorrowedFd<'static>> {
    CLIENT.get().map(Client::socket)
}

/// Another socket to the helper of this process, if it has one: see [`Client::another`].
pub fn another() -> Option<Result<std::os::fd::OwnedFd, PortError>> {
    CLIENT.get().map(Client::another)
}

/// Whether the helper of this process registers packet memory: see [`Client::registering_memory`].
pub fn registers_memory() -> bool {
    CLIENT.get().is_some_and(Client::registers_memory)
}

/// The helper of this process, if it has one.
pub(crate) fn client_of_process() -> Option<&'static Client> {
    CLIENT.get()
}

/// An interface by name, in a network namespace by name (none: the process's own). Written `eth0` or `namespace/eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the interface in its network namespace.
    pub name: String,
    /// Name of the network namespace; none: that of the process.
    pub netns: Option<String>,
}

impl Place {
    pub(crate) fn new(name: &str, netns: Option<&str>) -> Self {
        Self { name: name.to_owned(), netns: netns.map(str::to_owned) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.netns {
            Some(netns) => write!(f, "{netns}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('/') {
            Some((netns, name)) => Self::new(name, Some(netns)),
            None => Self::new(text, None),
        })
    }
}

/// The mode that a number in a reply stands for.
pub(crate) fn mode(number: u64) -> crate::bpf::XdpMode {
    message::mode(number)
}

/// The number that stands for a mode.
pub(crate) fn mode_number(mode: crate::bpf::XdpMode) -> u64 {
    message::mode_number(mode)
}

/// A helper that is gone, or does not answer.
pub(crate) fn lost(source: std::io::Error) -> PortError {
    PortError::System { doing: "asking the privileged helper".to_owned(), source }
}
