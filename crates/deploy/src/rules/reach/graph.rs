//! Networks of a template or module as a graph.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::flows::{End, Flow};
use crate::cidr::Cidr;
use crate::fleet::Fleet;
use crate::module::snake;
use crate::node::Node;
use crate::rules::modules::addresses;
use crate::settings::Case;

/// Where a route leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Internet,
    /// A NAT gateway, by the subnet that it is in.
    Nat(String),
    Interface(String),
    Transit,
    Premises,
}

#[derive(Debug, Default)]
struct Subnet {
    vpc: String,
    cidr: Option<Cidr>,
    table: Option<String>,
}

#[derive(Debug)]
struct Interface {
    subnet: String,
    address: Ipv4Addr,
    forwards: bool,
    groups: Vec<String>,
}

/// What a security group admits: protocol, ports, from where.
#[derive(Debug)]
struct Rule {
    protocol: String,
    ports: Option<(i64, i64)>,
    from: Cidr,
}

/// An attachment of a VPC at the transit gateway, or of the premises.
#[derive(Debug, Default)]
struct Attachment {
    /// None: the premises.
    vpc: Option<String>,
    subnets: Vec<String>,
    table: Option<String>,
}

#[derive(Debug, Default)]
pub struct Graph {
    vpcs: BTreeMap<String, Cidr>,
    subnets: BTreeMap<String, Subnet>,
    interfaces: BTreeMap<String, Interface>,
    routes: BTreeMap<String, Vec<(Cidr, Target)>>,
    nats: BTreeMap<String, String>,
    attachments: BTreeMap<String, Attachment>,
    /// Routes of tables of transit gateways: to attachments.
    transit: BTreeMap<String, Vec<(Cidr, String)>>,
    rules: BTreeMap<String, Vec<Rule>>,
    /// Ways out that are attached to a VPC.
    internet: Vec<String>,
    private: Vec<String>,
    /// Direct Connect is associated with one of the gateways.
    is_joined: bool,
    premises: Option<Cidr>,
    case: Case,
}

/// One resource, of either kind of document.
struct Resource<'a> {
    kind: &'a str,
    name: String,
    body: &'a Node,
}

impl Resource<'_> {
    fn get(&self, property: &str, argument: &str) -> Option<&Node> {
        self.body.get(property).or_else(|| self.body.get(argument))
    }

    /// A value that stands as text.
    fn text(&self, property: &str, argument: &str) -> Option<&str> {
        self.get(property, argument).and_then(Node::text)
    }

    fn cidr(&self, property: &str, argument: &str) -> Option<Cidr> {
        self.text(property, argument)?.parse().ok()
    }

    /// What a property refers to, by its name in the module.
    fn refers(&self, property: &str, argument: &str) -> Option<String> {
        target(self.get(property, argument)?)
    }
}

/// What a value refers to: `Ref`, `Fn::GetAtt`, or an expression.
fn target(value: &Node) -> Option<String> {
    let of_template = value.get("Ref").or_else(|| value.at(&["Fn::GetAtt", "0"])).and_then(Node::text).map(snake);
    let of_module = || {
        let address = addresses(value.text()?).into_iter().next()?;
        address.rsplit('.').next().map(str::to_owned)
    };
    of_template.or_else(of_module)
}

fn targets(value: Option<&Node>) -> Vec<String> {
    value.map(Node::items).unwrap_or_default().iter().filter_map(target).collect()
}

/// Whether a condition holds, with the parameters that the case asks for.
fn holds(condition: Option<&str>, case: Case) -> bool {
    match condition.map(|it| it.trim_start_matches("${local.").split(' ').next().unwrap_or_default()) {
        Some("ByDirectConnect" | "by_direct_connect") => case == Case::Hybrid,
        Some("ByLocalGateway" | "by_local_gateway" | "OnOutpost" | "on_outpost") => case == Case::Outpost,
        _ => true,
    }
}

/// Kinds of a template that the graph is made of, as a module has them; those that are there in the case.
fn resources(document: &Node, case: Case) -> Vec<Resource<'_>> {
    let mut all = Vec::new();
    let is_there = |resource: &Node, key: &str| holds(resource.get(key).and_then(Node::text), case);
    for (name, resource) in document.get("Resources").map(Node::entries).unwrap_or_default() {
        if !is_there(resource, "Condition") {
            continue;
        }
        if let (Some(kind), Some(body)) = (crate::module::kind_of(resource), resource.get("Properties")) {
            all.push(Resource { kind, name: snake(name), body });
        }
    }
    for section in ["resource", "data"] {
        for (kind, named) in document.get(section).map(Node::entries).unwrap_or_default() {
            let of = |(name, body)| Resource { kind: kind.as_str(), name: String::clone(name), body };
            let named = named.entries().iter().filter(|(_, body)| is_there(body, "count"));
            all.extend(named.map(|(name, body)| of((name, body))));
        }
    }
    all
}

impl Graph {
    /// The graph of a template or a module.
    pub fn of(document: &Node, fleet: &Fleet) -> Self {
        let all = resources(document, fleet.settings.aws.case);
        let (case, premises) = (fleet.settings.aws.case, Some(fleet.settings.aws.on_premise));
        let mut graph = Self { premises, case, ..Self::default() };
        // Places first, then what lies between them.
        for it in &all {
            graph.place(it);
        }
        for it in &all {
            graph.between(it);
        }
        for it in &all {
            graph.propagate(it);
        }
        graph
    }

    fn place(&mut self, it: &Resource) {
        let name = it.name.clone();
        match it.kind {
            "aws_vpc" => self.vpcs.extend(it.cidr("CidrBlock", "cidr_block").map(|cidr| (name, cidr))),
            "aws_subnet" => {
                let vpc = it.refers("VpcId", "vpc_id").unwrap_or_default();
                self.subnets.insert(name, Subnet { vpc, cidr: it.cidr("CidrBlock", "cidr_block"), table: None });
            }
            "aws_network_interface" => {
                let listed = it.body.at(&["private_ips", "0"]).and_then(Node::text);
                let address = it.text("PrivateIpAddress", "").or(listed).and_then(|text| text.parse().ok());
                let (Some(address), Some(subnet)) = (address, it.refers("SubnetId", "subnet_id")) else { return };
                let forwards = it.get("SourceDestCheck", "source_dest_check") == Some(&Node::Bool(false));
                let groups = targets(it.get("GroupSet", "security_groups"));
                self.interfaces.insert(name, Interface { subnet, address, forwards, groups });
            }
            "aws_nat_gateway" => {
                self.nats.extend(it.refers("SubnetId", "subnet_id").map(|subnet| (name, subnet)));
            }
            "aws_internet_gateway_attachment" => self.internet.extend(it.refers("VpcId", "vpc_id")),
            "aws_dx_gateway_association" => self.is_joined = true,
            "aws_vpn_gateway_attachment" | "aws_ec2_local_gateway_route_table_vpc_association" => {
                self.private.extend(it.refers("VpcId", "vpc_id"))
            }
            "aws_ec2_transit_gateway_vpc_attachment" => {
                let vpc = it.refers("VpcId", "vpc_id");
                let subnets = targets(it.get("SubnetIds", "subnet_ids"));
                self.attachments.insert(name, Attachment { vpc, subnets, table: None });
            }
            "aws_ec2_transit_gateway_dx_gateway_attachment" | "data.aws_ec2_transit_gateway_dx_gateway_attachment" => {
                self.attachments.insert(name, Attachment::default());
            }
            "aws_security_group" => {
                let rules = it.get("SecurityGroupIngress", "").map(Node::items).unwrap_or_default();
                self.rules.entry(name).or_default().extend(rules.iter().filter_map(|rule| admitted(rule, "CidrIp")));
            }
            _ => {}
        }
    }

    fn between(&mut self, it: &Resource) {
        match it.kind {
            "aws_route_table_association" => {
                let (subnet, table) = (it.refers("SubnetId", "subnet_id"), it.refers("RouteTableId", "route_table_id"));
                if let Some(subnet) = subnet.and_then(|subnet| self.subnets.get_mut(&subnet)) {
                    subnet.table = table;
                }
            }
            "aws_route" => {
                let table = it.refers("RouteTableId", "route_table_id");
                let to = it.cidr("DestinationCidrBlock", "destination_cidr_block");
                if let (Some(table), Some(to), Some(target)) = (table, to, self.target(it)) {
                    self.routes.entry(table).or_default().push((to, target));
                }
            }
            "aws_vpn_gateway_route_propagation" => {
                let listed = targets(it.get("RouteTableIds", ""));
                for table in listed.into_iter().chain(it.refers("", "route_table_id")) {
                    self.routes.entry(table).or_default().extend(self.premises.map(|to| (to, Target::Premises)));
                }
            }
            "aws_ec2_transit_gateway_route_table_association" => {
                let attachment = it.refers("TransitGatewayAttachmentId", "transit_gateway_attachment_id");
                let table = it.refers("TransitGatewayRouteTableId", "transit_gateway_route_table_id");
                if let Some(attachment) = attachment.and_then(|it| self.attachments.get_mut(&it)) {
                    attachment.table = table;
                }
            }
            "aws_ec2_transit_gateway_route" => {
                let to = it.cidr("DestinationCidrBlock", "destination_cidr_block");
                self.in_transit(it, to);
            }
            "aws_vpc_security_group_ingress_rule" => {
                if let (Some(group), Some(rule)) = (it.refers("", "security_group_id"), admitted(it.body, "cidr_ipv4"))
                {
                    self.rules.entry(group).or_default().push(rule);
                }
            }
            _ => {}
        }
    }

    fn propagate(&mut self, it: &Resource) {
        if it.kind != "aws_ec2_transit_gateway_route_table_propagation" {
            return;
        }
        let name = it.refers("TransitGatewayAttachmentId", "transit_gateway_attachment_id").unwrap_or_default();
        let Some(attachment) = self.attachments.get(&name) else { return };
        let to = attachment.vpc.as_ref().map_or(self.premises, |vpc| self.vpcs.get(vpc).copied());
        self.in_transit(it, to);
    }

    /// A route of a transit gateway's table.
    fn in_transit(&mut self, it: &Resource, to: Option<Cidr>) {
        let table = it.refers("TransitGatewayRouteTableId", "transit_gateway_route_table_id");
        let attachment = it.refers("TransitGatewayAttachmentId", "transit_gateway_attachment_id");
        if let (Some(table), Some(to), Some(attachment)) = (table, to, attachment) {
            self.transit.entry(table).or_default().push((to, attachment));
        }
    }

    fn target(&self, it: &Resource) -> Option<Target> {
        if let Some(interface) = it.refers("NetworkInterfaceId", "network_interface_id") {
            return Some(Target::Interface(interface));
        }
        if let Some(nat) = it.refers("NatGatewayId", "nat_gateway_id") {
            return self.nats.get(&nat).cloned().map(Target::Nat);
        }
        let is = |property: &str, argument: &str| it.get(property, argument).is_some();
        if is("TransitGatewayId", "transit_gateway_id") {
            return Some(Target::Transit);
        }
        if is("LocalGatewayId", "local_gateway_id") {
            return Some(Target::Premises);
        }
        is("GatewayId", "gateway_id").then_some(Target::Internet)
    }

    /// Whether a flow arrives.
    ///
    /// # Errors
    /// Where it does not go on, and why.
    pub fn walk(&self, flow: &Flow) -> Result<(), String> {
        let arrived = match &flow.from {
            End::Subnet(subnet) => self.leave_subnet(subnet, flow.to, 0)?,
            End::Premises => self.leave_premises(flow.to)?,
            End::Internet => self.leave_internet(flow.to)?,
        };
        if arrived != flow.at {
            return Err(format!("it arrives at {arrived:?}, not at {:?}", flow.at));
        }
        let Arrived::Interface(name) = &arrived else { return Ok(()) };
        let Some(interface) = self.interfaces.get(name) else { return Err(format!("there is no interface {name}")) };
        if interface.address != flow.to && !interface.forwards {
            return Err(format!("{name} drops what is not its own"));
        }
        let admits = |group: &String| {
            let rules = self.rules.get(group).map(Vec::as_slice).unwrap_or_default();
            rules.iter().any(|rule| flow.passes(&rule.protocol, rule.ports, rule.from))
        };
        if interface.groups.iter().any(admits) { Ok(()) } else { Err(format!("no security group of {name} admits it")) }
    }

    /// From a subnet, by its routes; `hops` ends loops.
    fn leave_subnet(&self, name: &str, to: Ipv4Addr, hops: u32) -> Result<Arrived, String> {
        if hops > 8 {
            return Err("a loop".to_owned());
        }
        let subnet = self.subnets.get(name).ok_or_else(|| format!("there is no subnet {name}"))?;
        let table = subnet.table.as_ref().ok_or_else(|| format!("{name} has no route table"))?;
        let routes = self.routes.get(table).map(Vec::as_slice).unwrap_or_default();
        let route = routes.iter().filter(|(network, _)| network.has(to)).max_by_key(|(network, _)| network.prefix());
        let local = self.vpcs.get(&subnet.vpc).filter(|vpc| vpc.has(to)).map_or(0, |vpc| vpc.prefix() + 1);
        let Some((_, target)) = route.filter(|(network, _)| network.prefix() + 1 > local) else {
            return if local > 0 {
                self.inside(&subnet.vpc, to)
            } else {
                Err(format!("no route of {name} leads to it"))
            };
        };
        match target {
            Target::Interface(interface) => Ok(Arrived::Interface(interface.clone())),
            Target::Premises if self.private.contains(&subnet.vpc) => Ok(Arrived::Premises),
            Target::Premises => Err(format!("nothing joins {} and the premises", subnet.vpc)),
            Target::Nat(public) => match self.leave_subnet(public, to, hops + 1)? {
                Arrived::Internet => Ok(Arrived::Internet),
                _ => Err(format!("a NAT gateway of {name} would translate it")),
            },
            Target::Internet if self.internet.contains(&subnet.vpc) => Ok(Arrived::Internet),
            Target::Internet => Err(format!("the internet gateway is not attached to {}", subnet.vpc)),
            Target::Transit => self.through_transit(&subnet.vpc, to, hops),
        }
    }

    /// To an interface of a VPC.
    fn inside(&self, vpc: &str, to: Ipv4Addr) -> Result<Arrived, String> {
        let here = |interface: &Interface| self.subnets.get(&interface.subnet).filter(|subnet| subnet.vpc == vpc);
        let interface = self.interfaces.iter().find(|(_, it)| it.address == to && here(it).is_some());
        if let Some((name, _)) = interface {
            return Ok(Arrived::Interface(name.clone()));
        }
        let subnet = self.subnets.iter().find(|(_, it)| it.vpc == vpc && it.cidr.is_some_and(|cidr| cidr.has(to)));
        subnet.map(|(name, _)| Arrived::Subnet(name.clone())).ok_or_else(|| format!("{vpc} has no subnet with it"))
    }

    fn through_transit(&self, vpc: &str, to: Ipv4Addr, hops: u32) -> Result<Arrived, String> {
        let mine = self.attachments.values().find(|it| it.vpc.as_deref() == Some(vpc));
        let mine = mine.ok_or_else(|| format!("{vpc} is not attached to the transit gateway"))?;
        self.out_of_transit(mine, to, hops)
    }

    fn out_of_transit(&self, from: &Attachment, to: Ipv4Addr, hops: u32) -> Result<Arrived, String> {
        let table = from.table.as_ref().ok_or("an attachment is associated with no route table")?;
        let routes = self.transit.get(table).map(Vec::as_slice).unwrap_or_default();
        let route = routes.iter().filter(|(network, _)| network.has(to)).max_by_key(|(network, _)| network.prefix());
        let (_, next) = route.ok_or_else(|| format!("no route of {table} leads to it"))?;
        let next = self.attachments.get(next).ok_or_else(|| format!("there is no attachment {next}"))?;
        // It comes in by any of the subnets that the attachment is in, one in each zone.
        match &next.vpc {
            None => Ok(Arrived::Premises),
            Some(vpc) => self.alike(next.subnets.iter(), to, hops, &format!("the attachment of {vpc} is in no subnet")),
        }
    }

    /// From the premises: by Direct Connect at the transit gateway, by a private gateway, by an Outpost's local gateway.
    fn leave_premises(&self, to: Ipv4Addr) -> Result<Arrived, String> {
        if self.case == Case::Hybrid && !self.is_joined {
            return Err("Direct Connect is associated with no gateway".to_owned());
        }
        if let Some(attachment) = self.attachments.values().find(|it| it.vpc.is_none()) {
            return self.out_of_transit(attachment, to, 0);
        }
        self.inside(self.private.first().ok_or("nothing leads in from the premises")?, to)
    }

    /// From the internet, as answers that a NAT gateway has translated back.
    fn leave_internet(&self, to: Ipv4Addr) -> Result<Arrived, String> {
        self.alike(self.nats.values(), to, 0, "there is no NAT gateway")
    }

    /// From any of some subnets, to the same place.
    fn alike<'a>(
        &self,
        subnets: impl Iterator<Item = &'a String>,
        to: Ipv4Addr,
        hops: u32,
        none: &str,
    ) -> Result<Arrived, String> {
        let mut first = Err(none.to_owned());
        for subnet in subnets {
            let arrived = self.leave_subnet(subnet, to, hops + 1)?;
            if first.as_ref().is_ok_and(|first| *first != arrived) {
                return Err(format!("from {subnet} it arrives at {arrived:?}"));
            }
            first = Ok(arrived);
        }
        first
    }
}

/// A rule of a security group.
fn admitted(rule: &Node, from: &str) -> Option<Rule> {
    let get = |one: &str, other: &str| rule.get(one).or_else(|| rule.get(other));
    let port = |one: &str, other: &str| get(one, other).and_then(Node::int);
    Some(Rule {
        protocol: get("IpProtocol", "ip_protocol").and_then(Node::text)?.to_owned(),
        ports: port("FromPort", "from_port").zip(port("ToPort", "to_port")),
        from: rule.get(from).and_then(Node::text)?.parse().ok()?,
    })
}

/// Where a packet ends up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    Interface(String),
    /// An address of a subnet that no interface of the document has: an instance's.
    Subnet(String),
    Premises,
    Internet,
}
