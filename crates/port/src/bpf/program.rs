//! Programs in the kernel.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::insn::Insn;
use super::{BpfError, sys};

/// Where a program can be attached, by its number in `enum bpf_prog_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramType {
    /// `SO_ATTACH_BPF`, `PACKET_FANOUT_EBPF`.
    SocketFilter = 1,
    /// tc clsact.
    SchedCls = 3,
    /// XDP.
    Xdp = 6,
    /// It runs at a tracepoint, with its arguments as the kernel has them.
    RawTracepoint = 17,
}

/// A program in the kernel. Freed when this value and whatever it is attached to are gone.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    kind: ProgramType,
}

/// Outcome of a trial run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What the program returned.
    pub verdict: u32,
    /// The packet as the program left it.
    pub packet: Vec<u8>,
}

impl Program {
    /// Gives the instructions to the kernel, under weir's own licence: the few helpers reserved to the GPL are not to
    /// be had, and none in [`super::Helper`] is.
    ///
    /// # Errors
    /// [`BpfError::Load`] with the verifier's log.
    pub fn load(name: &str, kind: ProgramType, insns: &[Insn]) -> Result<Self, BpfError> {
        Self::load_licensed(name, kind, insns, c"Apache-2.0")
    }

    /// As [`Program::load`], under another licence.
    pub(super) fn load_licensed(
        name: &str,
        kind: ProgramType,
        insns: &[Insn],
        licence: &CStr,
    ) -> Result<Self, BpfError> {
        let load = |log| load(name, kind, insns, licence, log);
        // Silent at first: a log of a good program costs time and can fail for want of room.
        let (fd, log) = match load(None) {
            Ok(fd) => (Ok(fd), String::new()),
            Err(first) if first.raw_os_error() == Some(libc::EPERM) => (Err(first), String::new()),
            Err(_) => {
                let mut log = vec![0; 1 << 18];
                let again = load(Some(&mut log));
                (again, last_lines(&log))
            }
        };
        match fd {
            Ok(fd) => Ok(Self { fd, kind }),
            Err(source) => Err(BpfError::Load { name: name.into(), log, source }),
        }
    }

    /// Its descriptor, for `setsockopt`.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Where it can be attached.
    pub fn kind(&self) -> ProgramType {
        self.kind
    }

    /// Runs the program once on a packet, attached to nothing; for an XDP program the receive queue is 0.
    ///
    /// # Errors
    /// [`BpfError::TestRun`]: kinds that cannot be tried, packets shorter than an Ethernet header.
    pub fn test_run(&self, packet: &[u8]) -> Result<TestRun, BpfError> {
        let mut out = vec![0; packet.len() + 4096];
        let mut attr = sys::TestRun {
            // A descriptor is not negative; packets are far below 4 GiB.
            prog_fd: self.raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_size_out: out.len() as u32,
            data_in: sys::address(packet.as_ptr()),
            data_out: sys::address(out.as_mut_ptr()),
            repeat: 1,
            ..Default::default()
        };
        // SAFETY: the head of bpf_attr for this command; both buffers are valid for the sizes given.
        unsafe { sys::bpf(sys::PROG_TEST_RUN, &mut attr) }.map_err(BpfError::TestRun)?;
        out.truncate(attr.data_size_out as usize);
        Ok(TestRun { verdict: attr.retval, packet: out })
    }

    /// Runs an XDP program on `repeat` live copies of a packet as if interface `ifindex` had received them on the
    /// calling CPU: redirections and passing happen. A cheap, unpaced source of load.
    ///
    /// # Errors
    /// [`BpfError::TestRun`].
    pub fn run_live(&self, packet: &[u8], ifindex: u32, repeat: u32) -> Result<(), BpfError> {
        // struct xdp_md { data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex }
        let context = [0, packet.len() as u32, 0, ifindex, 0, 0_u32];
        let mut attr = sys::TestRun {
            // As in `test_run`.
            prog_fd: self.raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_in: sys::address(packet.as_ptr()),
            repeat,
            ctx_size_in: size_of_val(&context) as u32,
            ctx_in: sys::address(context.as_ptr()),
            flags: sys::TEST_LIVE_FRAMES,
            ..Default::default()
        };
        // SAFETY: the head of bpf_attr for this command; packet and context are readable for the sizes given.
        match unsafe { sys::bpf(sys::PROG_TEST_RUN, &mut attr) } {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(BpfError::TestRun(error)),
            _ => Ok(()),
        }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn load(
    name: &str,
    kind: ProgramType,
    insns: &[Insn],
    licence: &CStr,
    log: Option<&mut Vec<u8>>,
) -> io::Result<OwnedFd> {
    let (log_level, log_size, log_buf) = match log {
        Some(log) => (1, log.len() as u32, sys::address(log.as_mut_ptr())),
        None => (0, 0, 0),
    };
    let mut attr = sys::ProgLoad {
        prog_type: kind as u32,
        insn_cnt: u32::try_from(insns.len()).unwrap_or(u32::MAX),
        insns: sys::address(insns.as_ptr()),
        license: sys::address(licence.as_ptr()),
        log_level,
        log_size,
        log_buf,
        name: sys::object_name(name),
        expected_attach_type: if kind == ProgramType::Xdp { sys::ATTACH_XDP } else { 0 },
        ..Default::default()
    };
    // SAFETY: the head of bpf_attr for this command; instructions and licence are readable, the log writable for its
    // size, and all outlive the call.
    unsafe { sys::bpf_fd(sys::PROG_LOAD, &mut attr) }
}

/// The end of the verifier's log, where the reason stands.
fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default());
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{}", lines[lines.len().saturating_sub(24)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::{Asm, Reg, Width};
    use super::*;

    #[test]
    fn a_refused_program_brings_the_verifiers_reason() {
        let mut asm = Asm::new();
        asm.load(Width::Word, Reg::R0, Reg::R2, 0).exit();
        let refused = Program::load("bad", ProgramType::Xdp, &asm.build().expect("well formed"));
        let said = refused.expect_err("R2 was never set").to_string();
        assert!(said.contains("R2 !read_ok"), "{said}");
    }

    #[test]
    fn a_program_runs() {
        let mut asm = Asm::new();
        asm.mov(Reg::R0, 2).exit();
        let program = Program::load("pass", ProgramType::Xdp, &asm.build().expect("well formed")).expect("loads");
        let run = program.test_run(&[7; 60]).expect("runs");
        assert_eq!(run, TestRun { verdict: 2, packet: vec![7; 60] });
    }
}
