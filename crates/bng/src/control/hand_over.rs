//! Control's part of a take-over by another process: it asks workers, comes to rest, and shows or takes in what it has.

use std::io;
use std::os::fd::OwnedFd;

use engine::Owner;
use gateway::nat::log::NatLog;
use gateway::shell::hand_over::octets::garbled;
use serde::{Deserialize, Serialize};

use super::{Control, PACKETS};
use crate::config::{Config, Layout};
use crate::gateway::Command;
use crate::hand_over::{Handing, Numbers};
use crate::record::SubscriberSpec;
use crate::sessions::hand_over::requests;
use crate::slow::ControlPacket;

/// A take-over by another process, if one has begun.
#[derive(Default)]
pub(super) struct Succession {
    /// It has: groups stay where they are, and no reload is applied.
    begun: bool,
    /// Control comes to rest, or has: it takes nothing in.
    still: bool,
    /// What workers have answered, with their numbers.
    answers: Vec<(usize, Box<Handing>)>,
}

impl Succession {
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn is_still(&self) -> bool {
        self.still
    }

    pub(super) fn answered(&mut self, worker: usize, handing: Box<Handing>) {
        self.answers.push((worker, handing));
    }
}

/// What numbers mean in the state that is handed over.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Meanings {
    /// Names of VRFs, by number.
    instances: Vec<String>,
    /// Groups, and the worker of each.
    groups: Vec<(String, Owner)>,
    /// Of each group whether its lines share VLAN pairs (N:1), and its VRF by number: subscribers are told apart by them.
    kinds: Vec<(bool, u16)>,
    profiles: Vec<String>,
    /// Configured subscribers, and a digest of their lines and addresses.
    fixed: (u32, u64),
    /// RADIUS is configured.
    radius: bool,
}

/// Configured subscribers: how many, and a digest of what tells them apart.
fn fixed(subscribers: &[SubscriberSpec]) -> (u32, u64) {
    // FNV-1a: the same in every release.
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |number: u64| digest = (digest ^ number).wrapping_mul(0x100_0000_01b3);
    for spec in subscribers {
        let SubscriberSpec { handle, line, group, mac, ipv4, wan, pd, profile: _, line_rate: _ } = *spec;
        let mac = mac.map_or(u64::MAX, |mac| mac.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet)));
        let (pd, pd_len) = pd.unwrap_or((u64::MAX, 0));
        let line = u64::from(line.port) << 32 | u64::from(line.s_vlan) << 16 | u64::from(line.c_vlan);
        let ipv4 = ipv4.map_or(u64::MAX, u64::from);
        let of = [handle.into(), line, group.into(), mac, ipv4, wan.unwrap_or(u64::MAX), pd, pd_len.into()];
        of.into_iter().for_each(&mut add);
    }
    (subscribers.len() as u32, digest) // at most MOST_SUBSCRIBERS
}

impl Meanings {
    /// Of a configuration.
    pub fn of(config: &Config, layout: &Layout) -> Self {
        let groups = config.group.iter().zip(&layout.groups);
        Self {
            instances: config.instances(),
            kinds: layout.groups.iter().map(|plan| (plan.shared, plan.instance)).collect(),
            groups: groups.map(|(group, plan)| (group.name.clone(), plan.worker)).collect(),
            profiles: config.profile.iter().map(|profile| profile.name.clone()).collect(),
            fixed: fixed(&layout.subscribers),
            radius: config.radius.is_some() && config.has_sessions(),
        }
    }

    /// How these, of another process, fit into a configuration: the numbers of subscribers there, and the workers of groups.
    ///
    /// # Errors
    /// They do not; a sentence.
    pub fn within(&self, config: &Config, layout: &Layout) -> Result<(Numbers, Vec<Owner>), String> {
        let here = Self::of(config, layout);
        let names = |groups: &[(String, Owner)]| groups.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let lists = [
            ("network instances", &self.instances, &here.instances),
            ("subscriber groups", &names(&self.groups), &names(&here.groups)),
        ];
        for (what, there, here) in lists {
            if there != here {
                let list = |names: &[String]| names.join(", ");
                return Err(format!("{what} differ: {} there, {} here; restart instead", list(there), list(here)));
            }
        }
        if let Some(at) = self.kinds.iter().zip(&here.kinds).position(|(there, here)| there != here) {
            let name = &self.groups[at].0;
            return Err(format!("group {name} has another `model` or `instance` there; restart instead"));
        }
        if self.fixed != here.fixed {
            let (there, here) = (self.fixed.0, here.fixed.0);
            return Err(format!(
                "[[subscriber]] differs: {there} subscribers there, {here} here, or other lines or addresses; restart instead"
            ));
        }
        if self.radius != here.radius {
            let there = if self.radius { "only there" } else { "only here" };
            return Err(format!(
                "[radius] is configured {there}: sessions would be accounted in part; restart instead"
            ));
        }
        let place = |name: &String| here.profiles.iter().position(|known| known == name).map(|at| at as u16); // few
        let profiles = self.profiles.iter().map(|name| (name.clone(), place(name))).collect();
        let numbers = Numbers { profiles, fixed: self.fixed.0 };
        Ok((numbers, self.groups.iter().map(|(_, worker)| *worker).collect()))
    }
}

impl Control {
    /// What numbers mean here.
    pub(crate) fn meanings(&self) -> Meanings {
        let fixed = self.config.subscriber.iter().map(|entry| entry.count).sum::<u32>();
        let subscribers: Vec<_> = self.subscribers().filter(|spec| spec.handle < fixed).copied().collect();
        Meanings { fixed: self::fixed(&subscribers), ..Meanings::of(&self.config, &self.layout) }
    }

    /// Sockets that the other process goes on with.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        self.sessions.as_ref().map_or_else(|| Ok(Vec::new()), |sessions| sessions.descriptors())
    }

    /// Whether another process takes over: what is changed here may not reach it.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.succession.begun
    }

    /// Another process takes over.
    pub(crate) fn begin_succession(&mut self) {
        self.succession.begun = true;
    }

    /// It does not: all goes on as before.
    pub(crate) fn end_succession(&mut self) {
        self.succession = Succession::default();
        (0..self.links.len()).for_each(|worker| self.ask_handing(worker, Handing::Follow(false)));
    }

    /// Asks a worker; [`handing`](Self::handing) has its answer.
    pub(crate) fn ask_handing(&mut self, worker: usize, handing: Handing) {
        self.succession.answers.retain(|(of, _)| *of != worker);
        if let Some(link) = self.links.get_mut(worker) {
            link.post(Command::HandOver(Box::new(handing)));
        }
    }

    /// What a worker has answered, once it has.
    pub(crate) fn handing(&mut self, worker: usize) -> Option<Handing> {
        let at = self.succession.answers.iter().position(|(of, _)| *of == worker)?;
        Some(*self.succession.answers.swap_remove(at).1)
    }

    /// A turn without taking anything in: what was begun is finished. Whether nothing is under way.
    pub(crate) fn settle(&mut self, now: u64) -> bool {
        self.succession.still = true;
        self.poll(now);
        let mut sessions = self.sessions.take();
        let are_settled = sessions.as_mut().is_none_or(|sessions| sessions.settle(self));
        self.sessions = sessions;
        let is_answered = self.links.iter().all(|link| link.backlog.is_empty() && link.commands.unanswered() == 0);
        are_settled && is_answered && self.refreshing == 0 && !self.moves.is_busy() && !self.has_news()
    }

    /// Requests that were taken, and are to be served later: before those that came since.
    pub(crate) fn put_back(&mut self, packets: Vec<ControlPacket>) {
        packets.into_iter().rev().for_each(|packet| self.packets.push_front(packet));
    }

    /// Adds all that control has, at [rest](Self::settle).
    pub(crate) fn export(&self, out: &mut Vec<u8>) -> Result<(), String> {
        self.sessions.as_ref().map_or(Ok(()), |sessions| sessions.export(out))
    }

    /// Adds requests that nobody has answered.
    pub(crate) fn export_requests(&self, out: &mut Vec<u8>) {
        if let Some(sessions) = &self.sessions {
            sessions.export_requests(self.packets.iter(), out);
        }
    }

    /// Takes in a section of another process's control.
    ///
    /// # Errors
    /// It does not fit; a sentence.
    pub(crate) fn take_in(&mut self, (kind, octets): (u8, &[u8]), numbers: &Numbers, now: u64) -> Result<(), String> {
        let mut sessions =
            self.sessions.take().ok_or("subscribers came by themselves, and no group has sessions here")?;
        let taken = match kind {
            b'A' => sessions.take_in_sessions(octets, numbers, now),
            b'L' => sessions.take_in_leases(self, octets).map(|specs| {
                for spec in specs {
                    self.note(spec);
                }
            }),
            b'P' => requests(octets).map(|packets| {
                let room = PACKETS.saturating_sub(self.packets.len());
                self.unanswered += packets.len().saturating_sub(room) as u64;
                self.packets.extend(packets.into_iter().take(room));
            }),
            _ => Err(garbled()),
        };
        self.sessions = Some(sessions);
        taken
    }

    /// Publishes what was taken in of neighbours.
    pub(crate) fn publish_taken(&mut self) {
        self.publish_tables();
    }

    /// Begins to wait for the ledger of the process before.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn begin_opening(&mut self) -> io::Result<()> {
        self.sessions.as_mut().map_or(Ok(()), |sessions| sessions.begin_opening())
    }

    /// Blocks of public ports, as workers tell of them.
    pub(crate) fn nat_log(&mut self) -> &mut NatLog {
        &mut self.nat_log
    }
}
