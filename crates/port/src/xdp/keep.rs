//! What stays of an interface's program when the process ends: names in a BPF file system.
//!
//! ```text
//! FOLDER/weir/<namespace>-<interface number>/   link, sockets, fast, counts, prefixes
//! ```
//! A process that starts goes on with what it finds: its sockets join those maps, and its program takes the place of the
//! one that is attached, between two packets. So a fast path of the process before forwards until the new one's takes its
//! place.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use crate::PortError;
use crate::bpf::{get_named, give_name, is_bpf_fs};
use crate::iface::Iface;
use crate::open::is_borrowed;
use crate::shared::{self, Key};

/// The folder for names; none: nothing stays.
static FOLDER: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Names of an interface's, in the order of [`Kept`].
const NAMES: [&str; 5] = ["link", "sockets", "fast", "counts", "prefixes"];

/// What stays of an interface: its link, and the maps of its program.
pub(crate) type Kept = [OwnedFd; NAMES.len()];

/// From now on what is attached to interfaces with a fast path stays when the process ends, named in `folder` of a BPF file
/// system, and what is there already is gone on with. To be called before ports open.
///
/// # Errors
/// The folder is of no BPF file system, or cannot be written.
pub fn keep_in(folder: &Path) -> io::Result<()> {
    if !is_bpf_fs(folder) {
        return Err(io::Error::other(format!("{} is no BPF file system", folder.display())));
    }
    let folder = folder.join("weir");
    fs::create_dir_all(&folder)?;
    *FOLDER.write().unwrap_or_else(|e| e.into_inner()) = Some(folder);
    Ok(())
}

/// From now on nothing more is named or found: the process is about to lose its privileges.
pub fn keep_no_more() {
    *FOLDER.write().unwrap_or_else(|e| e.into_inner()) = None;
}

fn folder() -> Option<PathBuf> {
    FOLDER.read().unwrap_or_else(|e| e.into_inner()).clone()
}

/// The folder of an interface's names; none: nothing stays.
///
/// # Errors
/// There is no such interface.
pub fn folder_of(interface: &str, netns: Option<&str>) -> Result<Option<PathBuf>, PortError> {
    let Some(folder) = folder() else { return Ok(None) };
    let iface = Iface::open(interface, netns)?;
    Ok(Some(at(&folder, shared::key(&iface)?)))
}

fn at(folder: &Path, ((device, inode), index): Key) -> PathBuf {
    folder.join(format!("{device}-{inode}-{index}"))
}

/// The interface of a folder: its namespace and number.
pub(super) fn key_of(folder: &Path) -> Option<Key> {
    let mut numbers = folder.file_name()?.to_str()?.splitn(3, '-');
    let device = numbers.next()?.parse().ok()?;
    Some(((device, numbers.next()?.parse().ok()?), numbers.next()?.parse().ok()?))
}

/// What another process has left of an interface; none: nothing, or nothing is to stay.
pub(crate) fn found(interface: &str, netns: Option<&str>) -> Option<Kept> {
    let folder = folder_of(interface, netns).ok().flatten()?;
    let all: Option<Vec<OwnedFd>> = NAMES.iter().map(|name| get_named(&folder.join(name)).ok()).collect();
    let all = all.and_then(|all| all.try_into().ok());
    if all.is_none() {
        forget(&folder);
    }
    all
}

/// Gives what is to stay its names.
pub(super) fn give_names(interface: &str, netns: Option<&str>, kept: [BorrowedFd<'_>; NAMES.len()]) -> io::Result<()> {
    let Some(folder) = folder_of(interface, netns).map_err(io::Error::other)? else { return Ok(()) };
    fs::create_dir_all(&folder)?;
    for (name, fd) in NAMES.iter().zip(kept) {
        let path = folder.join(name);
        // The same ones as before, mostly; or of an interface that had the number before.
        let _ = fs::remove_file(&path);
        give_name(fd, &path)?;
    }
    Ok(())
}

/// Detaches what another process has left of an interface, named in `folder` of a BPF file system.
///
/// # Errors
/// There is no such interface.
pub fn leave_nothing(folder: &Path, interface: &str, netns: Option<&str>) -> Result<(), PortError> {
    // Of a process that still forwards, and goes on if this one does not.
    if is_borrowed() {
        return Ok(());
    }
    let iface = Iface::open(interface, netns)?;
    forget(&at(&folder.join("weir"), shared::key(&iface)?));
    Ok(())
}

/// Takes all names in a folder away: what nobody uses goes.
fn forget(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}

/// As [`give_names`], of descriptors that are this process's.
pub(super) fn give_names_of(interface: &str, netns: Option<&str>, kept: &Kept) -> io::Result<()> {
    give_names(interface, netns, kept.each_ref().map(AsFd::as_fd))
}
