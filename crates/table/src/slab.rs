//! A fixed slice on a region of huge pages.

use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use pages::{Backing, Region};

/// Types for which all-zero bytes are a valid value and which need no drop.
///
/// # Safety
/// Exactly that: a slab hands out fresh zeroed memory as `[Self]` and never drops the elements.
pub(crate) unsafe trait Zeroed {}

/// `len` values of `T` on the largest pages available, zeroed at first.
pub(crate) struct Slab<T> {
    region: Region,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Zeroed> Slab<T> {
    /// Maps room for `len` values. Errors are those of the mapping.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0) };
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).filter(|&b| b <= isize::MAX as usize / 2).ok_or_else(too_much)?;
        Ok(Self { region: Region::new(bytes)?, len, of: PhantomData })
    }

    /// Makes all pages present now.
    pub(crate) fn prefault(&self) {
        self.region.prefault();
    }

    /// Has that done by and by, by another thread.
    pub(crate) fn prefault_ahead(&self) {
        self.region.populate_ahead(0, self.region.len());
    }

    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// The pages it rests on.
    pub(crate) fn backing(&self) -> Backing {
        self.region.backing()
    }
}

impl<T> Deref for Slab<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the region holds at least `len` values, page-aligned, zeroed at first (valid by `Zeroed`) and since
        // then written only as `T`; it belongs to this slab alone, so `&self` excludes writers.
        unsafe { std::slice::from_raw_parts(self.region.base().cast::<T>().as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Slab<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` excludes everyone else.
        unsafe { std::slice::from_raw_parts_mut(self.region.base().cast::<T>().as_ptr(), self.len) }
    }
}
