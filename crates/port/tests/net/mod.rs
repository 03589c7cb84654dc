//! Namespaces and veth pairs that tests make for themselves and that go with them.
//!
//! ```text
//!   namespace A              namespace B
//!   [ left ]───── veth ─────[ right ]
//!   the far host             where ports are opened
//! ```
#![allow(dead_code, reason = "each test file uses some")]

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::{OpenContext, PortError, Steer};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Two namespaces joined by a veth pair, taken down when dropped.
pub struct Net {
    pub a: String,
    pub b: String,
}

pub const LEFT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
pub const RIGHT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

impl Net {
    /// A pair with one queue each way, IPv6 off, so that nothing is on the wire but what the test puts there.
    pub fn new() -> Self {
        Self::with_queues(1)
    }

    pub fn with_queues(queues: u32) -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("weir-port-{}-{n}-{end}", std::process::id());
        let net = Self { a: name("a"), b: name("b") };
        for ns in [&net.a, &net.b] {
            ok(&["ip", "netns", "add", ns]);
            ok(&["ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"]);
            ok(&["ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
        }
        net.pair(queues);
        net
    }

    /// Makes the pair (again) and brings it up.
    pub fn pair(&self, queues: u32) {
        let queues = queues.to_string();
        ok(&[
            "ip",
            "-n",
            &self.a,
            "link",
            "add",
            "left",
            "address",
            "02:00:00:00:00:0a",
            "numtxqueues",
            &queues,
            "numrxqueues",
            &queues,
            "type",
            "veth",
            "peer",
            "name",
            "right",
            "address",
            "02:00:00:00:00:0b",
            "numtxqueues",
            &queues,
            "numrxqueues",
            &queues,
            "netns",
            &self.b,
        ]);
        self.ip_a(&["link", "set", "left", "up"]);
        self.ip_b(&["link", "set", "right", "up"]);
        self.ip_b(&["link", "set", "lo", "up"]);
    }

    pub fn ip_a(&self, args: &[&str]) {
        ok(&[&["ip", "-n", &self.a], args].concat());
    }

    pub fn ip_b(&self, args: &[&str]) {
        ok(&[&["ip", "-n", &self.b], args].concat());
    }

    pub fn exec_b(&self, args: &[&str]) -> String {
        Self::exec(&self.b, args)
    }

    /// What a command in a namespace says.
    pub fn exec(ns: &str, args: &[&str]) -> String {
        let out = ok(&[&["ip", "netns", "exec", ns], args].concat());
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// One ping from A; whether it was answered.
    pub fn ping(&self, to: &str) -> bool {
        let args = ["ip", "netns", "exec", &self.a, "ping", "-c1", "-W1", "-n", to];
        run(&args).is_some_and(|out| out.status.success())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in [&self.a, &self.b] {
            run(&["ip", "netns", "del", ns]);
        }
    }
}

fn run(args: &[&str]) -> Option<Output> {
    Command::new(args[0]).args(&args[1..]).output().ok()
}

fn ok(args: &[&str]) -> Output {
    let out = run(args).unwrap_or_else(|| panic!("{} is not there to be run", args[0]));
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

/// A port with a pool of its own.
pub struct Door {
    pub port: Box<dyn Port>,
    pub pool: Pool,
    pub arena: Arc<Arena>,
    slots: usize,
}

impl Door {
    pub fn open(uri: &str) -> Self {
        Self::try_open(uri, &Steer::new()).unwrap_or_else(|error| panic!("{uri}: {error}"))
    }

    pub fn try_open(uri: &str, steer: &Steer) -> Result<Self, PortError> {
        let slots = 512;
        let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, slots as usize);
        let mut cx = OpenContext { steer: steer.clone(), ..OpenContext::new(&mut pool) };
        let port = port::open(&uri.parse()?, &mut cx)?;
        Ok(Self { port, pool, arena, slots: slots as usize })
    }

    /// Sends the packets, all of which must be accepted.
    pub fn send(&mut self, packets: &[Vec<u8>]) {
        for chunk in packets.chunks(frame::BURST) {
            assert_eq!(self.offer(chunk), chunk.len(), "{:?}", self.port.counters());
        }
    }

    /// Offers a burst; how many were accepted.
    pub fn offer(&mut self, packets: &[Vec<u8>]) -> usize {
        let mut batch = Batch::new();
        for packet in packets {
            batch.push(self.pool.make(packet).expect("a frame")).expect("room");
        }
        let accepted = self.port.tx_burst(&mut self.pool, &mut batch);
        assert_eq!(accepted + batch.len(), packets.len());
        self.pool.give_all(&mut batch);
        self.port.service(&mut self.pool);
        accepted
    }

    /// What has come, with flags.
    pub fn poll(&mut self) -> Vec<(Vec<u8>, u16)> {
        let mut batch = Batch::new();
        self.port.service(&mut self.pool);
        self.port.rx_burst(&mut self.pool, &mut batch);
        let got = batch.frames().iter().map(|f| (self.arena.bytes(f).to_vec(), f.meta.flags)).collect();
        self.pool.give_all(&mut batch);
        got
    }

    /// Receives until there are `n`, at most two seconds.
    pub fn receive(&mut self, n: usize) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let end = Instant::now() + Duration::from_secs(2);
        while got.len() < n && Instant::now() < end {
            got.extend(self.poll().into_iter().map(|(bytes, _)| bytes));
        }
        got
    }

    /// Receives whatever comes in that time.
    pub fn listen(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let end = Instant::now() + time;
        while Instant::now() < end {
            got.extend(self.poll().into_iter().map(|(bytes, _)| bytes));
        }
        got
    }

    /// Services until `so`, at most three seconds.
    pub fn until(&mut self, what: &str, so: impl Fn(&dyn Port) -> bool) {
        let end = Instant::now() + Duration::from_secs(3);
        while !so(&*self.port) {
            assert!(Instant::now() < end, "{what}: {:?} {:?}", self.port.caps(), self.port.counters());
            self.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Receives until `so` of what came together, at most three seconds.
    pub fn until_with(&mut self, what: &str, mut so: impl FnMut(&[(Vec<u8>, u16)]) -> bool) {
        let end = Instant::now() + Duration::from_secs(3);
        while !so(&self.poll()) {
            assert!(Instant::now() < end, "{what}: {:?} {:?}", self.port.caps(), self.port.counters());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Closes the port; every slot must be back.
    pub fn close(mut self) {
        assert_eq!(self.pool.free() + self.arena.in_depot() + self.port.held(), self.slots);
        self.port.close(&mut self.pool);
        assert_eq!((self.pool.free() + self.arena.in_depot(), self.port.held()), (self.slots, 0));
    }
}

/// A packet from left to right (or back) of that number and length.
pub fn packet(to: [u8; 6], from: [u8; 6], n: u32, len: usize) -> Vec<u8> {
    let mut bytes = [&to[..], &from[..], &[0x88, 0xb5], &n.to_be_bytes()].concat();
    bytes.extend((bytes.len()..len).map(|i| (i as u32 ^ n) as u8));
    bytes
}

/// Has the kernel cut what a socket sends into datagrams of that many bytes (UDP_SEGMENT).
pub fn segment_datagrams(socket: &std::net::UdpSocket, bytes: u16) {
    use std::os::fd::AsRawFd;
    let (size, at) = (i32::from(bytes), std::mem::size_of::<i32>() as u32);
    // SAFETY: the option is an int of that size, which outlives the call.
    let got =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), at) };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
}

/// Puts a tag behind the addresses.
pub fn tagged(packet: &[u8], tag: [u8; 4]) -> Vec<u8> {
    [&packet[..12], &tag, &packet[12..]].concat()
}
