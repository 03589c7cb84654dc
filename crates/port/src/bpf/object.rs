//! Programs that come compiled, as an ELF object with their maps.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CString;
use std::os::fd::AsFd;

use super::insn::Insn;
use super::words::MMAPABLE;
use super::{BpfError, Map, MapType, Program, ProgramType, SharedWords};

/// Entries that maps are to have, by name, where the object does not say.
pub type Sizes<'a> = &'a [(&'a str, u32)];

/// XDP programs in the kernel, as an object brought them, and their maps.
#[derive(Debug)]
pub struct Object {
    programs: BTreeMap<String, Program>,
    maps: BTreeMap<String, Map>,
    shared: BTreeMap<String, SharedWords>,
    /// Programs of tracepoints, which need privileges that not every process has that may load the others.
    tracers: BTreeMap<String, Vec<Insn>>,
    licence: CString,
}

impl Object {
    /// Makes the object's maps, of those `sizes`, and has the kernel verify and take its XDP programs of those names.
    ///
    /// # Errors
    /// [`BpfError`]: an object that cannot be read, maps of kinds that are not known here, or what the kernel said.
    pub fn load(object: &[u8], programs: &[&str], sizes: Sizes<'_>) -> Result<Self, BpfError> {
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
        let taken = programs.iter().map(|name| {
            let found = parsed.programs.get(*name).ok_or_else(|| bad(&format_args!("there is no program {name}")))?;
            let function = parsed.functions.get(&found.function_key()).ok_or_else(|| bad(&"a program without code"))?;
            let insns: Vec<Insn> = function.instructions.iter().map(insn).collect();
            Ok(((*name).to_owned(), Program::load_licensed(name, ProgramType::Xdp, &insns, &parsed.license)?))
        });
        let programs = taken.collect::<Result<_, BpfError>>()?;
        let traces = |program: &aya_obj::Program| matches!(program.section, aya_obj::ProgramSection::RawTracePoint);
        let tracers = parsed.programs.iter().filter(|(_, program)| traces(program)).filter_map(|(name, program)| {
            let function = parsed.functions.get(&program.function_key())?;
            Some((name.clone(), function.instructions.iter().map(insn).collect()))
        });
        Ok(Self { programs, maps, shared, tracers: tracers.collect(), licence: parsed.license.clone() })
    }

    /// Has the kernel verify and take the object's program of that name, which is a tracepoint's.
    ///
    /// # Errors
    /// [`BpfError`]: there is none, or what the kernel said.
    pub fn tracer(&self, name: &str) -> Result<Program, BpfError> {
        let none = || BpfError::Object(format!("there is no program {name} of a tracepoint"));
        let insns = self.tracers.get(name).ok_or_else(none)?;
        Program::load_licensed(name, ProgramType::RawTracepoint, insns, &self.licence)
    }

    /// The program of that name, as the kernel has verified and taken it.
    ///
    /// # Errors
    /// [`BpfError::Object`]: it was not loaded.
    pub fn program(&self, name: &str) -> Result<&Program, BpfError> {
        self.programs.get(name).ok_or_else(|| BpfError::Object(format!("there is no program {name}")))
    }

    /// The map of that name that is not shared memory.
    ///
    /// # Errors
    /// [`BpfError::Object`]: there is none.
    pub fn map(&self, name: &str) -> Result<&Map, BpfError> {
        self.maps.get(name).ok_or_else(|| BpfError::Object(format!("there is no map {name}")))
    }

    /// Gives the map of that name that is not shared memory a name in a BPF file system.
    ///
    /// # Errors
    /// [`BpfError`]: there is no such map, or what the kernel said.
    pub fn give_name(&self, name: &str, path: &std::path::Path) -> Result<(), BpfError> {
        super::give_name(self.map(name)?.as_fd(), path)
            .map_err(|source| BpfError::Map { what: "could not be given a name", source })
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
        let error = Object::load(b"no object", &["x"], &[]).expect_err("no ELF");
        assert!(error.to_string().contains("not usable"), "{error}");
    }
}
