//! `/api/v1/top`: rates and costs of the last interval. Samples are taken on request, at most one a second; all clients
//! share them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::tables::ask;
use crate::socket::{Answers, Reply, Request};
use crate::top::{Model, Sample};

/// Between two samples, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// Between the first two, so that the first answer has rates.
const FIRST: Duration = Duration::from_millis(500);
/// A sample of so long ago is none to compute rates from: whoever asks now wants them as they are now.
const STALE: Duration = Duration::from_secs(15);

/// Connection number of questions for samples.
const CONNECTION: u64 = 0;

/// The samples of late.
#[derive(Default)]
pub struct Live(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    model: Model,
    taken: Option<Instant>,
}

impl Live {
    /// The view of the last interval as JSON.
    ///
    /// # Errors
    /// The gateway does not answer; a sentence.
    pub fn view(&self, gateway: &dyn Answers) -> Result<String, String> {
        let mut recent = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let age = recent.taken.map(|taken| taken.elapsed());
        if age.is_none_or(|age| age > STALE) {
            *recent = Recent::default();
            recent.model.take(sample(gateway)?);
            std::thread::sleep(FIRST);
        }
        if age.is_none_or(|age| age >= INTERVAL) {
            recent.model.take(sample(gateway)?);
            recent.taken = Some(Instant::now());
        }
        serde_json::to_string(&recent.model.view()).map_err(|error| error.to_string())
    }
}

fn sample(gateway: &dyn Answers) -> Result<Sample, String> {
    let (Reply::Ports(ports), Reply::Counters(snapshot)) =
        (ask(gateway, CONNECTION, &Request::Ports)?, ask(gateway, CONNECTION, &Request::Counters)?)
    else {
        return Err("unexpected reply of the gateway".to_owned());
    };
    Ok(Sample { snapshot, ports })
}
