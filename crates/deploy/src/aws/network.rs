//! VPCs, subnets, routes, and the sets of interfaces that instances take.

use super::direct_connect;
use super::{Kind, Resources, attribute, in_zone, nothing, reference, sub, subnet, tags, when};
use crate::cidr::Cidr;
use crate::fleet::{FIRST_ADDRESS, Fleet, Gateway};
use crate::node::Node;
use crate::settings::Case;
use crate::{list, map};

/// Whether all is in one VPC. A cable gateway needs no other: its subscribers' addresses stay behind it.
pub(super) fn is_single(fleet: &Fleet) -> bool {
    fleet.settings.aws.single_vpc || fleet.gateway == Gateway::Cmts
}

/// Whether there is a network for what is on the access side: a generator, simulated devices, ends of tunnels.
pub(super) fn has_generator(fleet: &Fleet) -> bool {
    let Some(network) = super::generator(fleet) else { return false };
    match fleet.gateway {
        Gateway::Upf => true,
        Gateway::Cmts => network.contains(fleet.settings.cmts.devices),
        Gateway::Bng => fleet.settings.bng.tunnels.iter().any(|end| network.has(*end)),
    }
}

/// Networks beside the gateways': of the access side, and of servers.
fn outer(fleet: &Fleet) -> Vec<&'static str> {
    let mut all = Vec::new();
    if has_generator(fleet) {
        all.push("Generator");
    }
    if fleet.gateway != Gateway::Cmts {
        all.push("Responder");
    }
    all
}

fn vpc_of(cidr: Cidr, name: &str) -> Node {
    map! {
        "CidrBlock" => cidr.to_string(), "EnableDnsSupport" => true, "EnableDnsHostnames" => true, "Tags" => tags(name),
    }
}

/// The zone of a subnet: an Outpost's own, where there is one.
pub(super) fn zone_of(fleet: &Fleet, zone: u32) -> Node {
    let letter = fleet.settings.aws.zones.get(zone as usize).map_or("a", String::as_str);
    sub(format!("${{AWS::Region}}{letter}"))
}

/// A subnet and its route table.
fn add_subnet(fleet: &Fleet, resources: &mut Resources, vpc: &str, name: &str, zone: u32, cidr: Cidr) {
    let mut properties = map! {
        "VpcId" => reference(vpc),
        "AvailabilityZone" => zone_of(fleet, zone),
        "CidrBlock" => cidr.to_string(),
        "Tags" => tags(&name.to_ascii_lowercase()),
    };
    // NAT gateways and attachments of transit gateways are the region's: an Outpost has none.
    if ["Admin", "Access", "Core"].iter().any(|kind| name.starts_with(kind)) {
        properties.put("OutpostArn", when("OnOutpost", reference("OutpostArn"), nothing()));
    }
    resources.add(name, "AWS::EC2::Subnet", properties);
    let table = format!("{name}Routes");
    resources.add(
        &table,
        "AWS::EC2::RouteTable",
        map! { "VpcId" => reference(vpc), "Tags" => tags(&table.to_ascii_lowercase()) },
    );
    let both = map! { "SubnetId" => reference(name), "RouteTableId" => reference(&table) };
    resources.add(format!("{name}Table"), "AWS::EC2::SubnetRouteTableAssociation", both);
}

/// A route of a subnet's table.
fn route(subnet: &str, to: impl Into<String>, by: &str, target: Node) -> Node {
    map! { "RouteTableId" => reference(format!("{subnet}Routes")), "DestinationCidrBlock" => to.into(), by => target }
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Public, "Public"),
    (Kind::Admin, "Admin"),
    (Kind::Access, "Access"),
    (Kind::Core, "Core"),
    (Kind::Transit, "Transit"),
    (Kind::Control, "Control"),
];

/// The gateways' VPC, and the other two or their subnets.
pub fn vpc(fleet: &Fleet, resources: &mut Resources) {
    let aws = &fleet.settings.aws;
    resources.add("Vpc", "AWS::EC2::VPC", vpc_of(aws.vpc, "gateways"));
    for zone in 0..fleet.zones {
        for (kind, name) in KINDS {
            let is_needed = match kind {
                Kind::Transit => !is_single(fleet),
                Kind::Control => aws.case == Case::Outpost,
                _ => true,
            };
            if let Some(cidr) = subnet(fleet, zone, kind).filter(|_| is_needed) {
                add_subnet(fleet, resources, "Vpc", &in_zone(name, fleet, zone), zone, cidr);
            }
        }
    }
    for name in outer(fleet) {
        let cidr = if name == "Generator" { super::generator(fleet) } else { super::responder(fleet) };
        let Some(cidr) = cidr else { continue };
        if is_single(fleet) {
            add_subnet(fleet, resources, "Vpc", name, 0, cidr);
            continue;
        }
        let vpc = format!("{name}Vpc");
        let whole = if name == "Generator" { aws.generator_vpc } else { aws.responder_vpc };
        resources.add(&vpc, "AWS::EC2::VPC", vpc_of(whole, &name.to_ascii_lowercase()));
        add_subnet(fleet, resources, &vpc, name, 0, cidr);
    }
}

/// Ways out: an internet gateway, a NAT gateway for each zone, Direct Connect, an Outpost's local gateway.
pub fn outside(fleet: &Fleet, resources: &mut Resources) {
    let aws = &fleet.settings.aws;
    resources.add("Internet", "AWS::EC2::InternetGateway", map! { "Tags" => tags("internet") });
    let both = map! { "VpcId" => reference("Vpc"), "InternetGatewayId" => reference("Internet") };
    resources.add("InternetAttachment", "AWS::EC2::VPCGatewayAttachment", both);
    let local = map! {
        "VpcId" => reference("Vpc"), "LocalGatewayRouteTableId" => reference("LocalGatewayRouteTableId"), "Tags" => tags("local"),
    };
    resources.add_if("ByLocalGateway", "LocalGateway", "AWS::EC2::LocalGatewayRouteTableVPCAssociation", local);
    for zone in 0..fleet.zones {
        let name = |what: &str| in_zone(what, fleet, zone);
        let public = name("Public");
        let to_internet = route(&public, "0.0.0.0/0", "GatewayId", reference("Internet"));
        resources.add(format!("{public}Internet"), "AWS::EC2::Route", to_internet);
        resources.after("InternetAttachment");
        resources.add(name("NatAddress"), "AWS::EC2::EIP", map! { "Domain" => "vpc", "Tags" => tags("nat") });
        resources.after("InternetAttachment");
        let nat = map! {
            "SubnetId" => reference(&public),
            "AllocationId" => attribute(&name("NatAddress"), "AllocationId"),
            "Tags" => tags("nat"),
        };
        resources.add(name("Nat"), "AWS::EC2::NatGateway", nat);
        // Administration and subscribers go out by the NAT gateway; answers to subscribers come back by its subnet's routes.
        let mut inside = vec![name("Admin"), name("Core")];
        if aws.case == Case::Outpost {
            inside.push(name("Control"));
        }
        for inner in inside {
            let out = route(&inner, "0.0.0.0/0", "NatGatewayId", reference(name("Nat")));
            resources.add(format!("{inner}Internet"), "AWS::EC2::Route", out);
        }
        for inner in [name("Access"), name("Core"), name("Admin")] {
            let home = route(&inner, aws.on_premise.to_string(), "LocalGatewayId", reference("LocalGatewayId"));
            resources.add_if("ByLocalGateway", format!("{inner}Local"), "AWS::EC2::Route", home);
            resources.after("LocalGateway");
        }
    }
    if is_single(fleet) {
        let zone = in_zone("Nat", fleet, 0);
        for inner in outer(fleet) {
            let out = route(inner, "0.0.0.0/0", "NatGatewayId", reference(&zone));
            resources.add(format!("{inner}Internet"), "AWS::EC2::Route", out);
        }
    }
}

/// Direct Connect for one VPC alone: by a private gateway of its own, which tells the routes it learns.
pub fn private(fleet: &Fleet, resources: &mut Resources) {
    const BY: &str = "ByDirectConnect";
    resources.add_if(BY, "Private", "AWS::EC2::VPNGateway", map! { "Type" => "ipsec.1", "Tags" => tags("private") });
    let both = map! { "VpcId" => reference("Vpc"), "VpnGatewayId" => reference("Private") };
    resources.add_if(BY, "PrivateAttachment", "AWS::EC2::VPCGatewayAttachment", both);
    let home = map! {
        "DirectConnectGatewayId" => reference("DirectConnectGatewayId"),
        "AssociatedGatewayId" => reference("Private"),
        "AllowedPrefixesToDirectConnectGateway" => list![fleet.settings.aws.vpc.to_string()],
    };
    resources.add_if(BY, "DirectConnect", "AWS::DirectConnect::DirectConnectGatewayAssociation", home);
    let inner = |zone| ["Access", "Admin", "Core"].map(|name| in_zone(name, fleet, zone));
    let tables = (0..fleet.zones).flat_map(inner).map(|name| reference(format!("{name}Routes"))).collect::<Vec<_>>();
    let learnt = map! { "RouteTableIds" => tables, "VpnGatewayId" => reference("Private") };
    resources.add_if(BY, "PrivateRoutes", "AWS::EC2::VPNGatewayRoutePropagation", learnt);
    resources.after("PrivateAttachment");
}

/// The transit gateway between the VPCs, and towards Direct Connect.
pub fn transit(fleet: &Fleet, resources: &mut Resources) {
    let properties = map! {
        "Description" => "Generator, gateways and responder",
        "DefaultRouteTableAssociation" => "disable",
        "DefaultRouteTablePropagation" => "disable",
        "AutoAcceptSharedAttachments" => "disable",
        "Tags" => tags("transit"),
    };
    resources.add("TransitGateway", "AWS::EC2::TransitGateway", properties);
    let zones: Vec<Node> = (0..fleet.zones).map(|zone| reference(in_zone("Transit", fleet, zone))).collect();
    let mut attached = vec![("Gateways", "Vpc".to_owned(), Node::List(zones))];
    attached.extend(outer(fleet).into_iter().map(|name| (name, format!("{name}Vpc"), list![reference(name)])));
    for (name, vpc, subnets) in &attached {
        let properties = map! {
            "TransitGatewayId" => reference("TransitGateway"), "VpcId" => reference(vpc), "SubnetIds" => subnets.clone(),
            "Tags" => tags(&name.to_ascii_lowercase()),
        };
        resources.add(format!("{name}Transit"), "AWS::EC2::TransitGatewayAttachment", properties);
    }
    // Subscribers are behind the gateways; that no VPC propagates.
    let table = map! { "TransitGatewayId" => reference("TransitGateway"), "Tags" => tags("transit-routes") };
    resources.add("TransitRoutes", "AWS::EC2::TransitGatewayRouteTable", table);
    let subscribers = map! {
        "TransitGatewayRouteTableId" => reference("TransitRoutes"),
        "TransitGatewayAttachmentId" => reference("GatewaysTransit"),
        "DestinationCidrBlock" => fleet.settings.ue_pool.to_string(),
    };
    resources.add("SubscribersBehindGateways", "AWS::EC2::TransitGatewayRoute", subscribers);
    // All look up this table, and it knows each one's addresses.
    for (name, _, _) in &attached {
        let both = map! {
            "TransitGatewayRouteTableId" => reference("TransitRoutes"),
            "TransitGatewayAttachmentId" => reference(format!("{name}Transit")),
        };
        resources.add(format!("{name}Asks"), "AWS::EC2::TransitGatewayRouteTableAssociation", both.clone());
        resources.add(format!("{name}Known"), "AWS::EC2::TransitGatewayRouteTablePropagation", both);
    }
    let home = map! {
        "DirectConnectGatewayId" => reference("DirectConnectGatewayId"),
        "AssociatedGatewayId" => reference("TransitGateway"),
        // The premises reach gateways and, through them, subscribers.
        "AllowedPrefixesToDirectConnectGateway" =>
            list![fleet.settings.aws.vpc.to_string(), fleet.settings.ue_pool.to_string()],
    };
    resources.add_if("ByDirectConnect", "DirectConnect", "AWS::DirectConnect::DirectConnectGatewayAssociation", home);
    direct_connect::attachment(resources);
    to_transit(fleet, resources);
}

/// Routes of subnets towards the transit gateway.
fn to_transit(fleet: &Fleet, resources: &mut Resources) {
    let aws = &fleet.settings.aws;
    let mut lead = |subnet: String, name: &str, to: Cidr, condition: Option<&str>| {
        let route = route(&subnet, to.to_string(), "TransitGatewayId", reference("TransitGateway"));
        let name = format!("{subnet}{name}");
        match condition {
            Some(condition) => resources.add_if(condition, name, "AWS::EC2::Route", route),
            None => resources.add(name, "AWS::EC2::Route", route),
        }
        resources.after("GatewaysTransit");
    };
    for zone in 0..fleet.zones {
        if has_generator(fleet) {
            lead(in_zone("Access", fleet, zone), "ToGenerator", aws.generator_vpc, None);
            if fleet.gateway == Gateway::Upf {
                lead(in_zone("Admin", fleet, zone), "ToGenerator", aws.generator_vpc, None);
            }
        }
        lead(in_zone("Core", fleet, zone), "ToResponder", aws.responder_vpc, None);
        for subnet in ["Access", "Admin", "Core"] {
            lead(in_zone(subnet, fleet, zone), "ToPremises", aws.on_premise, Some("ByDirectConnect"));
        }
    }
    if has_generator(fleet) {
        lead("Generator".to_owned(), "ToGateways", aws.vpc, None);
    }
    lead("Responder".to_owned(), "ToGateways", aws.vpc, None);
    lead("Responder".to_owned(), "ToSubscribers", fleet.settings.ue_pool, None);
}

/// For each gateway of each machine there may be: an interface on either side, and the route to its subscribers.
pub fn sets(fleet: &Fleet, resources: &mut Resources) {
    let security = |about: &str, protocol: &str| {
        map! {
            "GroupDescription" => about,
            "VpcId" => reference("Vpc"),
            "SecurityGroupIngress" => list![map! { "IpProtocol" => protocol, "CidrIp" => "0.0.0.0/0", "Description" => about }],
        }
    };
    resources.add("Forwarded", "AWS::EC2::SecurityGroup", security("What gateways forward is theirs to judge", "-1"));
    if fleet.gateway == Gateway::Bng {
        tunnels(fleet, resources);
    }
    let tables: Vec<String> = (0..fleet.zones)
        .flat_map(|zone| ["Transit", "Public"].map(|name| in_zone(name, fleet, zone)))
        .chain(outer(fleet).into_iter().filter(|name| *name == "Responder").map(str::to_owned))
        .filter(|name| if is_single(fleet) { !name.starts_with("Transit") } else { name != "Responder" })
        .collect();
    for machine in 0..fleet.most_machines() {
        for gateway in 0..fleet.gateways() {
            let ordinal = fleet.ordinal(machine, gateway);
            if ordinal >= fleet.ordinals() {
                continue;
            }
            for (role, kind) in [("access", Kind::Access), ("core", Kind::Core)] {
                if let Some(properties) = interface(fleet, machine, gateway, role, kind) {
                    resources.add(name_of(kind, ordinal), "AWS::EC2::NetworkInterface", properties);
                }
            }
            let Some(pool) = fleet.pool(ordinal) else { continue };
            for table in &tables {
                let to = reference(name_of(Kind::Core, ordinal));
                let way = route(table, pool.to_string(), "NetworkInterfaceId", to);
                resources.add(format!("{table}Pool{ordinal}"), "AWS::EC2::Route", way);
            }
        }
    }
}

fn name_of(kind: Kind, ordinal: u32) -> String {
    format!("{}{ordinal}", if kind == Kind::Access { "AccessInterface" } else { "CoreInterface" })
}

/// An interface of a set. Its tags say all that an instance needs to know.
fn interface(fleet: &Fleet, machine: u32, gateway: u32, role: &str, kind: Kind) -> Option<Node> {
    let (zone, ordinal) = (fleet.zone(machine), fleet.ordinal(machine, gateway));
    let network = subnet(fleet, zone, kind)?;
    let tag = |key: &str, value: Node| map! { "Key" => format!("weir-{key}"), "Value" => value };
    // A user plane adds its ordinal itself.
    let first = match fleet.fixed() {
        None => network.address(FIRST_ADDRESS.into())?,
        Some(_) => fleet.address(network, ordinal)?,
    };
    let mut tags = vec![
        tag("stack", reference("AWS::StackName")),
        tag("machine", machine.to_string().into()),
        tag("gateway", gateway.to_string().into()),
        tag("role", role.into()),
        tag("first", format!("{first}/{}", network.prefix()).into()),
        tag("router", network.address(1)?.to_string().into()),
        tag("n4", fleet.address(subnet(fleet, zone, Kind::Admin)?, ordinal)?.to_string().into()),
    ];
    let bng = &fleet.settings.bng;
    let is_tunnel = fleet.gateway == Gateway::Bng && kind == Kind::Access;
    if is_tunnel {
        let end = bng.tunnels.get(ordinal as usize % bng.tunnels.len().max(1))?;
        tags.extend([tag("tunnel", end.to_string().into()), tag("vni", (bng.first_vni + ordinal).to_string().into())]);
    }
    Some(map! {
        "Description" => format!("{role} of gateway {gateway} of machine {machine}"),
        "SubnetId" => reference(in_zone(if kind == Kind::Access { "Access" } else { "Core" }, fleet, zone)),
        "PrivateIpAddress" => fleet.address(network, ordinal)?.to_string(),
        "SourceDestCheck" => false,
        "GroupSet" => list![reference(if is_tunnel { "Tunnels" } else { "Forwarded" })],
        "Tags" => tags,
    })
}

/// The tunnels that lines come by end in the instance's own network stack: only their ends may send there.
fn tunnels(fleet: &Fleet, resources: &mut Resources) {
    let mut ends = fleet.settings.bng.tunnels.clone();
    ends.sort_unstable();
    ends.dedup();
    let from = |end: &std::net::Ipv4Addr| {
        map! {
            "IpProtocol" => "udp", "FromPort" => 4789_i64, "ToPort" => 4789_i64, "CidrIp" => format!("{end}/32"),
            "Description" => "VXLAN",
        }
    };
    let group = map! {
        "GroupDescription" => "Tunnels that lines come by",
        "VpcId" => reference("Vpc"),
        "SecurityGroupIngress" => ends.iter().map(from).collect::<Vec<_>>(),
    };
    resources.add("Tunnels", "AWS::EC2::SecurityGroup", group);
}

/// Every gateway's address in a kind of subnet.
pub(crate) fn addresses(fleet: &Fleet, kind: Kind) -> Vec<String> {
    let of = |ordinal: u32| {
        let zone = fleet.zone(ordinal / fleet.gateways().max(1));
        subnet(fleet, zone, kind).and_then(|network| fleet.address(network, ordinal))
    };
    (0..fleet.ordinals()).filter_map(of).map(|address| address.to_string()).collect()
}

/// Where control planes find each gateway.
pub(crate) fn pfcp_addresses(fleet: &Fleet) -> Vec<String> {
    addresses(fleet, Kind::Admin)
}
