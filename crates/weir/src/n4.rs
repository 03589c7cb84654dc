//! The UDP socket of N4: datagrams in and out of the endpoint, which has neither socket nor clock.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ledger::{Ledger, LedgerError, Pace, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use upf::assemble::Seat;
use upf::compile::Compiled;
use upf::config::Config;
use upf::control::Control;
use upf::n4::assemble;
use upf::n4::endpoint::{Endpoint, Restored};
use upf::n4::metering::WallClock;
use upf::rules::Usage;

/// The longest message there is.
const LONGEST: usize = 65_535;
/// Datagrams taken in a turn: the rest waits in the kernel while workers are seen to.
const DATAGRAMS: usize = 256;

/// Why there is no N4.
#[derive(Debug, thiserror::Error)]
pub enum N4Error {
    /// No socket.
    #[error("no PFCP at {address}: {source}; is the address ours, and the port free?")]
    Socket {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Nowhere to keep sessions.
    #[error("sessions can not be kept: {0}")]
    Ledger(#[from] LedgerError),
}

/// Bytes of datagrams that may wait in the kernel: a window of requests of many control planes, while a turn is long.
const ROOM: usize = 8 << 20;

/// Lets more datagrams wait at a socket than are usual.
pub fn make_room(socket: &UdpSocket) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    // Beyond what the system allows with CAP_NET_ADMIN; as much as it allows without. What is lost then is sent again.
    let forced = set_socket_recv_buffer_size_force(socket, ROOM);
    let _ = forced.or_else(|_| set_socket_recv_buffer_size(socket, ROOM));
}

/// The ledger sessions are kept in, and its writer.
pub type Kept = (Ledger, Arc<Writer>);

/// The endpoint with its socket.
pub struct N4 {
    socket: UdpSocket,
    endpoint: Endpoint,
    space: Box<[u8]>,
    /// Datagrams the kernel would not send.
    unsent: u64,
    /// What was there of an earlier run.
    restored: Option<Restored>,
}

impl N4 {
    /// As configured; none, if no control plane is. Sessions that a ledger kept are in place then: workers must not run
    /// yet.
    ///
    /// # Errors
    /// An address that is not ours, or not free; a ledger that is no good.
    pub fn open(
        config: &Config,
        control: &mut Control,
        seats: &mut [Seat],
        clock: &WallClock,
    ) -> Result<Option<(Self, Option<Kept>)>, N4Error> {
        let Some(n4) = &config.n4 else { return Ok(None) };
        let address = SocketAddr::new(n4.address, n4.port);
        let fail = |source| N4Error::Socket { address, source };
        let socket = UdpSocket::bind(address).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        make_room(&socket);
        let ledger = n4.ledger.as_ref().map(Ledger::open).transpose()?;
        let began = ledger.as_ref().map(Ledger::status).transpose()?.and_then(|status| status.recovery);
        let Some(mut endpoint) = assemble::endpoint(config, clock, began) else { return Ok(None) };
        let (mut kept, mut restored) = (None, None);
        if let Some(ledger) = ledger {
            let writer = Arc::new(ledger.writer(Pace::default(), |_| {})?);
            let mut install = |worker: u16, handle: u32, session: &Compiled| {
                let seat = seats.get_mut(usize::from(worker));
                seat.is_some_and(|seat| seat.plane.sessions_mut().install(handle, session, clock.now).is_ok())
            };
            restored = Some(endpoint.restore(&ledger, writer.clone(), control, clock, &mut install)?);
            kept = Some((ledger, writer));
        }
        Ok(Some((Self { socket, endpoint, space: vec![0; LONGEST].into(), unsent: 0, restored }, kept)))
    }

    /// What was there of an earlier run, if sessions are kept.
    pub fn restored(&self) -> Option<Restored> {
        self.restored
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes no new sessions from now on and asks control planes to move those there are in time; or takes them again.
    pub fn drain(&mut self, draining: bool, grace: Duration, clock: &WallClock) {
        self.endpoint.set_draining(draining, grace, clock);
    }

    /// Datagrams the kernel would not send.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Takes in what has come, sees to what is due, sends what is to be sent.
    pub fn turn(&mut self, control: &mut Control, clock: &WallClock) {
        for _ in 0..DATAGRAMS {
            match self.socket.recv_from(&mut self.space) {
                Ok((len, from)) => self.endpoint.receive(from, &self.space[..len], control, clock),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing more; or an ICMP error about something we sent, which the node's timers see to.
                Err(_) => break,
            }
        }
        control.poll(clock.now);
        self.endpoint.turn(control, clock);
        let (socket, unsent) = (&self.socket, &mut self.unsent);
        self.endpoint.drain(|to, datagram| {
            // What is lost here is sent again: by us after T1, or by the peer.
            *unsent += u64::from(socket.send_to(datagram, to).is_err());
        });
    }

    /// Writes down what sessions have used, if they are kept: workers stand still, and `usage` is what they have counted.
    pub fn close(&mut self, clock: &WallClock, usage: &mut dyn FnMut(u16, u32) -> Option<Vec<Usage>>) {
        self.endpoint.close(clock, usage);
    }

    /// Waits for a datagram, or for so long; hardly at all while control planes wait for workers.
    pub fn wait(&self, at_most: Duration) {
        let at_most = if self.endpoint.is_waiting() { Duration::from_micros(20) } else { at_most };
        let time = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
        // Interrupted or not, the next turn follows.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time));
    }
}
