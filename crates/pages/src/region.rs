//! One mapping on the largest pages available.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{ahead, touch};

pub(crate) const HUGE: usize = 2 << 20;
const SMALL: usize = 4096;
/// Made present by one call: some 50 ms, in which the thread hears no signal.
const PIECE: usize = 16 * HUGE;
/// Merges pages into huge ones at once, whatever `shmem_enabled` is (Linux 6.1). libc has it for some C libraries only.
const MADV_COLLAPSE: libc::c_int = 25;

/// Which pages a [`Region`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Reserved 2 MiB pages (`/proc/sys/vm/nr_hugepages`).
    Huge,
    /// Ordinary pages the kernel was asked to merge into 2 MiB ones; how far it did is its own affair.
    Transparent,
    /// Ordinary 4 KiB pages: the region is too small for more.
    Small,
}

impl Backing {
    /// The word shown in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Huge => "huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Small => "4 KiB pages",
        }
    }
}

/// A zeroed, page-aligned piece of memory that lives as long as this value. Plain bytes: whoever holds it decides who
/// may touch which part, and answers for aliasing.
pub struct Region {
    /// The mapping's, at hand.
    base: NonNull<u8>,
    mapping: Arc<Mapping>,
    backing: Backing,
    /// The memory as a file, of a region that other processes can map.
    file: Option<OwnedFd>,
}

/// What is unmapped when nobody has it any more.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// Its pages are reserved ones.
    is_reserved: bool,
}

// SAFETY: an address range that is nobody else's; it has no thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: sharing `&Mapping` gives out only its address and length, and lets pages be made present, which changes nothing;
// access through the pointer is the holder's duty.
unsafe impl Sync for Mapping {}
// SAFETY: as its mapping, whose address it repeats.
unsafe impl Send for Region {}
// SAFETY: as its mapping, whose address it repeats.
unsafe impl Sync for Region {}

impl Mapping {
    /// See [`Region::populate`].
    pub(crate) fn populate(&self, at: usize, len: usize) -> io::Result<()> {
        let at = at.min(self.len) / SMALL * SMALL;
        let len = len.min(self.len - at);
        if cfg!(miri) || len == 0 {
            return Ok(());
        }
        for from in (at..at + len).step_by(PIECE) {
            let piece = PIECE.min(at + len - from);
            // SAFETY: a part of our own mapping, as just cut; populating changes no content.
            let done = unsafe { libc::madvise(self.base.as_ptr().add(from).cast(), piece, libc::MADV_POPULATE_WRITE) };
            match io::Error::last_os_error() {
                error if done != 0 && error.raw_os_error() == Some(libc::ENOMEM) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// As [`populate`](Self::populate), while others use the mapping and change other ones: for pages asked for by request
    /// these wait, several milliseconds a page where a hypervisor has to find the memory; for a page that is touched they
    /// don't.
    pub(crate) fn populate_beside(&self, at: usize, len: usize) -> io::Result<()> {
        if self.is_reserved || !touch::IS_KNOWN {
            // Touching a reserved page that is not available after all would end the process.
            return self.populate(at, len);
        }
        let end = self.len.min(at.saturating_add(len));
        for at in (at..end).step_by(SMALL) {
            // SAFETY: a byte of our own mapping, as just cut.
            unsafe { touch::touch(self.base.as_ptr().add(at)) };
        }
        Ok(())
    }

    fn advise_huge(&self) {
        // SAFETY: exactly our mapping; the advice changes no content. A refusal costs speed only.
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_HUGEPAGE)
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range mapped, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Region {
    /// Maps at least `bytes` bytes of zeroes. Tries reserved huge pages first when more than half of one, a megabyte, is
    /// asked for; never fails for want of them.
    ///
    /// # Errors
    /// What `mmap` said, when even ordinary pages were refused.
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes > HUGE / 2 {
            let mapped = bytes.next_multiple_of(HUGE);
            if let Ok(base) = map(mapped, libc::MAP_HUGETLB) {
                return Ok(Self::of(base, mapped, Backing::Huge));
            }
            return Ok(Self::of(map_aligned(mapped, 0)?, mapped, Backing::Transparent));
        }
        let mapped = bytes.max(1).next_multiple_of(SMALL);
        Ok(Self::of(map(mapped, 0)?, mapped, Backing::Small))
    }

    fn of(base: NonNull<u8>, len: usize, backing: Backing) -> Self {
        let mapping = Mapping { base, len, is_reserved: backing == Backing::Huge };
        if backing == Backing::Transparent {
            mapping.advise_huge();
        }
        Self { base, mapping: Arc::new(mapping), backing, file: None }
    }

    /// A range of at least `bytes` zeroes that is there to be addressed, its memory taken piece by piece with
    /// [`populate`](Self::populate) (or at first touch): what begins small and may grow without moving. Transparent
    /// huge pages; reserved ones would have to be paid for whole.
    ///
    /// # Errors
    /// What `mmap` said, when there are not that many addresses (or, where the host doesn't overcommit, that much
    /// memory).
    pub fn reserve(bytes: usize) -> io::Result<Self> {
        let mapped = bytes.max(1).checked_next_multiple_of(HUGE).filter(|&n| n <= isize::MAX as usize / 2);
        let mapped = mapped.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::of(map_aligned(mapped, libc::MAP_NORESERVE)?, mapped, Backing::Transparent))
    }

    /// As [`Region::new`], of memory that is a file as well (see [`Region::file`]). Its transparent huge pages depend on
    /// `shmem_enabled` (in /sys/kernel/mm/transparent_hugepage), or on Linux 6.1.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn shared(bytes: usize) -> io::Result<Self> {
        let mapped = bytes.max(1).next_multiple_of(HUGE);
        if let Ok(file) = memory_file(mapped, libc::MFD_HUGETLB)
            && let Ok(base) = map_file(&file, None, mapped)
        {
            return Ok(Self { file: Some(file), ..Self::of(base, mapped, Backing::Huge) });
        }
        let file = memory_file(mapped, 0)?;
        let place = map_aligned(mapped, libc::MAP_NORESERVE)?;
        let base = map_file(&file, Some(place), mapped)?;
        Ok(Self { file: Some(file), ..Self::of(base, mapped, Backing::Transparent) })
    }

    /// The same memory as that of another process's [shared](Region::shared) region of as many bytes, by its file. What
    /// is in it stays as it is.
    ///
    /// # Errors
    /// `InvalidInput` when the file is of another size, or what the kernel said.
    pub fn of_file(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let mapped = bytes.max(1).next_multiple_of(HUGE);
        let (size, is_reserved) = describe(&file)?;
        if size != mapped as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "memory of another size"));
        }
        let (base, backing) = match is_reserved {
            true => (map_file(&file, None, mapped)?, Backing::Huge),
            false => {
                let place = map_aligned(mapped, libc::MAP_NORESERVE)?;
                (map_file(&file, Some(place), mapped)?, Backing::Transparent)
            }
        };
        Ok(Self { file: Some(file), ..Self::of(base, mapped, backing) })
    }

    /// The file by which another process can map the same memory; none: nobody can.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd)
    }

    /// First byte of the region; aligned to its page size.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped: what was asked for, rounded up to whole pages.
    pub fn len(&self) -> usize {
        self.mapping.len
    }

    /// Never true: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pages it rests on.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Makes every page present now, so that no packet pays for the first fault. Content stays as it is. Kernels before
    /// 5.14 don't know the request; there pages come at first use.
    pub fn prefault(&self) {
        // Without the memory the first use fails as it would have without asking.
        let _ = self.populate(0, self.len());
        if self.file.is_some() && self.backing == Backing::Transparent && !cfg!(miri) {
            // SAFETY: exactly our mapping, whose content stays as it is. Where the kernel can't, the pages stay small.
            unsafe { libc::madvise(self.base.as_ptr().cast(), self.len(), MADV_COLLAPSE) };
        }
    }

    /// As [`prefault`](Self::prefault), for the part of `len` bytes from `at`, as far as it is in the region.
    ///
    /// # Errors
    /// `OutOfMemory` when the host has not that much.
    pub fn populate(&self, at: usize, len: usize) -> io::Result<()> {
        self.mapping.populate(at, len)
    }

    /// The same by and by, by a thread of its own (see [`prepare_growth`](crate::prepare_growth)), while others use the
    /// region.
    pub fn populate_ahead(&self, at: usize, len: usize) {
        ahead::wish(&self.mapping, at, len);
    }
}

fn map(bytes: usize, extra: i32) -> io::Result<NonNull<u8>> {
    if cfg!(miri) && extra != 0 {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    // SAFETY: a fresh private anonymous mapping; no existing memory is touched.
    let got = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra,
            -1,
            0,
        )
    };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(got.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// A file of `bytes` bytes in memory.
fn memory_file(bytes: usize, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: a terminated string that outlives the call.
    let fd = unsafe { libc::memfd_create(c"weir".as_ptr(), libc::MFD_CLOEXEC | flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let len = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: takes no pointers.
    if unsafe { libc::ftruncate(file.as_raw_fd(), len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Bytes of a file in memory, and whether its pages are reserved huge ones.
fn describe(file: &OwnedFd) -> io::Result<(u64, bool)> {
    let mut system = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: a structure of numbers to write to.
    if unsafe { libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeroes before, and the kernel wrote numbers over it.
    let system = unsafe { system.assume_init() };
    let size = std::fs::File::from(file.try_clone()?).metadata()?.len();
    Ok((size, system.f_type == libc::HUGETLBFS_MAGIC))
}

/// Maps the file, over the mapping of `bytes` bytes at `place` if there is one.
fn map_file(file: &OwnedFd, place: Option<NonNull<u8>>, bytes: usize) -> io::Result<NonNull<u8>> {
    let (at, fixed) = place.map_or((std::ptr::null_mut(), 0), |place| (place.as_ptr(), libc::MAP_FIXED));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping, or one over a mapping of our own that nobody uses yet.
    let got = unsafe { libc::mmap(at.cast(), bytes, protection, libc::MAP_SHARED | fixed, file.as_raw_fd(), 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(got.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// Maps `bytes` (a multiple of 2 MiB) at a 2 MiB boundary, so that every part can become a huge page.
fn map_aligned(bytes: usize, extra: i32) -> io::Result<NonNull<u8>> {
    if cfg!(miri) {
        return map(bytes, 0);
    }
    let raw = map(bytes.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?, extra)?;
    let skip = raw.as_ptr().align_offset(HUGE);
    // SAFETY: both ranges lie inside the mapping just made (`skip` < HUGE) and outside the part that is kept.
    unsafe {
        if skip > 0 {
            libc::munmap(raw.as_ptr().cast(), skip);
        }
        let kept = raw.as_ptr().add(skip);
        libc::munmap(kept.add(bytes).cast(), HUGE - skip);
        Ok(NonNull::new_unchecked(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zeroed_aligned_and_large_enough() {
        for bytes in [1, 4096, 5000, HUGE / 2, HUGE / 2 + 1, HUGE, HUGE + 1] {
            let region = Region::new(bytes).expect("memory");
            assert!(region.len() >= bytes && !region.is_empty());
            let page = if region.backing() == Backing::Small || cfg!(miri) { SMALL } else { HUGE };
            assert_eq!(region.base().as_ptr() as usize % page, 0);
            region.prefault();
            // SAFETY: the last byte of a live mapping nobody else uses.
            assert_eq!(unsafe { region.base().as_ptr().add(region.len() - 1).read() }, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "no files in memory")]
    fn another_mapping_of_a_shared_region_has_the_same_bytes() {
        let region = Region::shared(HUGE + 1).expect("memory");
        assert_eq!((region.len(), region.base().as_ptr() as usize % HUGE), (2 * HUGE, 0));
        region.prefault();
        let file = region.file().unwrap().try_clone_to_owned().unwrap();
        assert!(Region::of_file(file.try_clone().unwrap(), 2 * HUGE + 1).is_err(), "of another size");
        let again = Region::of_file(file, HUGE + 1).unwrap();
        assert_eq!((again.backing(), again.base().as_ptr() as usize % HUGE), (region.backing(), 0));
        // SAFETY: bytes of two live mappings nobody else uses.
        unsafe {
            region.base().as_ptr().add(HUGE).write(7);
            again.populate(0, again.len()).unwrap();
            assert_eq!((again.base().as_ptr().add(HUGE).read(), again.base().as_ptr().read()), (7, 0));
        }
        assert!(Region::new(HUGE).unwrap().file().is_none());
    }

    #[test]
    fn a_reserved_range_is_zeroed_and_populated_by_the_part() {
        let region = Region::reserve(if cfg!(miri) { HUGE } else { 1 << 32 }).expect("addresses");
        assert!(region.populate(HUGE / 2, SMALL).is_ok() && region.populate(usize::MAX, usize::MAX).is_ok());
        // SAFETY: bytes of a live mapping nobody else uses.
        assert_eq!(unsafe { region.base().as_ptr().add(HUGE / 2).read() }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { region.base().as_ptr().add(region.len() - 1).read() }, 0);
        assert!(Region::reserve(usize::MAX).is_err() && Region::reserve(usize::MAX / 2).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "the kernel is asked which pages are there")]
    fn pages_asked_for_ahead_come_while_the_region_is_used() {
        crate::prepare_growth();
        let region = Region::reserve(4 * HUGE).expect("addresses");
        let present = || {
            let mut pages = vec![0u8; region.len() / SMALL];
            // SAFETY: one byte for each page of a live mapping.
            let done = unsafe { libc::mincore(region.base().as_ptr().cast(), region.len(), pages.as_mut_ptr()) };
            assert_eq!(done, 0);
            pages.iter().filter(|page| **page & 1 == 1).count() * SMALL
        };
        assert_eq!(present(), 0);
        region.populate_ahead(HUGE, 2 * HUGE);
        let begin = std::time::Instant::now();
        while present() < 2 * HUGE && begin.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(present(), 2 * HUGE);
        // A region may go before its turn comes.
        drop((0..4).map(|_| Region::reserve(HUGE).unwrap().populate_ahead(0, HUGE)).collect::<Vec<_>>());
    }
}
