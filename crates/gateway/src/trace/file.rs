//! `weir trace --pcap`: whole packets in a pcapng file, each on the interface of the port it came in or left by.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use port::capture::{self, Direction};

use crate::socket::TraceLine;

/// The interface of packets that left by no port: dropped, or held.
const INSIDE: &str = "inside";

/// The file, and the interfaces that are in it so far.
pub struct PacketFile {
    file: BufWriter<File>,
    interfaces: Vec<String>,
}

impl PacketFile {
    /// Makes the file anew.
    ///
    /// # Errors
    /// It is not writable.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        let mut head = Vec::new();
        capture::section(&mut head);
        let mut file = BufWriter::new(file);
        file.write_all(&head)?;
        Ok(Self { file, interfaces: Vec::new() })
    }

    /// The packet as received, and as it left or last was.
    ///
    /// # Errors
    /// The file is not writable any more.
    pub fn save(&mut self, walk: &[TraceLine]) -> anyhow::Result<()> {
        let (Some(first), Some(last)) = (walk.first(), walk.last()) else { return Ok(()) };
        let mut out = Vec::new();
        let came = (first.stage == "rx").then_some(Direction::In);
        let comment = format!("worker {}, as received: {}", first.worker, first.detail);
        self.packet(&mut out, first, came, &comment);
        if walk.len() > 1 {
            // The port is known to stages before the last, too.
            let port = walk[1..].iter().rev().find_map(|line| line.port.clone()).filter(|_| last.verdict == "keep");
            let left = port.is_some().then_some(Direction::Out);
            let line = TraceLine { port, ..last.clone() };
            let comment = format!("worker {}, {} {}: {}", last.worker, last.verdict, last.stage, last.detail);
            self.packet(&mut out, &line, left, &comment);
        }
        Ok(self.file.write_all(&out)?)
    }

    fn packet(&mut self, out: &mut Vec<u8>, line: &TraceLine, direction: Option<Direction>, comment: &str) {
        let name = line.port.as_deref().unwrap_or(INSIDE);
        let known = self.interfaces.iter().position(|interface| interface == name);
        let number = known.unwrap_or_else(|| {
            capture::interface(out, name);
            self.interfaces.push(name.to_owned());
            self.interfaces.len() - 1
        });
        // Ports are a few.
        capture::commented(out, (number as u32, direction), line.unix_ns, &line.raw(), comment);
    }

    /// Everything is in the file.
    ///
    /// # Errors
    /// It is not.
    pub fn end(mut self) -> anyhow::Result<()> {
        Ok(self.file.flush()?)
    }
}
