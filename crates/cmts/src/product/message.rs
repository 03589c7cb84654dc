//! Messages from an active gateway to its standby: a byte for the kind, four for the length, then the body.

use std::io::{self, Read, Write};

use crate::standby::{ExportedState, Sequences, UnderWay, Waiting};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The configuration, which must be the standby's too.
    Config(String),
    /// The process that speaks.
    Process(Speaker),
    /// How many turns each worker has made.
    Turns(Vec<u64>),
    /// Control's part, as it is now.
    ExportedState(ExportedState),
    /// Where each worker's numbers stood, and when they were asked at the earliest: nanoseconds of [`monotonic`].
    Sequences(u64, Vec<Sequences>),
    /// The worker that has a waiting frame, and the frame: in order.
    Waiting(u16, Waiting),
    /// A worker, and what is under way upstream in it.
    UnderWay(u16, Vec<UnderWay>),
    /// The active stops; what follows is what it hands over.
    Leaving,
    /// All state is sent, and the active gateway has stopped.
    End,
}

/// Who speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// The process.
    pub pid: i32,
    /// The namespace in which that is its number.
    pub namespace: String,
    /// The thread that speaks.
    pub teller: i32,
    /// The workers' threads.
    pub workers: Vec<i32>,
}

/// The machine's clock that never goes back, in nanoseconds: the same for all its processes.
pub fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 // neither is negative
}

/// Bytes of a message at most.
const LONGEST: usize = 64 << 20;

/// Writes a message.
///
/// # Errors
/// What writing says.
pub fn write(out: &mut impl Write, message: &Message) -> io::Result<()> {
    let (kind, bytes) = match message {
        Message::Config(text) => (b'C', text.as_bytes().to_vec()),
        Message::Process(speaker) => (b'P', json(speaker)?),
        Message::Turns(all) => (b'T', json(all)?),
        Message::ExportedState(book) => (b'B', json(book)?),
        Message::Sequences(at, all) => (b'S', json(&(at, all))?),
        Message::Waiting(worker, frame) => {
            let head = [&worker.to_be_bytes()[..], &frame.flow.to_be_bytes()].concat();
            (b'W', [head, frame.bytes.clone()].concat())
        }
        Message::UnderWay(worker, all) => (b'U', json(&(worker, all))?),
        Message::Leaving => (b'L', Vec::new()),
        Message::End => (b'E', Vec::new()),
    };
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&[&[kind][..], &len.to_be_bytes()].concat())?;
    out.write_all(&bytes)
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

/// Reads a message.
///
/// # Errors
/// What reading says; [`io::ErrorKind::InvalidData`] for what is no message.
pub fn read(from: &mut impl Read) -> io::Result<Message> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [kind, len @ ..] = head;
    let len = u32::from_be_bytes(len) as usize;
    if len > LONGEST {
        return Err(nonsense());
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(match kind {
        b'C' => Message::Config(String::from_utf8(bytes).map_err(|_| nonsense())?),
        b'P' => Message::Process(parse(&bytes)?),
        b'T' => Message::Turns(parse(&bytes)?),
        b'B' => Message::ExportedState(parse(&bytes)?),
        b'S' => {
            let (at, all) = parse(&bytes)?;
            Message::Sequences(at, all)
        }
        b'W' => {
            let (head, frame) = bytes.split_first_chunk::<6>().ok_or_else(nonsense)?;
            let [a, b, flow @ ..] = *head;
            let waiting = Waiting { flow: u32::from_be_bytes(flow), bytes: frame.to_vec() };
            Message::Waiting(u16::from_be_bytes([a, b]), waiting)
        }
        b'U' => {
            let (worker, all) = parse(&bytes)?;
            Message::UnderWay(worker, all)
        }
        b'L' => Message::Leaving,
        b'E' => Message::End,
        _ => return Err(nonsense()),
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|_| nonsense())
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a message of an active gateway of this version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_written_and_nonsense_is_none() {
        let all = [
            Message::Config("gateway".into()),
            Message::Process(Speaker {
                pid: 4711,
                namespace: "pid:[1]".into(),
                teller: 4712,
                workers: vec![4713, 4714],
            }),
            Message::Turns(vec![u64::MAX, 0]),
            Message::ExportedState(ExportedState {
                next_dsid: 7,
                neighbours: vec![(1, [10, 0, 0, 1].into(), [2; 6])],
                ..ExportedState::default()
            }),
            Message::Sequences(7, vec![Sequences { channels: vec![1, 65535], flows: vec![(16, 9)] }]),
            Message::Waiting(1, Waiting { flow: 17, bytes: vec![0; 60] }),
            Message::UnderWay(
                1,
                vec![
                    UnderWay::Burst { session: 0x2000, next: 65535, header: Some([1; 8]), payload: vec![7; 30] },
                    UnderWay::Stream { service_group: 1, sid: 7, next: 8191, begun: Some(vec![0; 3]) },
                    UnderWay::Segment { service_group: 1, sid: 7, sequence: 2, bytes: vec![9; 20] },
                ],
            ),
            Message::Leaving,
            Message::End,
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|message| write(&mut bytes, message).unwrap());
        let mut from = bytes.as_slice();
        all.iter().for_each(|message| assert_eq!(&read(&mut from).unwrap(), message));
        assert_eq!(read(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for bad in [&b"X\0\0\0\0"[..], b"B\0\0\0\x02{]", b"W\0\0\0\x02ab", b"C\xff\xff\xff\xff"] {
            assert_eq!(read(&mut &*bad).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bad:?}");
        }
    }
}
