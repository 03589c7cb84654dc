//! From a URI to a port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use frame::{Arena, Pool, Port, PortHandover};

use crate::faulty::{Faults, Faulty};
use crate::flows::Flows;
use crate::memory::{Memory, Wires};
use crate::paced::Paced;
use crate::packet::{Packet, Steer};
use crate::pcap::Pcap;
use crate::tap::Tap;
use crate::tun::Tun;
use crate::xdp::{XdpConfig, XdpPort};
use crate::{PortError, Uri};

/// What a port may need to open.
pub struct OpenContext<'a> {
    /// The worker's stock, and with it the arena.
    pub pool: &'a mut Pool,
    /// The wires of `memory:` ports.
    pub wires: Wires,
    /// Which member of `fanout=subscriber` owns which subscribers.
    pub steer: Steer,
    /// What the gateway has use for, of what a device may do.
    pub offloads: Offloads,
    /// The worker's number.
    pub worker: u16,
    /// Whose the port's packets are, for devices with several queues.
    pub flows: Flows,
}

/// What a gateway leaves to a port's device, where that can do it; nothing is asked of a device that saves no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Verifying the outermost UDP checksum of received packets: [`frame::flags::UDP_VERIFIED`].
    pub verify_udp: bool,
    /// Making the outermost UDP checksum over IPv6 of packets to send: [`frame::flags::UDP_SUM_LEFT`].
    pub complete_udp6: bool,
}

impl Offloads {
    /// Those that either is.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            verify_udp: self.verify_udp || other.verify_udp,
            complete_udp6: self.complete_udp6 || other.complete_udp6,
        }
    }
}

impl<'a> OpenContext<'a> {
    /// With wires of its own and subscribers spread by a hash.
    pub fn new(pool: &'a mut Pool) -> Self {
        Self {
            pool,
            wires: Wires::default(),
            steer: Steer::new(),
            offloads: Offloads::default(),
            worker: 0,
            flows: Flows::default(),
        }
    }
}

/// Opens a port of a kind that another crate brings, without wrappers.
pub type Opener = fn(&Uri, &mut OpenContext<'_>) -> Result<Box<dyn Port>, PortError>;

static DPDK: OnceLock<Opener> = OnceLock::new();

/// From now on `dpdk:` URIs are opened by `opener`. The first one stays.
pub fn set_dpdk_opener(opener: Opener) {
    let _ = DPDK.set(opener);
}

/// Opens the port a URI names, inside the wrappers it asks for.
///
/// # Errors
/// [`PortError`], each telling what to do.
pub fn open(uri: &Uri, cx: &mut OpenContext<'_>) -> Result<Box<dyn Port>, PortError> {
    let port: Box<dyn Port> = match uri.kind() {
        "memory" => {
            uri.only(&["mac"])?;
            Box::new(Memory::new(uri.target(), mac(uri)?, &cx.wires.wire(uri.target())))
        }
        "pcap" => Box::new(Pcap::open(uri)?),
        "packet" => Box::new(Packet::open(uri, &cx.steer)?),
        "xdp" => Box::new(XdpPort::open(XdpConfig::from_uri(uri)?, cx.pool)?),
        "tun" => Box::new(Tun::open(uri)?),
        "dpdk" => match DPDK.get() {
            Some(open) => open(uri, cx)?,
            None => {
                let what = "a `dpdk:` port in this build of the program".to_owned();
                let advice = "build it with DPDK (`make dpdk`), or use an `xdp:` port".to_owned();
                return Err(PortError::Unsupported { what, advice });
            }
        },
        _ => {
            let what = format!("there is no kind `{}`; there are memory, pcap, packet, xdp, tun and dpdk", uri.kind());
            return Err(PortError::BadUri { uri: uri.to_string(), what });
        }
    };
    wrap(port, uri, cx)
}

/// Whether what this process has of ports is another's too.
static BORROWED: AtomicBool = AtomicBool::new(false);

/// From now on, or no longer, this process's ports are another's too: closing them undoes nothing about their interfaces.
pub fn set_borrowed(borrowed: bool) {
    BORROWED.store(borrowed, Ordering::Release);
}

/// Whether that is so.
pub(crate) fn is_borrowed() -> bool {
    BORROWED.load(Ordering::Acquire)
}

/// The port a URI names, as another process handed it over: it stays that process's too until it is told to
/// [go on](Port::go_on_at), and is [borrowed](set_borrowed) meanwhile.
///
/// # Errors
/// [`PortError`]: a kind of port, or one with wrappers, that cannot be handed over; or what came is no such port.
pub fn take_over(
    uri: &Uri,
    steer: &Steer,
    arena: &Arc<Arena>,
    handed: PortHandover,
) -> Result<Box<dyn Port>, PortError> {
    match uri.kind() {
        "packet" => Ok(Box::new(Packet::take_over(uri, steer, handed)?)),
        "xdp" => Ok(Box::new(XdpPort::take_over(uri, arena, handed)?)),
        kind => {
            let what = format!("{kind} ports cannot be handed over");
            Err(PortError::BadUri { uri: uri.to_string(), what })
        }
    }
}

/// Faults are on the wire, pacing before it, and the tap sees what the worker sees.
fn wrap(mut port: Box<dyn Port>, uri: &Uri, cx: &OpenContext<'_>) -> Result<Box<dyn Port>, PortError> {
    if let Some(faults) = Faults::of(uri)? {
        port = Box::new(Faulty::new(port, faults));
    }
    if let Some(value) = uri.get("pace") {
        let want = "a rate such as 100000pps, 1.5Mpps or 1Gbit/s";
        let pace = value.parse().map_err(|()| uri.bad_value("pace", want))?;
        port = Box::new(Paced::new(port, pace));
    }
    if let Some(path) = uri.get("tap") {
        port = Box::new(Tap::new(port, path.as_ref(), cx.pool.arena().shape().slot_bytes.into())?);
    }
    Ok(port)
}

/// `mac=02:00:00:00:00:01`, or one made of the target's bytes.
fn mac(uri: &Uri) -> Result<[u8; 6], PortError> {
    let Some(value) = uri.get("mac") else {
        // FNV-1a: the same name has the same address in every run.
        let mixed = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let [a, b, c, d, e, ..] = uri.target().bytes().fold(0xcbf2_9ce4_8422_2325, mixed).to_be_bytes();
        return Ok([2, a, b, c, d, e]);
    };
    let bytes: Option<Vec<u8>> = value.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| uri.bad_value("mac", "six bytes in hex, as in 02:00:00:00:00:01"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frame::{Arena, ArenaConfig, Batch};

    #[test]
    fn memory_ports_meet_their_wires_by_name() {
        let arena = Arena::new(ArenaConfig { slots: 64, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 64);
        let mut cx = OpenContext::new(&mut pool);
        let wires = cx.wires.clone();
        let mut port = open(&"memory:left?mac=02:00:00:00:00:07".parse().unwrap(), &mut cx).unwrap();
        assert_eq!(port.caps().mac, [2, 0, 0, 0, 0, 7]);
        wires.wire("left").send([7; 60]);
        let mut batch = Batch::new();
        assert_eq!(port.rx_burst(&mut pool, &mut batch), 1);
        assert_eq!(port.tx_burst(&mut pool, &mut batch), 1);
        assert_eq!(wires.wire("left").received(), [[7; 60]]);
    }

    #[test]
    fn wrappers_are_put_around_any_port() {
        let path = std::env::temp_dir().join(format!("weir-open-{}.pcapng", std::process::id()));
        let arena = Arena::new(ArenaConfig { slots: 64, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 64);
        let mut cx = OpenContext::new(&mut pool);
        let uri = Uri::new("memory", "x").with("loss", 0.5).with("pace", "1Mpps").with("tap", path.display());
        let port = open(&uri.to_string().parse().unwrap(), &mut cx).unwrap();
        let mut names = Vec::new();
        port.extras(&mut |name, _| names.push(name));
        assert_eq!(names.len(), 10 + 1 + 2);
        assert!(names.contains(&"rx_fault_lost") && names.ends_with(&["paced_early", "tap_recorded", "tap_dropped"]));
        drop(port);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn nonsense_is_refused() {
        let arena = Arena::new(ArenaConfig { slots: 4, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 4);
        let mut error = |text: &str| match open(&text.parse().unwrap(), &mut OpenContext::new(&mut pool)) {
            Ok(_) => panic!("{text} opened"),
            Err(error) => error.to_string(),
        };
        assert!(error("carrier:pigeon").contains("there is no kind `carrier`"));
        assert!(error("dpdk:net_null0").contains("build it with DPDK"));
        assert!(error("memory:x?mode=ring").contains("`mode` is not a key of memory ports"));
        assert!(error("memory:x?mac=1:2").contains("six bytes"));
        assert!(error("memory:x?pace=fast").contains("1Gbit/s"));
        assert!(error("memory:x?loss=2").contains("from 0 to 1"));
        assert!(error("memory:x?tap=/nowhere/x.pcap").contains("/nowhere/x.pcap"));
        assert!(error("packet:weir-none").contains("there are: lo"));
        assert!(error("packet:lo?netns=weir-none").contains("ip netns add"));
    }
}
