//! Prefixes that router advertisements give (RFC 4862): advertised, renewed while they are used, and ended.

use std::cmp::Reverse;
use std::net::Ipv6Addr;

use access::lease::{Kind, LeaseKey};
use access::pool::Refusal;
use access::subscriber::{Identity, Vlans};
use access::{ClientKey, Time};
use wire::{Mac, ndp};

use super::frames::{Link, Tags};
use super::{BATCH, Pending, ReplyPath, Requester, Session, Sessions, frames};
use crate::config::Ipv6Mode;
use crate::control::Control;
use crate::subscribers::Usage;

impl Sessions {
    /// The key of the prefix that is advertised to a subscriber.
    pub(super) fn prefix_key(&self, line: access::Line, group: u16, source: Mac) -> LeaseKey {
        let shared = self.served(group).is_some_and(|served| served.vlans == Vlans::ManyPerLine);
        let mac = if shared { source.0 } else { [0; 6] };
        LeaseKey { kind: Kind::Na, client: ClientKey { line, mac, identifier: 0 } }
    }

    /// A router solicitation: a prefix of the line's own, where prefixes are advertised, and an advertisement.
    pub(super) fn solicited(&mut self, control: &mut Control, line: access::Line, path: ReplyPath, now: Time) {
        let Some(served) = self.served(path.group) else { return };
        let (mode, offer, instance) = (served.mode, served.offer, served.instance);
        let Some(link_local) = served.link_local else { return };
        let random = self.random();
        if mode == Ipv6Mode::Slaac {
            let key = self.prefix_key(line, path.group, path.via);
            match self.pools[instance].offer(key, path.group, None, now, offer) {
                Err(Refusal::PairLimit) => {
                    self.counts.pair_limit += 1;
                    return;
                }
                Err(_) => {
                    self.counts.no_prefix += 1;
                    return;
                }
                Ok(_) => self.renew_prefix(line, path.group, path.via, path, now),
            }
        }
        let vlans = self.served(path.group).map_or(Vlans::OnePerLine, |served| served.vlans);
        let identity = Identity { line, mac: (vlans == Vlans::ManyPerLine).then_some(path.via) };
        let handle = self.sessions.get(&identity).map(|session| session.handle);
        let Some(Some(served)) = self.groups.get_mut(usize::from(path.group)) else { return };
        if handle.is_some_and(|handle| served.adverts.solicited(handle, now, random)) || mode == Ipv6Mode::Slaac {
            // With a prefix, it is sent when that is on the disk.
            return;
        }
        // Nobody's line yet: how addresses are assigned here.
        let message = access::ra::message(&served.advert, None);
        self.send_to(control, path.group, line, (path.via, path.tags), link_local, &message);
    }

    /// The prefix that is advertised to a subscriber lives as long as the subscriber shows itself.
    pub(super) fn renew_prefix(&mut self, line: access::Line, group: u16, source: Mac, path: ReplyPath, now: Time) {
        let Some(served) = self.served(group).filter(|served| served.mode == Ipv6Mode::Slaac) else { return };
        let (instance, valid) = (served.instance, served.valid);
        let key = self.prefix_key(line, group, source);
        let pools = &mut self.pools[instance];
        let live = pools.find(&key).filter(|slot| pools.lease(*slot).state() != access::pool::State::Idle);
        let Some(slot) = live else { return };
        if pools.grant(slot, (now + valid).secs(), (Time::default() + valid).secs()) {
            let record = pools.record(slot);
            self.put(Pending { requester: Requester::Slaac, record, path });
        }
    }

    pub(super) fn random(&mut self) -> u32 {
        // xorshift64*: spreads timers, nothing more.
        let mut x = self.environment.seed | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.environment.seed = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Sends router advertisements that are due.
    pub(super) fn advertise(&mut self, control: &mut Control, now: Time) {
        for group in 0..self.groups.len() {
            for _ in 0..BATCH {
                let random = self.random();
                let Some(served) = self.groups[group].as_mut() else { break };
                let Some((handle, message)) = served.adverts.poll(now, random) else { break };
                let Some(identity) = self.by_handle.get(&handle).copied() else { continue };
                if let Some(session) = self.sessions.get(&identity).copied() {
                    self.send_advertisement(control, &identity, &session, &message);
                }
            }
        }
    }

    pub(super) fn send_advertisement(
        &self,
        control: &mut Control,
        identity: &Identity,
        session: &Session,
        message: &ndp::Repr,
    ) {
        let Some(link_local) = self.served(session.group).and_then(|served| served.link_local) else { return };
        // All nodes, where no single one is known (RFC 2464, 7).
        let to = identity.mac.or(session.mac).unwrap_or(Mac([0x33, 0x33, 0, 0, 0, 1]));
        self.send_to(control, session.group, identity.line, (to, session.tags), link_local, message);
    }

    pub(super) fn send_to(
        &self,
        control: &mut Control,
        group: u16,
        line: access::Line,
        (to, tags): (Mac, Tags),
        from: Ipv6Addr,
        message: &ndp::Repr,
    ) {
        let port = line.port as u8;
        let (own, line_mtu) = (control.gateway_mac(group, port), control.mtu_of(group, port));
        let mut message = *message;
        if let ndp::Repr::RouterAdvert { source, mtu, .. } = &mut message {
            (*source, *mtu) = (Some(own), Some(line_mtu.into()).filter(|mtu| *mtu >= 1280));
        }
        if let Some(frame) = frames::advertisement(&Link { from: own, to, tags }, from, &message) {
            let _ = control.send(group, port, frame); // its group is there
        }
    }

    /// Asks for the usage of subscribers whose prefix is advertised: traffic says that they are there.
    pub(super) fn check(&mut self, control: &mut Control, now: Time) {
        let mut due = Vec::new();
        while due.len() < BATCH
            && !control.is_arriving()
            && let Some(Reverse((at, handle))) = self.checks.peek().copied()
            && at <= now.0
        {
            self.checks.pop();
            // What does not match is out of date.
            let Some(identity) = self.by_handle.get(&handle).copied() else { continue };
            let Some(session) = self.sessions.get(&identity).filter(|session| session.check == at) else { continue };
            let Some(served) = self.served(session.group) else { continue };
            let next = now.0 + served.valid.as_millis() as u64 / 4;
            self.schedule_check(&identity, next);
            due.push(handle);
        }
        if !due.is_empty() {
            control.ask_usage(&due);
        }
        for (handle, usage) in control.usage_news() {
            self.on_usage(handle, &usage, now);
        }
    }

    pub(super) fn on_usage(&mut self, handle: u32, usage: &Usage, now: Time) {
        if self.reporting.remove(&handle)
            && let Some(aaa) = &mut self.aaa
        {
            aaa.interim(handle, self.by_handle.get(&handle), usage, now);
        }
        let Some(identity) = self.by_handle.get(&handle).copied() else { return };
        let Some(session) = self.sessions.get_mut(&identity) else { return };
        let before = std::mem::replace(&mut session.packets6, usage.up_packets[1]);
        let session = *session;
        if usage.up_packets[1] != before {
            let source = identity.mac.unwrap_or(Mac([0; 6]));
            let path = ReplyPath { tags: session.tags, via: source, ..ReplyPath::none(session.group) };
            self.renew_prefix(identity.line, session.group, source, path, now);
        }
    }
}
