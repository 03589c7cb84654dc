//! The XDP program of an interface, written for its filter.
//!
//! ```text
//!          tail call into slot 0 ── a fast path is there: it decides
//!                    │ empty
//!          one of the filter's terms matches? ── no ──▶ count passed ──▶ the host
//!                    │ yes
//!          socket of this receive queue? ── no ──▶ tail call into slot 1; empty ──▶ count no_socket ──▶ the host
//!                    │ yes
//!          count redirected ──▶ the socket
//! ```

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::filter::{Filter, Terms};
use crate::bpf::Reg::*;
use crate::bpf::{Alu, Asm, BpfError, Cond, Helper, Label, Map, MapType, Program, ProgramType, Width};

/// Most receive queues of an interface.
pub(super) const QUEUES: u32 = 256;
/// Most prefixes of a filter.
const PREFIXES: u32 = 65_536;

const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;

// struct xdp_md
const MD_DATA: i16 = 0;
const MD_DATA_END: i16 = 4;
const MD_QUEUE: i16 = 16;

/// Programs beside: one that sees packets first, and one that gets what no port takes.
const SLOTS: u32 = 2;
pub(super) const FAST_PATH: i32 = 0;
const ALONE: i32 = 1;

/// Octets of the counters.
const COUNTS: usize = 24;
const REDIRECTED: i16 = 0;
const PASSED: i16 = 8;
const NO_SOCKET: i16 = 16;

/// What the program counted, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SteerCounts {
    /// To one of our sockets (which may still have lost it: see the port's counters).
    pub redirected: u64,
    /// Not matched by the filter: the host's.
    pub passed: u64,
    /// Ours, but no port has its receive queue: given to the host.
    pub no_socket: u64,
}

/// The program and the maps it shares with us.
#[derive(Debug)]
pub struct Steer {
    program: Program,
    rest: Program,
    sockets: Map,
    fast: Map,
    counts: Map,
    prefixes: Map,
}

impl Steer {
    /// Makes the maps and loads the program.
    ///
    /// # Errors
    /// [`BpfError`].
    pub fn new(filter: &Filter) -> Result<Self, BpfError> {
        let (sockets, fast) = (Map::sockets(QUEUES)?, Map::programs(SLOTS)?);
        let (counts, prefixes) = (Map::per_cpu_array(COUNTS, 1)?, Map::prefixes(16, 4, PREFIXES)?);
        Self::with(filter, [sockets, fast, counts, prefixes])
    }

    /// The same with the maps of another process's, which must be like those that [`Steer::new`] makes: sockets, programs,
    /// counts, prefixes.
    ///
    /// # Errors
    /// [`BpfError`].
    pub(super) fn go_on(filter: &Filter, maps: [OwnedFd; 4]) -> Result<Self, BpfError> {
        let [sockets, fast, counts, prefixes] = maps;
        let like = |fd: OwnedFd, kind, key, value| Map::of(fd, kind, key, value).map(|(map, _)| map);
        let maps = [
            like(sockets, MapType::XskMap, 4, 4)?,
            like(fast, MapType::ProgArray, 4, 4)?,
            like(counts, MapType::PerCpuArray, 4, COUNTS)?,
            like(prefixes, MapType::LpmTrie, 20, 4)?,
        ];
        Self::with(filter, maps)
    }

    fn with(filter: &Filter, [sockets, fast, counts, prefixes]: [Map; 4]) -> Result<Self, BpfError> {
        if let Filter::Any(terms) = filter {
            for &(address, bits) in &terms.prefixes {
                prefixes.update(&prefix_key(address, bits), &[1; 4])?;
            }
        }
        let load = |name: &str, is_first: bool| {
            let mut asm = Asm::new();
            asm.mov(R6, R1);
            if is_first {
                asm.load_map(R2, &fast).mov(R3, FAST_PATH).call(Helper::TailCall);
            }
            if let Filter::Any(terms) = filter {
                let (ours, hosts) = (asm.label(), asm.label());
                select(&mut asm, terms, &prefixes, ours, hosts);
                asm.place(hosts);
                count(&mut asm, &counts, PASSED);
                asm.mov(R0, XDP_PASS).exit().place(ours);
            }
            deliver(&mut asm, &sockets, &fast, &counts);
            Program::load(name, ProgramType::Xdp, &asm.build()?)
        };
        let (program, rest) = (load("weir_xdp", true)?, load("weir_xdp_rest", false)?);
        Ok(Self { program, rest, sockets, fast, counts, prefixes })
    }

    /// The same program without a fast path before it: what that goes on to with packets it leaves.
    pub fn rest(&self) -> &Program {
        &self.rest
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Receive queue → socket.
    pub fn sockets(&self) -> &Map {
        &self.sockets
    }

    /// From now on `program` (XDP) sees every packet first and has the last word, or goes on to [`rest`](Steer::rest).
    ///
    /// # Errors
    /// [`BpfError::Map`].
    pub fn set_fast_path(&self, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.fast.set_fd(FAST_PATH as u32, program)
    }

    /// From now on `program` (XDP) sees packets that no port takes, in place of the host.
    ///
    /// # Errors
    /// [`BpfError::Map`].
    pub(super) fn set_alone(&self, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.fast.set_fd(ALONE as u32, program)
    }

    /// The maps, as [`go_on`](Self::go_on) takes them.
    pub(super) fn maps(&self) -> [&Map; 4] {
        [&self.sockets, &self.fast, &self.counts, &self.prefixes]
    }

    /// No fast path any more.
    ///
    /// # Errors
    /// [`BpfError::Map`].
    pub fn clear_fast_path(&self) -> Result<(), BpfError> {
        self.fast.delete(&FAST_PATH.to_ne_bytes()).map(drop)
    }

    /// What no port takes is the host's again.
    pub(super) fn clear_alone(&self) -> Result<(), BpfError> {
        self.fast.delete(&ALONE.to_ne_bytes()).map(drop)
    }

    /// How a fast path ends for packets it leaves to us: writes the way to the socket of the packet's queue, and exit.
    /// The context must be in R6.
    pub fn deliver(&self, asm: &mut Asm) {
        deliver(asm, &self.sockets, &self.fast, &self.counts);
    }

    /// Takes packets to a prefix from now on. Of use when the filter is not [`Filter::All`] and had a prefix at start.
    ///
    /// # Errors
    /// [`BpfError::Map`]: 65,536 prefixes are the most.
    pub fn add_prefix(&self, address: IpAddr, bits: u8) -> Result<(), BpfError> {
        self.prefixes.update(&prefix_key(address, bits), &[1; 4])
    }

    /// Leaves packets to a prefix to the host from now on; false when it was not taken.
    ///
    /// # Errors
    /// [`BpfError::Map`].
    pub fn remove_prefix(&self, address: IpAddr, bits: u8) -> Result<bool, BpfError> {
        self.prefixes.delete(&prefix_key(address, bits))
    }

    /// What the program counted.
    ///
    /// # Errors
    /// [`BpfError::Map`].
    pub fn counts(&self) -> Result<SteerCounts, BpfError> {
        let [redirected, passed, no_socket] = self.counts.sum::<3>(0)?;
        Ok(SteerCounts { redirected, passed, no_socket })
    }
}

/// Key in the trie: IPv4 lies mapped in IPv6.
fn prefix_key(address: IpAddr, bits: u8) -> [u8; 20] {
    let (octets, bits) = match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), 96 + u32::from(bits.min(32))),
        IpAddr::V6(v6) => (v6.octets(), u32::from(bits.min(128))),
    };
    let mut key = [0; 20];
    key[..4].copy_from_slice(&bits.to_ne_bytes());
    key[4..].copy_from_slice(&octets);
    key
}

/// Adds one to a counter. R0–R5 are lost.
fn count(asm: &mut Asm, counts: &Map, which: i16) {
    let out = asm.label();
    asm.store(Width::Word, R10, -4, 0)
        .mov(R2, R10)
        .add(R2, -4)
        .load_map(R1, counts)
        .call(Helper::MapLookup)
        .jump_if(Cond::Eq, R0, 0, out)
        // This CPU's own, and XDP does not interrupt itself.
        .load(Width::Double, R1, R0, which)
        .add(R1, 1)
        .store(Width::Double, R0, which, R1)
        .place(out);
}

/// To the socket of the packet's queue, or to the host when there is none.
fn deliver(asm: &mut Asm, sockets: &Map, programs: &Map, counts: &Map) {
    let alone = asm.label();
    asm.load(Width::Word, R2, R6, MD_QUEUE)
        .load_map(R1, sockets)
        .mov(R3, XDP_PASS)
        .call(Helper::RedirectMap)
        .mov(R7, R0)
        .jump_if(Cond::Ne, R7, XDP_REDIRECT, alone);
    count(asm, counts, REDIRECTED);
    asm.mov(R0, R7).exit().place(alone);
    asm.mov(R1, R6).load_map(R2, programs).mov(R3, ALONE).call(Helper::TailCall);
    count(asm, counts, NO_SOCKET);
    asm.mov(R0, R7).exit();
}

/// Jumps to `ours` or `hosts`. R7 is the packet's first byte, R8 its end.
fn select(asm: &mut Asm, terms: &Terms, prefixes: &Map, ours: Label, hosts: Label) {
    // Packet fields are loaded as they lie; constants are turned instead.
    let be = |value: u16| i32::from(value.to_be());
    let (ip4, ip6) = (asm.label(), asm.label());
    asm.load(Width::Word, R7, R6, MD_DATA).load(Width::Word, R8, R6, MD_DATA_END);
    within(asm, 14, hosts);
    asm.load(Width::Half, R2, R7, 12);
    for tag in [0x8100, 0x88a8, 0x9100] {
        asm.jump_if(Cond::Eq, R2, be(tag), if terms.vlan { ours } else { hosts });
    }
    asm.jump_if(Cond::Eq, R2, be(0x0806), if terms.neighbours { ours } else { hosts })
        .jump_if(Cond::Eq, R2, be(0x0800), ip4)
        .jump_if(Cond::Eq, R2, be(0x86dd), ip6)
        .jump(hosts);

    asm.place(ip4);
    within(asm, 34, hosts);
    if !terms.prefixes.is_empty() {
        asm.store(Width::Double, R10, -16, 0)
            .store(Width::Word, R10, -8, i32::from_ne_bytes([0, 0, 0xff, 0xff]))
            .load(Width::Word, R1, R7, 30)
            .store(Width::Word, R10, -4, R1);
        matches_prefix(asm, prefixes, ours);
    }
    if !terms.udp.is_empty() {
        asm.load(Width::Byte, R2, R7, 23)
            .jump_if(Cond::Ne, R2, libc::IPPROTO_UDP, hosts)
            .load(Width::Half, R2, R7, 20)
            .jump_if(Cond::AnyBit, R2, be(0x1fff), ours)
            .load(Width::Byte, R2, R7, 14)
            .alu(Alu::And, R2, 15)
            .alu(Alu::Shl, R2, 2)
            .jump_if(Cond::Lt, R2, 20, hosts)
            .add(R7, R2);
        within(asm, 18, hosts);
        port(asm, terms, 16, ours);
    }
    asm.jump(hosts);

    asm.place(ip6);
    within(asm, 54, hosts);
    if !terms.prefixes.is_empty() {
        asm.load(Width::Word, R1, R7, 38).store(Width::Word, R10, -16, R1);
        asm.load(Width::Word, R1, R7, 42).store(Width::Word, R10, -12, R1);
        asm.load(Width::Word, R1, R7, 46).store(Width::Word, R10, -8, R1);
        asm.load(Width::Word, R1, R7, 50).store(Width::Word, R10, -4, R1);
        matches_prefix(asm, prefixes, ours);
    }
    let (icmp6, fragment) = (asm.label(), asm.label());
    asm.load(Width::Byte, R2, R7, 20)
        .jump_if(Cond::Eq, R2, libc::IPPROTO_ICMPV6, icmp6)
        .jump_if(Cond::Eq, R2, libc::IPPROTO_FRAGMENT, fragment)
        .jump_if(Cond::Ne, R2, libc::IPPROTO_UDP, hosts);
    within(asm, 58, hosts);
    port(asm, terms, 56, ours);
    asm.jump(hosts).place(fragment);
    if !terms.udp.is_empty() {
        within(asm, 66, hosts);
        asm.load(Width::Byte, R2, R7, 54)
            .jump_if(Cond::Ne, R2, libc::IPPROTO_UDP, hosts)
            .load(Width::Half, R2, R7, 56)
            .jump_if(Cond::AnyBit, R2, be(0xfff8), ours);
        port(asm, terms, 64, ours);
    }
    asm.jump(hosts).place(icmp6);
    if terms.neighbours {
        within(asm, 55, hosts);
        // Router solicitation 133 to redirect 137.
        asm.load(Width::Byte, R2, R7, 54).add(R2, -133).jump_if(Cond::Le, R2, 4, ours);
    }
    // Never taken: the verifier wants a way to `ours` even when there is no term.
    asm.mov(R2, 0).jump_if(Cond::Ne, R2, 0, ours);
}

/// To `hosts` when the packet is shorter than `bytes` (counted from R7).
fn within(asm: &mut Asm, bytes: i32, hosts: Label) {
    asm.mov(R1, R7).add(R1, bytes).jump_if(Cond::Gt, R1, R8, hosts);
}

/// To `ours` when the port at R7 + `at` is one of the filter's.
fn port(asm: &mut Asm, terms: &Terms, at: i16, ours: Label) {
    asm.load(Width::Half, R2, R7, at);
    for port in &terms.udp {
        asm.jump_if(Cond::Eq, R2, i32::from(port.to_be()), ours);
    }
}

/// To `ours` when the address in the last 16 bytes of the stack has a prefix in the trie.
fn matches_prefix(asm: &mut Asm, prefixes: &Map, ours: Label) {
    asm.store(Width::Word, R10, -20, 128)
        .mov(R2, R10)
        .add(R2, -20)
        .load_map(R1, prefixes)
        .call(Helper::MapLookup)
        .jump_if(Cond::Ne, R0, 0, ours);
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
