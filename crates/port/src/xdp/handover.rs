//! A port that another process goes on with: its socket with its rings, its claim on the interface, and what the helper
//! keeps for it. The packet memory is both processes': slots that the kernel has stay where they are, and who owns
//! which is told with the [position](frame::Port::position).
//!
//! ```text
//! position:  interface number | lost before: ring full, no frame, too long, invalid
//!              | slots kept ready | slots to receive into (a bit each) | slots to send from (a bit each)
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use frame::{Arena, PortHandover};

use super::config::XdpConfig;
use super::live::Live;
use super::port::{Lost, XdpPort};
use crate::helper::Kept;
use crate::iface::Iface;
use crate::{PortError, Uri, claim};

/// Words of a position before those of the queue.
const HEAD: usize = 5;

/// Numbers that go with the descriptors, as text, each but the last followed by a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Index of the interface that the socket is bound to.
    pub(super) index: u32,
    /// The helper's numbers of what it keeps: the interface's program, and offloads that are off; 0: nothing.
    pub(super) program: u64,
    pub(super) fit: u64,
    /// Where the program runs, as the helper counts.
    pub(super) mode: u64,
}

impl Numbers {
    fn text(&self) -> String {
        let Self { index, program, fit, mode } = self;
        format!("{index} {program} {fit} {mode}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let read = Self { index: next()?.try_into().ok()?, program: next()?, fit: next()?, mode: next()? };
        numbers.next().is_none().then_some(read)
    }
}

/// The number by which the helper keeps something.
///
/// # Errors
/// It is the process's own, and ends with it.
fn kept(number: Option<u64>) -> Result<u64, String> {
    number.ok_or_else(|| "its program ends with this process, as [process] confine is false".to_owned())
}

impl XdpPort {
    pub(super) fn handover(&mut self) -> Result<PortHandover, String> {
        let most = self.most_braced();
        let live = self.live.as_mut().ok_or("its interface is gone")?;
        if self.arena.file().is_none() {
            return Err("its packet memory is this process's alone".to_owned());
        }
        let numbers = Numbers {
            index: live.ifindex,
            program: kept(live.attached.lease())?,
            fit: live.fit.as_ref().map_or(Ok(0), |fit| kept(Kept::lease(fit)))?,
            mode: live.attached.mode_number(),
        };
        // What comes while no worker runs is received into what is ready then.
        live.queue.brace(most);
        self.braced = Some(Instant::now());
        let live = &*live;
        let copies = || -> std::io::Result<Vec<OwnedFd>> {
            let own = [live.socket.copy()?, claim::descriptor(&live.hold)?];
            Ok(own.into_iter().chain(self.iface.descriptors()?).collect())
        };
        let descriptors = copies().map_err(|error| error.to_string())?;
        Ok(PortHandover { descriptors, text: numbers.text() })
    }

    pub(super) fn place(&self) -> Vec<u64> {
        let Some(live) = &self.live else { return vec![u64::MAX] };
        let mut position = vec![live.ifindex.into()];
        position.extend(Lost::shown(&self.counters).less(self.lost).words());
        live.queue.position(&mut position);
        position
    }

    pub(super) fn go_to(&mut self, position: &[u64]) -> bool {
        let slots = self.arena.shape().slots;
        let Some(live) = &mut self.live else { return false };
        let Some((&[index, ring_full, no_frame, too_long, invalid], queue)) = position.split_first_chunk::<HEAD>()
        else {
            return false;
        };
        // What the kernel has counted that the process before has seen is not this one's.
        self.lost = Lost::default().less(Lost { ring_full, no_frame, too_long, invalid });
        let stands = index == u64::from(live.ifindex) && live.queue.go_on_at(queue, slots);
        live.unkicked = live.queue.unsent() as usize;
        stands
    }

    /// A port as [handed over](frame::Port::hand_over) by another process with the same configuration, over the same
    /// packet memory. It receives and sends from where it is told to [go on](frame::Port::go_on_at).
    ///
    /// # Errors
    /// [`PortError`]: it is none, or of another configuration.
    pub fn take_over(uri: &Uri, arena: &Arc<Arena>, handed: PortHandover) -> Result<Self, PortError> {
        let config = XdpConfig::from_uri(uri)?;
        let garbled = || {
            let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
            PortError::System { doing: format!("taking over {}", config.interface), source }
        };
        let numbers = Numbers::read(&handed.text).ok_or_else(garbled)?;
        let Ok([socket, listener, namespace, control, changes]) = <[OwnedFd; 5]>::try_from(handed.descriptors) else {
            return Err(garbled());
        };
        if (numbers.fit == 0) != config.keep_offloads {
            return Err(garbled());
        }
        let iface = Iface::of([namespace, control, changes], &config.interface, config.netns.as_deref());
        let live = Live::adopt(&config, &iface, arena, (socket, listener), numbers)?.ok_or_else(garbled)?;
        Ok(Self::of(config, iface, live, arena.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let numbers = Numbers { index: 7, program: 4, fit: 3, mode: 1 };
        assert_eq!(Numbers::read(&numbers.text()), Some(numbers));
        for garbled in ["", "1 2 3", "1 2 3 4 5", "1 x 3 4", "4294967296 1 1 1"] {
            assert_eq!(Numbers::read(garbled), None, "{garbled}");
        }
    }
}
