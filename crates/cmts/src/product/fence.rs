//! Fencing: before a standby takes over, the process it goes on for is ended, whatever state that is in. A process
//! that hangs, is stopped, or has lost a thread may come back; a killed one runs no instruction more.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that can be ended, and no other that has got its number since.
#[derive(Debug)]
pub struct Fence {
    process: OwnedFd,
    pid: Pid,
}

/// The number of this process, and the namespace in which that is its number.
pub fn ourselves() -> (i32, String) {
    (rustix::process::getpid().as_raw_pid(), namespace())
}

fn namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid").map_or_else(|_| String::new(), |link| link.to_string_lossy().into_owned())
}

impl Fence {
    /// Of the process that says of itself what [`ourselves`] says. Made while it speaks, so that the number is its own.
    ///
    /// # Errors
    /// It is in another namespace of processes, or the kernel knows no descriptors of processes (before Linux 5.3).
    pub fn of(pid: i32, theirs: &str) -> io::Result<Self> {
        let is_here = pid > 0 && !theirs.is_empty() && theirs == namespace();
        let pid = is_here.then(|| Pid::from_raw(pid)).flatten();
        let pid = pid.ok_or_else(|| io::Error::other("it is in another namespace of processes"))?;
        Ok(Self { process: pidfd_open(pid, PidfdFlags::empty())?, pid })
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the process ends within that time.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], left.as_ref()) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) if Instant::now() < until => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends the process. One in an uninterruptible wait has not gone yet, but will run no more instruction of its own.
    ///
    /// # Errors
    /// It is not ours to end.
    pub fn end(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.process, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        self.ends_within(PATIENCE);
        Ok(())
    }
}

/// What a killed process needs to give its memory back.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_stopped_process_is_ended_all_the_same() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let fence = Fence { process: pidfd_open(pid, PidfdFlags::empty()).unwrap(), pid };
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        assert!(!fence.ends_within(Duration::from_millis(20)));
        fence.end().unwrap();
        assert!(fence.ends_within(Duration::from_secs(20)));
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        fence.end().unwrap();
    }

    #[test]
    fn a_process_elsewhere_is_not_taken_for_one_here() {
        let (pid, namespace) = ourselves();
        let fence = Fence::of(pid, &namespace).unwrap();
        assert_eq!(fence.pid(), rustix::process::getpid());
        assert!(!fence.ends_within(Duration::ZERO));
        assert!(Fence::of(pid, "pid:[1]").unwrap_err().to_string().contains("another namespace"));
        assert!(Fence::of(0, &namespace).is_err() && Fence::of(-1, &namespace).is_err());
    }
}
