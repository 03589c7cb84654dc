//! Modems as `weir show modems`, `weir trace` and the HTTP API list them.

use std::time::Instant;

use gateway::connected::{Connected, ConnectedView, Filter, Used};
use gateway::shell::Product;

use super::observer::{Observer, PATIENCE};

impl Connected for Observer {
    fn kind(&self) -> &'static str {
        "modems"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["mac", "address", "group", "profile"]
    }

    fn total(&self) -> u64 {
        Observer::control(self).modems() as u64
    }

    fn numbers(&self) -> u32 {
        Observer::control(self).handles()
    }

    fn indexed(&self, filter: &Filter) -> Option<Vec<u32>> {
        let mac = filter.mac.as_deref()?.parse().ok()?;
        Some(Observer::control(self).find(mac).map(|modem| modem.spec.handle).into_iter().collect())
    }

    fn entries(&self, numbers: &[u32]) -> Vec<ConnectedView> {
        let control = Observer::control(self);
        let view = |number: &u32| {
            let named = control.modem(*number)?;
            Some(ConnectedView {
                number: *number,
                mac: Some(named.mac.to_string()),
                addresses: named.spec.hosts.iter().map(|(address, _)| address.to_string()).collect(),
                group: control
                    .config()
                    .service_group
                    .get(usize::from(named.spec.service_group))
                    .map(|g| g.name.clone()),
                profile: control.config().profile.get(named.profile).map(|profile| profile.name.clone()),
                ..ConnectedView::default()
            })
        };
        numbers.iter().filter_map(view).collect()
    }

    fn used(&self, numbers: &[u32]) -> Result<Vec<Option<Used>>, String> {
        let _one = self.reporting.lock().unwrap_or_else(|e| e.into_inner());
        Observer::control(self).ask_counts(numbers);
        let until = Instant::now() + PATIENCE;
        loop {
            {
                let mut control = Observer::control(self);
                control.poll(self.shell().now_ns());
                if let Some(counts) = control.counts() {
                    let used = |count: &Option<[u64; 4]>| {
                        count.map(|[down_packets, down_bytes, up_packets, up_bytes]| Used {
                            up_packets,
                            up_bytes,
                            down_packets,
                            down_bytes,
                            mac: None,
                        })
                    };
                    return Ok(counts.iter().map(used).collect());
                }
            }
            if Instant::now() > until {
                return Err("a worker does not answer".to_owned());
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }
}
