//! Network cards: what servers of one's own are equipped with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::Known;
use crate::onprem::Server;
use crate::quantity::{BitRate, Dollars, PacketRate, Power, Quantity};
use crate::wrong::Wrong;

/// The network cards that come with weir.
pub const CARDS: &str = include_str!("../data/cards.toml");

/// `[[card]]`: a network card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// What servers name it by.
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// Network ports.
    pub ports: u32,
    /// What each carries, each way.
    pub port_speed: Known<BitRate>,
    /// What all ports carry together, each way, where the card or its slot has less than they do.
    pub bandwidth: Option<Known<BitRate>>,
    /// Queues of an interface; left out: not known.
    pub queues: Option<u32>,
    /// Virtual functions of a port; left out: not known.
    pub functions_per_port: Option<u32>,
    /// Packets forwarded a second through one port, received and sent counted together; left out: not known.
    pub packets_per_port: Option<Known<PacketRate>>,
    /// What it draws doing nothing; left out: what it draws at most.
    pub idle: Option<Known<Power>>,
    /// What it draws at most.
    pub power: Option<Known<Power>>,
    /// What it costs to buy.
    pub price: Option<Known<Dollars>>,
}

/// A file of cards: `[[card]]` sections.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cards {
    #[serde(default)]
    pub card: Vec<Card>,
}

impl Card {
    /// Of all ports together.
    fn all_ports(&self) -> Known<BitRate> {
        let ports = self.port_speed.map(|speed| speed * f64::from(self.ports));
        self.bandwidth.clone().unwrap_or(ports)
    }
}

/// A sum of ranges: end by end, resting on the weaker of both.
fn plus<T: Quantity>(a: &Known<T>, b: &Known<T>) -> Known<T> {
    let add = |a: T, b: T| T::new(a.get() + b.get());
    let source = [a.source.as_str(), b.source.as_str()].into_iter().filter(|source| !source.is_empty());
    Known {
        low: add(a.low, b.low),
        value: add(a.value, b.value),
        high: add(a.high, b.high),
        from: a.from.max(b.from),
        source: source.collect::<Vec<_>>().join("; "),
    }
}

/// What is known of both: unknown if one is not.
fn both<T: Quantity>(a: Option<&Known<T>>, b: Option<&Known<T>>) -> Option<Known<T>> {
    Some(plus(a?, b?))
}

fn least(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    a.into_iter().chain(b).min()
}

/// Puts the cards that servers name into them: ports, bandwidth, queues, packets, watts and price of a server are with
/// its cards then.
///
/// # Errors
/// A name that no card has, pointing at `server.N.cards.M`.
pub fn equip(servers: &mut [Server], cards: &[Card]) -> Result<(), Wrong> {
    for (n, server) in servers.iter_mut().enumerate() {
        for (m, name) in std::mem::take(&mut server.cards).iter().enumerate() {
            let Some(card) = cards.iter().find(|card| card.name == *name) else {
                let what = format!("no network card is called \"{name}\"");
                let help = crate::check::near(name, cards.iter().map(|card| card.name.as_str()));
                return Err(Wrong::at(&format!("server.{n}.cards.{m}"), what, help));
            };
            add(server, card);
        }
    }
    Ok(())
}

fn add(server: &mut Server, card: &Card) {
    let there = server.bandwidth_of_ports();
    server.bandwidth = Some(there.map_or_else(|| card.all_ports(), |there| plus(&there, &card.all_ports())));
    server.ports = Some(server.ports.unwrap_or(0) + card.ports);
    server.port_speed = match server.port_speed.take() {
        Some(speed) if speed.value <= card.port_speed.value => Some(speed),
        _ => Some(card.port_speed.clone()),
    };
    server.queues = least(server.queues, card.queues);
    server.functions_per_port = least(server.functions_per_port, card.functions_per_port);
    server.packets_per_port = match (server.packets_per_port.take(), &card.packets_per_port) {
        (Some(there), Some(of_card)) if there.value > of_card.value => Some(of_card.clone()),
        (Some(there), _) => Some(there),
        (None, of_card) => of_card.clone(),
    };
    server.idle = both(server.idle.as_ref(), card.idle.as_ref().or(card.power.as_ref()));
    server.power = both(server.power.as_ref(), card.power.as_ref());
    server.capex = both(server.capex.as_ref(), card.price.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::Provenance;
    use crate::onprem::{SERVERS, Servers};

    fn equipped(server: &str, cards: &str) -> Result<Server, Wrong> {
        let mut servers = vec![toml::from_str::<Server>(server).unwrap()];
        equip(&mut servers, &toml::from_str::<Cards>(cards).unwrap().card)?;
        Ok(servers.remove(0))
    }

    const CARD: &str = "[[card]]\nname = 'two'\nports = 2\nport_speed = '100 Gbit/s'\nbandwidth = '100 Gbit/s'\nqueues = 16\n\
                        packets_per_port = '30 Mpps'\npower = '20 W'\nprice = '500 $'\n";

    #[test]
    fn a_server_has_what_its_cards_have() {
        let server = "name = 'x'\nsockets = 1\ncores = 32\nqueues = 32\nidle = '100 W'\npower = '300..400 W'\n\
                      capex = '9000 $'\nlife = '5 years'\ncards = ['two', 'two']";
        let server = equipped(server, CARD).unwrap();
        let machine = server.machine(None);
        assert_eq!((server.ports, machine.queues), (Some(4), Some(16)));
        assert_eq!(machine.burst, Some(BitRate(200e9)), "two cards of 100 Gbit/s, whatever their ports");
        assert_eq!(machine.single_flow, Some(BitRate(100e9)));
        assert_eq!(machine.packets_per_interface.as_ref().unwrap().value, PacketRate(30e6));
        assert_eq!(machine.power.map(|(idle, most)| (idle.0, most.0)), Some((140.0, 390.0)));
        assert_eq!(server.capex.unwrap().value, Dollars(10_000.0));
    }

    #[test]
    fn watts_of_a_card_nobody_knows_leave_the_sum_unknown() {
        let server = "name = 'x'\nsockets = 1\ncores = 32\npower = '300 W'\ncapex = '9000 $'\ncards = ['two']";
        let server = equipped(server, &CARD.replace("power = '20 W'\n", "")).unwrap();
        assert_eq!((server.power, server.capex.map(|usd| usd.value)), (None, Some(Dollars(9500.0))));
    }

    #[test]
    fn an_unknown_card_points_at_its_key() {
        let wrong = equipped("name = 'x'\nsockets = 1\ncores = 32\ncards = ['two', 'tow']", CARD).unwrap_err();
        assert_eq!(wrong.path.join("."), "server.0.cards.1");
        assert!(wrong.to_string().contains("\"tow\"; there is two"), "{wrong}");
    }

    /// Every watt and dollar of the built-in servers and cards is published with its source, or a range that is assumed.
    #[test]
    fn figures_of_servers_and_cards_rest_on_something() {
        fn firm<T: Quantity>(known: Option<&Known<T>>, name: &str, what: &str) {
            let known = known.unwrap_or_else(|| panic!("{name}: no {what}"));
            match known.from {
                Provenance::Published => assert!(!known.source.is_empty(), "{name}: {what} without a source"),
                _ => assert!(known.low < known.high, "{name}: {what} is assumed and has no range"),
            }
        }
        let cards = toml::from_str::<Cards>(CARDS).unwrap().card;
        let mut servers = toml::from_str::<Servers>(SERVERS).unwrap().server;
        assert!(servers.len() >= 15 && cards.len() >= 8, "{} servers, {} cards", servers.len(), cards.len());
        for server in &servers {
            firm(server.idle.as_ref(), &server.name, "idle");
            firm(server.power.as_ref(), &server.name, "power");
            firm(server.capex.as_ref(), &server.name, "capex");
        }
        for card in &cards {
            firm(card.power.as_ref(), &card.name, "power");
            firm(card.price.as_ref(), &card.name, "price");
        }
        equip(&mut servers, &cards).unwrap();
        for machine in servers.iter().map(|server| server.machine(None)) {
            assert!(machine.burst.is_some() && machine.power.is_some() && machine.price.is_some(), "{}", machine.name);
            assert!(machine.interfaces.is_some() && machine.queues.is_some(), "{}", machine.name);
        }
    }
}
