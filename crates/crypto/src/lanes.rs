//! libipsec-mb: sixteen frames' blocks at once, where the processor has instructions for it.
//!
//! A job goes in with a burst and comes out when its lane is through, in the order of submission, which is not that of
//! the burst: frames of one length side by side leave their lanes together, and the library stops all lanes whenever one
//! is through.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::key::Key;

/// A key as the library wants it: initialization vector, both schedules. Nothing inside is ours to read.
#[repr(C, align(64))]
#[derive(Clone)]
pub(crate) struct LaneKey([u8; 9 * 64]);

impl Default for LaneKey {
    fn default() -> Self {
        Self([0; 9 * 64])
    }
}

/// A frame for the lanes. In step with `shim.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    frame: *mut u8,
    key: *const LaneKey,
    len: u32,
    clear: u8,
    crc: u8,
    key_bytes: u8,
    place: u8,
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn weir_lanes_new(encrypt: c_int) -> *mut Opaque;
    fn weir_lanes_free(lanes: *mut Opaque);
    fn weir_lanes_arch(lanes: *const Opaque) -> c_int;
    fn weir_lanes_expand(lanes: *mut Opaque, into: *mut LaneKey, key: *const u8, key_bytes: u64, iv: *const u8);
    fn weir_lanes_submit(lanes: *mut Opaque, jobs: *const Raw, order: *const u8, n: u32, bad: *mut u8) -> u32;
    fn weir_lanes_flush(lanes: *mut Opaque, n: u32, bad: *mut u8) -> u32;
}

/// The most jobs of a burst.
pub(crate) const BURST: usize = 64;

/// The most jobs in flight: what the library has room for, less one.
pub(crate) const MOST: usize = 255;

/// Jobs to submit together.
pub(crate) struct Burst {
    jobs: [Raw; BURST],
    len: usize,
}

// SAFETY: its pointers are to frames and keys that belong to whoever owns the burst, by `push`'s contract.
unsafe impl Send for Burst {}

impl Default for Burst {
    fn default() -> Self {
        let (frame, key) = (std::ptr::null_mut(), std::ptr::null());
        let none = Raw { frame, key, len: 0, clear: 0, crc: 0, key_bytes: 0, place: 0 };
        Self { jobs: [none; BURST], len: 0 }
    }
}

impl Burst {
    pub(crate) fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// Adds a job on `frame`, which begins at its destination address and ends behind its CRC, if that is done: added
    /// when encrypting, verified when decrypting. Its first `clear` bytes stay as they are. The key is one of `key_bytes`;
    /// `place` comes back when the job is through.
    ///
    /// # Safety
    /// Until the job is through, frame and key must stay where they are, and nobody else may touch them.
    #[inline]
    pub(crate) unsafe fn push(
        &mut self,
        frame: &mut [u8],
        (key, key_bytes): (&LaneKey, u8),
        clear: u8,
        crc: bool,
        place: u8,
    ) {
        // The library is not asked to check: DOCSIS jobs must have an Ethernet header before their CRC.
        assert!(frame.len() >= usize::from(clear) && (!crc || (frame.len() >= 18 && clear >= 12)));
        assert!(frame.len() <= usize::from(u16::MAX) && matches!(key_bytes, 16 | 32));
        let len = frame.len() as u32;
        self.jobs[self.len] = Raw { frame: frame.as_mut_ptr(), key, len, clear, crc: crc.into(), key_bytes, place };
        self.len += 1;
    }

    /// The jobs as they came.
    fn in_turn(&self) -> [u8; BURST] {
        std::array::from_fn(|n| n as u8) // fewer than 256
    }

    /// The jobs by their lengths, the shortest or the longest first.
    fn by_length(&self, longest_first: bool) -> [u8; BURST] {
        let class = |job: &Raw| (job.len as usize / CLASS).min(CLASSES - 1);
        let jobs = &self.jobs[..self.len];
        let mut next = [0u8; CLASSES];
        for job in jobs {
            next[class(job)] += 1; // at most a burst
        }
        let mut before = 0;
        for class in 0..CLASSES {
            let class = if longest_first { CLASSES - 1 - class } else { class };
            before += std::mem::replace(&mut next[class], before);
        }
        let mut order = [0; BURST];
        for (n, job) in jobs.iter().enumerate() {
            let at = &mut next[class(job)];
            order[usize::from(*at) % BURST] = n as u8;
            *at += 1;
        }
        order
    }
}

/// Bytes by which lengths are told apart for [`Burst::by_length`], and how many lengths so.
const CLASS: usize = 64;
const CLASSES: usize = 32;

/// One manager of the library: one direction of one worker.
pub(crate) struct Lanes {
    raw: NonNull<Opaque>,
    name: &'static str,
    encrypts: bool,
    /// The next burst begins with its longest frames.
    longest_first: bool,
    /// Places of the jobs in flight in the order of submission, as a ring: of the oldest, and how many.
    places: [u8; MOST + 1],
    oldest: u8,
    in_flight: usize,
    bad: [u8; 128],
}

// SAFETY: the library keeps nothing of the thread that made a manager; only `&mut self` reaches it.
unsafe impl Send for Lanes {}

impl Lanes {
    /// None when this processor has no AES instructions, or there is no memory.
    pub(crate) fn new(encrypt: bool) -> Option<Self> {
        // SAFETY: no preconditions; null is looked at.
        let raw = NonNull::new(unsafe { weir_lanes_new(encrypt.into()) })?;
        let mut this = Self {
            raw,
            name: "",
            encrypts: encrypt,
            longest_first: false,
            places: [0; MOST + 1],
            oldest: 0,
            in_flight: 0,
            bad: [0; 128],
        };
        // SAFETY: made just now.
        this.name = match unsafe { weir_lanes_arch(raw.as_ptr()) } {
            1 => "libipsec-mb (SSE)",
            2 => "libipsec-mb (AVX)",
            3 => "libipsec-mb (AVX2)",
            4 => "libipsec-mb (AVX-512)",
            _ => return None,
        };
        Some(this)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Expands an AES key.
    pub(crate) fn expand(&mut self, key: &Key) -> LaneKey {
        assert!(matches!((key.bytes().len(), key.iv().len()), (16 | 32, 16)), "an AES key");
        let mut into = LaneKey::default();
        // SAFETY: the lengths are those the shim reads; `into` has the size and alignment it writes (asserted there).
        unsafe {
            weir_lanes_expand(
                self.raw.as_ptr(),
                &mut into,
                key.bytes().as_ptr(),
                key.bytes().len() as u64,
                key.iv().as_ptr(),
            );
        }
        into
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Submits a burst and empties it. The oldest jobs that are through leave: `each` is given the place of each, and
    /// whether its CRC is wrong.
    #[inline]
    pub(crate) fn submit(&mut self, burst: &mut Burst, each: impl FnMut(u8, bool)) {
        assert!(self.in_flight + burst.len <= MOST, "room in the library's queue");
        if burst.len == 0 {
            // The library takes an empty burst into an empty queue for a full queue (seen in 1.3).
            return;
        }
        let order = if self.encrypts {
            // To and fro: what is left in the lanes is of the length that comes next.
            self.longest_first = !self.longest_first;
            burst.by_length(!self.longest_first)
        } else {
            // Decryption is done with a frame before it begins the next.
            burst.in_turn()
        };
        self.submit_ordered(burst, &order, each);
    }

    /// The same in the order in which they came, whatever their lengths.
    pub(crate) fn submit_in_turn(&mut self, burst: &mut Burst, each: impl FnMut(u8, bool)) {
        assert!(self.in_flight + burst.len <= MOST, "room in the library's queue");
        if burst.len > 0 {
            let order = burst.in_turn();
            self.submit_ordered(burst, &order, each);
        }
    }

    /// Submits jobs, for which there is room, in the order named.
    #[inline]
    fn submit_ordered(&mut self, burst: &mut Burst, order: &[u8; BURST], each: impl FnMut(u8, bool)) {
        for (n, job) in order[..burst.len].iter().enumerate() {
            let at = usize::from(self.oldest) + self.in_flight + n;
            self.places[at % (MOST + 1)] = burst.jobs[usize::from(*job) % BURST].place;
        }
        // SAFETY: jobs are valid by `push`'s contract, `order` names each of them once, and there is room for them; at most
        // as many leave as are in flight, of which the library gives no more than it was given now, and `bad` has room for
        // those.
        let done = unsafe {
            weir_lanes_submit(
                self.raw.as_ptr(),
                burst.jobs.as_ptr(),
                order.as_ptr(),
                burst.len as u32,
                self.bad.as_mut_ptr(),
            )
        };
        self.in_flight += burst.len;
        burst.len = 0;
        self.through(done, each);
    }

    /// Finishes the oldest jobs, at most `n`; `each` as for [`Lanes::submit`].
    pub(crate) fn flush(&mut self, n: usize, each: impl FnMut(u8, bool)) {
        let n = n.min(self.bad.len()) as u32;
        // SAFETY: at most `n` leave, and `bad` has room for those.
        let done = unsafe { weir_lanes_flush(self.raw.as_ptr(), n, self.bad.as_mut_ptr()) };
        self.through(done, each);
    }

    #[inline]
    fn through(&mut self, done: u32, mut each: impl FnMut(u8, bool)) {
        self.in_flight -= done as usize;
        for bad in &self.bad[..done as usize] {
            each(self.places[usize::from(self.oldest)], *bad != 0);
            self.oldest = self.oldest.wrapping_add(1);
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // SAFETY: made by `weir_lanes_new`, freed once. Jobs in flight are forgotten; nothing touches their frames.
        unsafe { weir_lanes_free(self.raw.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::bpi::crc32;
    use crate::key::Cipher;

    fn bytes(value: &Value) -> Vec<u8> {
        let hex = value.as_str().expect("text");
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
    }

    /// All that encrypt, wherever the encryption begins. The library's own CRC needs an Ethernet header before it.
    #[test]
    fn known_answers() {
        let vectors: Value = serde_json::from_str(include_str!("../tests/data/docsis_vectors.json")).expect("JSON");
        let mut seen = 0;
        for vector in vectors.as_array().expect("a list") {
            let number = |name: &str| vector.get(name).map_or(0, |value| value.as_u64().expect("a number") as usize);
            let is = |name: &str| vector.get(name).is_some_and(|value| value.as_bool().expect("a truth"));
            if is("no_cipher") {
                continue;
            }
            seen += 1;
            let (front, clear) = (number("crc_offset"), number("cipher_offset") - number("crc_offset"));
            let crc = vector.get("no_crc").is_some() && !is("no_crc");
            let cipher = if bytes(&vector["key"]).len() == 16 { Cipher::Aes128 } else { Cipher::Aes256 };
            let key = Key::new(cipher, &bytes(&vector["key"]), &bytes(&vector["iv"])).expect("an AES key");
            let (plain, out) = (bytes(&vector["plain"]), bytes(&vector["out"]));
            let mut frame = plain.clone();
            for encrypt in [true, false] {
                let mut lanes = Lanes::new(encrypt).expect("AES instructions");
                let key = lanes.expand(&key);
                let mut burst = Burst::default();
                // SAFETY: key and frame outlive the flush.
                unsafe { burst.push(&mut frame[front..], (&key, cipher.key_bytes() as u8), clear as u8, crc, 7) };
                let mut through = Vec::new();
                lanes.submit(&mut burst, |place, bad| through.push((place, bad)));
                lanes.flush(1, |place, bad| through.push((place, bad)));
                assert_eq!((through, lanes.in_flight()), (vec![(7, false)], 0));
                let mut expected = if encrypt { out.clone() } else { plain.clone() };
                if crc && !encrypt {
                    let end = expected.len() - 4;
                    let crc = crc32(&expected[front..end]);
                    expected[end..].copy_from_slice(&crc);
                }
                assert_eq!(frame, expected, "{}", vector["descr"]);
            }
        }
        assert_eq!(seen, 24);
    }

    /// Whatever lengths come: every job once, and no two lengths that differ much the wrong way round.
    #[test]
    fn bursts_are_put_in_order_of_length() {
        let mut burst = Burst::default();
        let (key, mut bytes) = (LaneKey::default(), [0; 4000]);
        for n in 0..BURST {
            // SAFETY: never submitted.
            unsafe { burst.push(&mut bytes[..(n * 977 + 60) % 3000 + 14], (&key, 16), 12, false, 0) };
        }
        for longest_first in [false, true] {
            let order = burst.by_length(longest_first);
            let mut all = order;
            all.sort_unstable();
            assert_eq!(all, burst.in_turn());
            let classes: Vec<usize> = order.iter().map(|n| burst.jobs[usize::from(*n)].len as usize / CLASS).collect();
            let most = |class: usize| class.min(CLASSES - 1);
            let rises = classes.windows(2).all(|pair| most(pair[0]) <= most(pair[1]));
            let falls = classes.windows(2).all(|pair| most(pair[0]) >= most(pair[1]));
            assert_eq!((rises, falls), (!longest_first, longest_first));
        }
    }
}
