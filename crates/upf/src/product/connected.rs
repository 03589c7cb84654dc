//! Sessions as `weir show sessions`, `weir trace` and the HTTP API list them.

use std::net::IpAddr;

use gateway::connected::{Connected, ConnectedView, Filter, Used, WorkerConnected};
use ledger::Seid;

use sessions::FrontEnd;

use super::observer::Observer;
use super::query::{Query, QueryAnswer, Total};
use crate::n4::store::{Key, Pfcp, keys};

/// A session as control has it: copied while control is locked, put into words afterwards.
struct Copied {
    number: u32,
    worker: u16,
    seids: Option<(u64, u64)>,
    keys: Vec<Key>,
    /// The message that would establish it; empty: it is simulated.
    message: Box<[u8]>,
}

impl Observer {
    fn copied(&self, numbers: &[u32]) -> Vec<Copied> {
        if let Some(n4) = self.n4() {
            let store = n4.endpoint().sessions().store();
            let copy = |number: &u32| {
                let entry = store.get(*number)?;
                Some(Copied {
                    number: *number,
                    worker: entry.worker,
                    seids: store.seid(*number).map(|seid| (seid, entry.cp_seid)),
                    keys: entry.keys().to_vec(),
                    message: entry.message().into(),
                })
            };
            return numbers.iter().filter_map(copy).collect();
        }
        let control = self.control();
        let Some(simulator) = control.simulator() else { return Vec::new() };
        let (ues, idle) = (simulator.config().ues, simulator.config().idle);
        let copy = |number: &u32| Copied {
            number: *number,
            worker: control.place(*number).0,
            seids: None,
            keys: keys(&simulator.session(*number, *number < idle)),
            message: Box::default(),
        };
        numbers.iter().filter(|number| **number < ues).map(copy).collect()
    }

    /// The workers of sessions, and their handles there.
    fn places(&self, numbers: &[u32]) -> Vec<Option<(u16, u32)>> {
        if let Some(n4) = self.n4() {
            let store = n4.endpoint().sessions().store();
            return numbers.iter().map(|number| Some((store.get(*number)?.worker, *number))).collect();
        }
        let control = self.control();
        let ues = control.simulator().map_or(0, |simulator| simulator.config().ues);
        numbers.iter().map(|number| (*number < ues).then(|| control.place(*number))).collect()
    }
}

impl Connected for Observer {
    fn kind(&self) -> &'static str {
        "sessions"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["imsi", "msisdn", "address", "teid", "seid", "dnn"]
    }

    fn total(&self) -> u64 {
        match self.n4() {
            Some(n4) => n4.endpoint().sessions().store().len() as u64,
            None => self.numbers().into(),
        }
    }

    fn numbers(&self) -> u32 {
        match self.n4() {
            Some(n4) => n4.endpoint().sessions().store().numbers(),
            None => self.control().simulator().map_or(0, |simulator| simulator.config().ues),
        }
    }

    fn indexed(&self, filter: &Filter) -> Option<Vec<u32>> {
        let n4 = self.n4();
        let Some(n4) = &n4 else {
            let address = filter.address?;
            let control = self.control();
            return Some(super::session::index(control.simulator()?.config(), address).into_iter().collect());
        };
        let sessions = n4.endpoint().sessions();
        if let Some(address) = filter.address {
            return Some(sessions.find_subscribers(address).collect());
        }
        if let Some(teid) = filter.teid {
            return Some(sessions.store().lookup(Key::Teid(teid)).into_iter().collect());
        }
        // A control plane's is not in any index.
        filter.seid.and_then(|seid| sessions.store().find(seid)).map(|number| vec![number])
    }

    fn entries(&self, numbers: &[u32]) -> Vec<ConnectedView> {
        let instances = self.config().instances();
        self.copied(numbers).iter().map(|copied| view(copied, &instances)).collect()
    }

    fn used(&self, numbers: &[u32]) -> Result<Vec<Option<Used>>, String> {
        let places = self.places(numbers);
        let mut all = vec![None; numbers.len()];
        for (worker, query) in self.queries.iter().enumerate() {
            let own = places.iter().enumerate().filter_map(|(n, place)| Some((n, place.as_ref()?)));
            let own: Vec<(usize, u32)> =
                own.filter(|(_, place)| usize::from(place.0) == worker).map(|(n, place)| (n, place.1)).collect();
            if own.is_empty() {
                continue;
            }
            let totals = own.iter().map(|(_, handle)| Total { handle: *handle, used: None }).collect();
            let Some(QueryAnswer::Totals(totals)) = query.ask(Query::Totals(totals)) else {
                return Err(format!("worker {worker} does not answer"));
            };
            for ((n, _), total) in own.iter().zip(totals) {
                all[*n] = total.used.map(|[up_packets, up_bytes, down_packets, down_bytes]| Used {
                    up_packets,
                    up_bytes,
                    down_packets,
                    down_bytes,
                    mac: None,
                });
            }
        }
        Ok(all)
    }

    fn workers(&self) -> Result<Vec<WorkerConnected>, String> {
        let view = self.sessions()?;
        let of = |worker: super::protocol::WorkerSessions| WorkerConnected {
            worker: worker.worker,
            sessions: worker.sessions,
            bytes: worker.bytes,
        };
        Ok(view.workers.into_iter().map(of).collect())
    }

    fn control(&self) -> Vec<(String, u64, String)> {
        super::observer::control_events(&Observer::control(self))
    }
}

/// A session in words.
fn view(copied: &Copied, instances: &[String]) -> ConnectedView {
    let rules = (!copied.message.is_empty()).then(|| Pfcp::parse(&copied.message));
    let user = rules.as_ref().and_then(|rules| rules.user_id.as_ref());
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let mut view = ConnectedView {
        number: copied.number,
        worker: Some(copied.worker),
        imsi: user.and_then(|user| user.imsi_digits().or_else(|| user.supi.as_deref().map(text))),
        msisdn: user.and_then(|user| user.msisdn_digits().or_else(|| user.gpsi.as_deref().map(text))),
        seid: copied.seids.map(|(seid, _)| Seid(seid)),
        cp_seid: copied.seids.map(|(_, seid)| Seid(seid)),
        dnn: rules.as_ref().and_then(|rules| rules.apn_dnn.as_ref()).map(|dnn| dnn.text.to_string()),
        ..ConnectedView::default()
    };
    for key in &copied.keys {
        match key {
            Key::Teid(teid) => view.teids.push(*teid),
            Key::Ue(instance, address) => {
                view.addresses.push(match address {
                    IpAddr::V4(address) => address.to_string(),
                    IpAddr::V6(prefix) => format!("{prefix}/64"),
                });
                view.network_instance = instances.get(usize::from(*instance)).cloned();
            }
            Key::Route(_) => {}
        }
    }
    view
}

#[cfg(test)]
mod tests {
    use pfcp::ie::UserId;

    use super::*;

    #[test]
    fn a_session_is_shown_with_its_identities() {
        let user_id = UserId { msisdn: UserId::of_imsi("4912345").imsi, ..UserId::of_imsi("001010000000007") };
        let rules = crate::n4::change::Rules {
            cp_f_seid: pfcp::ie::FSeid::new(9, [10, 0, 4, 2].into()),
            create_pdrs: vec![pfcp::group::CreatePdr::default()],
            create_fars: vec![pfcp::group::CreateFar::default()],
            user_id: Some(user_id),
            apn_dnn: Some(pfcp::ie::ApnDnn::from("internet")),
            ..Default::default()
        };
        let mut message = Vec::new();
        assert!(Pfcp::write(&rules, &mut message));
        let keys = vec![
            Key::Teid(0x1f),
            Key::Ue(1, "10.60.0.7".parse().unwrap()),
            Key::Ue(1, "2001:db8:0:7::".parse().unwrap()),
        ];
        let copied = Copied { number: 6, worker: 1, seids: Some((0x1_0000_0007, 9)), keys, message: message.into() };
        let view = view(&copied, &["access".to_owned(), "core".to_owned()]);
        assert_eq!((view.imsi.as_deref(), view.msisdn.as_deref()), (Some("001010000000007"), Some("4912345")));
        assert_eq!((view.dnn.as_deref(), view.network_instance.as_deref()), (Some("internet"), Some("core")));
        assert_eq!(view.addresses, ["10.60.0.7", "2001:db8:0:7::/64"]);
        let with = |name: &str, value: &str| {
            let mut filter = Filter::default();
            filter.set(name, value).unwrap();
            filter.matches(&view)
        };
        assert!(with("imsi", "imsi-001010000000007") && with("msisdn", "4912345") && with("seid", "0x100000007"));
        assert!(with("seid", "9") && with("dnn", "internet") && with("dnn", "core") && with("teid", "31"));
        assert!(!with("imsi", "001010000000008") && !with("address", "10.60.0.8") && !with("dnn", "ims"));
    }
}
