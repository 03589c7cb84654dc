//! The helper's end: one request after the other, until the other end is gone. A process that takes over has an end of its own
//! ([`Request::Another`]), as long as both live: then until both are gone.
//!
//! Whatever the other end asks for, this process waits at most [`LONGEST_WAIT`] for a request and keeps at most what
//! [`Scope`] allows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use super::client::{receive, send};
use super::memory::Registrations;
use super::message::{self, Answer, Reply, Request};
use super::{Place, Refusal, Scope};
use crate::PortError;
use crate::host_tap;
use crate::iface::Iface;
use crate::moderate::{Moderation, Moderator};
use crate::netns::Netns;
use crate::offload::{self, Fit};
use crate::packet;
use crate::quiet::{self, Hush};
use crate::shared::{self, Key};
use crate::tun::{self, Opened};
use crate::xdp::{self, XdpConfig};

/// Longest that a request may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Interface numbers to which sockets were bound that are remembered: enough for every port of a gateway to close what it
/// had while interfaces are removed and made again.
const MOST_BOUND: usize = 4096;

/// Sockets to the helper at one time: of a process and of one that takes over, and of such that have just failed.
const MOST_ENDS: usize = 4;

/// What the process at the other end has, until it gives it back or is gone.
enum Held {
    Fit { _fit: Fit },
    Hush { _hush: Hush },
    Socket(Made),
    Program { _program: xdp::Attachment },
}

/// An AF_XDP socket, and the interface it was made for.
struct Made {
    socket: OwnedFd,
    place: Place,
    key: Key,
}

fn open(place: &Place) -> Result<Iface, PortError> {
    Iface::open(&place.name, place.netns.as_deref())
}

struct Server<'a> {
    /// This end of each socket.
    ends: Vec<OwnedFd>,
    scope: &'a Scope,
    report: &'a dyn Fn() -> String,
    refused: &'a dyn Fn(&Refusal),
    /// Names of refusals that were told.
    told: BTreeSet<&'static str>,
    held: BTreeMap<u64, Held>,
    next: u64,
    memory: Registrations,
    /// Interfaces that sockets were bound to, the latest last: also of those that are gone now.
    bound: VecDeque<(Place, u32)>,
    moderator: Moderator,
}

/// Answers requests within the scope until the other end is gone, and undoes then what it holds. Of each kind of refusal
/// the first is told to `refused`.
///
/// # Errors
/// What the socket said.
pub fn serve(
    socket: &OwnedFd,
    scope: &Scope,
    report: &dyn Fn() -> String,
    refused: &dyn Fn(&Refusal),
) -> io::Result<()> {
    let mut server = Server {
        ends: vec![socket.try_clone()?],
        scope,
        report,
        refused,
        told: BTreeSet::new(),
        held: BTreeMap::new(),
        next: 1,
        memory: Registrations::default(),
        bound: VecDeque::new(),
        moderator: Moderator::default(),
    };
    let end = server.run();
    // The latest first, as they were made one upon the other.
    while server.held.pop_last().is_some() {}
    end
}

impl Server<'_> {
    fn run(&mut self) -> io::Result<()> {
        while !self.ends.is_empty() {
            for n in self.wait()?.into_iter().rev() {
                match self.serve_one(n) {
                    Ok(true) => {}
                    // What the others may have is theirs.
                    Err(error) if self.ends.len() == 1 => return Err(error),
                    Ok(false) | Err(_) => drop(self.ends.remove(n)),
                }
            }
        }
        Ok(())
    }

    /// Answers a request that has come by the end of that place. False: its other end is gone.
    fn serve_one(&mut self, n: usize) -> io::Result<bool> {
        let (octets, beside) = match receive(&self.ends[n]) {
            Ok(got) if got.0.is_empty() => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            other => other?,
        };
        for descriptor in &beside {
            // Closing the last descriptor of a TCP connection that lingers would wait for its other end.
            let _ = sockopt::set_socket_linger(descriptor, None);
        }
        let Ok((sequence, request)) = Request::read(&octets) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a request that is none"));
        };
        let mut descriptors = Vec::new();
        let reply = self.answer(&request, &beside, &mut descriptors);
        if let Err(PortError::Refused(refusal)) = &reply
            && self.told.insert(refusal.name())
        {
            (self.refused)(refusal);
        }
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        match send(&self.ends[n], &message::write_reply(sequence, &reply), &descriptors) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Places of the ends by which there is a request, or whose other end is gone. Until then it sees to interfaces.
    fn wait(&mut self) -> io::Result<Vec<usize>> {
        loop {
            let until = self.moderator.turn(Instant::now());
            let until = until
                .map(|until| Timespec { tv_sec: until.as_secs().cast_signed(), tv_nsec: until.subsec_nanos().into() });
            let mut polled: Vec<_> = self.ends.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
            match poll(&mut polled, until.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    let is_ready = |(n, polled): (usize, &PollFd<'_>)| (!polled.revents().is_empty()).then_some(n);
                    return Ok(polled.iter().enumerate().filter_map(is_ready).collect());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a socket to this helper: its other end.
    fn another_end(&mut self) -> Result<OwnedFd, PortError> {
        if self.ends.len() >= MOST_ENDS {
            return Err(Refusal::TooManySockets { most: MOST_ENDS }.into());
        }
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(|errno| {
                PortError::System { doing: "making a socket to the helper".to_owned(), source: errno.into() }
            })?;
        self.ends.push(ours);
        Ok(theirs)
    }

    /// `beside` came with the request, `out` goes with the reply.
    fn answer(&mut self, request: &Request, beside: &[OwnedFd], out: &mut Vec<OwnedFd>) -> Reply {
        self.scope.check(request)?;
        if matches!(request, Request::Fit(_) | Request::Hush(_) | Request::XdpSocket(_)) {
            self.has_room()?;
        }
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
            Request::XdpSocket(_)
            | Request::XdpRegister { .. }
            | Request::XdpBind { .. }
            | Request::XdpAttach { .. }
            | Request::XdpHook { .. }
            | Request::XdpEngage { .. }
            | Request::XdpReleased { .. } => self.answer_xdp(request, beside, out),
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
            Request::HostTap(config) => {
                let (descriptors, index) = host_tap::make(config)?;
                out.extend(descriptors);
                Ok(Answer { number: index.into(), ..Answer::default() })
            }
            Request::HostRoutes { place, add, prefixes } => {
                host_tap::change_routes(place, *add, prefixes)?;
                Ok(Answer::default())
            }
            Request::Release(lease) => {
                self.held.remove(lease);
                Ok(Answer::default())
            }
            Request::Report => Ok(Answer { text: (self.report)(), ..Answer::default() }),
            Request::Another => {
                out.push(self.another_end()?);
                Ok(Answer::default())
            }
        }
    }

    /// Those of the requests that concern AF_XDP sockets.
    fn answer_xdp(&mut self, request: &Request, beside: &[OwnedFd], out: &mut Vec<OwnedFd>) -> Reply {
        match request {
            Request::XdpSocket(place) => {
                let iface = open(place)?;
                let (place, key) = (place.clone(), shared::key(&iface)?);
                let socket = xdp::create_socket(&iface)?;
                let copy = socket.try_clone().map_err(|e| PortError::system("copying a descriptor", "", e))?;
                out.push(socket);
                Ok(self.keep(Held::Socket(Made { socket: copy, place, key })))
            }
            Request::XdpRegister { socket, place, bytes, chunk, headroom } => {
                let made = made(&self.held, *socket, place)?;
                let file = beside.first().ok_or(Refusal::NotMemory)?;
                self.memory.admit(self.scope, &made.socket, file, *bytes)?;
                let registered = xdp::register_file(&made.socket, file, *bytes, *chunk, *headroom);
                registered.map_err(|source| PortError::System { doing: "registering memory".to_owned(), source })?;
                Ok(Answer::default())
            }
            Request::XdpBind { .. } => self.bind(request),
            Request::XdpReleased { place, ifindex, queue, patience_ms } => {
                let wait = Duration::from_millis(*patience_ms).min(LONGEST_WAIT);
                // Also when the interface is gone, or has another name now.
                let iface = Iface::named(&place.name, place.netns.as_deref())?;
                let was_bound = self.bound.iter().any(|(bound, number)| (bound, number) == (place, ifindex));
                if !was_bound && iface.index().ok() != Some(*ifindex) {
                    return Err(Refusal::OtherNumber { place: place.clone(), given: *ifindex }.into());
                }
                let released = xdp::released(&iface, *ifindex, *queue, wait);
                Ok(Answer { number: released.into(), ..Answer::default() })
            }
            _ => self.answer_xdp_program(request, beside, out),
        }
    }

    /// Binds an AF_XDP socket to its queue.
    fn bind(&mut self, request: &Request) -> Reply {
        let Request::XdpBind { socket, place, ifindex, queue, flags, patience_ms } = request else {
            return Err(not_xdp());
        };
        let made = made(&self.held, *socket, place)?;
        // The number and the namespace: one number is of different interfaces in two namespaces.
        let key = shared::key(&open(place)?)?;
        if *ifindex != key.1 || made.key != key {
            return Err(Refusal::OtherNumber { place: place.clone(), given: *ifindex }.into());
        }
        if ![0, libc::XDP_COPY, libc::XDP_ZEROCOPY].contains(flags) {
            return Err(Refusal::BindFlags { flags: *flags }.into());
        }
        let wait = Duration::from_millis(*patience_ms).min(LONGEST_WAIT);
        let bound = xdp::bind_socket(&made.socket, *ifindex, *queue, *flags, wait);
        bound.map_err(|source| PortError::System { doing: "binding an AF_XDP socket".to_owned(), source })?;
        self.remember(place, *ifindex);
        Ok(Answer::default())
    }

    /// Those of the requests that concern programs of interfaces.
    fn answer_xdp_program(&mut self, request: &Request, beside: &[OwnedFd], out: &mut Vec<OwnedFd>) -> Reply {
        match request {
            Request::XdpAttach { socket, place, queue, filter, mode, keep_offloads, promiscuous } => {
                let filter = filter
                    .parse()
                    .map_err(|_| PortError::Helper { text: format!("no filter: {filter}"), permission: false })?;
                let (netns, queue, mode) = (place.netns.clone(), *queue, *mode);
                let (keep_offloads, promiscuous) = (*keep_offloads, *promiscuous);
                let usual = XdpConfig::new(&*place.name);
                let config = XdpConfig { netns, queue, mode, filter, keep_offloads, promiscuous, ..usual };
                // Maps and links are what only the privileged can have made; the kernel takes nothing else.
                let copies = beside.iter().map(OwnedFd::try_clone).collect::<Result<Vec<_>, _>>();
                let kept = copies.ok().and_then(|copies| copies.try_into().ok());
                let socket_of = made(&self.held, *socket, place)?.socket.as_fd();
                let program = xdp::attach_with(&config.checked()?, socket_of, kept)?;
                // In the map now; the process itself has the other descriptor.
                self.held.remove(socket);
                let number = message::mode_number(program.mode());
                Ok(Answer { number, ..self.keep(Held::Program { _program: program }) })
            }
            Request::XdpHook { place, longest_ns, share, keep } => {
                let hook = xdp::hook_here(&place.name, place.netns.as_deref(), *keep)?;
                let limits = Moderation { longest: Duration::from_nanos(*longest_ns), share: *share };
                let why = self.moderator.add(place, limits).err().map(|error| error.to_string());
                let (number, text) = (message::mode_number(hook.mode), hook.ifindex.to_string());
                let text = why.map_or(text.clone(), |why| format!("{text} {why}"));
                out.extend(hook.into_descriptors());
                Ok(Answer { number, text, ..Answer::default() })
            }
            Request::XdpEngage { place } => {
                // The kernel takes nothing else than XDP programs, which only the privileged can have loaded.
                let mut programs = beside.iter().map(AsFd::as_fd);
                match programs.next() {
                    Some(program) => {
                        xdp::engage_here(&place.name, place.netns.as_deref(), program, programs.next())?;
                    }
                    None => xdp::disengage_here(&place.name, place.netns.as_deref())?,
                }
                Ok(Answer::default())
            }
            _ => Err(not_xdp()),
        }
    }

    fn keep(&mut self, held: Held) -> Answer {
        let lease = self.next;
        self.next += 1;
        self.held.insert(lease, held);
        Answer { lease, ..Answer::default() }
    }

    fn has_room(&self) -> Result<(), Refusal> {
        let most = self.scope.most_leases();
        if self.held.len() < most { Ok(()) } else { Err(Refusal::TooManyLeases { most }) }
    }

    /// That a socket was bound to the interface of that number.
    fn remember(&mut self, place: &Place, number: u32) {
        let bound = (place.clone(), number);
        if !self.bound.contains(&bound) {
            self.bound.push_back(bound);
        }
        while self.bound.len() > MOST_BOUND {
            self.bound.pop_front();
        }
    }
}

fn not_xdp() -> PortError {
    PortError::Helper { text: "not a request for AF_XDP".to_owned(), permission: false }
}

/// The socket of that lease, if it was made for that interface.
fn made<'h>(held: &'h BTreeMap<u64, Held>, lease: u64, place: &Place) -> Result<&'h Made, Refusal> {
    match held.get(&lease) {
        Some(Held::Socket(made)) if made.place == *place => Ok(made),
        _ => Err(Refusal::NoSocket { place: place.clone(), lease }),
    }
}
