//! What the kernel tells of links, maps and programs that other processes have made.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use super::sys;

/// A program in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The number that the kernel gave it; no other program has it while this one is loaded.
    pub id: u32,
    /// Its name, at most 15 octets of it.
    pub name: String,
    /// How long ago it was loaded.
    pub age: Duration,
}

/// Fills in the head of what the kernel knows of a descriptor.
pub(super) fn of<T: Default>(fd: BorrowedFd<'_>) -> io::Result<T> {
    let mut info = T::default();
    let mut attr = sys::AskInfo {
        fd: fd.as_raw_fd().cast_unsigned(),
        len: size_of::<T>() as u32, // some octets
        info: sys::address((&raw mut info).cast_const()),
    };
    // SAFETY: the head of bpf_attr for this command; `info` has the length it is said to have, and outlives the call.
    unsafe { sys::bpf(sys::OBJ_INFO, &mut attr) }?;
    // Written behind the compiler's back.
    std::hint::black_box(&raw mut info);
    Ok(info)
}

/// The interface that a link of XDP attaches its program to; 0: it has gone.
///
/// # Errors
/// What the kernel said.
pub fn interface_of(link: BorrowedFd<'_>) -> io::Result<u32> {
    of::<sys::XdpLinkInfo>(link).map(|info| info.ifindex)
}

/// A program by its number.
///
/// # Errors
/// What the kernel said: there is none, or it takes CAP_SYS_ADMIN.
pub fn program_info(id: u32) -> io::Result<ProgramInfo> {
    let mut attr = sys::ById { id, ..Default::default() };
    // SAFETY: the head of bpf_attr for this command, which returns a descriptor; it holds no addresses.
    let fd = unsafe { sys::bpf_fd(sys::PROG_BY_ID, &mut attr) }?;
    let info: sys::ProgInfo = of(fd.as_fd())?;
    let name: Vec<u8> = info.name.iter().copied().take_while(|octet| *octet != 0).collect();
    let age = super::words::clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(info.load_time);
    Ok(ProgramInfo { id, name: String::from_utf8_lossy(&name).into_owned(), age: Duration::from_nanos(age) })
}
