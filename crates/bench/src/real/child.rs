//! A process under measurement: started in a namespace on one CPU, stopped while others are measured, ended with its parent.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::cpu::family;
use super::place::Place;
use crate::error::BenchError;

/// Time to end after SIGINT before SIGKILL.
const TO_END: Duration = Duration::from_secs(10);

/// A process and its children. Dropped, they are ended.
pub struct Child {
    name: String,
    process: Process,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: PathBuf,
    /// Process numbers of it and its descendants, noted by `settle`.
    pids: Vec<u32>,
}

impl Child {
    /// Starts `words` in a namespace on the gateway's CPU. What it writes to its error stream goes to a file in `folder`.
    ///
    /// # Errors
    /// What the system said.
    pub fn start(
        name: &str,
        netns: &str,
        words: &[OsString],
        place: &Place,
        folder: &Path,
    ) -> Result<Self, BenchError> {
        let cpu = place.gateway.to_string();
        let mut line: Vec<OsString> = Vec::new();
        if Path::new("/usr/bin/setpriv").exists() {
            // Should this process be killed, the child goes with it.
            line.extend(["setpriv", "--pdeathsig", "KILL"].map(Into::into));
        }
        if place.fifo {
            line.extend(["chrt", "-f", Place::GATEWAY_PRIORITY].map(Into::into));
        }
        line.extend(["taskset", "-c", &cpu, "ip", "netns", "exec", netns].map(Into::into));
        line.extend(words.iter().cloned());
        let stderr = folder.join(format!("{name}.err"));
        let errors =
            File::create(&stderr).map_err(|e| BenchError::system(format!("writing {}", stderr.display()), e))?;
        let mut command = Command::new(&line[0]);
        // Ctrl-C is for the parent, which ends the children in order.
        command.args(&line[1..]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut process = command.spawn().map_err(|e| BenchError::system(format!("starting {name}"), e))?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().map(BufReader::new).ok_or(BenchError::Died("child without output"))?;
        Ok(Self { name: name.to_owned(), process, stdin, stdout, stderr, pids: Vec::new() })
    }

    /// Waits until its error stream contains `text`.
    ///
    /// # Errors
    /// It has ended, or takes more than `most`.
    pub fn wait_for(&mut self, text: &str, most: Duration) -> Result<(), BenchError> {
        let until = Instant::now() + most;
        while !self.said().contains(text) {
            if self.has_ended() || Instant::now() > until {
                return Err(self.complaint("is not ready"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Notes its descendants, which are stopped and measured with it from now on.
    pub fn settle(&mut self) {
        self.pids = family(self.process.id());
    }

    /// Process numbers noted by [`settle`](Self::settle).
    pub(crate) fn pids(&self) -> &[u32] {
        &self.pids
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// The text of its error stream so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// An error about it with the last lines of its error stream.
    pub fn complaint(&self, what: &str) -> BenchError {
        let said = self.said();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(4)..].join("; ");
        BenchError::Lab { command: self.name.clone(), said: format!("{what}: {last}") }
    }

    /// Writes a line to its input and reads one of its output.
    pub fn ask(&mut self, line: &str) -> Option<String> {
        let stdin = self.stdin.as_mut()?;
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).and_then(|()| stdin.flush()).ok()?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).ok().filter(|n| *n > 0)?;
        Some(answer)
    }

    /// Sends SIGSTOP (true) or SIGCONT (false) to it and its descendants.
    pub fn hold(&self, held: bool) {
        self.signal(if held { "STOP" } else { "CONT" }, &self.pids);
    }

    fn signal(&self, name: &str, pids: &[u32]) {
        if pids.is_empty() {
            return;
        }
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        // A process that has ended meanwhile is no error.
        let _ =
            Command::new("sh").args(["-c", &format!("kill -{name} {}", pids.join(" "))]).stderr(Stdio::null()).status();
    }

    fn interrupt(&mut self) {
        self.hold(false);
        self.signal("INT", &[self.process.id()]);
        let until = Instant::now() + TO_END;
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.interrupt();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
