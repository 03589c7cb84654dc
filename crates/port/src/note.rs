//! What a process has changed about an interface, noted where the next one finds it.
//!
//! A process that is killed undoes nothing. So whoever changes what outlives it writes a note first, in a file it keeps
//! locked; the kernel unlocks it however the process ends. A note found unlocked is of a dead process, and the next
//! port on the interface takes it over: it undoes the dead one's change with its own. Notes are gone after a reboot, as
//! the changes are. Where none can be written, the change is made all the same.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::iface::Iface;
use crate::shared::Key;

const FOLDER: &str = "/run/weir";
/// How long to wait for a note that another process has.
const PATIENCE: Duration = Duration::from_secs(1);

/// A note of this process; gone with it.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    file: File,
    /// Tells the interface from another that has its number later.
    head: String,
}

impl Note {
    /// The note of that kind about an interface, and what a process that died has left in it. None where none can be
    /// kept, or a living process has it.
    pub(crate) fn open(kind: &str, iface: &Iface, key: Key) -> Option<(Self, String)> {
        let ((device, inode), index) = key;
        let path = Path::new(FOLDER).join(format!("{kind}-{device}-{inode}-{index}"));
        fs::create_dir_all(FOLDER).ok()?;
        let mut file = locked(&path)?;
        let head = format!("{} {:x?}\n", iface.name(), iface.mac().ok()?);
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let left = text.strip_prefix(&head).unwrap_or_default().to_owned();
        Some((Self { path, file, head }, left))
    }

    /// Says this instead of what it said.
    pub(crate) fn write(&mut self, text: &str) {
        let whole = format!("{}{text}", self.head);
        let _ =
            self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| self.file.write_all(whole.as_bytes()));
    }
}

/// The file, locked: by this process alone. The helper of a process that was killed has its lock for a moment still.
fn locked(path: &Path) -> Option<File> {
    let until = Instant::now() + PATIENCE;
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).ok()?;
        // One that was removed before it was ours is of no use: the next process would not find it.
        let is_there = |file: &File| Some(fs::metadata(path).ok()?.ino() == file.metadata().ok()?.ino());
        if file.try_lock().is_ok() && is_there(&file) == Some(true) {
            return Some(file);
        }
        if Instant::now() >= until {
            return None;
        }
        drop(file);
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Only if it was the last.
        let _ = fs::remove_dir(FOLDER);
    }
}
