//! The tables that every gateway has.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{CONFIG, Look, Table, View, drops, frames, napi, ports, process, run};
use crate::cli::ShowArgs;
use crate::host_routing::{self, RoutesView};
use crate::outputs;
use crate::privilege::ProcessesView;
use crate::snapshot::Snapshot;
use crate::socket::{PortView, Request};

/// All of them.
pub const VIEWS: &[View] = &[
    View::of::<Run>(),
    View::of::<Drops>(),
    View::of::<Frames>(),
    View::of::<Ports>(),
    View::of::<Routes>(),
    View::of::<Processes>(),
    View::of::<Config>(),
];

/// What was counted since the earlier look, when there was one.
fn counted(look: &Look<'_, Snapshot>) -> Snapshot {
    look.earlier.as_ref().map_or_else(|| look.now.clone(), |before| look.now.since(before))
}

struct Run;

impl Table for Run {
    type Seen = Snapshot;
    const TOPIC: &'static str = "run";
    const HELP: &'static str =
        "Calls, packets, packets per call, cycles and ns per packet of every stage; where the workers' time goes";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Counters)
    }

    fn text(look: &Look<'_, Snapshot>) -> String {
        run::text(&counted(look), look.earlier.is_none(), look.args.all, look.style)
    }

    fn json(look: &Look<'_, Snapshot>) -> serde_json::Result<String> {
        serde_json::to_string(&counted(look))
    }
}

struct Config;

impl Table for Config {
    type Seen = serde_json::Value;
    const TOPIC: &'static str = CONFIG;
    const HELP: &'static str =
        "The configuration in use, with defaults: the file as applied, and keys that wait for a restart as they run";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Config)
    }

    fn text(look: &Look<'_, serde_json::Value>) -> String {
        // What came from TOML can be written as such.
        toml::to_string_pretty(&look.now).unwrap_or_else(|_| format!("{:#}\n", look.now))
    }
}

struct Drops;

impl Table for Drops {
    type Seen = Snapshot;
    const TOPIC: &'static str = "drops";
    const HELP: &'static str = "Every packet that did not come out: where, why, how many";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Counters)
    }

    fn text(look: &Look<'_, Snapshot>) -> String {
        drops::page(&counted(look), &look.now, look.earlier.is_none(), look.style)
    }

    fn json(look: &Look<'_, Snapshot>) -> serde_json::Result<String> {
        serde_json::to_string(&drops::rows(&counted(look), &look.now))
    }

    fn schema() -> Value {
        outputs::schema_of::<Vec<drops::DropRow>>()
    }
}

struct Frames;

impl Table for Frames {
    type Seen = Snapshot;
    const TOPIC: &'static str = "frames";
    const HELP: &'static str = "Where every packet buffer is";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Counters)
    }

    fn text(look: &Look<'_, Snapshot>) -> String {
        frames::text(&look.now, look.style)
    }

    fn json(look: &Look<'_, Snapshot>) -> serde_json::Result<String> {
        serde_json::to_string(&frames::accounts(&look.now))
    }

    fn schema() -> Value {
        outputs::schema_of::<frames::Accounts>()
    }
}

struct Ports;

impl Table for Ports {
    type Seen = Vec<PortView>;
    const TOPIC: &'static str = "ports";
    const HELP: &'static str = "Interfaces: kind, link, addresses, counters";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Ports)
    }

    fn text(look: &Look<'_, Vec<PortView>>) -> String {
        ports::text(&look.now, look.earlier.as_deref(), look.args.all, look.style)
            + &napi::text(&look.now, Path::new("/proc"))
    }
}

struct Routes;

impl Table for Routes {
    type Seen = RoutesView;
    const TOPIC: &'static str = "routes";
    const HELP: &'static str = "Routes in use and where they are from; prefixes announced to routing daemons";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Routes)
    }

    fn text(look: &Look<'_, RoutesView>) -> String {
        host_routing::text(&look.now, look.style)
    }
}

struct Processes;

impl Table for Processes {
    type Seen = ProcessesView;
    const TOPIC: &'static str = "process";
    const HELP: &'static str = "Processes and threads: what each may do, its CPU, memory, open descriptors";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Process)
    }

    fn text(look: &Look<'_, ProcessesView>) -> String {
        process::text(&look.now, look.style)
    }
}
