//! Programs that come compiled, as an ELF object with their maps.

use std::collections::{BTreeMap, HashSet};

use super::insn::Insn;
use super::words::MMAPABLE;
use super::{BpfError, Map, MapType, Program, ProgramType, SharedWords};

/// Entries that maps are to have, by name, where the object does not say.
pub type Sizes<'a> = &'a [(&'a str, u32)];

/// An XDP program in the kernel, as an object brought it, and its maps.
#[derive(Debug)]
pub struct Object {
    program: Program,
    maps: BTreeMap<String, Map>,
    shared: BTreeMap<String, SharedWords>,
}

impl Object {
    /// Makes the object's maps, of those `sizes`, and has the kernel verify and take its XDP program of that name.
    ///
    /// # Errors
    /// [`BpfError`]: an object that cannot be read, maps of kinds that are not known here, or what the kernel said.
    pub fn load(object: &[u8], program: &str, sizes: Sizes<'_>) -> Result<Self, BpfError> {
        let bad = |why: &dyn std::fmt::Display| BpfError::Object(why.to_string());
        let mut parsed = aya_obj::Object::parse(object).map_err(|why| bad(&why))?;
        for (name, entries) in sizes {
            let map = parsed.maps.get_mut(*name).ok_or_else(|| bad(&format_args!("there is no map {name}")))?;
            map.set_max_entries(*entries);
        }
        let (mut maps, mut shared) = (BTreeMap::new(), BTreeMap::new());
        for (name, map) in &parsed.maps {
            let (kind, flags) = (kind_of(map.map_type()).ok_or_else(|| bad(name))?, map.map_flags());
            let [key, value] = [map.key_size(), map.value_size()].map(|size| size as usize);
            if flags == MMAPABLE && kind == MapType::Array {
                shared.insert(name.clone(), SharedWords::new(value, map.max_entries())?);
            } else {
                maps.insert(name.clone(), Map::with_flags(kind, key, value, map.max_entries(), flags)?);
            }
        }
        let fd_of = |name: &str| maps.get(name).or_else(|| shared.get(name).map(SharedWords::map)).map(Map::raw_fd);
        let definitions = parsed.maps.clone();
        let fds = definitions.iter().filter_map(|(name, map)| Some((name.as_str(), fd_of(name)?, map)));
        let text = parsed.functions.keys().map(|(section, _)| *section).collect::<HashSet<_>>();
        let text = text.into_iter().collect();
        parsed.relocate_maps(fds, &text).map_err(|why| bad(&why))?;
        let found = parsed.programs.get(program).ok_or_else(|| bad(&format_args!("there is no program {program}")))?;
        let function = parsed.functions.get(&found.function_key()).ok_or_else(|| bad(&"a program without code"))?;
        let insns: Vec<Insn> = function.instructions.iter().map(insn).collect();
        let program = Program::load_licensed(program, ProgramType::Xdp, &insns, &parsed.license)?;
        Ok(Self { program, maps, shared })
    }

    /// The program of the object, as the kernel has verified and loaded it.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The map of that name that is not shared memory.
    ///
    /// # Errors
    /// [`BpfError::Object`]: there is none.
    pub fn map(&self, name: &str) -> Result<&Map, BpfError> {
        self.maps.get(name).ok_or_else(|| BpfError::Object(format!("there is no map {name}")))
    }

    /// The array of that name that is shared memory, which from now on is the caller's; the program keeps the map itself.
    ///
    /// # Errors
    /// [`BpfError::Object`]: there is none, or it was taken.
    pub fn take_shared(&mut self, name: &str) -> Result<SharedWords, BpfError> {
        self.shared.remove(name).ok_or_else(|| BpfError::Object(format!("there is no shared map {name}")))
    }
}

fn kind_of(number: u32) -> Option<MapType> {
    use MapType::*;
    [Hash, Array, ProgArray, PerCpuArray, LpmTrie, DevMap, XskMap].into_iter().find(|kind| *kind as u32 == number)
}

fn insn(from: &aya_obj::generated::bpf_insn) -> Insn {
    Insn { code: from.code, regs: from.dst_reg() | from.src_reg() << 4, off: from.off, imm: from.imm }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_said() {
        let error = Object::load(b"no object", "x", &[]).expect_err("no ELF");
        assert!(error.to_string().contains("not usable"), "{error}");
    }
}
