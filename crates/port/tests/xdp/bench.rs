//! The bench the tests stand on: a namespace, veth pairs, and packet sockets at the far ends.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::netns;
use port::xdp::{XdpConfig, XdpPort};

/// No test waits longer than this for anything.
pub const BOUND: Duration = Duration::from_secs(10);

/// A network namespace of this test's own.
pub struct Net {
    pub name: String,
}

impl Net {
    pub fn new(test: &str) -> Self {
        let net = Self { name: format!("weir-xdp-{test}-{}", std::process::id()) };
        run(&["netns", "add", &net.name]);
        let quiet = "for f in all default; do echo 1 > /proc/sys/net/ipv6/conf/$f/disable_ipv6; done";
        run(&["netns", "exec", &net.name, "sh", "-c", quiet]);
        net
    }

    /// Runs `ip` in the namespace.
    pub fn ip(&self, words: &str) {
        let mut all = vec!["-n", &self.name];
        all.extend(words.split_whitespace());
        run(&all);
    }

    /// What `ip -d link show` says of an interface.
    pub fn shown(&self, interface: &str) -> String {
        let words = ["-n", &self.name, "-d", "link", "show", interface];
        let out = Command::new("ip").args(words).output().expect("ip");
        String::from_utf8(out.stdout).expect("text")
    }

    /// The pair `a<n>` ═ `b<n>`, both up, with so many queues in each direction.
    pub fn pair(&self, n: u32, queues: u32) {
        let q = format!("numrxqueues {queues} numtxqueues {queues}");
        self.ip(&format!("link add a{n} {q} type veth peer name b{n} {q}"));
        self.ip(&format!("link set a{n} up"));
        self.ip(&format!("link set b{n} up"));
    }

    pub fn config(&self, interface: &str) -> XdpConfig {
        XdpConfig { netns: Some(self.name.clone()), ..XdpConfig::new(interface) }
    }

    pub fn tap(&self, interface: &str) -> Tap {
        netns::within(&self.name, || Tap::open(interface)).expect("namespace").expect("packet socket")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn run(words: &[&str]) {
    let out = Command::new("ip").args(words).output().expect("ip");
    assert!(out.status.success(), "ip {}: {}", words.join(" "), String::from_utf8_lossy(&out.stderr));
}

/// A packet socket on an interface: the plainest other side there is.
pub struct Tap(OwnedFd);

impl Tap {
    fn open(interface: &str) -> io::Result<Self> {
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain system call, no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, all.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor the kernel just made for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zeroes is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = port::iface::index_here(interface).expect("interface") as i32;
        // SAFETY: a sockaddr_ll of the size given.
        let got = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32) };
        assert_eq!(got, 0, "{}", io::Error::last_os_error());
        let room = 16 << 20;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        // SAFETY: an int of the size given.
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const room).cast(), size_of_val(&room) as u32) };
        Ok(Self(fd))
    }

    pub fn send(&self, packet: &[u8]) {
        // SAFETY: the packet is readable for its length.
        let got = unsafe { libc::send(self.0.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        assert_eq!(got, packet.len() as isize, "{}", io::Error::last_os_error());
    }

    /// Sends if the interface takes it.
    pub fn offer(&self, packet: &[u8]) -> bool {
        // SAFETY: the packet is readable for its length.
        let got = unsafe { libc::send(self.0.as_raw_fd(), packet.as_ptr().cast(), packet.len(), libc::MSG_DONTWAIT) };
        got == packet.len() as isize
    }

    /// The next packet that came in, if one is there.
    pub fn receive(&self) -> Option<Vec<u8>> {
        loop {
            let mut packet = vec![0; 2048];
            // SAFETY: all zeroes is a valid sockaddr_ll.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut len = size_of_val(&from) as u32;
            // SAFETY: packet and address are writable for their lengths.
            let got = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    packet.as_mut_ptr().cast(),
                    packet.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &mut len,
                )
            };
            if got < 0 {
                return None;
            }
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                packet.truncate(got as usize);
                return Some(packet);
            }
        }
    }

    /// Everything that came in.
    pub fn drain(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.receive()).collect()
    }
}

/// An arena and a pool of all its slots.
pub struct Memory {
    pub arena: Arc<Arena>,
    pub pool: Pool,
}

impl Memory {
    pub fn new(slots: u32) -> Self {
        let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).expect("memory");
        let pool = Pool::new(&arena, slots as usize);
        Self { arena, pool }
    }

    /// Opens the port and gives it slots.
    pub fn open(&mut self, config: XdpConfig) -> XdpPort {
        let mut port = XdpPort::open(config, &mut self.pool).expect("an AF_XDP port");
        port.kick(&mut self.pool);
        port.service(&mut self.pool);
        port
    }

    /// Free slots, in the pool and in the depot behind it.
    pub fn free(&self) -> usize {
        self.pool.free() + self.arena.in_depot()
    }

    /// Receives until `n` packets are there, and a moment longer, to see that there are no more.
    pub fn receive(&mut self, port: &mut XdpPort, n: usize) -> Vec<Vec<u8>> {
        let (mut got, mut batch) = (Vec::new(), Batch::new());
        let mut until = Instant::now() + BOUND;
        let mut complete = false;
        while Instant::now() < until {
            port.kick(&mut self.pool);
            port.service(&mut self.pool);
            port.rx_burst(&mut self.pool, &mut batch);
            for frame in batch.frames() {
                assert!(frame.headroom() >= 256, "{frame:?}");
                got.push(self.arena.bytes(frame).to_vec());
            }
            self.pool.give_all(&mut batch);
            if got.len() >= n && !complete {
                complete = true;
                until = Instant::now() + Duration::from_millis(20);
            }
        }
        assert_eq!(got.len(), n, "packets received; {:?}", port.counters());
        got
    }

    /// Sends the packets and waits until all slots are back.
    pub fn send(&mut self, port: &mut XdpPort, packets: &[Vec<u8>]) {
        let mut batch = Batch::new();
        let held = port.held();
        for chunk in packets.chunks(64) {
            for packet in chunk {
                batch.push(self.pool.make(packet).expect("a slot")).expect("room");
            }
            until("sent", || {
                port.tx_burst(&mut self.pool, &mut batch);
                port.kick(&mut self.pool);
                port.service(&mut self.pool);
                batch.is_empty()
            });
        }
        until("completed", || {
            port.kick(&mut self.pool);
            port.service(&mut self.pool);
            port.held() <= held
        });
    }
}

/// Repeats `step` until it says true.
pub fn until(what: &str, mut step: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !step() {
        assert!(Instant::now() < end, "not {what} in {BOUND:?}");
        std::thread::yield_now();
    }
}

/// A packet of `len` bytes no other seed has.
pub fn packet(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut out: Vec<u8> = (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        })
        .collect();
    // To everyone's group, of an experimental type, so that nobody has an opinion on it.
    out[..6].copy_from_slice(&[0xff; 6]);
    out[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    out[12..14].copy_from_slice(&[0x88, 0xb5]);
    out
}

/// The same over IPv4 and UDP to a port.
pub fn udp(seed: u32, port: u16) -> Vec<u8> {
    let mut out = packet(seed, 100);
    out[12..14].copy_from_slice(&[8, 0]);
    out[14..34].copy_from_slice(&[0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out[36..38].copy_from_slice(&port.to_be_bytes());
    out
}
