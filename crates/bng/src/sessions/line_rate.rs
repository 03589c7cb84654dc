//! What lines carry, as access nodes tell it in clients' requests (TR-101, 3.9): it bounds the rates of their subscribers, and
//! RADIUS servers are told.

use access::option82::{LineRate, RelayAgent};
use access::subscriber::Identity;
use access::{dhcp4, dhcp6, identifier_hash};
use radius::Attribute;
use radius::dictionary::number;

use super::frames::{self, Carried};
use super::{Served, Sessions};
use crate::control::Control;

/// What was told of a line, and by what name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldRate {
    /// Its actual data rates.
    pub rate: LineRate,
    /// A number of what the access node calls the line; 0: not known.
    pub circuit: u64,
}

impl ToldRate {
    /// Of a request, if an access node has told something in it: in option 82.9, or in option 17 of DHCPv6.
    fn of(frame: &[u8]) -> Option<Self> {
        let (rates, name) = match frames::read(frame)? {
            Carried::Dhcp4(_, octets) => {
                let agent = RelayAgent::parse(dhcp4::Message::parse(octets).ok()?.agent?).ok()?;
                (agent.rates, [agent.circuit_id, agent.remote_id])
            }
            Carried::Dhcp6(_, octets) => {
                let message = dhcp6::Message::parse(octets).ok()?;
                let agent = message.agent()?;
                (agent.rates, [agent.interface_id, agent.remote_id])
            }
            Carried::Solicitation => return None,
        };
        let circuit = identifier_hash(&name.map(Option::unwrap_or_default)) | 1;
        Some(Self { rate: rates.actual(), circuit }).filter(|told| !told.rate.is_unknown())
    }

    /// As it was told now; what was not told stays. `shared`: subscribers are told apart by their hardware addresses, which a
    /// neighbour may use as well, so that only the line of the subscriber's own name counts.
    #[must_use]
    pub fn updated(self, told: Self, shared: bool) -> Self {
        let is_others = shared && self.circuit != 0 && self.circuit != told.circuit;
        if told.rate.is_unknown() || is_others {
            return self;
        }
        Self { rate: self.rate.updated(told.rate), circuit: told.circuit }
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
    /// What a request tells of its line, as far as that bounds its subscriber's rates.
    pub(super) fn told_rate(&self, frame: &[u8]) -> ToldRate {
        let counts = self.trust_option82 && self.cap_by_line_rate;
        Some(frame).filter(|_| counts).and_then(ToldRate::of).unwrap_or_default()
    }
}

impl Sessions {
    /// The rates of a subscriber follow what its line carries now.
    pub(super) fn retrain(&mut self, control: &mut Control, identity: &Identity, told: ToldRate) {
        let Some(session) = self.sessions.get_mut(identity) else { return };
        let before = session.line;
        session.line = before.updated(told, identity.mac.is_some());
        if session.line.rate == before.rate {
            return;
        }
        let (handle, about) = (session.handle, self.about(control, identity));
        if let Some(aaa) = &mut self.aaa {
            aaa.update(handle, identity, about);
        }
        if let Some(spec) = self.spec(identity) {
            let _ = control.install(spec); // its group is there
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_line_does_not_count() {
        let told = |up_kbps, circuit| ToldRate { rate: LineRate { up_kbps, down_kbps: 0 }, circuit };
        let own = told(1000, 7);
        assert_eq!(own.updated(told(500, 7), true), told(500, 7));
        assert_eq!(own.updated(told(500, 9), true), own, "another's line, with the subscriber's hardware address");
        assert_eq!(own.updated(told(500, 9), false), told(500, 9), "the pair has no other subscriber");
        assert_eq!(told(1000, 0).updated(told(500, 9), true), told(500, 9), "of an earlier run");
        assert_eq!(own.updated(ToldRate::default(), false), own);
    }
}
