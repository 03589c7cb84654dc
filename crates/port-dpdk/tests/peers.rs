//! Ports over DPDK's software devices whose other end is another process, dpdk-testpmd, or the kernel: frames that come back
//! are counted and in order; a sleeping worker is woken where the device has interrupts.
//!
//! DPDK is started once for the program: every test has devices of names of its own.
#![cfg(feature = "dpdk")]

use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Link, Pool, Port, wait_readable};
use port::OpenContext;

/// Frames of a test.
const FRAMES: u64 = 20_000;
/// Frames on their way at most: no ring is full.
const WINDOW: u64 = 128;
/// The longest time for anything: other work may have the CPUs.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of a frame that only looks whether one comes back.
const HELLO: u64 = 1 << 40;
/// Hardware addresses of the frames.
const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TO: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// An EtherType for experiments (IEEE 802, clause 9.2.3).
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// Peers poll: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder for sockets, removed when dropped.
struct Folder(PathBuf, #[allow(dead_code)] MutexGuard<'static, ()>);

impl Folder {
    fn new(test: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let path = std::env::temp_dir().join(format!("weir-peer-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path, alone)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// dpdk-testpmd with one device, which sends what it receives back with swapped hardware addresses.
struct Peer(Child);

impl Peer {
    fn start(device: &str) -> Self {
        let cpus = fs::read_to_string("/proc/self/status").expect("a status");
        let cpus =
            cpus.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("CPUs").trim().to_owned();
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-m", "256", "--lcores"]);
        command.args([&format!("0@({cpus}),1@({cpus})"), "--vdev", device, "--"]);
        command.args(["--nb-cores=1", "--forward-mode=macswap", "--auto-start", "--total-num-mbufs=8192"]);
        // It ends when its input does.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().expect("dpdk-testpmd runs: `make setup-test` installs it"))
    }

    /// What it wrote, once it has ended.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let end = Instant::now() + PATIENCE;
        while self.0.try_wait().expect("a status").is_none() {
            if Instant::now() > end {
                self.0.kill().expect("it is ours");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        self.0.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An arena with one port.
struct Bed {
    pool: Pool,
    port: Box<dyn Port>,
    /// The other end swaps hardware addresses.
    swapped: bool,
}

impl Bed {
    fn open(uri: &str) -> Self {
        port_dpdk::register();
        let arena = Arena::new(ArenaConfig { slots: 4096, ..ArenaConfig::default() }).expect("memory");
        let mut pool = Pool::new(&arena, 4096);
        let port = port::open(&uri.parse().expect("a URI"), &mut OpenContext::new(&mut pool));
        let port = port.unwrap_or_else(|error| panic!("{uri}: {error}"));
        Self { pool, port, swapped: true }
    }

    /// Sends a numbered frame; false: the port did not take it.
    fn send(&mut self, number: u64) -> bool {
        let frame = self.pool.make(&numbered(number)).expect("a free buffer");
        let mut batch = Batch::new();
        batch.push(frame).expect("room");
        let sent = self.port.tx_burst(&mut self.pool, &mut batch);
        self.port.kick(&mut self.pool);
        self.pool.give_all(&mut batch);
        sent == 1
    }

    /// Numbers of the frames of ours that have come back, each checked.
    fn receive(&mut self) -> Vec<u64> {
        let mut batch = Batch::new();
        self.port.service(&mut self.pool);
        self.port.rx_burst(&mut self.pool, &mut batch);
        let arena = self.pool.arena().clone();
        let numbers = batch.frames().iter().filter_map(|frame| number_of(arena.bytes(frame), self.swapped)).collect();
        self.pool.give_all(&mut batch);
        numbers
    }

    /// Sends frames until one comes back: both ends are there. Those that come later are left.
    fn meet(&mut self) {
        let end = Instant::now() + PATIENCE;
        let mut next = Instant::now();
        loop {
            assert!(Instant::now() < end, "no frame comes back: {:?} {:?}", self.port.caps(), self.port.counters());
            if Instant::now() >= next {
                next = Instant::now() + Duration::from_millis(50);
                self.send(HELLO);
            }
            if !self.receive().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.quiet();
    }

    /// Until nothing has come for a while.
    fn quiet(&mut self) {
        let mut until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            if !self.receive().is_empty() {
                until = Instant::now() + Duration::from_millis(300);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends numbered frames and receives them: how many are missing, and how many came before an earlier one.
    fn exchange(&mut self) -> (u64, u64) {
        let (mut sent, mut came, mut next, mut early) = (0, 0, 0, 0);
        let end = Instant::now() + PATIENCE;
        while came < FRAMES && Instant::now() < end {
            while sent < FRAMES && sent - came < WINDOW && self.send(sent) {
                sent += 1;
            }
            for number in self.receive() {
                early += u64::from(number != next);
                (next, came) = (number + 1, came + 1);
            }
            std::thread::yield_now();
        }
        (FRAMES - came, early)
    }

    /// Whether a descriptor tells of the next frame, which `send` causes, and of nothing when there is none.
    fn is_woken(&mut self, send: impl FnOnce(&mut Self) -> bool) -> bool {
        self.quiet();
        let mut turns = 0;
        while !self.port.fall_asleep() {
            assert!(self.receive().is_empty() && turns < 100, "it is quiet");
            turns += 1;
        }
        let wait = |port: &dyn Port, time| wait_readable(&[port.wait_fd().expect("interrupts")], time).expect("a wait");
        assert_eq!(wait(&*self.port, Duration::from_millis(200)), 0, "nothing came");
        assert!(send(self));
        wait(&*self.port, PATIENCE) == 1
    }

    fn close(mut self) {
        self.port.close(&mut self.pool);
        let arena = self.pool.arena().clone();
        drop(self.port);
        drop(self.pool);
        assert_eq!(arena.in_depot(), 4096, "every token is back");
    }
}

/// Numbered frames from one end to another: how many are missing, and how many came before an earlier one.
fn one_way(from: &mut Bed, to: &mut Bed) -> (u64, u64) {
    let (mut sent, mut came, mut next, mut early) = (0, 0, 0, 0);
    let end = Instant::now() + PATIENCE;
    while came < FRAMES && Instant::now() < end {
        while sent < FRAMES && sent - came < WINDOW && from.send(sent) {
            sent += 1;
        }
        from.receive();
        for number in to.receive() {
            early += u64::from(number != next);
            (next, came) = (number + 1, came + 1);
        }
    }
    (FRAMES - came, early)
}

/// A frame of 60 to 1,514 bytes with that number.
fn numbered(number: u64) -> Vec<u8> {
    let len = if number == HELLO { 60 } else { 60 + (number * 37 % 1455) as usize };
    let mut bytes: Vec<u8> = (0..len).map(|n| (n as u64 ^ number) as u8).collect();
    bytes[..6].copy_from_slice(&TO);
    bytes[6..12].copy_from_slice(&FROM);
    bytes[12..14].copy_from_slice(&EXPERIMENT);
    bytes[14..22].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number of one of our frames as it arrives, with swapped addresses or not; the rest is as it was.
fn number_of(bytes: &[u8], swapped: bool) -> Option<u64> {
    if bytes.get(12..14)? != EXPERIMENT {
        return None;
    }
    let number = u64::from_be_bytes(bytes.get(14..22)?.try_into().ok()?);
    let mut wanted = numbered(number);
    if swapped {
        wanted[..6].copy_from_slice(&FROM);
        wanted[6..12].copy_from_slice(&TO);
    }
    assert!(bytes == wanted, "frame {number} has other bytes");
    Some(number)
}

/// Everything of a device with a peer; `interrupts`: it has some.
fn exchanges(test: &str, peer: &str, port: &str, interrupts: bool) {
    let folder = Folder::new(test);
    let socket = folder.file("socket");
    let peer = Peer::start(&peer.replace("{socket}", &socket));
    // Clients look for their server when they are opened.
    if peer_listens(port) {
        exists(&socket);
    }
    let mut bed = Bed::open(&port.replace("{socket}", &socket));
    bed.meet();
    let outcome = bed.exchange();
    assert_eq!(bed.port.caps().link, Link::Up);
    let detail = bed.port.caps().detail;
    assert_eq!(detail.ends_with(", interrupts"), interrupts, "{detail}");
    assert_eq!(outcome, (0, 0), "lost, out of order: {:?}", bed.port.counters());
    if interrupts {
        assert!(bed.is_woken(|bed| bed.send(7)), "no interrupt");
    } else {
        assert!(bed.port.wait_fd().is_none() && bed.port.fall_asleep());
    }
    bed.close();
    let said = peer.end();
    assert!(said.contains("macswap packet forwarding"), "{said}");
}

/// Waits for a socket.
fn exists(path: &str) {
    let end = Instant::now() + PATIENCE;
    while !std::path::Path::new(path).exists() {
        assert!(Instant::now() < end, "no socket");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn peer_listens(port: &str) -> bool {
    port.contains("virtio_user") || port.contains("role=client")
}

#[test]
fn memif_client_exchanges_frames_with_testpmd() {
    exchanges(
        "memif-client",
        "net_memif0,role=server,socket={socket},socket-abstract=no",
        "dpdk:net_memif_client,role=client,socket={socket},socket-abstract=no",
        false,
    );
}

#[test]
fn memif_client_finds_a_server_that_starts_again() {
    let folder = Folder::new("memif-again");
    let socket = folder.file("socket");
    let start = || {
        let peer = Peer::start(&format!("net_memif0,role=server,socket={socket},socket-abstract=no"));
        exists(&socket);
        peer
    };
    let peer = start();
    let uri = format!("dpdk:net_memif_again,role=client,socket={socket},socket-abstract=no");
    let mut bed = Bed::open(&uri);
    bed.meet();
    peer.end();
    let end = Instant::now() + PATIENCE;
    while bed.port.caps().link == Link::Up {
        assert!(Instant::now() < end, "the link stays up");
        bed.receive();
    }
    // Without a server it goes on looking for one.
    let until = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < until {
        assert!(bed.receive().is_empty() && !bed.send(1));
        std::thread::sleep(Duration::from_millis(1));
    }
    let peer = start();
    bed.meet();
    assert_eq!(bed.exchange(), (0, 0), "lost, out of order: {:?}", bed.port.counters());
    assert!(bed.port.counters().link_losses >= 1 && bed.port.counters().link_returns >= 1);
    bed.close();
    peer.end();
}

/// A listener with a short backlog that accepts nothing.
fn deaf_listener(path: &str) -> OwnedFd {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    assert!(path.len() < address.sun_path.len());
    address.sun_path.iter_mut().zip(path.bytes()).for_each(|(to, byte)| *to = byte.cast_signed());
    // SAFETY: plain calls; the address outlives them, and the descriptor is new.
    unsafe {
        let fd = OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0));
        let size = size_of_val(&address) as u32;
        assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size), 0);
        assert_eq!(libc::listen(fd.as_raw_fd(), 1), 0);
        fd
    }
}

#[test]
fn memif_client_does_not_wait_for_a_server_that_accepts_nothing() {
    let folder = Folder::new("memif-deaf");
    let socket = folder.file("socket");
    let listener = deaf_listener(&socket);
    let uri = format!("dpdk:net_memif_deaf,role=client,socket={socket},socket-abstract=no");
    let (tell, told) = std::sync::mpsc::channel();
    // Apart: a port that waits would not end.
    std::thread::spawn(move || {
        let mut bed = Bed::open(&uri);
        // Five times the time after which it could look again.
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            assert!(bed.receive().is_empty());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(bed.port.caps().link, Link::Down);
        bed.close();
        tell.send(()).expect("somebody waits");
    });
    told.recv_timeout(PATIENCE).expect("the port does not wait for its server");
    drop(listener);
}

#[test]
fn memif_server_exchanges_frames_with_testpmd() {
    exchanges(
        "memif-server",
        "net_memif0,role=client,socket={socket},socket-abstract=no",
        "dpdk:net_memif_server,role=server,socket={socket},socket-abstract=no",
        false,
    );
}

#[test]
fn virtio_user_exchanges_frames_with_testpmd() {
    exchanges(
        "virtio-user",
        "net_vhost0,iface={socket},queues=1",
        "dpdk:net_virtio_user0,path={socket},queues=1,queue_size=512",
        true,
    );
}

#[test]
fn vhost_user_exchanges_frames_with_testpmd() {
    exchanges(
        "vhost-user",
        "net_virtio_user0,path={socket},queues=1,queue_size=512,server=1",
        "dpdk:net_vhost0,iface={socket},queues=1,client=1",
        true,
    );
}

/// A network namespace, removed when dropped.
struct Namespace(String);

impl Namespace {
    fn new(test: &str) -> Self {
        let namespace = Self(format!("weir-peer-{}-{test}", std::process::id()));
        namespace.ip(&["netns", "add", &namespace.0]);
        // The kernel has no frames of its own there.
        let off = "net.ipv6.conf.default.disable_ipv6=1";
        namespace.ip(&["netns", "exec", &namespace.0, "sysctl", "-qw", off]);
        namespace
    }

    fn ip(&self, arguments: &[&str]) {
        let output = Command::new("ip").args(arguments).output().expect("ip runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn tap_exchanges_frames_with_the_kernel() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let namespace = Namespace::new("tap");
    let mut tap = Bed::open(&format!("dpdk:net_tap_kernel,iface=wtap0?netns={}", namespace.0));
    namespace.ip(&["-n", &namespace.0, "link", "set", "wtap0", "up"]);
    let mut kernel = Bed::open(&format!("packet:wtap0?netns={}&mode=mmsg&promisc=on", namespace.0));
    (tap.swapped, kernel.swapped) = (false, false);
    tap.quiet();
    assert_eq!(one_way(&mut tap, &mut kernel), (0, 0), "lost, out of order: {:?}", tap.port.counters());
    assert_eq!(one_way(&mut kernel, &mut tap), (0, 0), "lost, out of order: {:?}", tap.port.counters());
    let detail = tap.port.caps().detail;
    assert!(detail.contains("zero copy") && detail.ends_with(", interrupts"), "{detail}");
    assert!(tap.is_woken(|_| kernel.send(7)), "no interrupt");
    kernel.close();
    tap.close();
}
