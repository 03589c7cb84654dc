//! Names in a BPF file system: what has one outlives the process.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::sys;

/// Whether a folder is of a BPF file system.
pub fn is_bpf_fs(folder: &Path) -> bool {
    /// `BPF_FS_MAGIC`: what statfs(2) calls a BPF file system.
    const MAGIC: u64 = 0xcafe_4a11;
    let Ok(path) = c_path(folder) else { return false };
    // SAFETY: all zeroes are a value of it.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: both outlive the call.
    let got = unsafe { libc::statfs(path.as_ptr(), &raw mut stat) };
    got == 0 && stat.f_type.cast_unsigned() == MAGIC
}

/// Gives a map, a program or a link that name, which must be new.
///
/// # Errors
/// What the kernel said.
pub(crate) fn give(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let mut attr = sys::Named { path: sys::address(path.as_ptr()), fd: fd.as_raw_fd().cast_unsigned(), flags: 0 };
    // SAFETY: the head of bpf_attr for this command; the path outlives the call.
    unsafe { sys::bpf(sys::OBJ_PIN, &mut attr) }.map(drop)
}

/// What has that name.
///
/// # Errors
/// What the kernel said.
pub fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut attr = sys::Named { path: sys::address(path.as_ptr()), ..Default::default() };
    // SAFETY: as above; this command returns a descriptor.
    unsafe { sys::bpf_fd(sys::OBJ_GET, &mut attr) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}
