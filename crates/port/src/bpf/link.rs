//! Attaching an XDP program to an interface.

use std::io;
use std::os::fd::OwnedFd;

use super::program::Program;
use super::{BpfError, netlink, sys};

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver when it can, else behind it.
    #[default]
    Auto,
    /// In the driver, before a socket buffer exists.
    Native,
    /// Behind the driver, on socket buffers: slow, works everywhere.
    Generic,
}

impl XdpMode {
    /// The word shown in tables and taken in URIs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    fn flags(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Generic => netlink::FLAG_SKB,
            Self::Native => netlink::FLAG_DRIVER,
        }
    }
}

/// An XDP program attached to an interface for as long as this value lives. The kernel detaches it as well when the
/// process dies, if it knows links (5.9).
#[derive(Debug)]
pub struct XdpLink {
    ifindex: u32,
    mode: XdpMode,
    how: How,
}

#[derive(Debug)]
enum How {
    /// A link: gone with its descriptor.
    Link { _fd: OwnedFd },
    /// Set over netlink; to be unset.
    Netlink,
}

impl XdpLink {
    /// Attaches `program` to the interface of that index in the calling thread's network namespace. Never replaces
    /// someone else's program. [`XdpMode::Auto`] tries the driver first.
    ///
    /// # Errors
    /// [`BpfError::Occupied`] or [`BpfError::Attach`].
    pub fn attach(program: &Program, ifindex: u32, mode: XdpMode) -> Result<Self, BpfError> {
        let modes: &[XdpMode] = match mode {
            XdpMode::Auto => &[XdpMode::Native, XdpMode::Generic],
            XdpMode::Native => &[XdpMode::Native],
            XdpMode::Generic => &[XdpMode::Generic],
        };
        let mut last = BpfError::Occupied { ifindex };
        for &mode in modes {
            match attach(program, ifindex, mode) {
                Ok(how) => return Ok(Self { ifindex, mode, how }),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                    return Err(BpfError::Occupied { ifindex });
                }
                Err(source) => last = BpfError::Attach { ifindex, mode: mode.as_str(), source },
            }
        }
        Err(last)
    }

    /// The interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Where the program runs: [`XdpMode::Native`] or [`XdpMode::Generic`].
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Whether a link holds it (false: set over netlink, because the kernel knows no links).
    pub fn by_link(&self) -> bool {
        matches!(self.how, How::Link { .. })
    }
}

impl Drop for XdpLink {
    fn drop(&mut self) {
        if let How::Netlink = self.how {
            // Nothing to be done when it fails: the interface may be gone already.
            let _ = netlink::set_xdp(self.ifindex, -1, self.mode.flags());
        }
    }
}

fn attach(program: &Program, ifindex: u32, mode: XdpMode) -> io::Result<How> {
    let mut attr = sys::LinkCreate {
        // A descriptor is not negative.
        prog_fd: program.raw_fd() as u32,
        target_ifindex: ifindex,
        attach_type: sys::ATTACH_XDP,
        flags: mode.flags(),
    };
    // SAFETY: the head of bpf_attr for this command; it holds no addresses.
    match unsafe { sys::bpf_fd(sys::LINK_CREATE, &mut attr) } {
        Ok(fd) => Ok(How::Link { _fd: fd }),
        // Kernels before 5.9 know no links for XDP and say EINVAL; the other way says what is really wrong.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
            netlink::set_xdp(ifindex, program.raw_fd(), mode.flags() | netlink::FLAG_IF_NOEXIST)?;
            Ok(How::Netlink)
        }
        Err(error) => Err(error),
    }
}
