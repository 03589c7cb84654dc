//! Which process of this machine has which group: a folder that all of them share, with a file for each group.
//!
//! The file says by its control socket whose the group is. It is replaced by renaming another over it, which happens or does
//! not: whatever process is killed when, one has the group, and that one says so after its next start.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dataplane::config::{ConfigError, wrong};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How groups move between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MovesSection {
    /// A folder that says which process has which group, the same in the configuration of all of them; made where there is
    /// none. A process is known by its `control_socket`.
    pub owners: PathBuf,
}

impl MovesSection {
    /// Reports what is invalid; `socket` is the process's own control socket.
    ///
    /// # Errors
    /// A value that cannot be used, with its key.
    pub fn check(&self, socket: &Path) -> Result<(), ConfigError> {
        if !self.owners.is_absolute() {
            let what = format!("owners = \"{}\" is not absolute", self.owners.display());
            return Err(wrong(
                &[&"moves", &"owners"],
                what,
                "the same folder for all processes, as /var/lib/weir/owners",
            ));
        }
        if !socket.is_absolute() {
            let what = format!("control_socket = \"{}\" is not absolute", socket.display());
            return Err(wrong(&[&"control_socket"], what, "with [moves], other processes know this one by it"));
        }
        Ok(())
    }
}

/// The folder, as one process sees it.
#[derive(Clone, Debug)]
pub struct Owners {
    folder: PathBuf,
    own: String,
}

impl Owners {
    /// Of a process with that control socket.
    pub fn new(section: &MovesSection, socket: &Path) -> Self {
        Self { folder: section.owners.clone(), own: socket.display().to_string() }
    }

    /// What other processes know this one by.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// The folder of the files that say whose each group is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder where there is none.
    ///
    /// # Errors
    /// What the system said.
    pub fn make(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)
    }

    /// The process that has a group; none: no process ever had.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn owner(&self, group: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.file(group)) {
            Ok(text) => Ok(Some(text.trim_end().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a group is this process's; one that is nobody's is from now on, if it `begins` here.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn is_own(&self, group: &str, begins: bool) -> io::Result<bool> {
        if let Some(owner) = self.owner(group)? {
            return Ok(owner == self.own);
        }
        if !begins {
            return Ok(false);
        }
        let draft = self.draft(group, &self.own)?;
        match renameat_with(CWD, &draft, CWD, self.file(group), RenameFlags::NOREPLACE) {
            Ok(()) => self.sync().map(|()| true),
            Err(rustix::io::Errno::EXIST) => {
                let _ = fs::remove_file(&draft);
                Ok(self.owner(group)?.as_deref() == Some(&self.own))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes ready to [give](Draft::give) a group to another process: that is written, but is nowhere read yet.
    ///
    /// # Errors
    /// What the system said.
    pub fn prepare(&self, group: &str, to: &str) -> io::Result<Draft> {
        Ok(Draft { from: self.draft(group, to)?, to: self.file(group), folder: self.clone(), group: group.to_owned() })
    }

    fn draft(&self, group: &str, owner: &str) -> io::Result<PathBuf> {
        // Processes in containers may have the same number.
        let other = RandomState::new().hash_one(std::process::id());
        let path = self.folder.join(format!(".{}.{other:016x}", name(group)));
        let mut file = File::create_new(&path)?;
        file.write_all(format!("{owner}\n").as_bytes())?;
        file.sync_all()?;
        Ok(path)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    fn file(&self, group: &str) -> PathBuf {
        self.folder.join(name(group))
    }
}

/// What is to say that a group is another process's.
pub struct Draft {
    from: PathBuf,
    to: PathBuf,
    folder: Owners,
    group: String,
}

impl Draft {
    /// The group is the other process's from now on: the moment at which it moves. That it is on the disk, too, when
    /// this returns is not for sure: where not, an event says so, and a crash of the host may undo it.
    ///
    /// # Errors
    /// What the system said: it has not happened.
    pub fn give(self) -> io::Result<()> {
        fs::rename(&self.from, &self.to)?;
        if let Err(error) = self.folder.sync() {
            let (group, folder) = (&self.group, self.folder.folder.display());
            tracing::warn!(
                target: "worker", event = "group_owner_not_synced", group, %error,
                "group {group} is another process's, but {folder} is not on the disk: {error}"
            );
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone when it was given.
        let _ = fs::remove_file(&self.from);
    }
}

/// A group's name as that of a file.
fn name(group: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"_-".contains(&octet);
    group
        .bytes()
        .map(|octet| if plain(octet) { char::from(octet).to_string() } else { format!("%{octet:02x}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_one_processs() {
        let folder = std::env::temp_dir().join(format!("weir-owners-{}", std::process::id()));
        let section = MovesSection { owners: folder.clone() };
        let [first, second] = ["/run/a.sock", "/run/b.sock"].map(|socket| Owners::new(&section, Path::new(socket)));
        first.make().unwrap();
        assert!(!second.is_own("olt 1/a", false).unwrap(), "it begins elsewhere");
        assert!(first.is_own("olt 1/a", true).unwrap());
        assert!(!second.is_own("olt 1/a", true).unwrap(), "though its configuration says so, too");
        drop(first.prepare("olt 1/a", second.own()).unwrap());
        assert!(first.is_own("olt 1/a", true).unwrap(), "nothing was given");
        first.prepare("olt 1/a", second.own()).unwrap().give().unwrap();
        assert!(!first.is_own("olt 1/a", true).unwrap() && second.is_own("olt 1/a", false).unwrap());
        assert_eq!(first.owner("olt 1/a").unwrap().as_deref(), Some("/run/b.sock"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_of_files_are_told_apart() {
        assert_eq!(name("pon-1_a"), "pon-1_a");
        assert_eq!((name("../x"), name("a b")), ("%2e%2e%2fx".into(), "a%20b".into()));
    }

    #[test]
    fn relative_paths_are_refused() {
        let check = |owners: &str, socket: &str| MovesSection { owners: owners.into() }.check(Path::new(socket));
        assert!(check("/var/lib/weir/owners", "/run/weir.sock").is_ok());
        assert!(check("owners", "/run/weir.sock").unwrap_err().to_string().contains("absolute"));
        assert!(check("/o", "weir.sock").unwrap_err().to_string().contains("control_socket"));
    }
}
