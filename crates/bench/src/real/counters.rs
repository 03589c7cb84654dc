//! Bursts of a contender that counts them: packets received by turns that received some.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Packets and busy turns of all workers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// Packets received.
    pub rx_packets: u64,
    /// Bursts received: where the worker does not count these, turns that moved packets.
    pub bursts: u64,
}

impl Bursts {
    /// Of a gateway, by its control socket.
    pub fn of_gateway(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let mut stream = BufReader::new(stream);
        stream.get_mut().write_all(b"{\"ask\": \"counters\"}\n").ok()?;
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        Self::parse(&line)
    }

    /// Of the answer to `counters`.
    fn parse(line: &str) -> Option<Self> {
        let answer: Value = serde_json::from_str(line).ok()?;
        let workers = answer.get("counters")?.get("workers")?.as_array()?;
        let sum = |name: &str| -> Option<u64> {
            let each = workers.iter().map(|worker| worker.get("io")?.get(name)?.as_u64());
            each.sum()
        };
        Some(Self { rx_packets: sum("rx_packets")?, bursts: sum("bursts").or_else(|| sum("busy_turns"))? })
    }

    /// Packets per burst since; none without a burst.
    pub(crate) fn mean_since(&self, before: &Self) -> Option<f64> {
        let (packets, bursts) = (self.rx_packets - before.rx_packets, self.bursts - before.bursts);
        (bursts > 0).then(|| packets as f64 / bursts as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up() {
        let line = r#"{"counters": {"workers": [{"io": {"rx_packets": 10, "busy_turns": 4}}, {"io": {"rx_packets": 5, "busy_turns": 1}}]}}"#;
        let bursts = Bursts::parse(line).expect("an answer");
        assert_eq!(bursts, Bursts { rx_packets: 15, bursts: 5 });
        assert_eq!(bursts.mean_since(&Bursts::default()), Some(3.0));
        assert_eq!(bursts.mean_since(&bursts), None);
        assert_eq!(Bursts::parse(r#"{"error": "busy"}"#), None);
        let newer = line.replace("busy_turns", "bursts");
        assert_eq!(Bursts::parse(&newer), Some(bursts));
    }
}
