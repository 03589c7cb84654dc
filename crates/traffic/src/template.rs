//! Frames prepared as far as users have them in common.

use std::net::IpAddr;

use wire::gtpu::{self, Container};
use wire::{Qfi, Teid, checksum, ethertype, protocol};

use crate::direction::Direction;
use crate::plan::{Parties, Plan};
use crate::profile::Profile;
use crate::signature::Signature;

/// Bytes of a template. The longest (VLAN tag, IPv6, UDP, GTP-U with container, IPv6, UDP, signature) takes 148; a
/// round number of cache lines' halves copies best.
pub(crate) const HEAD: usize = 160;
/// Hop limit of everything sent.
const HOPS: u8 = 64;
/// IPv4's "don't fragment", with offset zero (RFC 791, 3.1).
const DONT_FRAGMENT: u16 = 0x4000;

/// A frame's beginning, addresses, identifiers and signature left to fill in, with the sums that make its checksums
/// cheap.
pub(crate) struct Template {
    bytes: [u8; HEAD],
    direction: Direction,
    /// Length of the frame.
    pub frame_len: usize,
    /// Length of the user's IP packet in it.
    pub ip_len: usize,
    /// Where things are, from the frame's start; `outer` is meaningful in the uplink only.
    outer: usize,
    outer_v6: bool,
    gtp: usize,
    ip: usize,
    v6: bool,
    udp: usize,
    /// Whether the user's UDP has a checksum, and hence a payload of zeroes.
    pub summed: bool,
    /// Sums over what is constant: outer IPv4 header, users' IPv4 header, users' pseudo header and UDP, outer UDP
    /// over IPv6 with everything in it.
    outer_sum: u64,
    ip_sum: u64,
    udp_sum: u64,
    tunnel_sum: u64,
}

/// What is filled in, besides the parties.
pub(crate) struct Fill {
    pub teid: u32,
    pub mark: Signature,
}

impl Template {
    /// The frame of that many bytes (N6-side, untagged) for a bearer's IPv4 or IPv6 users.
    pub fn new(profile: &Profile, direction: Direction, v6: bool, bearer: u16, size: u16) -> Self {
        let header = if v6 { 40 } else { 20 };
        let ip_len = usize::from(size).saturating_sub(14).max(header + 8 + Signature::LEN);
        let mut build = Build { bytes: [0; HEAD], at: 0 };
        let segment = profile.entry(direction);
        build.put(&segment.gateway.0);
        build.put(&segment.own.0);
        if let Some(tag) = segment.vlan {
            build.put16(ethertype::VLAN);
            build.put16(tag);
        }
        let transport = direction == Direction::Uplink;
        let outer_v6 = transport && profile.gnb_first.is_ipv6();
        build.put16(if if transport { outer_v6 } else { v6 } { ethertype::IP6 } else { ethertype::IP4 });
        let (mut outer, mut gtp) = (0, 0);
        let (mut outer_sum, mut tunnel_sum) = (0, 0);
        if transport {
            let container = profile.qfis.get(usize::from(bearer)).map(|qfi| Container::up(Qfi(*qfi)));
            let tunnel = gtpu::Repr::g_pdu(Teid(0), container, ip_len as u16);
            let udp_len = 8 + tunnel.header_len() + ip_len;
            outer = build.at;
            build.ip(outer_v6, udp_len);
            match profile.upf_n3 {
                IpAddr::V4(upf) => build.set(outer + 16, &upf.octets()),
                IpAddr::V6(upf) => build.set(outer + 24, &upf.octets()),
            }
            outer_sum = u64::from(checksum::sum(&build.bytes[outer..build.at]));
            let udp = build.at;
            build.udp(gtpu::PORT, gtpu::PORT, udp_len);
            gtp = build.at;
            tunnel.emit(&mut build.bytes[gtp..]).expect("templates have room for every header");
            build.at += tunnel.header_len();
            tunnel_sum = u64::from(checksum::sum(&build.bytes[udp..build.at])) + contained(v6, ip_len);
            if let IpAddr::V6(upf) = profile.upf_n3 {
                tunnel_sum += u64::from(checksum::pseudo6(0, upf.to_bits(), protocol::UDP, udp_len as u32));
            }
        }
        let ip = build.at;
        let udp_len = ip_len - header;
        build.ip(v6, udp_len);
        let ip_sum = u64::from(checksum::sum(&build.bytes[ip..build.at]));
        let udp = build.at;
        build.udp(0, 0, udp_len);
        build.put16(Signature::magic(direction));
        // Protocol and length of the pseudo header, length of the UDP header, magic number.
        let udp_sum = u64::from(protocol::UDP) + 2 * udp_len as u64 + u64::from(Signature::magic(direction));
        Self {
            bytes: build.bytes,
            direction,
            frame_len: ip + ip_len,
            ip_len,
            outer,
            outer_v6,
            gtp,
            ip,
            v6,
            udp,
            summed: v6 || profile.user_checksums,
            outer_sum,
            ip_sum,
            udp_sum,
            tunnel_sum,
        }
    }

    /// Length of what lies in the frame: the tunnel's or the user's IP packet.
    pub(crate) fn packet_len(&self) -> usize {
        self.frame_len - if self.outer > 0 { self.outer } else { self.ip }
    }

    /// Bytes a frame's slot must have room for.
    pub fn room(&self) -> usize {
        self.frame_len.max(HEAD)
    }

    /// Writes the frame's beginning.
    #[inline(always)]
    pub fn write(&self, to: &mut [u8; HEAD], plan: &Plan, who: &Parties, fill: &Fill) {
        *to = self.bytes;
        let profile = plan.profile();
        let up = self.direction == Direction::Uplink;
        if up {
            set(to, self.gtp + gtpu::field::TEID, fill.teid.to_be_bytes());
        }
        // The addresses' sum serves IPv4's header, the pseudo header and the tunnel's checksum.
        let addresses = if self.v6 {
            let user = profile.ue6_first.to_bits().wrapping_add(u128::from(who.ue) << 64);
            let server = profile.server6_first.to_bits().wrapping_add(who.server.into());
            let (src, dst) = if up { (user, server) } else { (server, user) };
            set(to, self.ip + 8, src.to_be_bytes());
            set(to, self.ip + 24, dst.to_be_bytes());
            words(src) + words(dst)
        } else {
            let user = profile.ue_first.to_bits().wrapping_add(who.ue);
            let server = profile.server_first.to_bits().wrapping_add(who.server);
            let (src, dst) = if up { (user, server) } else { (server, user) };
            set(to, self.ip + 12, (u64::from(src) << 32 | u64::from(dst)).to_be_bytes());
            let addresses = u64::from(src) + u64::from(dst);
            let check = checksum::finish(checksum::fold(self.ip_sum + addresses));
            set(to, self.ip + 10, check.to_be_bytes());
            addresses
        };
        let (from, at) = if up { (who.ue_port, who.server_port) } else { (who.server_port, who.ue_port) };
        set(to, self.udp, (u32::from(from) << 16 | u32::from(at)).to_be_bytes());
        set_mark(to, self.udp + 8, &fill.mark);
        if self.summed {
            let sum = self.udp_sum + addresses + u64::from(from) + u64::from(at) + fill.mark.sum();
            set(to, self.udp + 6, checksum::finish_udp(checksum::fold(sum)).to_be_bytes());
        }
        if up {
            self.write_outer(to, profile, who.gnb, fill.teid, addresses);
        }
    }

    #[inline(always)]
    fn write_outer(&self, to: &mut [u8; HEAD], profile: &Profile, gnb: u32, teid: u32, addresses: u64) {
        match profile.gnb_first {
            IpAddr::V4(first) if !self.outer_v6 => {
                let src = first.to_bits().wrapping_add(gnb);
                set(to, self.outer + 12, src.to_be_bytes());
                let check = checksum::finish(checksum::fold(self.outer_sum + u64::from(src)));
                set(to, self.outer + 10, check.to_be_bytes());
            }
            IpAddr::V6(first) => {
                let src = first.to_bits().wrapping_add(gnb.into());
                set(to, self.outer + 8, src.to_be_bytes());
                // An IPv4 user's addresses stand in its packet's sum negated; an IPv6 user's cancel out.
                let inner = if self.v6 { 0 } else { u64::from(!checksum::fold(addresses)) };
                let sum = self.tunnel_sum + words(src) + u64::from(teid) + inner;
                set(to, self.outer + 40 + 6, checksum::finish_udp(checksum::fold(sum)).to_be_bytes());
            }
            IpAddr::V4(_) => {}
        }
    }
}

/// The constant part of the sum over a user's whole packet with right checksums.
///
/// IPv4: the header sums to zero (its checksum sees to that), UDP to the pseudo header's negative. IPv6: UDP
/// likewise, and the addresses in header and pseudo header cancel out.
fn contained(v6: bool, ip_len: usize) -> u64 {
    let header = if v6 { 40 } else { 20 };
    let udp_len = (ip_len - header) as u64;
    let pseudo = !checksum::fold(u64::from(protocol::UDP) + udp_len);
    let own = if v6 { 0x6000 + udp_len + (u64::from(protocol::UDP) << 8 | u64::from(HOPS)) } else { 0 };
    u64::from(pseudo) + own
}

/// The sum of an address's 32-bit words.
#[inline(always)]
fn words(address: u128) -> u64 {
    let (high, low) = ((address >> 64) as u64, address as u64);
    (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
}

#[inline(always)]
fn set<const N: usize>(to: &mut [u8; HEAD], at: usize, value: [u8; N]) {
    to[at..at + N].copy_from_slice(&value);
}

#[inline(always)]
fn set_mark(to: &mut [u8; HEAD], at: usize, mark: &Signature) {
    if let Some(place) = to[at..].first_chunk_mut() {
        mark.write(place);
    }
}

/// Headers, one behind the other.
struct Build {
    bytes: [u8; HEAD],
    at: usize,
}

impl Build {
    fn put(&mut self, bytes: &[u8]) {
        self.set(self.at, bytes);
        self.at += bytes.len();
    }

    fn put16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// An IP header before `payload` bytes of UDP, without addresses and checksum (RFC 791, 3.1; RFC 8200, 3).
    fn ip(&mut self, v6: bool, payload: usize) {
        if v6 {
            self.put(&[0x60, 0, 0, 0]);
            self.put16(payload as u16);
            self.put(&[protocol::UDP, HOPS]);
            self.put(&[0; 32]);
        } else {
            self.put(&[0x45, 0]);
            self.put16(20 + payload as u16);
            self.put16(0);
            self.put16(DONT_FRAGMENT);
            self.put(&[HOPS, protocol::UDP, 0, 0]);
            self.put(&[0; 8]);
        }
    }

    /// A UDP header without checksum; `len` counts it.
    fn udp(&mut self, from: u16, to: u16, len: usize) {
        self.put16(from);
        self.put16(to);
        self.put16(len as u16);
        self.put16(0);
    }
}
