//! A write that changes nothing.

/// Whether it can be done on this machine.
pub(crate) const IS_KNOWN: bool = cfg!(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")));

/// Has the page with that byte made present, as any write would; whatever the byte is, it stays, also while others write to
/// it. In a language that knows threads only this would be a race. To the processor it is one more write that is atomic;
/// to the compiler, nothing.
///
/// # Safety
/// The byte is mapped, and may be written to.
#[inline]
pub(crate) unsafe fn touch(byte: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's; memory keeps its content.
    unsafe {
        std::arch::asm!("lock or byte ptr [{0}], 0", in(reg) byte, options(nostack));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the caller's; memory keeps its content.
    unsafe {
        std::arch::asm!(
            "2:", "ldxrb {0:w}, [{2}]", "stxrb {1:w}, {0:w}, [{2}]", "cbnz {1:w}, 2b",
            out(reg) _, out(reg) _, in(reg) byte, options(nostack),
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = byte;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touch_changes_nothing() {
        let mut bytes = [0, 1, 0x80, 0xff];
        for byte in &mut bytes {
            // SAFETY: a byte of our own.
            unsafe { touch(byte) };
        }
        assert_eq!(bytes, [0, 1, 0x80, 0xff]);
    }
}
