//! SID clusters: segments in order, and the stream of MAC frames in them (CM-SP-MULPI, continuous concatenation and
//! fragmentation).

use std::collections::VecDeque;

use engine::{Drop, Env};
use table::hint::prefetch_read;
use wire::docsis::{self, Header, Kind};
use wire::{Malformed, ccf};

use super::{Out, refuse};
use crate::drops;
use crate::grants::Grants;
use crate::modems::ClusterSpec;

/// The longest MAC frame, in bytes.
const MAX_FRAME: usize = 2048 + docsis::BONDED_HEADER_LEN;

/// What a cluster has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Segments, in order.
    pub segments: u64,
    /// Segments missing before others.
    pub segments_lost: u64,
    /// MAC frames with an Ethernet frame in them.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests for bandwidth between them.
    pub requests: u64,
    /// MAC management messages, which control would see to.
    pub management: u64,
}

impl ClusterCounts {
    /// As numbers, in the order of the fields.
    pub fn words(&self) -> [u64; 6] {
        [self.segments, self.segments_lost, self.frames, self.bytes, self.requests, self.management]
    }

    /// Of [`words`](Self::words).
    pub fn of([segments, segments_lost, frames, bytes, requests, management]: [u64; 6]) -> Self {
        Self { segments, segments_lost, frames, bytes, requests, management }
    }

    /// The sum of both.
    pub fn plus(self, other: &Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            segments_lost: self.segments_lost + other.segments_lost,
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            requests: self.requests + other.requests,
            management: self.management + other.management,
        }
    }
}

/// A SID cluster.
pub struct Cluster {
    /// Whose it is.
    pub modem: u32,
    /// The service group.
    pub service_group: u16,
    /// Its number among the modem's.
    pub number: u8,
    /// What it has counted.
    pub counts: ClusterCounts,
    spec: ClusterSpec,
    /// The number of the next segment, once one has come.
    next: Option<u16>,
    /// The beginning of a frame whose end is in a later segment.
    partial: Vec<u8>,
    /// Where frames begin is known.
    in_step: bool,
}

impl Cluster {
    /// How far ahead of its turn a segment may come.
    pub const WINDOW: u16 = 64;

    /// A cluster from which nothing has come.
    pub fn new(modem: u32, service_group: u16, number: u8, spec: &ClusterSpec) -> Self {
        Self {
            modem,
            service_group,
            number,
            counts: ClusterCounts::default(),
            spec: spec.clone(),
            next: None,
            partial: Vec::with_capacity(MAX_FRAME),
            in_step: false,
        }
    }

    /// Asks for the lines of the frame under way.
    #[inline]
    pub fn prefetch(&self) {
        for line in self.partial.chunks(64) {
            prefetch_read(line);
        }
    }

    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.partial.capacity() + self.spec.sids.capacity() * size_of::<u16>()
    }

    /// As given.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// The number of the next segment.
    pub fn expected(&self) -> u16 {
        self.next.unwrap_or(0)
    }

    /// How far ahead of its turn a segment is, modulo [`ccf::SEQUENCES`].
    pub fn expects(&self, sequence: u16) -> u16 {
        self.next.map_or(0, |next| sequence.wrapping_sub(next) & (ccf::SEQUENCES - 1))
    }

    /// Gives up the segments before `to`; the frame under way is lost.
    pub fn gap(&mut self, to: u16, env: &mut Env) {
        let missing = self.expects(to);
        self.counts.segments_lost += if missing < ccf::SEQUENCES / 2 { u64::from(missing) } else { 0 };
        self.next = Some(to);
        self.lose(drops::SEGMENT_LOST, 0, env);
    }

    /// It ends: what was under way is lost.
    pub fn end(&mut self, env: &mut Env) {
        self.lose(drops::FLOW_GONE, 0, env);
        (self.modem, self.next) = (u32::MAX, None);
    }

    /// Where the stream stands: the number of its next segment, if one has come, and the frame under way; none: where
    /// frames begin is not known.
    pub fn stands(&self) -> (Option<u16>, Option<&[u8]>) {
        (self.next, self.in_step.then_some(&*self.partial))
    }

    /// Takes out where the stream stands, for another process: the number of its next segment, and the frame under way;
    /// none: where frames begin is not known. None at all where nothing has come.
    pub fn take(&mut self) -> Option<(u16, Option<Vec<u8>>)> {
        let next = self.next.take()?;
        let begun = std::mem::take(&mut self.partial);
        Some((next, std::mem::take(&mut self.in_step).then_some(begun)))
    }

    /// Goes on where a stream stood elsewhere.
    pub fn resume(&mut self, next: u16, begun: Option<Vec<u8>>) {
        (self.next, self.in_step) = (Some(next & (ccf::SEQUENCES - 1)), begun.is_some());
        self.partial.clear();
        self.partial.extend_from_slice(begun.as_deref().unwrap_or_default());
    }

    /// Gives up the frame under way and `more` bytes; the next begins where a segment says so.
    fn lose(&mut self, reason: Drop, more: usize, env: &mut Env) {
        if !self.partial.is_empty() || more > 0 {
            refuse(reason, self.partial.len() + more, env);
        }
        self.partial.clear();
        self.in_step = false;
    }

    /// The next segment of the stream: frames that end in it are put to `out`.
    pub fn stream(
        &mut self,
        at: u32,
        repr: &ccf::Repr,
        body: &[u8],
        out: &mut VecDeque<Out>,
        grants: &mut [Grants],
        env: &mut Env,
    ) {
        self.counts.segments += 1;
        self.next = Some((repr.sequence + 1) & (ccf::SEQUENCES - 1));
        let begins = repr.pointer.map(usize::from);
        let mut sink = Sink { at, out, grants, env };
        let mut rest = body;
        if !self.in_step {
            let Some(begin) = begins else { return self.lose(drops::SEGMENT_LOST, body.len(), sink.env) };
            rest = &body[begin..];
            self.in_step = true;
        } else if !self.partial.is_empty() {
            // What stands before the first frame that begins here is the end of the one under way.
            let (head, tail) = body.split_at(begins.unwrap_or(body.len()));
            match self.finish(head, &mut sink) {
                Ok(left) if begins.is_none() => rest = left,
                Ok(_) if self.partial.is_empty() => rest = tail,
                Ok(_) => {
                    self.lose(drops::DOCSIS_MALFORMED, 0, sink.env);
                    (rest, self.in_step) = (tail, begins.is_some());
                }
                Err(reason) => {
                    self.lose(reason, 0, sink.env);
                    let Some(begin) = begins else { return };
                    (rest, self.in_step) = (&body[begin..], true);
                }
            }
        } else if let Some(begin) = begins {
            rest = &body[begin..];
        }
        self.frames(rest, &mut sink);
    }

    /// Frames from the beginning of one on.
    fn frames(&mut self, mut rest: &[u8], sink: &mut Sink<'_>) {
        loop {
            if let [ccf::FILL, ..] = rest {
                rest = behind_fill(rest);
            }
            if rest.is_empty() {
                return;
            }
            match Header::parse(rest) {
                Ok(header) if header.frame_len as usize > MAX_FRAME => {
                    return self.lose(drops::DOCSIS_MALFORMED, rest.len(), sink.env);
                }
                Ok(header) => match rest.split_at_checked(header.frame_len as usize) {
                    Some((frame, after)) => {
                        self.emit(&header, frame, sink);
                        rest = after;
                    }
                    None => return self.partial.extend_from_slice(rest),
                },
                Err(Malformed::Short) if rest.len() < MAX_FRAME => return self.partial.extend_from_slice(rest),
                Err(Malformed::BadHcs) => return self.lose(drops::DOCSIS_HCS, rest.len(), sink.env),
                Err(_) => return self.lose(drops::DOCSIS_MALFORMED, rest.len(), sink.env),
            }
        }
    }

    /// Goes on with the frame under way; returns what stands behind its end.
    fn finish<'a>(&mut self, mut bytes: &'a [u8], sink: &mut Sink<'_>) -> Result<&'a [u8], Drop> {
        loop {
            let wanted = match Header::parse(&self.partial) {
                Ok(header) if header.frame_len as usize > MAX_FRAME => return Err(drops::DOCSIS_MALFORMED),
                Ok(header) if self.partial.len() >= header.frame_len as usize => {
                    let frame = std::mem::take(&mut self.partial);
                    self.emit(&header, &frame, sink);
                    self.partial = frame;
                    self.partial.clear();
                    return Ok(bytes);
                }
                Ok(header) => header.frame_len as usize,
                Err(Malformed::Short) => header_len(&self.partial),
                Err(Malformed::BadHcs) => return Err(drops::DOCSIS_HCS),
                Err(_) => return Err(drops::DOCSIS_MALFORMED),
            };
            let (more, after) = bytes.split_at(bytes.len().min(wanted.saturating_sub(self.partial.len()).max(1)));
            if more.is_empty() {
                return Ok(after);
            }
            self.partial.extend_from_slice(more);
            bytes = after;
        }
    }

    /// A whole frame.
    fn emit(&mut self, header: &Header, frame: &[u8], sink: &mut Sink<'_>) {
        match header.kind {
            Kind::Packet | Kind::Isolation => {
                self.counts.frames += 1;
                self.counts.bytes += frame.len() as u64;
                match sink.env.pool.make(frame) {
                    Some(frame) => {
                        sink.out.push_back(Out { frame, header: *header, modem: self.modem, cluster: sink.at });
                    }
                    None => refuse(drops::NO_FRAME, frame.len(), sink.env),
                }
            }
            Kind::Request | Kind::QueueDepth => {
                self.counts.requests += 1;
                if let Some(grants) = sink.grants.get_mut(usize::from(self.service_group)) {
                    grants.request(header.sid, header.parameter.into(), header.kind == Kind::QueueDepth);
                }
            }
            Kind::Management | Kind::Timing => self.counts.management += 1,
            // Modems with segment headers neither concatenate nor fragment otherwise.
            Kind::Fragment | Kind::Concatenation => refuse(drops::DOCSIS_MALFORMED, frame.len(), sink.env),
        }
    }
}

/// What stands behind the bytes that fill what is left of a grant: sixteen at once, then what is left of those.
fn behind_fill(mut rest: &[u8]) -> &[u8] {
    while let Some((sixteen, more)) = rest.split_first_chunk()
        && *sixteen == [ccf::FILL; 16]
    {
        rest = more;
    }
    while let [ccf::FILL, more @ ..] = rest {
        rest = more;
    }
    rest
}

/// Where what comes out of a stream goes.
struct Sink<'a> {
    at: u32,
    out: &'a mut VecDeque<Out>,
    grants: &'a mut [Grants],
    env: &'a mut Env,
}

/// Bytes of a header that begins with `bytes`, as far as that can be told.
fn header_len(bytes: &[u8]) -> usize {
    match *bytes {
        [fc, parm, ..] if fc & 1 != 0 => docsis::HEADER_LEN + usize::from(parm),
        [fc, ..] if fc & 0xfe == Kind::QueueDepth.fc() => docsis::HEADER_LEN + 1,
        _ => docsis::HEADER_LEN,
    }
}

struct Held {
    cluster: u32,
    sequence: u16,
    since: u64,
    bytes: Vec<u8>,
}

/// Segments that came before their turn. A handful, and only while something is missing.
pub struct Order {
    held: Vec<Held>,
    spare: Vec<Vec<u8>>,
    most: usize,
    wait_ns: u64,
}

impl Order {
    /// Room for `most` segments that wait `wait_ns` at most.
    pub fn new(most: usize, wait_ns: u64) -> Self {
        Self { held: Vec::with_capacity(most), spare: Vec::with_capacity(most), most, wait_ns }
    }

    /// Keeps a segment until its turn.
    pub fn hold(&mut self, cluster: u32, sequence: u16, bytes: &[u8], now: u64) -> Result<(), Drop> {
        if self.held.iter().any(|held| held.cluster == cluster && held.sequence == sequence) {
            return Err(drops::SEGMENT_LATE);
        }
        if self.held.len() >= self.most {
            return Err(drops::SEGMENT_LOST);
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(bytes);
        self.held.push(Held { cluster, sequence, since: now, bytes: copy });
        Ok(())
    }

    /// The segment of a cluster whose turn it is. Its memory comes back by [`Order::restore`].
    pub fn next(&mut self, cluster: u32, sequence: u16) -> Option<Vec<u8>> {
        let at = self.held.iter().position(|held| held.cluster == cluster && held.sequence == sequence)?;
        Some(self.held.swap_remove(at).bytes)
    }

    /// Takes memory back.
    pub fn restore(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.spare.push(bytes);
    }

    /// Drops what a cluster has waiting; returns the bytes of each.
    pub fn drop_all(&mut self, cluster: u32) -> Vec<usize> {
        let mut dropped = Vec::new();
        while let Some(at) = self.held.iter().position(|held| held.cluster == cluster) {
            let bytes = self.held.swap_remove(at).bytes;
            dropped.push(bytes.len());
            self.restore(bytes);
        }
        dropped
    }

    /// Takes out all that wait: cluster, number, bytes.
    pub(crate) fn take_all(&mut self) -> Vec<(u32, u16, Vec<u8>)> {
        self.held.drain(..).map(|held| (held.cluster, held.sequence, held.bytes)).collect()
    }

    /// Shows all that wait: cluster, number, since when, bytes.
    pub(crate) fn each(&self, mut show: impl FnMut(u32, u16, u64, &[u8])) {
        self.held.iter().for_each(|held| show(held.cluster, held.sequence, held.since, &held.bytes));
    }

    /// A cluster one of whose segments has waited too long, and the first segment of it that is here.
    pub(crate) fn oldest_late(&self, now: u64) -> Option<(u32, u16)> {
        let late = self.held.iter().find(|held| now.saturating_sub(held.since) >= self.wait_ns)?;
        // Within half of all numbers the one that is not behind any other is the first.
        let of_it = || self.held.iter().filter(|held| held.cluster == late.cluster);
        let behind = |a: u16, b: u16| (b.wrapping_sub(a) & (ccf::SEQUENCES - 1)) < ccf::SEQUENCES / 2;
        let first = of_it().find(|held| of_it().all(|other| behind(held.sequence, other.sequence)))?;
        Some((first.cluster, first.sequence))
    }
}
