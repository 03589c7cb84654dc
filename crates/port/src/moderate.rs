//! Receive interrupts of an interface, moderated by the rate at which packets come.
//!
//! Where a program at the driver forwards packets itself, each packet that comes alone wakes the interface's receive work:
//! at 100,000 packets a second most of a packet's cost. As a worker does for its ports, the interface lets a few packets
//! share one wake-up: after receive work the kernel looks again after a time (`gro_flush_timeout`, with
//! `napi_defer_hard_irqs` = 1) instead of being interrupted. A fixed time is no good: where packets come further apart than
//! it lasts, it adds a timer to each. So the time follows the rate, and is 0 where it would bring no second packet: one that
//! comes alone does not wait.
//!
//! The files are in `/sys`, which shows the interfaces of one network namespace: those of another are not moderated.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::helper::Place;
use crate::iface::Iface;
use crate::note::Note;
use crate::shared;

/// Looks at the rate while receive work is moderated, a while after that, and when nothing has come for long.
const BUSY: Duration = Duration::from_millis(100);
const RECENT: Duration = Duration::from_millis(250);
const QUIET: Duration = Duration::from_secs(1);
/// How long it looks every [`RECENT`] after packets have come.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Fewer packets a second than these are none.
const FEW: f64 = 2_000.0;
/// The shortest time set, in nanoseconds: less is over when the receive work is.
const SHORTEST: f64 = 10_000.0;
/// A time that is off by less than this ratio stays.
const NEAR: f64 = 1.3;
/// Packets that come at most while the kernel does not look, a second, and the part of a ring they may fill.
const PEAK: f64 = 1_500_000.0;
const PART: f64 = 0.5;
/// Places of a receive ring that does not say how many it has: those of a veth.
const RING: u32 = 256;

/// Limits of the moderation of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moderation {
    /// The longest time a received packet may wait for others; zero: none does.
    pub longest: Duration,
    /// Packets a wait is to bring, if it may last that long.
    pub share: u32,
}

/// How long received packets are to wait, in nanoseconds, where they come `gap` nanoseconds apart on each queue; 0: they do
/// not. `longest` in nanoseconds.
fn wait(gap: f64, longest: f64, share: u32) -> u64 {
    let wait = (gap * f64::from(share)).clamp(SHORTEST, longest.max(SHORTEST));
    // Without a second packet a wait is only one wake-up more.
    if longest < SHORTEST || gap * 1.5 > wait { 0 } else { wait as u64 }
}

/// An interface whose receive work is moderated, no longer once this is dropped.
pub(crate) struct Moderated {
    place: Place,
    packets: File,
    timeout: File,
    deferred: File,
    limits: Moderation,
    longest: f64,
    queues: u32,
    set: u64,
    seen: u64,
    looked: Instant,
    /// When packets came last.
    busy: Option<Instant>,
    // Dropped after the change is undone.
    _note: Option<Note>,
}

/// What a note says while an interface may be moderated.
const MODERATED: &str = "moderated";

fn number(file: &File) -> io::Result<u64> {
    let mut text = [0; 32];
    let len = file.read_at(&mut text, 0)?;
    let text = str::from_utf8(&text[..len]).unwrap_or_default();
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

fn put(file: &File, number: u64) -> io::Result<()> {
    (&*file).write_all(number.to_string().as_bytes())
}

fn folder(name: &str) -> PathBuf {
    Path::new("/sys/class/net").join(name)
}

/// The folder of an interface in `/sys`, with the links to it followed: what writing its files takes access to.
pub fn files(name: &str) -> Option<PathBuf> {
    fs::canonicalize(folder(name)).ok()
}

impl Moderated {
    /// Of that interface.
    ///
    /// # Errors
    /// It is in another network namespace than `/sys` shows, its files can't be written, or someone else has set them.
    pub(crate) fn new(place: &Place, limits: Moderation) -> io::Result<Self> {
        if place.netns.is_some() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is in another network namespace"));
        }
        let folder = folder(&place.name);
        let iface = Iface::named(&place.name, None).map_err(io::Error::other)?;
        // The namespace of /sys may be another than this process's.
        let shown = number(&File::open(folder.join("ifindex"))?)?;
        if shown != u64::from(iface.index()?) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "/sys shows another network namespace"));
        }
        let open = |name| OpenOptions::new().read(true).write(true).open(folder.join(name));
        let (timeout, deferred) = (open("gro_flush_timeout")?, open("napi_defer_hard_irqs")?);
        let mut note = shared::key(&iface).ok().and_then(|key| Note::open("moderation", &iface, key));
        let is_set = number(&timeout)? != 0 || number(&deferred)? != 0;
        // A process that was killed has not undone what it did.
        let is_left = note.as_ref().is_some_and(|(_, left)| left == MODERATED);
        if is_set && !is_left {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "gro_flush_timeout is set already"));
        }
        if let Some((note, _)) = &mut note {
            note.write(MODERATED);
        }
        let packets = File::open(folder.join("statistics/rx_packets"))?;
        let is_queue = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rx-");
        let queues = fs::read_dir(folder.join("queues")).map_or(1, |all| all.flatten().filter(is_queue).count());
        let fits = f64::from(ring(&iface)) * PART / PEAK * 1e9;
        let mut moderated = Self {
            place: place.clone(),
            seen: number(&packets)?,
            packets,
            timeout,
            deferred,
            limits,
            longest: (limits.longest.as_nanos() as f64).min(fits),
            queues: u32::try_from(queues).unwrap_or(1).max(1),
            set: 0,
            looked: Instant::now(),
            busy: None,
            _note: note.map(|(note, _)| note),
        };
        moderated.write(0, 0)?;
        Ok(moderated)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Sets the time by what came since the last look; when to look again.
    ///
    /// # Errors
    /// The interface is gone.
    pub(crate) fn turn(&mut self, now: Instant) -> io::Result<Duration> {
        let passed = now.saturating_duration_since(self.looked);
        let between = if self.set != 0 {
            BUSY
        } else if self.busy.is_some_and(|busy| now.saturating_duration_since(busy) < REMEMBERED) {
            RECENT
        } else {
            QUIET
        };
        if passed < between {
            return Ok(between.saturating_sub(passed));
        }
        let packets = number(&self.packets)?;
        let came = packets.saturating_sub(self.seen) as f64;
        (self.seen, self.looked) = (packets, now);
        let rate = came / passed.as_secs_f64();
        if rate >= FEW {
            self.busy = Some(now);
        }
        let gap = if rate < FEW { f64::INFINITY } else { 1e9 / rate * f64::from(self.queues) };
        let wait = wait(gap, self.longest, self.limits.share);
        let ratio = wait as f64 / self.set.max(1) as f64;
        if (wait == 0) != (self.set == 0) || (wait != 0 && !(1.0 / NEAR..NEAR).contains(&ratio)) {
            self.write(wait, u64::from(wait != 0))?;
        }
        Ok(if self.set != 0 {
            BUSY
        } else if self.busy.is_some() {
            RECENT
        } else {
            QUIET
        })
    }

    fn write(&mut self, timeout: u64, deferred: u64) -> io::Result<()> {
        put(&self.timeout, timeout)?;
        put(&self.deferred, deferred)?;
        self.set = timeout;
        Ok(())
    }
}

impl Drop for Moderated {
    fn drop(&mut self) {
        // An interface that is gone has nothing to be undone.
        let _ = self.write(0, 0);
    }
}

/// Places of the interface's receive ring.
fn ring(iface: &Iface) -> u32 {
    // Command, four limits, then the receive ring's places and three others'.
    let mut words = [0; 9];
    words[0] = ETHTOOL_GRINGPARAM;
    let asked = iface.ethtool(&mut words).ok();
    asked.map(|words| words[5]).filter(|places| *places > 0).unwrap_or(RING)
}

/// Command: how many places have the rings?
const ETHTOOL_GRINGPARAM: u32 = 0x10;

/// Interfaces whose receive work is moderated.
#[derive(Default)]
pub(crate) struct Moderator(Vec<Moderated>);

impl Moderator {
    /// One more, instead of the one there was at its place.
    ///
    /// # Errors
    /// As for [`Moderated::new`].
    pub(crate) fn add(&mut self, place: &Place, limits: Moderation) -> io::Result<()> {
        // What it had set is undone first.
        self.0.retain(|other| other.place() != place);
        if limits.longest.is_zero() {
            return Ok(());
        }
        self.0.push(Moderated::new(place, limits)?);
        Ok(())
    }

    /// Looks at those whose time has come; when to call this again, none: there is no interface.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<Duration> {
        let mut next = None;
        self.0.retain_mut(|moderated| {
            let Ok(until) = moderated.turn(now) else { return false };
            next = Some(next.map_or(until, |next: Duration| next.min(until)));
            true
        });
        next
    }
}

/// Those of a process without a helper, seen to by a thread.
static HERE: OnceLock<(Mutex<Moderator>, Thread)> = OnceLock::new();

/// Moderates an interface from now on, in this process.
///
/// # Errors
/// As for [`Moderated::new`].
pub(crate) fn moderate_here(place: &Place, limits: Moderation) -> io::Result<()> {
    let (moderator, thread) = HERE.get_or_init(|| {
        let see_to = || {
            loop {
                let next = HERE.get().and_then(|(moderator, _)| lock(moderator).turn(Instant::now()));
                next.map_or_else(thread::park, thread::park_timeout);
            }
        };
        let spawned = thread::Builder::new().name("weir-moderate".to_owned()).spawn(see_to);
        let thread = spawned.map_or_else(|_| thread::current(), |handle| handle.thread().clone());
        (Mutex::new(Moderator::default()), thread)
    });
    lock(moderator).add(place, limits)?;
    thread.unpark();
    Ok(())
}

fn lock(moderator: &Mutex<Moderator>) -> MutexGuard<'_, Moderator> {
    moderator.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_only_for_others_that_come() {
        // 5,000 a second: none comes within 85 us.
        assert_eq!(wait(200_000.0, 85_000.0, 4), 0);
        assert_eq!(wait(f64::INFINITY, 85_000.0, 4), 0);
        // 25,000 a second: two more, as long as may be.
        assert_eq!(wait(40_000.0, 85_000.0, 4), 85_000);
        // 100,000 a second: four.
        assert_eq!(wait(10_000.0, 85_000.0, 4), 40_000);
        // A million a second: the shortest.
        assert_eq!(wait(1_000.0, 85_000.0, 4), 10_000);
        assert_eq!(wait(40_000.0, 400_000.0, 4), 160_000);
        assert_eq!(wait(1_000.0, 0.0, 4), 0);
    }

    #[test]
    fn an_interface_that_is_not_there_is_not_moderated() {
        let limits = Moderation { longest: Duration::from_micros(400), share: 4 };
        let mut moderator = Moderator::default();
        assert!(moderator.add(&Place::new("nowhere0", None), limits).is_err());
        assert!(moderator.add(&Place::new("lo", Some("elsewhere")), limits).is_err());
        assert_eq!(moderator.turn(Instant::now()), None);
    }
}
