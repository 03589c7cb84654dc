//! `[deploy]` of a plan: what a plan does not need to know to count machines, and a deployment does to write them down.

use std::net::Ipv4Addr;

use serde::Deserialize;

use crate::cidr::Cidr;

/// The section.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What everything is called after: small letters, digits and hyphens.
    pub name: String,
    /// The instance type or server; left out: the cheapest of the plan's answer that can be deployed.
    pub machine: Option<String>,
    /// Machines the fleet may grow to; left out: as many as the plan needs, spares with them.
    pub most_machines: Option<u32>,
    /// Machines the fleet shrinks to.
    pub least_machines: u32,
    /// Subscribers' addresses, cut into equal parts.
    pub ue_pool: Cidr,
    /// How packets come in and go out.
    pub io: Io,
    /// What a worker does without packets, as `[workers] idle` of a gateway.
    pub idle: Idle,
    /// 2 MiB pages for packet memory and session records, of each unit, in MiB.
    pub hugepages_mib: u32,
    /// Packets a unit's memory holds.
    #[serde(alias = "slots")]
    pub packet_buffers: u32,
    /// The load at which one more machine is wanted: `weir_load_ratio`, 0 to 1.
    pub target_load: f64,
    /// Seconds that a machine to be removed may take to lose its sessions.
    pub drain_seconds: u32,
    /// Networks that control planes send PFCP from; empty: those of the platform, see [`crate::fleet::Fleet::peers`].
    pub control_planes: Vec<Cidr>,
    /// Of a cable gateway.
    pub cmts: Cmts,
    /// Of a broadband gateway.
    pub bng: Bng,
    /// For `weir deploy aws`.
    pub aws: Aws,
    /// For `weir deploy kubernetes`.
    pub kubernetes: Kubernetes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "weir".to_owned(),
            machine: None,
            most_machines: None,
            least_machines: 1,
            ue_pool: constant("10.64.0.0/12"),
            io: Io::default(),
            idle: Idle::default(),
            hugepages_mib: 256,
            packet_buffers: 32_768,
            target_load: 0.7,
            drain_seconds: 900,
            control_planes: Vec::new(),
            cmts: Cmts::default(),
            bng: Bng::default(),
            aws: Aws::default(),
            kubernetes: Kubernetes::default(),
        }
    }
}

/// A network that is written in this program.
fn constant(text: &str) -> Cidr {
    // Tested below: every default is a network.
    text.parse().unwrap_or_else(|error| unreachable!("{error}"))
}

/// How packets come in and go out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// AF_PACKET with rings of slots: no waiting for blocks to fill.
    #[default]
    Slots,
    /// AF_PACKET with rings of blocks.
    Ring,
    /// AF_XDP.
    Xdp,
}

/// What a worker does without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Sleeps at once.
    Save,
    /// Polls while packets follow each other closely, else sleeps.
    #[default]
    Balanced,
    /// Never sleeps: each worker takes a CPU entirely.
    Latency,
}

impl Idle {
    /// The value of `[workers] idle`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Save => "save",
            Self::Balanced => "balanced",
            Self::Latency => "latency",
        }
    }
}

/// What service groups have in common. Service group `n` has device `n`, and modems behind those of the groups before it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cmts {
    /// Modems of a service group.
    pub modems: u32,
    /// Hosts behind a modem, each with an address of `ue_pool`.
    pub hosts: u32,
    /// Hardware address of the first modem of the first group; the others' follow.
    pub modem_mac: String,
    /// The network of the Remote-PHY devices: the first group's has its sixteenth address.
    pub devices: Cidr,
    /// Downstream OFDM channels of a service group, in two bonding groups.
    pub ofdm_channels: u32,
    pub ofdm_capacity: String,
    /// Upstream pseudowires of a service group.
    pub upstream_channels: u32,
    /// Capacity of each.
    pub upstream_capacity: String,
    /// Rate of a modem's best-effort flow.
    pub rate: String,
    /// Whether modems' frames are encrypted: the first modem's key is then the secret `modem-key`, 32 hexadecimal digits.
    pub encrypt: bool,
}

impl Default for Cmts {
    fn default() -> Self {
        Self {
            modems: 300,
            hosts: 4,
            modem_mac: "02:cb:00:00:00:00".to_owned(),
            devices: constant("10.40.0.0/16"),
            ofdm_channels: 6,
            ofdm_capacity: "1.89 Gbit/s".to_owned(),
            upstream_channels: 4,
            upstream_capacity: "100 Mbit/s".to_owned(),
            rate: "600 Mbit/s".to_owned(),
            encrypt: true,
        }
    }
}

/// What broadband gateways have in common. Each worker of each gateway owns a group: its own outer VLANs and its own part
/// of `ue_pool`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bng {
    /// Outer VLAN of the first group; the others' follow.
    pub first_s_vlan: u32,
    /// Outer VLANs of a group.
    pub s_vlans: u32,
    /// Inner VLANs of each outer one, as `[[group]] c_vlans` of a gateway.
    pub c_vlans: String,
    /// Rate of the tier that subscribers have unless RADIUS names another, from the subscriber.
    pub up: String,
    /// The same rate, to the subscriber.
    pub down: String,
    pub lease_seconds: u32,
    /// DNS servers that subscribers are told.
    pub dns: Vec<Ipv4Addr>,
    /// RADIUS servers, whose secret is the secret `radius`; empty: every line may have a session.
    pub radius: Vec<Ipv4Addr>,
    /// Seconds between interim accounting reports.
    pub interim_seconds: u32,
    /// On AWS, whose networks carry no VLANs: ends of the VXLAN tunnels that lines come by, in turn one for each gateway.
    pub tunnels: Vec<Ipv4Addr>,
    /// The first gateway's VXLAN network identifier; the others' follow.
    pub first_vni: u32,
}

impl Default for Bng {
    fn default() -> Self {
        Self {
            first_s_vlan: 100,
            s_vlans: 8,
            c_vlans: "1-4000".to_owned(),
            up: "50 Mbit/s".to_owned(),
            down: "250 Mbit/s".to_owned(),
            lease_seconds: 3600,
            dns: Vec::new(),
            radius: Vec::new(),
            interim_seconds: 600,
            tunnels: Vec::new(),
            first_vni: 4096,
        }
    }
}

/// Amazon's cloud.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aws {
    pub region: String,
    /// Its zones that are used, by their letters; as many as the plan's `failure.zones`.
    pub zones: Vec<String>,
    /// Where user planes and control planes are.
    pub case: Case,
    /// Generator, gateways and responder in one VPC, instead of three behind a transit gateway. Cable gateways always are.
    pub single_vpc: bool,
    /// With `placement.host = "dedicated"`, of cable and broadband gateways: instances that a dedicated host has room for.
    pub host_machines: u32,
    /// The gateways' VPC, or the only one.
    pub vpc: Cidr,
    /// The traffic generator's.
    pub generator_vpc: Cidr,
    /// The responder's.
    pub responder_vpc: Cidr,
    /// What is reached by Direct Connect, or by an Outpost's local gateway.
    pub on_premise: Cidr,
}

impl Default for Aws {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            zones: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            case: Case::default(),
            single_vpc: false,
            host_machines: 1,
            vpc: constant("10.20.0.0/16"),
            generator_vpc: constant("10.21.0.0/16"),
            responder_vpc: constant("10.22.0.0/16"),
            on_premise: constant("10.32.0.0/12"),
        }
    }
}

/// Where user planes and control planes are: the three cases that clouds of operators come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// Both in the region.
    #[default]
    Cloud,
    /// User planes on an Outpost at the premises, control planes in the region.
    Outpost,
    /// User planes in the region beside those at the premises, joined by Direct Connect; control planes on either side.
    Hybrid,
}

/// A Kubernetes cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kubernetes {
    /// Where it goes.
    pub namespace: String,
    /// The image, as built from the Containerfile.
    pub image: String,
    /// How pods get their second and third interface.
    pub attachment: Attachment,
    /// The node's interfaces towards the gNBs and the data network.
    pub access_device: String,
    /// As `access_device`.
    pub core_device: String,
    /// For `sriov`: the resources that the device plugin calls virtual functions of those interfaces.
    pub access_resource: String,
    /// As `access_resource`.
    pub core_resource: String,
    /// The network between gateways and gNBs: the first replica has its sixteenth address, the router the first.
    pub access: Cidr,
    /// The network between gateways and the data network.
    pub core: Cidr,
    /// The cluster's pod network, which control planes in the cluster and the jobs of `traffic` send from.
    pub pods: Cidr,
    /// The StorageClass of ledgers; left out: the cluster's default class, which must exist.
    pub storage_class: Option<String>,
    /// Size of a ledger's volume, in GiB.
    pub ledger_gib: u32,
    /// What sets the number of pods by `weir_load_ratio`.
    pub scaler: Scaler,
    /// Prometheus' address, which KEDA and prometheus-adapter query.
    pub prometheus: String,
    /// The namespace whose pods may read metrics.
    pub monitoring_namespace: String,
    /// Networks that kubelets probe from, where the cluster's network plugin does not let a pod's own node pass anyway.
    pub nodes: Vec<Cidr>,
    /// Memory of a pod beside huge pages, in MiB.
    pub memory_mib: u32,
    /// With a traffic generator's jobs.
    pub traffic: bool,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            namespace: "weir".to_owned(),
            image: "registry.example/weir:latest".to_owned(),
            attachment: Attachment::default(),
            access_device: "eth1".to_owned(),
            core_device: "eth2".to_owned(),
            access_resource: "weir.dev/access".to_owned(),
            core_resource: "weir.dev/core".to_owned(),
            access: constant("10.0.3.0/24"),
            core: constant("10.0.6.0/24"),
            pods: constant("10.244.0.0/16"),
            storage_class: None,
            ledger_gib: 4,
            scaler: Scaler::default(),
            prometheus: "http://prometheus-operated.monitoring.svc:9090".to_owned(),
            monitoring_namespace: "monitoring".to_owned(),
            nodes: Vec::new(),
            memory_mib: 1024,
            traffic: true,
        }
    }
}

/// What sets the number of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaler {
    /// A HorizontalPodAutoscaler, with prometheus-adapter as the source of the metric.
    #[default]
    PrometheusAdapter,
    /// A ScaledObject of KEDA, which makes the autoscaler itself.
    Keda,
}

/// The CNI plugin behind Multus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attachment {
    /// The whole interface moves into the pod: one pod a node.
    #[default]
    HostDevice,
    /// A virtual function of it, given out by the SR-IOV device plugin.
    Sriov,
    /// A slice of it with a hardware address of its own.
    Macvlan,
    /// A slice of it, by address: several pods share one hardware address. Refused: subscribers' addresses are not the
    /// kernel's, and their packets would not come.
    Ipvlan,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_networks_apart() {
        let Settings { ue_pool, aws, kubernetes, .. } = Settings::default();
        let all = [
            ue_pool,
            aws.vpc,
            aws.generator_vpc,
            aws.responder_vpc,
            aws.on_premise,
            kubernetes.access,
            kubernetes.core,
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(all[n + 1..].iter().all(|other| !one.overlaps(*other)), "{one}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<Settings>("aws.regoin = \"x\"").is_err());
        let settings: Settings = toml::from_str("io = \"xdp\"\nkubernetes.attachment = \"sriov\"").unwrap();
        assert_eq!((settings.io, settings.kubernetes.attachment), (Io::Xdp, Attachment::Sriov));
    }
}
