//! Offloads that would hand us packets no wire ever carries, switched off while a port is open.
//!
//! GRO and LRO join packets into super-frames before a socket sees them. Transmit checksums and segmentation are
//! switched off so that what the host itself sends on the interface is whole. VLAN offloads stay: every port restores
//! the tag.
//!
//! What the *other* end of a veth leaves undone cannot be helped from here. AF_PACKET ports are told of checksums left
//! to hardware and complete them (TCP and UDP; others are flagged); AF_XDP ports are not told, so a host at the far end
//! has to finish its own there (`ethtool -K DEVICE tx off`). Super-frames are counted as too long by AF_PACKET ports
//! (`ethtool -K DEVICE tso off gso off` at the far end); native XDP on a veth makes the kernel stop its peer making
//! them.

use std::io;

use crate::PortError;
use crate::helper::{Kept, Place, Request};
use crate::iface::Iface;
use crate::note::Note;
use crate::shared::{self, Key, Registry, Share};

static FITTED: Registry<Fitted> = Registry::new();

/// One port's share in an interface made fit; the last one dropped restores it.
pub(crate) type Fit = Kept<Share<Fitted>>;

/// What was wanted before.
pub(crate) struct Fitted {
    iface: Iface,
    index: u32,
    /// For each word of feature bits: which we changed, and what they were.
    before: Vec<(u32, u32)>,
    // Dropped after the change is undone.
    _note: Option<Note>,
}

/// Makes the interface fit for a port.
pub(crate) fn fit(name: &str, netns: Option<&str>) -> Result<Fit, PortError> {
    let here = || {
        let iface = Iface::open(name, netns)?;
        let key = shared::key(&iface)?;
        FITTED.share(key, || Fitted::new(iface, key))
    };
    Kept::make(|| Request::Fit(Place::new(name, netns)), here)
}

impl Fitted {
    fn new(iface: Iface, key: Key) -> Result<Self, PortError> {
        // Before looking: the helper of a process that was killed may be about to restore them.
        let mut note = Note::open("offloads", &iface, key);
        // A device that does not tell its features has none that are unfit.
        let mut before = unfit(&iface).unwrap_or_default();
        if let Some((note, left)) = &mut note {
            // A process that was killed has switched these off: they come back with ours.
            for ((which, what), (left_which, left_what)) in before.iter_mut().zip(read(left)) {
                (*which, *what) = (*which | left_which, *what | left_what);
            }
            note.write(&written(&before));
        }
        let off: Vec<_> = before.iter().map(|(changed, _)| (*changed, 0)).collect();
        match set(&iface, &off) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => {
                let doing = format!("switching off offloads of {} (or say offloads=keep)", iface.name());
                Err(PortError::system(doing, "CAP_NET_ADMIN", e))
            }
            _ => Ok(Self { iface, index: key.1, before, _note: note.map(|(note, _)| note) }),
        }
    }
}

/// Switches offloads that make packets no wire carries off for good: of an interface that was made for a measurement.
///
/// # Errors
/// If there is no such interface, or it may not be changed.
pub fn switch_off(name: &str, netns: Option<&str>) -> Result<(), PortError> {
    change(name, netns, false, is_unfit)
}

/// Has the kernel join received packets (GRO), or not. A veth interface has a NAPI of its own only with it, or with an XDP
/// program.
///
/// # Errors
/// If there is no such interface, or it may not be changed.
pub fn set_gro(name: &str, netns: Option<&str>, on: bool) -> Result<(), PortError> {
    change(name, netns, on, |feature| feature == b"rx-gro")
}

fn change(name: &str, netns: Option<&str>, on: bool, of: impl Fn(&[u8]) -> bool) -> Result<(), PortError> {
    let iface = Iface::open(name, netns)?;
    let told = told(&iface, of).and_then(|features| {
        let change: Vec<_> = features.iter().map(|told| (told.meant(), if on { told.meant() } else { 0 })).collect();
        set(&iface, &change)
    });
    told.map_err(|e| PortError::system(format!("changing offloads of {name}"), "CAP_NET_ADMIN", e))
}

/// Features as a note has them: a line for each word, which were changed and what they were.
fn written(features: &[(u32, u32)]) -> String {
    features.iter().map(|(which, what)| format!("{which:08x} {what:08x}\n")).collect()
}

fn read(note: &str) -> impl Iterator<Item = (u32, u32)> {
    let word = |text: &str| u32::from_str_radix(text, 16).ok();
    note.lines().map_while(move |line| line.split_once(' ').and_then(|(a, b)| Some((word(a)?, word(b)?))))
}

impl Drop for Fitted {
    fn drop(&mut self) {
        // An interface of the same name made since is not ours to change.
        if self.iface.index().ok() == Some(self.index) {
            let _ = set(&self.iface, &self.before);
        }
    }
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
/// Words of a feature's name.
const NAME: usize = 8;

/// Whether a feature of that name makes packets no wire carries.
fn is_unfit(name: &[u8]) -> bool {
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    name.starts_with(b"tx-checksum-")
        || (name.starts_with(b"tx-") && has(b"-segmentation"))
        || matches!(name, b"rx-gro" | b"rx-gro-hw" | b"rx-gro-list" | b"rx-lro" | b"rx-udp-gro-forwarding")
}

/// Which changeable unfit features are wanted now, as (bits, bits) for each word.
fn unfit(iface: &Iface) -> io::Result<Vec<(u32, u32)>> {
    let told = told(iface, is_unfit)?;
    Ok(told.iter().map(|told| told.meant() & told.requested).map(|bits| (bits, bits)).collect())
}

/// A word of feature bits, as the kernel tells of it.
struct Told {
    /// Those asked for, by name.
    of: u32,
    available: u32,
    requested: u32,
    never_changed: u32,
}

impl Told {
    /// Those asked for that can be changed.
    fn meant(&self) -> u32 {
        self.of & self.available & !self.never_changed
    }
}

/// Features of an interface; `of` says which are meant, by name.
fn told(iface: &Iface, of: impl Fn(&[u8]) -> bool) -> io::Result<Vec<Told>> {
    // struct ethtool_sset_info { cmd, reserved, mask: u64, data[] }.
    let [.., count] = *iface.ethtool(&mut [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0])?;
    let count = count as usize;
    // struct ethtool_gstrings { cmd, string_set, len, data[] }.
    let mut names = vec![0; 3 + count * NAME];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    iface.ethtool_slice(&mut names)?;
    let words = count.div_ceil(32);
    // struct ethtool_gfeatures { cmd, size, { available, requested, active, never_changed }[] }.
    let mut features = vec![0; 2 + words * 4];
    features[..2].copy_from_slice(&[ETHTOOL_GFEATURES, words as u32]);
    iface.ethtool_slice(&mut features)?;

    let mut meant = vec![0; words];
    for (bit, name) in names[3..].chunks(NAME).enumerate() {
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        meant[bit / 32] |= u32::from(of(&name)) << (bit % 32);
    }
    let told = features[2..].chunks(4).map(|told| (told[0], told[1], told[3]));
    let word = |(of, (available, requested, never_changed))| Told { of, available, requested, never_changed };
    Ok(meant.into_iter().zip(told).map(word).collect())
}

/// Sets features, as (which, to what) for each word.
fn set(iface: &Iface, change: &[(u32, u32)]) -> io::Result<()> {
    if change.iter().all(|(which, _)| *which == 0) {
        return Ok(());
    }
    // struct ethtool_sfeatures { cmd, size, { valid, requested }[] }.
    let mut words = vec![ETHTOOL_SFEATURES, change.len() as u32];
    words.extend(change.iter().flat_map(|(which, to)| [which, to]));
    iface.ethtool_slice(&mut words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let features = [(0x8000_0001, 1), (0, 0), (0xffff_ffff, 0x1234)];
        assert_eq!(read(&written(&features)).collect::<Vec<_>>(), features);
        assert_eq!((read("").count(), read("12 frogs\n1 1").count()), (0, 0));
    }

    #[test]
    fn what_is_unfit() {
        for name in ["tx-checksum-ip-generic", "tx-tcp6-segmentation", "tx-generic-segmentation", "rx-gro", "rx-lro"] {
            assert!(is_unfit(name.as_bytes()), "{name}");
        }
        for name in ["rx-checksum", "tx-scatter-gather", "tx-vlan-hw-insert", "rx-vlan-hw-parse", "tx-nocache-copy"] {
            assert!(!is_unfit(name.as_bytes()), "{name}");
        }
    }
}
