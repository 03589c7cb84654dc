use proptest::prelude::*;
use std::net::Ipv4Addr;

use super::*;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 8]);
const HIM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

struct Rig {
    cache: NeighbourCache,
    now: u64,
}

impl Rig {
    fn new(config: Config) -> Rig {
        Rig { cache: NeighbourCache::new(config), now: 1000 * SECOND }
    }

    fn want(&mut self, address: IpAddr) -> (Wanted, Vec<Action>) {
        let mut out = Vec::new();
        (self.cache.want(1, address, self.now, &mut out), out)
    }

    fn heard(&mut self, mac: Option<Mac>, solicited: bool, overrides: bool) -> Vec<Action> {
        let mut out = Vec::new();
        self.cache.heard(1, &Heard { address: HIM, mac, solicited, overrides }, self.now, &mut out);
        out
    }

    fn learn(&mut self, address: IpAddr, mac: Mac) -> Vec<Action> {
        let mut out = Vec::new();
        let heard = Heard { address, mac: Some(mac), solicited: false, overrides: true };
        self.cache.learn(1, &heard, self.now, &mut out);
        out
    }

    /// Lets time pass, to the next deadline at most at a time; returns what was done and when, in milliseconds.
    fn pass(&mut self, time: u64) -> Vec<(u64, Action)> {
        let (start, end) = (self.now, self.now + time);
        let mut done = Vec::new();
        while let Some(next) = self.cache.next_deadline().filter(|next| *next <= end) {
            let mut out = Vec::new();
            self.now = self.now.max(next);
            self.cache.tick(self.now, &mut out);
            done.extend(out.into_iter().map(|action| ((self.now - start) / 1_000_000, action)));
        }
        self.now = end;
        done
    }

    fn state(&self) -> Option<State> {
        self.cache.get(1, HIM).map(|(state, _)| state)
    }
}

fn ask(to: Option<Mac>) -> Action {
    Action::Send(Request { port: 1, address: HIM, to })
}

const FAILED: Action = Action::Failed { port: 1, address: HIM };

fn resolved(mac: Mac) -> Action {
    Action::Resolved { port: 1, address: HIM, mac }
}

#[test]
fn asked_three_times_then_failed_then_asked_anew() {
    let mut rig = Rig::new(Config::default());
    assert_eq!(rig.want(HIM), (Wanted::Asked, vec![ask(None)]));
    assert_eq!(rig.want(HIM), (Wanted::Asked, vec![]));
    assert_eq!(rig.pass(3 * SECOND), [(1000, ask(None)), (2000, ask(None)), (3000, FAILED)]);
    assert_eq!(rig.want(HIM), (Wanted::Unreachable, vec![]));
    let forgotten = Action::Forgotten { port: 1, address: HIM };
    assert_eq!(rig.pass(3 * SECOND), [(3000, forgotten)]);
    assert!(rig.cache.is_empty());
    assert_eq!(rig.want(HIM), (Wanted::Asked, vec![ask(None)]));
}

#[test]
fn an_answer_is_believed_then_verified() {
    let mut rig = Rig::new(Config::default());
    rig.want(HIM);
    assert_eq!(rig.heard(Some(MAC), true, true), [resolved(MAC)]);
    assert_eq!((rig.want(HIM), rig.state()), ((Wanted::Known(MAC), vec![]), Some(State::Reachable)));
    assert_eq!(rig.pass(30 * SECOND), [(30_000, ask(Some(MAC)))]);
    assert_eq!((rig.want(HIM), rig.state()), ((Wanted::Known(MAC), vec![]), Some(State::Probe)));
    // An answer need not repeat the address (RFC 4861, 4.4).
    assert_eq!((rig.heard(None, true, false), rig.state()), (vec![], Some(State::Reachable)));
    let asked = [(30_000, ask(Some(MAC))), (31_000, ask(Some(MAC))), (32_000, ask(Some(MAC))), (33_000, FAILED)];
    assert_eq!(rig.pass(60 * SECOND), asked);
    assert_eq!(rig.want(HIM), (Wanted::Asked, vec![ask(None)]), "the next packet asks all");
}

#[test]
fn without_refresh_only_what_is_wanted_is_verified() {
    let mut rig = Rig::new(Config { refresh: false, ..Config::default() });
    rig.want(HIM);
    rig.heard(Some(MAC), true, true);
    assert_eq!((rig.pass(30 * SECOND), rig.state()), (vec![], Some(State::Stale)));
    assert_eq!(rig.want(HIM), (Wanted::Known(MAC), vec![]));
    assert_eq!(rig.pass(5 * SECOND), [(5000, ask(Some(MAC)))]);
    rig.heard(Some(MAC), true, true);
    assert_eq!(rig.pass(630 * SECOND), [(630_000, Action::Forgotten { port: 1, address: HIM })]);
}

#[test]
fn an_announcement_replaces_and_is_verified() {
    let mut rig = Rig::new(Config::default());
    assert_eq!(rig.heard(Some(MAC), false, true), [], "nobody asked for it");
    assert!(rig.cache.is_empty());
    rig.want(HIM);
    rig.heard(Some(MAC), true, true);
    assert_eq!((rig.heard(Some(MAC), false, true), rig.state()), (vec![], Some(State::Reachable)));
    assert_eq!((rig.heard(Some(OTHER), false, true), rig.state()), (vec![resolved(OTHER)], Some(State::Stale)));
    assert_eq!(rig.pass(5 * SECOND), [(5000, ask(Some(OTHER)))]);
}

#[test]
fn a_claim_that_does_not_override_only_casts_doubt() {
    let mut rig = Rig::new(Config::default());
    rig.want(HIM);
    assert_eq!(rig.heard(None, true, true), [], "an answer to all must say where");
    rig.heard(Some(MAC), true, true);
    assert_eq!((rig.heard(Some(OTHER), true, false), rig.state()), (vec![], Some(State::Stale)));
    assert_eq!(rig.want(HIM).0, Wanted::Known(MAC));
}

#[test]
fn who_comes_back_is_heard() {
    let mut rig = Rig::new(Config::default());
    rig.want(HIM);
    rig.pass(3 * SECOND);
    assert_eq!(rig.state(), Some(State::Failed));
    assert_eq!((rig.heard(Some(MAC), false, true), rig.state()), (vec![resolved(MAC)], Some(State::Stale)));
    assert_eq!(rig.pass(5 * SECOND), [(5000, ask(Some(MAC)))]);
}

#[test]
fn who_asks_us_is_learnt() {
    let mut rig = Rig::new(Config::default());
    assert_eq!(rig.learn(HIM, MAC), [resolved(MAC)]);
    assert_eq!((rig.learn(HIM, MAC), rig.state()), (vec![], Some(State::Stale)));
    assert_eq!(rig.pass(5 * SECOND), [(5000, ask(Some(MAC)))]);
}

#[test]
fn configuration_is_not_overruled() {
    let mut rig = Rig::new(Config::default());
    let mut out = Vec::new();
    rig.want(HIM);
    rig.cache.set_static(1, HIM, MAC, &mut out);
    assert_eq!(out, [resolved(MAC)]);
    assert_eq!((rig.heard(Some(OTHER), true, true), rig.learn(HIM, OTHER)), (vec![], vec![]));
    assert_eq!(rig.pass(1000 * SECOND), []);
    assert_eq!(rig.want(HIM), (Wanted::Known(MAC), vec![]));
    out.clear();
    assert!(rig.cache.remove(1, HIM, &mut out) && !rig.cache.remove(1, HIM, &mut out));
    assert_eq!(out, [Action::Forgotten { port: 1, address: HIM }]);
}

#[test]
fn a_scan_fills_no_more_than_its_share() {
    let mut rig = Rig::new(Config { max_entries: 40, max_unproven: 10, ..Config::default() });
    rig.want(HIM);
    rig.heard(Some(MAC), true, true);
    let nth = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0100 + n));
    let asked = (0..1000).filter(|n| rig.want(nth(*n)).0 == Wanted::Asked).count();
    assert_eq!((asked, rig.cache.len()), (10, 11));
    assert_eq!(rig.want(nth(999)).0, Wanted::Full);
    assert_eq!(rig.learn(nth(999), OTHER), []);
    assert_eq!(rig.want(HIM).0, Wanted::Known(MAC));
    rig.pass(7 * SECOND);
    assert_eq!(rig.cache.len(), 1);
}

#[test]
fn messages_say_what_there_is_to_learn() {
    use NeighbourMessage::*;
    let him = Ipv4Addr::new(10, 0, 0, 9);
    let us = Ipv4Addr::new(10, 0, 0, 1);
    let claim = Heard { address: HIM, mac: Some(MAC), solicited: false, overrides: true };
    let of = |message| Heard::from_message(&message);
    assert_eq!(of(ArpRequest { sender: MAC, sender_ip: him, target: us }), Some(claim));
    assert_eq!(of(ArpRequest { sender: MAC, sender_ip: Ipv4Addr::UNSPECIFIED, target: us }), None);
    assert_eq!(of(ArpReply { sender: MAC, sender_ip: him, target: us }), Some(Heard { solicited: true, ..claim }));
    assert_eq!(of(ArpReply { sender: MAC, sender_ip: him, target: him }), Some(claim));
    let source = "fe80::9".parse().unwrap();
    assert_eq!(of(RouterSolicitation { source, link: None }), None);
    let said = Some(Heard { address: source.into(), ..claim });
    assert_eq!(of(RouterSolicitation { source, link: Some(MAC) }), said);
    let tells = NeighbourAdvertisement { target: source, link: None, router: true, solicited: true, overrides: false };
    assert_eq!(of(tells), Some(Heard { address: source.into(), mac: None, solicited: true, overrides: false }));
}

proptest! {
    #[test]
    fn bounds_and_timers_hold(
        steps in prop::collection::vec((0u8..6, 0u32..30, any::<bool>(), any::<bool>(), 0u64..4 * SECOND), 0..300),
        refresh: bool,
    ) {
        let mut rig = Rig::new(Config { max_entries: 20, max_unproven: 8, refresh, forget_after: 20 * SECOND, ..Config::default() });
        // What the packet path would hold, from the actions alone.
        let mut published = BTreeMap::new();
        for (what, n, a, b, wait) in steps {
            let address = IpAddr::V4(Ipv4Addr::from_bits(n));
            let mac = if a { MAC } else { OTHER };
            let mut out = Vec::new();
            let now = rig.now;
            match what {
                0 | 1 => { rig.cache.want(1, address, now, &mut out); }
                2 => rig.cache.heard(1, &Heard { address, mac: b.then_some(mac), solicited: true, overrides: a }, now, &mut out),
                3 => rig.cache.heard(1, &Heard { address, mac: Some(mac), solicited: false, overrides: b }, now, &mut out),
                4 => out = rig.learn(address, mac),
                _ => { rig.cache.remove(1, address, &mut out); }
            }
            out.extend(rig.pass(wait).into_iter().map(|(_, action)| action));
            for action in out {
                match action {
                    Action::Resolved { address, mac, .. } => { published.insert(address, mac); }
                    Action::Failed { address, .. } | Action::Forgotten { address, .. } => { published.remove(&address); }
                    Action::Send(_) => (),
                }
            }
            let known: BTreeMap<_, _> = rig.cache.iter().filter_map(|(_, a, _, mac)| Some((a, mac?))).collect();
            prop_assert_eq!(&known, &published);
            prop_assert!(rig.cache.len() <= 20);
            let unproven = rig.cache.entries.values().filter(|e| !e.proven).count();
            prop_assert_eq!(unproven, rig.cache.unproven);
            prop_assert!(unproven <= 8);
            prop_assert_eq!(rig.cache.timers.len(), rig.cache.entries.values().filter(|e| e.deadline < u64::MAX).count());
            prop_assert!(rig.cache.next_deadline().is_none_or(|next| next > rig.now));
        }
    }
}

#[test]
fn what_another_gateway_found_is_used_at_once_and_asked() {
    let mut rig = Rig::new(Config::default());
    let suppose = |rig: &mut Rig, mac| {
        let mut out = Vec::new();
        rig.cache.suppose(1, HIM, mac, &mut out);
        out
    };
    // Asked for already, in vain so far: what waits goes.
    assert_eq!(rig.want(HIM).0, Wanted::Asked);
    assert_eq!(suppose(&mut rig, MAC), [Action::Resolved { port: 1, address: HIM, mac: MAC }]);
    assert_eq!(rig.want(HIM).0, Wanted::Known(MAC));
    let ask = Action::Send(Request { port: 1, address: HIM, to: Some(MAC) });
    assert_eq!(rig.pass(0).into_iter().map(|(_, action)| action).collect::<Vec<_>>(), [ask]);
    // What is known here is not overruled.
    assert_eq!(suppose(&mut rig, OTHER), []);
    assert_eq!(rig.want(HIM).0, Wanted::Known(MAC));
    // It does not answer: it is gone.
    let last = rig.pass(10 * SECOND).pop().unwrap().1;
    assert_eq!(last, Action::Failed { port: 1, address: HIM });
}
