//! What `weir show`, `weir trace` and monitoring see of a running broadband gateway.

use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use dataplane::forward::Neighbourhood;
use engine::{Io, PortId, StatsView, Worker};
use gateway::connected::{Connected, LOOK};
use gateway::host_routing::ServedPrefix;
use gateway::metrics::Kind::{Counter, Gauge};
use gateway::metrics::{Known, Page};
use gateway::nat::{self, NatView};
use gateway::shell::rest::Wait;
use gateway::shell::{HandOver, Product, Shell};
use gateway::snapshot::KernelCounters;
use gateway::socket::{Ask, RawAnswer, RawRequest};
use gateway::watch::Level;
use wire::Mac;

use super::hand_over::Succession;
use super::protocol::{
    BngReply, BngRequest, ClassView, DhcpServerView, Filter, GroupView, GroupsView, KernelView, MovedView, QueueView,
    QueuesView, Reply, Request, RequestView, RuleView, SessionsView, SubscriberView, SubscribersView,
};
use crate::config::Class;
use crate::control::{Control, Reports, WorkerReport};
use crate::fast::Counts;
use crate::gateway::BroadbandGateway;
use crate::hand_over::{LAYOUT, Numbers};
use crate::record::SubscriberSpec;
use crate::sessions::Sessions;

/// The control side of a running broadband gateway.
pub struct Observer {
    pub(super) shell: Shell,
    control: Mutex<Control>,
    /// One report at a time.
    reporting: Mutex<()>,
    /// What is handed over to another process, or taken in.
    pub(super) succession: Mutex<Succession>,
}

/// A worker answers in its next turn; a stopped one never.
const PATIENCE: Duration = Duration::from_millis(500);
/// A group moves once those before it have.
const MOVE_PATIENCE: Duration = Duration::from_secs(60);
/// Rows of a page, where none are asked for, and at most.
const PAGE: usize = 50;
const MOST: usize = 10_000;

impl Observer {
    /// Over the reading ends of its workers.
    pub fn new(shell: Shell, control: Control, numbers: Numbers) -> Self {
        let succession = Mutex::new(Succession::of(numbers));
        Self { shell, control: Mutex::new(control), reporting: Mutex::new(()), succession }
    }

    /// Control, for a moment.
    pub fn control(&self) -> MutexGuard<'_, Control> {
        self.shell.lock(&self.control)
    }

    /// What workers know of those subscribers; `see` is shown it, with control.
    pub(super) fn reports<T>(&self, handles: &[u32], see: impl FnOnce(&Control, &Reports) -> T) -> Result<T, String> {
        let _one = self.reporting.lock().unwrap_or_else(|error| error.into_inner());
        self.control().ask_reports(handles);
        let mut see = Some(see);
        self.awaited(|control| {
            let reports = control.reports()?;
            see.take().map(|see| see(control, reports))
        })
    }

    /// Who has which blocks of public ports: all, or one subscriber's.
    fn nat(&self, ue: Option<IpAddr>) -> Result<NatView, String> {
        let (names, workers) = {
            let control = self.control();
            if control.config().nat.is_none() {
                return Err("nothing is translated: there is no [nat]".to_owned());
            }
            (control.config().instances(), control.workers())
        };
        let _one = self.reporting.lock().unwrap_or_else(|error| error.into_inner());
        let mut view = NatView::default();
        for worker in 0..workers {
            let mut from = Some(0);
            while let Some(at) = from {
                self.control().ask_blocks(worker, at);
                let page = self.awaited(|control| control.blocks())?;
                view.add(&names, &page.list, ue);
                from = page.next;
                if from.is_none() {
                    view.subscribers += page.totals.0;
                    view.mappings += page.totals.1;
                }
            }
        }
        Ok(view.sorted())
    }

    /// Has a group move; returns when it has.
    fn move_group(&self, group: &str, to_worker: u16) -> Result<MovedView, String> {
        let (number, from_worker) = {
            let mut control = self.control();
            let number = control.group_named(group).map_err(|refusal| refusal.to_string())?;
            let from = control.layout().groups.get(usize::from(number)).map_or(0, |group| group.worker);
            control.move_group(number, to_worker).map_err(|refusal| refusal.to_string())?;
            (number, from)
        };
        let begin = Instant::now();
        let ended = |control: &mut Control| {
            let last = control.moves().last(number);
            last.filter(|_| !control.moves().concerns(number))
        };
        let (outcome, _) = self.awaited_for(MOVE_PATIENCE, ended)?;
        if outcome.failed {
            return Err(format!(
                "group \"{group}\" stays on worker {from_worker}: worker {to_worker} has no memory for it"
            ));
        }
        Ok(MovedView {
            group: group.to_owned(),
            from_worker,
            to_worker,
            subscribers: outcome.subscribers,
            took_us: begin.elapsed().as_micros() as u64,
            pause_us: outcome.arrival.pause_ns / 1000,
            held_packets: outcome.arrival.held,
        })
    }

    /// What control has once workers have answered.
    pub(super) fn awaited<T>(&self, got: impl FnMut(&mut Control) -> Option<T>) -> Result<T, String> {
        self.awaited_for(PATIENCE, got)
    }

    pub(super) fn awaited_for<T>(
        &self,
        time: Duration,
        mut got: impl FnMut(&mut Control) -> Option<T>,
    ) -> Result<T, String> {
        let until = Instant::now() + time;
        loop {
            {
                let mut control = self.control();
                control.poll(self.shell.now_ns());
                if let Some(got) = got(&mut control) {
                    return Ok(got);
                }
            }
            if Instant::now() > until {
                return Err("a worker does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn ask(&self, request: &BngRequest) -> Result<BngReply, String> {
        match request {
            BngRequest::Subscribers { filter } => {
                let (matching, page) = self.select(filter);
                let handles: Vec<_> = page.iter().map(|spec| spec.handle).collect();
                let subscribers = self.reports(&handles, |control, reports| {
                    page.iter().map(|spec| view(control, spec, reports)).collect()
                })?;
                Ok(BngReply::Subscribers(SubscribersView { matching, offset: filter.offset, subscribers }))
            }
            BngRequest::Queues { filter } => {
                let (matching, page) = self.select(filter);
                let handles: Vec<_> = page.iter().map(|spec| spec.handle).collect();
                self.reports(&handles, |control, reports| {
                    let queues = page.iter().flat_map(|spec| queues(control, spec, reports)).collect();
                    let sum = |of: fn(&WorkerReport) -> u64| reports.workers.iter().map(of).sum();
                    BngReply::Queues(QueuesView {
                        matching,
                        offset: filter.offset,
                        waiting_packets: sum(|report| report.waiting.0),
                        waiting_bytes: sum(|report| report.waiting.1),
                        queues,
                    })
                })
            }
            BngRequest::Groups => self.reports(&[], groups).map(BngReply::Groups),
            BngRequest::Sessions => Ok(BngReply::Sessions(sessions(&self.control()))),
            BngRequest::Clear { subscriber } => {
                let mut control = self.control();
                if control.is_succeeded() {
                    return Err("another process takes over: ask it in a moment".to_owned());
                }
                let found = named(&control, subscriber)?;
                if control.moves().concerns(found.group) {
                    return Err("its group moves: ask again in a moment".to_owned());
                }
                let name = control.name(&found);
                control.clear(found.handle).map_err(|refusal| refusal.to_string())?;
                drop(control);
                self.shell.call_control();
                Ok(BngReply::Cleared(name))
            }
            BngRequest::MoveToProcess { group, socket } => {
                self.move_to_process(group, socket).map(BngReply::MovedToProcess)
            }
            BngRequest::Move { group, worker } => self.move_group(group, *worker).map(BngReply::Moved),
            BngRequest::Find { subscriber } => {
                if let Ok(address) = subscriber.parse() {
                    return Ok(BngReply::Address(address));
                }
                let control = self.control();
                let found = control.find(subscriber).ok_or_else(|| format!("there is no subscriber {subscriber}"))?;
                address(found).map(BngReply::Address).ok_or_else(|| format!("subscriber {subscriber} has no address"))
            }
        }
    }
}

impl Product for Observer {
    type Plane = BroadbandGateway;
    const STATE_LAYOUT: u64 = LAYOUT;

    fn hand_over(&self) -> Option<&dyn HandOver<BroadbandGateway>> {
        Some(self)
    }

    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn turn(&self) {
        let now = self.shell.now_ns();
        let mut control = self.control();
        control.poll(now);
        if control.is_park_due(now) {
            let wall = self.shell.wall_clock();
            let minute = (wall.epoch_ns.saturating_add(wall.now) / 60_000_000_000 % 1440) as u16; // fewer than 1440
            let busy: Vec<u64> = self.shell.workers().iter().map(|ends| busy_cycles(&ends.stats)).collect();
            control.park(now, minute, &busy);
        }
    }

    fn wait(&self, since: Duration) -> Wait {
        let mut control = self.control();
        self.shell.wait(since, control.took_events(), control.has_news(), [control.next_deadline(), None])
    }

    fn publish_tables(&self) {
        self.control().publish_tables();
    }

    fn with_neighbourhood(&self, see: &mut dyn FnMut(&mut Neighbourhood)) {
        see(self.control().neighbourhood());
    }

    fn send(&self, frames: Vec<(PortId, Vec<u8>)>) {
        self.control().send_frames(frames);
    }

    fn instances(&self) -> Vec<String> {
        self.control().config().instances()
    }

    fn served(&self) -> Vec<ServedPrefix> {
        self.control().served()
    }

    fn halted(&self, workers: &[std::thread::Result<Worker<BroadbandGateway>>]) {
        if let Some((passage, _)) = self.control().crossings() {
            passage.stop();
        }
        self.control().close(&|worker, handle| workers.get(worker)?.as_ref().ok()?.gateway().usage(handle));
    }

    fn connected_to(&self, asked: &RawRequest, stream: UnixStream) {
        self.serve_crossing(asked, stream);
    }

    fn answer(&self, asked: &RawRequest) -> Option<RawAnswer> {
        let own = Request::answered(asked, |Request::Bng(request)| self.ask(&request).map(Reply::Bng));
        own.or_else(|| nat::Request::answered(asked, |nat::Request::Nat { ue }| self.nat(ue).map(nat::Reply::Nat)))
    }

    fn connected(&self) -> Option<&dyn Connected> {
        Some(self)
    }

    fn kernel_counters(&self) -> Option<KernelCounters> {
        self.control().kernel_counters()
    }

    fn known(&self) -> Known {
        let sessions = sessions(&self.control());
        let seen = |control: &Control, reports: &Reports| {
            let waiting = reports.workers.iter().map(|report| report.waiting);
            (groups(control, reports), waiting.fold((0, 0), |sum, waiting| (sum.0 + waiting.0, sum.1 + waiting.1)))
        };
        let own = self.reports(&[], seen);
        let own = own.map_or_else(|_| Page::default(), |(view, waiting)| page(&view, &sessions, waiting));
        Known { own, ..Known::default() }
    }

    fn levels(&self) -> Vec<Level> {
        if self.control().config().nat.is_none() {
            return Vec::new();
        }
        let levels = self.reports(&[], |_, reports| {
            let workers = reports.workers.iter().enumerate();
            let all =
                workers.flat_map(|(worker, report)| report.nat.into_iter().flatten().map(move |level| (worker, level)));
            all.map(|(worker, (pool, used, capacity))| Level { pool: format!("{pool}:worker{worker}"), used, capacity })
                .collect()
        });
        // A worker that does not answer is told of by itself.
        levels.unwrap_or_default()
    }

    fn hindrances(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Cycles in which a worker has carried packets.
fn busy_cycles(stats: &StatsView) -> u64 {
    let parts = [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles];
    parts.into_iter().map(|part| stats.io(part)).sum()
}

/// The subscriber with a name, or with an address.
fn named(control: &Control, subscriber: &str) -> Result<SubscriberSpec, String> {
    let found = match subscriber.parse() {
        Ok(address) => control.subscribers().find(|spec| has(spec, address)),
        Err(_) => control.find(subscriber),
    };
    found.copied().ok_or_else(|| format!("there is no subscriber {subscriber}"))
}

fn sessions(control: &Control) -> SessionsView {
    let Some(sessions) = control.sessions() else { return SessionsView::default() };
    let counts = sessions.counts();
    let mut view = SessionsView {
        subscribers: sessions.count() as u64,
        leases: sessions.leases() as u64,
        restored: counts.restored,
        not_restored: counts.dropped,
        servers: servers(control, sessions),
        requests: Vec::new(),
    };
    let mut add = |protocol: &str, outcome: &str, meaning: &str, requests: u64| {
        let (protocol, outcome, meaning) = (protocol.to_owned(), outcome.to_owned(), meaning.to_owned());
        view.requests.push(RequestView { protocol, outcome, meaning, requests });
    };
    for outcome in access::dhcp4::Outcome::ALL {
        add("dhcp4", outcome.id(), outcome.help(), sessions.dhcp4().count(*outcome));
    }
    for outcome in access::dhcp6::Outcome::ALL {
        add("dhcp6", outcome.id(), outcome.help(), sessions.dhcp6().count(*outcome));
    }
    let relays = sessions.relays();
    for outcome in access::relay::v4::Outcome::ALL {
        add("relay4", outcome.id(), outcome.help(), relays.v4.count(*outcome));
    }
    for outcome in access::relay::v6::Outcome::ALL {
        add("relay6", outcome.id(), outcome.help(), relays.v6.count(*outcome));
    }
    for (protocol, requests) in [("relay4", relays.v4.unanswered()), ("relay6", relays.v6.unanswered())] {
        add(protocol, "unanswered", "No server has answered the request in time.", requests);
    }
    for reason in access::queue::QueueDrop::ALL {
        add("queue", reason.id(), reason.help(), sessions.queue_drops(*reason));
    }
    for (outcome, meaning, requests) in [
        ("unreadable", "Dropped: a DHCP message or solicitation that can't be read.", counts.unreadable),
        ("static_line", "Dropped: the line has a static subscriber.", counts.fixed),
        ("relayed", "Dropped: a relay agent's message, in a group that trusts none.", counts.relayed),
        (
            "client_unnamed",
            "Dropped: chaddr is not the frame's source and no lease tells whose it is, or a relay agent sends no client address \
             (option 79).",
            counts.unnamed,
        ),
        ("no_prefix", "Dropped: no prefix is left to advertise.", counts.no_prefix),
        (
            "foreign_rates",
            "Rates told of another line than the subscriber's, with its hardware address: they do not count.",
            counts.foreign_rates,
        ),
        ("prefix_pair_limit", "Dropped: the shared VLAN pair has as many prefixes as it may.", counts.pair_limit),
        ("not_stored", "Not answered: the ledger did not take the lease.", counts.not_stored),
    ] {
        add("sessions", outcome, meaning, requests);
    }
    if let Some(counts) = sessions.aaa_counts() {
        for (outcome, meaning, requests) in [
            ("accepted", "A server has accepted the subscriber.", counts.accepted),
            ("rejected", "A server has rejected the subscriber.", counts.rejected),
            ("unanswered", "No server has answered.", counts.unanswered),
            ("denied", "Dropped: the subscriber was rejected lately.", counts.denied),
            ("not_asked", "Dropped: too many wait for a server, or an attribute does not fit.", counts.not_asked),
            ("superseded", "Dropped: a later request took its place while a server decides.", counts.superseded),
            ("reported", "A server has taken an accounting report.", counts.reported),
            ("report_malformed", "Dropped: an accounting report that can't be written.", counts.reports_malformed),
            ("report_dropped", "Dropped: too many accounting reports wait.", counts.reports_dropped),
            ("coa_dropped", "Dropped: a change that is forged, late or of a stranger.", counts.coa_dropped),
        ] {
            add("radius", outcome, meaning, requests);
        }
    }
    view
}

/// Servers that requests are relayed to.
fn servers(control: &Control, sessions: &Sessions) -> Vec<DhcpServerView> {
    let names = control.config().instances();
    let view = |view: access::relay::ServerView| DhcpServerView {
        server: view.address.to_string(),
        instance: names.get(view.instance).cloned().unwrap_or_default(),
        answers: !view.is_silent,
        requests: view.requests,
        replies: view.replies,
        unanswered: view.unanswered.into(),
    };
    sessions.relays().servers.views().into_iter().map(view).collect()
}

impl Observer {
    /// How many subscribers match, and the page that is asked for. Control is locked for a few at a time.
    fn select(&self, filter: &Filter) -> (usize, Vec<SubscriberSpec>) {
        let limit = if filter.limit == 0 { PAGE } else { filter.limit.min(MOST) };
        let (mut matching, mut page, mut first) = (0, Vec::new(), 0);
        loop {
            let control = self.control();
            let end = control.handles();
            if first >= end {
                return (matching, page);
            }
            let few = first..end.min(first.saturating_add(LOOK as u32));
            first = few.end;
            let few = few.filter_map(|handle| control.subscriber(handle));
            for spec in few.filter(|spec| matches(&control, spec, filter)) {
                if matching >= filter.offset && page.len() < limit {
                    page.push(*spec);
                }
                matching += 1;
            }
            drop(control);
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

fn matches(control: &Control, spec: &SubscriberSpec, filter: &Filter) -> bool {
    let config = control.config();
    let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    control.is_here(spec.group)
        && is(&filter.group, &config.group[usize::from(spec.group)].name)
        && is(&filter.profile, &config.profile[usize::from(spec.profile)].name)
        && is(&filter.port, &config.port[usize::from(spec.line.port)].name)
        && filter.s_vlan.is_none_or(|id| id == spec.line.s_vlan)
        && filter.c_vlan.is_none_or(|id| id == spec.line.c_vlan)
        && filter.address.is_none_or(|address| has(spec, address))
        && filter.name.as_ref().is_none_or(|begin| control.name(spec).starts_with(begin.as_str()))
}

fn has(spec: &SubscriberSpec, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => spec.ipv4 == Some(address.to_bits()),
        IpAddr::V6(address) => {
            let upper = (address.to_bits() >> 64) as u64;
            let in_pd = |(prefix, len): (u64, u8)| (prefix ^ upper).checked_shr(64 - u32::from(len)).unwrap_or(0) == 0;
            spec.wan == Some(upper) || spec.pd.is_some_and(in_pd)
        }
    }
}

/// An address of a subscriber.
fn address(spec: &SubscriberSpec) -> Option<IpAddr> {
    let v4 = spec.ipv4.map(|address| address.to_be_bytes().into());
    let v6 = spec.wan.or(spec.pd.map(|(prefix, _)| prefix)).map(|upper| upper_half(upper).into());
    v4.or(v6)
}

pub(super) fn upper_half(upper: u64) -> Ipv6Addr {
    (u128::from(upper) << 64).to_be_bytes().into()
}

fn view(control: &Control, spec: &SubscriberSpec, reports: &Reports) -> SubscriberView {
    let config = control.config();
    let usage = reports.usage.get(&spec.handle).copied().unwrap_or_default();
    SubscriberView {
        name: control.name(spec),
        group: config.group[usize::from(spec.group)].name.clone(),
        port: config.port[usize::from(spec.line.port)].name.clone(),
        s_vlan: spec.line.s_vlan,
        c_vlan: spec.line.c_vlan,
        mac: usage.mac.or(spec.mac).map(|mac| Mac(mac).to_string()),
        ipv4: spec.ipv4.map(Into::into),
        ipv6_wan: spec.wan.map(|upper| format!("{}/64", upper_half(upper))),
        ipv6_pd: spec.pd.map(|(upper, len)| format!("{}/{len}", upper_half(upper))),
        profile: config.profile[usize::from(spec.profile)].name.clone(),
        dynamic: control.sessions().is_some_and(|sessions| sessions.has(spec.handle)),
        fast_path: reports.places.get(&spec.handle).map(ToString::to_string),
        up_packets: usage.up_packets,
        up_bytes: usage.up_bytes,
        down_packets: usage.down_packets,
        down_bytes: usage.down_bytes,
    }
}

/// The classes of a subscriber that is shaped.
fn queues(control: &Control, spec: &SubscriberSpec, reports: &Reports) -> Vec<QueueView> {
    let shape = control.layout().profiles.get(usize::from(spec.profile)).and_then(|profile| profile.shape.as_ref());
    let Some((shape, queued)) = shape.zip(reports.queued.get(&spec.handle)) else { return Vec::new() };
    let view = |(n, class): (usize, &String)| {
        let ((packets, bytes), counts) = (queued.waiting[n], queued.classes[n]);
        QueueView {
            subscriber: control.name(spec),
            profile: control.config().profile[usize::from(spec.profile)].name.clone(),
            class: class.clone(),
            waiting_packets: packets.into(),
            waiting_bytes: bytes.into(),
            packets: counts.packets,
            bytes: counts.bytes,
            mean_wait_ns: counts.waited_ns.checked_div(counts.packets).unwrap_or(0),
            queue_full: counts.full.into(),
            queue_management: counts.aqm.into(),
        }
    };
    shape.names.iter().enumerate().map(view).collect()
}

fn groups(control: &Control, reports: &Reports) -> GroupsView {
    let config = control.config();
    let group = |(number, group): (u16, &crate::config::Group)| {
        let last = control.moves().last(number);
        GroupView {
            name: group.name.clone(),
            worker: control.worker_of_group(number).unwrap_or(group.worker),
            here: control.is_here(number),
            process: control.process_of(number).map(str::to_owned),
            home_worker: group.worker,
            subscribers: 0,
            moving: control.moves().concerns(number),
            moves: last.map_or(0, |last| last.1),
            last_move_us: last.map(|last| last.0.took_ns / 1000),
            last_pause_us: last.map(|last| last.0.arrival.pause_ns / 1000),
        }
    };
    let mut groups: Vec<_> = (0..).zip(&config.group).map(group).collect();
    for spec in control.subscribers().filter(|spec| control.is_here(spec.group)) {
        groups[usize::from(spec.group)].subscribers += 1;
    }
    let class = |class: &Class| ClassView {
        class: class.name().to_owned(),
        packets: reports.workers.iter().map(|report| report.counts.punted[*class as usize]).sum(),
        limited: reports.workers.iter().map(|report| report.counts.limited[*class as usize]).sum(),
    };
    let (mut rules, mut counter) = (Vec::new(), 0);
    for acl in &config.acl {
        for rule in acl.rules.iter().map(String::as_str).chain(["default"]) {
            let (packets, bytes) = control.hits(counter);
            counter += 1;
            if packets > 0 {
                rules.push(RuleView { list: acl.name.clone(), rule: rule.to_owned(), packets, bytes });
            }
        }
    }
    GroupsView {
        groups,
        classes: Class::ALL.iter().map(class).collect(),
        rules,
        learnt: reports.workers.iter().map(|report| report.counts.learnt).sum(),
        unanswered: control.unanswered(),
        lost_events: control.lost_events(),
        moves_failed: control.moves().counts().1,
        passed: control.crossings().map(|(passage, _)| passage.passed().into()),
        kernel: control.fast_path().iter().flat_map(Counts::in_words).map(kernel_row).collect(),
    }
}

fn kernel_row((name, count, meaning): (String, u64, String)) -> KernelView {
    KernelView { name, count, meaning }
}

/// The metric families that only a broadband gateway has. Labels are groups and classes; subscribers are too many to have
/// series of their own.
fn page(view: &GroupsView, sessions: &SessionsView, waiting: (u64, u64)) -> Page {
    let mut page = Page::default();
    let mut family = page.family("weir_subscribers", Gauge, "Subscribers of a group.");
    for group in &view.groups {
        family.sample(&[("group", &group.name)], group.subscribers);
    }
    let mut family = page.family("weir_group_worker", Gauge, "The worker that owns a group.");
    for group in view.groups.iter().filter(|group| group.here) {
        family.sample(&[("group", &group.name)], group.worker);
    }
    let mut family = page.family("weir_group_here", Gauge, "Whether this process has a group: 1, or 0.");
    for group in &view.groups {
        family.sample(&[("group", &group.name)], u64::from(group.here));
    }
    if let Some(passed) = &view.passed {
        let help = "Packets of groups that have moved to another process, passed on to it.";
        page.one("weir_group_packets_passed_on_total", Counter, help, passed.on);
        let help = "Packets of groups that another process has passed on to this one.";
        page.one("weir_group_packets_taken_in_total", Counter, help, passed.taken_in);
        let help = "Packets of groups that were not passed on: the other process had them already, took none, or too many waited.";
        page.one("weir_group_packets_not_passed_on_total", Counter, help, passed.not_passed_on);
    }
    let mut family = page.family("weir_group_moves_total", Counter, "Moves of a group to another worker.");
    for group in &view.groups {
        family.sample(&[("group", &group.name)], group.moves);
    }
    let help = "Moves of groups that a worker had no memory for: nothing has changed.";
    page.one("weir_group_moves_failed_total", Counter, help, view.moves_failed);
    let help = "Control packets of access lines, by class.";
    let mut family = page.family("weir_control_packets_total", Counter, help);
    for class in &view.classes {
        family.sample(&[("class", &class.class)], class.packets);
    }
    let help = "Control packets of access lines that were dropped for the rate of their class or line.";
    let mut family = page.family("weir_control_packets_limited_total", Counter, help);
    for class in &view.classes {
        family.sample(&[("class", &class.class)], class.limited);
    }
    let help = "Control packets of access lines that control gave up because no server took them.";
    page.one("weir_control_packets_unanswered_total", Counter, help, view.unanswered);
    let help = "Events that workers could not report because their ring to control was full.";
    page.one("weir_control_events_lost_total", Counter, help, view.lost_events);
    page.one("weir_queue_packets", Gauge, "Packets to shaped subscribers that wait.", waiting.0);
    page.one("weir_queue_bytes", Gauge, "Bytes of packets to shaped subscribers that wait.", waiting.1);
    page.one("weir_sessions", Gauge, "Subscribers that came by DHCP or SLAAC.", sessions.subscribers);
    page.one("weir_leases", Gauge, "Addresses and prefixes that are leased.", sessions.leases);
    let help = "Requests for sessions, by protocol and outcome.";
    let mut family = page.family("weir_session_requests_total", Counter, help);
    for row in &sessions.requests {
        family.sample(&[("protocol", &row.protocol), ("outcome", &row.outcome)], row.requests);
    }
    let help = "Whether a DHCP server that requests are relayed to answers: 1, or 0.";
    let mut family = page.family("weir_dhcp_server_up", Gauge, help);
    for row in &sessions.servers {
        family.sample(&[("server", &row.server), ("instance", &row.instance)], u64::from(row.answers));
    }
    let help = "Requests relayed to a DHCP server.";
    let mut family = page.family("weir_dhcp_server_requests_total", Counter, help);
    for row in &sessions.servers {
        family.sample(&[("server", &row.server), ("instance", &row.instance)], row.requests);
    }
    let help = "Replies of a DHCP server to the gateway as relay agent.";
    let mut family = page.family("weir_dhcp_server_replies_total", Counter, help);
    for row in &sessions.servers {
        family.sample(&[("server", &row.server), ("instance", &row.instance)], row.replies);
    }
    page
}
