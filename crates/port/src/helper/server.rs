//! The helper's end: one request after the other, until the other end is gone.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::Place;
use super::client::{receive, send};
use super::message::{self, Answer, Reply, Request};
use crate::PortError;
use crate::iface::Iface;
use crate::netns::Netns;
use crate::offload::{self, Fit};
use crate::packet;
use crate::quiet::{self, Hush};
use crate::shared;
use crate::tun::{self, Opened};
use crate::xdp::{self, XdpConfig};

/// Longest that a request may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What the process at the other end has, until it gives it back or is gone.
enum Held {
    Fit { _fit: Fit },
    Hush { _hush: Hush },
    Socket(OwnedFd),
    Program { _program: xdp::Attachment },
}

struct Server<'a> {
    allowed: &'a [Place],
    report: &'a dyn Fn() -> String,
    held: BTreeMap<u64, Held>,
    next: u64,
}

/// Answers requests about the `allowed` interfaces until the other end is gone, and undoes then what it holds.
///
/// # Errors
/// What the socket said.
pub fn serve(socket: &OwnedFd, allowed: &[Place], report: &dyn Fn() -> String) -> io::Result<()> {
    let mut server = Server { allowed, report, held: BTreeMap::new(), next: 1 };
    let end = server.run(socket);
    // The latest first, as they were made one upon the other.
    while server.held.pop_last().is_some() {}
    end
}

impl Server<'_> {
    fn run(&mut self, socket: &OwnedFd) -> io::Result<()> {
        loop {
            let (octets, beside) = match receive(socket) {
                Ok(got) if got.0.is_empty() => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                other => other?,
            };
            let Ok((sequence, request)) = Request::read(&octets) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a request that is none"));
            };
            let mut descriptors = Vec::new();
            let reply = self.answer(&request, &beside, &mut descriptors);
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match send(socket, &message::write_reply(sequence, &reply), &descriptors) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
        }
    }

    /// `beside` came with the request, `out` goes with the reply.
    fn answer(&mut self, request: &Request, beside: &[OwnedFd], out: &mut Vec<OwnedFd>) -> Reply {
        if let Some(place) = request.place().filter(|place| !self.allowed.contains(place)) {
            let text = format!("interface {place} is not one of this gateway's ports: the helper leaves it alone");
            return Err(PortError::Helper { text, permission: true });
        }
        let open = |place: &Place| Iface::open(&place.name, place.netns.as_deref());
        match request {
            Request::Interface(place) => {
                out.extend(open(place)?.into_descriptors());
                Ok(Answer::default())
            }
            Request::PacketSocket { place, receive, send } => {
                let iface = open(place)?;
                let key = shared::key(&iface)?;
                let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
                out.push(packet::open_socket(&iface, key.1, size(*receive), size(*send))?);
                Ok(Answer { number: key.1.into(), ..Answer::default() })
            }
            Request::Fit(place) => {
                let fit = offload::fit(&place.name, place.netns.as_deref())?;
                Ok(self.keep(Held::Fit { _fit: fit }))
            }
            Request::Hush(place) => {
                let iface = open(place)?;
                let hush = quiet::hush(&iface, shared::key(&iface)?)?;
                Ok(self.keep(Held::Hush { _hush: hush }))
            }
            Request::XdpSocket(place) => {
                let socket = xdp::create_socket(&open(place)?)?;
                let copy = socket.try_clone().map_err(|e| PortError::system("copying a descriptor", "", e))?;
                out.push(socket);
                Ok(self.keep(Held::Socket(copy)))
            }
            Request::XdpRegister { socket, bytes, chunk, headroom, .. } => {
                let none = || PortError::Helper { text: "no packet memory came along".to_owned(), permission: false };
                let file = beside.first().ok_or_else(none)?;
                let registered = xdp::register_file(self.socket(*socket)?, file, *bytes, *chunk, *headroom);
                registered.map_err(|source| PortError::System { doing: "registering memory".to_owned(), source })?;
                Ok(Answer::default())
            }
            Request::XdpBind { socket, ifindex, queue, flags, patience_ms, .. } => {
                let wait = Duration::from_millis(*patience_ms).min(LONGEST_WAIT);
                let bound = xdp::bind_socket(self.socket(*socket)?, *ifindex, *queue, *flags, wait);
                bound.map_err(|source| PortError::System { doing: "binding an AF_XDP socket".to_owned(), source })?;
                Ok(Answer::default())
            }
            Request::XdpAttach { socket, place, queue, filter, mode, keep_offloads } => {
                let filter = filter
                    .parse()
                    .map_err(|_| PortError::Helper { text: format!("no filter: {filter}"), permission: false })?;
                let (netns, queue, mode) = (place.netns.clone(), *queue, *mode);
                let keep_offloads = *keep_offloads;
                let config = XdpConfig { netns, queue, mode, filter, keep_offloads, ..XdpConfig::new(&*place.name) };
                let program = xdp::attach(&config.checked()?, self.socket(*socket)?.as_fd())?;
                // In the map now; the process itself has the other descriptor.
                self.held.remove(socket);
                let number = message::mode_number(program.mode());
                Ok(Answer { number, ..self.keep(Held::Program { _program: program }) })
            }
            Request::XdpReleased { place, ifindex, queue, patience_ms } => {
                let wait = Duration::from_millis(*patience_ms).min(LONGEST_WAIT);
                // Also when the interface is gone, or has another name now.
                let iface = Iface::named(&place.name, place.netns.as_deref())?;
                let released = xdp::released(&iface, *ifindex, *queue, wait);
                Ok(Answer { number: released.into(), ..Answer::default() })
            }
            Request::Tun { place, offloads } => {
                let netns = Netns::open(place.netns.as_deref())?;
                let Opened { queue, made, statistics } = tun::open(&place.name, &netns, *offloads)?;
                out.extend([Some(queue), statistics].into_iter().flatten().map(OwnedFd::from));
                Ok(Answer { number: made.into(), ..Answer::default() })
            }
            Request::TunMtu { place, mtu } => {
                tun::set_mtu(&place.name, &Netns::open(place.netns.as_deref())?, *mtu)?;
                Ok(Answer::default())
            }
            Request::Release(lease) => {
                self.held.remove(lease);
                Ok(Answer::default())
            }
            Request::Report => Ok(Answer { text: (self.report)(), ..Answer::default() }),
        }
    }

    fn keep(&mut self, held: Held) -> Answer {
        let lease = self.next;
        self.next += 1;
        self.held.insert(lease, held);
        Answer { lease, ..Answer::default() }
    }

    fn socket(&self, lease: u64) -> Result<&OwnedFd, PortError> {
        match self.held.get(&lease) {
            Some(Held::Socket(socket)) => Ok(socket),
            _ => Err(PortError::Helper { text: format!("{lease} is no socket's lease"), permission: false }),
        }
    }
}
