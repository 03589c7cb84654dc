//! The network of a demonstration.
//!
//! ```text
//!   load                                   gateway
//!   gNBs      l3-0 ════════════════ n3-0   172.16.0.1
//!   servers   l6-0 ════════════════ n6-0   172.17.0.1
//!   SMF  10.0.4.2 ═════════════════ n4     10.0.4.1
//! ```

use std::path::{Path, PathBuf};

use ::bench::PortKind;
use ::bench::lab::{Lab, LinkDrops, Shape, Side};
use wire::Mac;

/// Where the user plane is reached by PFCP.
pub const N4: &str = "10.0.4.1";
/// Where the control plane is.
pub const SMF: &str = "10.0.4.2";

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
        lab.links(0, [Mac([2, 0, 0, 0, 3, 0]), Mac([2, 0, 0, 0, 6, 0])])?;
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

    /// A file of the demonstration's.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The user plane's configuration.
    pub fn configuration(&self, kind: PortKind, slots: Option<u32>, sessions: u32) -> String {
        let uri = |side: Side| uri(kind, &side.gateway(0));
        let frames = slots.map_or(String::new(), |slots| format!("frames = {{ slots = {slots} }}\n"));
        format!(
            "gateway = \"upf\"\ncontrol_socket = {:?}\n{frames}\
             route = [{{ to = \"0.0.0.0/0\", via = \"172.17.0.2\" }}]\n\
             port = [\n  {{ name = \"n3\", uri = \"{}\", role = \"access\", addresses = [\"172.16.0.1/16\"], mtu = 1600 }},\n  \
             {{ name = \"n6\", uri = \"{}\", role = \"core\", addresses = [\"172.17.0.1/16\"], mtu = 1600 }},\n]\n\
             n4 = {{ address = \"{N4}\", allow = [\"10.0.4.0/24\"], sessions = {sessions} }}\n",
            self.socket(),
            uri(Side::N3),
            uri(Side::N6),
        )
    }

    /// The user plane's control socket.
    pub fn socket(&self) -> PathBuf {
        self.file("weir.sock")
    }

    /// What `weir gen` is told of it.
    pub fn traffic(&self, sessions: &Path) -> Vec<String> {
        let port = |side: Side| uri(PortKind::Ring, &side.load(0));
        let words = format!(
            "--n3 {} --n6 {} --upf-n6 172.17.0.1 --answer-n6 172.17.0.2 --servers 64 --server-first 198.18.0.1 --qfis 9 \
             --flows 8 --sizes 64:1,128:1,256:1,512:1,1024:1,1400:1 --sessions",
            port(Side::N3),
            port(Side::N6)
        );
        words.split(' ').map(str::to_owned).chain([sessions.display().to_string()]).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn uri(kind: PortKind, interface: &str) -> String {
    match kind {
        PortKind::Xdp => format!("xdp:{interface}"),
        PortKind::Mmsg => format!("packet:{interface}?mode=mmsg"),
        PortKind::Plain => format!("packet:{interface}?mode=plain"),
        _ => format!("packet:{interface}?mode=ring"),
    }
}
