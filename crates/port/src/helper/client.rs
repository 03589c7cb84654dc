//! The asking end.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::message::{self, Answer, Request};
use super::{Place, client_of_process, lost};
use crate::PortError;

/// Longest wait for a reply. The longest a request takes is two seconds, for a queue that is busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// A helper process at the other end of a socket.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    registers_memory: bool,
    /// The number of the last request. Held while its reply is waited for.
    sequence: Mutex<u64>,
}

impl Client {
    /// Over a connected socket that keeps messages apart (SOCK_SEQPACKET).
    ///
    /// # Errors
    /// What setting its time-out said.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, registers_memory: false, sequence: Mutex::new(0) })
    }

    /// To a helper that may lock more memory than this process: it registers the packet memory of AF_XDP ports, if that
    /// is an arena made by [`frame::Arena::shared`].
    #[must_use]
    pub fn registering_memory(self) -> Self {
        Self { registers_memory: true, ..self }
    }

    /// Whether packet memory is to be made so that the helper can register it.
    pub fn registers_memory(&self) -> bool {
        self.registers_memory
    }

    /// What the helper says of itself.
    ///
    /// # Errors
    /// It is gone, or does not answer.
    pub fn report(&self) -> Result<String, PortError> {
        self.ask(&Request::Report).map(|(answer, _)| answer.text)
    }

    /// Another socket to the same helper, for a process that takes over what the helper keeps for this one.
    ///
    /// # Errors
    /// It is gone, or there are as many as it serves.
    pub fn another(&self) -> Result<OwnedFd, PortError> {
        self.descriptor(&Request::Another).map(|(_, socket)| socket)
    }

    /// For waiting until the helper is gone: then there is something to read.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<(Answer, Vec<OwnedFd>), PortError> {
        self.ask_with(request, &[])
    }

    /// The same with descriptors beside it.
    pub(crate) fn ask_with(
        &self,
        request: &Request,
        beside: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), PortError> {
        let mut sequence = self.sequence.lock().unwrap_or_else(|e| e.into_inner());
        *sequence += 1;
        let octets = request.write(*sequence);
        send(&self.socket, &octets, beside).map_err(lost)?;
        let garbled = |_| lost(io::ErrorKind::InvalidData.into());
        loop {
            let (octets, descriptors) = receive(&self.socket).map_err(lost)?;
            if octets.is_empty() {
                return Err(lost(io::ErrorKind::UnexpectedEof.into()));
            }
            let (answered, reply) = message::read_reply(&octets).map_err(garbled)?;
            // An earlier one was late.
            if answered == *sequence {
                return reply.map(|answer| (answer, descriptors));
            }
        }
    }

    /// A request that gives one descriptor.
    pub(crate) fn descriptor(&self, request: &Request) -> Result<(Answer, OwnedFd), PortError> {
        let (answer, descriptors) = self.ask(request)?;
        let first = descriptors.into_iter().next();
        Ok((answer, first.ok_or_else(|| lost(io::ErrorKind::InvalidData.into()))?))
    }

    /// A request that gives a lease.
    pub(crate) fn lease(&'static self, request: &Request) -> Result<(Answer, Lease), PortError> {
        self.lease_with(request, &[])
    }

    /// The same, with descriptors beside the request.
    pub(crate) fn lease_with(
        &'static self,
        request: &Request,
        beside: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Lease), PortError> {
        let (answer, _) = self.ask_with(request, beside)?;
        let lease = Lease { client: self, number: answer.lease };
        Ok((answer, lease))
    }

    /// The namespace of an interface, a socket in it to ask about interfaces, and one that tells of their changes.
    pub(crate) fn interface(&self, name: &str, netns: Option<&str>) -> Result<[OwnedFd; 3], PortError> {
        let (_, descriptors) = self.ask(&Request::Interface(Place::new(name, netns)))?;
        descriptors.try_into().map_err(|_| lost(io::ErrorKind::InvalidData.into()))
    }
}

/// Something the helper keeps for this process until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    client: &'static Client,
    number: u64,
}

impl Lease {
    /// The lease that a reply gave; the helper ends it when this is dropped.
    pub(crate) fn new(client: &'static Client, number: u64) -> Self {
        Self { client, number }
    }

    /// The helper that keeps it, for further requests about the same socket.
    pub(crate) fn client(&self) -> &'static Client {
        self.client
    }

    /// By which requests name the lease: counted from 1 by each helper, never given twice.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if crate::open::is_borrowed() {
            return;
        }
        // A helper that is gone has ended every lease.
        let _ = self.client.ask(&Request::Release(self.number));
    }
}

/// A change to an interface: made by this process, or kept by the helper.
#[derive(Debug)]
pub(crate) enum Kept<T> {
    /// Undone when dropped.
    Here(#[allow(dead_code, reason = "held, not read")] T),
    /// Undone by the helper when dropped.
    There(#[allow(dead_code, reason = "held, not read")] Lease),
}

impl<T> Kept<T> {
    /// Asks the helper, if there is one, or else does it here.
    pub(crate) fn make(
        request: impl FnOnce() -> Request,
        here: impl FnOnce() -> Result<T, PortError>,
    ) -> Result<Self, PortError> {
        match client_of_process() {
            Some(client) => client.lease(&request()).map(|(_, lease)| Self::There(lease)),
            None => here().map(Self::Here),
        }
    }
}

impl<T> Kept<T> {
    /// The helper's number of it; none: it is this process's, and goes with it.
    pub(crate) fn lease(&self) -> Option<u64> {
        match self {
            Self::Here(_) => None,
            Self::There(lease) => Some(lease.number()),
        }
    }

    /// What the helper of another process keeps, which is this one's now.
    pub(crate) fn adopt(number: u64) -> Option<Self> {
        Some(Self::There(Lease::new(client_of_process()?, number)))
    }
}

/// Sends one message and descriptors beside it.
pub(super) fn send(socket: &OwnedFd, octets: &[u8], beside: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(message::MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !beside.is_empty() && !control.push(SendAncillaryMessage::ScmRights(beside)) {
        return Err(io::Error::other("more descriptors than a message has"));
    }
    sendmsg(socket, &[IoSlice::new(octets)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// One message and its descriptors; no octets: the other end is closed.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut octets = vec![0; message::LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(message::MOST_RECEIVED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut octets)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    octets.truncate(got.bytes);
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = part {
            descriptors.extend(passed);
        }
    }
    Ok((octets, descriptors))
}
