//! The in-kernel path, put before the programs of the ports that have it configured.

use std::os::fd::AsFd;
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
    match why_not(config).map_or_else(|| load(config), |why| Err(why.to_owned())) {
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
        let hook =
            port::xdp::hook(uri.target(), netns, path.program().as_fd(), limits).map_err(|error| said(&error))?;
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
        ports[n] = Some(FastPort { ifindex: hook.ifindex, role: port.role });
    }
    Ok(Fast { path: Arc::new(path), ports })
}

impl Fast {
    /// Gives the program the tables and the sessions that are there already; it takes packets from now on.
    ///
    /// # Errors
    /// It cannot, and the configuration wants it.
    pub(super) fn stand(
        self,
        config: &Config,
        caps: &[Caps],
        control: &mut Control,
        seats: &mut [WorkerInit],
    ) -> Result<(), StartError> {
        let ours = |(port, _): &(&Option<FastPort>, &Caps)| port.is_some();
        let zero = self.ports.iter().zip(caps).filter(ours).find(|(_, caps)| caps.detail.starts_with("zero copy"));
        if let Some((_, caps)) = zero {
            let why = format!("{} receives in zero-copy mode; set copy=yes in its uri", caps.name);
            return refused::<()>(config, &why).map(drop);
        }
        control.set_fast_path(Publisher::new(self.path.clone(), self.ports));
        self.path.set_running(true);
        for (worker, seat) in seats.iter_mut().enumerate() {
            seat.plane.sessions_mut().set_fast_path(self.path.clone(), worker as u16, 0);
        }
        Ok(())
    }
}
