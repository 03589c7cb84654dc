//! Files in, files out: `pcap:in.pcap?out=out.pcap&loop=3`.
//!
//! The input is read whole when the port opens and replayed as fast as it is asked for, `loop` times (or `forever`).
//! Without `in` nothing comes (`pcap:?out=out.pcap`); without `out` what is sent is counted and gone.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use frame::{Batch, Caps, Pool, Port, PortCounters};

use crate::capture::{self, Direction, Format};
use crate::{PortError, Uri};

/// Written bytes are kept back until there are so many, or the port is serviced.
const CHUNK: usize = 64 << 10;

/// A port on capture files.
pub struct Pcap {
    name: String,
    file: Vec<u8>,
    packets: Vec<(u64, usize, usize)>,
    next: usize,
    /// Rounds to go after this; none: for ever.
    rounds: Option<u64>,
    out: Option<Out>,
    counters: PortCounters,
}

struct Out {
    file: File,
    format: Format,
    pending: Vec<u8>,
    waiting: u64,
}

impl Pcap {
    /// Reads the input and creates the output.
    ///
    /// # Errors
    /// [`PortError::File`] and [`PortError::BadFile`], naming the file.
    pub fn open(uri: &Uri) -> Result<Self, PortError> {
        uri.only(&["out", "loop"])?;
        let rounds = match uri.get("loop") {
            Some("forever") => None,
            _ => Some(uri.number("loop", 1u64, "a number of rounds, or forever")?.saturating_sub(1)),
        };
        let mut counters = PortCounters::default();
        let (mut file, mut packets) = (Vec::new(), Vec::new());
        if !uri.target().is_empty() && uri.get("loop") != Some("0") {
            let path = PathBuf::from(uri.target());
            file = std::fs::read(&path).map_err(|source| PortError::File { path: path.clone(), source })?;
            let index = capture::index(&file).map_err(|what| PortError::BadFile { path, what: what.to_owned() })?;
            packets = index.packets;
            counters.rx_invalid = index.cut;
        }
        let out = uri.get("out").map(|path| Out::create(Path::new(path))).transpose()?;
        Ok(Self { name: uri.target().to_owned(), file, packets, next: 0, rounds, out, counters })
    }

    /// The next packet's place in the file.
    fn upcoming(&mut self) -> Option<(usize, usize)> {
        if self.next == self.packets.len() && !self.packets.is_empty() {
            match &mut self.rounds {
                None => {}
                Some(0) => return None,
                Some(rounds) => *rounds -= 1,
            }
            self.next = 0;
        }
        self.packets.get(self.next).map(|(_, at, len)| (*at, *len))
    }
}

impl Out {
    fn create(path: &Path) -> Result<Self, PortError> {
        let file = File::create(path).map_err(|source| PortError::File { path: path.to_owned(), source })?;
        let format = Format::of(path);
        let mut pending = Vec::with_capacity(2 * CHUNK);
        format.head(&mut pending);
        Ok(Self { file, format, pending, waiting: 0 })
    }

    /// Writes what was kept back. Packets that could not be written are told.
    fn flush(&mut self) -> u64 {
        let result = self.file.write_all(&self.pending);
        self.pending.clear();
        let waiting = std::mem::take(&mut self.waiting);
        if result.is_ok() { 0 } else { waiting }
    }
}

impl Port for Pcap {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        while out.room() > 0 {
            let Some((at, len)) = self.upcoming() else { break };
            if len > pool.arena().room() {
                self.counters.rx_too_long += 1;
                self.next += 1;
                continue;
            }
            // Without a free slot the packet waits in the file.
            let Some(frame) = pool.make(&self.file[at..at + len]) else { break };
            self.next += 1;
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
            if let Err(frame) = out.push(frame) {
                pool.give(frame);
            }
        }
        out.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let n = batch.len();
        let time = self.out.as_ref().map_or(0, |_| capture::now());
        batch.drain(|frame| {
            let bytes = pool.arena().bytes(&frame);
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += bytes.len() as u64;
            if let Some(out) = &mut self.out {
                out.format.packet(&mut out.pending, time, Direction::Out, bytes);
                out.waiting += 1;
            }
            pool.give(frame);
        });
        if let Some(out) = &mut self.out
            && out.pending.len() >= CHUNK
        {
            self.counters.tx_lost += out.flush();
        }
        n
    }

    fn service(&mut self, _pool: &mut Pool) {
        if let Some(out) = &mut self.out
            && !out.pending.is_empty()
        {
            self.counters.tx_lost += out.flush();
        }
    }

    fn caps(&self) -> Caps {
        let detail = format!("{} packets", self.packets.len());
        Caps { kind: "pcap", name: self.name.clone(), detail, mtu: 1500, ..Caps::default() }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn close(&mut self, pool: &mut Pool) {
        self.service(pool);
        self.packets.clear();
        self.next = 0;
    }
}

impl Drop for Pcap {
    fn drop(&mut self) {
        if let Some(out) = &mut self.out {
            out.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frame::{Arena, ArenaConfig};

    #[test]
    fn what_one_writes_another_reads() {
        let dir = std::env::temp_dir().join(format!("weir-pcap-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a?b.pcap");
        let arena = Arena::new(ArenaConfig { slots: 256, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 256);
        let packets: Vec<Vec<u8>> = (0..50).map(|n| vec![n; 60 + usize::from(n)]).collect();

        let mut writer = Pcap::open(&Uri::new("pcap", "").with("out", path.display())).unwrap();
        let mut batch = Batch::new();
        assert_eq!(writer.rx_burst(&mut pool, &mut batch), 0);
        for packet in &packets {
            batch.push(pool.make(packet).unwrap()).unwrap();
        }
        assert_eq!(writer.tx_burst(&mut pool, &mut batch), 50);
        drop(writer);

        let uri: Uri = Uri::new("pcap", path.to_str().unwrap()).with("loop", 2).to_string().parse().unwrap();
        let mut reader = Pcap::open(&uri).unwrap();
        let mut got = Vec::new();
        while reader.rx_burst(&mut pool, &mut batch) > 0 {
            got.extend(batch.frames().iter().map(|frame| arena.bytes(frame).to_vec()));
            pool.give_all(&mut batch);
        }
        assert_eq!(got, [&packets[..], &packets[..]].concat());
        assert_eq!(reader.counters().rx_packets, 100);
        assert_eq!(pool.free() + arena.in_depot(), 256);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn errors_name_the_file() {
        let error = |uri: Uri| Pcap::open(&uri).map(|_| ()).unwrap_err().to_string();
        assert!(error(Uri::new("pcap", "/nowhere/in.pcap")).starts_with("/nowhere/in.pcap: "));
        assert!(error(Uri::new("pcap", "").with("out", "/nowhere/out.pcap")).starts_with("/nowhere/out.pcap: "));
        assert!(error(Uri::new("pcap", "").with("loop", "often")).contains("or forever"));
        assert!(error(Uri::new("pcap", "").with("lop", 3)).contains("known are: out, loop"));
    }
}
