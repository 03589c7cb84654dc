//! What is left of interfaces in a BPF file system, whoever left it: for who looks from outside.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::keep;
use crate::bpf::{self, Map, MapType, ProgramInfo};
use crate::iface;
use crate::netns::Netns;

/// Names of namespaces that `ip netns` keeps.
const NAMESPACES: &str = "/run/netns";

/// An interface whose program has a name.
#[derive(Debug)]
pub struct KeptInterface {
    /// Where the names are.
    pub folder: PathBuf,
    /// The number of the interface in its namespace.
    pub ifindex: u32,
    /// Its name and its namespace's, where they are to be found; the namespace is none where it is the caller's.
    pub place: Option<(String, Option<String>)>,
    /// Whether the link still attaches a program: the interface is there.
    pub is_attached: bool,
    /// The program that sees packets first; none: there is none any more.
    pub program: Option<ProgramInfo>,
    /// Folders of gateways in it: their maps have names there.
    pub gateways: Vec<PathBuf>,
}

/// All of a BPF file system's folder; none where nothing is named.
///
/// # Errors
/// The folder is of no BPF file system, or cannot be read.
pub fn kept_in(folder: &Path) -> io::Result<Vec<KeptInterface>> {
    if !bpf::is_bpf_fs(folder) {
        let why = format!("{} is no BPF file system; `mount -t bpf bpf /sys/fs/bpf` mounts one", folder.display());
        return Err(io::Error::other(why));
    }
    let entries = match fs::read_dir(folder.join("weir")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let folders = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    let mut all: Vec<_> = folders.into_iter().filter_map(interface).collect();
    all.sort_by(|a, b| (&a.place, a.ifindex).cmp(&(&b.place, b.ifindex)));
    Ok(all)
}

fn interface(folder: PathBuf) -> Option<KeptInterface> {
    let (namespace, ifindex) = keep::key_of(&folder)?;
    let link = bpf::get_named(&folder.join("link")).ok();
    let is_attached = link.is_some_and(|link| bpf::interface_of(link.as_fd()).is_ok_and(|there| there != 0));
    let inside = fs::read_dir(&folder).into_iter().flatten().flatten();
    let gateways = inside.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    let program = first_program(&folder).and_then(|id| bpf::program_info(id).ok());
    Some(KeptInterface { place: place(namespace, ifindex), folder, ifindex, is_attached, program, gateways })
}

/// The number of the program that sees an interface's packets first.
fn first_program(folder: &Path) -> Option<u32> {
    let programs = bpf::get_named(&folder.join("fast")).ok()?;
    let (programs, _) = Map::of(programs, MapType::ProgArray, 4, 4).ok()?;
    let mut id = [0; 4];
    let found = programs.lookup(&super::program::FAST_PATH.to_ne_bytes(), &mut id).ok()?;
    found.then(|| u32::from_ne_bytes(id))
}

/// The names of an interface and its namespace.
fn place(namespace: (u64, u64), ifindex: u32) -> Option<(String, Option<String>)> {
    let named = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let named = named.map(|entry| Some(entry.file_name().to_string_lossy().into_owned()));
    let is_it = |name: &Option<String>| {
        let there = Netns::open(name.as_deref()).ok()?;
        (there.id().ok()? == namespace).then_some(there)
    };
    let (name, there) = std::iter::once(None).chain(named).find_map(|name| Some((name.clone(), is_it(&name)?)))?;
    let interface = there.within(|| iface::name_here(ifindex)).ok().flatten()?;
    Some((interface, name))
}

/// Takes an interface's names away: its program is detached, unless a process holds it.
///
/// # Errors
/// What the system said.
pub fn forget_kept(kept: &KeptInterface) -> io::Result<()> {
    fs::remove_dir_all(&kept.folder)
}
