//! A group moves to another process of this machine: `weir move group NAME --to-process SOCKET`.
//!
//! ```text
//! the process that has the group                                  the one that gets it
//!     ├─ {"ask":"group_comes", …} ──────────────────────────────────►│ at its control socket
//!     ├─ what numbers mean, leases, sessions, RADIUS ───────────────►│ installs copies, writes leases to its ledger
//!     │   sessions stand still, packets are forwarded                │ packets that come there wait
//!     │ ◄──────────────────────────────────────────────── ready ─────┤ all is on its disk
//!     ■ packets wait here, too
//!     ├─ counters, policers, packets that waited ───────────────────►│
//!     │ ◄─────────────────────────────────────────────── loaded ─────┤
//!     ◆ the owner's file says the other process: the group is there
//!     ├─ go ────────────────────────────────────────────────────────►│ announces the group's hardware address
//!     │   what waited, and what still comes, is passed on            │ forwards it, once it has what it counted here
//!     │ ◄─────────────────────────────────────────────── armed ──────┤
//!     ├─ ports are empty: a mark, behind what was passed on ────────►■ packets that came there go on
//!     │ ◄────────────────────────────────────────────── running ─────┤
//!     ├ leases and sessions are forgotten here
//! ```
//! The file is the only thing that decides. Until it is replaced, whatever ends leaves the group where it was: the old process
//! has all of it, and the new one forgets what it got, at once or after its next start. Afterwards the group is the new
//! process's, which has all leases on its disk. A process that does not hear of it any more reads the file.

#![allow(clippy::vec_box, reason = "parcels go on in the boxes they came in")]

mod arrival; // a group comes from another process
mod departure; // a group goes to another process
mod meanings; // what two processes must have alike

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::moves::Outcome;
use gateway::moves::owners::Owners;
use gateway::moves::passage::Passage;
use gateway::shell::hand_over::may_be_answered;
use gateway::socket::RawRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::observer::Observer;
use crate::config::Config;
use crate::control::Control;
use crate::moving::Parcel;

/// The version of what the two processes say to each other.
const VERSION: u32 = 1;
/// Questions of another process, and the answer of one that waits for what follows.
const COMES: &str = "group_comes";
const PACKETS: &str = "group_packets";

/// How long the other process may take for copies and leases, and for what is left.
const BUILDING: Duration = Duration::from_secs(60);
const LOADING: Duration = Duration::from_secs(10);
/// How often something is looked at.
const LOOK: Duration = Duration::from_micros(200);
/// Frame buffers for packets that waited in queues.
const BUFFERS: usize = 64;

/// What is asked first.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    ask: String,
    version: u32,
    layout: u64,
    group: String,
    /// The process that asks.
    from: String,
}

fn say(mut stream: &UnixStream, value: &Value) -> io::Result<()> {
    stream.write_all(format!("{value}\n").as_bytes())
}

fn lost(doing: &'static str) -> impl Fn(io::Error) -> String {
    move |error| format!("the other process has ended, or does not answer, while {doing}: {error}")
}

/// While it is there, no other group moves, and nothing is reloaded or taken over.
struct Reserved<'a>(&'a Observer);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.control().release();
    }
}

impl Observer {
    /// Groups move between this process and others from now on, if they are to.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn begin_crossings(this: &Arc<Self>, config: &Config) -> io::Result<()> {
        let Some(section) = &config.moves else { return Ok(()) };
        let mut control = this.control();
        let (Some(outside), Some(sorting)) = (control.take_outside(), control.sorting()) else { return Ok(()) };
        let observer = Arc::downgrade(this);
        let told = move || {
            if let Some(observer) = observer.upgrade() {
                observer.shell.call_control();
            }
        };
        let passage = Passage::start(outside, this.shell.arena().clone(), sorting, told)?;
        control.set_passage(Arc::new(passage), Owners::new(section, &config.control_socket));
        Ok(())
    }

    /// Serves another process that asks on a connection of its own.
    pub(super) fn serve_crossing(&self, asked: &RawRequest, stream: UnixStream) {
        let said = match asked.name.as_str() {
            PACKETS => self.packets_come(asked, &stream),
            _ => return self.group_comes(asked, stream),
        };
        match said {
            Ok((passage, group)) => {
                if say(&stream, &json!({ PACKETS: {} })).is_ok() {
                    passage.receive(group, stream);
                }
            }
            Err(why) => drop(say(&stream, &json!({ "error": why }))),
        }
    }

    fn packets_come(&self, asked: &RawRequest, stream: &UnixStream) -> Result<(Arc<Passage>, u16), String> {
        #[derive(Deserialize)]
        struct Of {
            group: String,
        }
        may_be_answered(stream)?;
        let of: Of = asked.read()?;
        let control = self.control();
        let group = control.group_named(&of.group).map_err(|refusal| refusal.to_string())?;
        let (passage, _) = control.crossings().ok_or("[moves] is not configured there")?;
        Ok((passage, group))
    }

    /// Hands parcels to the worker; together they count for so many subscribers.
    fn fill(
        &self,
        way: &mut table::ring::Producer<Box<Parcel>>,
        mut parcels: Vec<Box<Parcel>>,
        subscribers: usize,
    ) -> Result<(), String> {
        if parcels.is_empty() {
            parcels.push(Box::default());
        }
        parcels.iter_mut().for_each(|parcel| parcel.set_count(0));
        if let Some(last) = parcels.last_mut() {
            last.set_count(subscribers);
        }
        let until = Instant::now() + LOADING;
        for mut parcel in parcels {
            while let Err(back) = way.push(parcel) {
                parcel = back;
                if Instant::now() > until {
                    return Err("a worker takes nothing".to_owned());
                }
                self.control().wake_workers();
                std::thread::sleep(LOOK);
            }
        }
        self.control().wake_workers();
        Ok(())
    }

    /// How the move has ended, when it has.
    fn crossed(&self) -> Result<Outcome, String> {
        self.awaited_for(LOADING, Control::take_crossed)
    }
}
