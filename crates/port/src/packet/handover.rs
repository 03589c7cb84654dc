//! A port that another process goes on with: its socket with the ring in it, its claim on the interface, and what the helper
//! keeps for it. Packets that come meanwhile wait in the socket.

use std::os::fd::{AsFd, OwnedFd};

use super::*;
use crate::helper::Kept;

/// Numbers that go with the descriptors, as text, each but the last followed by a space.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    /// Index of the interface that the socket is bound to.
    index: u32,
    /// Bytes of the longest packet when its slots were made.
    longest: u64,
    /// 0: nothing is shared with the kernel; 1: blocks; 2: slots.
    shared: u64,
    /// The helper's numbers of what it keeps: offloads that are off, and the host stack kept off; 0: nothing.
    fit: u64,
    hush: u64,
}

impl Numbers {
    fn text(&self) -> String {
        let Self { index, longest, shared, fit, hush } = self;
        format!("{index} {longest} {shared} {fit} {hush}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let read =
            Self { index: next()?.try_into().ok()?, longest: next()?, shared: next()?, fit: next()?, hush: next()? };
        numbers.next().is_none().then_some(read)
    }
}

/// The helper's number of a change; 0: there is none.
///
/// # Errors
/// It is the process's own, and ends with it.
fn lease<T>(kept: Option<&Kept<T>>) -> Result<u64, String> {
    match kept.map(Kept::lease) {
        None => Ok(0),
        Some(Some(number)) => Ok(number),
        Some(None) => Err("changes to its interface end with this process, as [process] confine is false".to_owned()),
    }
}

impl Packet {
    pub(super) fn handover(&self) -> Result<PortHandover, String> {
        let bound = self.bound.as_ref().ok_or("its interface is gone")?;
        let numbers = Numbers {
            index: bound.key.1,
            longest: bound.longest as u64,
            shared: match bound.shared {
                Shared::None => 0,
                Shared::Ring(_) => 1,
                Shared::Slots(_) => 2,
            },
            fit: lease(bound._fit.as_ref())?,
            hush: lease(bound._hush.as_ref())?,
        };
        let copies = || -> std::io::Result<Vec<OwnedFd>> {
            let own = [bound.socket.owned().as_fd().try_clone_to_owned()?, claim::descriptor(&bound._hold)?];
            Ok(own.into_iter().chain(self.iface.descriptors()?).collect())
        };
        let descriptors = copies().map_err(|error| error.to_string())?;
        Ok(PortHandover { descriptors, text: numbers.text() })
    }

    pub(super) fn place(&self) -> [u64; 4] {
        let Some(bound) = &self.bound else { return [u64::MAX; 4] };
        let [a, b, c] = match &bound.shared {
            Shared::None => [0; 3],
            Shared::Ring(ring) => ring.position(),
            Shared::Slots(slots) => [slots.position(), 0, 0],
        };
        [bound.key.1.into(), a, b, c]
    }

    pub(super) fn go_to(&mut self, [index, a, b, c]: [u64; 4]) -> bool {
        let Some(bound) = self.bound.as_mut().filter(|bound| u64::from(bound.key.1) == index) else { return false };
        match &mut bound.shared {
            Shared::None => true,
            Shared::Ring(ring) => ring.go_on_at([a, b, c]),
            Shared::Slots(slots) => slots.go_on_at(a),
        }
    }

    /// A port as [handed over](Port::hand_over) by another process with the same configuration. It receives and sends from
    /// where it is told to [go on](Port::go_on_at).
    ///
    /// # Errors
    /// [`PortError`]: it is none, or of another configuration.
    pub fn take_over(uri: &Uri, steer: &Steer, handed: PortHandover) -> Result<Self, PortError> {
        let config = Config::read(uri)?;
        let garbled = || {
            let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
            PortError::System { doing: format!("taking over {}", config.name), source }
        };
        let numbers = Numbers::read(&handed.text).ok_or_else(garbled)?;
        let Ok([socket, listener, namespace, control, changes]) = <[OwnedFd; 5]>::try_from(handed.descriptors) else {
            return Err(garbled());
        };
        let iface = Iface::of([namespace, control, changes], &config.name, config.netns.as_deref());
        let key = shared::key(&iface)?;
        let socket = Socket::of(socket);
        let (is_kept, longest) = (|number: u64, wanted: bool| (number != 0) == wanted, numbers.longest as usize);
        if key.1 != numbers.index || !is_kept(numbers.fit, config.fit) || !is_kept(numbers.hush, config.quiet) {
            return Err(garbled());
        }
        let mode = match (config.mode, numbers.shared) {
            (Mode::Auto(geometry) | Mode::Ring(geometry), 1) => Mode::Ring(geometry),
            (Mode::Auto(_) | Mode::Slots, 2) => Mode::Slots,
            (mode @ (Mode::Mmsg | Mode::Plain), 0) => mode,
            _ => return Err(garbled()),
        };
        let shared = match mode {
            Mode::Auto(geometry) | Mode::Ring(geometry) => Ring::adopt(&socket, geometry).map(Shared::Ring),
            Mode::Slots => Slots::adopt(&socket, longest).map(Shared::Slots),
            Mode::Mmsg | Mode::Plain => Ok(Shared::None),
        };
        let shared = shared
            .map_err(|source| PortError::System { doing: format!("mapping the ring of {}", config.name), source })?;
        let (mmsg, plain) = (config.mode == Mode::Mmsg, config.mode == Mode::Plain);
        let everything = config.promiscuous;
        let line =
            Line { fd: socket.raw(), mac: [0; 6], everything, counters: PortCounters::default(), doubtful: false };
        let claim = config.fanout.as_ref().map_or(Claim::Whole, Fanout::claim);
        let bound = Bound {
            shared,
            _seat: config.fanout.as_ref().map(|fanout| fanout.adopt(key, &socket)),
            _hush: (numbers.hush != 0).then(|| Kept::adopt(numbers.hush)).flatten(),
            _fit: (numbers.fit != 0).then(|| Kept::adopt(numbers.fit)).flatten(),
            _hold: claim::adopt(key, claim, listener),
            key,
            longest,
            loses_redirected: iface.loses_redirected_frames(),
            socket,
        };
        let mut port = Self {
            receive: mmsg.then(|| mmsg::Receiver::new(config.vlan)),
            send: (!plain).then(mmsg::Sender::new),
            bound: Some(bound),
            mode,
            link: iface.link(),
            mtu: 0,
            looked: now(),
            closed: false,
            steer: steer.clone(),
            config,
            iface,
            line,
        };
        port.refresh();
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let numbers = Numbers { index: 7, longest: 1518, shared: 2, fit: 3, hush: 0 };
        assert_eq!(Numbers::read(&numbers.text()), Some(numbers));
        for garbled in ["", "1 2 3 4", "1 2 3 4 5 6", "1 2 x 4 5", "4294967296 1 1 1 1"] {
            assert_eq!(Numbers::read(garbled), None, "{garbled}");
        }
    }
}
