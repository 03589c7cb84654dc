//! Network namespaces: a socket belongs to the one its maker's thread was in, and stays there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use crate::PortError;

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// A network namespace, held open: it lives at least as long as this.
#[derive(Debug)]
pub struct Netns {
    file: File,
    name: Option<String>,
}

impl Netns {
    /// The one of that name, or the calling thread's own.
    ///
    /// # Errors
    /// [`PortError::NoNamespace`], or what the system said.
    pub fn open(name: Option<&str>) -> Result<Self, PortError> {
        let Some(name) = name else {
            let doing = "looking at this thread's network namespace";
            let file = own().map_err(|e| PortError::system(doing, "CAP_SYS_PTRACE", e))?;
            return Ok(Self { file, name: None });
        };
        if name.is_empty() || name.contains('/') {
            return Err(PortError::NoNamespace { name: name.to_owned() });
        }
        match File::open(format!("{NAMES}/{name}")) {
            Ok(file) => Ok(Self { file, name: Some(name.to_owned()) }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(PortError::NoNamespace { name: name.to_owned() }),
            Err(e) => Err(PortError::system(format!("opening network namespace {name}"), "CAP_SYS_ADMIN", e)),
        }
    }

    /// One that is open already.
    pub(crate) fn of(file: File, name: Option<&str>) -> Self {
        Self { file, name: name.map(str::to_owned) }
    }

    /// What holds it open.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.file.into()
    }

    /// What holds it open, to be copied.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Device and inode, which tell one namespace from another.
    ///
    /// # Errors
    /// What `fstat` said.
    pub fn id(&self) -> io::Result<(u64, u64)> {
        let data = self.file.metadata()?;
        Ok((data.dev(), data.ino()))
    }

    /// Its name; none: the thread's own when it was opened.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its name, for people.
    pub fn place(&self) -> String {
        self.name.as_ref().map_or_else(|| "this network namespace".to_owned(), |name| format!("namespace {name}"))
    }

    /// Runs `f` with the calling thread inside the namespace, and returns to where it was, also when `f` panics.
    ///
    /// # Errors
    /// [`PortError::Capability`] when the thread may not enter.
    ///
    /// # Panics
    /// When the thread cannot return: going on in the wrong network would be worse.
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> Result<R, PortError> {
        let enter = || -> io::Result<Option<Back>> {
            let home = own()?;
            let data = home.metadata()?;
            if (data.dev(), data.ino()) == self.id()? {
                return Ok(None);
            }
            set(&self.file)?;
            Ok(Some(Back(home)))
        };
        let doing = || format!("entering {}", self.place());
        let back = enter().map_err(|e| PortError::system(doing(), "CAP_SYS_ADMIN", e))?;
        let result = f();
        drop(back);
        Ok(result)
    }
}

/// Runs `f` with the calling thread inside the namespace of that name, as [`Netns::within`] does.
///
/// # Errors
/// As [`Netns::open`] and [`Netns::within`].
pub fn within<R>(name: &str, f: impl FnOnce() -> R) -> Result<R, PortError> {
    Netns::open(Some(name))?.within(f)
}

struct Back(File);

impl Drop for Back {
    fn drop(&mut self) {
        set(&self.0).expect("the way back to the namespace the thread came from");
    }
}

fn own() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

fn set(namespace: &File) -> io::Result<()> {
    // SAFETY: setns takes no pointers; the descriptor is open for the call.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_says_how_to_make_it() {
        let error = within("weir-no-such", || ()).unwrap_err();
        assert!(error.to_string().contains("ip netns add weir-no-such"), "{error}");
        assert!(matches!(within("../x", || ()), Err(PortError::NoNamespace { .. })));
    }

    #[test]
    fn within_ones_own_nothing_changes() {
        let here = Netns::open(None).unwrap();
        let id = here.id().unwrap();
        assert_eq!(here.within(|| Netns::open(None).unwrap().id().unwrap()).unwrap(), id);
    }
}
