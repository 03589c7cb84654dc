//! Maps: the memory a program and we share.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::{BpfError, sys};

/// Kinds of map, by their number in `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// Keys and values.
    Hash = 1,
    /// Values by index (u32).
    Array = 2,
    /// Programs by index, for tail calls.
    ProgArray = 3,
    /// Values by index, one for each CPU.
    PerCpuArray = 6,
    /// Values by longest prefix.
    LpmTrie = 11,
    /// Interfaces by index, to send by.
    DevMap = 14,
    /// AF_XDP sockets by index.
    XskMap = 17,
}

/// A map in the kernel. Freed when this value and every program that uses it are gone.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
    per_cpu: bool,
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// [`BpfError::Map`] when the process may not, or the sizes do not suit the kind.
    pub fn new(kind: MapType, key: usize, value: usize, entries: u32) -> Result<Self, BpfError> {
        /// `BPF_F_NO_PREALLOC`, which a trie insists on.
        const NO_PREALLOC: u32 = 1;
        Self::with_flags(kind, key, value, entries, if kind == MapType::LpmTrie { NO_PREALLOC } else { 0 })
    }

    /// As [`Map::new`], with flags as of `enum bpf_map_flags`.
    pub(super) fn with_flags(
        kind: MapType,
        key: usize,
        value: usize,
        entries: u32,
        flags: u32,
    ) -> Result<Self, BpfError> {
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut attr = sys::MapCreate {
            map_type: kind as u32,
            key_size: size(key),
            value_size: size(value),
            max_entries: entries,
            map_flags: flags,
            name: sys::object_name("weir"),
            ..Default::default()
        };
        // SAFETY: the head of bpf_attr for this command; it holds no addresses.
        let fd = unsafe { sys::bpf_fd(sys::MAP_CREATE, &mut attr) }
            .map_err(|source| BpfError::Map { what: "could not be made", source })?;
        Ok(Self { fd, key, value, per_cpu: kind == MapType::PerCpuArray })
    }

    /// The map of a descriptor, if it has the shape that [`Map::new`] would make; and how many entries it has.
    ///
    /// # Errors
    /// [`BpfError::Map`]: it has another one.
    pub(crate) fn of(fd: OwnedFd, kind: MapType, key: usize, value: usize) -> Result<(Self, u32), BpfError> {
        let failed = |source| BpfError::Map { what: "of another process", source };
        let info: sys::MapInfo = super::info::of(fd.as_fd()).map_err(failed)?;
        let is_like = (info.map_type, info.key_size as usize, info.value_size as usize) == (kind as u32, key, value);
        if !is_like {
            return Err(failed(std::io::ErrorKind::InvalidData.into()));
        }
        Ok((Self { fd, key, value, per_cpu: kind == MapType::PerCpuArray }, info.max_entries))
    }

    /// Values of `value` bytes by index.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn array(value: usize, entries: u32) -> Result<Self, BpfError> {
        Self::new(MapType::Array, 4, value, entries)
    }

    /// Values of `value` bytes by index, one for each CPU.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn per_cpu_array(value: usize, entries: u32) -> Result<Self, BpfError> {
        Self::new(MapType::PerCpuArray, 4, value, entries)
    }

    /// Values by keys.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn hash(key: usize, value: usize, entries: u32) -> Result<Self, BpfError> {
        Self::new(MapType::Hash, key, value, entries)
    }

    /// Programs by index, for tail calls.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn programs(entries: u32) -> Result<Self, BpfError> {
        Self::new(MapType::ProgArray, 4, 4, entries)
    }

    /// Has packets that the program redirects to entry `index` leave by an interface of the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// As [`Map::update`]: there is no such interface.
    pub fn set_interface(&self, index: u32, ifindex: u32) -> Result<(), BpfError> {
        self.update(&index.to_ne_bytes(), &ifindex.to_ne_bytes())
    }

    /// AF_XDP sockets by index.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn sockets(entries: u32) -> Result<Self, BpfError> {
        Self::new(MapType::XskMap, 4, 4, entries)
    }

    /// Values by prefix: a key is the prefix length in bits (u32 in the host's order) and `bytes` bytes.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn prefixes(bytes: usize, value: usize, entries: u32) -> Result<Self, BpfError> {
        Self::new(MapType::LpmTrie, 4 + bytes, value, entries)
    }

    /// Its descriptor, for an instruction or another map.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets the value of a key. For a [`MapType::PerCpuArray`] the value of all CPUs in turn, each rounded up to 8
    /// bytes.
    ///
    /// # Errors
    /// [`BpfError::Size`] or what the kernel said.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        fits(key.len(), self.key)?;
        fits(value.len(), self.value_bytes()?)?;
        let mut attr = self.element(key, value.as_ptr());
        // SAFETY: key and value are readable for the map's sizes, as just checked.
        unsafe { sys::bpf(sys::MAP_UPDATE, &mut attr) }
            .map_err(|source| BpfError::Map { what: "entry could not be set", source })?;
        Ok(())
    }

    /// Sets entry `index` to a descriptor: a program's or a socket's.
    ///
    /// # Errors
    /// As [`Map::update`].
    pub fn set_fd(&self, index: u32, fd: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.update(&index.to_ne_bytes(), &fd.as_raw_fd().to_ne_bytes())
    }

    /// Sets entry `index` to a socket's descriptor, unless it has another socket: then false. The kernel empties the entry
    /// when the socket is closed.
    ///
    /// # Errors
    /// As [`Map::update`].
    pub(crate) fn set_fd_if_empty(&self, index: u32, fd: BorrowedFd<'_>) -> Result<bool, BpfError> {
        let (key, value) = (index.to_ne_bytes(), fd.as_raw_fd().to_ne_bytes());
        fits(key.len(), self.key)?;
        fits(value.len(), self.value_bytes()?)?;
        let mut attr = sys::MapElement { flags: sys::NO_EXIST, ..self.element(&key, value.as_ptr()) };
        // SAFETY: key and value are readable for the map's sizes, as just checked.
        match unsafe { sys::bpf(sys::MAP_UPDATE, &mut attr) } {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            Err(source) => Err(BpfError::Map { what: "entry could not be set", source }),
        }
    }

    /// Reads the value of a key into `value`; false when there is none. For a [`MapType::PerCpuArray`] see
    /// [`Map::update`].
    ///
    /// # Errors
    /// [`BpfError::Size`] or what the kernel said.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<bool, BpfError> {
        fits(key.len(), self.key)?;
        fits(value.len(), self.value_bytes()?)?;
        let mut attr = self.element(key, value.as_mut_ptr());
        // SAFETY: the key is readable and the value writable for the map's sizes, as just checked.
        match unsafe { sys::bpf(sys::MAP_LOOKUP, &mut attr) } {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(source) => Err(BpfError::Map { what: "entry could not be read", source }),
        }
    }

    /// Removes a key; false when it was not there.
    ///
    /// # Errors
    /// [`BpfError::Size`] or what the kernel said.
    pub fn delete(&self, key: &[u8]) -> Result<bool, BpfError> {
        fits(key.len(), self.key)?;
        let mut attr = self.element(key, std::ptr::null());
        // SAFETY: the key is readable for the map's size; the command ignores the value.
        match unsafe { sys::bpf(sys::MAP_DELETE, &mut attr) } {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(source) => Err(BpfError::Map { what: "entry could not be removed", source }),
        }
    }

    /// The `N` counters at `index` of a [`MapType::PerCpuArray`] of `[u64; N]`, summed over all CPUs.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn sum<const N: usize>(&self, index: u32) -> Result<[u64; N], BpfError> {
        fits(N * 8, self.value)?;
        let mut raw = vec![0; self.value_bytes()?];
        let mut sums = [0_u64; N];
        if self.lookup(&index.to_ne_bytes(), &mut raw)? {
            for cpu in raw.chunks_exact(N * 8) {
                for (sum, word) in sums.iter_mut().zip(cpu.as_chunks::<8>().0) {
                    *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
                }
            }
        }
        Ok(sums)
    }

    fn element(&self, key: &[u8], value: *const u8) -> sys::MapElement {
        sys::MapElement {
            // A descriptor is not negative.
            map_fd: self.raw_fd() as u32,
            key: sys::address(key.as_ptr()),
            value: sys::address(value),
            ..Default::default()
        }
    }

    /// Bytes the kernel reads or writes for one value.
    fn value_bytes(&self) -> Result<usize, BpfError> {
        if !self.per_cpu {
            return Ok(self.value);
        }
        let cpus = possible_cpus().map_err(|source| BpfError::Map { what: "the number of CPUs is unknown", source })?;
        Ok(self.value.next_multiple_of(8) * cpus)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn fits(given: usize, wanted: usize) -> Result<(), BpfError> {
    if given == wanted { Ok(()) } else { Err(BpfError::Size { given, wanted }) }
}

/// CPUs that may ever be: what per-CPU maps are sized by.
///
/// # Errors
/// The kernel does not say.
pub fn possible_cpus() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count_cpus(text.trim()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// CPUs in a list such as `0-3,8`.
fn count_cpus(list: &str) -> Option<usize> {
    let mut cpus = 0;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus += last.checked_sub(first)? + 1;
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-1"), Some(2));
        assert_eq!(count_cpus("0-3,8,10-11"), Some(7));
        assert_eq!(count_cpus(""), None);
        assert_eq!(count_cpus("3-1"), None);
    }

    #[test]
    fn entries_come_back_as_they_were_set() {
        let hash = Map::hash(4, 8, 16).expect("root and BPF");
        let mut value = [0; 8];
        assert!(!hash.lookup(&[1, 2, 3, 4], &mut value).expect("lookup"));
        hash.update(&[1, 2, 3, 4], &[9; 8]).expect("update");
        assert!(hash.lookup(&[1, 2, 3, 4], &mut value).expect("lookup"));
        assert_eq!(value, [9; 8]);
        assert!(hash.delete(&[1, 2, 3, 4]).expect("delete"));
        assert!(!hash.delete(&[1, 2, 3, 4]).expect("delete"));
        assert!(matches!(hash.update(&[1], &[9; 8]), Err(BpfError::Size { given: 1, wanted: 4 })));
    }

    #[test]
    fn per_cpu_counters_are_summed() {
        let map = Map::per_cpu_array(24, 1).expect("root and BPF");
        let cpus = possible_cpus().expect("sysfs");
        let raw: Vec<u8> = (0..cpus).flat_map(|_| [1_u64, 2, 3]).flat_map(u64::to_ne_bytes).collect();
        map.update(&0_u32.to_ne_bytes(), &raw).expect("update");
        let n = cpus as u64;
        assert_eq!(map.sum::<3>(0).expect("sum"), [n, 2 * n, 3 * n]);
    }
}
