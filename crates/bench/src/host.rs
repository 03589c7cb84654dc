//! The machine a result was measured on, and what it was kept from doing.

use std::fs::read_to_string;
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The processor's name.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// Processors this process may use.
    pub cores: usize,
    /// The part of the time, 0 to 1, that the hypervisor gave to others while measuring.
    pub steal_ratio: f64,
    /// The network interface, or what stands in for it.
    pub nic: String,
    /// The part of the processors' time, 0 to 1, that was not idle while measuring: this trial and everything else.
    pub busy_ratio: f64,
    /// How the threads of the trial were scheduled: `fifo` or `ordinary`.
    pub scheduling: String,
    /// The clock that the gateway's cores gave it, in GHz: the median over windows ([`crate::core_clock`] tells how it is
    /// taken, and what is not in it). None where it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_ghz: Option<f64>,
    /// The same in the window that `cost.tc_quiet_ns` is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_ghz_quiet: Option<f64>,
}

impl Host {
    /// This one.
    pub fn this() -> Self {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let cpu = model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim());
        let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: cpu.to_owned(),
            kernel: kernel.trim().to_owned(),
            cores: crate::thread::cpus().len(),
            ..Self::default()
        }
    }
}

/// Processor time of the whole machine, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    all: u64,
    idle: u64,
    steal: u64,
}

impl CpuTime {
    /// So far.
    pub fn now() -> Self {
        Self::parse(&read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(stat: &str) -> Self {
        // user nice system idle iowait irq softirq steal
        let line = stat.lines().next().unwrap_or_default();
        let n: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let at = |i: usize| n.get(i).copied().unwrap_or(0);
        Self { all: n.iter().sum(), idle: at(3) + at(4), steal: at(7) }
    }

    /// Parts stolen and busy since `earlier`.
    pub fn since(&self, earlier: &Self) -> (f64, f64) {
        let all = self.all.saturating_sub(earlier.all).max(1) as f64;
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        (self.steal.saturating_sub(earlier.steal) as f64 / all, (1.0 - idle / all).max(0.0))
    }
}

/// Bytes of memory this process has resident.
pub fn rss_bytes() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Now, as `2026-01-31T12:00:00Z`.
pub fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

/// Year, month and day of a day since 1970, counted in eras of 400 years that begin in March.
fn civil(day: u64) -> (u64, u64, u64) {
    let z = day + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!((civil(0), civil(59), civil(19_782)), ((1970, 1, 1), (1970, 3, 1), (2024, 2, 29)));
        assert_eq!(date().len(), 20);
    }

    #[test]
    fn processor_time_is_read() {
        let a = CpuTime::parse("cpu  100 0 100 700 50 0 20 30 0 0\ncpu0 1 2 3");
        let b = CpuTime::parse("cpu  150 0 130 710 50 0 20 40 0 0");
        assert_eq!(b.since(&a), (0.1, 0.9));
    }

    #[test]
    fn this_machine_is_known() {
        let host = Host::this();
        assert!(!host.kernel.is_empty() && host.cores > 0 && rss_bytes() > 1 << 20);
    }
}
