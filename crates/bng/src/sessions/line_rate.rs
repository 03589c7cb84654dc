//! What lines carry, as access nodes tell it in clients' requests (TR-101, 3.9): it bounds the rates of their subscribers, and
//! RADIUS servers are told.

use access::option82::{LineRate, RelayAgent};
use access::subscriber::Identity;
use access::{dhcp4, dhcp6, identifier_hash};
use radius::Attribute;
use radius::dictionary::number;

use super::frames::{self, Carried};
use super::{Pending, ReplyPath, Requester, Served, Sessions};
use crate::control::Control;

/// What was told of a line, and by what names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldRate {
    /// Its actual data rates.
    pub rate: LineRate,
    /// Numbers of what the access node calls the line, in DHCPv4 and in DHCPv6; 0: not known.
    pub circuits: [u64; 2],
}

impl ToldRate {
    /// Of a request, if an access node has told something in it: in option 82.9, or in option 17 of DHCPv6.
    fn of(frame: &[u8]) -> Option<Self> {
        let (family, rates, name) = match frames::read(frame)? {
            Carried::Dhcp4(_, octets) => {
                let agent = RelayAgent::parse(dhcp4::Message::parse(octets).ok()?.agent?).ok()?;
                (0, agent.rates, [agent.circuit_id, agent.remote_id])
            }
            Carried::Dhcp6(_, octets) => {
                let message = dhcp6::Message::parse(octets).ok()?;
                let agent = message.agent()?;
                (1, agent.rates, [agent.interface_id, agent.remote_id])
            }
            Carried::Solicitation => return None,
        };
        let mut circuits = [0; 2];
        circuits[family] = identifier_hash(&name.map(Option::unwrap_or_default)) | 1;
        Some(Self { rate: rates.actual(), circuits }).filter(|told| !told.rate.is_unknown())
    }

    /// Of an earlier run.
    pub fn stored(rate: LineRate) -> Self {
        Self { rate, circuits: [0; 2] }
    }

    /// Whether a request came by another line, as far as is known.
    fn is_others(self, told: Self) -> bool {
        self.circuits.into_iter().zip(told.circuits).any(|(own, told)| own != 0 && told != 0 && own != told)
    }

    /// As it was told now; what was not told stays. `shared`: subscribers are told apart by their hardware addresses, which a
    /// neighbour may use as well, so that only the line of the subscriber's own names counts.
    #[must_use]
    pub fn updated(self, told: Self, shared: bool) -> Self {
        if told.rate.is_unknown() || shared && self.is_others(told) {
            return self;
        }
        let newest = |n: usize| if told.circuits[n] == 0 { self.circuits[n] } else { told.circuits[n] };
        Self { rate: self.rate.updated(told.rate), circuits: [newest(0), newest(1)] }
    }

    /// What RADIUS servers are told of it, in bit/s (RFC 4679, 3.3.3 and 3.3.4).
    pub fn attributes(self) -> impl Iterator<Item = Attribute> {
        let both = [(number::BBF_ACTUAL_UP, self.rate.up_kbps), (number::BBF_ACTUAL_DOWN, self.rate.down_kbps)];
        both.into_iter()
            .filter(|(_, kbps)| *kbps > 0)
            .map(|(code, kbps)| Attribute::vendor(number::BBF, code, kbps.saturating_mul(1000).to_be_bytes()))
    }
}

impl Served {
    /// What a trusted access node tells of a request's line.
    pub(super) fn told_rate(&self, frame: &[u8]) -> ToldRate {
        Some(frame).filter(|_| self.trust_option82).and_then(ToldRate::of).unwrap_or_default()
    }

    /// What bounds the rates of a subscriber, of what was told of its line.
    pub(super) fn bound_by(&self, told: ToldRate) -> LineRate {
        Some(told.rate).filter(|_| self.trust_option82 && self.cap_by_line_rate).unwrap_or_default()
    }
}

impl Sessions {
    /// The rates of a subscriber follow what its line carries now, in its leases too.
    pub(super) fn retrain(&mut self, control: &mut Control, identity: &Identity, told: ToldRate) {
        let Some(session) = self.sessions.get_mut(identity) else { return };
        let (before, shared) = (session.line, identity.mac.is_some());
        if shared && before.is_others(told) {
            self.counts.foreign_rates += 1;
        }
        session.line = before.updated(told, shared);
        if session.line.rate == before.rate {
            return;
        }
        let session = *session;
        for record in self.records.leases(identity).to_vec() {
            let path = ReplyPath { tags: session.tags, ..ReplyPath::none(session.group) };
            self.put(Pending { requester: Requester::Slaac, record, path });
        }
        self.reinstall(control, identity);
        let about = self.about(control, identity);
        if let Some(aaa) = &mut self.aaa {
            aaa.update(session.handle, identity, about);
        }
    }

    /// Has the worker of a subscriber go by what is known of it now.
    pub(super) fn reinstall(&self, control: &mut Control, identity: &Identity) {
        if let Some(spec) = self.spec(identity)
            && let Err(why) = control.install(spec)
        {
            tracing::warn!(target: "sessions", event = "not_installed", "{why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_line_does_not_count() {
        let told = |up_kbps, circuits| ToldRate { rate: LineRate { up_kbps, down_kbps: 0 }, circuits };
        let own = told(1000, [7, 0]);
        assert_eq!(own.updated(told(500, [7, 0]), true), told(500, [7, 0]));
        assert_eq!(own.updated(told(500, [9, 0]), true), own, "another's line, with the subscriber's hardware address");
        assert_eq!(own.updated(told(500, [9, 0]), false), told(500, [9, 0]), "the pair has no other subscriber");
        assert_eq!(own.updated(told(500, [0, 5]), true), told(500, [7, 5]), "DHCPv6 may have another name");
        assert_eq!(told(500, [7, 5]).updated(told(1, [0, 6]), true), told(500, [7, 5]));
        assert_eq!(told(1000, [0, 0]).updated(told(500, [9, 0]), true), told(500, [9, 0]), "of an earlier run");
        assert_eq!(own.updated(ToldRate::default(), false), own);
    }
}
