//! Attaching a program to an interface.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::program::Program;
use super::{BpfError, sys};

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
            Self::Generic => sys::XDP_GENERIC,
            Self::Native => sys::XDP_NATIVE,
        }
    }
}

/// An XDP program attached to an interface for as long as this value lives; the kernel detaches it as well when the
/// process dies (Linux 5.9).
#[derive(Debug)]
pub struct XdpLink {
    ifindex: u32,
    mode: XdpMode,
    link: Link,
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
            match Link::new(program, ifindex, sys::ATTACH_XDP, mode.flags()) {
                Ok(link) => return Ok(Self { ifindex, mode, link }),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                    return Err(BpfError::Occupied { ifindex });
                }
                Err(source) => last = BpfError::Attach { ifindex, mode: mode.as_str(), source },
            }
        }
        Err(last)
    }

    /// Goes on with an attachment of another process, in the driver of interface `ifindex`: `program` takes the place of
    /// what is attached, without a packet in between that neither sees.
    ///
    /// # Errors
    /// What the kernel said: among others, the interface has gone.
    pub(crate) fn go_on(link: OwnedFd, program: &Program, ifindex: u32) -> io::Result<Self> {
        let mut attr = sys::LinkUpdate {
            // Descriptors are not negative.
            link_fd: link.as_raw_fd() as u32,
            new_prog_fd: program.raw_fd() as u32,
            ..Default::default()
        };
        // SAFETY: the head of bpf_attr for this command; it holds no addresses.
        unsafe { sys::bpf(sys::LINK_UPDATE, &mut attr) }?;
        let link = Link { fd: link, is_kept: AtomicBool::new(true) };
        Ok(Self { ifindex, mode: XdpMode::Native, link })
    }

    /// The attachment has a name, or will have one: it stays when this value goes.
    pub(crate) fn is_to_stay(&self) {
        self.link.is_kept.store(true, Ordering::Relaxed);
    }

    /// Whether it stays when this value goes.
    pub(crate) fn is_kept(&self) -> bool {
        self.link.is_kept.load(Ordering::Relaxed)
    }

    /// The interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Where the program runs: [`XdpMode::Native`] or [`XdpMode::Generic`].
    pub fn mode(&self) -> XdpMode {
        self.mode
    }
}

/// A program attached by a link of the kernel's: detached when this value is dropped, or with the process, unless it has a
/// name.
#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
    /// It has a name.
    is_kept: AtomicBool,
}

impl Link {
    /// Attaches `program` to an interface of the calling thread's network namespace, at one of [`sys`]'s hooks.
    pub(crate) fn new(program: &Program, ifindex: u32, hook: u32, flags: u32) -> io::Result<Self> {
        let mut attr = sys::LinkCreate {
            // A descriptor is not negative.
            prog_fd: program.raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: hook,
            flags,
        };
        // SAFETY: the head of bpf_attr for this command; it holds no addresses.
        unsafe { sys::bpf_fd(sys::LINK_CREATE, &mut attr) }.map(|fd| Self { fd, is_kept: AtomicBool::new(false) })
    }
}

/// A program at a tracepoint of the kernel, for as long as this value or a name of it lives.
#[derive(Debug)]
pub struct TracepointLink(OwnedFd);

impl TracepointLink {
    /// Has the program run each time the kernel comes by that tracepoint.
    ///
    /// # Errors
    /// What the kernel said: it has no such tracepoint, or the process may not trace.
    pub fn attach(program: &Program, tracepoint: &CStr) -> io::Result<Self> {
        let mut attr = sys::RawTracepoint {
            name: sys::address(tracepoint.as_ptr()),
            // A descriptor is not negative.
            prog_fd: program.raw_fd() as u32,
            ..Default::default()
        };
        // SAFETY: the head of bpf_attr for this command, which returns a descriptor; the name outlives the call.
        unsafe { sys::bpf_fd(sys::RAW_TRACEPOINT_OPEN, &mut attr) }.map(Self)
    }

    /// Gives it a name in a BPF file system: it stays when this value goes.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn give_name(&self, path: &Path) -> io::Result<()> {
        super::give_name(self.0.as_fd(), path)
    }
}

impl AsFd for XdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.fd.as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        // Said aloud, because closing the descriptor may not be the last of it: a child just forked has a copy until it
        // runs its program. Nothing to be done when it fails: the interface may be gone already.
        // SAFETY: the head of bpf_attr for this command: a descriptor, which is not negative.
        let _ = unsafe { sys::bpf(sys::LINK_DETACH, &mut (self.fd.as_raw_fd() as u32)) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asm, ProgramType, Reg};
    use super::*;

    const LOOPBACK: u32 = 1;

    /// Runs `f` on a thread of its own in a network namespace of its own, which has a loopback and goes with it.
    fn alone(f: impl FnOnce(&Program) + Send) {
        let mut pass = Asm::new();
        pass.mov(Reg::R0, 2).exit();
        let program = Program::load("pass", ProgramType::Xdp, &pass.build().expect("built")).expect("root and BPF");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: plain system call; concerns this thread only.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "root");
                f(&program);
            });
        });
    }

    #[test]
    fn a_link_goes_with_its_value_and_keeps_others_out() {
        alone(|program| {
            let link = XdpLink::attach(program, LOOPBACK, XdpMode::Auto).expect("attached");
            assert_eq!(link.mode(), XdpMode::Generic, "the loopback has no native XDP");
            let second = XdpLink::attach(program, LOOPBACK, XdpMode::Generic);
            assert!(matches!(second, Err(BpfError::Occupied { ifindex: LOOPBACK })), "{second:?}");
            drop(link);
            XdpLink::attach(program, LOOPBACK, XdpMode::Generic).expect("free again");
        });
    }

    #[test]
    fn a_native_program_on_a_device_without_says_so() {
        alone(|program| {
            let error = XdpLink::attach(program, LOOPBACK, XdpMode::Native).expect_err("no native XDP");
            assert!(error.to_string().contains("mode=generic"), "{error}");
        });
    }
}
