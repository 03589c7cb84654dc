//! The UDP socket of N4: datagrams in and out of the endpoint, which has neither socket nor clock.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use upf::config::Config;
use upf::control::Control;
use upf::n4::assemble;
use upf::n4::endpoint::Endpoint;
use upf::n4::metering::WallClock;

/// The longest message there is.
const LONGEST: usize = 65_535;
/// Datagrams taken in a turn: the rest waits in the kernel while workers are seen to.
const DATAGRAMS: usize = 256;

/// Why there is no N4.
#[derive(Debug, thiserror::Error)]
#[error("no PFCP at {address}: {source}; is the address ours, and the port free?")]
pub struct N4Error {
    /// Where.
    pub address: SocketAddr,
    /// What the kernel said.
    pub source: std::io::Error,
}

/// The endpoint with its socket.
pub struct N4 {
    socket: UdpSocket,
    endpoint: Endpoint,
    space: Box<[u8]>,
    /// Datagrams the kernel would not send.
    unsent: u64,
}

impl N4 {
    /// As configured; none, if no control plane is.
    ///
    /// # Errors
    /// An address that is not ours, or not free.
    pub fn open(config: &Config, clock: &WallClock) -> Result<Option<Self>, N4Error> {
        let Some(n4) = &config.n4 else { return Ok(None) };
        let address = SocketAddr::new(n4.address, n4.port);
        let fail = |source| N4Error { address, source };
        let socket = UdpSocket::bind(address).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        let Some(endpoint) = assemble::endpoint(config, clock) else { return Ok(None) };
        Ok(Some(Self { socket, endpoint, space: vec![0; LONGEST].into(), unsent: 0 }))
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
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

    /// Waits for a datagram, or for so long; hardly at all while control planes wait for workers.
    pub fn wait(&self, at_most: Duration) {
        let at_most = if self.endpoint.is_waiting() { Duration::from_micros(20) } else { at_most };
        let time = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
        // Interrupted or not, the next turn follows.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time));
    }
}
