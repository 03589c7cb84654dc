//! What all modes share: the socket, whose packets are ours, and how outcomes are counted.

use std::os::fd::RawFd;

use frame::{Batch, Frame, Pool, PortCounters, flags};

use super::partial;

/// The far side of a mode: a bound socket and what came of using it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) fd: RawFd,
    pub(super) mac: [u8; 6],
    /// Take packets to other hosts as well.
    pub(super) everything: bool,
    pub(super) counters: PortCounters,
    /// A call failed in a way that the link may explain: look at it soon.
    pub(super) doubtful: bool,
}

/// What the kernel tells beside a packet's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aside {
    /// `TP_STATUS_…`.
    pub(super) status: u32,
    /// Tag control of the outer VLAN tag, which the kernel took off.
    pub(super) tci: u16,
    /// Its protocol, `0x8100` or `0x88a8`.
    pub(super) tpid: u16,
}

impl Aside {
    /// The tag the kernel took off, as it was on the wire.
    #[inline]
    pub(super) fn tag(self) -> Option<[u8; 4]> {
        if self.status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let told = self.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let [a, b] = if told { self.tpid } else { 0x8100 }.to_be_bytes();
        let [c, d] = self.tci.to_be_bytes();
        Some([a, b, c, d])
    }

    /// What is to be said of the packet, whose checksum is completed if its sender left that to hardware.
    #[inline]
    pub(super) fn flags(self, packet: &mut [u8]) -> u16 {
        let left = self.status & libc::TP_STATUS_CSUMNOTREADY != 0;
        if left && !partial::complete(packet) { flags::PARTIAL_CHECKSUM } else { 0 }
    }
}

/// What to do about a packet the kernel did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Try it again at once.
    Again,
    /// It will never go: drop it, send the next.
    Skip,
    /// None will go now: leave it and the rest to the caller.
    Stop,
}

impl Line {
    /// Whether a packet is for us: to our address, or to a group. Others are counted.
    #[inline]
    pub(super) fn ours(&mut self, bytes: &[u8]) -> bool {
        let Some(to) = bytes.first_chunk::<6>() else {
            self.counters.rx_invalid += 1;
            return false;
        };
        if to[0] & 1 == 1 || *to == self.mac || self.everything {
            return true;
        }
        self.counters.rx_not_ours += 1;
        false
    }

    /// Hands a frame whose bytes lie in its slot to the worker, or says why not. `len` is what the wire carried.
    #[inline]
    pub(super) fn receive(&mut self, pool: &mut Pool, out: &mut Batch, mut frame: Frame, len: usize, aside: Aside) {
        let arena = pool.arena();
        if arena.set_len(&mut frame, len) < len {
            self.counters.rx_too_long += 1;
        } else if self.ours(arena.bytes(&frame)) {
            match aside.tag() {
                Some(tag) if !restore(arena, &mut frame, tag) => self.counters.rx_invalid += 1,
                _ => {
                    frame.meta.flags = aside.flags(arena.bytes_mut(&mut frame));
                    return self.hand_over(pool, out, frame);
                }
            }
        }
        pool.give(frame);
    }

    /// Counts a frame and puts it into the burst, which has room.
    #[inline]
    pub(super) fn hand_over(&mut self, pool: &mut Pool, out: &mut Batch, frame: Frame) {
        let len = frame.len() as u64;
        match out.push(frame) {
            Ok(()) => {
                self.counters.rx_packets += 1;
                self.counters.rx_bytes += len;
            }
            Err(frame) => pool.give(frame),
        }
    }

    /// Counts a receive call's failure. True: call again.
    #[cold]
    pub(super) fn receive_failed(&mut self, errno: i32) -> bool {
        match errno {
            libc::EAGAIN => false,
            libc::EINTR => true,
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                self.doubtful = true;
                false
            }
            _ => {
                self.counters.rx_errors += 1;
                false
            }
        }
    }

    /// Counts a send call's failure; `left` packets were still to go.
    #[cold]
    pub(super) fn send_failed(&mut self, errno: i32, left: usize) -> Refusal {
        match errno {
            libc::EINTR => Refusal::Again,
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => {
                // No carrier reads as ENOBUFS too.
                self.doubtful |= errno != libc::EAGAIN;
                self.counters.tx_full += left as u64;
                Refusal::Stop
            }
            // It may be the socket's memory of a link that is up again; reporting it has cleared it.
            libc::ENETDOWN if !self.doubtful => {
                self.doubtful = true;
                Refusal::Again
            }
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                self.doubtful = true;
                self.counters.tx_link_down += left as u64;
                Refusal::Stop
            }
            _ => {
                self.counters.tx_errors += 1;
                Refusal::Skip
            }
        }
    }
}

/// Puts the outer tag back between the addresses and the type. False without headroom for it.
fn restore(arena: &frame::Arena, frame: &mut Frame, tag: [u8; 4]) -> bool {
    if frame.len() < 12 || frame.push_front(4).is_err() {
        return false;
    }
    let bytes = arena.bytes_mut(frame);
    bytes.copy_within(4..16, 0);
    bytes[12..16].copy_from_slice(&tag);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use frame::{Arena, ArenaConfig};

    fn line() -> Line {
        Line { fd: -1, mac: [2, 0, 0, 0, 0, 1], everything: false, counters: PortCounters::default(), doubtful: false }
    }

    fn receive(line: &mut Line, bytes: &[u8], len: usize, aside: Aside) -> Option<(Vec<u8>, u16)> {
        let arena = Arena::new(ArenaConfig { slots: 4, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 4);
        let mut out = Batch::new();
        let frame = pool.make(bytes).unwrap();
        line.receive(&mut pool, &mut out, frame, len, aside);
        let got = out.frames().first().map(|f| (arena.bytes(f).to_vec(), f.meta.flags));
        pool.give_all(&mut out);
        assert_eq!(pool.free() + arena.in_depot(), 4);
        got
    }

    fn packet(to: [u8; 6]) -> Vec<u8> {
        [&to[..], &[2, 0, 0, 0, 0, 9], &[8, 0], &[0x45; 46]].concat()
    }

    #[test]
    fn ours_others_groups_runts_and_giants() {
        let mut line = line();
        let take = |line: &mut Line, bytes: &[u8], len| receive(line, bytes, len, Aside::default()).is_some();
        assert!(take(&mut line, &packet([2, 0, 0, 0, 0, 1]), 60));
        assert!(take(&mut line, &packet([0x33, 0x33, 0, 0, 0, 1]), 60));
        assert!(!take(&mut line, &packet([2, 0, 0, 0, 0, 2]), 60));
        assert!(!take(&mut line, &packet([2, 0, 0, 0, 0, 1]), 5));
        assert!(!take(&mut line, &packet([2, 0, 0, 0, 0, 1]), 9000));
        line.everything = true;
        assert!(take(&mut line, &packet([2, 0, 0, 0, 0, 2]), 60));
        let expected = PortCounters {
            rx_packets: 3,
            rx_bytes: 180,
            rx_not_ours: 1,
            rx_invalid: 1,
            rx_too_long: 1,
            ..PortCounters::default()
        };
        assert_eq!(line.counters, expected);
    }

    #[test]
    fn the_tag_goes_back_where_it_was() {
        let bytes = packet([2, 0, 0, 0, 0, 1]);
        let valid = libc::TP_STATUS_VLAN_VALID;
        let told = valid | libc::TP_STATUS_VLAN_TPID_VALID | libc::TP_STATUS_CSUMNOTREADY;
        for (status, tag, flag) in
            [(valid, [0x81, 0, 0x20, 7], 0), (told, [0x88, 0xa8, 0x20, 7], flags::PARTIAL_CHECKSUM)]
        {
            let aside = Aside { status, tci: 0x2007, tpid: 0x88a8 };
            let want = [&bytes[..12], &tag, &bytes[12..]].concat();
            assert_eq!(receive(&mut line(), &bytes, 60, aside), Some((want, flag)));
        }
    }

    #[test]
    fn refusals_are_counted_by_cause() {
        let mut line = line();
        assert_eq!(line.send_failed(libc::EINTR, 9), Refusal::Again);
        assert_eq!(line.send_failed(libc::EAGAIN, 3), Refusal::Stop);
        assert!(!line.doubtful);
        assert_eq!(line.send_failed(libc::ENETDOWN, 2), Refusal::Again);
        assert_eq!(line.send_failed(libc::ENETDOWN, 2), Refusal::Stop);
        assert!(line.doubtful);
        assert_eq!(line.send_failed(libc::EMSGSIZE, 5), Refusal::Skip);
        assert!(!line.receive_failed(libc::EAGAIN) && line.receive_failed(libc::EINTR));
        assert!(!line.receive_failed(libc::EBADF));
        let expected =
            PortCounters { tx_full: 3, tx_link_down: 2, tx_errors: 1, rx_errors: 1, ..PortCounters::default() };
        assert_eq!(line.counters, expected);
    }
}
