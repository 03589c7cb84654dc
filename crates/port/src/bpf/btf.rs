//! Where the running kernel has fields of its structures: by its own description of them (BTF), as far as a program of ours
//! reads them.
//!
//! ```text
//! header: | magic, 2 | version | flags | its length, 4 | types: offset, length | strings: offset, length |
//! type:   | name, 4 | kind and number of parts, 4 | size or type, 4 | by kind … |
//! member: | name, 4 | type, 4 | offset in bits, 4 |
//! ```

use std::fs;
use std::io;

/// The kernel's description of itself.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Octets of a header, a type without its parts, and a member.
const HEADER: usize = 24;
const TYPE: usize = 12;
const MEMBER: usize = 12;
/// How deep structures without a name stand in each other.
const DEPTH: usize = 8;

/// Kinds of types.
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// Where the kernel has what tells one network device from another, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOffsets {
    /// In `struct net_device`: its number.
    pub ifindex: u16,
    /// In `struct net_device`: the pointer to its `struct net`.
    pub net: u16,
    /// In `struct net`: the number of its inode.
    pub inode: u32,
}

impl DeviceOffsets {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// It does not describe itself, or not these.
    pub fn of_kernel() -> io::Result<Self> {
        let bytes = fs::read(KERNEL).map_err(|error| io::Error::other(format!("{KERNEL}: {error}")))?;
        let none = || io::Error::other(format!("{KERNEL} does not say where network devices have their numbers"));
        Self::in_description(&bytes).ok_or_else(none)
    }

    fn in_description(bytes: &[u8]) -> Option<Self> {
        let btf = Btf::read(bytes)?;
        let (ifindex, _) = btf.member(btf.structure("net_device")?, "ifindex", DEPTH)?;
        // A structure of nothing but the pointer.
        let (net, _) = btf.member(btf.structure("net_device")?, "nd_net", DEPTH)?;
        let (common, kind) = btf.member(btf.structure("net")?, "ns", DEPTH)?;
        let (inode, _) = btf.member(kind, "inum", DEPTH)?;
        Some(Self { ifindex: ifindex.try_into().ok()?, net: net.try_into().ok()?, inode: common + inode })
    }
}

struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type begins; the first one, which has no description, is none.
    at: Vec<usize>,
}

impl<'a> Btf<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let field = |n: usize| word(bytes, 4 + 4 * n).map(|word| word as usize);
        let [header, types, types_len, strings, strings_len] = [field(0)?, field(1)?, field(2)?, field(3)?, field(4)?];
        debug_assert!(header >= HEADER);
        let part = |from: usize, len: usize| bytes.get(header.checked_add(from)?..)?.get(..len);
        let (types, strings) = (part(types, types_len)?, part(strings, strings_len)?);
        let (mut at, mut next) = (vec![usize::MAX], 0);
        while next < types.len() {
            at.push(next);
            next += TYPE + parts_len(word(types, next + 4)?);
        }
        Some(Self { types, strings, at })
    }

    fn info(&self, number: usize) -> Option<(u32, u32)> {
        let at = *self.at.get(number)?;
        Some((word(self.types, at)?, word(self.types, at.checked_add(4)?)?))
    }

    fn is_named(&self, name: u32, wanted: &str) -> bool {
        let rest = self.strings.get(name as usize..).unwrap_or_default();
        rest.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The number of the structure of that name.
    fn structure(&self, wanted: &str) -> Option<usize> {
        let is_it = |(name, info): (u32, u32)| info >> 24 & 0x1f == STRUCT && self.is_named(name, wanted);
        (1..self.at.len()).find(|number| self.info(*number).is_some_and(is_it))
    }

    /// Where a structure has a member, in octets, and that one's type; those of structures without a name in it are its own.
    fn member(&self, number: usize, wanted: &str, depth: usize) -> Option<(u32, usize)> {
        let (_, info) = self.info(number)?;
        if !matches!(info >> 24 & 0x1f, STRUCT | UNION) || depth == 0 {
            return None;
        }
        let first = self.at.get(number)? + TYPE;
        // With the topmost bit, offsets have the lengths of bit fields above them.
        let bits = if info >> 31 == 0 { u32::MAX } else { 0xff_ffff };
        (0..info as usize & 0xffff).find_map(|n| {
            let at = first + n * MEMBER;
            let (name, kind) = (word(self.types, at)?, word(self.types, at + 4)? as usize);
            let offset = (word(self.types, at + 8)? & bits) / 8;
            if self.is_named(name, wanted) {
                return Some((offset, kind));
            }
            let (inside, kind) = self.member(kind, wanted, depth - 1).filter(|_| self.is_named(name, ""))?;
            Some((offset + inside, kind))
        })
    }
}

/// Octets behind a type's head.
fn parts_len(info: u32) -> usize {
    let parts = info as usize & 0xffff;
    match info >> 24 & 0x1f {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => 12 * parts,
        ENUM | FUNC_PROTO => 8 * parts,
        _ => 0,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of these types.
    fn description(types: &[u32], strings: &str) -> Vec<u8> {
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let sizes = [HEADER as u32, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        let sizes = sizes.into_iter().flat_map(u32::to_ne_bytes);
        [0x9f, 0xeb, 1, 0].into_iter().chain(sizes).chain(types.iter().copied()).chain(strings.bytes()).collect()
    }

    #[test]
    fn members_are_found_in_structures_without_a_name() {
        let strings = "\0net_device\0ifindex\0nd_net\0net\0ns\0inum\0";
        let name = |name: &str| strings.find(&format!("\0{name}\0")).expect("there") as u32 + 1;
        #[rustfmt::skip]
        let types = [
            // 1: an integer. 2: without a name, with the number. 3: the device. 4: what namespaces share. 5: the network.
            0, INT << 24, 4, 32,
            0, STRUCT << 24 | 2, 8, 0, 1, 0, name("ifindex"), 1, 32,
            name("net_device"), STRUCT << 24 | 2, 64, name("nd_net"), 1, 64, 0, 2, 256,
            0, STRUCT << 24 | 1 | 1 << 31, 24, name("inum"), 1, 32 << 24 | 128,
            name("net"), STRUCT << 24 | 1, 64, name("ns"), 4, 192,
        ];
        let found = DeviceOffsets::in_description(&description(&types, strings));
        assert_eq!(found, Some(DeviceOffsets { ifindex: 36, net: 8, inode: 40 }));
        assert_eq!(DeviceOffsets::in_description(&description(&types[..4], strings)), None);
        assert_eq!(DeviceOffsets::in_description(b"no description"), None);
    }

    #[test]
    fn the_running_kernel_says_where() {
        let found = DeviceOffsets::of_kernel().expect("a kernel that describes itself");
        assert!(found.ifindex > 0 && found.net > 0 && found.ifindex != found.net, "{found:?}");
    }
}
