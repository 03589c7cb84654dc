//! Other weirs, started in a namespace, none of which outlives this one.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// A process, ended when dropped.
pub struct Process {
    name: &'static str,
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts `weir` with these words. Its error stream goes to a file, its standard output comes by
    /// [`output`](Self::output).
    ///
    /// # Errors
    /// What the system said.
    pub fn start(name: &'static str, netns: &str, words: &[String], said: PathBuf) -> anyhow::Result<Self> {
        let weir = std::env::current_exe().context("where is weir?")?;
        // They share two CPUs: what a control plane has to write must not keep packets waiting.
        let behind = if name == "cp" { &["nice", "-n", "10"][..] } else { &[] };
        let words_before = ["ip", "netns", "exec", netns].into_iter().chain(behind.iter().copied());
        let all = words_before.map(Into::into).chain([weir.into_os_string()]);
        let all: Vec<std::ffi::OsString> = all.chain(words.iter().map(Into::into)).collect();
        // Should this process be killed, the others go with it.
        let guard = ["setpriv", "--pdeathsig", "KILL"];
        let guarded = Path::new("/usr/bin/setpriv").exists();
        let mut line = guard.into_iter().filter(|_| guarded).map(Into::into).chain(all);
        let mut command = Command::new(line.next().unwrap_or_default());
        let errors = File::create(&said).with_context(|| format!("{} cannot be written", said.display()))?;
        // Ctrl-C is for this process; it tells the others in order.
        command.args(line).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let child = command.spawn().context("no process")?;
        Ok(Self { name, child, said })
    }

    /// Its standard output, once.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// What it has said on its error stream.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What went wrong with it: its last words.
    pub fn complaint(&self) -> anyhow::Error {
        let said = self.said();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        anyhow::anyhow!("weir {} has ended: {}", self.name, lines[lines.len().saturating_sub(4)..].join(" "))
    }

    /// Its process ID, all programs before it having become it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::INT);
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It does not, or not well.
    pub fn end(mut self, patience: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() > until {
                bail!("weir {} does not end", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err(self.complaint()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        // Interfaces go back as they were if it may end by itself.
        self.interrupt();
        let until = Instant::now() + Duration::from_secs(2);
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
