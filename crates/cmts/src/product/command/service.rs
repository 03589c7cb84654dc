//! `weir cmts service-flow` and `weir cmts classifier`.

use clap::{Args, Subcommand};
use toml::{Table, Value};

use crate::product::protocol::CableRequest;

/// `weir cmts service-flow`.
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Give a modem another service flow.
    Add(FlowArgs),
    /// Change one; what is left out stays, what is "none" goes. What waits in it stays.
    Change(FlowArgs),
    /// Take one from a modem, with what waits in it and the classifiers that choose it.
    Del {
        /// The modem's hardware address.
        modem: String,
        /// The service flow's name.
        flow: String,
    },
}

/// A service flow as it is to be.
#[derive(Debug, Args)]
pub struct FlowArgs {
    /// The modem's hardware address.
    modem: String,
    /// The service flow's name.
    flow: String,
    /// Maximum sustained rate, such as "100 Mbit/s".
    #[arg(long)]
    rate: Option<String>,
    /// Peak rate.
    #[arg(long)]
    peak: Option<String>,
    /// Minimum reserved rate.
    #[arg(long)]
    reserved: Option<String>,
    /// Traffic priority, 0 to 7.
    #[arg(long)]
    priority: Option<u8>,
    /// Maximum traffic burst, in bytes.
    #[arg(long)]
    burst: Option<u32>,
    /// Bytes its queue holds at most.
    #[arg(long)]
    buffer: Option<u32>,
    /// The bonding group's name; left out of a new one: the primary's.
    #[arg(long)]
    group: Option<String>,
    /// Active queue management.
    #[arg(long)]
    aqm: Option<bool>,
}

/// `weir cmts classifier`.
#[derive(Debug, Subcommand)]
pub enum ClassifierCommand {
    /// Give a modem a classifier. From then on its classifiers are its own, not its profile's.
    Add(Box<RuleArgs>),
    /// Take one from a modem.
    Del {
        /// The modem's hardware address.
        modem: String,
        /// The classifier's identifier.
        id: u16,
    },
    /// A modem's classifiers.
    Show {
        /// The modem's hardware address.
        modem: String,
    },
}

/// A classifier; what is left out matches everything.
#[derive(Debug, Args)]
pub struct RuleArgs {
    /// The modem's hardware address.
    modem: String,
    /// The service flow's name.
    flow: String,
    /// Its identifier; left out: the next that is free.
    #[arg(long)]
    id: Option<u16>,
    /// Higher ones are asked first.
    #[arg(long, default_value_t = 0)]
    priority: u16,
    /// Type of service: low, high, mask.
    #[arg(long, value_name = "LOW,HIGH,MASK", value_delimiter = ',', num_args = 3)]
    tos: Option<Vec<u8>>,
    /// A number, or tcp, udp, icmp, any, tcp/udp.
    #[arg(long)]
    protocol: Option<String>,
    /// Source prefix.
    #[arg(long)]
    source: Option<String>,
    /// Destination prefix.
    #[arg(long)]
    destination: Option<String>,
    /// Source port, or a range such as 1024-65535.
    #[arg(long)]
    source_ports: Option<String>,
    /// Destination port, or a range.
    #[arg(long)]
    destination_ports: Option<String>,
    /// IPv6 flow label.
    #[arg(long)]
    flow_label: Option<u32>,
    /// Ethernet destination, with a mask if there is one.
    #[arg(long)]
    destination_mac: Option<String>,
    /// Ethernet source.
    #[arg(long)]
    source_mac: Option<String>,
    /// Ethernet type.
    #[arg(long)]
    ethertype: Option<u16>,
    /// 802.1P priorities: low, high.
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', num_args = 2)]
    user_priority: Option<Vec<u8>>,
    /// VLAN identifier.
    #[arg(long)]
    vlan: Option<u16>,
}

/// What is given of some keys, as TOML.
fn written<'a>(keys: impl IntoIterator<Item = (&'a str, Option<Value>)>) -> String {
    let given = |(key, value): (&str, Option<Value>)| Some((key.to_owned(), value?));
    keys.into_iter().filter_map(given).collect::<Table>().to_string()
}

fn text(value: &Option<String>) -> Option<Value> {
    value.clone().map(Value::String)
}

fn number(value: Option<impl Into<i64>>) -> Option<Value> {
    value.map(|value| Value::Integer(value.into()))
}

fn numbers(value: &Option<Vec<u8>>) -> Option<Value> {
    let all = |all: &Vec<u8>| all.iter().map(|n| Value::Integer((*n).into())).collect();
    value.as_ref().map(|value| Value::Array(all(value)))
}

/// What is asked.
pub fn flow(command: &FlowCommand) -> CableRequest {
    let written = |args: &FlowArgs| {
        written([
            ("name", Some(Value::String(args.flow.clone()))),
            ("rate", text(&args.rate)),
            ("peak", text(&args.peak)),
            ("reserved", text(&args.reserved)),
            ("priority", number(args.priority)),
            ("burst", number(args.burst)),
            ("buffer", number(args.buffer)),
            ("group", text(&args.group)),
            ("aqm", args.aqm.map(Value::Boolean)),
        ])
    };
    match command {
        FlowCommand::Add(args) => CableRequest::AddFlow { modem: args.modem.clone(), flow: written(args) },
        FlowCommand::Change(args) => CableRequest::ChangeFlow { modem: args.modem.clone(), flow: written(args) },
        FlowCommand::Del { modem, flow } => CableRequest::RemoveFlow { modem: modem.clone(), flow: flow.clone() },
    }
}

/// What is asked.
pub fn classifier(command: &ClassifierCommand) -> CableRequest {
    let args = match command {
        ClassifierCommand::Show { modem } => return CableRequest::Classifiers { modem: modem.clone() },
        ClassifierCommand::Del { modem, id } => {
            return CableRequest::RemoveClassifier { modem: modem.clone(), id: *id };
        }
        ClassifierCommand::Add(args) => args,
    };
    let protocol = args.protocol.as_ref().map(|text| match text.parse() {
        Ok(number) => Value::Integer(number),
        Err(_) => Value::String(text.clone()),
    });
    let rule = written([
        ("flow", Some(Value::String(args.flow.clone()))),
        ("priority", number(Some(args.priority))),
        ("tos", numbers(&args.tos)),
        ("protocol", protocol),
        ("source", text(&args.source)),
        ("destination", text(&args.destination)),
        ("source_ports", text(&args.source_ports)),
        ("destination_ports", text(&args.destination_ports)),
        ("flow_label", number(args.flow_label)),
        ("destination_mac", text(&args.destination_mac)),
        ("source_mac", text(&args.source_mac)),
        ("ethertype", number(args.ethertype)),
        ("user_priority", numbers(&args.user_priority)),
        ("vlan", number(args.vlan)),
    ]);
    CableRequest::AddClassifier { modem: args.modem.clone(), id: args.id, rule }
}
