//! Landlock: the part of the file system, and the TCP ports, that are left.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};

use crate::ConfineError;

/// The newest version of Landlock whose rights are asked for; older kernels enforce those they know.
const NEWEST: ABI = ABI::V6;

/// What stays within reach. Paths that do not exist are left out.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Files and folders, with all below them, that may be read.
    pub read: Vec<PathBuf>,
    /// Files and folders, with all below them, in which everything may be done except running programs.
    pub write: Vec<PathBuf>,
    /// Folders in which sockets may be made, and files removed.
    pub sockets: Vec<PathBuf>,
    /// TCP ports to listen at and to connect to.
    pub tcp: Vec<u16>,
}

/// How far Landlock holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landlock {
    /// What the kernel enforces of what was asked for.
    pub enforced: Enforced,
    /// The version of the interface that the kernel offers; none: it has no Landlock, or it is switched off.
    pub abi: Option<i32>,
}

/// What the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// All that was asked for.
    All,
    /// A part: the kernel does not know the newest rights.
    Part,
    /// None of it: the kernel has no Landlock, or it is switched off.
    Nothing,
}

impl Enforced {
    /// The words in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "enforced",
            Self::Part => "partly enforced",
            Self::Nothing => "not supported",
        }
    }
}

impl Files {
    /// Restricts the calling thread, and those it makes from now on, to these files; also to no signals and abstract
    /// sockets of processes outside (kernels from 6.12 on). Sets no_new_privs.
    ///
    /// # Errors
    /// [`ConfineError::Landlock`]. A kernel without Landlock is no error, but [`Enforced::Nothing`].
    pub fn restrict(&self) -> Result<Landlock, ConfineError> {
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        let read = AccessFs::from_read(NEWEST) & !BitFlags::from(AccessFs::Execute);
        let write = read | AccessFs::from_write(NEWEST);
        let sockets = make_bitflags!(AccessFs::{MakeSock | RemoveFile | ReadDir});
        for (paths, access) in [(&self.read, read), (&self.write, write), (&self.sockets, sockets)] {
            for path in paths {
                rules = allow(rules, path, access)?;
            }
        }
        for &port in &self.tcp {
            rules = rules.add_rule(NetPort::new(port, AccessNet::from_all(NEWEST)))?;
        }
        let RestrictionStatus { ruleset, landlock, .. } = rules.restrict_self()?;
        let enforced = match ruleset {
            RulesetStatus::FullyEnforced => Enforced::All,
            RulesetStatus::PartiallyEnforced => Enforced::Part,
            RulesetStatus::NotEnforced => Enforced::Nothing,
        };
        let abi = match landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
            _ => None,
        };
        Ok(Landlock { enforced, abi })
    }
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, ConfineError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    // Rights of folders can't be given for a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    Ok(rules.add_rule(PathBeneath::new(fd, access))?)
}
