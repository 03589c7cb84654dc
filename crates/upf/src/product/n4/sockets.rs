//! The UDP sockets of N4: one for strangers and some for associated control planes, each with a buffer of its own. The kernel
//! divides datagrams among them by source and drops those from networks that are not allowed.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use port::udp::{self, Division, Network};

/// Sockets that associated control planes share; each keeps the one it got first.
const OF_PEERS: usize = 4;
/// The socket of strangers.
const STRANGERS: usize = 0;
/// The socket of sources that are not allowed, whose filter lets nothing through. It counts them.
const OUTSIDE: usize = OF_PEERS + 1;
/// Addresses that the kernel tells apart at most: one program holds them. Others send to the strangers' socket, and have
/// queues of their own all the same.
const KNOWN: usize = 256;
/// Octets that may wait in the kernel for each socket.
const ROOM: usize = 8 << 20;
const ROOM_OF_STRANGERS: usize = 1 << 20;
/// Datagrams taken from a socket in a turn: the rest waits in the kernel.
const AT_ONCE: usize = 256;
const AT_ONCE_OF_STRANGERS: usize = 64;

/// Datagrams lost before they were read, or sent in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Those of associated control planes, as their socket's buffer was full.
    pub of_peers: u64,
    /// Those of others.
    pub of_strangers: u64,
    /// Those from networks that are not allowed.
    pub not_allowed: u64,
}

/// The group of sockets.
pub struct Sockets {
    group: Vec<UdpSocket>,
    allow: Vec<Network>,
    /// Whether the kernel lets through what they are: not yet after a take-over, whose sockets were the other process's.
    filtered: bool,
    /// Addresses of associated control planes and their sockets.
    known: Vec<(IpAddr, u32)>,
}

impl Sockets {
    /// Sockets at an address, for datagrams from these networks; an empty list allows all.
    ///
    /// # Errors
    /// An address that is not ours, or one that another process is bound to.
    pub fn open(address: SocketAddr, allow: Vec<Network>) -> io::Result<Self> {
        // Sockets that share an address would share it with another process of this user too: nobody may be there before.
        let address = UdpSocket::bind(address)?.local_addr()?;
        let group = (0..=OUTSIDE).map(|_| udp::bind_shared(address)).collect::<io::Result<Vec<_>>>()?;
        for (n, socket) in group.iter().enumerate() {
            udp::set_receive_buffer(socket, if n == STRANGERS { ROOM_OF_STRANGERS } else { ROOM });
        }
        let sockets = Self { group, allow, filtered: true, known: Vec::new() };
        sockets.filter();
        sockets.divide();
        Ok(sockets)
    }

    /// Those of another process that this one goes on for. None: they are not as many as those networks take.
    pub fn go_on(group: Vec<UdpSocket>, allow: Vec<Network>) -> Option<Self> {
        (group.len() == OUTSIDE + 1).then(|| Self { group, allow, filtered: false, known: Vec::new() })
    }

    /// All of them, for another process.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        self.group.iter().map(|socket| socket.as_fd().try_clone_to_owned()).collect()
    }

    /// These are the networks that datagrams are taken from now; an empty list allows all.
    pub(crate) fn set_allow(&mut self, allow: Vec<Network>) {
        if allow != self.allow || !self.filtered {
            (self.allow, self.filtered) = (allow, true);
            self.filter();
            self.divide();
        }
    }

    fn filter(&self) {
        for socket in &self.group {
            // Who is not allowed is refused by the node too: without this he only costs more.
            let filtered = udp::filter(socket, &self.allow).or_else(|error| {
                tracing::warn!(target: "n4", event = "no_kernel_filter", %error, "n4.allow is applied in weir only");
                // A list before this one is not to be left in force.
                udp::filter(socket, &[])
            });
            if let Err(error) = filtered {
                tracing::warn!(target: "n4", event = "no_kernel_filter", %error, "n4.allow is applied in weir only");
            }
        }
    }

    fn divide(&self) {
        let outside = (!self.allow.is_empty()).then(|| (self.allow.clone(), OUTSIDE as u32));
        let division = Division { known: self.known.clone(), others: STRANGERS as u32, outside };
        if let Err(error) = self.group.first().map_or(Ok(()), |socket| udp::divide(socket, &division)) {
            // By the kernel's hash then: every datagram still arrives.
            tracing::warn!(target: "n4", event = "no_socket_division", %error, "control planes share sockets with strangers");
        }
    }

    /// These are the addresses of associated control planes now.
    pub fn know(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        let mut addresses: Vec<IpAddr> = addresses.take(KNOWN).collect();
        addresses.sort_unstable();
        let is_same = addresses.len() == self.known.len()
            && addresses.iter().zip(&self.known).all(|(address, (known, _))| address == known);
        if is_same {
            return;
        }
        let before = std::mem::take(&mut self.known);
        let mut users = [0; OF_PEERS];
        let mut kept = |address: &IpAddr| {
            let (_, socket) = before.iter().find(|(known, _)| known == address)?;
            users[*socket as usize - 1] += 1;
            Some(*socket)
        };
        let kept: Vec<Option<u32>> = addresses.iter().map(&mut kept).collect();
        for (address, kept) in addresses.into_iter().zip(kept) {
            let socket = kept.unwrap_or_else(|| {
                let least = users.iter().enumerate().min_by_key(|(_, users)| **users).map_or(0, |(n, _)| n);
                users[least] += 1;
                least as u32 + 1
            });
            self.known.push((address, socket));
        }
        self.divide();
    }

    /// Takes datagrams in: those of control planes first.
    pub fn read(&self, space: &mut [u8], mut take: impl FnMut(SocketAddr, &[u8])) {
        // Where the kernel does not filter or divide, sources come to the last one too, and the node tells them apart.
        let others = [STRANGERS, OUTSIDE].map(|n| (n, AT_ONCE_OF_STRANGERS));
        let order = (1..OUTSIDE).map(|n| (n, AT_ONCE)).chain(others);
        for (n, most) in order {
            for _ in 0..most {
                match self.group[n].recv_from(space) {
                    Ok((len, from)) => take(from, &space[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // Interrupted; or an ICMP error about something we sent, which the node's timers see to.
                    Err(_) => {}
                }
            }
        }
    }

    /// Sends a datagram. One that the kernel does not take is sent again: by us after T1, or by the peer.
    pub fn send(&self, to: SocketAddr, datagram: &[u8]) -> bool {
        self.group[STRANGERS].send_to(datagram, to).is_ok()
    }

    /// The sockets, and another, to wait on.
    ///
    /// # Errors
    /// No more descriptors.
    pub(crate) fn to_wait_on(&self, other: Option<&UdpSocket>) -> io::Result<Vec<OwnedFd>> {
        let all = self.group.iter().chain(other);
        all.map(|socket| socket.as_fd().try_clone_to_owned()).collect()
    }

    /// What was lost in the kernel until now.
    pub fn lost(&self) -> Lost {
        let at = |n: usize| self.group.get(n).and_then(|socket| udp::lost(socket).ok()).map_or(0, u64::from);
        Lost { of_peers: (1..OUTSIDE).map(at).sum(), of_strangers: at(STRANGERS), not_allowed: at(OUTSIDE) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Reads until so many datagrams have come.
    fn read(sockets: &Sockets, count: usize) -> Vec<IpAddr> {
        let (mut from, mut space) = (Vec::new(), [0; 64]);
        let end = Instant::now() + Duration::from_secs(5);
        while from.len() < count && Instant::now() < end {
            sockets.read(&mut space, |sender, _| from.push(sender.ip()));
        }
        from
    }

    #[test]
    fn a_flood_of_strangers_leaves_room_for_peers() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut sockets = Sockets::open(any, vec![([127, 0, 0, 0].into(), 24)]).expect("loopback");
        let at = sockets.group[0].local_addr().expect("bound");
        let (peer, other) = (IpAddr::from([127, 0, 0, 9]), IpAddr::from([127, 0, 0, 8]));
        sockets.know([peer, other].into_iter());
        assert_eq!(sockets.known, [(other, 1), (peer, 2)]);
        sockets.know([peer].into_iter());
        assert_eq!(sockets.known, [(peer, 2)], "it keeps its socket");
        let from = |address: IpAddr| UdpSocket::bind((address, 0)).expect("loopback");
        let stranger = from([127, 0, 0, 7].into());
        (0..20_000).for_each(|_| drop(stranger.send_to(&[0; 512], at)));
        from(peer).send_to(b"peer", at).expect("sent");
        from([127, 0, 1, 1].into()).send_to(b"outside", at).expect("sent");
        assert_eq!(read(&sockets, 1).first(), Some(&peer), "before those that came before it");
        let lost = sockets.lost();
        assert!(lost.of_strangers > 1000, "{lost:?}");
        assert_eq!((lost.of_peers, lost.not_allowed), (0, 1));
        let left = read(&sockets, 20_000 - lost.of_strangers as usize);
        assert!(left.iter().all(|from| from.to_string() == "127.0.0.7"));
        assert!(Sockets::open(at, Vec::new()).is_err(), "there is one at that address");
    }
}
