//! Grants, accounted sessions and reports on their way to another process. Requests that no server has decided about are made
//! again there; a report keeps its identifier, so that a server which has taken it does not count it twice.

use std::cmp::Reverse;
use std::net::SocketAddr;

use access::Time;
use access::subscriber::Identity;
use radius::Attribute;
use radius::client::{Flight, Pending};
use radius::coa;
use serde::{Deserialize, Serialize};

use super::kept::Row;
use super::{Aaa, Account, Grant};
use crate::slow::ControlPacket;

/// Attributes: vendor, code, value.
pub type Attributes = Vec<(u32, u8, Vec<u8>)>;

pub(super) fn written(attributes: &[Attribute]) -> Attributes {
    attributes.iter().map(|one| (one.vendor, one.code, one.value.clone())).collect()
}

pub(super) fn read(attributes: Attributes) -> Vec<Attribute> {
    attributes.into_iter().map(|(vendor, code, value)| Attribute { vendor, code, value }).collect()
}

/// A subscriber: port, S-VLAN, C-VLAN, and its hardware address where lines are shared.
pub type Named = ([u16; 3], Option<[u8; 6]>);

/// A subscriber's name.
pub fn named(identity: &Identity) -> Named {
    let access::Line { port, s_vlan, c_vlan } = identity.line;
    ([port, s_vlan, c_vlan], identity.mac.map(|mac| mac.0))
}

/// The subscriber of a name.
pub fn identity((line, mac): Named) -> Identity {
    let [port, s_vlan, c_vlan] = line;
    Identity { line: access::Line { port, s_vlan, c_vlan }, mac: mac.map(wire::Mac) }
}

/// An accounted session: handle, identifier, begin, next interim report, number of its report that waits, and its grant.
type Accounted = (u32, String, u64, u64, u64, Grant);

/// A report that no server has acknowledged: number, attributes, and how it was sent: server, source, identifier, how often,
/// when again.
type Reported = (u64, Attributes, Option<(SocketAddr, u16, u8, u32, u64)>);

/// All of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AaaState {
    run: u32,
    next: u64,
    grants: Vec<(Named, Grant)>,
    fresh: Vec<(u64, Named)>,
    denied: Vec<(Named, u64)>,
    restored: Vec<Named>,
    accounts: Vec<Accounted>,
    /// Reports that wait: of starts and ends, and of each session's interim one by number.
    edges: Vec<Attributes>,
    interims: Vec<(u64, Attributes)>,
    last_interim: u64,
    pending: Vec<Reported>,
    /// Requests for changes that were answered.
    changes: Vec<coa::Answered>,
    /// Of the ledger: keys of `edges` in the same order, of reports that the client has by their numbers, of sessions by their
    /// handles with what they had used in earlier runs, and the next key. A release without has none.
    #[serde(default)]
    edge_keys: Vec<u64>,
    #[serde(default)]
    given: Vec<(u64, u64)>,
    #[serde(default)]
    kept: Vec<(u32, u64, Row)>,
    #[serde(default)]
    next_key: u64,
    /// What sessions have used as the ledger has it, by handle.
    #[serde(default)]
    reported: Vec<(u32, Row)>,
}

impl Aaa {
    /// What another process needs to go on. [Requests](Self::held_requests) that wait for a server are not in it.
    pub fn handed(&self) -> AaaState {
        let account = |(handle, account): (&u32, &Account)| {
            let Account { id, grant, began, interim, unsent, .. } = account;
            (*handle, id.clone(), began.0, *interim, *unsent, grant.clone())
        };
        let pending = |Pending { number, attributes, flight }: Pending| {
            let flight = flight.map(|of| (of.server, of.source, of.id, of.sent, of.due));
            (number, written(&attributes), flight)
        };
        let (edges, interims, last_interim) = self.backlog.parts();
        let (edges, edge_keys) = edges.map(|(report, key)| (written(report), key)).unzip();
        AaaState {
            run: self.run,
            next: self.next,
            grants: self.grants.iter().map(|(of, grant)| (named(of), grant.clone())).collect(),
            fresh: self.fresh.iter().map(|(at, of)| (*at, named(of))).collect(),
            denied: self.denied.iter().map(|(of, until)| (named(of), *until)).collect(),
            restored: self.restored.iter().map(named).collect(),
            accounts: self.accounts.iter().map(account).collect(),
            edges,
            edge_keys,
            given: self.keeper.given().collect(),
            kept: self.accounts.iter().map(|(handle, one)| (*handle, one.key, one.used)).collect(),
            next_key: self.keeper.next_key(),
            reported: self.accounts.iter().filter_map(|(handle, one)| Some((*handle, one.reported?))).collect(),
            interims: interims.map(|(number, report)| (*number, written(report))).collect(),
            last_interim,
            pending: self.accounting.client.pending_accounts().into_iter().map(pending).collect(),
            changes: self.coa.iter().flat_map(|(_, server)| server.answered()).collect(),
        }
    }

    /// Requests that wait for a server's decision.
    pub fn held_requests(&self) -> impl Iterator<Item = &ControlPacket> {
        self.held.values().flatten()
    }

    /// Goes on with what another process had, in place of its own, which has begun nothing.
    pub(in crate::sessions) fn go_on_with(&mut self, state: AaaState, steady: Time) {
        (self.run, self.next) = (state.run, state.next);
        self.grants = state.grants.into_iter().map(|(of, grant)| (identity(of), grant)).collect();
        self.fresh = state.fresh.into_iter().map(|(at, of)| (at, identity(of))).collect();
        self.denied = state.denied.into_iter().map(|(of, until)| (identity(of), until)).collect();
        self.restored = state.restored.into_iter().map(identity).collect();
        for (handle, id, began, interim, unsent, grant) in state.accounts {
            if interim != 0 {
                self.interims.push(Reverse((interim, handle)));
            }
            let about = Vec::new();
            let (began, key, used, reported) = (Time(began), 0, Row::default(), None);
            let account = Account { id, grant, about, began, interim, unsent, key, used, reported };
            self.accounts.insert(handle, account);
        }
        for (handle, key, used) in state.kept {
            if let Some(account) = self.accounts.get_mut(&handle) {
                (account.key, account.used) = (key, used);
            }
        }
        for (handle, reported) in state.reported {
            if let Some(account) = self.accounts.get_mut(&handle) {
                account.reported = Some(reported);
            }
        }
        self.keeper.go_on_with(state.next_key, state.given.into_iter());
        let keys = state.edge_keys.into_iter().chain(std::iter::repeat(0));
        let interims = state.interims.into_iter().map(|(number, report)| (number, read(report)));
        self.backlog.go_on_with(state.edges.into_iter().map(read).zip(keys), interims, state.last_interim);
        let pending = |(number, attributes, flight): Reported| {
            let of = |(server, source, id, sent, due)| Flight { server, source, id, sent, due };
            Pending { number, attributes: read(attributes), flight: flight.map(of) }
        };
        self.accounting.client.go_on_with(steady.0, state.pending.into_iter().map(pending).collect());
        if let Some((_, server)) = &mut self.coa {
            server.remember(state.changes);
        }
    }
}
