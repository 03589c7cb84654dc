//! Network instances and interfaces, by the names control planes use (3GPP TS 29.244, 8.2.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::forward::{InstanceId, Plan};
use pfcp::ie::{NetworkInstance, UserPlaneIpResourceInformation};

use crate::config::{Config, Role, UnknownNetworkInstance, parse_prefix};

/// Where packets between subscribers and control planes' functions (N4-u) go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPath {
    /// From and to a UDP socket at the N4 address.
    Socket(IpAddr),
    /// Through the network of an access port, by GTP-U as from gNBs.
    Port(InstanceId),
    /// Nowhere: no socket could be opened.
    None,
}

/// What a control plane may name, and what it means here.
#[derive(Clone, Debug)]
pub struct Networks {
    /// Names by number, as [`Config::instances`] gives them.
    names: Vec<String>,
    /// Further names that control planes have for them.
    dnns: Vec<(Box<str>, InstanceId)>,
    /// Those that a reload took out: sessions that have them go on.
    retired_dnns: Vec<(Box<str>, InstanceId)>,
    access: InstanceId,
    core: InstanceId,
    /// Those where packets come by tunnel.
    tunnelled: Vec<InstanceId>,
    /// Our addresses by instance, for tunnel endpoints.
    addresses: Vec<(InstanceId, IpAddr)>,
    control_path: ControlPath,
    /// Those whose ports name them.
    named: Vec<InstanceId>,
    /// What to do with a name that is none of ours; none: it is taken where the side's ports name no network.
    unknown: Option<UnknownNetworkInstance>,
    /// Whether core ports, or DNNs, name the core side's networks.
    core_is_named: bool,
    /// Whether that was not so before a reload: sessions of then may have any name.
    core_was_unnamed: bool,
}

/// A network that a control plane names, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is one of ours, or there is but one that can be meant.
    Yes,
    /// It is none of ours; the side's first is meant.
    Assumed,
    /// It is none of ours.
    No,
}

impl Networks {
    /// As configured.
    pub fn of(config: &Config) -> Self {
        let names = config.instances();
        let number = |name: &str| names.iter().position(|n| n == name).unwrap_or(0) as InstanceId; // a handful
        let first = |role| config.port.iter().find(|port| port.role == role).map_or(0, |port| number(port.instance()));
        let of_port = |port: &crate::config::Port| {
            let instance = number(port.instance());
            let address = |text: &String| parse_prefix(text).map(|(address, _)| (instance, address));
            port.addresses.iter().filter_map(address).collect::<Vec<_>>()
        };
        let addresses: Vec<(InstanceId, IpAddr)> = config.port.iter().flat_map(of_port).collect();
        // The control plane reaches the N4 address through a port, where that is the port's: no socket would get anything.
        let of_address = |n4: &crate::config::N4| addresses.iter().find(|(_, address)| *address == n4.address);
        let control_path = config.n4.as_ref().map_or(ControlPath::None, |n4| match (&n4.cp_port, of_address(n4)) {
            (Some(name), _) => {
                let port = config.port.iter().find(|port| port.name == *name);
                port.map_or(ControlPath::None, |port| ControlPath::Port(number(port.instance())))
            }
            (None, Some((instance, _))) => ControlPath::Port(*instance),
            (None, None) => ControlPath::Socket(n4.address),
        });
        let is_access = |port: &&crate::config::Port| port.role == Role::Access;
        let tunnelled = config.port.iter().filter(is_access).map(|port| number(port.instance())).collect();
        let named = config.port.iter().filter(|port| port.instance.is_some()).map(|port| number(port.instance()));
        let names_core = config.port.iter().any(|port| port.role == Role::Core && port.instance.is_some());
        let core_is_named = names_core || config.n4.as_ref().is_some_and(|n4| !n4.dnn.is_empty());
        let named = named.collect();
        let unknown = config.n4.as_ref().and_then(|n4| n4.unknown_network_instance);
        let dnns = config.n4.iter().flat_map(|n4| &n4.dnn);
        let dnns = dnns.map(|dnn| (dnn.name.as_str().into(), config.instance(dnn.instance.as_deref()))).collect();
        Self {
            unknown,
            core_is_named,
            core_was_unnamed: false,
            dnns,
            retired_dnns: Vec::new(),
            named,
            access: first(Role::Access),
            core: first(Role::Core),
            tunnelled,
            addresses,
            control_path,
            names,
        }
    }

    /// Names as they are from now on. A DNN that is taken out means what it did, in sessions that have it.
    pub fn follow(&mut self, config: &Config) {
        let mut new = Self::of(config);
        // The socket was opened, or not, at start.
        new.control_path = self.control_path;
        new.core_was_unnamed = self.core_was_unnamed || !self.core_is_named;
        let before = self.dnns.drain(..).chain(self.retired_dnns.drain(..));
        new.retired_dnns = before.filter(|(name, _)| new.dnns.iter().all(|(known, _)| known != name)).collect();
        *self = new;
    }

    /// The first DNN of the other's that means another instance here, and which. `assumed`: whether sessions may have a name as
    /// that of the first network of the core side.
    pub(crate) fn moved_dnn(&self, new: &Self, assumed: impl Fn(&str) -> bool) -> Option<(usize, InstanceId)> {
        new.dnns.iter().enumerate().find_map(|(at, (name, instance))| {
            let known = self.dnns.iter().chain(&self.retired_dnns).find(|(known, _)| known == name);
            let here = known.map(|(_, here)| *here).or_else(|| assumed(name).then_some(self.core));
            here.filter(|here| here != instance).map(|here| (at, here))
        })
    }

    /// The name of an instance.
    pub fn name(&self, instance: InstanceId) -> &str {
        self.names.get(usize::from(instance)).map_or("", String::as_str)
    }

    /// All instances.
    pub fn all(&self) -> impl Iterator<Item = InstanceId> {
        0..self.names.len() as InstanceId // a handful
    }

    /// The instance of a name; without a name, or with one that [`knows`](Self::knows) assumes, the first of the side.
    /// Control planes name the data network even where there is but one.
    pub fn find(&self, name: Option<&NetworkInstance>, is_access: bool) -> InstanceId {
        let known = name.and_then(|name| self.number(&name.text, true));
        known.unwrap_or(if is_access { self.access } else { self.core })
    }

    /// The instance of a name or DNN, `retired`: one that was taken out too.
    fn number(&self, name: &str, retired: bool) -> Option<InstanceId> {
        let at = self.names.iter().position(|n| n == name).map(|at| at as InstanceId); // a handful
        let dnns = self.dnns.iter().chain(self.retired_dnns.iter().filter(|_| retired));
        at.or_else(|| dnns.into_iter().find(|(dnn, _)| **dnn == *name).map(|(_, instance)| *instance))
    }

    /// Whether a name means one of our networks: of those that tunnels lead through, or of the core side. DNNs that were
    /// taken out are none for a session that is `new`.
    pub fn knows(&self, name: &NetworkInstance, tunnelled: bool, new: bool) -> Known {
        let at = self.number(&name.text, !new);
        let mut tunnels = self.tunnelled.iter();
        // Data networks' names stand in rules of access as well, where there is but one network for tunnels.
        let one_tunnelled = tunnels.next().is_some_and(|first| tunnels.all(|other| other == first));
        let is_known = match at {
            Some(at) => !tunnelled || one_tunnelled || self.tunnelled.contains(&at),
            None => false,
        };
        let is_unnamed =
            if tunnelled { one_tunnelled && !self.named.contains(&self.access) } else { !self.core_is_named };
        match self.unknown {
            _ if is_known => Known::Yes,
            Some(UnknownNetworkInstance::First) => Known::Assumed,
            None if is_unnamed => Known::Assumed,
            _ if !new && !tunnelled && self.core_was_unnamed => Known::Assumed,
            Some(UnknownNetworkInstance::Refuse) | None => Known::No,
        }
    }

    /// Where tunnels may end that control planes choose. A network is named where its ports name it.
    pub(crate) fn ip_resources(&self) -> Vec<UserPlaneIpResourceInformation> {
        let mut instances = self.tunnelled.clone();
        instances.sort_unstable();
        instances.dedup();
        let resource = |instance: InstanceId| {
            let (ip4, ip6) = self.endpoint(instance);
            let name = self.names.get(usize::from(instance)).filter(|_| self.named.contains(&instance));
            let mut labels = Vec::new();
            if let Some(name) = name {
                pfcp::Element::emit(&NetworkInstance::from(name.as_str()), &mut labels);
            }
            let network_instance = name.map(|_| labels.into());
            UserPlaneIpResourceInformation { ip4, ip6, network_instance, ..Default::default() }
        };
        let all = instances.into_iter().map(resource);
        all.filter(|resource| resource.ip4.is_some() || resource.ip6.is_some()).collect()
    }

    /// Whether tunnels to us may end at an address.
    pub(crate) fn is_endpoint(&self, address: IpAddr) -> bool {
        let of_port = |(instance, ours): &(InstanceId, IpAddr)| *ours == address && self.tunnelled.contains(instance);
        self.addresses.iter().any(of_port) || self.control_path == ControlPath::Socket(address)
    }

    /// The instance that tunnels lead through: the one named, if tunnels end there; else the first of the access side.
    /// N9 and S5/S8 are such networks of their own, or share N3's.
    pub(crate) fn find_tunnelled(&self, name: Option<&NetworkInstance>) -> InstanceId {
        let known = name.and_then(|name| self.number(&name.text, true));
        known.filter(|at| self.tunnelled.contains(at)).unwrap_or(self.access)
    }

    /// Our first addresses in an instance: where tunnels to us end.
    pub fn endpoint(&self, instance: InstanceId) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let mine = self.addresses.iter().filter(|(of, _)| *of == instance).map(|(_, address)| *address);
        let (mut ip4, mut ip6) = (None, None);
        for address in mine {
            match address {
                IpAddr::V4(address) => ip4 = ip4.or(Some(address)),
                IpAddr::V6(address) => ip6 = ip6.or(Some(address)),
            }
        }
        (ip4, ip6)
    }

    /// Where packets between subscribers and control planes' functions go.
    pub(crate) fn control_path(&self) -> ControlPath {
        self.control_path
    }

    /// There is no socket at the N4 address.
    pub fn close_control_path(&mut self) {
        self.control_path = ControlPath::None;
    }

    /// Where tunnels from control planes' functions to us end, of the families asked for; `None`: where others do.
    pub(crate) fn control_endpoint(&self, (ip4, ip6): (bool, bool)) -> Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)> {
        match self.control_path {
            ControlPath::Socket(IpAddr::V4(address)) if ip4 => Some((Some(address), None)),
            ControlPath::Socket(IpAddr::V6(address)) if ip6 => Some((None, Some(address))),
            ControlPath::Port(instance) => Some(self.endpoint(instance)),
            ControlPath::Socket(_) | ControlPath::None => None,
        }
    }

    /// Whether a port speaks from an instance to an address of that family.
    pub(crate) fn can_reach(plan: &Plan, instance: InstanceId, to: IpAddr) -> bool {
        let port = plan.ports.iter().find(|port| port.instance == instance);
        port.is_some_and(|port| if to.is_ipv4() { !port.v4.is_empty() } else { !port.v6.is_empty() })
    }
}
