//! `weir top` on a terminal of its own, over a user plane in a namespace: it draws, obeys keys, survives the gateway,
//! and leaves the terminal as it was.

mod net;

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net::{Net, WEIR, until, user_plane};

const COLUMNS: usize = 100;
const ROWS: usize = 30;

/// What a terminal shows, of the sequences that `weir top` writes: places and text; colours are left out.
struct Shown {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// A sequence that has begun, without its first character.
    sequence: Option<String>,
    /// The alternate screen is on.
    is_full: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self { cells: vec![vec![' '; COLUMNS]; ROWS], at: (0, 0), sequence: None, is_full: false }
    }
}

impl Shown {
    fn take(&mut self, letter: char) {
        match self.sequence.take() {
            Some(sequence) if sequence.is_empty() && letter == '[' => self.sequence = Some("[".to_owned()),
            // ECMA-48, 5.4: a control sequence ends with a character of the last columns.
            Some(sequence) if sequence.starts_with('[') => match letter {
                '@'..='~' => self.obey(&sequence[1..], letter),
                letter => self.sequence = Some(sequence + letter.encode_utf8(&mut [0; 4])),
            },
            Some(_) => {}
            None if letter == '\x1b' => self.sequence = Some(String::new()),
            None => {
                if let Some(cell) = self.cells.get_mut(self.at.0).and_then(|row| row.get_mut(self.at.1)) {
                    *cell = letter;
                }
                self.at.1 += 1;
            }
        }
    }

    fn obey(&mut self, parameters: &str, letter: char) {
        match (parameters, letter) {
            (place, 'H') => {
                let mut numbers = place.split(';').map(|number| number.parse::<usize>().unwrap_or(1) - 1);
                self.at = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            }
            (_, 'J') => self.cells = vec![vec![' '; COLUMNS]; ROWS],
            ("?1049", 'h' | 'l') => self.is_full = letter == 'h',
            _ => {}
        }
    }

    fn text(&self) -> String {
        self.cells.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
    }
}

/// A command on a terminal, by `script` (util-linux).
struct Terminal {
    process: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Shown>>,
}

impl Terminal {
    fn start(line: &str) -> Self {
        let mut script = Command::new("script");
        let line = format!("stty cols {COLUMNS} rows {ROWS}; exec {line}");
        script.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm-256color");
        let mut process = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (keys, out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let shown = Arc::<Mutex<Shown>>::default();
        let written = shown.clone();
        std::thread::spawn(move || {
            let (mut out, mut bytes, mut some) = (out, Vec::new(), [0; 4096]);
            while let Ok(n @ 1..) = out.read(&mut some) {
                bytes.extend_from_slice(&some[..n]);
                // The end may be a part of a character.
                let whole = match std::str::from_utf8(&bytes) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text = String::from_utf8(bytes.drain(..whole).collect()).unwrap();
                let mut shown = written.lock().unwrap();
                text.chars().for_each(|letter| shown.take(letter));
            }
        });
        Self { process, keys, shown }
    }

    /// Waits until a text is on the screen.
    fn shows(&self, text: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let screen = self.shown.lock().unwrap().text();
            if screen.contains(text) {
                return;
            }
            assert!(Instant::now() < end, "{text}:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
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
    terminal.shows("q quit");
    assert!(terminal.shown.lock().unwrap().is_full);
    terminal.press("4");
    terminal.shows("eth0");
    terminal.press("6");
    terminal.shows("sessions; the highest rates");
    terminal.press("/imsi=001\r");
    terminal.shows("the highest rates with imsi=001");
    terminal.press("?");
    terminal.shows("PgUp");
    terminal.press("x1");
    gateway.kill();
    terminal.shows("connection lost");
    let gateway = net.start(&user_plane());
    terminal.shows(" · every 0.5 s");
    terminal.press("q");
    let ended = until("the end of weir top", || terminal.process.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    assert!(!terminal.shown.lock().unwrap().is_full, "the terminal is as it was");
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
    assert_eq!((&view["gateway"], view["ports"].as_array().map(Vec::len)), (&"upf".into(), Some(2)), "{view}");
    net::ends_well(gateway);
}

/// Processes that have a text on their command line.
fn running(text: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let of = |entry: &std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    all.filter(|entry| String::from_utf8_lossy(&of(entry)).replace('\0', " ").contains(text)).count()
}

/// A connection that breaks, or a window that is closed, leaves nothing that reads for ever.
#[test]
fn top_ends_with_its_terminal() {
    let net = Net::new("top-gone");
    let socket = net.file("weir.sock").display().to_string();
    let gateway = net.start(&user_plane());
    let mut terminal = Terminal::start(&format!("{WEIR} top --interval 0.5 --socket {socket}"));
    terminal.shows("q quit");
    let line = format!("{WEIR} top --interval 0.5 --socket {socket}");
    assert!(running(&line) > 0);
    terminal.process.kill().unwrap();
    until("the end of weir top", || (running(&line) == 0).then_some(()));
    drop(gateway);
}
