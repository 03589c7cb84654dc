//! Several control planes at random, one of them hostile: a peer changes only its own sessions, and control and workers
//! have the same ones.
//!
//! The hostile peer names other peers' Node IDs from its own address, and writes their addresses into its datagrams. It
//! can't read what goes to them: neither the sequence numbers of our heartbeats nor SEIDs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use pfcp::control::Session;
use pfcp::ie::*;
use pfcp::message::*;
use pfcp::{Header, Packet};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::golden_cases::secs;
use crate::n4_bench::{Bench, smf};

const PEERS: u8 = 3;
const HOSTILE: SocketAddr = address(9);
/// When a peer began first, and what the hostile one does not say.
const BEGAN: u64 = 1_700_000_000;

const fn address(n: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 10 + n)), pfcp::PORT)
}

#[derive(Clone, Debug)]
enum Step {
    Establish {
        peer: u8,
        n: u8,
    },
    Modify {
        peer: u8,
        n: u8,
    },
    Delete {
        peer: u8,
        n: u8,
    },
    Restart {
        peer: u8,
        retains: bool,
    },
    Wait {
        seconds: u64,
    },
    /// From the hostile peer's own address, in a peer's name.
    InName {
        peer: u8,
        what: Forgery,
        n: u8,
    },
    /// With the peer's address as its source.
    FromAddress {
        peer: u8,
        what: Forgery,
        n: u8,
    },
}

#[derive(Clone, Copy, Debug)]
enum Forgery {
    SetUp {
        later: u32,
        retains: bool,
    },
    Heartbeat {
        later: u32,
    },
    HeartbeatResponse {
        later: u32,
        sequence: u32,
    },
    Establish,
    Modify,
    Delete,
    /// From a peer's address with a session used within two seconds: busy peers contradict.
    Release,
    DeleteSet,
    Update,
}

fn forgery() -> impl Strategy<Value = Forgery> {
    prop_oneof![
        (1u32..1000, any::<bool>()).prop_map(|(later, retains)| Forgery::SetUp { later, retains }),
        (0u32..2000).prop_map(|later| Forgery::Heartbeat { later }),
        (0u32..1000, 0u32..1 << 24).prop_map(|(later, sequence)| Forgery::HeartbeatResponse { later, sequence }),
        Just(Forgery::Establish),
        Just(Forgery::Modify),
        Just(Forgery::Delete),
        Just(Forgery::Release),
        Just(Forgery::DeleteSet),
        Just(Forgery::Update),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (peer, n) = (0..PEERS, 0u8..4);
    prop_oneof![
        4 => (peer.clone(), n.clone()).prop_map(|(peer, n)| Step::Establish { peer, n }),
        2 => (peer.clone(), n.clone()).prop_map(|(peer, n)| Step::Modify { peer, n }),
        1 => (peer.clone(), n.clone()).prop_map(|(peer, n)| Step::Delete { peer, n }),
        1 => (peer.clone(), any::<bool>()).prop_map(|(peer, retains)| Step::Restart { peer, retains }),
        2 => (1u64..4).prop_map(|seconds| Step::Wait { seconds }),
        4 => (peer.clone(), forgery(), n.clone()).prop_map(|(peer, what, n)| Step::InName { peer, what, n }),
        4 => (peer, forgery(), n).prop_map(|(peer, what, n)| Step::FromAddress { peer, what, n }),
    ]
}

/// What the honest peers know.
struct Model {
    bench: Bench,
    /// By peer and number there.
    sessions: BTreeMap<(u8, u64), Session>,
    stamps: [RecoveryTimeStamp; PEERS as usize],
    now: u64,
    sequence: u32,
}

impl Model {
    fn new() -> Self {
        let mut bench = Bench::without_peer("");
        for peer in 0..PEERS {
            bench.associate_from(address(peer), 0);
        }
        bench.associate_from(HOSTILE, 0);
        let stamps = [RecoveryTimeStamp::from_unix(BEGAN); PEERS as usize];
        Self { bench, sessions: BTreeMap::new(), stamps, now: 1, sequence: 1 << 20 }
    }

    fn node(peer: u8) -> NodeId {
        address(peer).ip().into()
    }

    fn octets(&mut self, seid: Option<u64>, message: Message) -> Vec<u8> {
        self.sequence += 1;
        let header = Header { seid, sequence: self.sequence, ..Header::default() };
        Packet { header, message }.to_vec().expect("fits")
    }

    /// Whether a peer's request was accepted.
    fn say(&mut self, peer: u8, seid: u64, message: Message) -> Packet {
        let octets = self.octets(Some(seid), message);
        let mut answers = self.bench.datagram_from(address(peer), &octets);
        answers.retain(|packet| !packet.message.is_request() && packet.header.sequence == self.sequence);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += secs(1);
            self.bench.turn_to(self.now);
        }
    }

    fn session(peer: u8, n: u8) -> Session {
        let ip4 = Ipv4Addr::new(10, 45, peer, n + 1);
        Session { cp_seid: u64::from(n) + 1, ip4: Some(ip4), ..Session::default() }
    }

    fn up_seid(&self, peer: u8, n: u8) -> Option<u64> {
        self.sessions.get(&(peer, u64::from(n) + 1)).and_then(|session| session.up_f_seid).map(|f_seid| f_seid.seid)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Establish { peer, n } => {
                let mut session = Self::session(peer, n);
                let mut request = session.establish(&smf(), &Self::node(peer), address(peer).ip());
                request.fq_csids = vec![FqCsid::new(address(peer).ip(), &[1])];
                let Message::SessionEstablishmentResponse(response) = self.say(peer, 0, request.into()).message else {
                    panic!("an answer of its kind")
                };
                session.established(&response).expect("accepted, in place of the one before");
                self.sessions.insert((peer, session.cp_seid), session);
            }
            Step::Modify { peer, n } => {
                let Some(seid) = self.up_seid(peer, n) else { return };
                let timer = Some(UserPlaneInactivityTimer(u32::from(n) + self.sequence % 100 + 100_000));
                let change = SessionModificationRequest { user_plane_inactivity_timer: timer, ..Default::default() };
                let Message::SessionModificationResponse(response) = self.say(peer, seid, change.into()).message else {
                    panic!("an answer of its kind")
                };
                assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
            }
            Step::Delete { peer, n } => {
                let Some(seid) = self.up_seid(peer, n) else { return };
                let Message::SessionDeletionResponse(response) =
                    self.say(peer, seid, SessionDeletionRequest::default().into()).message
                else {
                    panic!("an answer of its kind")
                };
                assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
                self.sessions.remove(&(peer, u64::from(n) + 1));
            }
            Step::Restart { peer, retains } => self.restart(peer, retains),
            Step::Wait { seconds } => self.wait(seconds),
            Step::InName { peer, what, n } => self.forge(HOSTILE, peer, what, n),
            Step::FromAddress { peer, what, n } => self.forge(address(peer), peer, what, n),
        }
    }

    /// An honest peer restarts, and is served within ten seconds.
    fn restart(&mut self, peer: u8, retains: bool) {
        let before = self.stamps[usize::from(peer)];
        let stamp = RecoveryTimeStamp(before.0 + 5000);
        self.stamps[usize::from(peer)] = stamp;
        self.bench.answer_heartbeats(address(peer).ip(), Some(stamp));
        let request = AssociationSetupRequest {
            node_id: Self::node(peer),
            recovery_time_stamp: stamp,
            pfcp_session_retention_information: retains.then(Default::default),
            ..Default::default()
        };
        let octets = self.octets(None, request.into());
        let sequence = self.sequence;
        let mut answers = self.bench.datagram_from(address(peer), &octets);
        for _ in 0..10 {
            answers.retain(|packet| !packet.message.is_request() && packet.header.sequence == sequence);
            if !answers.is_empty() {
                break;
            }
            self.wait(1);
            answers = self.bench.unasked();
        }
        let Some(Packet { message: Message::AssociationSetupResponse(response), .. }) = answers.first() else {
            panic!("no answer within ten seconds: {answers:?}")
        };
        assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
        if !retains {
            self.sessions.retain(|(of, _), _| *of != peer);
        }
        self.bench.settle();
    }

    fn forge(&mut self, from: SocketAddr, peer: u8, what: Forgery, n: u8) {
        let stamp = |later: u32| RecoveryTimeStamp(self.stamps[usize::from(peer)].0 + later);
        let node_id = Self::node(peer);
        let is_own_address = from != HOSTILE;
        // It knows its own SEIDs and has to guess others', but an insider's knowledge does not help from another address.
        let known = self.up_seid(peer, n).unwrap_or(7);
        let seid = if is_own_address { known ^ (u64::from(self.sequence | 1) << 32) } else { known };
        let (seid, message): (Option<u64>, Message) = match what {
            Forgery::SetUp { later, retains } => {
                let request = AssociationSetupRequest {
                    node_id,
                    recovery_time_stamp: stamp(later),
                    pfcp_session_retention_information: retains.then(Default::default),
                    ..Default::default()
                };
                (None, request.into())
            }
            Forgery::Heartbeat { later } => {
                (None, HeartbeatRequest { recovery_time_stamp: stamp(later), ..Default::default() }.into())
            }
            Forgery::HeartbeatResponse { later, sequence } => {
                let message = HeartbeatResponse { recovery_time_stamp: stamp(later), ..Default::default() }.into();
                let octets = Packet { header: Header::node(sequence), message }.to_vec().expect("fits");
                self.bench.forged_from(from, &octets);
                return;
            }
            // From the peer's own address this would be a session of the peer's.
            Forgery::Establish if is_own_address => return,
            Forgery::Establish => {
                let request = Self::session(peer, n).establish(&smf(), &node_id, address(peer).ip());
                (Some(0), request.into())
            }
            Forgery::Modify => {
                let timer = Some(UserPlaneInactivityTimer(1));
                let change = SessionModificationRequest { user_plane_inactivity_timer: timer, ..Default::default() };
                (Some(seid), change.into())
            }
            Forgery::Delete => (Some(seid), SessionDeletionRequest::default().into()),
            Forgery::Release => {
                let busy = self.sessions.keys().find(|(of, _)| *of == peer).copied();
                if is_own_address && busy.is_none() {
                    return;
                }
                let request = AssociationReleaseRequest { node_id, ..Default::default() };
                let octets = self.octets(None, request.into());
                self.bench.forged_from(from, &octets);
                if let Some((_, number)) = busy {
                    self.wait(1);
                    self.step(&Step::Modify { peer, n: number as u8 - 1 });
                }
                return;
            }
            Forgery::DeleteSet if is_own_address => return,
            Forgery::DeleteSet => {
                let fq_csids = vec![FqCsid::new(address(peer).ip(), &[1])];
                (None, SessionSetDeletionRequest { node_id, fq_csids, ..Default::default() }.into())
            }
            Forgery::Update => (None, AssociationUpdateRequest { node_id, ..Default::default() }.into()),
        };
        let octets = self.octets(seid, message);
        self.bench.forged_from(from, &octets);
    }

    /// Every session the peers know is there with the rules it had, under its association, and no other is.
    fn check(&mut self, before: &BTreeMap<(String, u64), Vec<u8>>, by: Option<u8>) -> BTreeMap<(String, u64), Vec<u8>> {
        let sessions = self.bench.sessions();
        let associations: BTreeMap<u32, String> =
            self.bench.endpoint().node().associations().map(|(id, one)| (id.0, one.node_id.to_string())).collect();
        let there: BTreeMap<(String, u64), Vec<u8>> = sessions
            .store()
            .iter()
            .map(|(_, entry)| {
                let owner = associations.get(&entry.peer).cloned().unwrap_or_default();
                ((owner, entry.cp_seid), entry.message().to_vec())
            })
            .collect();
        let known: Vec<(String, u64)> =
            self.sessions.keys().map(|(peer, n)| (Self::node(*peer).to_string(), *n)).collect();
        assert_eq!(there.keys().cloned().collect::<Vec<_>>(), known);
        assert_eq!((sessions.store().len(), self.bench.worker_sessions()), (known.len(), known.len()));
        let own = by.map(|peer| Self::node(peer).to_string());
        for (key, rules) in &there {
            let is_own = own.as_ref() == Some(&key.0);
            assert!(is_own || before.get(key) == Some(rules), "{key:?} was changed by {by:?}");
        }
        there
    }
}

#[test]
fn peers_change_only_their_own_sessions() {
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let result = runner.run(&prop::collection::vec(step(), 1..50), |script| {
        let mut model = Model::new();
        let mut before = BTreeMap::new();
        for step in &script {
            model.step(step);
            let by = match step {
                Step::Establish { peer, .. } | Step::Modify { peer, .. } => Some(*peer),
                // The peer answers it by using a session.
                Step::InName { peer, what: Forgery::Release, .. }
                | Step::FromAddress { peer, what: Forgery::Release, .. } => Some(*peer),
                _ => None,
            };
            before = model.check(&before, by);
        }
        model.wait(12);
        model.check(&before, None);
        let counts = model.bench.endpoint().node().counters();
        prop_assert_eq!((counts.associations_taken_over, counts.associations_lost), (0, 0));
        model.bench.close();
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
