//! Requests to a broadband gateway, and replies.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use gateway::moves::passage::Passed;
use gateway::socket::Ask;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request, as `{"ask": "bng", "what": "subscribers"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// What only a broadband gateway answers.
    Bng(BngRequest),
}

/// A reply, as `{"bng": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Bng`].
    Bng(BngReply),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["bng"];
}

/// What a broadband gateway is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum BngRequest {
    /// Subscribers: those of a filter, a page of them.
    Subscribers {
        /// What they must have.
        #[serde(default)]
        filter: Filter,
    },
    /// Groups, control packets by class and access lists' rules.
    Groups,
    /// Queues of shaped subscribers: those of a filter, a page of them.
    Queues {
        /// What they must have.
        #[serde(default)]
        filter: Filter,
    },
    /// Sessions, and what became of requests for them.
    Sessions,
    /// Ends what a subscriber has that came by itself; of a static one, forgets the hardware address that its packets taught.
    Clear {
        /// Its name, or an address.
        subscriber: String,
    },
    /// Moves a group to another worker. The answer comes when it has moved.
    Move {
        /// Its name.
        group: String,
        /// The worker's number.
        worker: u16,
    },
    /// Moves a group to another process of this machine. The answer comes when it has moved.
    MoveToProcess {
        /// Its name.
        group: String,
        /// The other process's control socket.
        socket: PathBuf,
    },
    /// An address of the subscriber with that name.
    Find {
        /// Its name, or an address.
        subscriber: String,
    },
}

/// Which subscribers, and which page of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Their group.
    pub group: Option<String>,
    /// Their profile.
    pub profile: Option<String>,
    /// Their port.
    pub port: Option<String>,
    /// Their outer VLAN.
    pub s_vlan: Option<u16>,
    /// Their inner VLAN.
    pub c_vlan: Option<u16>,
    /// An address of theirs.
    pub address: Option<IpAddr>,
    /// How their names begin.
    pub name: Option<String>,
    /// So many that match are left out first.
    pub offset: usize,
    /// The most that are shown; 0: 50.
    pub limit: usize,
}

impl Filter {
    /// Reads `group=olt1,s_vlan=100,offset=50`.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("\"{part}\" is not KEY=VALUE; {KEYS}"))?;
            let (key, value) = (key.trim(), value.trim());
            let bad = || format!("{key}: invalid value \"{value}\"");
            match key {
                "group" => filter.group = Some(value.to_owned()),
                "profile" => filter.profile = Some(value.to_owned()),
                "port" => filter.port = Some(value.to_owned()),
                "name" => filter.name = Some(value.to_owned()),
                "s_vlan" => filter.s_vlan = Some(value.parse().map_err(|_| bad())?),
                "c_vlan" => filter.c_vlan = Some(value.parse().map_err(|_| bad())?),
                "address" => filter.address = Some(value.parse().map_err(|_| bad())?),
                "offset" => filter.offset = value.parse().map_err(|_| bad())?,
                "limit" => filter.limit = value.parse().map_err(|_| bad())?,
                _ => return Err(format!("unknown key \"{key}\"; {KEYS}")),
            }
        }
        Ok(filter)
    }
}

const KEYS: &str = "allowed: group, profile, port, s_vlan, c_vlan, address, name, offset, limit";

/// What a broadband gateway replies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BngReply {
    /// A page of subscribers.
    Subscribers(SubscribersView),
    /// Groups and what goes with them.
    Groups(GroupsView),
    /// Queues of a page of subscribers.
    Queues(QueuesView),
    /// Sessions, and what became of requests for them.
    Sessions(SessionsView),
    /// The name of the subscriber that was cleared.
    Cleared(String),
    /// A subscriber's address.
    Address(IpAddr),
    /// A group that has moved.
    Moved(MovedView),
    /// A group that has moved to another process.
    MovedToProcess(CrossedView),
}

/// A group that has moved to another process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossedView {
    /// The group's name.
    pub group: String,
    /// The control socket of the process that has it now.
    pub to_process: String,
    /// Its subscribers.
    pub subscribers: u64,
    /// From the request to the end of the move, in microseconds.
    pub took_us: u64,
    /// From when its packets began to wait until they were forwarded again, in microseconds.
    pub pause_us: u64,
    /// Packets that came to the other process before it could forward them.
    pub held_packets: u64,
}

/// Packets of groups that other processes have, or had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedView {
    /// Passed on to other processes.
    pub on: u64,
    /// That other processes have passed on to this one.
    pub taken_in: u64,
    /// Not passed on: the other process had them already, took none, or too many waited.
    pub not_passed_on: u64,
}

impl From<Passed> for PassedView {
    fn from(passed: Passed) -> Self {
        Self { on: passed.on, taken_in: passed.taken, not_passed_on: passed.lost }
    }
}

/// A group that has moved to another worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedView {
    /// The group's name.
    pub group: String,
    /// The worker that owned it.
    pub from_worker: u16,
    /// The worker that owns it now.
    pub to_worker: u16,
    /// Its subscribers.
    pub subscribers: u64,
    /// From the request to the end of the move, in microseconds.
    pub took_us: u64,
    /// How long the first of its packets waited that came while its state went over, in microseconds.
    pub pause_us: u64,
    /// Packets that waited for its state.
    pub held_packets: u64,
}

/// Sessions, and what became of requests for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsView {
    /// Subscribers that came by themselves.
    pub subscribers: u64,
    /// Leases that are granted: IPv4 addresses, IPv6 addresses or prefixes, delegated prefixes.
    pub leases: u64,
    /// Leases of an earlier run that were taken over.
    pub restored: u64,
    /// Leases of an earlier run that were not: ended, or of no pool any more.
    pub not_restored: u64,
    /// DHCP servers of the core that requests are relayed to.
    pub servers: Vec<DhcpServerView>,
    /// Requests by protocol and outcome.
    pub requests: Vec<RequestView>,
}

/// A DHCP server that requests are relayed to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DhcpServerView {
    /// Its address.
    pub server: String,
    /// The VRF it is reached in.
    pub instance: String,
    /// Whether it answers: it has not left three requests, and those of three seconds, without a reply.
    pub answers: bool,
    /// Requests sent to it.
    pub requests: u64,
    /// Its replies.
    pub replies: u64,
    /// Requests since its last reply.
    pub unanswered: u64,
}

/// Requests with one outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestView {
    /// `dhcp4`, `dhcp6`, `relay4`, `relay6`, `queue` (dropped before a server saw them), `sessions` or `radius`.
    pub protocol: String,
    /// What became of them.
    pub outcome: String,
    /// What that means.
    pub meaning: String,
    /// How many so far.
    pub requests: u64,
}

/// A page of subscribers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscribersView {
    /// Subscribers that match.
    pub matching: usize,
    /// Of those, left out before the first.
    pub offset: usize,
    /// The page.
    pub subscribers: Vec<SubscriberView>,
}

/// A subscriber.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberView {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its port.
    pub port: String,
    /// Its outer VLAN; 0: no tag.
    pub s_vlan: u16,
    /// Its inner VLAN; 0: no tag.
    pub c_vlan: u16,
    /// Its hardware address, if it is known.
    pub mac: Option<String>,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its WAN prefix.
    pub ipv6_wan: Option<String>,
    /// Its delegated prefix.
    pub ipv6_pd: Option<String>,
    /// Its profile.
    pub profile: String,
    /// It came by itself, by DHCP or SLAAC; if not, it is of the configuration.
    pub dynamic: bool,
    /// Whether its packets are forwarded in the kernel, and why not; none: no port has `fast_path`.
    pub fast_path: Option<String>,
    /// Packets from it, IPv4 and IPv6.
    pub up_packets: [u64; 2],
    /// Their bytes.
    pub up_bytes: [u64; 2],
    /// Packets to it, IPv4 and IPv6.
    pub down_packets: [u64; 2],
    /// Their bytes.
    pub down_bytes: [u64; 2],
}

/// Queues of a page of subscribers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuesView {
    /// Subscribers that match.
    pub matching: usize,
    /// Of those, left out before the first.
    pub offset: usize,
    /// Packets that wait, all subscribers together.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Classes of the page's subscribers that are shaped.
    pub queues: Vec<QueueView>,
}

/// A queue: a class of a shaped subscriber.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    /// The subscriber's name.
    pub subscriber: String,
    /// Its profile.
    pub profile: String,
    /// The class.
    pub class: String,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes: frames with tags.
    pub bytes: u64,
    /// How long packets that were sent waited, on average, in nanoseconds.
    pub mean_wait_ns: u64,
    /// Packets dropped because the queue, or the memory of all queues, was full.
    pub queue_full: u64,
    /// Packets dropped because packets waited too long (Controlled Delay).
    pub queue_management: u64,
}

/// Groups, control packets and rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupsView {
    /// Groups.
    pub groups: Vec<GroupView>,
    /// Control packets, by class.
    pub classes: Vec<ClassView>,
    /// Rules of access lists that have matched.
    pub rules: Vec<RuleView>,
    /// Hardware addresses taken from packets.
    pub learnt: u64,
    /// Control packets that nobody answered.
    pub unanswered: u64,
    /// Events that workers could not report because their ring to control was full.
    pub lost_events: u64,
    /// Moves of groups that a worker had no memory for.
    pub moves_failed: u64,
    /// Packets of groups that move between processes; none: there is no `[moves]`.
    pub passed: Option<PassedView>,
    /// What the in-kernel path has done, as far as it has.
    pub kernel: Vec<KernelView>,
}

/// Something that the in-kernel path counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelView {
    /// What: `kernel_up_packets`, or `kernel_dropped_` and the reason.
    pub name: String,
    /// How many so far.
    pub count: u64,
    /// What that is, in a sentence.
    pub meaning: String,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupView {
    /// Its name.
    pub name: String,
    /// The worker that owns it now, or would.
    pub worker: u16,
    /// Whether this process has it.
    pub here: bool,
    /// The control socket of the process that has it, if that is another one and known.
    pub process: Option<String>,
    /// The worker that the configuration gives it.
    pub home_worker: u16,
    /// Its subscribers.
    pub subscribers: u64,
    /// It moves, or waits to move.
    pub moving: bool,
    /// Moves it has made.
    pub moves: u64,
    /// How long its last move took, in microseconds.
    pub last_move_us: Option<u64>,
    /// How long the first of its packets waited in that move, in microseconds.
    pub last_pause_us: Option<u64>,
}

/// Control packets of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassView {
    /// The class.
    pub class: String,
    /// Packets so far.
    pub packets: u64,
    /// Of those, over a rate limit.
    pub limited: u64,
}

/// A rule of an access list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    /// The list.
    pub list: String,
    /// The rule; of the list's default, `default`.
    pub rule: String,
    /// Packets that matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_reads_its_keys() {
        let filter = Filter::parse("group=olt1, s_vlan=100,address=100.64.0.7,offset=50").unwrap();
        assert_eq!((filter.group.as_deref(), filter.s_vlan, filter.offset), (Some("olt1"), Some(100), 50));
        assert!(Filter::parse("vlan=1").unwrap_err().contains("allowed: group"));
        assert!(Filter::parse("s_vlan=x").unwrap_err().contains("s_vlan"));
        assert_eq!(Filter::parse("").unwrap(), Filter::default());
    }
}
