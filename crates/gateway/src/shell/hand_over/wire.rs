//! What two processes say to each other over the control socket once one hands over to the other: messages of a kind and
//! octets, with descriptors beside them (SCM_RIGHTS).
//!
//! ```text
//! kind (1) | 0 (3) | length of the octets, big-endian (4)     descriptors come with these eight
//! octets
//! ```

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Descriptors of a message at most.
const MOST: usize = 64;
/// Octets of a message at most: batches are far shorter, or come in [parts](PART).
const LONGEST: usize = 256 << 20;
/// Octets written at once: as many as the system waits for only once or twice.
const WRITTEN: usize = 64 << 10;
/// Octets of a part of a batch.
pub const PART: usize = 16 << 20;

/// Kinds of messages, in the order in which they are sent: `>` by the process that hands over, `<` by the one that takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `>` What the gateway was started with, as JSON, with the descriptors of its own.
    Hello = 1,
    /// `>` The helper's process number, as text, with its socket.
    Helper,
    /// `>` A port, as JSON, with its descriptors.
    Port,
    /// `>` State, as of the gateway.
    Batch,
    /// `>` All state there was has been sent once.
    Synced,
    /// `<` It is taken in.
    Ready,
    /// `>` Neighbours by whose hardware addresses packets leave, as JSON.
    Neighbours,
    /// `>` What has changed since is sent; packets are still forwarded.
    Arm,
    /// `<` It is taken in.
    Armed,
    /// `>` The workers stand still: where ports stand, as JSON, with the listening sockets. The last batch came before.
    Frozen,
    /// `<` All is taken in; the workers are ready to run. As JSON: nanoseconds that the last of it took, and those on a CPU.
    Loaded,
    /// `>` Run. From here on only the end of the other process brings the workers back.
    Go,
    /// `<` The workers run: since when, as text, in nanoseconds of the common clock.
    Running,
    /// `>` Packet memory, which ports share with the kernel, as a file. Before the ports.
    Memory,
    /// `>` The beginning of a batch that is too long for a message; more of it follows.
    Part,
    /// `>` The workers stand still: which packet buffers are in use, as octets of 64-bit words. Before the last batch.
    Buffers,
}

impl Kind {
    const ALL: [Self; 16] = [
        Self::Hello,
        Self::Helper,
        Self::Port,
        Self::Batch,
        Self::Synced,
        Self::Ready,
        Self::Neighbours,
        Self::Arm,
        Self::Armed,
        Self::Frozen,
        Self::Loaded,
        Self::Go,
        Self::Running,
        Self::Memory,
        Self::Part,
        Self::Buffers,
    ];
}

/// A message as it came.
#[derive(Debug)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Contents of the message, by its kind.
    pub octets: Vec<u8>,
    /// Descriptors received beside it; closed when the message is dropped.
    pub descriptors: Vec<OwnedFd>,
}

/// Whether a process may be asked for something like that: it is of the same user, or this one is root's.
///
/// # Errors
/// It may not; a sentence.
pub fn may_ask(stream: &UnixStream) -> Result<(), String> {
    let (user, own) = users(stream)?;
    let may = user == own || own == 0;
    may.then_some(()).ok_or_else(|| format!("it is of user {user}, this process of user {own}"))
}

/// Whether a process that asks for something like that may be answered: it is of the same user, or root's.
///
/// # Errors
/// It may not; a sentence.
pub fn may_be_answered(stream: &UnixStream) -> Result<(), String> {
    let (user, own) = users(stream)?;
    let may = user == own || user == 0;
    may.then_some(()).ok_or_else(|| format!("the process that asks is of user {user}, this one of user {own}"))
}

fn users(stream: &UnixStream) -> Result<(u32, u32), String> {
    let (_, user) = Link::peer(stream).map_err(|error| format!("no credentials: {error}"))?;
    Ok((user, rustix::process::geteuid().as_raw()))
}

/// The connection of the two.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    /// When the other end must have taken what is sent; none: it may take any time.
    sent_by: Option<Instant>,
}

impl Link {
    /// Over a connection on which nothing is under way.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, sent_by: None }
    }

    /// What is sent from now on must be taken by the other end within that time, all of it together.
    pub fn limit_sending(&mut self, within: Duration) {
        self.sent_by = Some(Instant::now() + within);
    }

    /// Writes octets, some at a time: the system's own limit begins anew with each that it waits for.
    fn write(&mut self, mut octets: &[u8]) -> io::Result<()> {
        while !octets.is_empty() {
            self.wait_to_send()?;
            match self.stream.write(octets.get(..WRITTEN).unwrap_or(octets)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => octets = &octets[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Has the next write end in time.
    fn wait_to_send(&self) -> io::Result<()> {
        let left = self.sent_by.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(left)
    }

    /// The process and the user at the other end.
    ///
    /// # Errors
    /// What the system said.
    pub fn peer(stream: &UnixStream) -> io::Result<(i32, u32)> {
        let peer = rustix::net::sockopt::socket_peercred(stream)?;
        Ok((peer.pid.as_raw_pid(), peer.uid.as_raw()))
    }

    /// Says no more, and waits until the other end is closed. False: it was not in that time.
    pub fn has_ended(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let mut rest = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match self.stream.read(&mut rest) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Whether the other end is closed. What it has said before is still to be received.
    pub fn has_hung_up(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ends = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        poll(&mut ends, Some(&now)).is_ok() && !ends[0].revents().is_empty()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other process has gone, or has not taken it [in time](Self::limit_sending).
    pub fn send(&mut self, kind: Kind, octets: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let len = u32::try_from(octets.len()).ok().filter(|len| *len as usize <= LONGEST);
        let len = len.ok_or_else(|| io::Error::other("a message too long"))?;
        let mut head = [kind as u8, 0, 0, 0, 0, 0, 0, 0];
        head[4..].copy_from_slice(&len.to_be_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("more descriptors than a message has"));
        }
        self.wait_to_send()?;
        let sent = sendmsg(&self.stream, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)?;
        self.write(&head[sent..])?;
        self.write(octets)
    }

    /// Sends a batch, in parts where it is long; `between` them whoever sends sees to what else there is.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_batch(&mut self, octets: &[u8], mut between: impl FnMut()) -> io::Result<()> {
        let mut parts = octets.chunks(PART).peekable();
        while let Some(part) = parts.next_if(|part| part.len() == PART) {
            match parts.peek() {
                Some(_) => self.send(Kind::Part, part, &[])?,
                None => return self.send(Kind::Batch, part, &[]),
            }
            between();
        }
        self.send(Kind::Batch, parts.next().unwrap_or_default(), &[])
    }

    /// Octets to fill `to`, until then at the latest.
    fn read_until(&mut self, mut to: &mut [u8], until: Option<Instant>) -> io::Result<()> {
        while !to.is_empty() {
            self.wait_until(until)?;
            match self.stream.read(to) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(got) => to = &mut to[got..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_until(&self, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)
    }

    /// Whether there is something to [receive](Self::receive), or becomes within that time.
    ///
    /// # Errors
    /// What the system said.
    pub fn is_ready(&self, within: Duration) -> io::Result<bool> {
        let time = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() }; // far below 2^63 s
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next message, whole within `patience`.
    ///
    /// # Errors
    /// The other process has gone ([`ErrorKind::UnexpectedEof`]), says nothing, or says what is no message.
    pub fn receive(&mut self, patience: Option<Duration>) -> io::Result<Message> {
        let until = patience.map(|patience| Instant::now() + patience);
        self.wait_until(until)?;
        let mut head = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            match recvmsg(&self.stream, &mut [IoSliceMut::new(&mut head)], &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?.bytes,
            }
        };
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = part {
                descriptors.extend(passed);
            }
        }
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.read_until(&mut head[got..], until)?;
        let [kind, _, _, _, len @ ..] = head;
        let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or(ErrorKind::InvalidData)?;
        let len = u32::from_be_bytes(len) as usize;
        if len > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut octets = vec![0; len];
        self.read_until(&mut octets, until)?;
        Ok(Message { kind, octets, descriptors })
    }

    /// The next message, which is of that kind.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); it is of another kind.
    pub fn expect(&mut self, kind: Kind, patience: Option<Duration>) -> io::Result<Message> {
        let message = self.receive(patience)?;
        if message.kind == kind { Ok(message) } else { Err(ErrorKind::InvalidData.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn octets_and_descriptors_come_as_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Link::new(ours), Link::new(theirs));
        let (kept, mut passed) = UnixStream::pair().unwrap();
        ours.send(Kind::Port, b"n3", &[kept.as_fd()]).unwrap();
        ours.send(Kind::Go, b"", &[]).unwrap();
        assert!(theirs.is_ready(Duration::from_secs(5)).unwrap());
        let port = theirs.receive(None).unwrap();
        assert_eq!((port.kind, port.octets.as_slice(), port.descriptors.len()), (Kind::Port, &b"n3"[..], 1));
        UnixStream::from(port.descriptors.into_iter().next().unwrap()).write_all(b"x").unwrap();
        let mut said = [0];
        passed.read_exact(&mut said).unwrap();
        assert_eq!(said, *b"x");
        assert_eq!(theirs.expect(Kind::Go, None).unwrap().octets, b"");
        assert!(!theirs.is_ready(Duration::from_millis(1)).unwrap());
        assert!(theirs.receive(Some(Duration::from_millis(5))).is_err(), "nothing more was sent");
        drop(ours);
        assert_eq!(theirs.receive(None).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_long_batch_comes_in_parts() {
        for (len, kinds) in [(0, 1), (PART - 1, 1), (PART, 1), (PART + 1, 2), (3 * PART, 3)] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut ours, mut theirs) = (Link::new(ours), Link::new(theirs));
            let sent = std::thread::spawn(move || ours.send_batch(&vec![7; len], || ()).unwrap());
            let (mut got, mut messages) = (0, 0);
            loop {
                let message = theirs.receive(None).unwrap();
                (got, messages) = (got + message.octets.len(), messages + 1);
                if message.kind == Kind::Batch {
                    break;
                }
                assert_eq!(message.kind, Kind::Part);
            }
            assert_eq!((got, messages), (len, kinds));
            sent.join().unwrap();
        }
    }

    /// One reads nothing; the other one a little now and then, so that no single write takes long.
    #[test]
    fn who_does_not_read_is_not_waited_for() {
        for is_slow in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut ours, mut reader) = (Link::new(ours), theirs.try_clone().unwrap());
            let reading = std::thread::spawn(move || {
                let mut some = [0; 40 << 10];
                while is_slow && reader.read(&mut some).is_ok_and(|got| got > 0) {
                    std::thread::sleep(Duration::from_millis(40));
                }
            });
            let begun = Instant::now();
            ours.limit_sending(Duration::from_millis(200));
            let error = ours.send_batch(&vec![7; 16 << 20], || ()).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
            let took = begun.elapsed();
            assert!((200..1500).contains(&took.as_millis()), "{took:?}");
            // Nor is it later.
            assert!(ours.send(Kind::Go, &[], &[]).is_err());
            drop((ours, theirs));
            reading.join().unwrap();
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[99, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(Link::new(theirs).receive(None).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
