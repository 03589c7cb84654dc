//! The other side of a CMTS: Remote-PHY devices with their modems, and the hosts beyond the network side.
//!
//! | part | idea |
//! |---|---|
//! | [`Plant`] | what both sides agree on: pseudowires, modems, addresses, keys. Plain data |
//! | [`Downstream`] | the device as a receiver: DEPI packets become frames again, each looked at from every side |
//! | [`Resequencer`] | the order of one DSID, restored |
//! | [`Upstream`] | the device as a sender: bursts of modems, cut anywhere |
//! | [`filter_group`], [`classifiers`] | rules of mixed kinds: a gateway is configured by them, packets match them |
//! | [`Hosts`] | the network side: sends to the hosts behind modems, looks at what comes from them |
//!
//! It shares the wire formats with the gateway and nothing else, so that neither can be wrong unnoticed.

mod downstream;
mod heard;
mod hosts;
mod resequencer;
mod rules;
mod upstream;
mod workload;

use std::net::Ipv4Addr;

use crypto::Key;
use wire::Mac;
use wire::l2tp::{Carrier, Cookie};
use wire::psp::Word;

pub use downstream::Downstream;
pub use heard::{FlowHeard, Heard};
pub use hosts::{Excess, Hosts, HostsHeard};
pub use resequencer::{Resequencer, Turn};
pub use rules::{FilterRule, Pattern, TCP_OR_UDP, classifiers, filter_group};
pub use upstream::{Cuts, Said, Upstream};
pub use workload::{CLASSES, CLASSIFIER_RULES, Decided, FILTER_GROUPS, FILTER_RULES, Mix, Workload};

/// What a gateway and the other side agree on.
#[derive(Clone, Debug)]
pub struct Plant {
    /// What carries L2TPv3.
    pub carrier: Carrier,
    /// What messages towards the device and towards the gateway begin with.
    pub cookies: [Cookie; 2],
    /// Whether data pseudowires downstream have a word behind the table of segments.
    pub word: Word,
    /// Largest IP packet between gateway and device, in bytes.
    pub mtu: usize,
    /// Hardware addresses between them: the gateway's, the devices'.
    pub macs: [Mac; 2],
    /// Hardware addresses beyond the network side: the gateway's, the next router's.
    pub core_macs: [Mac; 2],
    /// Hardware address of the gateway that hosts behind modems send to.
    pub gateway: Mac,
    /// Service groups.
    pub groups: Vec<Group>,
}

/// One service group.
#[derive(Clone, Debug)]
pub struct Group {
    /// IP addresses: the gateway's, the device's.
    pub addresses: [Ipv4Addr; 2],
    /// The device's session numbers of its downstream channels.
    pub downstream: Vec<u32>,
    /// The gateway's session numbers of its upstream channels.
    pub upstream: Vec<u32>,
    /// The gateway's session number for bandwidth requests.
    pub requests: Option<u32>,
    pub modems: Vec<Modem>,
}

#[derive(Clone, Debug)]
pub struct Modem {
    /// Hosts behind it.
    pub hosts: Vec<(Ipv4Addr, Mac)>,
    /// Its security association.
    pub said: u16,
    /// Its service identifier upstream.
    pub sid: u16,
    /// Keys by the lowest bit of their sequence number; none: frames go in clear.
    pub keys: [Option<Key>; 2],
    /// Sequence number of the key it sends by.
    pub sequence: u8,
}

impl Plant {
    /// All modems, with their service groups' numbers.
    pub fn modems(&self) -> impl Iterator<Item = (usize, &Modem)> {
        self.groups.iter().enumerate().flat_map(|(group, all)| all.modems.iter().map(move |modem| (group, modem)))
    }
}
