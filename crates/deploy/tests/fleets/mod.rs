//! Fleets to write files for.
#![allow(dead_code)] // several test programs use different parts

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use deploy::File;
use deploy::fleet::{Fleet, Gateway, Machine, Unit};
use deploy::settings::{Case, Settings};

/// As `examples/plan-upf.toml` is answered: seven instances and a spare.
pub fn upf() -> Fleet {
    Fleet {
        gateway: Gateway::Upf,
        groups: None,
        machine: Machine {
            name: "c5n.2xlarge".into(),
            provider: "aws".into(),
            is_arm: false,
            vcpus: Some(8),
            interfaces: Some(4),
            queues: Some(8),
            memory_mib: Some(21_504),
        },
        unit: Unit {
            vcpus: 2,
            interfaces: 2,
            queues: 1,
            share_interfaces: false,
            admin_interfaces: 1,
            reserved_vcpus: 0,
        },
        units: 1,
        needed: 7,
        machines: 8,
        subscribers: Some(250_000),
        zones: 1,
        cluster: true,
        dedicated: false,
        settings: Settings::default(),
    }
}

/// As `examples/plan-cmts.toml` is answered: 24 service groups, two on an instance, on dedicated hosts by Direct Connect.
pub fn cmts() -> Fleet {
    let upf = upf();
    let text = "name = \"cable\"\naws = { case = \"hybrid\", host_machines = 4 }\nkubernetes.attachment = \"sriov\"";
    Fleet {
        gateway: Gateway::Cmts,
        groups: Some(24),
        machine: Machine {
            name: "c5n.4xlarge".into(),
            vcpus: Some(16),
            interfaces: Some(8),
            memory_mib: Some(43_008),
            ..upf.machine
        },
        unit: Unit { vcpus: 3, ..upf.unit },
        units: 3,
        needed: 8,
        machines: 9,
        subscribers: None,
        dedicated: true,
        settings: toml::from_str(text).expect("settings"),
        ..upf
    }
}

/// The same with simulated devices in the region.
pub fn cmts_in_the_cloud() -> Fleet {
    let mut fleet = cmts();
    fleet.settings.aws.case = deploy::settings::Case::Cloud;
    fleet.settings.cmts.devices = "10.20.5.0/24".parse().expect("a network");
    fleet.dedicated = false;
    fleet
}

/// Four broadband gateways with RADIUS, two on an instance, two workers each, lines by VXLAN.
pub fn bng() -> Fleet {
    let upf = upf();
    let text = "name = \"fixed\"\nue_pool = \"100.64.0.0/12\"\npacket_buffers = 65536\naws.case = \"hybrid\"\n\
                kubernetes = { attachment = \"sriov\", traffic = false }\n\
                bng = { radius = [\"10.32.0.10\", \"10.32.0.11\"], dns = [\"10.32.0.53\"], tunnels = [\"10.32.1.1\", \"10.32.1.2\"] }";
    Fleet {
        gateway: Gateway::Bng,
        machine: Machine {
            name: "c5n.9xlarge".into(),
            vcpus: Some(36),
            interfaces: Some(8),
            memory_mib: Some(98_304),
            ..upf.machine
        },
        unit: Unit { vcpus: 4, queues: 2, ..upf.unit },
        units: 2,
        needed: 2,
        machines: 3,
        subscribers: Some(40_000),
        settings: toml::from_str(text).expect("settings"),
        ..upf
    }
}

/// The same on dedicated hosts of an Outpost.
pub fn bng_on_an_outpost() -> Fleet {
    let mut fleet = bng();
    fleet.settings.aws.case = deploy::settings::Case::Outpost;
    fleet.dedicated = true;
    fleet
}

/// Several gateways on a machine, three zones, two workers each, AF_XDP.
pub fn large() -> Fleet {
    let upf = upf();
    let settings: Settings =
        toml::from_str("name = \"wide\"\nio = \"xdp\"\nmost_machines = 12\nslots = 65536").expect("settings");
    Fleet {
        machine: Machine {
            name: "c6gn.8xlarge".into(),
            is_arm: true,
            vcpus: Some(32),
            interfaces: Some(8),
            queues: Some(8),
            memory_mib: Some(65_536),
            ..upf.machine
        },
        unit: Unit { vcpus: 8, queues: 2, ..upf.unit },
        units: 3,
        needed: 7,
        machines: 9,
        zones: 3,
        cluster: false,
        dedicated: true,
        settings,
        ..upf
    }
}

/// The same in one VPC.
pub fn single() -> Fleet {
    let mut fleet = upf();
    fleet.settings.aws.single_vpc = true;
    fleet
}

/// On an Outpost, or beside the premises.
pub fn case(case: deploy::settings::Case) -> Fleet {
    let mut fleet = upf();
    fleet.settings.aws.case = case;
    fleet
}

/// Writes files below a folder of the tests' own.
pub fn write(name: &str, files: &[File]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    for file in files {
        let path = folder.join(&file.name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, &file.text).expect("a file");
    }
    folder
}

/// Runs one of the judges that `make setup` installs.
pub fn judge(args: &[&str]) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/judge/bin").join("python3");
    let mut command = Command::new(path);
    command.args(args).output().expect("`make setup` installs the judges")
}

/// Nothing is wrong with it.
pub fn well(what: &str, out: &Output) {
    let said = [&out.stdout, &out.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat();
    assert!(out.status.success(), "{what}:\n{said}");
}

/// One of each kind, by name.
pub fn all() -> Vec<(&'static str, Fleet)> {
    vec![
        ("upf", upf()),
        ("large", large()),
        ("single", single()),
        ("outpost", case(Case::Outpost)),
        ("hybrid", case(Case::Hybrid)),
        ("cmts", cmts()),
        ("bng", bng()),
        ("bng-outpost", bng_on_an_outpost()),
        ("cmts-trial", cmts_in_the_cloud()),
    ]
}
