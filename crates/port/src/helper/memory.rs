//! Packet memory that a helper has registered for another process: how much there may be, and how much there is.
//!
//! Registered memory stays pinned until the last descriptor of its socket is closed, and the other process has one. Whether
//! it has closed it, it could say anything; the kernel takes a closed socket out of every BPF map. So each socket gets an
//! entry of a map that serves for nothing else, and as many are registered at one time as the map has entries.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::{Refusal, Scope};
use crate::PortError;
use crate::bpf::Map;

/// What was registered, and for which sockets.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    /// The first memory, held open so that no other file gets its number.
    arena: Option<File>,
    /// Sockets whose memory is registered, as long as they are open.
    sockets: Option<Map>,
}

impl Registrations {
    /// Gives the socket an entry, if the first `bytes` of that file may be registered for it.
    ///
    /// # Errors
    /// [`Refusal`]; or the map could not be made.
    pub(super) fn admit(
        &mut self,
        scope: &Scope,
        socket: &OwnedFd,
        file: &OwnedFd,
        bytes: u64,
    ) -> Result<(), PortError> {
        let most = scope.memory.unwrap_or(0);
        if bytes > most {
            return Err(Refusal::MemorySize { bytes, most }.into());
        }
        self.check_file(file)?;
        let most = scope.most_registrations();
        let sockets = match &mut self.sockets {
            Some(sockets) => sockets,
            none => none.insert(Map::sockets(u32::try_from(most).unwrap_or(u32::MAX))?),
        };
        for entry in 0..u32::try_from(most).unwrap_or(u32::MAX) {
            if sockets.set_fd_if_empty(entry, socket.as_fd())? {
                return Ok(());
            }
        }
        Err(Refusal::TooManyRegistrations { most }.into())
    }

    fn check_file(&mut self, file: &OwnedFd) -> Result<(), PortError> {
        // Only files in memory have seals, and a memfd always tells them.
        // SAFETY: takes no pointers; the descriptor is open.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) } < 0 {
            return Err(Refusal::NotMemory.into());
        }
        let system = |source| PortError::System { doing: "looking at packet memory".to_owned(), source };
        let number = |file: &File| file.metadata().map(|data| (data.dev(), data.ino())).map_err(system);
        let file = File::from(file.try_clone().map_err(system)?);
        match &self.arena {
            Some(arena) if number(arena)? != number(&file)? => Err(Refusal::OtherMemory.into()),
            Some(_) => Ok(()),
            None => {
                self.arena = Some(file);
                Ok(())
            }
        }
    }
}
