//! Ports over DPDK's software devices whose other end is another process, dpdk-testpmd: frames that come back are counted and
//! in order; a sleeping worker is woken where the device has interrupts.
//!
//! DPDK is started once for the program: every test has devices of names of its own.
#![cfg(feature = "dpdk")]

mod exchange;

use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use exchange::{Bed, Folder, PATIENCE, exists};
use frame::Link;

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

/// The socket of a server of memif that accepts when it is told to.
struct Listener(OwnedFd, libc::sockaddr_un);

impl Listener {
    /// With room for `backlog` connections and one more that have not been accepted.
    fn new(path: &str, backlog: i32) -> Self {
        let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
        assert!(path.len() < address.sun_path.len());
        address.sun_path.iter_mut().zip(path.bytes()).for_each(|(to, byte)| *to = byte.cast_signed());
        let fd = Self::socket(0);
        // SAFETY: plain calls; the address outlives them.
        unsafe {
            assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32), 0);
            assert_eq!(libc::listen(fd.as_raw_fd(), backlog), 0);
        }
        Self(fd, address)
    }

    fn socket(flags: i32) -> OwnedFd {
        // SAFETY: the descriptor is new.
        unsafe {
            let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags, 0);
            assert!(fd >= 0);
            OwnedFd::from_raw_fd(fd)
        }
    }

    /// Connections of our own, until there is no room for one more.
    fn fill(&self) -> Vec<OwnedFd> {
        let size = size_of_val(&self.1) as u32;
        let connect = |fd: OwnedFd| {
            // SAFETY: the address outlives the call.
            (unsafe { libc::connect(fd.as_raw_fd(), (&raw const self.1).cast(), size) } == 0).then_some(fd)
        };
        std::iter::from_fn(|| connect(Self::socket(libc::SOCK_NONBLOCK))).collect()
    }

    /// The next connection.
    fn accept(&self) -> OwnedFd {
        let mut waiting = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: plain calls; the descriptor is new.
        unsafe {
            assert_eq!(libc::poll(&raw mut waiting, 1, PATIENCE.as_millis() as i32), 1, "nobody connects");
            let fd = libc::accept(self.0.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut());
            assert!(fd >= 0);
            OwnedFd::from_raw_fd(fd)
        }
    }
}

/// Runs a port's owner apart: one that waits would not end.
fn ends_in_time(what: &str, run: impl FnOnce() + Send + 'static) {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        run();
        tell.send(()).expect("somebody waits");
    });
    told.recv_timeout(PATIENCE).expect(what);
}

fn memif_client(name: &str, socket: &str) -> String {
    format!("dpdk:net_memif_{name},role=client,socket={socket},socket-abstract=no")
}

#[test]
fn memif_client_does_not_wait_for_a_server_that_accepts_nothing() {
    let folder = Folder::new("memif-deaf");
    let socket = folder.file("socket");
    let _listener = Listener::new(&socket, 1);
    let uri = memif_client("deaf", &socket);
    ends_in_time("the port does not wait for its server", move || {
        let mut bed = Bed::open(&uri);
        // Five times the time after which it could look again.
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            assert!(bed.receive().is_empty());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(bed.port.caps().link, Link::Down);
        bed.close();
    });
}

#[test]
fn full_server_queue_does_not_hold_a_memif_client() {
    let folder = Folder::new("memif-race");
    let socket = folder.file("socket");
    let listener = Listener::new(&socket, 0);
    let uri = memif_client("race", &socket);
    let (tell, told) = std::sync::mpsc::channel();
    let (finish, finished) = std::sync::mpsc::channel();
    let port = std::thread::spawn(move || {
        let mut bed = Bed::open(&uri);
        let mut longest = Duration::ZERO;
        while finished.try_recv().is_err() {
            let begin = Instant::now();
            assert!(bed.receive().is_empty());
            longest = longest.max(begin.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        bed.close();
        tell.send(longest).expect("somebody waits");
    });
    // The driver's connection, which fails.
    drop(listener.accept());
    // The port's own: others fill the queue before it is greeted, and the device starts.
    let probe = listener.accept();
    let others = listener.fill();
    assert!(!others.is_empty());
    // SAFETY: the descriptor is open, the text outlives the call.
    assert_eq!(unsafe { libc::send(probe.as_raw_fd(), b"hello".as_ptr().cast(), 5, 0) }, 5);
    std::thread::sleep(Duration::from_millis(500));
    finish.send(()).expect("the port runs");
    let longest = told.recv_timeout(PATIENCE).expect("the worker does not wait for the server");
    port.join().expect("no panic");
    // The driver waits for 10 ms; other work may have the CPUs.
    assert!((Duration::from_millis(9)..Duration::from_secs(2)).contains(&longest), "{longest:?}");
}

#[test]
fn memif_client_of_a_full_server_is_refused() {
    let folder = Folder::new("memif-full");
    let socket = folder.file("socket");
    let listener = Listener::new(&socket, 0);
    let others = listener.fill();
    let uri = memif_client("full", &socket);
    ends_in_time("opening does not wait", move || {
        let error = Bed::try_open(&uri).err().expect("the queue is full").to_string();
        assert!(error.contains("Failed to connect socket") && error.contains("to accept connections"), "{error}");
        drop(others);
        // Now there is room for one.
        drop(listener.accept());
        Bed::open(&uri).close();
    });
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
