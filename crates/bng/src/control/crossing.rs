//! Groups that move between this process and others: what a worker does of it, as a move to the passage or from it, and what
//! whoever talks to the other process asks for. See `crate::product::crossing` for the whole.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dataplane::neighbour::{Station, announcement};
use engine::{ARRIVING, Outside, Owner, SteerKey};
use gateway::moves::owners::Owners;
use gateway::moves::passage::{Passage, Sorts};
use gateway::moves::{Move, Outcome, Step};
use table::ring::{Consumer, Producer};
use table::waker::Waker;
use wire::ethernet::{Tag, Tags};
use wire::{Outer, Vlan};

use super::{Control, PACKETS, Refusal};
use crate::config::GroupPlan;
use crate::gateway::{Command, PortsStep};
use crate::moving::Parcel;
use crate::record::SubscriberSpec;
use crate::sessions::Sessions;
use crate::sessions::crossing::GroupNumbers;
use crate::slow::ControlPacket;
use crate::steer::{Directory, ELSEWHERE, Side};

/// The number of the question whether ports are empty, among those of [`super::steer_ports`].
pub(super) const EMPTY: u32 = u32::MAX;

/// A group that moves to another process or from one.
#[derive(Default)]
struct Running {
    group: u16,
    /// A departure: what the worker exports, and of how many subscribers.
    from_worker: Option<(Consumer<Box<Parcel>>, usize)>,
    /// An arrival: what the worker takes in.
    to_worker: Option<Producer<Box<Parcel>>>,
    /// The worker has exported everything.
    left: bool,
    /// It does not take place: nobody has the group here afterwards.
    aborted: bool,
    /// How it ended.
    outcome: Option<Outcome>,
}

/// Groups that move between processes, and those that have.
#[derive(Default)]
pub(super) struct Crossings {
    passage: Option<Arc<Passage>>,
    owners: Option<Owners>,
    running: Option<Running>,
    /// The group that is about to move, or moves, in the hands of whoever talks to the other process.
    reserved: Option<u16>,
    /// Sessions stand still.
    is_still: bool,
    /// The process that has each group that is not here.
    at: BTreeMap<u16, String>,
    /// The member of the hand-off rings that the passage is to be, and what workers wake it by.
    outside: Option<(Outside, Waker)>,
    /// Workers that have found their ports empty.
    empty: usize,
}

impl Crossings {
    pub(super) fn number(&self) -> Option<Owner> {
        self.passage.as_ref().map(|passage| passage.number())
    }

    pub(super) fn concerns(&self, of: &Move) -> bool {
        self.number().is_some_and(|number| of.from == number || of.to == number)
    }

    pub(super) fn is_still(&self) -> bool {
        self.is_still
    }

    /// Whether a group moves to another process or from one, or is about to.
    pub(super) fn is_taken(&self) -> bool {
        self.reserved.is_some() || self.running.is_some()
    }

    pub(super) fn left(&mut self) {
        self.running.iter_mut().for_each(|running| running.left = true);
    }

    pub(super) fn found_empty(&mut self) {
        self.empty += 1;
    }

    pub(super) fn take(&mut self, parcels: Consumer<Box<Parcel>>, subscribers: usize) {
        if let Some(running) = &mut self.running {
            running.from_worker = Some((parcels, subscribers));
        }
    }

    pub(super) fn give(&mut self, parcels: Producer<Box<Parcel>>) {
        if let Some(running) = &mut self.running {
            running.to_worker = Some(parcels);
        }
    }
}

/// What the passage knows of frames.
pub struct Sorting {
    directory: Arc<Directory>,
    /// Hardware addresses of ports, by number.
    macs: Vec<[u8; 6]>,
}

impl Sorting {
    fn side(&self, port: u8, frame: &[u8]) -> Option<Side> {
        self.directory.side(port, &Outer::parse(frame).ok()?)
    }
}

impl Sorts for Sorting {
    fn group(&self, port: u8, frame: &[u8]) -> Option<u16> {
        self.directory.group_of(port, frame)
    }

    fn owner(&self, port: u8, frame: &[u8]) -> Option<Owner> {
        match self.directory.steer(port, frame)? {
            SteerKey::Owner(owner) => Some(owner),
            _ => None,
        }
    }

    fn is_ours_alone(&self, port: u8, frame: &[u8], late: bool) -> bool {
        let to_one = frame.first().is_some_and(|first| first & 1 == 0);
        to_one && (!late || self.side(port, frame) == Some(Side::Core))
    }

    fn adopt(&self, port: u8, frame: &mut [u8]) {
        // Lines send to the group's address, which both processes have; the core sends to the port's.
        if self.side(port, frame) == Some(Side::Core)
            && let Some((to, mac)) = frame.first_chunk_mut::<6>().zip(self.macs.get(usize::from(port)))
        {
            *to = *mac;
        }
    }
}

impl Control {
    /// What the passage is to know.
    pub(crate) fn sorting(&self) -> Option<Arc<Sorting>> {
        let directory = Directory::new(&self.config, &self.layout, self.nat.as_ref()).ok()?;
        Some(self.sorting_by(Arc::new(directory)))
    }

    fn sorting_by(&self, directory: Arc<Directory>) -> Arc<Sorting> {
        let macs = self.neighbourhood.plan().ports.iter().map(|view| view.mac).collect();
        Arc::new(Sorting { directory, macs })
    }

    pub(super) fn sort_passage(&self, directory: &Arc<Directory>) {
        if let Some(passage) = &self.crossing.passage {
            passage.sort(self.sorting_by(directory.clone()));
        }
    }

    /// With the member of the hand-off rings that a passage is to be.
    pub(crate) fn with_outside(mut self, outside: Option<(Outside, Waker)>) -> Self {
        self.crossing.outside = outside;
        self
    }

    /// The member of the hand-off rings that a passage is to be; none: groups move between workers only.
    pub(crate) fn take_outside(&mut self) -> Option<(Outside, Waker)> {
        self.crossing.outside.take()
    }

    /// Groups move between this process and others from now on.
    pub(crate) fn set_passage(&mut self, passage: Arc<Passage>, owners: Owners) {
        let groups = (0u16..).zip(&self.layout.groups).filter(|(_, plan)| plan.worker == ELSEWHERE);
        for (number, _) in groups {
            let name = self.config.group.get(usize::from(number)).map_or("", |group| &group.name);
            if let Ok(Some(owner)) = owners.owner(name) {
                self.crossing.at.insert(number, owner);
            }
        }
        (self.crossing.passage, self.crossing.owners) = (Some(passage), Some(owners));
    }

    /// Who passes packets of groups on, and what tells whose they are; none: groups move between workers only.
    pub(crate) fn crossings(&self) -> Option<(Arc<Passage>, Owners)> {
        self.crossing.passage.clone().zip(self.crossing.owners.clone())
    }

    /// The process that has a group; none: this one, or it is not known.
    pub fn process_of(&self, group: u16) -> Option<&str> {
        self.crossing.at.get(&group).map(String::as_str)
    }

    /// The worker of this process that has a group; none: another process has it.
    pub fn worker_of_group(&self, group: u16) -> Option<Owner> {
        self.worker(group).ok().map(|worker| worker as Owner) // fewer than 64
    }

    /// Whether a worker of this process has a group.
    pub fn is_here(&self, group: u16) -> bool {
        self.worker(group).is_ok()
    }

    /// Whether a group moves between processes, or packets of one are passed on to another process or by one.
    pub(crate) fn is_crossing(&self) -> bool {
        let passed = self.crossing.passage.as_ref().is_some_and(|passage| {
            let mut groups = (0u16..).zip(&self.layout.groups);
            groups.any(|(group, plan)| plan.worker == passage.number() || passage.sources(group) > 0)
        });
        passed || self.crossing.is_taken()
    }

    /// Why a group cannot go to another process, or come from one; none: it can.
    fn why_it_stays(&self, group: u16) -> Option<String> {
        if let Some(why) = self.immovable(group) {
            return Some(why.to_owned());
        }
        if self.fast_path().is_some() {
            return Some("ports have fast_path: subscribers in the kernel do not move between processes".to_owned());
        }
        if self.moves.is_busy() || self.port_change.is_some() || self.crossing.is_taken() {
            return Some("a group moves at the moment; try again when it has: `weir show groups`".to_owned());
        }
        if self.succession.has_begun() {
            return Some("another process takes over; try again there".to_owned());
        }
        let plan = self.layout.groups.get(usize::from(group))?;
        plan.mac.is_none().then(|| {
            "it has no `mac`: its subscribers would send to the ports' hardware addresses, which are each process's own".to_owned()
        })
    }

    /// Whether there are sessions here of a group that is not here yet: nothing of it may end, and its worker does not
    /// know what it has used.
    pub(crate) fn is_arriving(&self) -> bool {
        self.crossing.reserved.is_some_and(|group| !self.is_here(group))
    }

    /// Keeps other moves, reloads and a take-over away until [`release`](Self::release): a group is about to go to
    /// another process, or to come from one.
    ///
    /// # Errors
    /// [Why it stays](Self::why_it_stays).
    pub(crate) fn reserve(&mut self, group: u16) -> Result<(), String> {
        if let Some(why) = self.why_it_stays(group) {
            return Err(why);
        }
        self.crossing.reserved = Some(group);
        Ok(())
    }

    /// Whoever has [reserved](Self::reserve) is done.
    pub(crate) fn release(&mut self) {
        self.crossing.reserved = None;
    }

    /// Has a group leave to the passage. The first step waits for [`go_on_crossing`](Self::go_on_crossing).
    ///
    /// # Errors
    /// It is not here, or moves.
    pub(crate) fn depart(&mut self, group: u16) -> Result<(), Refusal> {
        let from = self.worker(group)? as Owner; // workers are fewer than 64
        self.cross(group, |number| Move { group, from, to: number })?;
        self.crossing.is_still = true;
        self.deadline = None;
        Ok(())
    }

    /// Has a group come from the passage to its worker.
    ///
    /// # Errors
    /// The group is on a move already.
    pub(crate) fn come(&mut self, group: u16) -> Result<(), Refusal> {
        let to = self.config.group.get(usize::from(group)).map_or(0, |group| group.worker);
        self.cross(group, |number| Move { group, from: number, to })
    }

    fn cross(&mut self, group: u16, of: impl FnOnce(Owner) -> Move) -> Result<(), Refusal> {
        let number = self.crossing.number().ok_or_else(|| Refusal("there is no [moves]".to_owned()))?;
        if self.crossing.running.is_some() || self.moves.is_busy() || self.crossing.reserved != Some(group) {
            return Err(Refusal("a group moves at the moment".to_owned()));
        }
        self.crossing.running = Some(Running { group, ..Running::default() });
        if self.moves.request(of(number)) {
            return Ok(());
        }
        self.crossing.running = None;
        Err(Refusal("the group moves already".to_owned()))
    }

    /// The step that waits for whoever talks to the other process goes on.
    pub(crate) fn go_on_crossing(&mut self, done: bool) {
        self.moves.answered(done);
    }

    /// The departure that is made does not take place: the passage has the group afterwards, which can come back.
    pub(crate) fn abort_departure(&mut self) {
        self.crossing.running.iter_mut().for_each(|running| running.aborted = true);
        self.moves.answered(true);
    }

    /// The arrival that is made, of which every worker knows, does not take place: nobody has the group here afterwards.
    pub(crate) fn abort_arrival(&mut self) {
        let Some(running) = &mut self.crossing.running else { return };
        running.aborted = true;
        let group = running.group;
        let to = self.config.group.get(usize::from(group)).map_or(0, |group| group.worker);
        // Nothing that was held may be forwarded.
        let answers = self.send_discards(&Move { group, from: to, to }, to);
        self.moves.await_more(answers);
    }

    /// What the worker exports, and of how many subscribers, once it has been told to.
    pub(crate) fn take_parcels(&mut self) -> Option<(Consumer<Box<Parcel>>, usize)> {
        self.crossing.running.as_mut()?.from_worker.take()
    }

    /// By what the worker takes the group's state in, and of how many subscribers, once every worker knows of the move.
    pub(crate) fn take_way_in(&mut self) -> Option<(Producer<Box<Parcel>>, usize)> {
        let is_told = self.moves.stage() == Some((Step::Switch, 1));
        let way = self.crossing.running.as_mut().filter(|_| is_told)?.to_worker.take()?;
        Some((way, self.moving.len()))
    }

    /// How many subscribers of a group are configured: they have the lowest numbers.
    pub(crate) fn fixed(&self) -> u32 {
        self.config.subscriber.iter().map(|entry| entry.count).sum()
    }

    /// Sessions finish what they have begun, without taking in more. Whether nothing is under way.
    pub(crate) fn settle_sessions(&mut self) -> bool {
        let mut sessions = self.sessions.take();
        let are_settled = sessions.as_mut().is_none_or(|sessions| sessions.settle(self));
        self.sessions = sessions;
        are_settled && self.refreshing == 0
    }

    /// Adds what sessions have of a group, at [rest](Self::settle_sessions).
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn export_group(&mut self, group: u16, out: &mut Vec<u8>) -> Result<(), String> {
        self.with_sessions(|sessions, control| sessions.export_group(control, group, out)).unwrap_or(Ok(()))
    }

    /// Takes in what another process has exported of a group.
    ///
    /// # Errors
    /// It does not fit; a sentence.
    pub(crate) fn take_in_group(&mut self, octets: &[u8], numbers: &mut GroupNumbers) -> Result<(), String> {
        self.with_sessions(|sessions, control| sessions.take_in_group(control, octets, numbers)).unwrap_or(Ok(()))
    }

    /// Forgets sessions of a group, which another process has.
    pub(crate) fn let_group_go(&mut self, group: u16) {
        let _ = self.with_sessions(|sessions, control| sessions.let_group_go(control, group));
    }

    /// Whether everything that was taken in is on the disk.
    pub(crate) fn is_kept(&mut self) -> bool {
        self.sessions.as_mut().is_none_or(|sessions| sessions.is_kept())
    }

    /// Leases that the ledger did not take.
    pub(crate) fn refused_by_ledger(&self) -> u64 {
        self.sessions.as_ref().map_or(0, |sessions| sessions.refused_by_ledger())
    }

    fn with_sessions<T>(&mut self, with: impl FnOnce(&mut Sessions, &mut Self) -> T) -> Option<T> {
        let mut sessions = self.sessions.take()?;
        let result = with(&mut sessions, self);
        self.sessions = Some(sessions);
        Some(result)
    }

    /// Has workers look at what was handed to them.
    pub(crate) fn wake_workers(&self) {
        self.links.iter().for_each(|link| link.waker.nudge());
    }

    /// Configured subscribers of a group, and a digest of what tells them apart.
    pub(crate) fn fixed_of(&self, group: u16) -> (Vec<u32>, u64) {
        let fixed = self.fixed();
        let specs = || self.of_group(group).filter(|spec| spec.handle < fixed);
        // FNV-1a: the same in every release.
        let mut digest = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |number: u64| digest = (digest ^ number).wrapping_mul(0x100_0000_01b3);
        for spec in specs() {
            let mac = spec.mac.map_or(u64::MAX, |mac| mac.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet)));
            let line =
                u64::from(spec.line.port) << 32 | u64::from(spec.line.s_vlan) << 16 | u64::from(spec.line.c_vlan);
            let (pd, len) = spec.pd.unwrap_or((u64::MAX, 0));
            let ipv4 = spec.ipv4.map_or(u64::MAX, u64::from);
            [line, mac, ipv4, spec.wan.unwrap_or(u64::MAX), pd, len.into()].into_iter().for_each(&mut add);
        }
        (specs().map(|spec| spec.handle).collect(), digest)
    }

    /// The group of a line; none: no group has it.
    pub(crate) fn group_of_line(&self, port: u16, s_vlan: u16) -> Option<u16> {
        let has = |plan: &GroupPlan| {
            plan.ports.iter().any(|own| u16::from(*own) == port) && plan.s_vlans.offset(s_vlan).is_some()
        };
        self.layout.groups.iter().position(has).map(|at| at as u16) // as many as groups
    }

    /// Notes a subscriber that another process has handed over; it is installed with its group.
    pub(crate) fn take_on(&mut self, spec: SubscriberSpec) {
        self.note(spec);
    }

    /// A subscriber is another process's: no worker has it any more.
    pub(crate) fn let_go(&mut self, handle: u32) {
        if let Some(place) = self.subscribers.get_mut(handle as usize) {
            *place = None;
        }
    }

    /// Takes out control packets of a group that nobody has answered.
    pub(crate) fn take_packets_of(&mut self, group: u16) -> Vec<ControlPacket> {
        let (own, rest): (VecDeque<_>, _) =
            std::mem::take(&mut self.packets).into_iter().partition(|packet| packet.group == group);
        self.packets = rest;
        own.into()
    }

    /// Adds control packets that another process has received.
    pub(crate) fn add_packets(&mut self, packets: Vec<ControlPacket>) {
        let room = PACKETS.saturating_sub(self.packets.len());
        self.packets.extend(packets.into_iter().take(room));
    }

    /// Whether the worker has exported everything.
    pub(crate) fn has_left(&self) -> bool {
        self.crossing.running.as_ref().is_some_and(|running| running.left)
    }

    /// How the move has gone, once it has ended.
    pub(crate) fn take_crossed(&mut self) -> Option<Outcome> {
        let outcome = self.crossing.running.as_ref()?.outcome?;
        self.crossing.running = None;
        Some(outcome)
    }

    /// Sessions go on; a group that is another process's now is known to be there.
    pub(crate) fn end_crossing(&mut self, at: Option<(u16, &str)>) {
        self.crossing.is_still = false;
        self.deadline = Some(0);
        if let Some((group, at)) = at {
            self.crossing.at.insert(group, at.to_owned());
        }
    }

    /// Whether workers have carried out all that they were told.
    pub(crate) fn is_answered(&self) -> bool {
        self.links.iter().all(|link| link.backlog.is_empty() && link.commands.unanswered() == 0)
    }

    /// Asks workers to tell when everything that their ports have had until now is handed over.
    pub(crate) fn ask_empty(&mut self) {
        self.crossing.empty = 0;
        self.links.iter_mut().for_each(|link| link.post(Command::Ports(PortsStep::Empty(EMPTY))));
    }

    /// Whether all have told.
    pub(crate) fn are_empty(&self) -> bool {
        self.crossing.empty >= self.links.len()
    }

    /// Tells switches by which port a group's hardware address is reached now: on each of its outer VLANs.
    pub(crate) fn announce_group(&mut self, group: u16) {
        let Some(plan) = self.layout.groups.get(usize::from(group)).cloned() else { return };
        let gateways = || plan.gateways.iter().copied();
        let worker = self.config.group.get(usize::from(group)).map_or(0, |group| usize::from(group.worker));
        for port in &plan.ports {
            for vlan in 0..plan.s_vlans.count {
                let us = Station { mac: self.gateway_mac(group, *port), tags: tags_of(&plan, vlan) };
                let Some(link) = self.links.get_mut(worker) else { return };
                for frame in gateways().filter_map(|gateway| announcement(&us, gateway)) {
                    link.post(Command::Send(*port, frame));
                }
            }
        }
    }

    pub(super) fn begin_crossing(&mut self, step: Step, of: &Move) -> usize {
        let leaves = Some(of.to) == self.crossing.number();
        let aborted = self.crossing.running.as_ref().is_some_and(|running| running.aborted);
        match step {
            Step::Copy if leaves => {
                self.moving = self.of_group(of.group).map(|spec| spec.handle).collect();
                // Of whoever talks to the other process.
                1
            }
            Step::Copy => self.send_copies(of),
            Step::Prepare => self.prepare(of),
            Step::Switch if leaves => self.send_directory(of.group, of.to, Some((of.from, of.to))) + 2,
            Step::Switch => self.send_directory(of.group, of.to | ARRIVING, Some((of.from, of.to))) + 1,
            Step::Announce => {
                let owner = if aborted && !leaves { ELSEWHERE } else { of.to };
                self.set_owner(of.group, owner);
                if !aborted && !leaves {
                    self.crossing.at.remove(&of.group);
                }
                let freed = if leaves { self.send_discards(of, of.from) } else { 0 };
                self.send_directory(of.group, owner, None) + freed
            }
            Step::Undo if leaves => 0,
            Step::Undo => self.send_discards(of, of.to),
        }
    }

    fn set_owner(&mut self, group: u16, owner: Owner) {
        if let Some(group) = self.layout.groups.get_mut(usize::from(group)) {
            group.worker = owner;
        }
        self.steer_ports();
    }

    pub(super) fn crossing_ended(&mut self, of: &Move, outcome: &Outcome) {
        if let Some(running) = self.crossing.running.as_mut().filter(|running| running.group == of.group) {
            running.outcome = Some(*outcome);
        }
    }

    /// Processes that packets were passed on to may have ended.
    pub(super) fn turn_crossings(&mut self) {
        let Some(passage) = &self.crossing.passage else { return };
        // A move sets its own owner.
        if self.moves.is_busy() {
            return;
        }
        let number = passage.number();
        for group in passage.gone() {
            let is_passed = self.layout.groups.get(usize::from(group)).is_some_and(|plan| plan.worker == number);
            if is_passed {
                self.set_owner(group, ELSEWHERE);
                self.send_directory(group, ELSEWHERE, None);
                let name = self.config.group.get(usize::from(group)).map_or("", |group| &group.name);
                tracing::info!(
                    target: "worker", event = "group_passed_on_no_more", group = name,
                    "packets of group {name} are passed on no more: the process that has it has ended, or has it no more"
                );
            }
        }
    }
}

/// Tags of frames towards an outer VLAN of a group, the first inner one with it.
fn tags_of(plan: &GroupPlan, vlan: u16) -> Tags {
    let outer = Tag { kind: plan.tpid, vlan: Vlan::of(plan.s_vlans.first + vlan) };
    match plan.tags {
        0 => Tags::None,
        1 => Tags::One(outer),
        _ => Tags::Two(outer, Tag::customer(Vlan::of(plan.c_vlans.first))),
    }
}
