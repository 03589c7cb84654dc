//! The networks of the examples. `{gw}` and its like in lines stand for the namespace of that end.

/// A pair of virtual interfaces, each by its end and its name.
pub struct Link {
    /// The gateway's.
    pub gateway: (&'static str, &'static str),
    /// The other.
    pub far: (&'static str, &'static str),
    /// The gateway's end is of the host, not of a port.
    pub is_kernel: bool,
}

const fn link(gateway: &'static str, far: (&'static str, &'static str)) -> Link {
    Link { gateway: ("gw", gateway), far, is_kernel: false }
}

/// What an example needs around it.
pub struct Network {
    /// The example's file name, without `.toml`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Ends, a namespace each.
    pub ends: &'static [&'static str],
    /// Queues of each interface.
    pub queues: u16,
    /// Links between them.
    pub links: &'static [Link],
    /// Commands behind that: addresses, VLANs, routes.
    pub setup: &'static [&'static str],
    /// Commands to try, the first of which runs the gateway.
    pub commands: &'static [&'static str],
}

/// gNBs and the data network of a user plane, as `weir gen` is both.
const MOBILE: &[Link] = &[link("eth0", ("far", "gnb0")), link("eth1", ("far", "dn0"))];
const MOBILE_ENDS: &[&str] = &["gw", "far"];

/// In the order of the list.
pub const NETWORKS: &[Network] = &[
    Network {
        name: "upf-packet",
        help: "A user plane between gNBs and a data network; weir gen is both.",
        ends: MOBILE_ENDS,
        queues: 1,
        links: MOBILE,
        setup: &[],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-packet.toml",
            "ip netns exec {far} weir gen examples/gen.toml",
            "weir top",
        ],
    },
    Network {
        name: "upf-xdp",
        help: "A user plane over AF_XDP between gNBs and a data network; weir gen is both.",
        ends: MOBILE_ENDS,
        queues: 2,
        links: MOBILE,
        setup: &[],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-xdp.toml",
            "ip netns exec {far} weir gen examples/gen.toml --gnbs 8",
            "weir top",
        ],
    },
    Network {
        name: "upf-embb",
        help: "A user plane with tiers, filters and idle sessions; weir gen is gNBs and data network.",
        ends: MOBILE_ENDS,
        queues: 1,
        links: MOBILE,
        // The example has the next hop's hardware address.
        setup: &["ip -n {far} link set dn0 address 02:00:00:00:06:fe"],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-embb.toml",
            "ip netns exec {far} weir gen examples/gen.toml --gnbs 8",
            "weir top --view stages",
        ],
    },
    Network {
        name: "upf-fanout",
        help: "A user plane of two workers on one pair of interfaces; weir gen is gNBs and data network.",
        ends: MOBILE_ENDS,
        queues: 1,
        links: MOBILE,
        setup: &[],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-fanout.toml",
            "ip netns exec {far} weir gen examples/gen.toml --gnbs 16",
            "weir top --view workers",
        ],
    },
    Network {
        name: "upf-one-interface",
        help: "A user plane with N3 and N6 on one interface, behind a bridge; weir gen is gNBs and data network.",
        ends: MOBILE_ENDS,
        queues: 1,
        links: &[link("eth0", ("far", "trunk"))],
        setup: &[
            "ip -n {far} link add gnb0 type veth peer name gnb1",
            "ip -n {far} link add dn0 type veth peer name dn1",
            "ip -n {far} link add bridge0 type bridge",
            "ip -n {far} link set trunk master bridge0",
            "ip -n {far} link set gnb1 master bridge0 up",
            "ip -n {far} link set dn1 master bridge0 up",
            "ip -n {far} link set bridge0 addrgenmode none up",
            "ip -n {far} link set gnb0 addrgenmode none up",
            "ip -n {far} link set dn0 addrgenmode none up",
        ],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-one-interface.toml",
            "ip netns exec {far} weir gen examples/gen.toml",
            "weir show ports",
        ],
    },
    Network {
        name: "upf-n4",
        help: "A user plane under a control plane: weir cp establishes its sessions by PFCP.",
        ends: MOBILE_ENDS,
        queues: 1,
        links: &[
            link("eth0", ("far", "gnb0")),
            link("eth1", ("far", "dn0")),
            Link { gateway: ("gw", "eth2"), far: ("far", "smf0"), is_kernel: true },
        ],
        setup: &["ip -n {gw} address add 10.0.4.1/24 dev eth2", "ip -n {far} address add 10.0.4.2/24 dev smf0"],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-n4.toml",
            "ip netns exec {far} weir cp examples/cp.toml",
            "ip netns exec {far} weir gen examples/gen.toml",
            "weir top --view sessions",
        ],
    },
    Network {
        name: "upf-tun",
        help: "A user plane whose data network is the kernel, by a TUN interface; weir cp is its control plane.",
        ends: MOBILE_ENDS,
        queues: 1,
        links: &[link("eth0", ("far", "gnb0"))],
        setup: &[
            "ip -n {gw} tuntap add name ogstun mode tun",
            "ip -n {gw} address add 10.45.0.1/16 dev ogstun",
            "ip -n {gw} address add 2001:db8:cafe::1/48 dev ogstun nodad",
            "ip -n {gw} link set ogstun up",
            "ip -n {far} address add 10.0.3.100/24 dev gnb0",
            "ip -n {far} address add 10.0.3.101/24 dev gnb0",
            "ip -n {far} address add 10.0.3.102/24 dev gnb0",
            "ip -n {far} address add 10.0.3.103/24 dev gnb0",
        ],
        commands: &[
            "ip netns exec {gw} weir run examples/upf-tun.toml",
            "ip netns exec {gw} weir cp examples/cp.toml --upf 127.0.0.7 --ue-first 10.45.0.2 --sessions 10",
            "ip netns exec {gw} ping -c 10 -i 0.2 10.45.0.2",
            "weir top --view sessions",
        ],
    },
    Network {
        name: "bng",
        help: "A broadband gateway between access lines behind two VLAN tags and the core; weir gen is both.",
        ends: &["gw", "far"],
        queues: 1,
        links: &[link("eth1", ("far", "line0")), link("eth2", ("far", "core0"))],
        setup: &[],
        commands: &[
            "ip netns exec {gw} weir run examples/bng.toml",
            "ip netns exec {far} weir gen broadband",
            "weir top --view sessions",
        ],
    },
    Network {
        name: "cmts",
        help: "A cable gateway between an operator's network and a Remote-PHY device; weir gen is both.",
        ends: &["gw", "far"],
        queues: 1,
        links: &[link("eth1", ("far", "net0")), link("eth2", ("far", "rpd0"))],
        setup: &[],
        commands: &[
            "ip netns exec {gw} weir run examples/cmts.toml",
            "ip netns exec {far} weir gen cable examples/cmts.toml",
            "weir top --view sessions",
        ],
    },
];
