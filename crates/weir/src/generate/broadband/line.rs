//! A subscriber: what it has been given, and what it asks for next.

use std::net::Ipv6Addr;
use std::time::Instant;

use traffic::Window;
use wire::Mac;

use super::frames::{self, Answer, Offer, Place};
use super::frames6::{self, Answer6, Ask, Lease6};
use super::numbering::mac;

/// Kinds of addresses that a dual-stack subscriber sends from: IPv4, its WAN address, one of its delegated prefix.
pub const KINDS: usize = 3;

/// A subscriber.
#[derive(Default)]
pub struct Line {
    pub offer: Option<Offer>,
    /// It has the lease.
    pub is_bound: bool,
    /// The router's hardware address.
    pub router: Option<Mac>,
    pub lease6: Option<Lease6>,
    /// It has address and prefix.
    pub is_bound6: bool,
    /// The IPv6 router's hardware address.
    pub router6: Option<Mac>,
    /// When it last asked; none: what comes next is due.
    pub asked: Option<Instant>,
    /// When its lease began, or was asked for anew.
    leased: Option<Instant>,
    leased6: Option<Instant>,
    /// Sequence numbers sent, by kind of address and direction.
    pub sent: [[u32; 2]; KINDS],
    /// Those received.
    pub windows: [[Window; 2]; KINDS],
}

impl Line {
    /// Whether it has all that it asks for.
    pub fn is_up(&self, dual: bool) -> bool {
        self.router.is_some() && (!dual || self.is_bound6 && self.router6.is_some())
    }

    /// What it asks for next, as a frame; none: it has everything.
    pub fn ask(&self, n: u32, place: Place, dual: bool) -> Option<Vec<u8>> {
        let mac = mac(n);
        if self.router.is_none() {
            let router = self.offer.and_then(|offer| Some((offer.address, offer.router?)));
            return Some(match (self.is_bound, router) {
                (true, Some((ours, router))) => frames::arp(false, (mac, ours), (Mac::BROADCAST, router), Some(place)),
                _ => frames::dhcp(mac, place, n, self.offer.as_ref()),
            });
        }
        if self.is_up(dual) {
            return None;
        }
        Some(match &self.lease6 {
            None => frames6::dhcp6(n, mac, place, Ask::Solicit, None),
            Some(lease) if !self.is_bound6 => frames6::dhcp6(n, mac, place, Ask::Request, Some(lease)),
            Some(_) => frames6::router_solicitation(n, mac, place),
        })
    }

    /// Takes in an answer of DHCPv4; false: it changes nothing.
    pub fn answered(&mut self, answer: &Answer) -> bool {
        match *answer {
            Answer::Offer(offer) if !self.is_bound => self.offer = Some(offer),
            Answer::Ack(offer) => {
                (self.offer, self.is_bound, self.leased) = (Some(offer), true, Some(Instant::now()));
            }
            // RFC 2131, 3.1, 4: from the beginning.
            Answer::Nak if !self.is_bound => self.offer = None,
            Answer::Offer(_) | Answer::Nak => return false,
        }
        true
    }

    /// As [`answered`](Self::answered), of DHCPv6. An address and a prefix are wanted both.
    pub fn answered6(&mut self, answer: Answer6) -> bool {
        match answer {
            Answer6::Advertise(lease) | Answer6::Reply(lease) if lease.address.is_none() || lease.prefix.is_none() => {
                return false;
            }
            Answer6::Advertise(lease) if !self.is_bound6 => self.lease6 = Some(lease),
            Answer6::Reply(lease) => {
                (self.lease6, self.is_bound6, self.leased6) = (Some(lease), true, Some(Instant::now()));
            }
            Answer6::Advertise(_) => return false,
        }
        true
    }

    /// Its IPv6 address of a kind: the WAN address, or the first host of the delegated prefix.
    pub fn address6(&self, kind: usize) -> Option<Ipv6Addr> {
        let lease = self.lease6.as_ref()?;
        match kind {
            1 => lease.address,
            2 => lease.prefix.map(|(prefix, _)| Ipv6Addr::from_bits(prefix.to_bits() | 1)),
            _ => None,
        }
    }

    /// Asks for leases anew of which half is over (RFC 2131, 4.4.5; RFC 8415, 18.2.4).
    pub fn renew(&mut self, n: u32, place: Place, now: Instant, send: &mut dyn FnMut(Vec<u8>)) {
        let is_half_over = |since: Option<Instant>, seconds: u32| {
            since.is_some_and(|since| now.duration_since(since).as_secs_f64() > f64::from(seconds) / 2.0)
        };
        if let Some(offer) = &self.offer
            && is_half_over(self.leased, offer.lease_seconds.unwrap_or(u32::MAX))
        {
            self.leased = Some(now);
            send(frames::dhcp(mac(n), place, n, Some(offer)));
        }
        if let Some(lease) = &self.lease6
            && is_half_over(self.leased6, lease.valid_seconds)
        {
            self.leased6 = Some(now);
            send(frames6::dhcp6(n, mac(n), place, Ask::Renew, Some(lease)));
        }
    }

    /// The frames that end its leases.
    pub fn release(&self, n: u32, place: Place) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if let Some(lease) = self.lease6.as_ref().filter(|_| self.is_bound6) {
            frames.push(frames6::dhcp6(n, mac(n), place, Ask::Release, Some(lease)));
        }
        if let Some((offer, router)) = self.offer.filter(|_| self.is_bound).zip(self.router) {
            frames.push(frames::release(mac(n), router, place, n, &offer));
        }
        frames
    }
}
