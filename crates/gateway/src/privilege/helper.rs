//! The helper process: this program again, with the other end of a socket as its standard input.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use confine::status::Process;
use confine::{Calls, Files, Mode};
use port::PortError;
use port::helper::{Client, Refusal, Scope};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::needs;
use super::view::{HELPER, ProcessView};

/// The first argument of a program that is to be the helper.
const WORD: &str = "privileged-helper";
/// Its last, if it is to register packet memory: at most the bytes that follow.
const REGISTERS: &str = "--registers-memory=";

/// The helper's process number.
static PID: OnceLock<u32> = OnceLock::new();

/// The helper of this process, if it has one: its process number, and another socket to it, for a process that takes over.
///
/// # Errors
/// It gives none.
pub fn for_another() -> Result<Option<(u32, OwnedFd)>, PortError> {
    let socket = port::helper::another().transpose()?;
    Ok(PID.get().copied().zip(socket))
}

/// A helper that this process has started, or taken over.
pub struct Helper {
    client: &'static Client,
    pid: u32,
}

impl Helper {
    /// Starts it for those ports; this process opens them through it from now on. If the scope has packet memory, the helper
    /// registers it, because it may lock more than this process. `mode` is what becomes of system calls that it should not
    /// make.
    ///
    /// # Errors
    /// What the system said.
    pub fn start(scope: &Scope, mode: Mode) -> anyhow::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .context("a socket pair")?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("weir").args([WORD, mode.as_str()]).args(scope.ports.iter().map(ToString::to_string));
        command.args(scope.memory.map(|bytes| format!("{REGISTERS}{bytes}")));
        // A group of its own: Ctrl-C is for the gateway, which ends the helper when its ports are closed.
        let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).process_group(0).spawn();
        let child = child.context("the privileged helper does not start")?;
        let client = Client::new(ours)?;
        let client = port::helper::connect(if scope.memory.is_some() { client.registering_memory() } else { client });
        let client = client.map_err(|_| anyhow::anyhow!("this process has a privileged helper already"))?;
        let _ = PID.set(child.id());
        Ok(Self { client, pid: child.id() })
    }

    /// The helper of another process, by that one's end of its socket.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn adopt(pid: u32, registers_memory: bool, socket: OwnedFd) -> anyhow::Result<Self> {
        let client = Client::new(socket)?;
        let client = port::helper::connect(if registers_memory { client.registering_memory() } else { client });
        let client = client.map_err(|_| anyhow::anyhow!("this process has a privileged helper already"))?;
        let _ = PID.set(pid);
        Ok(Self { client, pid })
    }

    /// Process ID of the helper.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Hangs up when it ends.
    pub fn socket(&self) -> BorrowedFd<'static> {
        self.client.socket()
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        let mut socket = [PollFd::from_borrowed_fd(self.client.socket(), PollFlags::empty())];
        poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && socket[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

/// What the helper of this process says of itself, if there is one.
pub fn report() -> Option<Result<ProcessView, String>> {
    let text = port::helper::report()?;
    Some(text.map_err(|error| error.to_string()).and_then(|text| {
        serde_json::from_str(&text).map_err(|error| format!("the helper's report is not readable: {error}"))
    }))
}

/// Is the helper, if the command line says so; none: it does not.
pub fn main_of_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(WORD)) {
        return None;
    }
    let mode = arguments.next().and_then(|mode| mode.to_str()?.parse().ok()).unwrap_or_default();
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    Some(match scope(&words).and_then(|scope| serve(&scope, mode)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir {WORD}: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// The scope that a command line gives.
fn scope(words: &[String]) -> anyhow::Result<Scope> {
    let mut scope = Scope::default();
    for word in words {
        match word.strip_prefix(REGISTERS) {
            Some(bytes) => scope.memory = Some(bytes.parse().context(REGISTERS)?),
            None => scope.ports.push(word.parse()?),
        }
    }
    Ok(scope)
}

fn serve(scope: &Scope, mode: Mode) -> anyhow::Result<()> {
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    rustix::net::sockopt::socket_domain(&socket)
        .context("started by hand? `weir run` starts it when a gateway's ports need it")?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // It ends when the gateway has: until then interfaces are to be kept as they are.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let _ = rustix::thread::set_name(c"weir-helper");
    confine::drop_capabilities(needs::of_helper(scope))?;
    confine::no_new_privileges()?;
    let notes = "/run/weir";
    let _ = std::fs::create_dir_all(notes);
    // Of its own interfaces, which it may moderate: /sys/class/net has links to them.
    let ours = scope.ports.iter().filter(|port| port.place.netns.is_none());
    let ours = ours.filter_map(|port| port::sys_files(&port.place.name));
    let read = ["/proc", "/run/netns", "/sys/devices/system/cpu", "/sys/class/net"].map(PathBuf::from);
    let files = Files {
        read: read.to_vec(),
        write: [notes.into(), "/dev/net/tun".into()].into_iter().chain(ours).collect(),
        ..Files::default()
    };
    let landlock = files.restrict()?;
    confine::filter_calls(Calls::Helper, mode)?;
    let report = || {
        let view = Process::this().map(|process| ProcessView::of(HELPER, process, Some(landlock)));
        view.ok().and_then(|view| serde_json::to_string(&view).ok()).unwrap_or_default()
    };
    // The gateway's own log is out of reach, and what asks for this may not be the gateway any more.
    let refused = |refusal: &Refusal| {
        let name = refusal.name();
        eprintln!("weir {WORD}: refused a request of the gateway ({name}, reported once): {refusal}");
    };
    port::helper::serve(&socket, scope, &report, &refused).context("serving a gateway")
}

#[cfg(test)]
mod tests {
    use super::*;
    use confine::Capabilities;

    #[test]
    fn the_helper_keeps_only_what_ports_take() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            needs::of_helper(&scope(&words).unwrap())
        };
        let kept = of(&["xdp:eth0"]);
        assert_eq!(kept.to_string(), "cap_net_admin,cap_net_raw,cap_bpf");
        let locks = of(&["xdp:eth0", "--registers-memory=4096"]);
        assert_eq!(locks.without(kept), Capabilities::IPC_LOCK);
        let kept = of(&["packet:eth0", "packet:inside/eth0"]);
        assert!(kept.without(Capabilities::SYS_ADMIN) != kept, "entering a namespace takes CAP_SYS_ADMIN");
    }
}
