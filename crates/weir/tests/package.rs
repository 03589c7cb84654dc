//! The Debian package and the container image: made, installed, run, removed, in a Debian that has nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A gateway that needs no interface and no privilege.
const CONFIG: &str = r#"
gateway = "upf"
control_socket = "/run/weir.sock"
[frames]
packet_buffers = 4096
[[port]]
name = "n3"
role = "access"
uri = "pcap:?out=/tmp/n3.pcap"
addresses = ["192.0.2.1/24"]
[[port]]
name = "n6"
role = "core"
uri = "pcap:?out=/tmp/n6.pcap"
addresses = ["198.51.100.1/24"]
"#;

/// What stays of a run goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("package-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{0}/graph\"\nrunroot = \"{0}/run\"\n",
            path.display()
        );
        std::fs::write(path.join("storage.conf"), storage).expect("written");
        std::fs::write(path.join("gateway.toml"), CONFIG).expect("written");
        Self(path)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("CONTAINERS_STORAGE_CONF", self.0.join("storage.conf"))
            .env("BUILDAH_ISOLATION", "chroot")
            .env("TMPDIR", &self.0)
            .env("OUT", self.0.join("deb"))
            .env("BINARY", env!("CARGO_BIN_EXE_weir"))
            // Compressing takes longer than all the rest.
            .env("DPKG_DEB_COMPRESSOR_TYPE", "none")
            .env("BASE", "mmdebstrap")
            .env("IMAGE", "localhost/weir:test");
        command
    }

    fn buildah(&self, args: &[&str]) -> Output {
        self.command("timeout").arg("120").arg("buildah").args(args).output().expect("buildah runs")
    }

    /// What a shell in the container prints; the test fails where the shell does.
    fn inside(&self, container: &str, script: &str) -> String {
        well(&self.buildah(&["run", container, "--", "sh", "-ec", script]))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.buildah(&["rm", "--all"]);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn well(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}

#[test]
fn a_package_is_installed_runs_and_is_removed() {
    let folder = Folder::new();
    well(&folder.command("scripts/deb").output().expect("scripts/deb runs"));
    // The image is Debian with the package installed.
    well(&folder.command("timeout").args(["300", "scripts/image"]).output().expect("scripts/image runs"));
    let container = well(&folder.buildah(&["from", "localhost/weir:test"]));
    let container = container.trim();

    let version = folder.inside(container, "weir --version");
    assert_eq!(version.trim(), format!("weir {}", env!("CARGO_PKG_VERSION")));
    folder.inside(container, "for file in /usr/share/doc/weir/examples/upf-*.toml; do weir run --check $file; done");
    let files = "/usr/lib/systemd/system/weir@.service /usr/lib/sysusers.d/weir.conf /usr/share/man/man1/weir-run.1.gz \
                 /usr/share/bash-completion/completions/weir /usr/share/doc/weir/copyright";
    folder.inside(
        container,
        &format!("ls {files}; grep -q ExecStart=/usr/bin/weir /usr/lib/systemd/system/weir@.service"),
    );

    well(&folder.buildah(&["copy", container, folder.0.join("gateway.toml").to_str().expect("UTF-8"), "/etc/weir/"]));
    let script = "weir run /etc/weir/gateway.toml >/tmp/log 2>&1 & \
                  for n in $(seq 100); do weir show ports --json >/tmp/ports 2>/dev/null && break; sleep 0.1; done; \
                  cat /tmp/ports; kill -TERM $!; wait $! || { cat /tmp/log >&2; false; }";
    let ports = folder.inside(container, script);
    assert!(ports.contains("n3") && ports.contains("n6"), "{ports}");

    let script = format!(
        "dpkg --remove weir >/dev/null; for file in /usr/bin/weir {files}; do ! [ -e $file ]; done; ls /etc/weir"
    );
    assert_eq!(folder.inside(container, &script).trim(), "gateway.toml", "configurations stay");
}
