//! The system call `bpf(2)`, command by command. Each `repr(C)` struct is the head of `union bpf_attr` its command
//! reads; the kernel takes what is missing behind it as zeroes.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

pub const MAP_CREATE: i32 = 0;
pub const MAP_LOOKUP: i32 = 1;
pub const MAP_UPDATE: i32 = 2;
pub const MAP_DELETE: i32 = 3;
pub const PROG_LOAD: i32 = 5;
pub const OBJ_PIN: i32 = 6;
pub const OBJ_GET: i32 = 7;
pub const PROG_TEST_RUN: i32 = 10;
pub const PROG_BY_ID: i32 = 13;
pub const OBJ_INFO: i32 = 15;
pub const RAW_TRACEPOINT_OPEN: i32 = 17;
pub const LINK_CREATE: i32 = 28;
pub const LINK_UPDATE: i32 = 29;
pub const LINK_DETACH: i32 = 34;

/// `BPF_NOEXIST`: an update fails where there is an entry.
pub const NO_EXIST: u64 = 1;
/// `BPF_XDP` of `enum bpf_attach_type`.
pub const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE`: behind the driver.
pub const XDP_GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`: in the driver.
pub const XDP_NATIVE: u32 = 1 << 2;
/// `BPF_TCX_INGRESS` of the same.
pub const ATTACH_TCX_INGRESS: u32 = 46;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
pub const TEST_LIVE_FRAMES: u32 = 1 << 1;

#[repr(C)]
#[derive(Default)]
pub struct MapCreate {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub struct MapElement {
    pub map_fd: u32,
    pub pad: u32,
    pub key: u64,
    pub value: u64,
    pub flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub struct ProgLoad {
    pub prog_type: u32,
    pub insn_cnt: u32,
    pub insns: u64,
    pub license: u64,
    pub log_level: u32,
    pub log_size: u32,
    pub log_buf: u64,
    pub kern_version: u32,
    pub prog_flags: u32,
    pub name: [u8; 16],
    pub prog_ifindex: u32,
    pub expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct TestRun {
    pub prog_fd: u32,
    pub retval: u32,
    pub data_size_in: u32,
    pub data_size_out: u32,
    pub data_in: u64,
    pub data_out: u64,
    pub repeat: u32,
    pub duration: u32,
    pub ctx_size_in: u32,
    pub ctx_size_out: u32,
    pub ctx_in: u64,
    pub ctx_out: u64,
    pub flags: u32,
    pub cpu: u32,
    pub batch_size: u32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct LinkCreate {
    pub prog_fd: u32,
    pub target_ifindex: u32,
    pub attach_type: u32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct LinkUpdate {
    pub link_fd: u32,
    pub new_prog_fd: u32,
    pub flags: u32,
    pub old_prog_fd: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct RawTracepoint {
    pub name: u64,
    pub prog_fd: u32,
    pub pad: u32,
}

/// For a name in a BPF file system.
#[repr(C)]
#[derive(Default)]
pub struct Named {
    pub path: u64,
    pub fd: u32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct AskInfo {
    pub fd: u32,
    pub len: u32,
    pub info: u64,
}

#[repr(C)]
#[derive(Default)]
pub struct ById {
    pub id: u32,
    pub next: u32,
    pub flags: u32,
}

/// The head of `struct bpf_link_info` of a link of XDP.
#[repr(C)]
#[derive(Default)]
pub struct XdpLinkInfo {
    pub link_type: u32,
    pub id: u32,
    pub prog_id: u32,
    pub pad: u32,
    pub ifindex: u32,
    pub pad_behind: u32,
}

/// The head of `struct bpf_prog_info`. Lengths of 0: the instructions are not asked for.
#[repr(C)]
#[derive(Default)]
pub struct ProgInfo {
    pub prog_type: u32,
    pub id: u32,
    pub tag: [u8; 8],
    pub jited_len: u32,
    pub xlated_len: u32,
    pub jited_insns: u64,
    pub xlated_insns: u64,
    pub load_time: u64,
    pub created_by: u32,
    pub map_ids_len: u32,
    pub map_ids: u64,
    pub name: [u8; 16],
}

/// The head of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
pub struct MapInfo {
    pub map_type: u32,
    pub id: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
}

/// Calls the kernel.
///
/// # Safety
/// `T` must be the head of `union bpf_attr` that `command` reads, and every address in it valid for what the command
/// does with it.
pub unsafe fn bpf<T>(command: i32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is valid for reads and writes of its size; its content is the caller's promise.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // A descriptor or 0.
    Ok(got as i32)
}

/// As [`bpf`], for commands that return a new descriptor.
///
/// # Safety
/// As for [`bpf`]; `command` returns a descriptor.
pub(crate) unsafe fn bpf_fd<T>(command: i32, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd: RawFd = unsafe { bpf(command, attr) }?;
    // SAFETY: a descriptor the kernel just made for us; BPF descriptors are close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An address for the kernel.
pub fn address<T>(of: *const T) -> u64 {
    of as usize as u64
}

/// A name as the kernel wants it: at most 15 bytes of letters, digits, `_` and `.`, then zeroes.
pub(crate) fn object_name(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out[..15].iter_mut().zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
    }
    out
}
