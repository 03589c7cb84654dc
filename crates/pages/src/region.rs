//! One anonymous mapping on the largest pages to be had.

use std::io;
use std::ptr::NonNull;

const HUGE: usize = 2 << 20;
const SMALL: usize = 4096;

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
    base: NonNull<u8>,
    mapped: usize,
    backing: Backing,
}

// SAFETY: a region is an address range owned by this value alone; it has no thread affinity.
unsafe impl Send for Region {}
// SAFETY: sharing `&Region` gives out only its address and length; access through the pointer is the holder's duty.
unsafe impl Sync for Region {}

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
                return Ok(Self { base, mapped, backing: Backing::Huge });
            }
            let region = Self { base: map_aligned(mapped, 0)?, mapped, backing: Backing::Transparent };
            region.advise_huge();
            return Ok(region);
        }
        let mapped = bytes.max(1).next_multiple_of(SMALL);
        Ok(Self { base: map(mapped, 0)?, mapped, backing: Backing::Small })
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
        let base = map_aligned(mapped, libc::MAP_NORESERVE)?;
        let region = Self { base, mapped, backing: Backing::Transparent };
        region.advise_huge();
        Ok(region)
    }

    /// First byte of the region; aligned to its page size.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped: what was asked for, rounded up to whole pages.
    pub fn len(&self) -> usize {
        self.mapped
    }

    /// Never true: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.mapped == 0
    }

    /// The pages it rests on.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Makes every page present now, so that no packet pays for the first fault. Content stays as it is. Kernels before
    /// 5.14 don't know the request; there pages come at first use.
    pub fn prefault(&self) {
        // Without the memory the first use fails as it would have without asking.
        let _ = self.populate(0, self.mapped);
    }

    /// As [`prefault`](Self::prefault), for the part of `len` bytes from `at`, as far as it is in the region.
    ///
    /// # Errors
    /// `OutOfMemory` when the host has not that much.
    pub fn populate(&self, at: usize, len: usize) -> io::Result<()> {
        let at = at.min(self.mapped) / SMALL * SMALL;
        let len = len.min(self.mapped - at);
        if cfg!(miri) || len == 0 {
            return Ok(());
        }
        // SAFETY: a part of our own mapping, as just cut; populating changes no content.
        let done = unsafe { libc::madvise(self.base.as_ptr().add(at).cast(), len, libc::MADV_POPULATE_WRITE) };
        match io::Error::last_os_error() {
            error if done != 0 && error.raw_os_error() == Some(libc::ENOMEM) => Err(error),
            _ => Ok(()),
        }
    }

    fn advise_huge(&self) {
        // SAFETY: exactly our mapping; the advice changes no content. A refusal costs speed only.
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(self.base.as_ptr().cast(), self.mapped, libc::MADV_HUGEPAGE)
        };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the range mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
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
    fn a_reserved_range_is_zeroed_and_populated_by_the_part() {
        let region = Region::reserve(if cfg!(miri) { HUGE } else { 1 << 32 }).expect("addresses");
        assert!(region.populate(HUGE / 2, SMALL).is_ok() && region.populate(usize::MAX, usize::MAX).is_ok());
        // SAFETY: bytes of a live mapping nobody else uses.
        assert_eq!(unsafe { region.base().as_ptr().add(HUGE / 2).read() }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { region.base().as_ptr().add(region.len() - 1).read() }, 0);
        assert!(Region::reserve(usize::MAX).is_err() && Region::reserve(usize::MAX / 2).is_err());
    }
}
