//! eBPF without a compiler: programs are put together instruction by instruction with [`Asm`], loaded and attached
//! through `bpf(2)`.
//!
//! ```no_run
//! use port::bpf::{Asm, Cond, Helper, Map, Program, ProgramType, Reg, Width};
//! # fn main() -> Result<(), port::bpf::BpfError> {
//! // Count packets longer than a thousand bytes, let everything pass.
//! let seen = Map::array(8, 1)?;
//! let mut asm = Asm::new();
//! let out = asm.label();
//! asm.load(Width::Word, Reg::R2, Reg::R1, 0) // __sk_buff.len
//!     .jump_if(Cond::Le, Reg::R2, 1000, out)
//!     .store(Width::Word, Reg::R10, -4, 0)
//!     .mov(Reg::R2, Reg::R10)
//!     .add(Reg::R2, -4)
//!     .load_map(Reg::R1, &seen)
//!     .call(Helper::MapLookup)
//!     .jump_if(Cond::Eq, Reg::R0, 0, out)
//!     .mov(Reg::R1, 1)
//!     .atomic_add(Width::Double, Reg::R0, 0, Reg::R1)
//!     .place(out)
//!     .mov(Reg::R0, -1)
//!     .exit();
//! let program = Program::load("count_long", ProgramType::SchedCls, &asm.build()?)?;
//! # let _ = program; Ok(()) }
//! ```
//!
//! A program of some size is written in C and comes as a compiled object: [`Object`]. What it shares with this process,
//! word by word and without a system call, are [`SharedWords`].
//!
//! Maps, programs and attachments are file descriptors and go with the process, but for those that were given a name in a
//! BPF file system.

mod asm;
mod btf; // where the kernel has what
mod info;
mod insn;
mod link;
mod map;
mod named;
mod object;
mod program;
mod sys;
mod words;

use std::io;

pub use asm::{Asm, AsmError, Label};
pub use btf::DeviceOffsets;
pub use info::ProgramInfo;
pub(crate) use info::{interface_of, program_info};
pub use insn::{Alu, Cond, Helper, Insn, Operand, Reg, Width};
pub(crate) use link::Link;
pub use link::{TracepointLink, XdpLink, XdpMode};
pub use map::{Map, MapType, possible_cpus};
pub use named::get as get_named;
pub(crate) use named::{give as give_name, is_bpf_fs};
pub use object::{Object, Sizes};
pub use program::{Program, ProgramType, TestRun};
pub(crate) use sys::ATTACH_TCX_INGRESS as TCX_INGRESS;
pub use words::{SharedWords, monotonic_ns};

/// Why a map, a program or an attachment could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The program could not be put together: a fault of the code that wrote it.
    #[error("the program is not well formed: {0}")]
    Asm(#[from] AsmError),
    /// The kernel's verifier refused the program, or the process may not load any.
    #[error("the kernel refused program {name}: {source}; it needs CAP_BPF and CAP_NET_ADMIN (or root){log}")]
    Load {
        /// The program's name.
        name: String,
        /// What the verifier said, after a line break; empty when it said nothing.
        log: String,
        /// The system call's error.
        source: io::Error,
    },
    /// A map could not be made or touched.
    #[error("BPF map {what}: {source}; maps need CAP_BPF (or root)")]
    Map {
        /// What was tried.
        what: &'static str,
        /// The system call's error.
        source: io::Error,
    },
    /// A compiled object cannot be read, or has not what is asked of it.
    #[error("the compiled BPF object is not usable: {0}")]
    Object(String),
    /// Keys or values of another size than the map's.
    #[error("a key or value of {given} bytes does not fit a BPF map whose own has {wanted}")]
    Size {
        /// Bytes given.
        given: usize,
        /// Bytes of the map's key or value.
        wanted: usize,
    },
    /// Something else is attached to the interface already.
    #[error(
        "interface {ifindex} already has an XDP program of someone else; remove it with `ip link set dev NAME xdp off`"
    )]
    Occupied {
        /// The interface.
        ifindex: u32,
    },
    /// The program could not be attached.
    #[error(
        "the XDP program could not be attached to interface {ifindex} ({mode}): {source}; the driver may want fewer \
         channels or a smaller MTU, or lack native XDP (try mode=generic)"
    )]
    Attach {
        /// The interface.
        ifindex: u32,
        /// Where it was to be attached.
        mode: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A trial run of a program failed.
    #[error("the program could not be tried: {0}")]
    TestRun(io::Error),
}
