//! Least privilege: a helper process keeps what opening ports takes; the gateway itself gives up everything.
//!
//! | file | what |
//! |---|---|
//! | `helper.rs` | the helper process: started, confined, watched |
//! | `needs.rs` | which capabilities a configuration takes, and the setcap line |
//! | `view.rs` | what `weir show process` tells |
//! | `notify.rs` | READY=1 for systemd |
//!
//! The order, in `shell/run.rs`: [`Privileges::start`] starts the helper; ports and sockets are opened;
//! [`Privileges::give_up`] drops capabilities and limits files while the only other thread reads the ledger, which has done
//! the same for itself and ends; threads start, that of probes first; control and
//! metrics sockets are opened; [`Privileges::seal`] filters system calls for all threads and checks each of them.

mod helper;
mod needs;
mod notify;
mod view;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use confine::{Calls, Capabilities, Enforced, Files, Landlock, Mode};
use dataplane::config::{ProcessSection, Seccomp};
use frame::ArenaConfig;
use port::helper::{Scope, ScopedPort};
use port::{PortError, Uri};
use rustix::event::PollFlags;

pub use helper::{for_another as helper_for_another, main_of_helper};
use needs::setcap_line;
pub use view::{ProcessesView, answer};

use crate::shell::ports::PortsError;
use crate::shell::rest::Other;
use crate::signals::Stop;
use helper::Helper;
use notify::Notify;

/// What a gateway touches by path and port once it runs.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Folders it writes in: the ledger's, the NAT log's.
    pub write: Vec<PathBuf>,
    /// Sockets it makes and removes.
    pub sockets: Vec<PathBuf>,
    /// TCP ports it listens at.
    pub tcp: Vec<u16>,
    /// Folders it reads its configuration from, when it is read again.
    pub config: Vec<PathBuf>,
}

/// What a starting gateway still may, on its way to nothing.
pub struct Privileges {
    section: ProcessSection,
    helper: Option<Helper>,
    notify: Option<Notify>,
    landlock: Option<Landlock>,
    /// Ports over DPDK: it started threads of its own when the first was opened.
    has_dpdk: bool,
    /// When the helper was looked at; none: it is to be looked at now.
    looked: Option<Instant>,
    helper_gone: bool,
}

/// How far Landlock holds; none: the gateway is not confined, or not yet.
static LANDLOCK: OnceLock<Landlock> = OnceLock::new();

/// How often the helper is looked at while control does not sleep.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Becomes the configured user without a capability, in this thread and those it starts.
fn drop_all(section: &ProcessSection) -> anyhow::Result<()> {
    if let Some(user) = &section.user {
        confine::become_user(user)?;
    }
    confine::drop_capabilities(Capabilities::NONE)?;
    confine::no_new_privileges()?;
    Ok(())
}

/// Gives up in this thread what the process gives up when its ports are open, and limits files to a folder: for one that
/// works meanwhile and then ends.
///
/// # Errors
/// As [`Privileges::give_up`].
pub fn give_up_in_thread(section: &ProcessSection, folder: &Path) -> anyhow::Result<()> {
    if !section.confine {
        return Ok(());
    }
    // A rule needs a folder that is there. Where it can't be made, opening what belongs there says why.
    let _ = std::fs::create_dir_all(folder);
    drop_all(section)?;
    Files { write: vec![folder.to_owned()], ..Files::default() }.restrict()?;
    Ok(())
}

impl Privileges {
    /// Starts the helper, if opening one of those ports (all workers') takes privileges. It registers no more packet memory
    /// than `arena` has.
    ///
    /// # Errors
    /// The helper does not start.
    pub fn start(
        section: &ProcessSection,
        uris: impl Iterator<Item = String>,
        arena: &ArenaConfig,
    ) -> anyhow::Result<Self> {
        // What is no URI is told by whoever opens it.
        let uris: Vec<Uri> = uris.filter_map(|uri| uri.parse().ok()).collect();
        let ports: Vec<ScopedPort> = uris.iter().filter_map(ScopedPort::of).collect();
        // Memory is registered again when an interface comes back: by the gateway, which has no capability then, or, where
        // its limit is finite, by the helper.
        let has_xdp = section.confine && uris.iter().any(|uri| uri.kind() == "xdp");
        let registers = has_xdp && !port::xdp::allow_locked_memory(u64::MAX);
        if registers && !Capabilities::effective().contains(Capabilities::IPC_LOCK) {
            tracing::warn!(
                target: "port", event = "locked_memory_limited",
                "an AF_XDP port whose interface is removed may not be opened again: raise LimitMEMLOCK= or `ulimit -l`, \
                 or grant CAP_IPC_LOCK"
            );
        }
        let has_dpdk = uris.iter().any(|uri| uri.kind() == "dpdk");
        let scope = Scope { ports, memory: registers.then(|| port::xdp::registered_bytes(arena)) };
        let start = || Helper::start(&scope, mode(section));
        let helper = (section.confine && !scope.ports.is_empty()).then(start).transpose()?;
        Ok(Self {
            section: section.clone(),
            helper,
            notify: Notify::connect(),
            landlock: None,
            has_dpdk,
            looked: None,
            helper_gone: false,
        })
    }

    /// With the helper of a process that this one goes on for, if it had one: its process number, whether it registers
    /// packet memory, and its socket.
    ///
    /// # Errors
    /// That is no helper's socket.
    pub(crate) fn of_helper(section: &ProcessSection, helper: Option<(u32, bool, OwnedFd)>) -> anyhow::Result<Self> {
        if helper.as_ref().is_some_and(|(_, registers_memory, _)| !registers_memory) {
            // Of AF_XDP ports this process does, when an interface comes back.
            let _ = port::xdp::allow_locked_memory(u64::MAX);
        }
        let helper = helper.map(|(pid, registers, socket)| Helper::adopt(pid, registers, socket)).transpose()?;
        let (section, notify) = (section.clone(), Notify::connect());
        // Ports over DPDK are not handed over.
        Ok(Self { section, helper, notify, landlock: None, has_dpdk: false, looked: None, helper_gone: false })
    }

    /// Drops every capability, becomes the configured user and limits files to `reach`. There is one thread: those made
    /// later have no more than it.
    ///
    /// # Errors
    /// [`confine::ConfineError`]; no such user.
    pub fn give_up(&mut self, reach: &Reach) -> anyhow::Result<()> {
        if !self.section.confine {
            let message = "[process] confine = false: this process keeps every privilege it was started with";
            tracing::warn!(target: "process", event = "not_confined", "{message}");
            return Ok(());
        }
        for folder in &reach.write {
            // A rule needs a folder that is there. Where it can't be made, opening what belongs there says why.
            let _ = std::fs::create_dir_all(folder);
        }
        drop_all(&self.section)?;
        let mut sockets: Vec<PathBuf> = reach.sockets.iter().filter_map(|path| folder_of(path)).collect();
        sockets.dedup();
        let mut read = vec![PathBuf::from("/proc/self"), PathBuf::from("/sys/devices/system/cpu")];
        // The configuration, to read it again: editors replace the file, so its folder; and where a link leads.
        read.extend(reach.config.iter().cloned());
        // Symbols, for the backtrace of a panic.
        read.extend(std::env::current_exe());
        let landlock = Files { read, write: reach.write.clone(), sockets, tcp: reach.tcp.clone() }.restrict()?;
        if landlock.enforced != Enforced::All {
            tracing::warn!(
                target: "process", event = "landlock_missing", landlock = landlock.enforced.as_str(),
                "this kernel does not limit which files the gateway may open: Landlock needs Linux 5.13, its newest rules 6.12"
            );
        }
        if self.has_dpdk {
            tracing::warn!(
                target: "process", event = "dpdk_threads_limited_less",
                "threads of DPDK, started before, keep the user and the files of the start: Landlock and [process] user do \
                 not hold for them; they have no capability, and their system calls are filtered"
            );
        }
        self.landlock = Some(landlock);
        let _ = LANDLOCK.set(landlock);
        Ok(())
    }

    /// Filters system calls in every thread, and checks that no thread has kept anything.
    ///
    /// # Errors
    /// [`confine::ConfineError`]; a thread that has kept a privilege.
    pub fn seal(&self) -> anyhow::Result<()> {
        if !self.section.confine {
            return Ok(());
        }
        let mode = mode(&self.section);
        let calls = if self.has_dpdk { Calls::DpdkGateway } else { Calls::Gateway };
        confine::filter_calls(calls, mode)?;
        let process = confine::status::Process::this()?;
        for thread in &process.threads {
            let filtered = thread.seccomp == 2 || mode == Mode::Off;
            if thread.has_capabilities() || !thread.no_new_privs || !filtered {
                anyhow::bail!("thread {} ({}) has kept privileges: {thread:?}", thread.tid, thread.name);
            }
        }
        tracing::info!(
            target: "process", event = "confined", threads = process.threads.len(), uid = process.uid,
            seccomp = mode.as_str(), landlock = self.landlock.map_or("off", |landlock| landlock.enforced.as_str()),
            helper = self.helper.as_ref().map_or(0, Helper::pid),
            "no thread has a capability"
        );
        Ok(())
    }

    /// Says to systemd that another process is the gateway from now on.
    pub fn handed_over(&self, pid: i32) {
        if let Some(notify) = &self.notify {
            notify.main_process(pid);
        }
    }

    /// Says to systemd that the gateway is ready.
    pub fn ready(&self) {
        if let Some(notify) = &self.notify {
            notify.ready();
        }
    }

    /// What ends a sleep of the control thread: a signal, and the end of the helper.
    pub fn wakes<'a>(&self, stop: &'a Stop) -> Vec<Other<'a>> {
        let helper = self.helper.as_ref().map(|helper| (helper.socket(), PollFlags::empty()));
        [(stop.fd(), PollFlags::IN), (stop.hangup_fd(), PollFlags::IN)].into_iter().chain(helper).collect()
    }

    /// The helper may have ended.
    pub fn look(&mut self) {
        self.looked = None;
    }

    /// Whether the helper has ended: its BPF programs went with it, and no port can be opened again. Cheap enough to be
    /// asked every turn.
    pub(crate) fn is_helper_gone(&mut self) -> bool {
        let Some(helper) = &self.helper else { return false };
        if self.helper_gone || self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return self.helper_gone;
        }
        self.looked = Some(Instant::now());
        self.helper_gone = helper.is_gone();
        if self.helper_gone {
            tracing::error!(
                target: "process", event = "helper_gone", pid = helper.pid(),
                "the privileged helper has ended: stopping, because ports depend on it"
            );
        }
        self.helper_gone
    }

    /// How the gateway ended, if its helper had not ended before.
    ///
    /// # Errors
    /// The helper ended before the gateway did: nothing could be opened again since.
    pub fn ended(&self, ended: anyhow::Result<()>) -> anyhow::Result<()> {
        ended?;
        anyhow::ensure!(!self.helper_gone, "the privileged helper ended by itself");
        Ok(())
    }
}

/// Why a port could not be opened; where a privilege is missing, with the one command that grants all that the
/// configuration takes.
pub fn refused<'a>(
    error: PortsError,
    uris: impl Iterator<Item = &'a str>,
    listens: impl Iterator<Item = u16>,
) -> anyhow::Error {
    let PortsError::Port { name, source } = &error else { return error.into() };
    if !source.is_permission() {
        return error.into();
    }
    let what = match source {
        PortError::Capability { doing, capability } => format!("{doing} needs {capability}"),
        other => other.to_string(),
    };
    let line = setcap_line(uris, listens);
    anyhow!("port \"{name}\": {what}; run as root, or grant all that this configuration takes with `{line}`")
}

fn mode(section: &ProcessSection) -> Mode {
    match section.seccomp {
        Seccomp::Enforce => Mode::Enforce,
        Seccomp::Log => Mode::Log,
        Seccomp::Kill => Mode::Kill,
        Seccomp::Off => Mode::Off,
    }
}

/// The folder a path is in.
pub fn folder_of(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}
