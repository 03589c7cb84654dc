//! Accounted sessions and grants of a group on their way to another process. Reports that were made already are sent by the
//! process that has made them.

use access::Time;
use access::subscriber::Identity;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

use super::hand_over::{Named, identity, named, written};
use super::kept::{KeptAccount, Row};
use super::{Aaa, Account, Grant};
use crate::slow::ControlPacket;

/// An accounted session.
#[derive(Debug, Serialize, Deserialize)]
struct Accounted {
    handle: u32,
    /// As the ledger would have it; usage is that of earlier runs and processes, which workers do not count.
    kept: KeptAccount,
    /// Milliseconds to its next interim report; none: it has none.
    interim: Option<u64>,
    /// What it has used as the ledger has it.
    reported: Option<Row>,
}

/// What RADIUS has of a group.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct GroupAaa {
    accounts: Vec<Accounted>,
    grants: Vec<(Named, Grant)>,
    restored: Vec<Named>,
}

impl Aaa {
    /// What there is of those subscribers.
    pub fn of_group<'a>(&self, of: impl Iterator<Item = (u32, &'a Identity)>, now: Time) -> GroupAaa {
        let mut all = GroupAaa::default();
        for (handle, identity) in of {
            all.grants.extend(self.grants.get(identity).map(|grant| (named(identity), grant.clone())));
            all.restored.extend(self.restored.get(identity).map(named));
            let Some(account) = self.accounts.get(&handle) else { continue };
            let Account { id, grant, about, began, used, interim, reported, .. } = account;
            let kept = KeptAccount {
                of: named(identity),
                id: id.clone(),
                began: self.wall(*began).0,
                grant: grant.clone(),
                used: *used,
                about: written(about),
            };
            let interim = (*interim != 0).then(|| interim.saturating_sub(now.0));
            all.accounts.push(Accounted { handle, kept, interim, reported: *reported });
        }
        all
    }

    /// Takes in what another process has, with the numbers of subscribers here. They are written to the ledger.
    pub fn take_in_group(&mut self, all: GroupAaa, handle: impl Fn(u32) -> Option<u32>, now: Time) {
        self.grants.extend(all.grants.into_iter().map(|(of, grant)| (identity(of), grant)));
        self.restored.extend(all.restored.into_iter().map(identity));
        for Accounted { handle: there, kept, interim, reported } in all.accounts {
            let Some(handle) = handle(there) else { continue };
            let key = if self.reports { self.keeper.key() } else { 0 };
            if key != 0 {
                // What was reported: after a crash no less is told than servers know.
                let used = reported.unwrap_or(kept.used);
                self.keeper.account(key, &KeptAccount { used, ..kept.clone() });
            }
            let began = Time(kept.began.saturating_add_signed(-self.wall_ahead_ms));
            let interim = interim.filter(|_| self.reports).map_or(0, |ms| now.0 + ms + 1);
            let account = Account { began, interim, reported, ..Account::kept(key, kept) };
            self.accounts.insert(handle, account);
            if interim != 0 {
                self.interims.push(Reverse((interim, handle)));
            }
        }
    }

    /// Forgets those subscribers, which another process has: their sessions go on.
    pub fn let_go<'a>(&mut self, of: impl Iterator<Item = (u32, &'a Identity)>) {
        for (handle, identity) in of {
            self.grants.remove(identity);
            self.restored.remove(identity);
            if let Some(account) = self.accounts.remove(&handle) {
                self.keeper.forget(account.key);
                self.backlog.forget(account.unsent);
            }
        }
    }

    /// Takes out requests of a group that wait for a server's decision: they are made again where the group is.
    pub fn take_held_of(&mut self, group: u16) -> Vec<ControlPacket> {
        let of = |held: &Option<ControlPacket>| held.as_ref().is_some_and(|packet| packet.group == group);
        let identities: Vec<_> = self.held.iter().filter(|(_, held)| of(held)).map(|(identity, _)| *identity).collect();
        identities.iter().filter_map(|identity| self.held.remove(identity).flatten()).collect()
    }
}
