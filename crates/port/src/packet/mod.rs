//! AF_PACKET ports: any Linux interface, no driver needed.
//!
//! `packet:eth0?mode=auto|ring|slots|mmsg|plain` and further keys:
//!
//! | key | values (first: default) | |
//! |---|---|---|
//! | `mode` | `auto`, `ring`, `slots`, `mmsg`, `plain` | see below |
//! | `netns` | a name of `ip netns` | where the interface is |
//! | `fanout` | `none`, `qm`, `hash`, `subscriber` | how several ports of one interface share its packets |
//! | `group`, `member` | `7`, `0/2` | which of them this one is; see [`Steer`] for `subscriber` |
//! | `steer` | `auto`, `source`, `destination` | which address is the subscriber's, see [`Look`] |
//! | `block`, `blocks`, `retire` | `64k`, 4 MiB in all, `1` ms | the ring's geometry |
//! | `rcvbuf`, `sndbuf` | `8M`, `4M` | socket buffers |
//! | `vlan` | `restore`, `off` | put the outer VLAN tag, which the kernel takes off, back |
//! | `promisc` | `off`, `on` | also take packets to other hosts |
//! | `offloads` | `off`, `keep` | what would join packets or leave checksums out, while the port is open |
//! | `host` | `quiet`, `shared` | keep the host stack from handling the same packets |
//!
//! # Modes
//! | mode | receive | send | waits |
//! |---|---|---|---|
//! | `ring` | blocks of packets in shared memory (TPACKET_V3), copied into frames | `sendmmsg` out of frames | up to `retire` at a low rate |
//! | `slots` | packets in shared memory (TPACKET_V2), copied into frames | `sendmmsg` out of frames | no |
//! | `mmsg` | `recvmmsg` into frames | `sendmmsg` out of frames | no |
//! | `plain` | a `recvmsg` a packet into a frame (`recvfrom` with `vlan=off`) | a `sendto` a packet | no |
//!
//! Measured with `examples/forward.rs --phases` on Linux 6.18, a 2-processor VM (Sapphire Rapids, 2.1 GHz) under other
//! load, 128-byte packets, veth to veth, receive interrupts not counted, tenth percentile of about 800 phases of 1,024
//! packets; spread of repeated runs ±10 %; latency is of single packets, median, busy polling:
//!
//! | mode | receive alone, ns a packet | forward, ns a packet | latency, µs |
//! |---|---|---|---|
//! | `ring` | 20 | 525 | 1000 |
//! | `slots` | 60 | 550 | 2 |
//! | `mmsg` | 350–580 | 880 | 2 |
//! | `plain` | 450–670 | 1000 | 2 |
//! | `plain&vlan=off` | 310–390 | 930 | 2 |
//!
//! `auto` is `slots` where 2,000 packets of the interface's MTU find room, else `ring`, or where a key of the ring is given;
//! [`Caps::detail`] says which it chose.
//!
//! Sending, which makes a socket buffer for each packet, is all but everything that is left of `ring`. Its blocks may
//! be 32 KiB to 1 MiB with the same result; at 16 KiB the kernel's work for each block shows.
//!
//! # Failures
//! A packet over the MTU, or otherwise refused for what it is, counts as `tx_errors` and is gone; full buffers and a
//! link that is down leave packets with the caller. Without free frames received packets wait in the kernel, whose
//! losses are `rx_ring_full`. When an interface of the same name appears after ours went away, the port opens it.
//!
//! What a port changed is undone when it is dropped, also by a panic. A process that is killed leaves the offloads
//! off, but the host stack hears again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use frame::{Batch, Caps, Link, Pool, Port, PortCounters, PortHandover};

mod auxdata;
pub(crate) mod cbpf;
mod config;
mod fanout;
mod handover;
mod line;
mod mapping;
mod mmsg;
mod partial;
mod plain;
mod ring;
mod slots;
mod socket;
mod steer;

pub use fanout::steer_anew;
pub use partial::complete as complete_checksum;
pub use steer::{Look, Steer, SteerExtensions, SteerSpec};

use crate::claim::{self, Claim, Hold};
use crate::clock::coarse_now as now;
use crate::helper::{self, Place, Request};
use crate::iface::Iface;
use crate::offload::{self, Fit};
use crate::quiet::{self, Hush};
use crate::shared::{self, Key};
use crate::{PortError, Uri};
use config::{Config, Mode};
use fanout::{Fanout, FanoutMember};
use line::Line;
use ring::Ring;
use slots::Slots;
use socket::Socket;

/// Nanoseconds between looks at the link, and between those a failed call asks for.
const LOOK_EVERY: u64 = 100_000_000;
const LOOK_IN_DOUBT: u64 = 5_000_000;
/// Ethernet header and a tag.
const LINK: usize = 18;
/// Slots that are enough for what comes while the worker is away: 2 ms at a million packets a second.
const PLACES: usize = 2000;

/// A port on an AF_PACKET socket.
pub struct Packet {
    config: Config,
    steer: Steer,
    iface: Iface,
    line: Line,
    receive: Option<mmsg::Receiver>,
    send: Option<mmsg::Sender>,
    bound: Option<Bound>,
    /// What `mode=auto` has become for the interface as it was bound last.
    mode: Mode,
    link: Link,
    mtu: u32,
    looked: u64,
    closed: bool,
}

/// What belongs to one interface and goes with it. In the order it is taken down.
struct Bound {
    shared: Shared,
    socket: Socket,
    _seat: Option<FanoutMember>,
    _hush: Option<Hush>,
    _fit: Option<Fit>,
    _hold: Hold,
    key: Key,
    /// Bytes of the longest packet that its slots were made for.
    longest: usize,
    /// See [`Iface::loses_redirected_frames`].
    loses_redirected: bool,
}

/// Memory the kernel receives into.
enum Shared {
    None,
    Ring(Ring),
    Slots(Slots),
}

impl Packet {
    /// Opens the interface a URI names. `steer` serves `fanout=subscriber`.
    ///
    /// # Errors
    /// [`PortError`]: no such interface or namespace, a key that makes no sense, a missing capability.
    pub fn open(uri: &Uri, steer: &Steer) -> Result<Self, PortError> {
        let config = Config::read(uri)?;
        let iface = Iface::open(&config.name, config.netns.as_deref())?;
        let (mmsg, plain) = (config.mode == Mode::Mmsg, config.mode == Mode::Plain);
        let everything = config.promiscuous;
        let line = Line { fd: -1, mac: [0; 6], everything, counters: PortCounters::default(), doubtful: false };
        let mut port = Self {
            receive: mmsg.then(|| mmsg::Receiver::new(config.vlan)),
            send: (!plain).then(mmsg::Sender::new),
            bound: None,
            mode: config.mode,
            link: iface.link(),
            mtu: 0,
            looked: now(),
            closed: false,
            steer: steer.clone(),
            config,
            iface,
            line,
        };
        port.bind(true)?;
        Ok(port)
    }

    /// Opens the interface that has the name now. With `wait` a process that is just leaving it is waited for.
    fn bind(&mut self, wait: bool) -> Result<(), PortError> {
        let config = &self.config;
        let key = shared::key(&self.iface)?;
        let hold = claim::hold(&self.iface, key, config.fanout.as_ref().map_or(Claim::Whole, Fanout::claim), wait)?;
        let fit = if config.fit { Some(offload::fit(&config.name, config.netns.as_deref())?) } else { None };
        let doing = |what| format!("{what} {}", config.name);
        let system = |what, e| PortError::system(doing(what), "CAP_NET_RAW", e);
        let socket = socket_of(config, &self.iface, key.1)?;
        let longest = self.iface.mtu().unwrap_or(1500) as usize + LINK;
        self.mode = match config.mode {
            Mode::Auto(_) if Slots::places(longest) >= PLACES => Mode::Slots,
            Mode::Auto(geometry) => Mode::Ring(geometry),
            asked => asked,
        };
        let shared = match self.mode {
            Mode::Auto(geometry) | Mode::Ring(geometry) => Ring::new(&socket, geometry).map(Shared::Ring),
            Mode::Slots => Slots::new(&socket, longest).map(Shared::Slots),
            Mode::Mmsg | Mode::Plain => Ok(Shared::None),
        };
        let shared = shared.map_err(|e| system("a receive ring for", e))?;
        let join = || -> std::io::Result<()> {
            if matches!(shared, Shared::None) && config.vlan {
                socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
            }
            socket.listen_wide(key.1, config.promiscuous)
        };
        join().map_err(|e| system("binding to", e))?;
        let seat = match &config.fanout {
            Some(fanout) => Some(fanout.join(&socket, key, fanout.others(&self.iface, key)?, &self.steer)?),
            None => None,
        };
        let hush = if config.quiet { Some(quiet::hush(&self.iface, key)?) } else { None };
        socket.unfilter().map_err(|e| system("listening to", e))?;
        self.line.fd = socket.raw();
        let loses_redirected = self.iface.loses_redirected_frames();
        self.bound = Some(Bound {
            shared,
            socket,
            _seat: seat,
            _hush: hush,
            _fit: fit,
            _hold: hold,
            key,
            longest,
            loses_redirected,
        });
        self.refresh();
        Ok(())
    }

    fn refresh(&mut self) {
        self.line.mac = self.iface.mac().unwrap_or(self.line.mac);
        self.mtu = self.iface.mtu().unwrap_or(self.mtu);
    }

    /// Reads statistics, sees how the link is, and opens an interface that has come back.
    #[cold]
    fn look(&mut self) {
        self.line.doubtful = false;
        if let Some(bound) = &self.bound {
            self.line.counters.rx_ring_full += bound.socket.drops();
            bound.socket.clear_error();
        }
        let index = self.iface.index().ok();
        let same = index.is_some() && index == self.bound.as_ref().map(|bound| bound.key.1);
        if !same {
            self.turn(Link::Gone);
        }
        if index.is_some() && (!same || self.has_outgrown_slots()) {
            // The old socket first: its seat and its share in the interface's changes are in the way.
            self.bound = None;
            self.line.fd = -1;
            // Whatever is in the way (a member before us not yet back), it is tried again at the next look.
            let _ = self.bind(false);
        }
        if index.is_some() && self.bound.is_some() {
            self.refresh();
            self.turn(self.iface.link());
        }
    }

    /// Packets of the interface's MTU do not fit the slots any more, and no packet waits in them.
    fn has_outgrown_slots(&self) -> bool {
        let Some(Bound { shared: Shared::Slots(slots), .. }) = &self.bound else { return false };
        let mtu = self.iface.mtu().unwrap_or_default() as usize;
        !slots.fit(mtu + LINK) && slots.is_empty()
    }

    fn turn(&mut self, link: Link) {
        let counters = &mut self.line.counters;
        counters.link_losses += u64::from(self.link == Link::Up && link != Link::Up);
        counters.link_returns += u64::from(self.link != Link::Up && link == Link::Up);
        self.link = link;
    }
}

/// A socket bound to the interface of that number, which lets nothing through yet: the helper's, if there is one.
fn socket_of(config: &Config, iface: &Iface, index: u32) -> Result<Socket, PortError> {
    let (receive, send) = (config.receive_buffer, config.send_buffer);
    let Some(helper) = helper::client_of_process() else {
        return open_socket(iface, index, receive, send).map(Socket::of);
    };
    let place = Place::new(&config.name, config.netns.as_deref());
    let request = Request::PacketSocket { place, receive: receive as u64, send: send as u64 };
    let (answer, socket) = helper.descriptor(&request)?;
    if answer.number != u64::from(index) {
        // Removed and made again meanwhile: the next attempt has the new one.
        let source = std::io::Error::from_raw_os_error(libc::ENODEV);
        return Err(PortError::System { doing: format!("a packet socket for {}", config.name), source });
    }
    Ok(Socket::of(socket))
}

/// The privileged part of opening: a socket with buffers of those sizes, bound to the interface of that number, which
/// lets nothing through yet.
pub(crate) fn open_socket(iface: &Iface, index: u32, receive: usize, send: usize) -> Result<OwnedFd, PortError> {
    let system = |what| {
        let doing = format!("{what} {}", iface.name());
        move |e| PortError::system(doing, "CAP_NET_RAW", e)
    };
    let socket = iface.netns().within(Socket::new)?.map_err(system("a packet socket for"))?;
    socket.buffers(receive, send);
    socket.filter(&cbpf::NOTHING).and_then(|()| socket.bind(index)).map_err(system("binding to"))?;
    Ok(socket.into_owned())
}

/// Has the interface receive frames to every multicast address, or to any address, until the descriptor is closed. It
/// receives none itself.
pub(crate) fn listen_wide(iface: &Iface, everything: bool) -> Result<OwnedFd, PortError> {
    let system = |e| PortError::system(format!("receiving multicast frames on {}", iface.name()), "CAP_NET_RAW", e);
    let index = iface.index().map_err(system)?;
    let socket = iface.netns().within(Socket::new)?.map_err(system)?;
    socket.listen_wide(index, everything).map_err(system)?;
    Ok(socket.into_owned())
}

impl Port for Packet {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let Some(bound) = &mut self.bound else { return 0 };
        match (&mut bound.shared, &mut self.receive) {
            (Shared::Ring(ring), _) => ring.receive(&mut self.line, pool, out),
            (Shared::Slots(slots), _) => slots.receive(&mut self.line, pool, out),
            (Shared::None, Some(receive)) => receive.receive(&mut self.line, pool, out),
            (Shared::None, None) => plain::receive(&mut self.line, pool, out, self.config.vlan),
        }
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        if self.link != Link::Up || self.bound.is_none() {
            self.line.counters.tx_link_down += batch.len() as u64;
            return 0;
        }
        match &mut self.send {
            Some(send) => send.send(&mut self.line, pool, batch),
            None => plain::send(&mut self.line, pool, batch),
        }
    }

    fn service(&mut self, _pool: &mut Pool) {
        let since = now().saturating_sub(self.looked);
        if since < LOOK_IN_DOUBT || (since < LOOK_EVERY && !self.line.doubtful) || self.closed {
            return;
        }
        self.looked += since;
        self.look();
    }

    fn caps(&self) -> Caps {
        let (kind, mut detail) = match self.mode {
            Mode::Auto(geometry) | Mode::Ring(geometry) => {
                ("packet-ring", format!("{} blocks of {} KiB", geometry.blocks, geometry.block >> 10))
            }
            Mode::Slots => ("packet-slots", String::new()),
            Mode::Mmsg => ("packet-mmsg", String::new()),
            Mode::Plain => ("packet-plain", String::new()),
        };
        if matches!(self.config.mode, Mode::Auto(_)) {
            let comma = if detail.is_empty() { "" } else { ", " };
            detail += &format!("{comma}chosen by mode=auto");
        }
        if let Some(fanout) = &self.config.fanout {
            let comma = if detail.is_empty() { "" } else { ", " };
            detail = format!("{detail}{comma}{}", fanout.words());
        }
        if self.bound.as_ref().is_some_and(|bound| bound.loses_redirected) {
            let comma = if detail.is_empty() { "" } else { ", " };
            detail += &format!("{comma}veth without GRO: frames that XDP redirects here at its far end are lost");
        }
        let name = self.config.name.clone();
        Caps { kind, name, detail, mac: self.line.mac, mtu: self.mtu, link: self.link, ..Caps::default() }
    }

    fn counters(&self) -> PortCounters {
        self.line.counters
    }

    fn held(&self) -> usize {
        self.receive.as_ref().map_or(0, mmsg::Receiver::held)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.bound.as_ref().map(|bound| bound.socket.owned().as_fd())
    }

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.iface.changes())
    }

    fn changed(&mut self) {
        self.iface.forget_changes();
        self.looked = 0;
    }

    fn service_within(&self) -> Option<Duration> {
        let after = match self.line.doubtful {
            true => Some(LOOK_IN_DOUBT),
            false => (self.link != Link::Up).then_some(LOOK_EVERY),
        };
        after.map(Duration::from_nanos)
    }

    fn hand_over(&mut self) -> Result<PortHandover, String> {
        self.handover()
    }

    fn position(&self) -> Vec<u64> {
        self.place().to_vec()
    }

    fn go_on_at(&mut self, position: &[u64]) -> bool {
        position.try_into().is_ok_and(|position| self.go_to(position))
    }

    fn close(&mut self, pool: &mut Pool) {
        if let Some(bound) = self.bound.take() {
            self.line.counters.rx_ring_full += bound.socket.drops();
        }
        if let Some(receive) = &mut self.receive {
            receive.release(pool);
        }
        self.closed = true;
    }
}
