//! A system call for each burst: `recvmmsg` straight into frames, `sendmmsg` straight out of them.
//!
//! The arrays of message headers are built once. Frames stay posted from call to call, so an empty receive costs no
//! more than the call.

use frame::{BURST, Batch, Frame, Pool};
use libc::{iovec, mmsghdr};

use super::auxdata::Control;
use super::line::{Aside, Line, Refusal};
use super::socket::errno;

/// What headers point to stays where it is: each array is its own box.
struct Headers {
    messages: Box<[mmsghdr; BURST]>,
    pieces: Box<[iovec; BURST]>,
}

// SAFETY: the pointers in these point to `pieces`, to boxes owned beside it, or to slots whose tokens the owner holds
// or borrows during a call; none is tied to a thread.
unsafe impl Send for Headers {}

impl Headers {
    fn new() -> Self {
        let mut pieces = Box::new([iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BURST]);
        // SAFETY: an array of mmsghdr is plain data; all zeros is a valid one.
        let mut messages: Box<[mmsghdr; BURST]> = unsafe { Box::new(std::mem::zeroed()) };
        for (message, piece) in messages.iter_mut().zip(pieces.iter_mut()) {
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        Self { messages, pieces }
    }
}

/// Receives bursts.
pub(super) struct Receiver {
    headers: Headers,
    controls: Option<Box<[Control; BURST]>>,
    posted: [Frame; BURST],
}

impl Receiver {
    /// `aside`: ask for what the kernel tells beside packets (the VLAN tag).
    pub(super) fn new(aside: bool) -> Self {
        let mut headers = Headers::new();
        let mut controls = aside.then(|| Box::new([const { Control::new() }; BURST]));
        if let Some(controls) = &mut controls {
            for (message, control) in headers.messages.iter_mut().zip(controls.iter_mut()) {
                control.offer(&mut message.msg_hdr);
            }
        }
        Self { headers, controls, posted: [const { Frame::none() }; BURST] }
    }

    /// Receives with one call for all.
    pub(super) fn receive(&mut self, line: &mut Line, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        let mut ready = 0;
        while ready < out.room() {
            let frame = &mut self.posted[ready];
            if frame.is_none() {
                let Some(fresh) = pool.take() else { break };
                *frame = fresh;
                let space = pool.arena().space_mut(frame);
                self.headers.pieces[ready] = iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
            }
            ready += 1;
        }
        if ready == 0 {
            return 0;
        }
        line.counters.syscalls += 1;
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let messages = self.headers.messages.as_mut_ptr();
        // SAFETY: the first `ready` headers point to pieces over the space of frames posted here, whose tokens we
        // hold, and to our control buffers; all outlive the call.
        let got = unsafe { libc::recvmmsg(line.fd, messages, ready as u32, flags as _, std::ptr::null_mut()) };
        let Ok(got) = usize::try_from(got) else {
            line.receive_failed(errno());
            return 0;
        };
        for i in 0..got {
            let message = &mut self.headers.messages[i];
            let mut aside = Aside::default();
            if let Some(controls) = &mut self.controls {
                aside = controls[i].read(message.msg_hdr.msg_controllen);
                message.msg_hdr.msg_controllen = size_of::<Control>();
            }
            line.receive(pool, out, self.posted[i].take(), message.msg_len as usize, aside);
        }
        out.len() - before
    }

    /// Frames posted.
    pub(super) fn held(&self) -> usize {
        self.posted.iter().filter(|frame| !frame.is_none()).count()
    }

    /// Gives the posted frames back.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        for frame in &mut self.posted {
            pool.give(frame.take());
        }
    }
}

/// Sends bursts.
pub(super) struct Sender {
    headers: Headers,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self { headers: Headers::new() }
    }

    /// Sends with one call for all, unless one in the middle is refused. Returns how many of the batch are done with.
    pub(super) fn send(&mut self, line: &mut Line, pool: &mut Pool, batch: &mut Batch) -> usize {
        let len = batch.len();
        for (piece, frame) in self.headers.pieces.iter_mut().zip(batch.frames()) {
            let bytes = pool.arena().bytes(frame);
            *piece = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        }
        let mut done = 0;
        while done < len {
            line.counters.syscalls += 1;
            let left = &mut self.headers.messages[done..len];
            // SAFETY: these headers point to pieces over the bytes of frames in `batch`, which stays borrowed for the
            // call; the kernel only reads them.
            let sent =
                unsafe { libc::sendmmsg(line.fd, left.as_mut_ptr(), left.len() as u32, libc::MSG_DONTWAIT as _) };
            if let Ok(sent @ 1..) = usize::try_from(sent) {
                let gone = &batch.frames()[done..done + sent];
                line.counters.tx_packets += sent as u64;
                line.counters.tx_bytes += gone.iter().map(|frame| frame.len() as u64).sum::<u64>();
                done += sent;
                continue;
            }
            match line.send_failed(errno(), len - done) {
                Refusal::Again => {}
                Refusal::Skip => done += 1,
                Refusal::Stop => break,
            }
        }
        batch.drain_front(done, |frame| pool.give(frame));
        done
    }
}
