//! Power of the processors while packets are forwarded, by their own meters: RAPL, which Linux shows as powercap zones
//! (`Documentation/power/powercap`). Virtual machines have none.

use std::fs::read_to_string;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::window::{Window, median};

/// Where the kernel shows zones.
const ROOT: &str = "/sys/class/powercap";
/// Another folder instead.
const VARIABLE: &str = "WEIR_POWERCAP";

/// A zone that counts energy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    energy: PathBuf,
    /// The counter begins anew after this, in microjoules.
    most: u64,
}

/// Meters of all processor packages and their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    zones: Vec<Zone>,
}

/// Energy counted so far, and when.
#[derive(Clone, Debug)]
pub struct Reading {
    microjoules: Vec<u64>,
    at: Instant,
}

impl Meter {
    /// This machine's, or those in the folder that the environment's `WEIR_POWERCAP` names.
    ///
    /// # Errors
    /// Why power is not available.
    pub fn new() -> Result<Self, String> {
        Self::of(&std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(ROOT), PathBuf::from))
    }

    /// # Errors
    /// Why power is not available there.
    fn of(root: &Path) -> Result<Self, String> {
        let none = || format!("no RAPL in {}", root.display());
        let entries = std::fs::read_dir(root).map_err(|_| none())?;
        let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        folders.sort();
        // Two drivers may show the same counters.
        let is_msr =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"intel-rapl:"));
        if folders.iter().any(is_msr) {
            folders.retain(is_msr);
        }
        let mut zones = Vec::new();
        for folder in folders {
            let name = read_to_string(folder.join("name")).unwrap_or_default();
            // Cores are in their package, and psys has all of them once more.
            if !name.starts_with("package") && !name.starts_with("dram") {
                continue;
            }
            let energy = folder.join("energy_uj");
            match read_to_string(&energy) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(format!("{} may be read by root only", energy.display()));
                }
                Err(_) => {}
                Ok(_) => {
                    let most = number(&folder.join("max_energy_range_uj")).unwrap_or(u64::MAX);
                    zones.push(Zone { energy, most });
                }
            }
        }
        if zones.is_empty() { Err(none()) } else { Ok(Self { zones }) }
    }

    /// What was counted so far; none: a meter cannot be read any more.
    pub fn read(&self) -> Option<Reading> {
        let microjoules = self.zones.iter().map(|zone| number(&zone.energy)).collect::<Option<_>>()?;
        Some(Reading { microjoules, at: Instant::now() })
    }

    /// Watts since an earlier reading; none: no time has passed.
    pub fn watts(&self, earlier: &Reading) -> Option<f64> {
        let now = self.read()?;
        let each = self.zones.iter().zip(now.microjoules.iter().zip(&earlier.microjoules));
        // A counter that began anew did so once: packages take a minute at least.
        let counted = each
            .map(|(zone, (now, before))| now.checked_sub(*before).unwrap_or(zone.most.saturating_sub(*before) + now));
        let seconds = now.at.duration_since(earlier.at).as_secs_f64();
        (seconds > 0.0).then(|| counted.map(|energy| energy as f64).sum::<f64>() / 1e6 / seconds)
    }
}

fn number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// Power of a result: of the whole machine's processors and memory, whatever else ran there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Power {
    /// Watts, the median over windows; none: not available.
    pub watts: Option<f64>,
    /// By packets forwarded: microjoules of each.
    pub microjoules_per_packet: Option<f64>,
    /// Watts of each window.
    pub samples: Vec<f64>,
    /// Microjoules a packet of each window.
    pub samples_per_packet: Vec<f64>,
    /// Why it is not available; empty: it is.
    pub not_available: String,
}

impl Power {
    /// Of windows that were alike.
    pub fn of(windows: &[Window]) -> Self {
        let samples: Vec<f64> = windows.iter().filter_map(|window| window.watts).collect();
        if samples.is_empty() {
            let why = Meter::new().err().unwrap_or_else(|| "not measured in this kind of trial".to_owned());
            return Self { not_available: why, ..Self::default() };
        }
        let watts = median(samples.iter().copied());
        let each = |window: &Window| Some(window.watts? / window.traffic.mpps).filter(|each| each.is_finite());
        let mpps = median(windows.iter().map(|window| window.traffic.mpps));
        Self {
            watts: Some(watts),
            microjoules_per_packet: (mpps > 0.0).then_some(watts / mpps),
            samples,
            samples_per_packet: windows.iter().filter_map(each).collect(),
            not_available: String::new(),
        }
    }

    /// As people read it.
    pub fn text(&self) -> String {
        match (self.watts, self.microjoules_per_packet) {
            (Some(watts), Some(each)) => format!("power: {watts:.1} W of all processors, {each:.2} µJ a packet"),
            (Some(watts), None) => format!("power: {watts:.1} W of all processors"),
            (None, _) => format!("power: not available: {}", self.not_available),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use traffic::TrialResult;

    use super::*;

    /// A folder with zones, removed when dropped.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("weir-powercap-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&root).expect("a folder");
            Self(root)
        }

        fn zone(&self, zone: &str, name: &str, energy: u64, most: u64) {
            let folder = self.0.join(zone);
            std::fs::create_dir_all(&folder).expect("a folder");
            for (file, text) in [
                ("name", name.to_owned()),
                ("energy_uj", energy.to_string()),
                ("max_energy_range_uj", most.to_string()),
            ] {
                std::fs::write(folder.join(file), text + "\n").expect("a file");
            }
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn packages_and_memory_are_added_and_counters_begin_anew() {
        let tree = Tree::new("sum");
        tree.zone("intel-rapl:0", "package-0", 1_000_000, 10_000_000);
        tree.zone("intel-rapl:0:0", "core", 5, 10_000_000);
        tree.zone("intel-rapl:0:1", "dram", 9_000_000, 10_000_000);
        tree.zone("intel-rapl:1", "psys", 5, 10_000_000);
        tree.zone("intel-rapl-mmio:0", "package-0", 1_000_000, 10_000_000);
        let meter = Meter::of(&tree.0).expect("a meter");
        assert_eq!(meter.zones.len(), 2);
        let before = meter.read().expect("a reading");
        std::thread::sleep(Duration::from_millis(100));
        tree.zone("intel-rapl:0", "package-0", 4_000_000, 10_000_000);
        // From 9 J over 10 J to 1 J: two more.
        tree.zone("intel-rapl:0:1", "dram", 1_000_000, 10_000_000);
        let watts = meter.watts(&before).expect("watts");
        let seconds = before.at.elapsed().as_secs_f64();
        assert!(watts <= 50.0 && watts >= 5.0 / seconds * 0.99, "{watts} W in {seconds} s");
    }

    #[test]
    fn what_is_missing_is_said() {
        let tree = Tree::new("none");
        assert!(Meter::of(&tree.0).unwrap_err().starts_with("no RAPL in "));
        tree.zone("dtpm", "dtpm", 1, 2);
        assert!(Meter::of(&tree.0).is_err() && Meter::of(Path::new("/nowhere")).is_err());
        let not = Power { not_available: "no RAPL in x".into(), ..Power::default() };
        assert_eq!(not.text(), "power: not available: no RAPL in x");
    }

    #[test]
    fn energy_of_a_packet_is_power_by_rate() {
        let window = |watts| {
            let traffic = TrialResult { mpps: 2.0, ..TrialResult::default() };
            Window { traffic, watts: Some(watts), ..Window::default() }
        };
        let found = Power::of(&[window(40.0), window(60.0), window(50.0)]);
        assert_eq!((found.watts, found.microjoules_per_packet, found.samples.len()), (Some(50.0), Some(25.0), 3));
        assert_eq!(found.text(), "power: 50.0 W of all processors, 25.00 µJ a packet");
    }
}
