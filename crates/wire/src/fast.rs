//! Bounds-checked big-endian reads and writes: `None` instead of a panic, one compare instead of four.
//!
//! Offsets are in bytes from the start of the slice; any offset is safe, also one near `usize::MAX`.

/// The `N` bytes at `off`, or `None` if they are not all there.
#[inline(always)]
pub fn array<const N: usize>(bytes: &[u8], off: usize) -> Option<[u8; N]> {
    bytes.get(off..)?.first_chunk::<N>().copied()
}

/// The byte at `off`.
#[inline(always)]
pub fn be8(bytes: &[u8], off: usize) -> Option<u8> {
    bytes.get(off).copied()
}

/// The 16-bit number at `off`.
#[inline(always)]
pub fn be16(bytes: &[u8], off: usize) -> Option<u16> {
    array(bytes, off).map(u16::from_be_bytes)
}

/// The 32-bit number at `off`.
#[inline(always)]
pub fn be32(bytes: &[u8], off: usize) -> Option<u32> {
    array(bytes, off).map(u32::from_be_bytes)
}

/// The 64-bit number at `off`.
#[inline(always)]
pub fn be64(bytes: &[u8], off: usize) -> Option<u64> {
    array(bytes, off).map(u64::from_be_bytes)
}

/// The 128-bit number at `off`, such as an IPv6 address.
#[inline(always)]
pub fn be128(bytes: &[u8], off: usize) -> Option<u128> {
    array(bytes, off).map(u128::from_be_bytes)
}

/// Write `value` at `off`; `None`, and nothing written, if it does not fit.
#[inline(always)]
pub fn put<const N: usize>(bytes: &mut [u8], off: usize, value: [u8; N]) -> Option<()> {
    *bytes.get_mut(off..)?.first_chunk_mut::<N>()? = value;
    Some(())
}

/// Write a byte at `off`.
#[inline(always)]
pub fn put8(bytes: &mut [u8], off: usize, value: u8) -> Option<()> {
    put(bytes, off, [value])
}

/// Write a 16-bit number at `off`.
#[inline(always)]
pub fn put16(bytes: &mut [u8], off: usize, value: u16) -> Option<()> {
    put(bytes, off, value.to_be_bytes())
}

/// Write a 32-bit number at `off`.
#[inline(always)]
pub fn put32(bytes: &mut [u8], off: usize, value: u32) -> Option<()> {
    put(bytes, off, value.to_be_bytes())
}

/// Write a 128-bit number at `off`.
#[inline(always)]
pub fn put128(bytes: &mut [u8], off: usize, value: u128) -> Option<()> {
    put(bytes, off, value.to_be_bytes())
}

// The views read through these: their `new_checked` has shown the field to be there, and a zero is a better answer
// than a panic should an `AsRef` ever change its mind.

#[inline(always)]
pub(crate) fn at<const N: usize>(bytes: &[u8], off: usize) -> [u8; N] {
    array(bytes, off).unwrap_or([0; N])
}

#[inline(always)]
pub(crate) fn at8(bytes: &[u8], off: usize) -> u8 {
    be8(bytes, off).unwrap_or(0)
}

#[inline(always)]
pub(crate) fn at16(bytes: &[u8], off: usize) -> u16 {
    be16(bytes, off).unwrap_or(0)
}

#[inline(always)]
pub(crate) fn at32(bytes: &[u8], off: usize) -> u32 {
    be32(bytes, off).unwrap_or(0)
}

/// The bytes from `from` up to `to`, both clamped to what is there.
#[inline(always)]
pub(crate) fn part(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    let to = to.min(bytes.len());
    bytes.get(from..to).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_end_at_the_slice() {
        let mut b = [0u8; 9];
        assert_eq!(put16(&mut b, 0, 0x1234), Some(()));
        assert_eq!(put32(&mut b, 5, 0xdead_beef), Some(()));
        assert_eq!(b, [0x12, 0x34, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(put16(&mut b, 8, 0xffff), None);
        assert_eq!(b[8], 0xef);
        assert_eq!(be16(&b, 0), Some(0x1234));
        assert_eq!(be32(&b, 5), Some(0xdead_beef));
        assert_eq!(be64(&b, 1), Some(0x3400_0000_dead_beef));
        assert_eq!(be64(&b, 2), None);
        assert_eq!(be16(&b, usize::MAX), None);
        assert_eq!(part(&b, 7, 100), &[0xbe, 0xef]);
        assert_eq!(part(&b, 10, 100), &[] as &[u8]);
    }
}
