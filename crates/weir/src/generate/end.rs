//! A port at one side of a gateway, with memory of its own: frames out, frames in.

use std::time::{Duration, Instant};

use anyhow::Context;
use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::Wires;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::Mac;

/// Packet buffers of a port.
const BUFFERS: u32 = 2048;
/// Bytes of one.
const SLOT: u16 = 2048;
/// Between two looks at ports that cannot be waited for.
const BLIND: Duration = Duration::from_micros(50);

/// A port, and where its frames come from and go to.
pub struct End {
    port: Box<dyn Port>,
    pool: Pool,
    out: Batch,
    /// The interface's hardware address.
    pub mac: Mac,
    /// Frames of [`queue`](Self::queue) that the port did not take.
    unsent: u64,
}

impl End {
    /// Opens a port; `name` is that of the option.
    ///
    /// # Errors
    /// No memory, or the port cannot be opened.
    pub fn open(name: &str, uri: &str) -> anyhow::Result<Self> {
        let config = ArenaConfig { slots: BUFFERS, slot_bytes: SLOT, headroom: frame::HEADROOM };
        let arena = Arena::new(config).context("no memory for packets")?;
        let mut pool = Pool::new(&arena, BUFFERS as usize);
        let port = super::open(name, Some(uri), &mut pool, &Wires::default())?.context("a port")?;
        let mac = Mac(port.caps().mac);
        Ok(Self { port, pool, out: Batch::new(), mac, unsent: 0 })
    }

    /// Sends a frame; false: there was no room, and it was not sent.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let Some(frame) = self.pool.make(bytes) else { return false };
        if let Err(frame) = self.out.push(frame) {
            self.pool.give(frame);
        }
        let sent = self.port.tx_burst(&mut self.pool, &mut self.out);
        self.pool.give_all(&mut self.out);
        sent > 0
    }

    /// Sends a frame with those that follow, by [`flush`](Self::flush) or when a burst is complete.
    pub fn queue(&mut self, bytes: &[u8]) {
        let Some(frame) = self.pool.make(bytes) else {
            self.unsent += 1;
            return;
        };
        if let Err(frame) = self.out.push(frame) {
            self.transmit();
            if let Err(frame) = self.out.push(frame) {
                self.pool.give(frame);
                self.unsent += 1;
            }
        }
    }

    /// Sends what is queued; how many frames of all that were queued since the last call were not sent.
    pub fn flush(&mut self) -> u64 {
        self.transmit();
        std::mem::take(&mut self.unsent)
    }

    fn transmit(&mut self) {
        if !self.out.is_empty() {
            self.port.tx_burst(&mut self.pool, &mut self.out);
            self.unsent += self.out.len() as u64;
            self.pool.give_all(&mut self.out);
        }
    }

    /// Gives the frames that have arrived, at most a burst, to `each`; how many there were.
    pub fn receive_each(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut batch = Batch::new();
        self.port.kick(&mut self.pool);
        self.port.service(&mut self.pool);
        self.port.rx_burst(&mut self.pool, &mut batch);
        let arena = self.pool.arena();
        batch.frames().iter().for_each(|frame| each(arena.bytes(frame)));
        let count = batch.len();
        self.pool.give_all(&mut batch);
        count
    }

    /// The frames that have arrived, at most a burst.
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.receive_each(|frame| frames.push(frame.to_vec()));
        frames
    }

    /// Leaves the interface as it was.
    pub fn close(&mut self) {
        self.port.close(&mut self.pool);
    }
}

/// Waits until a packet has come to one of two ends, at most for `longest`: one that waits for a sleep to end would seem late.
pub fn wait(mut ends: [&mut End; 2], longest: Duration) {
    for end in &mut ends {
        end.port.kick(&mut end.pool);
    }
    // Both are told, whatever one says.
    let ready = ends.each_mut().map(|end| end.port.fall_asleep());
    if ready.contains(&false) {
        return;
    }
    let descriptors = ends.each_ref().map(|end| end.port.wait_fd());
    let mut polled: Vec<PollFd<'_>> = descriptors.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    if polled.len() < descriptors.len() {
        return std::thread::sleep(longest.min(BLIND));
    }
    // Interrupted: the caller looks at its stop flag.
    let _ = poll(&mut polled, Timespec::try_from(longest).ok().as_ref());
}

/// Receives until nothing has come for `quiet`, at most for `longest`: a gateway may wait for a CPU. `receive` takes in
/// what has arrived and returns how many packets have been received so far.
pub fn drain(quiet: Duration, longest: Duration, mut receive: impl FnMut() -> u64) {
    let (most, mut until, mut seen) = (Instant::now() + longest, Instant::now() + quiet, receive());
    while Instant::now() < until.min(most) {
        let received = receive();
        if received > seen {
            (until, seen) = (Instant::now() + quiet, received);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
