//! The host stack kept from handling what a port receives.
//!
//! AF_PACKET only taps: the kernel would still answer ARP and ping, forward, and send ICMP errors for the very packets
//! the gateway handles. So a program of two instructions drops everything at the interface's tc ingress hook, which
//! lies behind the taps and before the stack. Nothing is changed in addresses, routes or sysctls.
//!
//! The program is attached by a TCX link, which ends with our process: however it dies, the host gets its
//! interface back. Kernels before 6.6 have no such links; there a `clsact` filter is installed by rtnetlink and
//! removed when the port closes.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::PortError;
use crate::bpf::{Asm, BpfError, Link, Program, ProgramType, Reg, TCX_INGRESS};
use crate::helper::{Kept, Place, Request};
use crate::iface::Iface;
use crate::shared::{Key, Registry, Share};

/// While this lives the host stack sees nothing of what the interface receives.
#[derive(Debug)]
pub(crate) enum Quiet {
    /// Ends with the value, or with the process.
    Link(#[allow(dead_code, reason = "held, not read")] Link),
    /// Removed on drop.
    Filter(#[allow(dead_code, reason = "held, not read")] Filter),
}

#[derive(Debug)]
pub(crate) struct Filter {
    netlink: OwnedFd,
    index: u32,
    handle: u32,
}

static QUIET: Registry<Quiet> = Registry::new();

/// One port's share in a silenced interface; with the last one dropped the host hears again.
pub(crate) type Hush = Kept<Share<Quiet>>;

/// Silences the host on that interface.
pub(crate) fn hush(iface: &Iface, key: Key) -> Result<Hush, PortError> {
    let request = || Request::Hush(Place::new(iface.name(), iface.netns().name()));
    Kept::make(request, || QUIET.share(key, || quiet(iface, key.1)))
}

fn quiet(iface: &Iface, index: u32) -> Result<Quiet, PortError> {
    let doing = format!("keeping the host stack off {} (or say host=shared)", iface.name());
    let program = load()?;
    let attach = || -> io::Result<Quiet> {
        match Link::new(&program, index, TCX_INGRESS, 0) {
            Ok(link) => Ok(Quiet::Link(link)),
            // Kernels before 6.6.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Filter::install(&program, index).map(Quiet::Filter),
            Err(e) => Err(e),
        }
    };
    iface.netns().within(attach)?.map_err(|e| PortError::system(doing, "CAP_BPF", e))
}

/// `TC_ACT_SHOT`.
const SHOT: i32 = 2;

fn load() -> Result<Program, BpfError> {
    let mut drop_all = Asm::new();
    drop_all.mov(Reg::R0, SHOT).exit();
    Program::load("weir_hush", ProgramType::SchedCls, &drop_all.build()?)
}

const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
/// Preference 49,152 (the last before those the kernel chooses) and all protocols.
const INFO: u32 = 0xc000_0000 | (libc::ETH_P_ALL as u16).to_be() as u32;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_DIRECT: u32 = 1;

impl Filter {
    fn install(program: &Program, index: u32) -> io::Result<Self> {
        // SAFETY: socket takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just made, owned by nobody else.
        let netlink = unsafe { OwnedFd::from_raw_fd(fd) };
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        // The hook itself is harmless, and others may hang filters on it: it stays. The handle tells ours apart.
        let mut hook = Message::new(libc::RTM_NEWQDISC, flags, index, CLSACT_HANDLE, CLSACT, 0);
        hook.attribute(TCA_KIND, b"clsact\0");
        match hook.send(&netlink) {
            Err(e) if e.raw_os_error() != Some(libc::EEXIST) => return Err(e),
            _ => {}
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let handle = (std::process::id() << 8 | NEXT.fetch_add(1, Ordering::Relaxed) & 0xff) & 0x7fff_ffff | 1 << 30;
        let mut filter = Message::new(libc::RTM_NEWTFILTER, flags, index, handle, INGRESS, INFO);
        filter.attribute(TCA_KIND, b"bpf\0");
        let options = filter.nest(TCA_OPTIONS);
        filter.attribute(TCA_BPF_FD, &program.raw_fd().to_ne_bytes());
        filter.attribute(TCA_BPF_NAME, b"weir\0");
        filter.attribute(TCA_BPF_FLAGS, &TCA_BPF_DIRECT.to_ne_bytes());
        filter.end(options);
        filter.send(&netlink)?;
        Ok(Self { netlink, index, handle })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let mut message = Message::new(libc::RTM_DELTFILTER, 0, self.index, self.handle, INGRESS, INFO);
        message.attribute(TCA_KIND, b"bpf\0");
        let _ = message.send(&self.netlink);
    }
}

/// An rtnetlink request about traffic control.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, index: u32, handle: u32, parent: u32, info: u32) -> Self {
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        // Sequence and port number, then tcmsg's family and padding.
        bytes.extend_from_slice(&[0; 12]);
        for word in [index, handle, parent, info] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        Self(bytes)
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn nest(&mut self, kind: u16) -> usize {
        let start = self.0.len();
        self.attribute(kind, &[]);
        start
    }

    fn end(&mut self, start: usize) {
        let len = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    }

    /// Sends it and waits for the kernel's answer, which comes within the call.
    fn send(mut self, netlink: &OwnedFd) -> io::Result<()> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        let mut answer = [0u8; 1024];
        // SAFETY: both buffers are as long as told and outlive the calls.
        let got = unsafe {
            if libc::send(netlink.as_raw_fd(), self.0.as_ptr().cast(), self.0.len(), 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::recv(netlink.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        // A header of 16 bytes, then the error, negative.
        match got {
            ..0 => Err(io::Error::last_os_error()),
            20.. => match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(-error)),
            },
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::process::Command;
    use std::time::Duration;

    /// On the loopback of a namespace that ends with the thread.
    fn in_new_namespace(test: impl FnOnce() + Send + 'static) {
        let run = || {
            // SAFETY: takes no pointers; only this thread changes its namespace.
            let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(moved, 0, "needs root");
            assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
            test();
        };
        std::thread::spawn(run).join().unwrap();
    }

    fn heard() -> bool {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut [0; 8]).is_ok()
    }

    #[test]
    fn the_host_hears_nothing_while_linked() {
        in_new_namespace(|| {
            assert!(heard());
            let program = load().unwrap();
            let link = Link::new(&program, 1, TCX_INGRESS, 0).unwrap();
            assert!(!heard());
            drop(link);
            assert!(heard());
        });
    }

    #[test]
    fn the_older_way_does_the_same() {
        in_new_namespace(|| {
            let program = load().unwrap();
            let (first, second) = (Filter::install(&program, 1).unwrap(), Filter::install(&program, 1).unwrap());
            assert!(!heard());
            drop(first);
            assert!(!heard());
            drop(second);
            assert!(heard());
            assert!(Filter::install(&program, 99).is_err());
        });
    }
}
