//! One port at an end of a link: it sends numbered frames of many lengths, and checks every byte of those that come.
#![allow(dead_code)] // each program uses a part

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, Port, wait_readable};
use port::{OpenContext, PortError};

/// Frames of a test.
pub const FRAMES: u64 = 20_000;
/// Frames on their way at most: no ring is full.
pub const WINDOW: u64 = 128;
/// The longest time for anything: other work may have the CPUs.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The number of a frame that only looks whether one comes back.
pub const HELLO: u64 = 1 << 40;
/// Hardware addresses of the frames.
pub const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const TO: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// An EtherType for experiments (IEEE 802, clause 9.2.3).
pub const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// Peers poll: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test has a peer.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A folder for sockets, removed when dropped.
pub struct Folder(PathBuf, MutexGuard<'static, ()>);

impl Folder {
    pub fn new(test: &str) -> Self {
        let alone = alone();
        let path = std::env::temp_dir().join(format!("weir-peer-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path, alone)
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An arena with one port.
pub struct Bed {
    pub pool: Pool,
    pub port: Box<dyn Port>,
    /// The other end swaps hardware addresses.
    pub swapped: bool,
}

impl Bed {
    pub fn open(uri: &str) -> Self {
        Self::try_open(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
    }

    /// The port, or why it is not opened.
    pub fn try_open(uri: &str) -> Result<Self, PortError> {
        let arena = Arena::new(ArenaConfig { slots: 4096, ..ArenaConfig::default() }).expect("memory");
        Self::try_in_arena(&arena, uri)
    }

    /// One of several ports of an arena: `close` is for one that is alone.
    pub fn in_arena(arena: &Arc<Arena>, uri: &str) -> Self {
        Self::try_in_arena(arena, uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
    }

    fn try_in_arena(arena: &Arc<Arena>, uri: &str) -> Result<Self, PortError> {
        port_dpdk::register();
        let mut pool = Pool::new(arena, 4096);
        let port = port::open(&uri.parse().expect("a URI"), &mut OpenContext::new(&mut pool))?;
        Ok(Self { pool, port, swapped: true })
    }

    /// Sends a numbered frame; false: the port did not take it.
    pub fn send(&mut self, number: u64) -> bool {
        let frame = self.pool.make(&numbered(number)).expect("a free buffer");
        let mut batch = Batch::new();
        batch.push(frame).expect("room");
        let sent = self.port.tx_burst(&mut self.pool, &mut batch);
        self.port.kick(&mut self.pool);
        self.pool.give_all(&mut batch);
        sent == 1
    }

    /// Numbers of the frames of ours that have come back, each checked.
    pub fn receive(&mut self) -> Vec<u64> {
        let mut batch = Batch::new();
        self.port.service(&mut self.pool);
        self.port.rx_burst(&mut self.pool, &mut batch);
        let arena = self.pool.arena().clone();
        let numbers = batch.frames().iter().filter_map(|frame| number_of(arena.bytes(frame), self.swapped)).collect();
        self.pool.give_all(&mut batch);
        numbers
    }

    /// Sends frames until one comes back: both ends are there. Those that come later are left.
    pub fn meet(&mut self) {
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
        assert_eq!(self.port.tx_burst(&mut self.pool, &mut Batch::new()), 0, "of no packets none is sent");
    }

    /// Until nothing has come for a while.
    pub fn quiet(&mut self) {
        let mut until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            if !self.receive().is_empty() {
                until = Instant::now() + Duration::from_millis(300);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends numbered frames and receives them: how many are missing, and how many came before an earlier one.
    pub fn exchange(&mut self) -> (u64, u64) {
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
    pub fn is_woken(&mut self, send: impl FnOnce(&mut Self) -> bool) -> bool {
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

    pub fn close(mut self) {
        self.port.close(&mut self.pool);
        let arena = self.pool.arena().clone();
        drop(self.port);
        drop(self.pool);
        assert_eq!(arena.in_depot(), 4096, "every token is back");
    }
}

/// Numbered frames from one end to another: how many are missing, and how many came before an earlier one.
pub fn one_way(from: &mut Bed, to: &mut Bed) -> (u64, u64) {
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
pub fn numbered(number: u64) -> Vec<u8> {
    let len = if number == HELLO { 60 } else { 60 + (number * 37 % 1455) as usize };
    let mut bytes: Vec<u8> = (0..len).map(|n| (n as u64 ^ number) as u8).collect();
    bytes[..6].copy_from_slice(&TO);
    bytes[6..12].copy_from_slice(&FROM);
    bytes[12..14].copy_from_slice(&EXPERIMENT);
    bytes[14..22].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number of one of our frames as it arrives, with swapped addresses or not; the rest is as it was.
pub fn number_of(bytes: &[u8], swapped: bool) -> Option<u64> {
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

/// Waits for a socket.
pub fn exists(path: &str) {
    let end = Instant::now() + PATIENCE;
    while !std::path::Path::new(path).exists() {
        assert!(Instant::now() < end, "no socket");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A network namespace, removed when dropped.
pub struct Namespace(pub String);

impl Namespace {
    pub fn new(test: &str) -> Self {
        let namespace = Self(format!("weir-peer-{}-{test}", std::process::id()));
        namespace.ip(&["netns", "add", &namespace.0]);
        // The kernel has no frames of its own there.
        let off = "net.ipv6.conf.default.disable_ipv6=1";
        namespace.ip(&["netns", "exec", &namespace.0, "sysctl", "-qw", off]);
        namespace
    }

    pub fn ip(&self, arguments: &[&str]) {
        let output = Command::new("ip").args(arguments).output().expect("ip runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}
