//! Setting an interface's XDP program over route netlink: the way of kernels that know no links.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Fail when a program is attached already.
pub const FLAG_IF_NOEXIST: u32 = 1 << 0;
/// Generic XDP.
pub const FLAG_SKB: u32 = 1 << 1;
/// Native XDP.
pub const FLAG_DRIVER: u32 = 1 << 2;

const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const NESTED: u16 = 1 << 15;

/// Sets the XDP program of an interface; `program` −1 removes it.
///
/// # Errors
/// What the kernel said.
pub fn set_xdp(ifindex: u32, program: RawFd, flags: u32) -> io::Result<()> {
    let request = request(ifindex, program, flags);
    // SAFETY: plain system call, no pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor the kernel just made for us.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the request is readable for its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0_u8; 1024];
    // SAFETY: the answer is writable for its length.
    let got = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    verdict(&answer[..got as usize])
}

/// `RTM_SETLINK` with `IFLA_XDP { IFLA_XDP_FD, IFLA_XDP_FLAGS }`.
fn request(ifindex: u32, program: RawFd, flags: u32) -> Vec<u8> {
    const LEN: usize = 16 + 16 + 4 + 8 + 8;
    let mut out = Vec::with_capacity(LEN);
    out.extend((LEN as u32).to_ne_bytes());
    out.extend(libc::RTM_SETLINK.to_ne_bytes());
    out.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    out.extend([0; 8]); // sequence, port
    out.extend([0; 4]); // struct ifinfomsg: family, pad, type
    out.extend(ifindex.to_ne_bytes());
    out.extend([0; 8]); // flags, change
    for (len, kind) in [(20_u16, IFLA_XDP | NESTED), (8, IFLA_XDP_FD)] {
        out.extend(len.to_ne_bytes());
        out.extend(kind.to_ne_bytes());
    }
    out.extend(program.to_ne_bytes());
    out.extend(8_u16.to_ne_bytes());
    out.extend(IFLA_XDP_FLAGS.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out
}

/// The error in an `NLMSG_ERROR`, 0 being none.
fn verdict(answer: &[u8]) -> io::Result<()> {
    let field = |at: usize| answer.get(at..at + 4).and_then(|raw| raw.try_into().ok());
    let kind = answer.get(4..6).map(|raw| u16::from_ne_bytes([raw[0], raw[1]]));
    if kind != Some(libc::NLMSG_ERROR as u16) {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    match field(16).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_says_its_own_length() {
        let raw = request(7, 9, FLAG_DRIVER);
        assert_eq!(raw.len(), 52);
        assert_eq!(u32::from_ne_bytes(raw[..4].try_into().expect("four bytes")) as usize, raw.len());
    }

    #[test]
    fn the_kernels_no_is_an_error() {
        // Interface 2^30 does not exist.
        let error = set_xdp(1 << 30, -1, 0).expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
