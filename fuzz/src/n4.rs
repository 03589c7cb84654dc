//! A user plane whose control planes say anything, while packets come and time passes.
//!
//! The bytes are a script of messages that are nearly as they should be, from three control planes: so that what is behind
//! the PFCP node is reached (rules, their compilation, workers), which bytes alone are refused long before. Whatever they
//! are, nothing panics; control and its worker have the same sessions; nobody's message changes another's session; packets
//! and their memory are accounted for. Included by `fuzz/targets/n4_sessions.rs` and by `crates/upf/tests/n4_fuzzed.rs`,
//! which replays what fuzzing found on the stable compiler.

#[path = "n4_script.rs"]
mod script;

use std::net::SocketAddr;

use pfcp::group::*;
use pfcp::ie::*;
use pfcp::message::*;
use pfcp::{Header, Packet};

use crate::golden_cases::{Over, from_gnb, from_router, request, response};
use crate::n4_bench::Bench;
use script::Script;

const MORE: &str = r#"
n4.pool = [{ v4 = "10.45.0.0/28", v6 = "2001:db8:60::/60" }]
n4.sessions_per_peer = 12
n4.policy = [{ name = "video", dscp = 34 }]
n4.predefined = [
  { name = "own", filters = ["permit out 17 from 198.51.100.0/24 to assigned"], usage = { id = 1, volume_threshold = 500 } },
  { name = "page", filters = ["permit out 6 from any to assigned"], action = "redirect", page = "http://portal.example/" },
]
"#;
/// Messages of a script at most: longer ones find nothing that shorter ones do not.
const STEPS: usize = 200;

/// A control plane.
struct Peer {
    at: SocketAddr,
    seids: Vec<u64>,
    /// Requests of the user plane that it has not answered.
    asked: Vec<Packet>,
    sequence: u32,
}

/// A session's number, whose it is (by number of association) and how it is kept.
type Kept = (u64, u32, u64, Vec<u8>);

struct Scene<'a> {
    script: Script<'a>,
    bench: Bench,
    peers: [Peer; 3],
    teids: Vec<u32>,
    now: u64,
}

/// Runs the script.
///
/// # Panics
/// When a promise is broken.
pub fn n4_sessions(bytes: &[u8]) {
    let peer = |last: u8| Peer {
        at: SocketAddr::from(([10, 0, 4, last], pfcp::PORT)),
        seids: Vec::new(),
        asked: Vec::new(),
        sequence: 0,
    };
    let mut all = Scene {
        script: Script(bytes),
        bench: Bench::without_peer(MORE),
        peers: [peer(9), peer(10), peer(11)],
        teids: Vec::new(),
        now: 1,
    };
    for peer in 0..3 {
        let node_id = NodeId::from(all.peers[peer].at.ip());
        let recovery_time_stamp = RecoveryTimeStamp::from_unix(1_700_000_000);
        let set_up = AssociationSetupRequest { node_id, recovery_time_stamp, ..Default::default() };
        all.say(peer, None, set_up.into());
    }
    for _ in 0..STEPS {
        if all.script.0.is_empty() {
            break;
        }
        all.step();
        assert_eq!(all.bench.sessions().store().len(), all.bench.worker_sessions(), "control and worker differ");
    }
    // Whatever waits is given up after this, and what is reported is heard by nobody.
    all.now += 100_000_000_000;
    all.bench.turn_to(all.now);
    assert_eq!(all.bench.sessions().store().len(), all.bench.worker_sessions(), "control and worker differ");
    all.bench.close();
}

impl Scene<'_> {
    fn step(&mut self) {
        let peer = self.script.below(3);
        match self.script.byte() % 16 {
            0..4 => {
                let message = self.script.establishment(&self.peers[peer]);
                self.say(peer, Some(0), message.into());
            }
            4..8 => {
                let seid = self.seid(peer);
                let message = self.script.modification();
                self.say(peer, Some(seid), message.into());
            }
            8 => {
                let seid = self.seid(peer);
                self.say(peer, Some(seid), SessionDeletionRequest::default().into());
            }
            9 => {
                let message = self.script.node_message(&self.peers[peer]);
                self.say(peer, None, message);
            }
            10 => self.answer(peer),
            11 => {
                self.now += [1_000_000, 60_000_000, 1_000_000_000, 7_000_000_000][self.script.below(4)];
                self.bench.turn_to(self.now);
                self.hear();
            }
            12..14 => {
                let teid = self.script.pick(&[&self.teids[..], &[0x77]].concat());
                let user = request(self.script.ue());
                self.bench.send("n3", &from_gnb(Over::V4).gtpu(teid).container_up(9).carrying(&user).build());
                self.hear();
            }
            _ => {
                let user = response(self.script.ue());
                self.bench.send("n6", &from_router(&user).build());
                self.hear();
            }
        }
        // What leaves is looked at by other tests; here it must only not pile up.
        self.teids.truncate(64);
        for port in ["n3", "n6"] {
            self.bench.received(port);
        }
    }

    /// A session of this control plane, mostly.
    fn seid(&mut self, peer: usize) -> u64 {
        let whose = if self.script.once_in(8) { self.script.below(3) } else { peer };
        self.script.pick(&[&self.peers[whose].seids[..], &[1]].concat())
    }

    /// Answers a request of the user plane.
    fn answer(&mut self, peer: usize) {
        let Some(asked) = self.peers[peer].asked.pop() else { return };
        let cause =
            self.script.pick(&[Cause::REQUEST_ACCEPTED, Cause::REQUEST_ACCEPTED, Cause::SESSION_CONTEXT_NOT_FOUND]);
        let message: Message = match asked.message {
            Message::SessionReportRequest(_) => SessionReportResponse {
                cause,
                pfcp_sr_rsp_flags: self.script.maybe(|_| PfcpSrRspFlags::DROBU),
                update_bar: self.script.maybe(|s| UpdateBarInReportResponse {
                    bar_id: BarId(s.id() as u8),
                    downlink_data_notification_delay: s.maybe(|s| DownlinkDataNotificationDelay(s.byte() % 4)),
                    ..UpdateBarInReportResponse::default()
                }),
                ..SessionReportResponse::default()
            }
            .into(),
            Message::NodeReportRequest(_) => {
                NodeReportResponse { node_id: NodeId::from(self.peers[peer].at.ip()), cause, ..Default::default() }
                    .into()
            }
            Message::HeartbeatRequest(_) => HeartbeatResponse {
                recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
                ..Default::default()
            }
            .into(),
            _ => return,
        };
        let seid = asked.header.seid.map(|_| 1);
        let packet = Packet { header: Header { seid, ..asked.header }, message };
        self.datagram(peer, packet.to_vec().unwrap_or_default());
    }

    fn say(&mut self, peer: usize, seid: Option<u64>, message: Message) {
        let sequence = &mut self.peers[peer].sequence;
        *sequence += 1;
        let header = Header { seid, ..Header::node(*sequence) };
        // Rules may be more than a message holds.
        let Ok(mut octets) = (Packet { header, message }).to_vec() else { return };
        if self.script.once_in(12) {
            for _ in 0..=self.script.below(3) {
                let at = (usize::from(self.script.byte()) << 8 | usize::from(self.script.byte())) % octets.len();
                octets[at] = self.script.byte();
            }
        }
        self.datagram(peer, octets);
    }

    /// Hands a datagram in. Sessions of other control planes are as before.
    fn datagram(&mut self, peer: usize, octets: Vec<u8>) {
        let before = self.kept();
        let from = self.peers[peer].at;
        let own = self.associations(from);
        let sent = self.bench.datagram_from(from, &octets);
        let mine = |kept: &&Kept| own.contains(&kept.1);
        let after = self.kept();
        for kept in before.iter().filter(|kept| !mine(kept)) {
            // Sessions of an association that is over end without anybody's message.
            let is_over = !self.bench.is_associated(kept.1);
            let now = after.iter().filter(|now| now.0 == kept.0).collect::<Vec<_>>();
            assert!(
                is_over || after.contains(kept),
                "a message of {from} changed a session of another: {kept:x?}, now {now:x?}: {octets:02x?}"
            );
        }
        for packet in sent {
            self.sent(packet);
        }
        self.hear();
    }

    /// Several, where a control plane has set up with several Node IDs.
    fn associations(&self, at: SocketAddr) -> Vec<u32> {
        self.bench.associations().filter(|(_, address)| address.ip() == at.ip()).map(|(id, _)| id).collect()
    }

    /// The sessions as control keeps them.
    fn kept(&self) -> Vec<Kept> {
        let book = self.bench.sessions().store();
        let one = |(number, entry): (u32, &upf::n4::store::StoredSession)| {
            (book.seid(number).unwrap_or(0), entry.peer, entry.cp_seid, entry.message().to_vec())
        };
        book.iter().map(one).collect()
    }

    fn hear(&mut self) {
        for packet in self.bench.unasked() {
            self.sent(packet);
        }
    }

    /// Takes note of what the user plane says.
    fn sent(&mut self, packet: Packet) {
        if packet.message.is_request() {
            // Which of them it went to is told by the session; any will do.
            let peer = packet.header.sequence as usize % 3;
            self.peers[peer].asked.push(packet);
            return;
        }
        if let Message::SessionEstablishmentResponse(response) = packet.message {
            let f_teids = response.created_pdrs.iter().filter_map(|created| created.local_f_teid);
            self.teids.extend(f_teids.filter_map(|f_teid| match f_teid {
                FTeid::Given { teid, .. } => Some(teid.0),
                FTeid::Choose { .. } => None,
            }));
            let Some(FSeid { seid, .. }) = response.up_f_seid else { return };
            let owner =
                self.bench.sessions().store().find(seid).and_then(|number| self.bench.sessions().store().get(number));
            let address = owner.and_then(|entry| self.bench.associations().find(|(id, _)| *id == entry.peer));
            let peer = self.peers.iter_mut().find(|peer| address.is_some_and(|(_, at)| at.ip() == peer.at.ip()));
            peer.into_iter().for_each(|peer| peer.seids.push(seid));
        }
    }
}
