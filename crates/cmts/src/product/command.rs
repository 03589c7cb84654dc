//! `weir cmts`: modems, service flows and keys of a running cable gateway.

mod service;

use clap::{Args, Subcommand};

use super::protocol::{CableReply, CableRequest, Reply, Request};
use gateway::cli::At;
use gateway::socket::Client;
use gateway::tables::Style;
use service::{ClassifierCommand, FlowCommand};

/// `weir cmts`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir cmts modem add sg0 --mac 02:cb:00:00:99:01 --profile home --ipv4 10.9.0.1 --sid 900
  weir cmts modem show 02:cb:00:00:99:01
  weir cmts modem del 02:cb:00:00:99:01
  weir cmts service-flow add 02:cb:00:00:00:01 game --rate \"20 Mbit/s\" --priority 6 --group low
  weir cmts service-flow change 02:cb:00:00:00:01 best-effort --rate \"500 Mbit/s\"
  weir cmts classifier add 02:cb:00:00:00:01 game --protocol udp --destination-ports 3074
  weir cmts classifier show 02:cb:00:00:00:01
  weir cmts filters 02:cb:00:00:00:01 --up no-mail
  weir cmts key set 02:cb:00:00:00:01 1 --key 000102030405060708090a0b0c0d0e0f
  weir cmts key use 02:cb:00:00:00:01 1

Packets flow on meanwhile.")]
pub struct CmtsArgs {
    /// What to do.
    #[command(subcommand)]
    what: What,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Modems.
    #[command(subcommand)]
    Modem(Modem),
    /// Service flows of a modem.
    #[command(subcommand)]
    ServiceFlow(FlowCommand),
    /// Classifiers of a modem: the service flow of each packet.
    #[command(subcommand)]
    Classifier(ClassifierCommand),
    /// Set a modem's filter groups; omitted directions stay.
    Filters {
        /// The modem's hardware address.
        modem: String,
        /// Names of filter groups downstream; an empty string: none.
        #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
        down: Option<Vec<String>>,
        /// Names of filter groups upstream; an empty string: none.
        #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
        up: Option<Vec<String>>,
    },
    /// Hand over to the standby, with all waiting frames; the running gateway ends.
    Takeover,
    /// Keys: the next one is set beside the one in use, then used.
    #[command(subcommand)]
    Key(KeyCommand),
}

#[derive(Debug, Subcommand)]
enum Modem {
    /// Add modems: one, or --count of them by pattern, as in the configuration.
    Add {
        /// The service group's name.
        service_group: String,
        /// Hardware address of the (first) modem.
        #[arg(long)]
        mac: String,
        /// Its profile.
        #[arg(long)]
        profile: String,
        /// Number of modems.
        #[arg(long, default_value_t = 1)]
        count: u16,
        /// Hosts behind each.
        #[arg(long, default_value_t = 1)]
        hosts: u16,
        /// IPv4 address of the first host.
        #[arg(long)]
        ipv4: Option<std::net::Ipv4Addr>,
        /// IPv6 address of the first host.
        #[arg(long)]
        ipv6: Option<std::net::Ipv6Addr>,
        /// Hardware address of the first host.
        #[arg(long)]
        host_mac: Option<String>,
        /// Service identifier of the (first) modem.
        #[arg(long, default_value_t = 0)]
        sid: u16,
        /// Security association of the (first) modem.
        #[arg(long)]
        said: Option<u16>,
        /// Key of the (first) modem, 32 hexadecimal digits.
        #[arg(long)]
        key: Option<String>,
        /// Initialization vector, 32 hexadecimal digits.
        #[arg(long)]
        iv: Option<String>,
    },
    /// Remove a modem.
    Del {
        /// Its hardware address.
        modem: String,
    },
    /// A modem's service flows; without an address all modems.
    Show {
        /// Its hardware address.
        modem: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Set a modem's next key, beside the one in use.
    Set {
        /// The modem's hardware address.
        modem: String,
        /// The key's number, 0 to 15: of the other parity than the one in use.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=15))]
        sequence: u8,
        /// 32 hexadecimal digits.
        #[arg(long)]
        key: String,
        /// 32 hexadecimal digits.
        #[arg(long, default_value = "00000000000000000000000000000000")]
        iv: String,
    },
    /// Use that key from now on.
    Use {
        /// The modem's hardware address.
        modem: String,
        /// The key's number.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=15))]
        sequence: u8,
    },
}

/// Does it.
///
/// # Errors
/// No cable gateway runs there, or it says why not.
pub fn cmts(args: &CmtsArgs) -> anyhow::Result<()> {
    let mut client = Client::connect(&args.at.socket)?;
    let Reply::Cable(reply) = client.ask(&Request::Cable(request(&args.what)))?;
    args.at.json.print(&reply, || match &reply {
        CableReply::Done(sentence) => format!("{sentence}\n"),
        reply => super::show::text(reply, None, Style::of_stdout()),
    })
}

fn request(what: &What) -> CableRequest {
    match what {
        What::Modem(Modem::Add {
            service_group,
            mac,
            profile,
            count,
            hosts,
            ipv4,
            ipv6,
            host_mac,
            sid,
            said,
            key,
            iv,
        }) => {
            let mut pattern = toml::Table::new();
            let mut text = |name: &str, value: Option<String>| {
                value.map(|value| pattern.insert(name.to_owned(), toml::Value::String(value)));
            };
            text("mac", Some(mac.clone()));
            text("profile", Some(profile.clone()));
            text("ipv4", ipv4.map(|address| address.to_string()));
            text("ipv6", ipv6.map(|address| address.to_string()));
            text("host_mac", host_mac.clone());
            text("key", key.clone());
            text("iv", iv.clone());
            let numbers = [("count", Some(*count)), ("hosts", Some(*hosts)), ("sid", Some(*sid)), ("said", *said)];
            for (name, value) in numbers {
                value.map(|value| pattern.insert(name.to_owned(), toml::Value::Integer(value.into())));
            }
            CableRequest::Add { service_group: service_group.clone(), pattern: pattern.to_string() }
        }
        What::Modem(Modem::Del { modem }) => CableRequest::Remove { modem: modem.clone() },
        What::Modem(Modem::Show { modem: None }) => CableRequest::Modems,
        What::Modem(Modem::Show { modem }) => CableRequest::ServiceFlows { modem: modem.clone() },
        What::ServiceFlow(command) => service::flow(command),
        What::Classifier(command) => service::classifier(command),
        What::Filters { modem, down, up } => {
            let names = |names: &Option<Vec<String>>| {
                names.as_ref().map(|names| names.iter().filter(|name| !name.is_empty()).cloned().collect())
            };
            CableRequest::SetFilters { modem: modem.clone(), down: names(down), up: names(up) }
        }
        What::Takeover => CableRequest::TakeOver,
        What::Key(KeyCommand::Set { modem, sequence, key, iv }) => {
            CableRequest::SetKey { modem: modem.clone(), sequence: *sequence, key: key.clone(), iv: iv.clone() }
        }
        What::Key(KeyCommand::Use { modem, sequence }) => {
            CableRequest::UseKey { modem: modem.clone(), sequence: *sequence }
        }
    }
}
