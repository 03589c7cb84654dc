//! One program per interface, whatever number of ports it has: attached by the first, detached with the last.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::PortError;
use crate::bpf::{BpfError, XdpLink, XdpMode};
use crate::helper::{self, Lease, Place, Request};
use crate::iface::Iface;
use crate::moderate::{Moderation, moderate_here};
use crate::note::Note;
use crate::packet;
use crate::shared::{self, Registry, Share};

use super::XdpError;
use super::config::XdpConfig;
use super::filter::Filter;
use super::keep::{self, Kept};
use super::program::Steer;

static ATTACHED: Registry<Attached> = Registry::new();

/// ethtool's get and set of the flag word, and the flag in it that strips received VLAN tags where XDP can't see them.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const FLAG_RX_VLAN: u32 = 1 << 8;
/// What a note says of an interface that stripped tags.
const STRIPPED: &str = "stripped\n";
/// How long to wait for an interface that has another program.
const PATIENCE: Duration = Duration::from_secs(1);

/// A program on an interface.
pub(crate) struct Attached {
    // Dropped in this order: detached first.
    link: XdpLink,
    steer: Steer,
    filter: Filter,
    iface: Iface,
    strips_tags: bool,
    // Dropped after tags are stripped again.
    _note: Option<Note>,
}

/// A share in the program of an interface.
pub(crate) enum Attachment {
    /// Of this process.
    Here {
        /// Detached with the last.
        share: Share<Attached>,
        /// What the interface receives besides frames to its own address and to all.
        _wide: OwnedFd,
    },
    /// Of the helper.
    There {
        /// Detached with the last.
        lease: Lease,
        /// Where it runs.
        mode: XdpMode,
    },
}

impl Attachment {
    /// Native or generic.
    pub(crate) fn mode(&self) -> XdpMode {
        match self {
            Self::Here { share, .. } => share.get().link.mode(),
            Self::There { mode, .. } => *mode,
        }
    }

    /// The same as the helper counts.
    pub(super) fn mode_number(&self) -> u64 {
        helper::mode_number(self.mode())
    }

    /// The helper's number of it; none: it is this process's, and goes with it.
    pub(super) fn lease(&self) -> Option<u64> {
        match self {
            Self::Here { .. } => None,
            Self::There { lease, .. } => Some(lease.number()),
        }
    }

    /// What the helper of another process keeps by that number, which is this one's now; none: there is no helper.
    pub(super) fn adopt(number: u64, mode: u64) -> Option<Self> {
        let lease = Lease::new(helper::client_of_process()?, number);
        Some(Self::There { lease, mode: helper::mode(mode) })
    }

    /// Its maps, if they are this process's.
    pub(super) fn steer(&self) -> Option<&Steer> {
        match self {
            Self::Here { share, .. } => Some(share.get().steer()),
            Self::There { .. } => None,
        }
    }
}

/// The program of `config`'s interface, attached if it is not yet, gives the packets of `config`'s queue to the socket
/// from now on; it goes on with what another process has left of the interface.
pub(crate) fn attach_with(
    config: &XdpConfig,
    socket: BorrowedFd<'_>,
    kept: Option<Kept>,
) -> Result<Attachment, PortError> {
    let share = share(config, kept)?;
    let _wide = packet::listen_wide(&share.get().iface, config.promiscuous)?;
    share.get().steer().sockets().set_fd(config.queue, socket)?;
    Ok(Attachment::Here { share, _wide })
}

/// The same by the helper, for its copy of the socket.
pub(super) fn attach_by(
    helper: &'static helper::Client,
    config: &XdpConfig,
    socket: &Lease,
) -> Result<Attachment, PortError> {
    let kept = keep::found(&config.interface, config.netns.as_deref());
    let beside: Vec<_> = kept.iter().flatten().map(AsFd::as_fd).collect();
    let request = Request::XdpAttach {
        socket: socket.number(),
        place: Place::new(&config.interface, config.netns.as_deref()),
        queue: config.queue,
        filter: config.filter.to_string(),
        mode: config.mode,
        keep_offloads: config.keep_offloads,
        promiscuous: config.promiscuous,
    };
    let (answer, lease) = helper.lease_with(&request, &beside)?;
    Ok(Attachment::There { lease, mode: helper::mode(answer.number) })
}

fn share(config: &XdpConfig, kept: Option<Kept>) -> Result<Share<Attached>, PortError> {
    let iface = Iface::open(&config.interface, config.netns.as_deref())?;
    let share = ATTACHED.share(shared::key(&iface)?, || Attached::new(config, iface, kept))?;
    let there = &share.get().filter;
    if *there != config.filter {
        let (name, there) = (config.interface.clone(), there.to_string());
        return Err(XdpError::OtherFilter { name, there, wanted: config.filter.to_string() }.into());
    }
    Ok(share)
}

impl Attached {
    fn new(config: &XdpConfig, iface: Iface, kept: Option<Kept>) -> Result<Self, PortError> {
        let doing = || format!("looking at {}", iface.name());
        let index = iface.index().map_err(|e| PortError::system(doing(), "CAP_NET_RAW", e))?;
        let (link, steer) = match kept.and_then(|kept| go_on(config, index, kept)) {
            Some(both) => both,
            None => {
                let steer = Steer::new(&config.filter)?;
                (attached(&iface, &steer, index, config.mode)?, steer)
            }
        };
        let flags = iface.ethtool_get(GET_FLAGS).unwrap_or(0);
        let mut strips_tags = flags & FLAG_RX_VLAN != 0 && !config.keep_offloads;
        let mut note = None;
        if !config.keep_offloads {
            note = Note::open("tags", &iface, shared::key(&iface)?);
        }
        if let Some((note, left)) = &mut note {
            // A process that was killed has stopped it: it comes back with ours.
            strips_tags |= left == STRIPPED;
            note.write(if strips_tags { STRIPPED } else { "" });
        }
        if strips_tags {
            // Where a device cannot stop stripping, tagged packets come without: nothing a port could do.
            let _ = iface.ethtool_set(SET_FLAGS, flags & !FLAG_RX_VLAN);
        }
        Ok(Self { link, steer, filter: config.filter.clone(), iface, strips_tags, _note: note.map(|(note, _)| note) })
    }

    pub(super) fn steer(&self) -> &Steer {
        &self.steer
    }
}

/// Attached where another process has left its program, which ours replaces; none: it cannot be.
fn go_on(config: &XdpConfig, index: u32, kept: Kept) -> Option<(XdpLink, Steer)> {
    let [link, maps @ ..] = kept;
    let steer = Steer::go_on(&config.filter, maps).ok()?;
    let link = XdpLink::go_on(link, steer.program(), index).ok()?;
    Some((link, steer))
}

/// Attached, once nobody else's program is there: the helper of a process that was killed has its own for a moment.
fn attached(iface: &Iface, steer: &Steer, index: u32, mode: XdpMode) -> Result<XdpLink, PortError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match iface.netns().within(|| XdpLink::attach(steer.program(), index, mode))? {
            Err(BpfError::Occupied { .. }) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            other => return Ok(other?),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // An interface of the same name made since is not ours to change.
        if self.strips_tags && !self.link.is_kept() && self.iface.index().ok() == Some(self.link.ifindex()) {
            let flags = self.iface.ethtool_get(GET_FLAGS).unwrap_or(0);
            let _ = self.iface.ethtool_set(SET_FLAGS, flags | FLAG_RX_VLAN);
        }
    }
}

/// The steering of an interface that some port of this process has open: for control, which adds prefixes, reads
/// counts or installs a fast path. Holding it keeps the program attached. An interface that was removed and made again
/// has new steering.
pub struct Steering(Share<Attached>);

impl Steering {
    /// Of the interface of that name in that namespace (by name; none: the calling thread's).
    ///
    /// # Errors
    /// [`XdpError::NotOpen`] when no port has it open, [`PortError::NoInterface`] when there is none.
    pub fn of(interface: &str, netns: Option<&str>) -> Result<Self, PortError> {
        let iface = Iface::open(interface, netns)?;
        let none = || Err(XdpError::NotOpen { name: interface.to_owned() }.into());
        ATTACHED.share(shared::key(&iface)?, none).map(Self)
    }
}

/// A program before that of an interface.
#[derive(Debug)]
pub struct Hook {
    /// The interface's number.
    pub ifindex: u32,
    /// Where it runs: [`XdpMode::Native`] or [`XdpMode::Generic`].
    pub mode: XdpMode,
    /// What it goes on to with packets it leaves.
    pub rest: OwnedFd,
    /// What stays of the interface.
    kept: Option<Kept>,
    /// Why received packets do not wait for others; none: they do as far as they may.
    pub unmoderated: Option<String>,
}

/// Makes an interface ready for a program before its own, which [`engage`] puts there: one that some port of this process,
/// or its helper for it, has open. Where packets come fast, they wait for others within the limits, so that one wake-up of
/// the kernel's receive work serves several; until the process ends. If what is attached is to stay ([`super::keep_in`]), it
/// is named.
///
/// # Errors
/// [`XdpError::NotOpen`] when no port has it open, [`PortError::NoInterface`] when there is none, or what the kernel said.
pub fn hook(interface: &str, netns: Option<&str>, limits: Moderation) -> Result<Hook, PortError> {
    let keep = super::folder_of(interface, netns)?.is_some();
    let hook = hook_anywhere(interface, netns, limits, keep)?;
    if let Some(kept) = &hook.kept {
        keep::give_names_of(interface, netns, kept)
            .map_err(|source| PortError::System { doing: "naming what stays attached".to_owned(), source })?;
    }
    Ok(hook)
}

fn hook_anywhere(interface: &str, netns: Option<&str>, limits: Moderation, keep: bool) -> Result<Hook, PortError> {
    let place = Place::new(interface, netns);
    let Some(helper) = helper::client_of_process() else {
        let hook = hook_here(interface, netns, keep)?;
        let unmoderated = moderate_here(&place, limits).err().map(|error| error.to_string());
        return Ok(Hook { unmoderated, ..hook });
    };
    let longest_ns = u64::try_from(limits.longest.as_nanos()).unwrap_or(u64::MAX);
    let request = Request::XdpHook { place, longest_ns, share: limits.share, keep };
    let (answer, descriptors) = helper.ask_with(&request, &[])?;
    let mut descriptors = descriptors.into_iter();
    let rest = descriptors.next().ok_or_else(|| helper::lost(std::io::ErrorKind::InvalidData.into()))?;
    let kept = descriptors.collect::<Vec<_>>().try_into().ok();
    let (ifindex, why) = answer.text.split_once(' ').map_or((&*answer.text, None), |(index, why)| (index, Some(why)));
    let ifindex = ifindex.parse().map_err(|_| helper::lost(std::io::ErrorKind::InvalidData.into()))?;
    Ok(Hook { ifindex, mode: helper::mode(answer.number), rest, kept, unmoderated: why.map(str::to_owned) })
}

/// The same in this process.
pub(crate) fn hook_here(interface: &str, netns: Option<&str>, keep: bool) -> Result<Hook, PortError> {
    let steering = Steering::of(interface, netns)?;
    let attached = steering.0.get();
    let copy =
        |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|e| PortError::system("copying a descriptor", "", e));
    let rest = copy(attached.steer().rest().as_fd())?;
    let kept = if keep {
        attached.link.is_to_stay();
        let [sockets, fast, counts, prefixes] = attached.steer().maps().map(|map| copy(map.as_fd()));
        Some([copy(attached.link.as_fd())?, sockets?, fast?, counts?, prefixes?])
    } else {
        None
    };
    Ok(Hook { ifindex: attached.link.ifindex(), mode: attached.link.mode(), rest, kept, unmoderated: None })
}

impl Hook {
    /// What goes beside a helper's answer.
    pub(crate) fn into_descriptors(self) -> impl Iterator<Item = OwnedFd> {
        std::iter::once(self.rest).chain(self.kept.into_iter().flatten())
    }
}

/// From now on `program` (XDP) sees every packet of an interface first that was made ready by [`hook`], and `alone`, if there
/// is one, what no port takes; until the last port closes.
///
/// # Errors
/// As [`hook`].
pub fn engage(
    interface: &str,
    netns: Option<&str>,
    program: BorrowedFd<'_>,
    alone: Option<BorrowedFd<'_>>,
) -> Result<(), PortError> {
    let Some(helper) = helper::client_of_process() else { return engage_here(interface, netns, program, alone) };
    let beside: Vec<_> = std::iter::once(program).chain(alone).collect();
    helper.ask_with(&Request::XdpEngage { place: Place::new(interface, netns) }, &beside).map(drop)
}

/// No program sees packets of an interface before its own any more, nor what no port takes: whatever process has put
/// them there.
///
/// # Errors
/// As [`engage`].
pub fn disengage(interface: &str, netns: Option<&str>) -> Result<(), PortError> {
    let Some(helper) = helper::client_of_process() else { return disengage_here(interface, netns) };
    helper.ask(&Request::XdpEngage { place: Place::new(interface, netns) }).map(drop)
}

/// The same in this process.
pub(crate) fn disengage_here(interface: &str, netns: Option<&str>) -> Result<(), PortError> {
    let steering = Steering::of(interface, netns)?;
    steering.clear_fast_path()?;
    Ok(steering.clear_alone()?)
}

/// As [`engage`], in this process.
pub(crate) fn engage_here(
    interface: &str,
    netns: Option<&str>,
    program: BorrowedFd<'_>,
    alone: Option<BorrowedFd<'_>>,
) -> Result<(), PortError> {
    let steering = Steering::of(interface, netns)?;
    if let Some(alone) = alone {
        steering.set_alone(alone)?;
    }
    Ok(steering.set_fast_path(program)?)
}

impl std::ops::Deref for Steering {
    type Target = Steer;

    fn deref(&self) -> &Steer {
        self.0.get().steer()
    }
}
