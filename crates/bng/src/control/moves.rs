//! Groups that move between workers: what each step sends.

use std::sync::Arc;

use engine::{ARRIVING, Owner, Room};
use gateway::moves::park::{Policy, Reason, Sight};
use gateway::moves::{Move, Mover, Outcome, Step};
use gateway::tables::many;
use table::hint::tsc_hz;
use table::ring::ring;

use super::{Control, Refusal};
use crate::config::Layout;
use crate::gateway::Command;
use crate::moving::{Come, EACH, Leave, Parcel, Step as Sent};
use crate::record::SubscriberSpec;
use crate::steer::Directory;
use crate::subscribers::Refused;

/// Subscribers that a worker copies, or frees, for one command: it carries out a few commands in a turn.
const COPIED: usize = 8;
/// Packets of a group that may wait for its state; they keep packet buffers of the worker.
const MOST_HELD: u32 = 16_384;

/// Nanoseconds between looks at what workers have to do.
const PARK_EVERY: u64 = 1_000_000_000;

/// When groups are to move by themselves.
pub(super) struct Parking {
    policy: Policy,
    /// When to look next.
    next: u64,
    /// The last look: when, and the workers' busy cycles then.
    last: Option<(u64, Vec<u64>)>,
}

impl Parking {
    pub(super) fn next(&self) -> u64 {
        self.next
    }
}

impl Control {
    /// Has a group move to a worker; [`moves`](Self::moves) tells when it has.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn move_group(&mut self, group: u16, to: Owner) -> Result<(), Refusal> {
        let from = self.worker(group)? as Owner; // workers are fewer than 64
        let name = self.config.group.get(usize::from(group)).map_or("", |group| &group.name);
        let workers = self.links.len();
        if usize::from(to) >= workers {
            let last = workers.saturating_sub(1);
            return Err(Refusal(format!("there is no worker {to}; allowed: 0 to {last} (workers.count is {workers})")));
        }
        if self.moves.concerns(group) {
            return Err(Refusal(format!(
                "group \"{name}\" moves, or waits to move; `weir show groups` shows where it is"
            )));
        }
        if from == to {
            return Err(Refusal(format!("group \"{name}\" is on worker {to} already")));
        }
        if self.succession.has_begun() {
            return Err(Refusal(format!("group \"{name}\" cannot move: another process takes over; try again there")));
        }
        if self.crossing.is_taken() {
            return Err(Refusal(format!(
                "group \"{name}\" cannot move: a group moves between processes; try again when it has"
            )));
        }
        if let Some(why) = self.immovable(group) {
            return Err(Refusal(format!("group \"{name}\" cannot move: {why}")));
        }
        if self.directory_with(group, to).is_none() {
            return Err(Refusal(format!("group \"{name}\" cannot move: its addresses overlap another group's")));
        }
        self.moves.request(Move { group, from, to });
        Ok(())
    }

    /// Why a group must stay where it is, if it must.
    pub fn immovable(&self, group: u16) -> Option<&'static str> {
        let plan = self.layout.groups.get(usize::from(group))?;
        (self.nat.is_some() && plan.nat).then_some(
            "its addresses are translated, and public addresses belong to a worker: connections would end; \
             allowed: groups with `nat = false`, or a gateway without [nat]",
        )
    }

    /// Groups that move, and that have.
    pub fn moves(&self) -> &gateway::moves::Moves {
        &self.moves
    }

    /// The number of the group of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn group_named(&self, name: &str) -> Result<u16, Refusal> {
        let groups = &self.config.group;
        let at = groups.iter().position(|group| group.name == name).map(|at| at as u16); // as many as groups
        at.ok_or_else(|| {
            let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
            Refusal(format!("there is no group \"{name}\"; allowed: {}", names.join(", ")))
        })
    }

    /// Goes on with moves.
    pub(super) fn turn_moves(&mut self, now: u64) {
        if !self.turn_port_change(now) && self.moves.is_busy() {
            let mut moves = std::mem::take(&mut self.moves);
            moves.turn(self, now);
            self.moves = moves;
            if let Some((from, to)) = self.moved.take() {
                self.begin_port_change(from, to, now);
            }
        }
    }

    /// Sends a command about a group's subscriber to its worker; one about a group that moves, or about a number that a
    /// subscriber of it had, when the group has moved.
    pub(super) fn post_of(&mut self, (group, handle): (u16, u32), worker: usize, command: Command) {
        let moving = self.moves.moving();
        if moving == Some(group) || moving.is_some() && self.moving.binary_search(&handle).is_ok() {
            let worker = Some(worker).filter(|_| moving != Some(group));
            return self.deferred.push_back((worker, command));
        }
        if let Some(link) = self.links.get_mut(worker) {
            link.post(command);
        }
    }

    /// Who owns what, with an owner of a group in place of its own.
    pub(super) fn directory_with(&self, group: u16, owner: Owner) -> Option<Arc<Directory>> {
        let fixed = self.config.subscriber.iter().map(|entry| entry.count).sum::<u32>();
        let mut groups = self.layout.groups.clone();
        groups.get_mut(usize::from(group))?.worker = owner;
        let layout = Layout {
            groups,
            profiles: Vec::new(),
            lists: Default::default(),
            pairs: Default::default(),
            counters: 0,
            numbers: self.layout.numbers,
            subscribers: self.subscribers().filter(|spec| spec.handle < fixed).copied().collect(),
            entries: Vec::new(),
        };
        Directory::new(&self.config, &layout, self.nat.as_ref()).ok().map(Arc::new)
    }

    /// Goes by the configuration's `[park]` from now on.
    pub(super) fn set_park(&mut self) {
        let homes: Vec<Owner> = self.config.group.iter().map(|group| group.worker).collect();
        let policy = self.config.park.as_ref().filter(|_| self.links.len() > 1).map(|park| Policy::new(park, homes));
        self.park = policy.map(|policy| Parking { policy, next: 0, last: None });
    }

    /// Whether [`park`](Self::park) is to be asked.
    pub fn is_park_due(&self, now: u64) -> bool {
        let may_move = !self.moves.is_busy() && !self.crossing.is_taken() && !self.succession.has_begun();
        self.park.as_ref().is_some_and(|park| now >= park.next) && may_move
    }

    /// Has groups move together, or back, by what workers had to do since the last call: `busy` are the cycles in which each
    /// has carried packets so far, `minute` that of the day.
    pub fn park(&mut self, now: u64, minute: u16, busy: &[u64]) {
        let groups = 0..self.layout.groups.len() as u16;
        let groups: Vec<_> = groups
            .zip(&self.layout.groups)
            .map(|(number, group)| (group.worker, self.worker(number).is_ok() && self.immovable(number).is_none()))
            .collect();
        let Some(parking) = &mut self.park else { return };
        parking.next = now + PARK_EVERY;
        let Some((since, before)) = parking.last.replace((now, busy.to_vec())) else { return };
        let cycles = tsc_hz() as f64 * now.saturating_sub(since) as f64 / 1e9;
        let load = |(busy, before): (&u64, &u64)| (busy.saturating_sub(*before) as f64 / cycles.max(1.0)).min(1.0);
        let loads: Vec<f64> = busy.iter().zip(&before).map(load).collect();
        let Some((reason, moves)) = parking.policy.decide(&Sight { now, minute, loads: &loads, groups: &groups })
        else {
            return;
        };
        let (from, to) = moves.first().map_or((0, 0), |of| (of.from, of.to));
        let percent = |worker: Owner| loads.get(usize::from(worker)).map_or(0, |load| (load * 100.0) as u8);
        let why = match reason {
            Reason::Little => "little is to do",
            Reason::Much => "much is to do",
            Reason::Hours => "the hours for it are over",
        };
        tracing::info!(
            target: "worker", event = "groups_rearranged", groups = moves.len(), from, to, why,
            from_load_percent = percent(from), to_load_percent = percent(to),
            "{} from worker {from} to worker {to}: {why}", many(moves.len(), "group")
        );
        for of in moves {
            // One that cannot stays; the next look finds it where it is.
            let _ = self.move_group(of.group, of.to);
        }
        self.turn_moves(now);
    }

    /// The new owner of a group forwards its packets.
    pub(super) fn on_arrived(&mut self, come: &Come) {
        if come.missing > 0 {
            let group = self.moves.moving().and_then(|group| self.config.group.get(usize::from(group)));
            let (group, from, missing) = (group.map_or("", |group| &group.name), come.from, come.missing);
            tracing::error!(
                target: "worker", event = "group_incomplete", group, from, missing,
                "{} of group {group} from worker {from} not installed on its new worker: they are not served, and what \
                 they have used is lost", many(missing, "subscriber")
            );
        }
        self.moves.arrived(come.arrival);
    }

    pub(super) fn of_group(&self, group: u16) -> impl Iterator<Item = &SubscriberSpec> {
        self.subscribers().filter(move |spec| spec.group == group)
    }
}

impl Control {
    /// Sends a step of a move to a worker.
    fn send_step(&mut self, worker: Owner, step: Sent) -> usize {
        let link = self.links.get_mut(usize::from(worker));
        link.map_or(0, |link| {
            link.post(Command::Move(step));
            1
        })
    }

    /// Gives all workers a directory by which a group has that owner; `mark`: the old one and the new one.
    pub(super) fn send_directory(&mut self, group: u16, owner: Owner, mark: Option<(Owner, Owner)>) -> usize {
        let Some(directory) = self.directory_with(group, owner) else { return 0 };
        self.sort_passage(&directory);
        let workers = 0..self.links.len() as Owner; // fewer than 64
        workers.map(|worker| self.send_step(worker, Sent::Steer { directory: directory.clone(), mark })).sum()
    }

    /// The group's subscribers are copied to the new owner.
    pub(super) fn send_copies(&mut self, of: &Move) -> usize {
        let specs: Vec<_> = self.of_group(of.group).copied().collect();
        self.moving = specs.iter().map(|spec| spec.handle).collect();
        // One that its own worker refused is none of the group's there.
        let specs: Vec<_> = specs.into_iter().filter(|spec| !self.not_installed.contains(&spec.handle)).collect();
        self.copy_refused = None;
        let adopted = self.send_step(of.to, Sent::Adopt(of.group));
        let copy = |few: &[SubscriberSpec]| Sent::Copy { specs: few.into(), refused: None };
        specs.chunks(COPIED).map(|few| self.send_step(of.to, copy(few))).sum::<usize>() + adopted
    }

    /// Copies that a worker has of the group's subscribers are freed.
    pub(super) fn send_discards(&mut self, of: &Move, worker: Owner) -> usize {
        // Those of the begin: what has gone since is to be freed, too.
        let handles = std::mem::take(&mut self.moving);
        let freed = handles.chunks(COPIED).map(|few| self.send_step(worker, Sent::Discard(few.into()))).sum::<usize>();
        self.moving = handles;
        freed + self.send_step(worker, Sent::Disown(of.group))
    }

    /// Both owners get what they hand the state over by; of a move from another process or to one, the worker and whoever
    /// exchanges the state with it.
    pub(super) fn prepare(&mut self, of: &Move) -> usize {
        let handles: Box<[u32]> = self.moving.as_slice().into();
        let parcels = handles.len().div_ceil(EACH);
        // Another process may have divided them otherwise.
        let (out, incoming) = ring(parcels + 1);
        let room = (self.config.frames.packet_buffers / self.links.len() as u32 / 2).min(MOST_HELD);
        let workers = self.links.len();
        let passage = self.crossing.number();
        // Whoever carries on what other processes have sent is one of those that hand packets over.
        let comes = Some(of.from) == passage;
        let all = (0..workers + usize::from(comes)).fold(0, |bits, worker| bits | 1u64 << (worker & 63));
        let come = Come {
            group: of.group,
            from: of.from,
            others: all & !(1 << (of.to & 63)),
            parcels: incoming,
            left: handles.len(),
            room: Room::of(room as usize),
            taken: Vec::with_capacity(parcels + 1),
            missing: 0,
            arrival: Default::default(),
        };
        let leave = Leave {
            group: of.group,
            handles,
            next: 0,
            empty: (0..parcels).map(|_| Parcel::empty(self.shapes)).collect(),
            parcels: out,
            to: of.to,
            others: all & !(1 << (of.from & 63)),
        };
        if comes {
            self.crossing.give(leave.parcels);
            return self.send_step(of.to, Sent::Come(Box::new(come)));
        }
        if Some(of.to) == passage {
            self.crossing.take(come.parcels, leave.handles.len());
            return self.send_step(of.from, Sent::Leave(Box::new(leave)));
        }
        self.send_step(of.to, Sent::Come(Box::new(come))) + self.send_step(of.from, Sent::Leave(Box::new(leave)))
    }
}

impl Mover for Control {
    fn begin(&mut self, step: Step, of: &Move) -> usize {
        if self.crossing.concerns(of) {
            return self.begin_crossing(step, of);
        }
        match step {
            Step::Copy => self.send_copies(of),
            Step::Prepare => self.prepare(of),
            // And the old and the new owner tell when they are done.
            Step::Switch => self.send_directory(of.group, of.to | ARRIVING, Some((of.from, of.to))) + 2,
            Step::Announce => {
                // Ports and the virtual hardware address stay: for the access network nothing has changed.
                if let Some(group) = self.layout.groups.get_mut(usize::from(of.group)) {
                    group.worker = of.to;
                }
                self.ask_moved(of);
                self.send_directory(of.group, of.to, None) + self.send_discards(of, of.from)
            }
            Step::Undo => self.send_discards(of, of.to),
        }
    }

    fn subscribers(&self, group: u16) -> u64 {
        self.of_group(group).count() as u64
    }

    fn ended(&mut self, of: &Move, outcome: &Outcome) {
        let owner = if outcome.failed { of.from } else { of.to };
        self.moving = Vec::new();
        for (worker, command) in std::mem::take(&mut self.deferred) {
            if let Some(link) = self.links.get_mut(worker.unwrap_or(owner.into())) {
                link.post(command);
            }
        }
        if self.crossing.concerns(of) {
            return self.crossing_ended(of, outcome);
        }
        let name = self.config.group.get(usize::from(of.group)).map_or("", |group| &group.name);
        let (from, to, subscribers) = (of.from, of.to, outcome.subscribers);
        if !outcome.failed {
            self.moved = Some((from, to));
        }
        if outcome.failed {
            let why = match self.copy_refused {
                Some(Refused::Taken) => "a line or an address of one of its subscribers is another's there",
                Some(Refused::Foreign) => "a line of one of its subscribers is not the group's",
                Some(Refused::Memory) | None => "no memory for its subscribers",
            };
            tracing::warn!(
                target: "worker", event = "group_not_moved", group = name, from, to, subscribers, why,
                "group {name} with {subscribers} subscribers stays on worker {from}; worker {to}: {why}"
            );
            return;
        }
        let (ms, pause_us) = (outcome.took_ns / 1_000_000, outcome.arrival.pause_ns / 1000);
        tracing::info!(
            target: "worker", event = "group_moved", group = name, from, to, subscribers, ms, pause_us,
            held = outcome.arrival.held,
            "group {name} moved from worker {from} to worker {to} in {ms} ms; its packets waited {pause_us} us"
        );
    }
}
