//! A process that has confined itself is refused what it gave up, and does what it kept. Each test runs itself again as
//! a child, because a confined process stays so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use confine::status::Process;
use confine::{Calls, Capabilities, Enforced, Files, Landlock, Mode};
use rustix::net::{AddressFamily, SocketType};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

const CHILD: &str = "WEIR_CONFINED_CHILD";

/// Runs `inside` in a child process of its own.
fn child(test: &str, inside: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return inside();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let out = command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1").output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-confine-{}-{test}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The tests' harness has threads already: the child's own thread, and those it makes, are what is confined.
fn this_thread() -> confine::status::Thread {
    let tid = rustix::thread::gettid().as_raw_pid().unsigned_abs();
    Process::this().unwrap().threads.into_iter().find(|thread| thread.tid == tid).unwrap()
}

#[test]
fn dropped_capabilities_are_gone_in_new_threads() {
    child("dropped_capabilities_are_gone_in_new_threads", || {
        confine::drop_capabilities(Capabilities::NET_RAW).unwrap();
        assert_eq!(Capabilities::effective(), Capabilities::NET_RAW);
        confine::drop_capabilities(Capabilities::NONE).unwrap();
        confine::no_new_privileges().unwrap();
        let other = std::thread::spawn(this_thread).join().unwrap();
        for thread in [this_thread(), other] {
            assert!(!thread.has_capabilities() && thread.no_new_privs, "{thread:?}");
        }
        let raw = rustix::net::socket(AddressFamily::PACKET, SocketType::RAW, None);
        assert_eq!(raw.unwrap_err(), rustix::io::Errno::PERM);
    });
}

#[test]
fn files_outside_the_list_are_refused() {
    child("files_outside_the_list_are_refused", || {
        let (kept, read, other) = (folder("kept"), folder("read"), folder("other"));
        fs::write(read.join("a"), "a").unwrap();
        fs::write(other.join("a"), "a").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let files = Files {
            read: vec![read.clone(), "/nowhere/at/all".into()],
            write: vec![kept.clone()],
            sockets: vec![other.clone()],
            tcp: vec![],
        };
        let landlock = files.restrict().unwrap();
        assert!(
            landlock.enforced == Enforced::All && landlock.abi >= Some(6),
            "this kernel has Landlock: {landlock:?}"
        );
        let denied = |what: std::io::Result<()>| assert_eq!(what.unwrap_err().kind(), ErrorKind::PermissionDenied);
        denied(File::open("/etc/shadow").map(drop));
        denied(File::open(other.join("a")).map(drop));
        denied(fs::write(read.join("b"), "b"));
        denied(TcpStream::connect(listener.local_addr().unwrap()).map(drop));
        denied(TcpListener::bind("127.0.0.1:0").map(drop));
        assert_eq!(fs::read_to_string(read.join("a")).unwrap(), "a");
        fs::write(kept.join("b"), "b").unwrap();
        fs::rename(kept.join("b"), kept.join("c")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(other.join("sock")).unwrap());
        fs::remove_file(other.join("sock")).unwrap();
        fs::remove_dir_all(&kept).unwrap_err();
        fs::remove_file(other.join("a")).unwrap();
    });
}

#[test]
fn calls_outside_the_list_are_refused_in_every_thread() {
    child("calls_outside_the_list_are_refused_in_every_thread", || {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let before = std::thread::spawn(move || {
            wait.recv().unwrap();
            (this_thread().seccomp, Command::new("/bin/true").status().unwrap_err().kind())
        });
        confine::filter_calls(Calls::Gateway, Mode::Enforce).unwrap();
        go.send(()).unwrap();
        let refused = (2, ErrorKind::PermissionDenied);
        assert_eq!(before.join().unwrap(), refused, "a thread that was there before");
        let after =
            std::thread::spawn(|| (this_thread().seccomp, Command::new("/bin/true").status().unwrap_err().kind()));
        assert_eq!(after.join().unwrap(), refused, "a thread made since");
        for family in [AddressFamily::PACKET, AddressFamily::NETLINK, AddressFamily::from_raw(44)] {
            let raw = rustix::net::socket(family, SocketType::RAW, None);
            assert_eq!(raw.unwrap_err(), rustix::io::Errno::PERM, "{family:?}");
        }
        assert_eq!(UdpSocket::bind("127.0.0.1:0").unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(
            rustix::process::kill_current_process_group(rustix::process::Signal::WINCH),
            Err(rustix::io::Errno::PERM)
        );
        // What death is told with goes on working.
        let panicked = std::thread::spawn(|| panic!("a death is explained")).join();
        assert!(panicked.is_err());
    });
}

#[test]
fn kill_mode_ends_the_process() {
    const TEST: &str = "kill_mode_ends_the_process";
    if std::env::var_os(CHILD).is_some() {
        confine::filter_calls(Calls::Gateway, Mode::Kill).unwrap();
        let _ = UdpSocket::bind("127.0.0.1:0");
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let out = command.args(["--exact", TEST, "--test-threads=1"]).env(CHILD, "1").output().unwrap();
    assert_eq!(out.status.signal(), Some(libc::SIGSYS), "{out:?}");
}

#[test]
fn a_kernel_without_landlock_leaves_files_alone() {
    child("a_kernel_without_landlock_leaves_files_alone", || {
        // Not built in, and switched off.
        for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
            let landlock = std::thread::spawn(move || {
                let rules = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
                let refused = SeccompAction::Errno(errno.cast_unsigned());
                let arch = std::env::consts::ARCH.try_into().unwrap();
                let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
                seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
                let landlock = Files::default().restrict().unwrap();
                assert!(File::open("/proc/self/status").is_ok() && this_thread().no_new_privs);
                landlock
            });
            assert_eq!(landlock.join().unwrap(), Landlock { enforced: Enforced::Nothing, abi: None }, "{errno}");
        }
    });
}

#[test]
fn log_mode_refuses_nothing() {
    child("log_mode_refuses_nothing", || {
        confine::filter_calls(Calls::Gateway, Mode::Log).unwrap();
        assert_eq!(this_thread().seccomp, 2);
        assert!(Command::new("/bin/true").status().unwrap().success());
    });
}
