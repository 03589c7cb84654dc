//! Authentication and accounting of sessions by RADIUS, and what its servers change of them (RFC 5176).
//!
//! A request of an unknown subscriber is held while a server decides; a line that was rejected is not asked about again for
//! a while. Accounting reports are repeated until a server has taken them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use access::Time;
use access::subscriber::Identity;
use radius::accounting::Status;
use radius::client::{Client, Config as ClientConfig, Event, Server};
use radius::coa::{self, ErrorCause, Received};
use radius::dictionary::number;
use radius::{Attribute, Code, Packet};

use self::kept::{Keeper, Kept, KeptAccount};
use self::reload::{clients, servers, takes_reports};
use super::backlog::Backlog;
use crate::config::RadiusSection;
use crate::slow::ControlPacket;
use crate::subscribers::Usage;

/// Source ports of each client; each has 256 identifiers.
const SOURCES: u16 = 8;
/// Calling-Station-Id (RFC 2865, 5.31) and NAS-Port-Type (5.41), the type Ethernet.
const CALLING_STATION_ID: u8 = 31;
const NAS_PORT_TYPE: u8 = 61;
const ETHERNET: u32 = 15;
/// How long an answer is good for before the first lease.
const GOOD_FOR: u64 = 60_000;
/// CoA requests that are remembered: 109 a second over twice [`WINDOW`].
const REMEMBERED: usize = 65_536;
/// How far from our clock a CoA request's time stamp may be (RFC 5176, 6.3).
const WINDOW: Duration = Duration::from_secs(300);
/// Rejected subscribers that are remembered without a look at when that ends.
const FEWEST_DENIED: usize = 4096;
/// Subscribers that wait for an answer; more are not asked about.
const MOST_HELD: usize = 65_536;

/// The sockets of RADIUS.
#[derive(Debug, Default)]
pub struct Sockets {
    authentication: Vec<UdpSocket>,
    accounting: Vec<UdpSocket>,
    coa: Option<UdpSocket>,
}

fn bound(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Sockets {
    /// As configured.
    ///
    /// # Errors
    /// An address is not ours, or a port is taken.
    pub fn open(config: &RadiusSection) -> io::Result<Self> {
        let any = |peer: IpAddr| match peer {
            IpAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
            IpAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
        };
        let own =
            config.server.first().map_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), |first| any(first.address));
        let several = || (0..SOURCES).map(|_| bound(own)).collect::<io::Result<Vec<_>>>();
        Ok(Self { authentication: several()?, accounting: several()?, coa: config.coa.map(bound).transpose()? })
    }

    /// Those of another process, as [`descriptors`](Self::descriptors) gives them; one for changes that is not handed over is
    /// opened. None: they are not as many as this release has.
    ///
    /// # Errors
    /// The address for changes is not ours, or its port is taken.
    pub fn go_on(config: &RadiusSection, descriptors: Vec<OwnedFd>) -> io::Result<Option<Self>> {
        let mut all: Vec<UdpSocket> = descriptors.into_iter().map(UdpSocket::from).collect();
        let (each, count) = (usize::from(SOURCES), all.len());
        if count != 2 * each && count != 2 * each + 1 {
            return Ok(None);
        }
        let coa = if count > 2 * each { all.pop() } else { None };
        let accounting = all.split_off(each);
        let coa = match config.coa {
            Some(address) => Some(coa.map_or_else(|| bound(address), Ok)?),
            None => None,
        };
        Ok(Some(Self { authentication: all, accounting, coa }))
    }

    /// Descriptors that are readable when something has come.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let all = self.authentication.iter().chain(&self.accounting).chain(&self.coa);
        all.map(|socket| socket.try_clone().map(OwnedFd::from)).collect()
    }
}

/// A client with its source ports.
struct Peer {
    client: Client,
    sockets: Vec<UdpSocket>,
}

impl Peer {
    fn new(servers: Vec<Server>, sockets: Vec<UdpSocket>) -> Self {
        let (keys, mut counter) = (RandomState::new(), 0u64);
        // A keyed hash of a counter: who has no key can't predict it.
        let random = move |out: &mut [u8]| {
            for chunk in out.chunks_mut(8) {
                counter += 1;
                let word = keys.hash_one(counter).to_be_bytes();
                chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
            }
        };
        Self {
            client: Client::new(ClientConfig { sources: SOURCES, ..ClientConfig::default() }, servers, random),
            sockets,
        }
    }

    /// The sockets, in the order of the client's source ports.
    fn descriptors(&self) -> impl Iterator<Item = &UdpSocket> {
        self.sockets.iter()
    }

    fn turn(&mut self, now: u64) {
        let mut bytes = [0; 4096];
        for (source, socket) in self.sockets.iter().enumerate() {
            while let Ok((len, from)) = socket.recv_from(&mut bytes) {
                // What is not an answer to a request of ours is ignored.
                let _ = self.client.receive(now, source as u16, from, bytes.get(..len).unwrap_or_default());
            }
        }
        self.client.tick(now);
        while let Some(transmit) = self.client.next_transmit() {
            if let Some(socket) = self.sockets.get(usize::from(transmit.source)) {
                // What is not sent is sent again.
                let _ = socket.send_to(&transmit.octets, transmit.to);
            }
        }
    }
}

/// What a server has granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Grant {
    /// The name of the tier (Filter-Id); none: the group's.
    pub profile: Option<String>,
    class: Vec<Vec<u8>>,
    interim: Option<u32>,
    user: String,
    at: u64,
}

/// How a subscriber stands with the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may have what it asks for.
    Granted,
    /// As granted; it has a session of an earlier run, and is to be asked about meanwhile.
    Restored,
    /// It was rejected, or is not asked about now.
    Denied,
    /// It is being asked about.
    Waits,
    /// Nobody has asked.
    Unknown,
}

/// What a server has decided.
#[derive(Debug)]
pub enum Decision {
    /// A subscriber may have a session; its request, if one waits.
    Accepted(Identity, Option<ControlPacket>),
    /// A change of a session is asked for.
    Change(coa::Ticket, Packet),
}

/// An accounted session.
#[derive(Clone, Debug)]
struct Account {
    id: String,
    grant: Grant,
    about: Vec<Attribute>,
    began: Time,
    /// When the next interim report is due, in ms of the clock of reports; 0: never.
    interim: u64,
    /// Number of its interim report that waits, if one does.
    unsent: u64,
    /// Its key in the ledger; 0: it has none.
    key: u64,
    /// What it had used in earlier runs, which workers do not count.
    used: kept::Row,
    /// What it has used as the ledger has it; none: a release that does not say so has written that.
    reported: Option<kept::Row>,
}

impl Account {
    /// As the ledger has it.
    fn kept(key: u64, kept: KeptAccount) -> Self {
        let KeptAccount { id, began, grant, used, about, .. } = kept;
        let (about, began, reported) = (hand_over::read(about), Time(began), Some(used));
        Self { id, grant, about, began, interim: 0, unsent: 0, key, used, reported }
    }
}

/// Counters of RADIUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AaaCounts {
    /// Access-Accepts received and valid.
    pub accepted: u64,
    /// Access-Rejects received and valid.
    pub rejected: u64,
    /// Access-Requests that no server answered.
    pub unanswered: u64,
    /// Requests of lines that were rejected lately.
    pub denied: u64,
    /// Requests that no server was asked about: too many wait, or an attribute does not fit.
    pub not_asked: u64,
    /// Requests whose place a later one of the same subscriber took, while a server decided.
    pub superseded: u64,
    /// Accounting reports that a server has taken.
    pub reported: u64,
    /// Accounting reports that can't be written as a packet.
    pub reports_malformed: u64,
    /// Accounting reports that there was no room for.
    pub reports_dropped: u64,
    /// CoA- and Disconnect-Requests that were dropped: forged, late, or of a stranger.
    pub coa_dropped: u64,
}

/// Authentication and accounting.
pub struct Aaa {
    config: RadiusSection,
    authentication: Peer,
    accounting: Peer,
    coa: Option<(UdpSocket, coa::Server)>,
    next: u64,
    asking: HashMap<u64, (Identity, String)>,
    /// Subscribers that are asked about, and the request that waits for it.
    held: HashMap<Identity, Option<ControlPacket>>,
    /// Subscribers with a session of an earlier run, which no server has decided about since.
    restored: HashSet<Identity>,
    grants: HashMap<Identity, Grant>,
    /// When grants were made, in ms, oldest first: those without a session end after [`GOOD_FOR`].
    fresh: VecDeque<(u64, Identity)>,
    denied: HashMap<Identity, u64>,
    /// As many of them as are kept without a look at their times.
    denied_limit: usize,
    accounts: HashMap<u32, Account>,
    /// When interim reports are due; what does not match its account is out of date.
    interims: BinaryHeap<Reverse<(u64, u32)>>,
    /// Reports that the client had no room for.
    backlog: Backlog,
    /// What the ledger is to keep.
    keeper: Keeper,
    /// Sessions of an earlier run that have not gone on, each with its key in the ledger.
    kept: HashMap<Identity, (u64, KeptAccount)>,
    /// Those whose subscribers have a newer one: they have ended.
    older: Vec<(u64, KeptAccount)>,
    /// Whether a server takes accounting reports.
    reports: bool,
    /// As a reload has it; the next turn goes by it.
    following: Option<RadiusSection>,
    /// Distinguishes this run's session identifiers.
    run: u32,
    /// Distinguishes this process's from others that begin in the same second.
    tag: String,
    /// By how many milliseconds the wall clock is ahead of the one that reports are timed by.
    wall_ahead_ms: i64,
    counts: AaaCounts,
}

impl Aaa {
    /// As configured, with records that the ledger has of an earlier run, and that run's number. Its sessions are to go on by
    /// [`start`](Self::start); [`end_others`](Self::end_others) ends those that do not. `is_alone`: no other process has sessions that
    /// servers take for this one's.
    pub fn new(
        config: &RadiusSection,
        sockets: Sockets,
        now: Time,
        (kept, before): (impl IntoIterator<Item = (u64, Kept)>, Option<u32>),
        is_alone: bool,
    ) -> Self {
        let mut this = Self::of(config, sockets, now);
        // Two runs in a second, or after the clock was set back, have different identifiers.
        this.run = this.run.max(before.map_or(0, |before| before.saturating_add(1)));
        if this.reports {
            this.keeper.run(this.run);
        }
        let (mut reports, mut accounts) = (Vec::new(), Vec::new());
        for (key, kept) in kept {
            this.keeper.taken(key);
            match kept {
                Kept::Report(report) => reports.push((key, report)),
                Kept::Account(account) => accounts.push((key, *account)),
            }
        }
        // Of two sessions of a subscriber the newer one goes on. The ledger gives what was written last first.
        accounts.sort_unstable_by_key(|(key, _)| *key);
        for (key, account) in accounts {
            let identity = hand_over::identity(account.of);
            this.grants.insert(identity, Grant { at: 0, ..account.grant.clone() });
            this.older.extend(this.kept.insert(identity, (key, account)));
        }
        let has_sessions = !this.kept.is_empty();
        reports.sort_unstable_by_key(|(key, _)| *key);
        reports.into_iter().for_each(|(key, report)| this.backlog.start(report, key, 0));
        // Sessions of an earlier run that a server still has are over (RFC 2866, 5.1), unless they go on.
        if this.reports && !has_sessions && is_alone {
            let on = this.report(Status::On, &format!("{:08x}", this.run), &[], (now, 0), None, None);
            this.backlog.start(on, 0, this.keeper.step());
        }
        this
    }

    /// Forgets the sessions of an earlier run that go on in another process.
    pub fn forget_others(&mut self, go_on: impl Fn(&Identity) -> bool) {
        let gone: Vec<_> = self.kept.keys().filter(|identity| go_on(identity)).copied().collect();
        for identity in gone {
            self.grants.remove(&identity);
            let key = self.kept.remove(&identity).map_or(0, |(key, _)| key);
            self.keeper.forget(key);
        }
    }

    /// With what tells its sessions' identifiers from those of other processes.
    pub fn tagged(self, tag: String) -> Self {
        Self { tag, ..self }
    }

    /// Ends the sessions of an earlier run whose subscribers have nothing any more: they ended with the process, or while none
    /// ran.
    pub fn end_others(&mut self, now: Time) {
        /// NAS Reboot (RFC 2866, 5.10).
        const REBOOT: u32 = 11;
        let mut all = std::mem::take(&mut self.older);
        for (identity, one) in std::mem::take(&mut self.kept) {
            self.grants.remove(&identity);
            all.push(one);
        }
        for (key, kept) in all {
            let account = Account::kept(key, kept);
            self.stop_of(&account, &kept::sum(&account.used, &Usage::default()), now, REBOOT);
        }
    }

    /// Hands changes to the ledger; see [`Keeper::turn`].
    pub(super) fn keeper(&mut self) -> &mut Keeper {
        &mut self.keeper
    }

    /// As configured.
    pub(super) fn of(config: &RadiusSection, sockets: Sockets, now: Time) -> Self {
        let [authentication, accounting] = servers(config);
        let needs_timestamp = config.require_event_timestamp;
        let coa = |socket| (socket, coa::Server::new(clients(config), WINDOW, needs_timestamp, REMEMBERED));
        Self {
            authentication: Peer::new(authentication, sockets.authentication),
            accounting: Peer::new(accounting, sockets.accounting),
            coa: sockets.coa.map(coa),
            config: config.clone(),
            next: 0,
            asking: HashMap::new(),
            held: HashMap::new(),
            restored: HashSet::new(),
            grants: HashMap::new(),
            fresh: VecDeque::new(),
            denied: HashMap::new(),
            denied_limit: FEWEST_DENIED,
            accounts: HashMap::new(),
            interims: BinaryHeap::new(),
            backlog: Backlog::default(),
            keeper: Keeper::default(),
            kept: HashMap::new(),
            older: Vec::new(),
            reports: takes_reports(config),
            following: None,
            run: now.secs(),
            tag: String::new(),
            wall_ahead_ms: 0,
            counts: AaaCounts::default(),
        }
    }

    /// Its sockets, for another process.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let clients = self.authentication.descriptors().chain(self.accounting.descriptors());
        let all = clients.chain(self.coa.iter().map(|(socket, _)| socket));
        all.map(|socket| socket.try_clone().map(OwnedFd::from)).collect()
    }

    /// The wall clock is ahead by so many milliseconds: for time stamps.
    pub(crate) fn set_wall_clock(&mut self, ahead_ms: i64) {
        self.wall_ahead_ms = ahead_ms;
    }

    fn wall(&self, now: Time) -> Time {
        Time(now.0.saturating_add_signed(self.wall_ahead_ms))
    }

    /// Counters.
    pub fn counts(&self) -> AaaCounts {
        let Backlog { malformed, dropped, .. } = self.backlog;
        AaaCounts { reports_malformed: malformed, reports_dropped: dropped, ..self.counts }
    }

    /// How a subscriber stands; `has_session`: it has something already.
    pub fn standing(&mut self, identity: &Identity, has_session: bool, steady: Time) -> Standing {
        let is_restored = has_session && self.restored.contains(identity);
        match self.held.contains_key(identity) {
            true if is_restored => return Standing::Granted,
            true => return Standing::Waits,
            false if is_restored => return Standing::Restored,
            false => {}
        }
        match self.grants.get(identity) {
            Some(grant) if has_session || grant.at + GOOD_FOR > steady.0 => return Standing::Granted,
            Some(_) => drop(self.grants.remove(identity)),
            None => {}
        }
        match self.denied.get(identity) {
            Some(until) if *until > steady.0 => {
                self.counts.denied += 1;
                Standing::Denied
            }
            Some(_) => {
                self.denied.remove(identity);
                Standing::Unknown
            }
            None => Standing::Unknown,
        }
    }

    /// Holds a request while a server decides about its subscriber; of several the last one is kept.
    pub fn hold(&mut self, identity: Identity, packet: ControlPacket) {
        if let Some(held) = self.held.get_mut(&identity) {
            self.counts.superseded += u64::from(held.replace(packet).is_some());
        }
    }

    /// A subscriber has a session of an earlier run: it is served while a server is asked about it.
    pub fn restored(&mut self, identity: Identity) {
        self.restored.insert(identity);
    }

    /// A session's reports are those of what its subscriber was granted: one of an earlier run began without. Its name stays:
    /// servers tell sessions by it.
    pub fn adopt(&mut self, handle: u32, identity: &Identity, now: Time) {
        let Some((account, grant)) = self.accounts.get_mut(&handle).zip(self.grants.get(identity)) else { return };
        let before = std::mem::replace(&mut account.grant, grant.clone());
        if !before.user.is_empty() {
            account.grant.user = before.user;
        }
        self.schedule(handle, now);
    }

    /// Asks whether a subscriber may have a session, and holds its request, if one is to wait. `user` names it; `about` is what
    /// else is told.
    pub fn ask(
        &mut self,
        identity: Identity,
        packet: Option<ControlPacket>,
        user: String,
        about: Vec<Attribute>,
        steady: Time,
    ) {
        if self.held.len() >= MOST_HELD {
            self.counts.not_asked += 1;
            return;
        }
        let mut attributes = vec![Attribute::octets(number::USER_NAME, &user)];
        attributes.extend(about);
        attributes.extend(self.nas());
        self.next += 1;
        let password = self.config.password.clone();
        let sent = self.authentication.client.authenticate(steady.0, self.next, attributes, Some(password.as_bytes()));
        if sent.is_ok() {
            self.asking.insert(self.next, (identity, user));
            self.held.insert(identity, packet);
        } else {
            self.counts.not_asked += 1;
        }
    }

    fn nas(&self) -> [Attribute; 2] {
        let name = Attribute::octets(number::NAS_IDENTIFIER, &self.config.nas_identifier);
        [name, Attribute::integer(NAS_PORT_TYPE, ETHERNET)]
    }

    /// What a subscriber was granted.
    pub fn grant(&self, identity: &Identity) -> Option<&Grant> {
        self.grants.get(identity)
    }

    /// Removes grants whose subscribers never took a lease.
    pub fn sweep(&mut self, steady: Time, has_session: impl Fn(&Identity) -> bool) {
        while let Some((at, identity)) = self.fresh.front().copied()
            && at + GOOD_FOR <= steady.0
        {
            self.fresh.pop_front();
            if !has_session(&identity) && self.grants.get(&identity).is_some_and(|grant| grant.at == at) {
                self.grants.remove(&identity);
            }
        }
    }

    /// A turn; what servers have decided. Requests and grants live by `steady`, sessions and their reports by `now`, as in
    /// other methods. Neither clock is set.
    pub fn turn(&mut self, now: Time, steady: Time) -> Vec<Decision> {
        if let Some(section) = self.following.take() {
            self.go_by(section, now, steady);
        }
        let (next, client) = (&mut self.next, &mut self.accounting.client);
        let durable = self.keeper.durable();
        let (keeper, mut dropped) = (&mut self.keeper, Vec::new());
        let give = |report, key| {
            *next += 1;
            client.account(steady.0, *next, report)?;
            keeper.gave(*next, key);
            Ok(())
        };
        self.backlog.hand_over(durable, give, |key| dropped.push(key));
        dropped.into_iter().for_each(|key| self.keeper.forget(key));
        self.authentication.turn(steady.0);
        self.accounting.turn(steady.0);
        let mut decisions = Vec::new();
        while let Some(event) = self.authentication.client.next_event() {
            match event {
                Event::Answer(number, packet) => self.answered(number, Some(packet), steady, &mut decisions),
                Event::NoAnswer(number) => self.answered(number, None, steady, &mut decisions),
                other => report_server("authentication", &other, &self.config),
            }
        }
        while let Some(event) = self.accounting.client.next_event() {
            match event {
                Event::Acknowledged(number) => {
                    self.counts.reported += 1;
                    self.keeper.acknowledged(number);
                }
                other => report_server("accounting", &other, &self.config),
            }
        }
        self.take_changes(now, steady, &mut decisions);
        if self.denied.len() > self.denied_limit {
            self.denied.retain(|_, until| *until > steady.0);
            // Looked at again when there are twice as many: a flood of invented subscribers costs no look each turn.
            self.denied_limit = FEWEST_DENIED.max(self.denied.len() * 2);
        }
        decisions
    }

    fn answered(&mut self, number: u64, packet: Option<Packet>, steady: Time, decisions: &mut Vec<Decision>) {
        let Some((identity, user)) = self.asking.remove(&number) else { return };
        let Some(held) = self.held.remove(&identity) else { return };
        if packet.is_some() {
            self.restored.remove(&identity);
        }
        match packet {
            Some(packet) if packet.code == Code::AccessAccept => {
                self.counts.accepted += 1;
                let text = |code: u8| packet.get(code).and_then(Attribute::to_text).map(str::to_owned);
                let grant = Grant {
                    profile: text(number::FILTER_ID),
                    class: packet.all(number::CLASS).map(|class| class.value.clone()).collect(),
                    interim: packet.get(number::ACCT_INTERIM_INTERVAL).and_then(Attribute::to_integer),
                    user,
                    at: steady.0,
                };
                self.grants.insert(identity, grant);
                self.fresh.push_back((steady.0, identity));
                decisions.push(Decision::Accepted(identity, held));
            }
            Some(_) => {
                self.counts.rejected += 1;
                // One of an earlier run was granted until now.
                self.grants.remove(&identity);
                self.denied.insert(identity, steady.0 + u64::from(self.config.reject_seconds) * 1000);
            }
            // Its client asks again.
            None => self.counts.unanswered += 1,
        }
    }

    fn take_changes(&mut self, now: Time, steady: Time, decisions: &mut Vec<Decision>) {
        let wall = self.wall(now);
        let Some((socket, server)) = &mut self.coa else { return };
        let mut bytes = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let octets = bytes.get(..len).unwrap_or_default();
            match server.receive(from, octets, wall.secs().into(), steady.0 / 1000) {
                Ok(Received::Request(ticket, packet)) => decisions.push(Decision::Change(ticket, packet)),
                Ok(Received::Again(answer)) => drop(socket.send_to(&answer, from)),
                Err(_) => self.counts.coa_dropped += 1,
            }
        }
    }

    /// Answers a request for a change.
    pub fn answer(&mut self, ticket: coa::Ticket, result: Result<(), ErrorCause>) {
        let Some((socket, server)) = &mut self.coa else { return };
        if let Some((to, octets)) = server.answer(ticket, result) {
            let _ = socket.send_to(&octets, to);
        }
    }

    /// The session that a request for a change names: its handle.
    pub fn named(&self, packet: &Packet) -> Option<u32> {
        let text = |code: u8| packet.get(code).and_then(Attribute::to_text);
        let (id, user) = (text(number::ACCT_SESSION_ID), text(number::USER_NAME));
        let is_it = |account: &Account| {
            id.is_none_or(|id| account.id == id) && user.is_none_or(|user| account.grant.user == user)
        };
        if id.is_none() && user.is_none() {
            return None;
        }
        self.accounts.iter().find(|(_, account)| is_it(account)).map(|(handle, _)| *handle)
    }

    /// A subscriber is gone: who it was is asked for again.
    pub fn forget(&mut self, identity: &Identity) {
        self.grants.remove(identity);
        self.restored.remove(identity);
    }

    /// When there is something to do, by the clock that shows `now` when the other one shows `steady`.
    pub fn next_due(&self, now: Time, steady: Time) -> Option<Time> {
        let clients = [self.authentication.client.next_due(), self.accounting.client.next_due()];
        let clients = clients.into_iter().flatten().map(|due| now.0 + due.saturating_sub(steady.0));
        let interim = self.interims.peek().map(|Reverse((at, _))| *at);
        let is_due = self.backlog.is_due(self.keeper.durable()) || self.keeper.is_due();
        let backlog = (is_due || self.following.is_some()).then_some(0);
        clients.chain(interim).chain(backlog).min().map(Time)
    }
}

/// What is told of a subscriber in requests: its hardware address and its line.
pub fn about(mac: Option<[u8; 6]>, line: &str) -> Vec<Attribute> {
    let mut about = vec![Attribute::octets(number::NAS_PORT_ID, line)];
    about.extend(mac.map(|mac| Attribute::octets(CALLING_STATION_ID, wire::Mac(mac).to_string())));
    about
}

fn report_server(what: &str, event: &Event, config: &RadiusSection) {
    let of = |server: usize| config.server.get(server).map(|server| server.address.to_string()).unwrap_or_default();
    match event {
        Event::Dead(server) => {
            let server = of(*server);
            tracing::warn!(target: "sessions", event = "radius_dead", server, "no answer from the {what} server {server}");
        }
        Event::Alive(server) => {
            let server = of(*server);
            tracing::info!(target: "sessions", event = "radius_alive", server, "the {what} server {server} answers again");
        }
        _ => {}
    }
}

mod accounting;
pub mod crossing;
pub mod hand_over;
pub mod kept;
mod reload;
#[cfg(test)]
mod tests;
