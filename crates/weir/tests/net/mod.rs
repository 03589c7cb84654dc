//! Two namespaces for processes to talk in, and processes that do not outlive their test.
//!
//! ```text
//!   host                               gateway
//!   [ smf0 10.0.4.2 ]── veth ──[ eth2 10.0.4.1 ] N4
//!   [ gnb0 ]─────────── veth ──[ eth0 ] n3
//!   [ dn0  ]─────────── veth ──[ eth1 ] n6
//! ```
#![allow(dead_code)] // several test programs use different parts

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces joined by three veth pairs, and a folder; taken down when dropped.
pub struct Net {
    pub host: String,
    pub gateway: String,
    folder: PathBuf,
}

impl Net {
    pub fn new(test: &str) -> Self {
        let name = |end: &str| format!("weir-cp-{}-{test}-{end}", std::process::id());
        let net = Self { host: name("h"), gateway: name("g"), folder: std::env::temp_dir().join(name("dir")) };
        fs::create_dir_all(&net.folder).unwrap();
        for ns in [&net.host, &net.gateway] {
            ok(&format!("ip netns add {ns}"));
            ok(&format!("ip netns exec {ns} sysctl -qw net.ipv6.conf.default.disable_ipv6=1"));
            ok(&format!("ip -n {ns} link set lo up"));
        }
        let (host, gateway) = (&net.host, &net.gateway);
        for (ours, theirs) in [("eth0", "gnb0"), ("eth1", "dn0"), ("eth2", "smf0")] {
            ok(&format!("ip -n {gateway} link add {ours} type veth peer name {theirs} netns {host}"));
            ok(&format!("ip -n {gateway} link set {ours} up"));
            ok(&format!("ip -n {host} link set {theirs} up"));
        }
        ok(&format!("ip -n {gateway} address add 10.0.4.1/24 dev eth2"));
        ok(&format!("ip -n {host} address add 10.0.4.2/24 dev smf0"));
        net
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A user plane over these two interfaces, of which known sessions are to be forwarded in the kernel, also without the process.
    pub fn in_kernel(&self, folder: &BpfFolder, [n3, n6]: [&str; 2], fast_path: &str) -> String {
        let port = |name: &str, interface: &str, role: &str, address: &str| {
            format!(
                "[[port]]\nname = \"{name}\"\nuri = \"xdp:{interface}?copy=yes\"\nrole = \"{role}\"\n\
                 addresses = [\"{address}\"]\nfast_path = \"{fast_path}\"\n"
            )
        };
        format!(
            "gateway = \"upf\"\n{}{}[fast_path]\nbpf_folder = \"{}\"\n[n4]\naddress = \"10.0.4.1\"\n\
             allow = [\"10.0.4.0/24\"]\nledger = \"{}\"\n",
            port("n3", n3, "access", "10.0.3.1/24"),
            port("n6", n6, "core", "10.0.6.1/24"),
            folder.path().display(),
            self.file("ledger").display(),
        )
    }

    /// Starts `weir run`; returns once it answers.
    pub fn start(&self, config: &str) -> Running {
        fs::write(self.file("upf.toml"), config).unwrap();
        // Another build of it, say one for release, with `WEIR_BINARY`.
        let binary = std::env::var_os("WEIR_BINARY").unwrap_or_else(|| WEIR.into());
        let mut command = within(&self.gateway, binary);
        command.arg("run").arg(self.file("upf.toml")).arg("--socket").arg(self.file("weir.sock"));
        let running = Running::start(command, &self.file("run.err"));
        let said = || fs::read_to_string(self.file("run.err")).unwrap();
        until("a gateway that is ready", || said().contains("ready after").then_some(()));
        running
    }

    /// Starts `weir cp` in a namespace; returns once its sessions are up.
    pub fn control(&self, ns: &str, args: &str) -> Running {
        let mut command = within(ns, WEIR);
        command.arg("cp").args(args.split_whitespace()).args(["--json", "--sessions-out"]).arg(self.file("out.jsonl"));
        let said = self.file("cp.err");
        let running = Running::start(command, &said);
        until("sessions", || fs::read_to_string(&said).unwrap().contains("sessions up").then_some(()));
        running
    }

    /// What `weir show` knows.
    pub fn show(&self, topic: &str) -> Value {
        let mut command = Command::new(WEIR);
        command.arg("show").args(topic.split(' ')).args(["--json", "--socket"]).arg(self.file("weir.sock"));
        let out = command.output();
        serde_json::from_slice(&well(out.unwrap()).stdout).unwrap()
    }

    pub fn sessions(&self) -> u64 {
        self.show("sessions")["workers"].as_array().unwrap().iter().map(|worker| number(&worker["sessions"])).sum()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in [&self.host, &self.gateway] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A BPF file system of its own, as long as this lives.
pub struct BpfFolder(PathBuf);

impl BpfFolder {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-bpf-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        well(Command::new("mount").args(["-t", "bpf", "bpf"]).arg(&folder).output().unwrap());
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BpfFolder {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
        let _ = fs::remove_dir(&self.0);
    }
}

/// A process that does not outlive the test.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(mut command: Command, said: &Path) -> Self {
        let said = File::create(said).unwrap();
        Self(Some(command.stdout(Stdio::piped()).stderr(said).spawn().unwrap()))
    }

    /// Kills it: it can do nothing about it.
    pub fn kill(&mut self) {
        let mut child = self.0.take().unwrap();
        // `ip netns exec` has become the program.
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn end(mut self) -> Output {
        well(self.0.take().unwrap().wait_with_output().unwrap())
    }

    /// Waits until it ends by itself, well or not.
    pub fn end_anyhow(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        let end = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        child.wait_with_output().unwrap()
    }

    /// Interrupts it, as Ctrl-C does, and waits until it has ended.
    pub fn stop(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        ok(&format!("kill -INT {}", child.id()));
        let end = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn within(ns: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", ns]).arg(program);
    command
}

pub fn well(out: Output) -> Output {
    let said = [&out.stdout, &out.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat();
    assert!(out.status.success(), "{said}");
    out
}

pub fn ok(line: &str) -> Output {
    let mut words = line.split(' ');
    well(Command::new(words.next().unwrap()).args(words).output().unwrap())
}

pub fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(got) = done() {
            return got;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

pub fn user_plane() -> String {
    fs::read_to_string(example("upf-n4.toml")).unwrap()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

pub fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)))
}

/// The gateway ends well: nothing is missing.
pub fn ends_well(gateway: Running) {
    let out = well(gateway.stop());
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("answered or held: 0 missing") && said.contains("back: 0 missing"), "{said}");
}
