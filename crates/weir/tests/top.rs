//! `weir top` on a terminal of its own, over a user plane in a namespace: it draws, obeys keys, survives the gateway, and
//! leaves the terminal as it was.

mod net;

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use net::{Net, WEIR, until, user_plane};

/// A command on a terminal of 100 columns and 30 rows, by `script` (util-linux).
struct Terminal {
    process: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(line: &str) -> Self {
        let mut script = Command::new("script");
        script
            .args(["-qefc", &format!("stty cols 100 rows 30; exec {line}"), "/dev/null"])
            .env("TERM", "xterm-256color");
        let mut process = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (keys, mut out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let written = screen.clone();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut some) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..n]));
            }
        });
        Self { process, keys, screen }
    }

    /// Waits for a text, and forgets what was written until then.
    fn shows(&self, text: &str) {
        until(text, || {
            let mut screen = self.screen.lock().unwrap();
            screen.contains(text).then(|| screen.clear())
        });
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn top_draws_obeys_keys_and_survives_the_gateway() {
    let net = Net::new("top");
    let socket = net.file("weir.sock").display().to_string();
    let mut gateway = net.start(&user_plane());
    let mut terminal = Terminal::start(&format!("{WEIR} top --interval 0.5 --socket {socket}"));
    // The alternate screen, and the first frame.
    terminal.shows("\x1b[?1049h");
    terminal.shows("quit");
    terminal.press("4");
    terminal.shows("eth0");
    terminal.press("6");
    terminal.shows("sessions; the highest rates");
    terminal.press("/imsi=001\r");
    terminal.shows("imsi=001");
    terminal.press("?");
    terminal.shows("PgUp");
    terminal.press("x1");
    gateway.kill();
    terminal.shows("connection lost");
    let gateway = net.start(&user_plane());
    terminal.shows("every");
    terminal.press("q");
    terminal.shows("\x1b[?1049l");
    let ended = until("the end of weir top", || terminal.process.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    net::ends_well(gateway);
}

#[test]
fn top_without_a_terminal_prints_frames_or_refuses() {
    let net = Net::new("top-once");
    let gateway = net.start(&user_plane());
    let top = |options: &str| {
        let mut command = Command::new(WEIR);
        command.arg("top").args(options.split_whitespace()).arg("--socket").arg(net.file("weir.sock"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let refused = top("");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--once"), "{refused:?}");
    let frame = net::well(top("--once --interval 0.2 --size 80x24"));
    let text = String::from_utf8(frame.stdout).unwrap();
    assert!(text.starts_with("weir upf") && text.contains("q quit") && !text.contains('\x1b'), "{text}");
    assert_eq!(text.lines().count(), 24, "{text}");
    let view = net::json(&net::well(top("--once --interval 0.2 --json")));
    assert_eq!((&view["gateway"], view["ports"].as_array().map(Vec::len)), (&"upf".into(), Some(3)), "{view}");
    net::ends_well(gateway);
}
