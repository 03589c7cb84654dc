//! The in-kernel path, put before the programs of the ports that have it configured.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use frame::Caps;
use gateway::shell::StartError;
use port::bpf::XdpMode;
use port::netns::Netns;
use port::{Moderation, Uri};

use crate::assemble::WorkerInit;
use crate::config::{Config, FastPathMode};
use crate::control::Control;
use crate::fast::{FastPath, FastPort, Publisher, why_not};

/// The program, before those of its ports; it leaves every packet to them until [`stand`](Fast::stand).
pub(super) struct Fast {
    path: Arc<FastPath>,
    ports: Vec<Option<FastPort>>,
}

/// The program in its tables, to be put before those of its ports.
pub(super) struct Ready {
    path: Arc<FastPath>,
    /// Interfaces and their namespaces.
    places: Vec<(String, Option<String>)>,
}

/// Has known sessions go on when the process ends, where they can; and goes on with those of a process before. Before ports
/// open.
pub(super) fn keep(config: &Config) {
    let has_ledger = config.n4.as_ref().is_some_and(|n4| n4.ledger.is_some());
    let is_there = config.port.iter().any(|port| port.fast_path != FastPathMode::Off) && why_not(config).is_none();
    let folder = Path::new(&config.fast_path.bpf_folder);
    if !has_ledger || !is_there || config.fast_path.keep().is_none() {
        let xdp = config.port.iter().filter_map(|port| port.uri.parse::<Uri>().ok()).filter(|uri| uri.kind() == "xdp");
        for uri in xdp.filter(|_| folder.join("weir").exists()) {
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

/// Whether the gateway must not start without.
fn is_needed(config: &Config) -> bool {
    config.port.iter().any(|port| port.fast_path == FastPathMode::Only)
}

/// Tells why there is none, or that the gateway does not start.
fn refused<T>(config: &Config, why: &str) -> Result<Option<T>, StartError> {
    let why = format!("no packets are forwarded in the kernel: {why}");
    if is_needed(config) {
        let help = "set port.fast_path to \"auto\" to start without";
        return Err(StartError::Gateway(format!("{why}; {help}").into()));
    }
    tracing::warn!(target: "process", event = "config_warning", key = "port.fast_path", "{why}");
    Ok(None)
}

/// Loads the program and puts it before those of the ports that are to have it. Takes privileges; ports are open.
///
/// # Errors
/// There can be none, and the configuration wants it.
pub(super) fn open(config: &Config) -> Result<Option<Fast>, StartError> {
    if config.port.iter().all(|port| port.fast_path == FastPathMode::Off) {
        return Ok(None);
    }
    let loaded = why_not(config).map_or_else(|| load(config), |why| Err(why.to_owned()));
    port::xdp::keep_no_more();
    match loaded {
        Ok(fast) => Ok(Some(fast)),
        Err(why) => refused(config, &why),
    }
}

fn load(config: &Config) -> Result<Fast, String> {
    let path = FastPath::load(config.fast_path.sessions, config.workers.count).map_err(|error| error.to_string())?;
    // Packets wait for others as long as they may in a worker's port, twice as many: a wake-up costs as much, a packet less.
    let idle = config.workers.idle();
    let limits = Moderation { longest: idle.moderate, share: idle.share * 2 };
    let mut ports = vec![None; config.port.len()];
    for (n, port) in config.port.iter().enumerate().filter(|(_, port)| port.fast_path != FastPathMode::Off) {
        let said = |error: &dyn std::fmt::Display| format!("port \"{}\": {error}", port.name);
        let uri: Uri = port.uri.parse().map_err(|error| said(&error))?;
        if uri.kind() != "xdp" {
            return Err(said(&"it is not an xdp: port"));
        }
        let netns = uri.get("netns");
        let hook = port::xdp::hook(uri.target(), netns, limits).map_err(|error| said(&error))?;
        if hook.mode != XdpMode::Native {
            return Err(said(&"its driver has no XDP of its own"));
        }
        if let Some(why) = &hook.unmoderated {
            tracing::info!(target: "port", event = "receive_not_moderated", port = port.name, "{why}");
        }
        path.set_user_space(hook.ifindex, hook.rest.as_fd()).map_err(|error| said(&error))?;
        let here = Netns::open(netns).map_err(|error| said(&error))?;
        let set = here.within(|| path.set_egress(n as u8, hook.ifindex)).map_err(|error| said(&error))?;
        set.map_err(|error| said(&error))?;
        if ports.iter().all(Option::is_none)
            && let Some(folder) = port::xdp::folder_of(uri.target(), netns).map_err(|error| said(&error))?
        {
            path.take_name(&folder.join("upf")).map_err(|error| said(&error))?;
            config.fast_path.keep().into_iter().for_each(|keep| path.set_keep(keep));
        }
        ports[n] = Some(FastPort { ifindex: hook.ifindex, role: port.role });
    }
    Ok(Fast { path: Arc::new(path), ports })
}

impl Fast {
    /// Gives the program the tables and the sessions that are there already.
    ///
    /// # Errors
    /// It cannot, and the configuration wants it.
    pub(super) fn stand(
        self,
        config: &Config,
        caps: &[Caps],
        control: &mut Control,
        seats: &mut [WorkerInit],
    ) -> Result<Option<Ready>, StartError> {
        let ours = |(port, _): &(&Option<FastPort>, &Caps)| port.is_some();
        let zero = self.ports.iter().zip(caps).filter(ours).find(|(_, caps)| caps.detail.starts_with("zero copy"));
        if let Some((_, caps)) = zero {
            let why = format!("{} receives in zero-copy mode; set copy=yes in its uri", caps.name);
            return refused(config, &why);
        }
        control.set_fast_path(Publisher::new(self.path.clone(), self.ports));
        self.path.set_running(true);
        for (worker, seat) in seats.iter_mut().enumerate() {
            seat.plane.sessions_mut().set_fast_path(self.path.clone(), worker as u16, 0);
        }
        let has = config.port.iter().filter(|port| port.fast_path != FastPathMode::Off);
        let uris = has.filter_map(|port| port.uri.parse::<Uri>().ok());
        let places = uris.map(|uri| (uri.target().to_owned(), uri.get("netns").map(str::to_owned))).collect();
        Ok(Some(Ready { path: self.path, places }))
    }
}

impl Ready {
    /// The program sees packets from now on: in place of that of a process before, of which sessions get what they have
    /// counted there.
    ///
    /// # Errors
    /// It cannot be put there, and the configuration wants it.
    pub(super) fn engage(self, config: &Config) -> Result<(), StartError> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let programs = self.path.program().and_then(|program| Ok((program, self.path.alone()?)));
        let put = programs.map_err(|error| said(&error)).and_then(|(program, alone)| {
            let alone = self.path.beat_every().map(|_| alone.as_fd());
            self.places.iter().try_for_each(|(interface, netns)| {
                port::xdp::engage(interface, netns.as_deref(), program.as_fd(), alone)
                    .map_err(|error| format!("interface {interface}: {error}"))
            })
        });
        if let Err(why) = put {
            return refused::<()>(config, &why).map(drop);
        }
        self.path.take_over();
        Ok(())
    }
}
