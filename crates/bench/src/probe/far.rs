//! The other host of `weir probe quick`: an agent whose port is on the link to this host's interface.

use std::fs::read_to_string;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use port::Uri;
use port::iface::Iface;
use traffic::{Profile, TrialResult};

use crate::agent::{Client, OpenEnd, Side};
use crate::error::BenchError;
use crate::options::PortKind;

/// The interface of this host that is probed, and the agent at the other end of its link.
#[derive(Clone, Debug)]
pub struct FarHost {
    /// This host's interface.
    pub interface: String,
    /// The agent, started with its port on the link.
    pub agent: SocketAddr,
    /// Shared with it.
    pub secret: Vec<u8>,
}

/// Packets of both ends' interfaces so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// By this host's.
    pub here: u64,
    /// By the agent's.
    pub there: u64,
}

/// That host, connected.
pub(crate) struct Far {
    client: Client,
    interface: Iface,
    /// Hardware addresses of the link's ends.
    pub here: [u8; 6],
    pub there: [u8; 6],
    stop: Arc<AtomicBool>,
}

/// What a driver says of its interface.
pub(super) fn driver(name: &str) -> String {
    let link = std::fs::read_link(format!("/sys/class/net/{name}/device/driver")).ok();
    let of_device = link.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    // Virtual links have no device.
    of_device.unwrap_or_else(|| "veth".to_owned())
}

/// Receive queues of an interface.
pub(super) fn queues(name: &str) -> u16 {
    let all = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
    let receive = all.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count();
    u16::try_from(receive).unwrap_or(u16::MAX).max(1)
}

/// Packets that an interface of this host has received so far.
pub(crate) fn received(name: &str) -> u64 {
    let text = read_to_string(format!("/sys/class/net/{name}/statistics/rx_packets")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

impl Far {
    /// Connects, and asks for the hardware address of the agent's interface.
    ///
    /// # Errors
    /// There is no such interface or agent, or the agent has another secret or no interface.
    pub fn connect(host: &FarHost, stop: &Arc<AtomicBool>) -> Result<Self, BenchError> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::Interrupted => BenchError::Interrupted,
            _ => BenchError::Agent(format!("agent {}: {error}", host.agent)),
        };
        let interface = Iface::open(&host.interface, None)
            .map_err(|source| BenchError::Port { uri: host.interface.clone(), source })?;
        let here = interface.mac().map_err(|error| BenchError::system(host.interface.clone(), error))?;
        let mut client = Client::connect(host.agent, &host.secret, stop).map_err(failed)?;
        let used = client.used().map_err(failed)?.interface;
        let used = used.ok_or_else(|| {
            BenchError::Agent(format!("agent {}: its --port is no interface, such as packet:eth1", host.agent))
        })?;
        Ok(Self { client, interface, here, there: used.mac, stop: stop.clone() })
    }

    fn failed(&self, error: &std::io::Error) -> BenchError {
        if self.stop.load(Ordering::Relaxed) {
            BenchError::Interrupted
        } else {
            BenchError::Agent(format!("the agent: {error}"))
        }
    }

    /// The URI of a worker's port.
    pub fn uri(&self, kind: PortKind, (worker, workers): (u16, u16)) -> Uri {
        let name = self.interface.name();
        let uri = match kind {
            PortKind::Xdp => Uri::new("xdp", name).with("queue", worker),
            _ => Uri::new("packet", name).with("mode", kind.word()),
        };
        if workers == 1 || kind == PortKind::Xdp {
            return uri;
        }
        uri.with("fanout", "hash").with("group", 1).with("member", format!("{worker}/{workers}"))
    }

    /// Has the agent send those packets from now on.
    ///
    /// # Errors
    /// It cannot.
    pub fn load_with(&mut self, profile: &Profile) -> Result<(), BenchError> {
        let mut end = OpenEnd::returned(Side::Core, profile);
        end.mac = Some(self.here);
        self.client.open(&end).map(drop).map_err(|error| self.failed(&error))
    }

    /// Has it send for so long; what it sent, and what of it came back.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], or what the agent said.
    pub fn run(&mut self, length: Duration, pps: Option<f64>) -> Result<TrialResult, BenchError> {
        self.client.trial(pps, length.as_secs_f64()).map_err(|error| self.failed(&error))
    }

    /// What both interfaces have received so far.
    ///
    /// # Errors
    /// The connection to the agent is lost, or it does not answer.
    pub fn received(&mut self) -> Result<Received, BenchError> {
        let there = self.client.used().map_err(|error| self.failed(&error))?.interface;
        let there = there.map_or(0, |interface| interface.rx_packets);
        Ok(Received { here: received(self.interface.name()), there })
    }
}

/// Counters of exceeded allowances of an interface, as ENA (the network interface of EC2) has them.
pub(super) fn exceeded(name: &str) -> Vec<(String, u64)> {
    let all = Iface::open(name, None).ok().and_then(|interface| interface.statistics().ok()).unwrap_or_default();
    all.into_iter().filter(|(name, _)| name.ends_with("_allowance_exceeded")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_of_this_host_is_described() {
        assert_eq!((driver("lo"), queues("lo"), exceeded("lo")), ("veth".to_owned(), 1, vec![]));
        assert_eq!((received("no-such-interface"), queues("no-such-interface")), (0, 1));
    }
}
