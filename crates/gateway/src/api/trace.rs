//! `/api/v1/trace`: the next packets of one subscriber, with what every stage did to them.
//!
//! Off unless the configuration says `[api] trace = true`: a trace shows contents of packets to all who reach the
//! listener, which has no authentication, and a worker copies each packet that it follows at every stage. So it is also
//! bounded: packets, time, one at a time (also beside `weir trace`), and not for pages of other sites.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::tables::{Answer, Tables, ask, pairs};
use crate::cli::Keys;
use crate::connected;
use crate::socket::{Answers, Reply, Request, TraceLine, TraceView};
use crate::trace::{Walk, Walks, name_rules};

/// Packets of a trace at most.
pub const PACKETS: u32 = 64;
/// Packets where no number is given.
pub const FEW: u32 = 5;
/// Seconds of a trace at most.
pub const SECONDS: u32 = 10;
/// Seconds where no time is given.
const SHORT: f64 = 5.0;
/// Between two looks at what was recorded.
const LOOK: Duration = Duration::from_millis(100);
/// The connection that traces: no other has this number.
const CONNECTION: u64 = u64::MAX;

/// Held by the request that traces.
#[derive(Default)]
pub struct Tracing(Mutex<()>);

/// What is traced, and how long.
struct Asked {
    subject: (&'static str, String),
    packets: u32,
    time: Duration,
}

/// The answer to a request for a trace.
pub fn answer(tables: &Tables, query: &str) -> Answer {
    let Some(tracing) = &tables.trace else {
        return Answer::refused(403, "tracing is off; [api] trace = true in the configuration allows it");
    };
    let asked = match Asked::of(query) {
        Ok(asked) => asked,
        Err(why) => return Answer::refused(400, &why),
    };
    let Ok(_one_at_a_time) = tracing.0.try_lock() else {
        return Answer::refused(409, "another trace runs; one at a time");
    };
    match follow(&*tables.gateway, &asked) {
        Err(why) if why.contains("one at a time") => Answer::refused(409, &why),
        followed => Answer::of(followed.and_then(|walks| serde_json::to_string(&walks).map_err(|e| e.to_string()))),
    }
}

impl Asked {
    fn of(query: &str) -> Result<Self, String> {
        let (mut packets, mut seconds, mut subject) = (FEW, SHORT, None);
        for (name, value) in pairs(query)? {
            match name.as_str() {
                "packets" => {
                    let number = value.parse().ok().filter(|packets| (1..=PACKETS).contains(packets));
                    packets = number.ok_or_else(|| format!("packets \"{value}\": allowed: 1 to {PACKETS}"))?;
                }
                "seconds" => {
                    let time = crate::cli::seconds(&value).ok().filter(|time| *time <= f64::from(SECONDS));
                    seconds = time.ok_or_else(|| format!("seconds \"{value}\": allowed: 0.01 to {SECONDS}"))?;
                }
                name => {
                    let known = ["ue"].into_iter().chain(connected::SELECTORS.iter().map(|key| key.name));
                    let all: Vec<&str> = known.collect();
                    let found = all.iter().find(|known| **known == name).copied().ok_or_else(|| {
                        format!("unknown parameter \"{name}\"; allowed: {}, packets, seconds", all.join(", "))
                    })?;
                    if let Some((other, _)) = subject.replace((found, value)) {
                        return Err(format!("{other} and {found} exclude each other: one subscriber at a time"));
                    }
                }
            }
        }
        let subject = subject.ok_or("no subscriber is given; such as ue=10.60.0.1 or imsi=001010000000001")?;
        Ok(Self { subject, packets, time: Duration::from_secs_f64(seconds) })
    }

    /// An address of the subscriber.
    fn address(&self, gateway: &dyn Answers) -> Result<IpAddr, String> {
        let (name, value) = &self.subject;
        if *name == "ue" {
            return value.parse().map_err(|_| format!("ue \"{value}\": this is no IP address"));
        }
        let request = connected::request(&Keys(vec![(name, value.clone())]), None)?;
        let mut by = |request: Request| ask(gateway, CONNECTION, &request).map_err(anyhow::Error::msg);
        let (first, _) = connected::find_by(&mut by, &request).map_err(|error| error.to_string())?;
        Ok(request.filter.address.unwrap_or(first))
    }
}

/// Ends the trace, however it came to its end.
struct Followed<'a>(&'a dyn Answers);

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        self.0.hung_up(CONNECTION);
    }
}

fn follow(gateway: &dyn Answers, asked: &Asked) -> Result<Vec<Walk>, String> {
    let other = || "unexpected reply of the gateway".to_owned();
    let ue = asked.address(gateway)?;
    let trace = Request::Trace { ue, packets: asked.packets };
    // Before it begins: a request that fails half way may have begun one.
    let _ends = Followed(gateway);
    let Reply::Trace(TraceView { rules, .. }) = ask(gateway, CONNECTION, &trace)? else { return Err(other()) };
    let (until, mut seen, mut walks) = (Instant::now() + asked.time, Walks::default(), Vec::new());
    let mut go_on = true;
    while go_on {
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        go_on = Instant::now() < until;
        let Reply::Trace(TraceView { left, lines, .. }) = ask(gateway, CONNECTION, &Request::Traced)? else {
            return Err(other());
        };
        // Packets are counted before they walk: with none left, one more look has everything.
        go_on &= left > 0 || !lines.is_empty();
        walks.extend(seen.add(lines, !go_on));
    }
    // Each worker counts its packets alone.
    walks.truncate(asked.packets as usize);
    walks.iter_mut().flatten().for_each(|line: &mut TraceLine| name_rules(line, &rules));
    Ok(walks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_bounded() {
        let wrong = |query: &str| Asked::of(query).err().unwrap_or_else(|| panic!("{query}"));
        assert!(wrong("ue=10.0.0.1&packets=65").contains("1 to 64"));
        assert!(wrong("ue=10.0.0.1&packets=0").contains("1 to 64"));
        assert!(wrong("ue=10.0.0.1&seconds=11").contains("to 10"));
        assert!(wrong("packets=1").contains("no subscriber"));
        assert!(wrong("ue=10.0.0.1&imsi=1").contains("exclude each other"));
        assert!(wrong("x=1").contains("unknown parameter"));
        let asked = Asked::of("imsi=001010000000001&packets=64&seconds=10").unwrap();
        assert_eq!((asked.subject.0, asked.packets, asked.time), ("imsi", 64, Duration::from_secs(10)));
    }
}
