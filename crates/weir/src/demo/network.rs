//! The network of a demonstration.
//!
//! ```text
//!   load                                   gateway
//!   gNBs      l3-0 ════════════════ n3-0   172.16.0.1
//!   servers   l6-0 ════════════════ n6-0   172.17.0.1
//!   SMF  10.0.4.2 ═════════════════ n4     10.0.4.1
//! ```

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use ::bench::PortKind;
use ::bench::kernel_load::KernelLoad;
use ::bench::lab::{Lab, LinkDrops, Shape, Side};
use traffic::{Direction, Profile, Sizes};

use wire::Mac;

use crate::generate::sessions;

/// Where the user plane is reached by PFCP.
pub const N4: &str = "10.0.4.1";
/// Where the control plane is.
pub const SMF: &str = "10.0.4.2";
/// gNBs, and the first of their addresses.
pub const GNBS: u32 = 100;
pub const GNB_FIRST: Ipv4Addr = Ipv4Addr::new(172, 16, 1, 1);
/// The router towards the data network.
const ROUTER: &str = "172.17.0.2";
const SERVERS: u32 = 64;
const SERVER_FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Bytes of packets, the same number of each.
const SIZES: [u16; 6] = [64, 128, 256, 512, 1024, 1400];

/// The namespaces, and a folder for what the processes tell each other. Gone when dropped.
pub struct Network {
    lab: Lab,
    folder: PathBuf,
}

impl Network {
    /// Builds it.
    ///
    /// # Errors
    /// What the system refused: this wants root.
    pub fn new() -> anyhow::Result<Self> {
        let lab = Lab::new(Shape { mtu: 1600, queues: 1 })?;
        let known = Profile::default();
        lab.links(0, [known.access.gateway, known.core.gateway])?;
        lab.load_addresses(0, [known.access.own, known.core.own])?;
        lab.hosts(("n4", &format!("{N4}/24")), ("smf", &format!("{SMF}/24")))?;
        let folder = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { lab, folder })
    }

    /// The user plane's namespace.
    pub fn gateway(&self) -> &str {
        self.lab.gateway()
    }

    /// What the links have lost so far.
    pub fn link_drops(&self) -> LinkDrops {
        self.lab.link_drops(0)
    }

    /// Everybody else's.
    pub fn load(&self) -> &str {
        self.lab.load()
    }

    /// Where files of the demonstration's are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file of the demonstration's.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The user plane's configuration.
    pub fn configuration(&self, kind: PortKind, slots: Option<u32>, sessions: u32) -> String {
        // The user plane shares its CPU with the control plane: a larger stock lasts while it waits.
        let more = if kind == PortKind::Xdp && slots.is_none() { "?fill=4096" } else { "" };
        let uri = |side: Side| uri(kind, &side.gateway(0)) + more;
        let frames = slots.map_or(String::new(), |slots| format!("frames = {{ packet_buffers = {slots} }}\n"));
        format!(
            "gateway = \"upf\"\ncontrol_socket = {:?}\n{frames}{}\
             route = [{{ to = \"0.0.0.0/0\", next_hop = \"{ROUTER}\" }}]\nneighbour = [\n{}]\n\
             port = [\n  {{ name = \"n3\", uri = \"{}\", role = \"access\", addresses = [\"172.16.0.1/16\"], mtu = 1600 }},\n  \
             {{ name = \"n6\", uri = \"{}\", role = \"core\", addresses = [\"172.17.0.1/16\"], mtu = 1600 }},\n]\n\
             n4 = {{ address = \"{N4}\", allow = [\"10.0.4.0/24\"], sessions = {sessions} }}\n",
            self.socket(),
            worker(),
            neighbours(),
            uri(Side::N3),
            uri(Side::N6),
        )
    }

    /// The traffic out of the kernel, through the sessions in a file.
    ///
    /// # Errors
    /// The file; or what this kernel cannot do.
    pub fn kernel_load(&self, file: &Path) -> anyhow::Result<KernelLoad> {
        let sizes = Sizes::mix(&SIZES.map(|bytes| (bytes, 1)));
        let mut profile = Profile {
            servers: SERVERS,
            server_first: SERVER_FIRST,
            uplink_sizes: sizes.clone(),
            downlink_sizes: sizes,
            ..Profile::default()
        };
        sessions::read(file, &mut profile)?;
        Ok(KernelLoad::new(&self.lab, 0, profile)?)
    }

    /// The user plane's control socket.
    pub fn socket(&self) -> PathBuf {
        self.file("weir.sock")
    }

    /// What `weir gen` is told of it, where the kernel does not make the traffic.
    pub fn traffic(&self, sessions: &Path) -> Vec<String> {
        let port = |side: Side| uri(PortKind::Ring, &side.load(0));
        let words = format!(
            "--n3 {} --n6 {} --upf-n6 172.17.0.1 --answer-n6 {ROUTER} --servers {SERVERS} --server-first {SERVER_FIRST} \
             --qfis 9 --flows 1 --sizes {} --sessions",
            port(Side::N3),
            port(Side::N6),
            SIZES.map(|bytes| format!("{bytes}:1")).join(",")
        );
        words.split(' ').map(str::to_owned).chain([sessions.display().to_string()]).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The worker's CPU: another one than the load's, where there are two.
pub(super) fn worker() -> String {
    match ::bench::thread::cpus().as_slice() {
        [_, .., last] => format!("workers = {{ cpus = [{last}] }}\n"),
        _ => String::new(),
    }
}

/// gNBs and the router: where the kernel makes the traffic, nobody answers ARP.
fn neighbours() -> String {
    let known = Profile::default();
    let [gnbs, router] = [Direction::Uplink, Direction::Downlink].map(|side| known.entry(side).own);
    let line = |port: &str, address: String, mac: Mac| {
        format!("  {{ port = \"{port}\", address = \"{address}\", mac = \"{mac}\" }},\n")
    };
    let gnb = |n: u32| line("n3", Ipv4Addr::from_bits(GNB_FIRST.to_bits() + n).to_string(), gnbs);
    (0..GNBS).map(gnb).collect::<String>() + &line("n6", ROUTER.to_owned(), router)
}

pub(crate) fn uri(kind: PortKind, interface: &str) -> String {
    match kind {
        PortKind::Xdp => format!("xdp:{interface}"),
        PortKind::Mmsg => format!("packet:{interface}?mode=mmsg"),
        PortKind::Plain => format!("packet:{interface}?mode=plain"),
        PortKind::Ring => format!("packet:{interface}?mode=tpacket3"),
        PortKind::Dpdk => format!("dpdk:net_af_packet_{interface},iface={interface},framesz=1792,blocksz=28672"),
        PortKind::Memory => format!("packet:{interface}"),
    }
}
