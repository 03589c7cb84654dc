//! Maps that this process reads and writes as memory.

use std::os::fd::AsFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BpfError, Map, MapType, get_named, give_name};

/// `BPF_F_MMAPABLE`.
pub(super) const MMAPABLE: u32 = 1 << 10;

/// An array of values that a program in the kernel and this process share, as words of 64 bits: both read and write them
/// at any time, one word in one piece. Who may write what, and when, is for the two to agree on.
#[derive(Debug)]
pub struct SharedWords {
    // Dropped after the mapping is gone: see `Drop`.
    map: Map,
    at: NonNull<AtomicU64>,
    /// Words of a value.
    stride: usize,
    entries: usize,
}

// SAFETY: the mapping is of no thread, and what it is made of are atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Makes an array of `entries` values of `value` bytes, a multiple of 8, and maps it.
    ///
    /// # Errors
    /// [`BpfError::Map`], or [`BpfError::Size`] where values are no whole words.
    pub fn new(value: usize, entries: u32) -> Result<Self, BpfError> {
        let map = Map::with_flags(MapType::Array, 4, value, entries, MMAPABLE)?;
        Self::of(map, value, entries)
    }

    /// The array of a name in a BPF file system, with values of that many bytes.
    ///
    /// # Errors
    /// [`BpfError::Map`]: there is none, or it has another shape.
    pub fn named(path: &Path, value: usize) -> Result<Self, BpfError> {
        let fd = get_named(path).map_err(|source| BpfError::Map { what: "of that name", source })?;
        let (map, entries) = Map::of(fd, MapType::Array, 4, value)?;
        Self::of(map, value, entries)
    }

    /// As [`named`](Self::named), of whatever size its values are.
    ///
    /// # Errors
    /// [`BpfError`]: no map has that name, or it cannot be mapped.
    pub fn named_of_any(path: &Path) -> Result<Self, BpfError> {
        let failed = |source| BpfError::Map { what: "of that name", source };
        let fd = get_named(path).map_err(failed)?;
        let info: super::sys::MapInfo = super::info::of(fd.as_fd()).map_err(failed)?;
        let value = info.value_size as usize;
        let (map, entries) = Map::of(fd, MapType::Array, 4, value)?;
        Self::of(map, value, entries)
    }

    /// Octets of a value.
    pub fn value_bytes(&self) -> usize {
        self.stride * 8
    }

    /// Gives the array a name in a BPF file system.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn give_name(&self, path: &Path) -> std::io::Result<()> {
        give_name(self.map.as_fd(), path)
    }

    fn of(map: Map, value: usize, entries: u32) -> Result<Self, BpfError> {
        if value == 0 || !value.is_multiple_of(8) {
            return Err(BpfError::Size { given: value, wanted: 8 });
        }
        let entries = entries as usize;
        let bytes = value * entries;
        // SAFETY: a new mapping of a map that was made to be mapped, of its own size; the kernel rounds up to pages.
        let at = unsafe {
            let (flags, protection) = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, map.raw_fd(), 0)
        };
        let failed = || BpfError::Map { what: "could not be mapped", source: std::io::Error::last_os_error() };
        if at == libc::MAP_FAILED {
            return Err(failed());
        }
        let at = NonNull::new(at.cast()).ok_or_else(failed)?;
        Ok(Self { map, at, stride: value / 8, entries })
    }

    /// Values in it.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The words of value `n`; of one that is not there, none.
    #[inline]
    pub fn get(&self, n: usize) -> &[AtomicU64] {
        if n >= self.entries {
            return &[];
        }
        // SAFETY: within the mapping, which lives as long as this value and is aligned to pages. Nobody ever refers to it
        // but by atomics; what the kernel's program does is atomic to the same words.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(n * self.stride), self.stride) }
    }

    /// Writes value `n` from `from` bytes on, in whole words.
    pub fn write(&self, n: usize, from: usize, bytes: &[u8]) {
        for (word, bytes) in self.get(n).iter().skip(from / 8).zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// Reads value `n` from `from` bytes on, in whole words.
    pub fn read(&self, n: usize, from: usize, into: &mut [u8]) {
        for (word, bytes) in self.get(n).iter().skip(from / 8).zip(into.as_chunks_mut::<8>().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
    }

    /// The map, for a program.
    pub(super) fn map(&self) -> &Map {
        &self.map
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `of`; no reference to it outlives this value.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.stride * 8 * self.entries) };
    }
}

/// The kernel's monotonic clock, which programs in it read too, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// A clock of the kernel's, in nanoseconds.
pub(super) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux; `time` outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_the_maps() {
        let words = SharedWords::new(24, 5).expect("root and BPF");
        assert_eq!((words.len(), words.is_empty()), (5, false));
        words.write(4, 8, &[7; 16]);
        let mut value = [0; 24];
        assert!(words.map().lookup(&4_u32.to_ne_bytes(), &mut value).expect("lookup"));
        assert_eq!(value, [[0; 8], [7; 8], [7; 8]].concat()[..]);
        words.map().update(&0_u32.to_ne_bytes(), &[9; 24]).expect("update");
        words.read(0, 0, &mut value);
        assert_eq!(value, [9; 24]);
        assert_eq!(words.get(0)[2].load(Ordering::Relaxed), 0x0909_0909_0909_0909);
        assert!(words.get(5).is_empty());
    }

    #[test]
    fn values_are_whole_words() {
        assert!(matches!(SharedWords::new(12, 1), Err(BpfError::Size { given: 12, wanted: 8 })));
    }
}
