//! What `weir show process` tells: the gateway's process and its helper.

use confine::status::Process;
use confine::{Capabilities, Landlock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LANDLOCK, helper};

/// The gateway's process.
const GATEWAY: &str = "gateway";
/// The process that opens its ports.
pub(super) const HELPER: &str = "helper";

/// A gateway's processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessesView {
    /// The gateway first, then its helper if it has one.
    pub processes: Vec<ProcessView>,
    /// Why there is no word of the helper.
    pub helper_error: Option<String>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessView {
    /// `gateway` or `helper`.
    pub role: String,
    /// How far Landlock limits its files: `enforced`, `partly enforced`, `not supported` or `off`.
    pub landlock: String,
    /// The version of Landlock's interface that the kernel offers, where it was asked.
    pub landlock_abi: Option<i32>,
    /// Effective capabilities of any of its threads, as setcap writes them.
    pub capabilities: String,
    /// What /proc tells.
    #[serde(flatten)]
    pub process: Process,
}

impl ProcessView {
    pub(super) fn of(role: &str, process: Process, landlock: Option<Landlock>) -> Self {
        let all = process.threads.iter().fold(0, |all, thread| all | thread.effective);
        Self {
            role: role.to_owned(),
            landlock: landlock.map_or("off", |landlock| landlock.enforced.as_str()).to_owned(),
            landlock_abi: landlock.and_then(|landlock| landlock.abi),
            capabilities: Capabilities::from_bits(all).to_string(),
            process,
        }
    }
}

/// This process and its helper.
///
/// # Errors
/// What reading /proc said.
pub fn answer() -> Result<ProcessesView, String> {
    let process = Process::this().map_err(|error| format!("/proc/self is not readable: {error}"))?;
    let mut processes = vec![ProcessView::of(GATEWAY, process, LANDLOCK.get().copied())];
    let mut helper_error = None;
    match helper::report() {
        Some(Ok(view)) => processes.push(view),
        Some(Err(error)) => helper_error = Some(error),
        None => {}
    }
    Ok(ProcessesView { processes, helper_error })
}
