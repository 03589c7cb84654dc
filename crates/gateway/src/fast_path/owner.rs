//! The process that keeps an in-kernel path, as one word: so that whoever looks sees whether it lives.
//!
//! ```text
//! | PID namespace, 10 bits of its inode's number | start of the process, 32 bits of its clock ticks | PID, 22 bits |
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt as _;

const PID_BITS: u32 = 22;
const START_BITS: u32 = 32;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    start: u32,
    namespace: u16,
}

impl Owner {
    /// This process. What `/proc` does not say is 0.
    pub(super) fn of_this_process() -> Self {
        let pid = std::process::id();
        Self { pid, start: start_of(pid).unwrap_or(0), namespace: namespace() }
    }

    /// As [`of_word`](Self::of_word) reads it.
    pub(super) fn word(self) -> u64 {
        u64::from(self.namespace) << (PID_BITS + START_BITS) | u64::from(self.start) << PID_BITS | u64::from(self.pid)
    }

    /// The process of a word.
    pub(super) fn of_word(word: u64) -> Self {
        let pid = word as u32 & ((1 << PID_BITS) - 1);
        Self { pid, start: (word >> PID_BITS) as u32, namespace: (word >> (PID_BITS + START_BITS)) as u16 }
    }

    /// Whether it lives; none: it is of another PID namespace, where it is not seen.
    pub(super) fn is_alive(self) -> Option<bool> {
        (self.namespace == namespace()).then(|| start_of(self.pid) == Some(self.start))
    }
}

/// The ten lowest bits of what tells this PID namespace from others.
fn namespace() -> u16 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |data| (data.ino() & 0x3ff) as u16)
}

/// When a process began, in clock ticks since the machine did (proc(5), field 22); none: there is none, or it has ended and nobody
/// has asked for its exit code yet.
fn start_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have spaces and brackets in it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse::<u64>().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_of_its_number_does_not() {
        let this = Owner::of_this_process();
        assert_eq!(Owner::of_word(this.word()), this);
        assert_eq!((this.is_alive(), this.pid), (Some(true), std::process::id()));
        assert_eq!(Owner { start: this.start.wrapping_add(1), ..this }.is_alive(), Some(false));
        assert_eq!(Owner { namespace: this.namespace ^ 1, ..this }.is_alive(), None);
    }

    #[test]
    fn a_process_that_has_ended_is_gone_before_its_exit_code_is_asked_for() {
        let mut child = std::process::Command::new("true").spawn().expect("it runs");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_of(child.id()).is_some() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(start_of(child.id()), None);
        child.wait().expect("it has ended");
    }
}
