//! Rules with any number of QERs and URRs, against a model that knows them as lists: what passes, by what the rest is
//! refused, and what is measured; over changes of rules.

use proptest::prelude::*;
use serde::Deserialize;
use testkit::golden::{Subject, ms};
use upf::config::Config;
use upf::record::{MAX_QERS, MAX_URRS};
use upf::rules::{Apply, Far, Interface, Mbr, PacketLimit, Pdr, Qer, Session, TunnelEnd, Urr, Usage, Volumes};

use crate::device::Device;
use crate::golden_cases::{BASE, GNB, GNB_TEID, SERVER, TEID, UE, from_router, ip4, up};
use crate::many_rules_model::{Model, Outcome};

/// QERs and URRs of a session here.
const RULES: u32 = 9;

/// A session with one rule each way.
fn session([up, down]: [(Vec<u32>, Vec<u32>); 2], qers: Vec<Qer>, urrs: Vec<Urr>) -> Session {
    let far = |id, tunnel| Far { id, apply: Apply::Forward, tunnel, instance: u16::from(id == 1), ..Far::default() };
    let pdr = |id, (qers, urrs), teid| Pdr {
        id,
        source: if id == 1 { Interface::Access } else { Interface::Core },
        teid,
        far: id.into(),
        qers,
        urrs,
        ..Pdr::default()
    };
    Session {
        instance: 1,
        ue4: Some(UE),
        pdrs: vec![pdr(1, up, Some(TEID)), pdr(2, down, None)],
        fars: vec![far(1, None), far(2, Some(TunnelEnd::gtpu(GNB.into(), GNB_TEID)))],
        qers,
        urrs,
        ..Session::default()
    }
}

fn some<T: Copy + std::fmt::Debug + 'static, const N: usize>(values: [T; N]) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(proptest::sample::select(Vec::from(values)))
}

fn qer(id: u32) -> impl Strategy<Value = Qer> {
    let rate = || some([100_000u64, 1_000_000, 50_000_000]);
    let limit = || some([(2, ms(10)), (7, ms(10)), (20, ms(1000))]);
    let gate = || prop::bool::weighted(0.97);
    (gate(), gate(), rate(), rate(), limit(), limit(), any::<bool>()).prop_map(
        move |(gate_up, gate_down, up, down, first, second, session)| {
            let packets = [first, second].map(|limit| limit.map(|(most, period_ns)| PacketLimit { most, period_ns }));
            Qer { id, gate_up, gate_down, mbr: Mbr { up, down }, packets, session, ..Qer::default() }
        },
    )
}

fn urr(id: u32) -> impl Strategy<Value = Urr> {
    let volumes = || {
        let volume = || some([1_000u64, 9_000, 30_000, 100_000]);
        (volume(), volume(), volume()).prop_map(|(total, up, down)| Volumes { total, up, down })
    };
    let quota = prop_oneof![3 => Just(Volumes::default()), 1 => volumes()];
    (volumes(), quota, any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(move |(threshold, quota, before_qos, paused)| Urr { id, threshold, quota, before_qos, paused })
}

fn rules() -> impl Strategy<Value = Session> {
    let names = || proptest::collection::btree_set(1..=RULES, 0..=RULES as usize);
    let pdr = || (names(), names()).prop_map(|(q, u)| (q.into_iter().collect(), u.into_iter().collect()));
    let qers: Vec<_> = (1..=RULES).map(qer).collect();
    let urrs: Vec<_> = (1..=RULES).map(urr).collect();
    (pdr(), pdr(), qers, urrs).prop_map(|(up, down, qers, urrs)| session([up, down], qers, urrs))
}

/// What happens: new rules, packets of a length, time that passes.
#[derive(Clone, Debug)]
enum Step {
    Rules(Session),
    Packets { uplink: bool, bytes: usize, count: usize },
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => rules().prop_map(Step::Rules),
        6 => (any::<bool>(), 40usize..1400, 1usize..12)
            .prop_map(|(uplink, bytes, count)| Step::Packets { uplink, bytes, count }),
        2 => proptest::sample::select(vec![1, ms(1), ms(11), ms(400)]).prop_map(Step::Time),
    ]
}

fn device() -> Device {
    Device::new(Config::deserialize(toml::from_str::<toml::Table>(BASE).unwrap()).unwrap()).unwrap()
}

/// Rules, packets and time, in the gateway and in the model.
struct Both {
    device: Device,
    model: Model,
    now: u64,
}

impl Both {
    fn new(session: Session) -> Self {
        let mut both = Self { device: device(), model: Model::default(), now: ms(1) };
        both.device.turn_to(both.now);
        // Usage of the configured session's rule of the same number goes on.
        both.install(session);
        both
    }

    fn install(&mut self, session: Session) {
        self.device.install(0, &session).unwrap();
        self.device.settle();
        self.model.install(session, self.now);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Rules(session) => self.install(session),
            Step::Time(ns) => {
                self.now += ns;
                self.device.turn_to(self.now);
                self.device.settle();
            }
            Step::Packets { uplink, bytes, count } => {
                let wanted: Vec<Outcome> =
                    (0..count).map(|_| self.model.packet(uplink, bytes as u64, self.now)).collect();
                assert_eq!(self.pass(uplink, bytes, count), wanted);
            }
        }
        self.compare_usage();
    }

    /// What became of each of these packets, in the gateway.
    fn pass(&mut self, uplink: bool, bytes: usize, count: usize) -> Vec<Outcome> {
        let (into, out) = if uplink { ("n3", "n6") } else { ("n6", "n3") };
        let payload = vec![0; bytes - 28];
        let packet = match uplink {
            true => up(&ip4(UE, SERVER).udp(40_000, 50_000).payload(&payload)),
            false => from_router(&ip4(SERVER, UE).udp(50_000, 40_000).payload(&payload)),
        };
        let frame = packet.build();
        let mut one = || {
            let before = self.device.counters().drops;
            self.device.send(into, &frame);
            self.device.settle();
            if self.device.received(out).len() == 1 {
                return Outcome::Passed;
            }
            let now = self.device.counters().drops;
            let mut moved = now.iter().filter(|(name, d)| before.get(*name).map_or(0, |d| d.packets) < d.packets);
            let name = moved.next().map(|(name, _)| name.rsplit('.').next().unwrap().to_owned());
            Outcome::Dropped(name.unwrap())
        };
        (0..count).map(|_| one()).collect()
    }

    fn compare_usage(&mut self) {
        let sessions = self.device.rig().workers().next().unwrap().gateway().sessions();
        let mut seen = sessions.usage(0, self.now).unwrap();
        seen.sort_unstable_by_key(|usage| usage.urr);
        let seen: Vec<_> = seen
            .iter()
            .map(|&Usage { urr, up_bytes, down_bytes, up_packets, down_packets, .. }| {
                (urr, [up_bytes, down_bytes], [up_packets, down_packets])
            })
            .collect();
        assert_eq!(seen, self.model.usage());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn many_rules_do_as_a_list_of_them(first in rules(), steps in proptest::collection::vec(step(), 1..40)) {
        let mut both = Both::new(first);
        steps.into_iter().for_each(|step| both.step(step));
    }
}

/// As many as there may be, all of which count and limit.
#[test]
fn as_many_as_there_may_be() {
    let ids = |most: usize| (1..=most as u32).collect::<Vec<_>>();
    let list = || (ids(MAX_QERS), ids(MAX_URRS));
    let urrs = || ids(MAX_URRS).into_iter().map(|id| Urr { id, ..Urr::default() });
    let qers = |slowest: u32| {
        let qer = move |id| {
            // 1500 octets at once, and 1 kbit/s more.
            let up = (id == slowest).then_some(1_000);
            Qer { id, gate_up: true, gate_down: true, mbr: Mbr { up, down: None }, ..Qer::default() }
        };
        ids(MAX_QERS).into_iter().map(qer).collect::<Vec<_>>()
    };
    for slowest in ids(MAX_QERS) {
        let mut both = Both::new(session([list(), list()], qers(slowest), urrs().collect()));
        both.step(Step::Packets { uplink: true, bytes: 1400, count: 12 });
        both.step(Step::Packets { uplink: false, bytes: 1400, count: 12 });
    }
    for spent in 1..=MAX_URRS as u32 {
        let mut all: Vec<Urr> = urrs().collect();
        all[spent as usize - 1].quota.total = Some(5_000);
        let mut both = Both::new(session([list(), list()], qers(0), all));
        both.step(Step::Packets { uplink: spent % 2 == 0, bytes: 1000, count: 7 });
    }
}
