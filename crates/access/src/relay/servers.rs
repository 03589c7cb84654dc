//! Servers that requests are relayed to: which of them get a request, and which of them answer.

use crate::Time;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// To which of several servers a request goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// To all of them.
    #[default]
    All,
    /// To the first one that answers.
    First,
}

/// Requests without a reply, and the time since the first of them, after which a server counts as silent.
const UNANSWERED: u32 = 3;
const SILENCE: Duration = Duration::from_secs(3);
/// How often a silent server gets a request all the same.
const PROBE: Duration = Duration::from_secs(10);

/// A change of a server, for the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server has not replied to so many requests.
    Silent(IpAddr, u32),
    /// It replies again.
    Answers(IpAddr),
}

#[derive(Clone, Copy, Debug, Default)]
struct Health {
    requests: u64,
    replies: u64,
    /// Requests since the last reply that it should have replied to, and when the first of them was sent.
    unanswered: u32,
    since: Time,
    is_silent: bool,
    /// When it was sent a request last.
    asked: Time,
}

/// A server as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Number of the VRF it is reached in.
    pub instance: usize,
    /// Where requests to it go.
    pub address: IpAddr,
    /// It does not answer.
    pub is_silent: bool,
    /// Requests sent to it.
    pub requests: u64,
    /// Replies of it that answered a request.
    pub replies: u64,
    /// Requests since its last reply.
    pub unanswered: u32,
}

/// All servers, by VRF and address.
#[derive(Debug, Default)]
pub struct Servers {
    all: HashMap<(usize, IpAddr), Health>,
    events: Vec<Event>,
}

impl Servers {
    /// Has these servers from now on; what is known of those that stay is kept.
    pub fn set(&mut self, servers: impl IntoIterator<Item = (usize, IpAddr)>) {
        let mut before = std::mem::take(&mut self.all);
        self.all = servers.into_iter().map(|server| (server, before.remove(&server).unwrap_or_default())).collect();
    }

    /// Which of `servers` a request goes to now. `expects`: one that receives it replies, so that silence counts.
    pub(super) fn choose<A: Copy + Into<IpAddr>>(
        &mut self,
        (instance, servers): (usize, &[A]),
        order: Order,
        expects: bool,
        now: Time,
    ) -> Vec<A> {
        let health =
            |all: &HashMap<_, Health>, server: &A| all.get(&(instance, (*server).into())).copied().unwrap_or_default();
        let live = servers.iter().position(|server| !health(&self.all, server).is_silent);
        let is_chosen = |(at, server): &(usize, &A)| match order {
            Order::All => true,
            Order::First if Some(*at) == live || live.is_none() => true,
            Order::First => {
                let health = health(&self.all, server);
                health.is_silent && now.since(health.asked) >= PROBE
            }
        };
        let chosen: Vec<A> = servers.iter().enumerate().filter(is_chosen).map(|(_, server)| *server).collect();
        chosen.iter().for_each(|server| self.asked((instance, (*server).into()), expects, now));
        chosen
    }

    /// Whether a server does not answer.
    pub(super) fn is_silent(&self, server: (usize, IpAddr)) -> bool {
        self.all.get(&server).is_some_and(|health| health.is_silent)
    }

    fn asked(&mut self, server: (usize, IpAddr), expects: bool, now: Time) {
        let health = self.all.entry(server).or_default();
        health.requests += 1;
        health.asked = now;
        if !expects {
            return;
        }
        if health.unanswered == 0 {
            health.since = now;
        }
        health.unanswered = health.unanswered.saturating_add(1);
        if !health.is_silent && health.unanswered > UNANSWERED && now.since(health.since) >= SILENCE {
            health.is_silent = true;
            self.events.push(Event::Silent(server.1, health.unanswered));
        }
    }

    /// Whether there is such a server.
    pub(super) fn has(&self, server: (usize, IpAddr)) -> bool {
        self.all.contains_key(&server)
    }

    /// A server has replied to a request that waits.
    pub(super) fn answered(&mut self, server: (usize, IpAddr)) {
        let Some(health) = self.all.get_mut(&server) else { return };
        health.replies += 1;
        health.unanswered = 0;
        if std::mem::take(&mut health.is_silent) {
            self.events.push(Event::Answers(server.1));
        }
    }

    /// Changes since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// All of them, by VRF and address.
    pub fn views(&self) -> Vec<ServerView> {
        let view = |(&(instance, address), health): (&(usize, IpAddr), &Health)| ServerView {
            instance,
            address,
            is_silent: health.is_silent,
            requests: health.requests,
            replies: health.replies,
            unanswered: health.unanswered,
        };
        let mut views: Vec<_> = self.all.iter().map(view).collect();
        views.sort_unstable_by_key(|view| (view.instance, view.address));
        views
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn silent_server_is_passed_over_and_probed() {
        let pair = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let mut servers = Servers::default();
        servers.set(pair.map(|server| (0, server.into())));
        let ask = |servers: &mut Servers, second: u64| {
            servers.choose((0, &pair[..]), Order::First, true, Time::from_secs(second))
        };
        for second in 100..104 {
            assert_eq!(ask(&mut servers, second), pair[..1]);
        }
        assert_eq!(servers.events(), [Event::Silent(pair[0].into(), 4)]);
        assert_eq!(ask(&mut servers, 104), pair[1..]);
        assert_eq!(ask(&mut servers, 114), pair, "it is probed");
        assert_eq!(ask(&mut servers, 115), pair[1..]);
        servers.answered((0, pair[0].into()));
        assert_eq!(servers.events(), [Event::Answers(pair[0].into())]);
        assert_eq!(ask(&mut servers, 116), pair[..1]);
        assert!(!servers.has((1, pair[0].into())), "another VRF's");
    }

    #[test]
    fn burst_of_requests_makes_no_server_silent() {
        let one = [Ipv4Addr::new(10, 0, 0, 1)];
        let mut servers = Servers::default();
        (0..1000).for_each(|_| drop(servers.choose((0, &one[..]), Order::All, true, Time::from_secs(100))));
        assert_eq!(servers.events(), []);
        servers.choose((0, &one[..]), Order::All, true, Time::from_secs(103));
        assert!(matches!(servers.events()[..], [Event::Silent(..)]));
    }
}
