//! The in-kernel path, put before the programs of the ports that have it configured.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use frame::Caps;
use port::bpf::{XdpMode, monotonic_ns};
use port::netns::Netns;
use port::{Moderation, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FastPath, FastPathError, FastPort, Side};
use crate::shell::ports::PortEntry;
use crate::shell::{Head, StartError};

/// Whether packets are forwarded in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FastPathMode {
    /// Packets of the port are never forwarded in the kernel.
    #[default]
    Off,
    /// Where it can be.
    Auto,
    /// The gateway does not start without.
    Only,
}

/// A port of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct WantedPort<'a> {
    /// What the configuration calls it.
    pub name: &'a str,
    /// What it is; empty of one on another's device.
    pub uri: &'a str,
    /// The port whose device it shares.
    pub on: Option<&'a str>,
    /// Whether it is to have the program.
    pub mode: FastPathMode,
    /// Its side.
    pub side: Side,
}

/// What the configuration wants.
#[derive(Clone, Debug)]
pub struct Wants<'a> {
    /// The gateway, by which its maps are named.
    pub gateway: &'static str,
    /// All ports, by number.
    pub ports: Vec<WantedPort<'a>>,
    /// Why there can be no in-kernel path; none: there can.
    pub why_not: Option<&'static str>,
    /// How long packets wait for others before the receive work is done.
    pub moderation: Moderation,
    /// How long sessions go on without the process, and where what goes on has a name; none: not at all.
    pub keep: Option<(Duration, &'a Path)>,
}

impl<'a> Wants<'a> {
    /// Of the ports of a configuration, in order, each with what it wants and its side. There can be an in-kernel path, and it
    /// keeps nothing: whoever knows better sets `why_not` and `keep`.
    pub fn new(gateway: &'static str, head: &Head<'a>, ports: impl Iterator<Item = (FastPathMode, Side)>) -> Self {
        let wanted = |(port, (mode, side)): (&PortEntry<'a>, _)| {
            let PortEntry { name, uri, on, .. } = *port;
            WantedPort { name, uri, on, mode, side }
        };
        // Packets wait for others as long as they may in a worker's port, twice as many: a wake-up costs as much, a packet
        // less.
        let idle = head.workers.idle();
        Self {
            gateway,
            ports: head.ports.iter().zip(ports).map(wanted).collect(),
            why_not: None,
            moderation: Moderation { longest: idle.moderate, share: idle.share * 2 },
            keep: None,
        }
    }

    fn has_any(&self) -> bool {
        self.ports.iter().any(|port| port.mode != FastPathMode::Off)
    }

    /// The numbers of port `n` and of those that share its device.
    fn on_device_of(&self, n: usize) -> Vec<usize> {
        let is_on_it = |other: &(usize, &WantedPort<'_>)| other.0 == n || other.1.on == Some(self.ports[n].name);
        self.ports.iter().enumerate().filter(is_on_it).map(|(n, _)| n).collect()
    }

    /// Tells why there is none, or that the gateway does not start.
    fn refused<T>(&self, why: &str) -> Result<Option<T>, StartError> {
        let why = format!("no packets are forwarded in the kernel: {why}");
        if self.ports.iter().any(|port| port.mode == FastPathMode::Only) {
            let help = "set port.fast_path to \"auto\" to start without";
            return Err(StartError::Gateway(format!("{why}; {help}").into()));
        }
        tracing::warn!(target: "process", event = "config_warning", key = "port.fast_path", "{why}");
        Ok(None)
    }
}

/// The program, before those of its ports; it leaves every packet to them until [`stand`](Attached::stand).
pub struct Attached<P> {
    path: Arc<P>,
    ports: Vec<Option<FastPort>>,
}

/// The program, to be given tables and sessions.
pub struct Standing<P> {
    /// The program and its maps.
    pub path: Arc<P>,
    /// The ports it is before, by number.
    pub ports: Vec<Option<FastPort>>,
    /// To be [engaged](Ready::engage) when the tables are there.
    pub ready: Ready<P>,
}

/// The program in its tables, to be put before those of its ports.
pub struct Ready<P> {
    path: Arc<P>,
    /// Interfaces and their namespaces.
    places: Vec<(String, Option<String>)>,
}

/// Has known sessions go on when the process ends, where they can; and goes on with those of a process before. Before ports
/// open. `folder`: that of the BPF file system.
pub fn keep_past(wants: &Wants<'_>, folder: &Path) {
    if wants.keep.is_none() || !wants.has_any() || wants.why_not.is_some() {
        let xdp = wants.ports.iter().filter_map(|port| port.uri.parse::<Uri>().ok());
        let xdp = xdp.filter(|uri| uri.kind() == "xdp" && folder.join("weir").exists());
        for uri in xdp {
            // An interface that is not there has nothing left; the port says so.
            let _ = port::xdp::leave_nothing(folder, uri.target(), uri.get("netns"));
        }
        return;
    }
    if let Err(error) = port::xdp::keep_in(folder) {
        let key = "fast_path.bpf_folder";
        tracing::warn!(
            target: "process", event = "config_warning", key,
            "the kernel forwards for no session without this process: {error}; mount -t bpf bpf /sys/fs/bpf"
        );
    }
}

/// Loads the program and puts it before those of the ports that are to have it. Takes privileges; ports are open.
///
/// # Errors
/// There can be none, and the configuration wants it.
pub fn open<P: AsRef<FastPath>>(
    wants: &Wants<'_>,
    load: impl FnOnce() -> Result<P, FastPathError>,
) -> Result<Option<Attached<P>>, StartError> {
    if !wants.has_any() {
        return Ok(None);
    }
    let loaded = match wants.why_not {
        None => load().map_err(|error| error.to_string()).and_then(|path| attach(wants, path)),
        Some(why) => Err(why.to_owned()),
    };
    if loaded.is_err() {
        leave_nothing(wants);
    }
    port::xdp::keep_no_more();
    match loaded {
        Ok(fast) => Ok(Some(fast)),
        Err(why) => wants.refused(&why),
    }
}

/// Takes away the names that an attach which failed has given: programs and counts of it would stay without anybody to use them.
fn leave_nothing(wants: &Wants<'_>) {
    let Some((_, folder)) = wants.keep else { return };
    for uri in wants.ports.iter().filter_map(|port| port.uri.parse::<Uri>().ok()).filter(|uri| uri.kind() == "xdp") {
        // An interface that is not there has nothing left.
        let _ = port::xdp::leave_nothing(folder, uri.target(), uri.get("netns"));
    }
}

fn attach<P: AsRef<FastPath>>(wants: &Wants<'_>, path: P) -> Result<Attached<P>, String> {
    let shared = path.as_ref();
    if let Err(error) = shared.watch_devices() {
        tracing::info!(target: "port", event = "refused_not_counted", "{error}");
    }
    let mut ports = vec![None; wants.ports.len()];
    let devices = wants.ports.iter().enumerate().filter(|(_, port)| port.on.is_none());
    for (n, port) in devices.filter(|(_, port)| port.mode != FastPathMode::Off) {
        let said = |error: &dyn std::fmt::Display| format!("port \"{}\": {error}", port.name);
        let uri: Uri = port.uri.parse().map_err(|error| said(&error))?;
        if uri.kind() != "xdp" {
            return Err(said(&"it is not an xdp: port"));
        }
        let netns = uri.get("netns");
        let hook = port::xdp::hook(uri.target(), netns, wants.moderation).map_err(|error| said(&error))?;
        if hook.mode != XdpMode::Native {
            return Err(said(&"its driver has no XDP of its own"));
        }
        if let Some(why) = &hook.unmoderated {
            tracing::info!(target: "port", event = "receive_not_moderated", port = port.name, "{why}");
        }
        shared.set_user_space(hook.ifindex, hook.rest.as_fd()).map_err(|error| said(&error))?;
        let here = Netns::open(netns).map_err(|error| said(&error))?;
        let on_it = wants.on_device_of(n);
        let set = here.within(|| on_it.iter().try_for_each(|n| shared.set_egress(*n as u8, hook.ifindex)));
        set.map_err(|error| said(&error))?.map_err(|error| said(&error))?;
        let (_, netns_inode) = here.id().map_err(|error| said(&error))?;
        shared.count_refused(port.name, hook.ifindex, netns_inode);
        if let Some((keep, _)) = wants.keep
            && ports.iter().all(Option::is_none)
            && let Some(folder) = port::xdp::folder_of(uri.target(), netns).map_err(|error| said(&error))?
        {
            shared.take_name(&folder.join(wants.gateway)).map_err(|error| said(&error))?;
            shared.set_keep(keep);
        }
        for n in on_it {
            ports[n] = Some(FastPort { ifindex: hook.ifindex, role: wants.ports[n].side });
        }
    }
    Ok(Attached { path: Arc::new(path), ports })
}

impl<P: AsRef<FastPath>> Attached<P> {
    /// Sessions of the process before come with what they have counted in the kernel: what has a name is not asked.
    #[must_use]
    pub fn of_take_over(self) -> Self {
        *(*self.path).as_ref().before() = None;
        self
    }

    /// The program takes packets of sessions from now on, once there are some. None: there is no in-kernel path.
    ///
    /// # Errors
    /// There can be none, and the configuration wants it.
    pub fn stand(self, wants: &Wants<'_>, caps: &[Caps]) -> Result<Option<Standing<P>>, StartError> {
        let ours = |(port, _): &(&Option<FastPort>, &Caps)| port.is_some();
        let zero = self.ports.iter().zip(caps).filter(ours).find(|(_, caps)| caps.detail.starts_with("zero copy"));
        if let Some((_, caps)) = zero {
            let why = format!("{} receives in zero-copy mode; set copy=yes in its uri", caps.name);
            leave_nothing(wants);
            return wants.refused(&why);
        }
        (*self.path).as_ref().set_running(true);
        let has = wants.ports.iter().filter(|port| port.mode != FastPathMode::Off);
        let uris = has.filter_map(|port| port.uri.parse::<Uri>().ok());
        let places = uris.map(|uri| (uri.target().to_owned(), uri.get("netns").map(str::to_owned))).collect();
        let ready = Ready { path: self.path.clone(), places };
        Ok(Some(Standing { path: self.path, ports: self.ports, ready }))
    }
}

/// There is no in-kernel path: that of a process before, whose ports this one has taken over, sees no packets any more.
pub fn disengage(wants: &Wants<'_>) {
    let uris = wants.ports.iter().filter_map(|port| port.uri.parse::<Uri>().ok());
    for uri in uris.filter(|uri| uri.kind() == "xdp") {
        if let Err(error) = port::xdp::disengage(uri.target(), uri.get("netns")) {
            tracing::warn!(target: "process", event = "config_warning", key = "port.fast_path", "{error}");
        }
    }
}

impl<P: AsRef<FastPath>> Ready<P> {
    /// The program sees packets from now on: in place of that of a process before, of which sessions get what they have
    /// counted there.
    ///
    /// # Errors
    /// It cannot be put there, and the configuration wants it.
    pub fn engage(&self, wants: &Wants<'_>) -> Result<(), StartError> {
        let path = (*self.path).as_ref();
        let said = |error: &dyn std::fmt::Display| error.to_string();
        // It has been long since it was loaded, if there are many sessions.
        path.beat(monotonic_ns());
        let programs = path.program().and_then(|program| Ok((program, path.alone()?)));
        let put = programs.map_err(|error| said(&error)).and_then(|(program, alone)| {
            let alone = path.beat_every().map(|_| alone.as_fd());
            self.places.iter().try_for_each(|(interface, netns)| {
                port::xdp::engage(interface, netns.as_deref(), program.as_fd(), alone)
                    .map_err(|error| format!("interface {interface}: {error}"))
            })
        });
        if let Err(why) = put {
            // Those of interfaces that it is before already leave every packet, too.
            path.set_running(false);
            leave_nothing(wants);
            return wants.refused::<()>(&why).map(drop);
        }
        path.begin_to_count_refused();
        path.take_over();
        Ok(())
    }
}
