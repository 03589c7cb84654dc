//! One system call a packet: what most user-space gateways do, kept to measure against.
//!
//! A packet costs exactly one receive and one `sendto`, straight into and out of the frame. The receive is `recvmsg`,
//! because the outer VLAN tag comes in auxiliary data; with `vlan=off` it is a bare `recvfrom`.

use frame::{Batch, Pool};

use super::auxdata::Control;
use super::line::{Aside, Line, Refusal};
use super::socket::errno;

/// Receives with a call for each packet.
pub(super) fn receive(line: &mut Line, pool: &mut Pool, out: &mut Batch, aside: bool) -> usize {
    let before = out.len();
    while out.room() > 0 {
        let Some(mut frame) = pool.take() else { break };
        line.counters.syscalls += 1;
        let space = pool.arena().space_mut(&mut frame);
        let (len, beside) = if aside { recvmsg(line.fd, space) } else { (recvfrom(line.fd, space), Aside::default()) };
        match usize::try_from(len) {
            Ok(len) => line.receive(pool, out, frame, len, beside),
            Err(_) => {
                let again = line.receive_failed(errno());
                pool.give(frame);
                if !again {
                    break;
                }
            }
        }
    }
    out.len() - before
}

/// Sends with a call for each packet. Returns how many of the batch are done with.
pub(super) fn send(line: &mut Line, pool: &mut Pool, batch: &mut Batch) -> usize {
    let mut done = 0;
    while let Some(frame) = batch.frames().get(done) {
        let bytes = pool.arena().bytes(frame);
        line.counters.syscalls += 1;
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the bytes are borrowed for the call; no address is given, as the socket is bound.
        let sent = unsafe { libc::sendto(line.fd, bytes.as_ptr().cast(), bytes.len(), flags, std::ptr::null(), 0) };
        if sent >= 0 {
            line.counters.tx_packets += 1;
            line.counters.tx_bytes += bytes.len() as u64;
            done += 1;
            continue;
        }
        match line.send_failed(errno(), batch.len() - done) {
            Refusal::Again => {}
            Refusal::Skip => done += 1,
            Refusal::Stop => break,
        }
    }
    batch.drain_front(done, |frame| pool.give(frame));
    done
}

/// With `MSG_TRUNC` both return the length on the wire, however little fitted.
const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_TRUNC;

fn recvfrom(fd: i32, space: &mut [u8]) -> isize {
    let null = std::ptr::null_mut();
    // SAFETY: the space is borrowed mutably for the call and as long as told; no address is asked for.
    unsafe { libc::recvfrom(fd, space.as_mut_ptr().cast(), space.len(), FLAGS, null, std::ptr::null_mut()) }
}

fn recvmsg(fd: i32, space: &mut [u8]) -> (isize, Aside) {
    let mut control = Control::new();
    let mut piece = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
    // SAFETY: a msghdr is plain data; all zeros is a valid one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    control.offer(&mut message);
    // SAFETY: what the message points to (space, piece, control) lives here or is borrowed, and outlives the call.
    let len = unsafe { libc::recvmsg(fd, &raw mut message, FLAGS) };
    if len < 0 {
        return (len, Aside::default());
    }
    (len, control.read(message.msg_controllen))
}
