//! What /proc tells of a process: its threads with their capabilities and filters, its open files, its memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Its number in its own namespace of processes.
    pub pid: u32,
    /// Effective user ID of the process.
    pub uid: u32,
    /// Effective group ID of the process.
    pub gid: u32,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Locked and pinned memory in bytes.
    pub locked_bytes: u64,
    /// Open descriptors by kind: `file`, `socket`, `bpf-map`, …
    pub descriptors: BTreeMap<String, u32>,
    /// Its threads, in the order of their numbers.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread ID, as `ps -L` shows it.
    pub tid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// The CPU it last ran on.
    pub cpu: u32,
    /// CPUs it may run on, as a list such as `0-3,8`.
    pub allowed_cpus: String,
    /// Effective capabilities, a bit each by number (CapEff).
    pub effective: u64,
    /// Permitted capabilities, a bit each (CapPrm).
    pub permitted: u64,
    /// Inheritable capabilities, a bit each (CapInh).
    pub inheritable: u64,
    /// Ambient capabilities, a bit each (CapAmb).
    pub ambient: u64,
    /// Whether an exec can gain no privileges.
    pub no_new_privs: bool,
    /// 0: any system call; 2: a filter decides.
    pub seccomp: u32,
}

impl Thread {
    /// Whether it has, or can get back, any capability.
    pub fn has_capabilities(&self) -> bool {
        self.effective | self.permitted | self.inheritable | self.ambient != 0
    }
}

impl Process {
    /// The calling process.
    ///
    /// # Errors
    /// What reading /proc said.
    pub fn this() -> io::Result<Self> {
        Self::at(Path::new("/proc/self"))
    }

    /// The process of that number. Its descriptors are told only to those who may trace it.
    ///
    /// # Errors
    /// What reading /proc said.
    pub fn of(pid: u32) -> io::Result<Self> {
        Self::at(&PathBuf::from(format!("/proc/{pid}")))
    }

    fn at(folder: &Path) -> io::Result<Self> {
        let status = fs::read_to_string(folder.join("status"))?;
        let kib = |key| field(&status, key).and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        let second = |key| field(&status, key).and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
        let mut threads = Vec::new();
        for entry in fs::read_dir(folder.join("task"))? {
            // One that ends meanwhile is not there any more.
            threads.extend(thread(&entry?.path()));
        }
        threads.sort_by_key(|thread| thread.tid);
        Ok(Self {
            pid: field(&status, "Pid").and_then(|text| text.parse().ok()).unwrap_or(0),
            uid: second("Uid").unwrap_or(0),
            gid: second("Gid").unwrap_or(0),
            resident_bytes: kib("VmRSS").unwrap_or(0) * 1024,
            locked_bytes: (kib("VmLck").unwrap_or(0) + kib("VmPin").unwrap_or(0)) * 1024,
            descriptors: descriptors(&folder.join("fd")),
            threads,
        })
    }
}

fn thread(folder: &Path) -> Option<Thread> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    let hex = |key| field(&status, key).and_then(|text| u64::from_str_radix(text, 16).ok());
    let number = |key| field(&status, key).and_then(|text| text.parse::<u32>().ok());
    Some(Thread {
        tid: number("Pid")?,
        name: field(&status, "Name").unwrap_or_default().to_owned(),
        cpu: last_cpu(&stat).unwrap_or(0),
        allowed_cpus: field(&status, "Cpus_allowed_list").unwrap_or_default().to_owned(),
        // Kernels that tell no capabilities are taken to leave all of them.
        effective: hex("CapEff").unwrap_or(u64::MAX),
        permitted: hex("CapPrm").unwrap_or(u64::MAX),
        inheritable: hex("CapInh").unwrap_or(u64::MAX),
        ambient: hex("CapAmb").unwrap_or(0),
        no_new_privs: number("NoNewPrivs") == Some(1),
        seccomp: number("Seccomp").unwrap_or(0),
    })
}

/// The value of `Key:` in a file like /proc/PID/status.
fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// Field 39 of /proc/PID/stat; the name, field 2, may hold spaces and brackets.
fn last_cpu(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

fn descriptors(folder: &Path) -> BTreeMap<String, u32> {
    let mut kinds = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        *kinds.entry(kind(&target.to_string_lossy())).or_default() += 1;
    }
    kinds
}

fn kind(target: &str) -> String {
    match target.split_once(':') {
        Some(("anon_inode", what)) => what.trim_start_matches('[').trim_end_matches(']').to_owned(),
        Some((what, inode)) if inode.starts_with('[') => what.to_owned(),
        _ if target.starts_with("/dev/") => "device".to_owned(),
        _ => "file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described() {
        let named = std::thread::Builder::new().name("confine test)".into());
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let begin = move || ready.send(()).is_ok().then(|| wait.recv());
        let other = named.spawn(begin).unwrap();
        // A thread gives itself its name before it does anything else.
        is_ready.recv().unwrap();
        let process = Process::this().unwrap();
        assert_eq!(process.pid, std::process::id());
        assert!(process.resident_bytes > 0 && process.descriptors.values().sum::<u32>() >= 3, "{process:?}");
        let thread = process.threads.iter().find(|thread| thread.name == "confine test)").unwrap();
        assert_eq!((thread.seccomp, thread.ambient), (0, 0));
        assert!(!thread.allowed_cpus.is_empty());
        drop(go);
        assert!(other.join().unwrap().is_some_and(|got| got.is_err()));
    }

    #[test]
    fn descriptors_have_kinds() {
        let kinds = ["socket:[12]", "anon_inode:bpf-map", "anon_inode:[eventfd]", "net:[402]", "/dev/net/tun", "/a:b"];
        assert_eq!(kinds.map(kind), ["socket", "bpf-map", "eventfd", "net", "device", "file"]);
    }

    #[test]
    fn the_cpu_is_read_behind_any_name() {
        let stat = format!("7 (a) b) S {}", (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(last_cpu(&stat), Some(39));
    }
}
