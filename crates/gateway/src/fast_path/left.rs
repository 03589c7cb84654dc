//! In-kernel paths that have names in a BPF file system, whoever made them: what they are, and taking them away. For people who
//! look from outside: no gateway need run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use port::bpf::{SharedWords, monotonic_ns};
use port::xdp::KeptInterface;
use schemars::JsonSchema;
use serde::Serialize;

use super::owner::Owner;
use super::path::{AloneCounts, BEAT_AT, KEEP_AT, OWNER_AT, sum};
use super::record::{self, ALONE_AT, CONFIG, COUNTS_AT, CPU, LOSS, State};

/// What a BPF file system has of in-kernel paths.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KernelPaths {
    /// The folder looked at.
    pub bpf_folder: String,
    /// Interfaces with a program that stays.
    pub interfaces: Vec<PathInterface>,
}

/// An interface with a program that stays when its process ends.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathInterface {
    /// Its name; none: it has gone, or is in a namespace without a name.
    pub interface: Option<String>,
    /// The namespace's name; none: it is the caller's, or has none.
    pub namespace: Option<String>,
    /// The interface's number in its namespace.
    pub ifindex: u32,
    /// Whether the program is attached: the interface is there.
    pub attached: bool,
    /// The program that sees packets first; none: there is none any more.
    pub program: Option<PathProgram>,
    /// The path that the program is of; none: it is not known.
    pub path: Option<PathView>,
}

/// A program in the kernel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathProgram {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Seconds since it was loaded.
    pub age_seconds: f64,
}

/// The in-kernel path of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathView {
    /// Which gateway's.
    pub gateway: String,
    /// Its process.
    pub owner: PathOwner,
    /// Seconds since a worker said last that it lives.
    pub heard_seconds: f64,
    /// Seconds that known sessions go on for behind that.
    pub keep_seconds: f64,
    /// Whether packets of known sessions are forwarded: its time is not over, and no other process has taken its place.
    pub forwards: bool,
    /// Sessions in the kernel.
    pub sessions: u64,
    /// Sessions handed back to the process, which has not taken them over.
    pub moving_sessions: u64,
    /// Sessions there is room for.
    pub room: u64,
    /// Packets from subscribers forwarded since its process started.
    pub up_packets: u64,
    /// Bytes of users' packets in them.
    pub up_bytes: u64,
    /// Packets to subscribers forwarded.
    pub down_packets: u64,
    /// Bytes of users' packets in them.
    pub down_bytes: u64,
    /// Packets of those forwarded that the devices to send by did not take.
    pub refused_packets: u64,
    /// What it has done while its process did not answer: it was dead, or hung.
    pub alone: AloneCounts,
}

/// The process of an in-kernel path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathOwner {
    /// Its number.
    pub pid: u32,
    /// Whether it lives; of one in another PID namespace: whether it was heard of when it should.
    pub alive: bool,
}

/// What was taken away.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cleared {
    /// The folder looked at.
    pub bpf_folder: String,
    /// Interfaces whose programs have gone.
    pub cleared: Vec<PathInterface>,
    /// Interfaces left alone, for their process lives, or nobody knows whether it does.
    pub left: Vec<PathInterface>,
}

/// What a BPF file system's folder has of in-kernel paths.
///
/// # Errors
/// It is no BPF file system, or cannot be read.
pub fn look(folder: &Path) -> io::Result<KernelPaths> {
    let kept = port::xdp::kept_in(folder)?;
    Ok(KernelPaths { bpf_folder: folder.display().to_string(), interfaces: views(&kept) })
}

/// Takes away what dead processes have left of interfaces: of those that `is_meant`. What a living process has is left alone, unless
/// `force` is set: then it goes on until that process ends. Maps that interfaces share have their names beside one of them: they go to one
/// that stays.
///
/// # Errors
/// As [`look`].
pub fn clear(folder: &Path, is_meant: impl Fn(&PathInterface) -> bool, force: bool) -> io::Result<Cleared> {
    let kept = port::xdp::kept_in(folder)?;
    let mut done = Cleared { bpf_folder: folder.display().to_string(), cleared: Vec::new(), left: Vec::new() };
    let mut staying: Vec<_> = kept.iter().collect();
    for (view, kept) in views(&kept).into_iter().zip(&kept).filter(|(view, _)| is_meant(view)) {
        // Of one whose maps cannot be read nobody knows whether it lives: it may be starting.
        if view.path.as_ref().is_none_or(|path| path.owner.alive) && !force {
            done.left.push(view);
            continue;
        }
        staying.retain(|other| other.folder != kept.folder);
        let is_of_it = |other: &&&KeptInterface| id_of(other).is_some() && id_of(other) == id_of(kept);
        // Those that are to go, too, take the names along, to the last.
        for (folder, heir) in folders_of(kept).zip(std::iter::repeat(staying.iter().find(is_of_it))) {
            if let (Some(heir), Some(name)) = (heir, folder.file_name()) {
                fs::rename(&folder, heir.folder.join(name))?;
            }
        }
        port::xdp::forget_kept(kept)?;
        done.cleared.push(view);
    }
    Ok(done)
}

/// The program that sees an interface's packets first.
fn id_of(kept: &KeptInterface) -> Option<u32> {
    kept.program.as_ref().map(|program| program.id)
}

/// Folders of gateways in that of an interface, as they are now.
fn folders_of(kept: &KeptInterface) -> impl Iterator<Item = PathBuf> {
    let inside = fs::read_dir(&kept.folder).into_iter().flatten().flatten();
    inside.map(|entry| entry.path()).filter(|path| path.is_dir())
}

/// A path's maps have names beside one of its interfaces; the others are its by the program.
fn views(kept: &[KeptInterface]) -> Vec<PathInterface> {
    let path_of = |kept: &KeptInterface| kept.gateways.iter().find_map(|folder| path(folder));
    let paths: Vec<_> = kept.iter().filter_map(|kept| Some((id_of(kept), path_of(kept)?))).collect();
    let view = |kept: &KeptInterface| {
        let (interface, namespace) = kept.place.clone().unzip();
        let program = kept.program.as_ref().map(|program| PathProgram {
            id: program.id,
            name: program.name.clone(),
            age_seconds: program.age.as_secs_f64(),
        });
        let own = paths.iter().find(|(of, _)| of.is_some() && *of == id_of(kept)).map(|(_, path)| path.clone());
        PathInterface {
            interface,
            namespace: namespace.flatten(),
            ifindex: kept.ifindex,
            attached: kept.is_attached,
            program,
            path: own.or_else(|| path_of(kept)),
        }
    };
    kept.iter().map(view).collect()
}

fn path(folder: &Path) -> Option<PathView> {
    let config = SharedWords::named(&folder.join("config"), CONFIG).ok()?;
    let word = |at: usize| config.get(0).get(at).map_or(0, |word| word.load(Ordering::SeqCst));
    let [paused, beat, keep] = [word(0) & 1, word(BEAT_AT), word(KEEP_AT)];
    let seconds = |ns: u64| ns as f64 / 1e9;
    let heard = monotonic_ns().saturating_sub(beat);
    let owner = Owner::of_word(word(OWNER_AT));
    // Workers say four times as often that they live; a second more for a machine that has other things to do.
    let alive = owner.is_alive().unwrap_or(heard < keep / 4 + 1_000_000_000);
    let sessions = SharedWords::named_of_any(&folder.join("sessions")).ok();
    let [kernel, moving] = sessions.as_ref().map_or([0; 2], states);
    let cpus = SharedWords::named(&folder.join("cpus"), CPU).ok();
    let counts: [u64; 4] = cpus.as_ref().map_or([0; 4], |cpus| sum(cpus, COUNTS_AT));
    Some(PathView {
        gateway: folder.file_name()?.to_string_lossy().into_owned(),
        owner: PathOwner { pid: owner.pid, alive },
        heard_seconds: seconds(heard),
        keep_seconds: seconds(keep),
        forwards: paused == 0 && heard <= keep,
        sessions: kernel,
        moving_sessions: moving,
        room: sessions.as_ref().map_or(0, |sessions| sessions.len() as u64),
        up_packets: counts[0],
        up_bytes: counts[1],
        down_packets: counts[2],
        down_bytes: counts[3],
        refused_packets: refused(folder),
        alone: AloneCounts::of(cpus.map_or([0; record::ALONE_COUNTS], |cpus| sum(&cpus, COUNTS_AT + ALONE_AT))),
    })
}

/// Sessions that are in the kernel, and those on their way back.
fn states(sessions: &SharedWords) -> [u64; 2] {
    let mut found = [0; 2];
    for n in 0..sessions.len() {
        match sessions.get(n).first().map_or(0, |word| word.load(Ordering::Relaxed) as u8) {
            state if u32::from(state) == State::Kernel as u32 => found[0] += 1,
            state if u32::from(state) == State::Moving as u32 => found[1] += 1,
            _ => (),
        }
    }
    found
}

/// What devices did not take.
fn refused(folder: &Path) -> u64 {
    let Ok(losses) = SharedWords::named(&folder.join("losses"), LOSS) else { return 0 };
    let of = |n: usize| losses.get(n).get(1).map_or(0, |word| word.load(Ordering::Relaxed));
    (0..losses.len()).map(of).sum()
}
