//! The UDP socket for packets between subscribers and control planes (N4-u): GTP-U at the N4 address.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use crate::control::Control;
use crate::n4::endpoint::Endpoint;
use crate::n4::metering::WallClock;
use crate::n4::networks::ControlPath;
use wire::gtpu;

/// Datagrams taken in a turn: the rest waits in the kernel while PFCP is seen to.
const DATAGRAMS: usize = 64;
/// The longest datagram there is.
const LONGEST: usize = 65_535;

/// The socket, if the endpoint needs one and it could be opened.
pub struct ControlSocket {
    socket: Option<UdpSocket>,
    space: Box<[u8]>,
    /// Datagrams the kernel would not send.
    unsent: u64,
}

impl ControlSocket {
    /// Opens it where the endpoint's packets go by it. Without it there are sessions all the same; what is for the control
    /// plane is dropped by name.
    pub fn open(endpoint: &mut Endpoint) -> Self {
        let opened = match endpoint.sessions().control_path() {
            ControlPath::Socket(address) => Some(open(SocketAddr::new(address, gtpu::PORT))),
            ControlPath::Port(_) | ControlPath::None => None,
        };
        let socket = match opened.transpose() {
            Ok(socket) => socket,
            Err(error) => {
                let hint = "free UDP port 2152 at the N4 address, or name an access port in n4.cp_port";
                tracing::warn!(
                    target: "n4", event = "control_path_missing", %error, hint,
                    "no GTP-U socket at the N4 address: packets for control planes are dropped"
                );
                endpoint.close_control_path();
                None
            }
        };
        Self::of(socket)
    }

    fn of(socket: Option<UdpSocket>) -> Self {
        let space = vec![0; if socket.is_some() { LONGEST } else { 0 }].into();
        Self { socket, space, unsent: 0 }
    }

    /// That of another process, if it had one.
    pub fn go_on(socket: Option<UdpSocket>, endpoint: &mut Endpoint) -> Self {
        if socket.is_none() && matches!(endpoint.sessions().control_path(), ControlPath::Socket(_)) {
            endpoint.close_control_path();
        }
        Self::of(socket)
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> Option<&UdpSocket> {
        self.socket.as_ref()
    }

    /// Datagrams the kernel would not send.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Takes in what has come.
    pub fn receive(&mut self, endpoint: &mut Endpoint, control: &mut Control, clock: &WallClock) {
        let Some(socket) = &self.socket else { return };
        for _ in 0..DATAGRAMS {
            match socket.recv_from(&mut self.space) {
                Ok((len, from)) => endpoint.receive_gtpu(from, &self.space[..len], control, clock),
                // Interrupted, or an ICMP error about something we sent.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }

    /// Sends what is to be sent.
    pub fn send(&mut self, endpoint: &mut Endpoint) {
        let (socket, unsent) = (self.socket.as_ref(), &mut self.unsent);
        endpoint.drain_gtpu(|to, datagram| {
            let is_sent = socket.is_some_and(|socket| socket.send_to(datagram, to).is_ok());
            *unsent += u64::from(!is_sent);
        });
    }
}

fn open(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
