//! The cipher's library without an engine: what its calls take, to compare an engine with.

use crate::bpi::{self, CLEAR, CRC, Schedule};
use crate::engine::Direction;
use crate::key::{Cipher, Key};
#[cfg(ipsec_mb)]
use crate::lanes::{BURST, Burst, LaneKey, Lanes, MOST};
#[cfg(not(ipsec_mb))]
use crate::no_lanes::{BURST, Burst, LaneKey, Lanes, MOST};

/// Buffers that frames are in, in turn: more than the library has in flight, so that one that comes again is not there.
const BUFFERS: usize = 512;
const _: () = assert!(BUFFERS > MOST + BURST);

/// Bytes of a buffer.
const BUFFER: usize = 2048;

/// The library's burst calls on buffers of its own: frames as they come, no order by length, no queue, no flush while
/// more come. By libipsec-mb where that is built in and the processor serves it; else by RustCrypto, one frame at a
/// time.
///
/// Frames are encrypted with their CRC32, or decrypted without: as a CMTS does downstream and upstream.
pub struct Library {
    direction: Direction,
    lanes: Option<(Lanes, Box<Burst>)>,
    lane_keys: Vec<LaneKey>,
    schedules: Vec<Schedule>,
    keys: usize,
    /// Never grows: jobs in flight are in it.
    buffers: Vec<[u8; BUFFER]>,
    /// Buffer and key of the next frame.
    next: usize,
    next_key: usize,
    /// Frames put in place: buffer, bytes, key.
    ready: Vec<(usize, usize, usize)>,
}

impl Library {
    /// With those AES-128 keys, which frames have in turn.
    pub fn new(direction: Direction, keys: &[Key]) -> Self {
        let mut lanes = Lanes::new(direction == Direction::Encrypt);
        let is_fit = |key: &&Key| key.cipher() == Cipher::Aes128;
        let keys: Vec<&Key> = keys.iter().filter(is_fit).collect();
        let lane_keys = match &mut lanes {
            Some(lanes) => keys.iter().map(|key| lanes.expand(key)).collect(),
            None => Vec::new(),
        };
        Self {
            direction,
            lanes: lanes.map(|lanes| (lanes, Box::default())),
            lane_keys,
            schedules: keys.iter().map(|key| Schedule::new(key)).collect(),
            keys: keys.len(),
            buffers: vec![[0; BUFFER]; BUFFERS],
            next: 0,
            next_key: 0,
            ready: Vec::with_capacity(BURST),
        }
    }

    /// What does the work, for people.
    pub fn name(&self) -> &'static str {
        self.lanes.as_ref().map_or("RustCrypto, one frame at a time", |(lanes, _)| lanes.name())
    }

    /// Frames of a burst, at most.
    pub const BURST: usize = BURST;

    /// Puts a frame of `bytes` bytes without CRC in place, filled with `fill`. False when the burst is full, no key is
    /// there or the size is none of an Ethernet frame's, 14 to 2000.
    pub fn put(&mut self, bytes: usize, fill: u8) -> bool {
        if self.ready.len() == BURST || self.keys == 0 || !(14..=2000).contains(&bytes) {
            return false;
        }
        self.buffers[self.next][..bytes].fill(fill);
        self.ready.push((self.next, bytes, self.next_key));
        self.next = (self.next + 1) % BUFFERS;
        self.next_key = (self.next_key + 1) % self.keys;
        true
    }

    /// Works on the frames that were put in place. Returns how many are through; others may be in flight until more
    /// come.
    pub fn run(&mut self) -> usize {
        let crc = self.direction == Direction::Encrypt;
        let Some((lanes, burst)) = &mut self.lanes else { return self.soft(crc) };
        let mut through = 0;
        let room = (lanes.in_flight() + self.ready.len()).saturating_sub(MOST);
        lanes.flush(room, |_, _| through += 1);
        for (at, bytes, key) in self.ready.drain(..) {
            let bytes = if crc { bytes + CRC } else { bytes };
            let frame = &mut self.buffers[at][..bytes];
            // SAFETY: buffers and keys live as long as the lanes, and neither vector ever grows; a buffer is used again
            // after more frames than can be in flight.
            #[allow(unsafe_code)]
            unsafe {
                burst.push(frame, (&self.lane_keys[key], 16), CLEAR as u8, crc, 0);
            }
        }
        lanes.submit_in_turn(burst, |_, _| through += 1);
        through
    }

    /// The same without lanes.
    fn soft(&mut self, crc: bool) -> usize {
        let frames = self.ready.len();
        for (at, bytes, key) in self.ready.drain(..) {
            let buffer = &mut self.buffers[at];
            if crc {
                let (frame, space) = buffer.split_at_mut(bytes);
                space[..CRC].copy_from_slice(&bpi::crc32(frame));
                self.schedules[key].encrypt(&mut buffer[CLEAR..bytes + CRC]);
            } else {
                self.schedules[key].decrypt(&mut buffer[CLEAR..bytes]);
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each frame once, and what it becomes is what the reference makes of it.
    #[test]
    fn frames_are_encrypted_as_by_the_reference() {
        let keys: Vec<Key> = (0..5u8).map(|n| Key::aes128([n + 1; 16], [7; 16])).collect();
        let mut library = Library::new(Direction::Encrypt, &keys);
        let (mut through, mut put) = (0, 0);
        for round in 0..20u8 {
            for n in 0..Library::BURST {
                put += usize::from(library.put(60 + (n * 97) % 1400, round));
            }
            assert!(!library.put(100, 0), "the burst is full");
            through += library.run();
        }
        assert!(put == 20 * Library::BURST && through <= put && through + MOST >= put, "{through} of {put}");
        // The first burst is through; its buffers come again in the ninth.
        let mut frame = vec![12u8; 60];
        frame.extend(bpi::crc32(&frame));
        let schedule = Schedule::new(&keys[12 * Library::BURST % 5]);
        schedule.encrypt(&mut frame[CLEAR..]);
        assert_eq!(&library.buffers[12 * Library::BURST % BUFFERS][..frame.len()], &frame[..]);
        assert!(!library.put(13, 0) && !library.put(2001, 0));
        assert!(!Library::new(Direction::Encrypt, &[]).put(100, 0), "no key");
    }
}
