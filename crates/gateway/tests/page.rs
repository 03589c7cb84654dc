//! The API's web page in headless Chromium, over a gateway whose names are hostile: nothing of them becomes markup, the
//! page asks for nothing but the API, fits a telephone, and comes back after a lost connection.
//!
//! Chromium is driven by its DevTools protocol over two pipes. Everything is bounded in time.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gateway::api::{self, Shown};
use gateway::connected::{ConnectedPage, ConnectedTable, ConnectedView, Topic};
use gateway::show::View;
use gateway::snapshot::{DropCounters, Snapshot, StageCounters, WorkerCounters};
use gateway::socket::{Answers, Ask, PortView, RawAnswer, RawRequest, Reply, Request, TraceLine, TraceView};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(40);
/// What a subscriber's device may call itself.
const HOSTILE: &str = "<img src=x onerror=\"owned=1\"><script>owned=1</script>'\"&amp;{{7*7}}";

struct Sessions;

impl Topic for Sessions {
    const TOPIC: &'static str = "sessions";
    const HELP: &'static str = "Sessions";
}

const VIEWS: &[View] = &[View::of::<ConnectedTable<Sessions>>()];

/// A gateway whose every name is hostile, and which counts on.
#[derive(Default)]
struct Hostile {
    seconds: AtomicU64,
    asked: Mutex<Vec<String>>,
}

impl Hostile {
    fn counters(&self) -> Snapshot {
        let n = self.seconds.fetch_add(1, Ordering::Relaxed) + 1;
        let name = || HOSTILE.to_owned();
        let io = [("rx_packets", 1000 * n), ("rx_bytes", 800_000 * n), ("pipeline_cycles", 1_000_000 * n)];
        let stage =
            StageCounters { pipeline: name(), name: name(), calls: n, packets: 1000 * n, cycles: 1_000_000 * n };
        let drop = DropCounters { stage: name(), reason: name(), sentence: name(), packets: n, bytes: 64 * n };
        let worker = WorkerCounters {
            io: io.map(|(name, value)| (name.to_owned(), value)).into(),
            stages: vec![stage],
            drops: vec![drop],
            ..WorkerCounters::default()
        };
        let uptime = n as f64;
        Snapshot {
            gateway: name(),
            version: name(),
            uptime,
            seconds: uptime,
            tsc_hz: 1e9,
            workers: vec![worker],
            ..Snapshot::default()
        }
    }

    fn page() -> ConnectedPage {
        let name = || Some(HOSTILE.to_owned());
        let entry = ConnectedView {
            name: name(),
            imsi: name(),
            msisdn: name(),
            mac: name(),
            dnn: name(),
            network_instance: name(),
            group: name(),
            profile: name(),
            port: name(),
            s_vlan: Some(1),
            addresses: vec!["10.60.0.1".to_owned(), HOSTILE.to_owned()],
            up_bps: Some(1e6),
            ..ConnectedView::default()
        };
        ConnectedPage {
            kind: HOSTILE.to_owned(),
            total: 1,
            entries: vec![entry],
            next: Some(0),
            ..ConnectedPage::default()
        }
    }
}

impl Answers for Hostile {
    fn answer(&self, _: u64, asked: &RawRequest) -> RawAnswer {
        let name = || HOSTILE.to_owned();
        let line = TraceLine {
            stage: name(),
            verdict: name(),
            detail: name(),
            unix_ns: 1_000_000_000,
            stage_ns: Some(7.0),
            bytes: "450001".into(),
            ..TraceLine::default()
        };
        let port = PortView {
            name: name(),
            role: name(),
            kind: name(),
            interface: name(),
            link: name(),
            ..PortView::default()
        };
        let answered = Request::answered(asked, |request| {
            if let Request::Connected(request) = &request {
                self.asked.lock().unwrap().push(serde_json::to_string(request).unwrap());
            }
            match request {
                Request::Counters => Ok(Reply::Counters(self.counters())),
                Request::Ports => Ok(Reply::Ports(vec![port])),
                Request::Connected(request) if request.filter.dnn.is_some() => Err(name()),
                Request::Connected(_) => Ok(Reply::Connected(Self::page())),
                Request::Trace { .. } => Ok(Reply::Trace(TraceView { left: 1, ..TraceView::default() })),
                Request::Traced => Ok(Reply::Trace(TraceView { left: 0, lines: vec![line], ..TraceView::default() })),
                _ => Err(name()),
            }
        });
        answered.expect("a common request")
    }
}

/// A browser with one page, which ends with this.
struct Browser {
    process: Child,
    folder: PathBuf,
    commands: File,
    answers: Receiver<Value>,
    session: String,
    number: u64,
    /// Faults that the page's script or its policy reported.
    faults: Vec<Value>,
}

impl Browser {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("weir-page-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [to, from] = ["to", "from"].map(|name| folder.join(name));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        // The shell opens descriptors 3 and 4, where Chromium reads commands and writes answers.
        let line = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                    --remote-debugging-pipe --user-data-dir=\"$1/profile\" about:blank 3<\"$1/to\" 4>\"$1/from\"";
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line, "sh"])
            .arg(&folder)
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("log")).unwrap());
        let process = shell.spawn().unwrap();
        let commands = OpenOptions::new().write(true).open(&to).unwrap();
        let mut from = BufReader::new(File::open(&from).unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                if sender.send(serde_json::from_slice(&message).unwrap_or_default()).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser =
            Self { process, folder, commands, answers, session: String::new(), number: 0, faults: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    /// Calls a method of the protocol.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.commands.write_all(message.to_string().as_bytes()).unwrap();
        self.commands.write_all(&[0]).unwrap();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{method}: {error}: {}", fs::read_to_string(self.folder.join("log")).unwrap_or_default())
            });
            let method = answer["method"].as_str().unwrap_or_default();
            let is_fault = method == "Runtime.exceptionThrown"
                || method == "Log.entryAdded" && answer["params"]["entry"]["level"] == "error";
            if is_fault {
                self.faults.push(answer["params"].clone());
            }
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    fn until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            let shown = self.value("document.body.innerText");
            assert!(Instant::now() < end, "{expression}: {shown}\n{:?}", self.faults);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// Sets width and colour scheme; `WEIR_SCREENSHOTS=FOLDER` keeps pictures.
    fn look(&mut self, name: &str, width: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &media);
        if let Some(folder) = std::env::var_os("WEIR_SCREENSHOTS") {
            let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
            let path = PathBuf::from(folder).join(format!("{name}.png.base64"));
            fs::write(path, picture["data"].as_str().unwrap()).unwrap();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn serve(address: SocketAddr, gateway: Arc<Hostile>) -> api::Server {
    let shown = Shown { views: VIEWS, title: HOSTILE, trace: true };
    api::serve(address, shown, gateway, &[]).unwrap()
}

const TABS: [&str; 7] = ["overview", "stages", "drops", "ports", "workers", "sessions", "trace"];

fn press(browser: &mut Browser, tab: &str) {
    browser.value(&format!(
        "[...document.querySelectorAll('nav button')].find(b => b.textContent.toLowerCase() === '{tab}').click()"
    ));
}

#[test]
fn the_page_works_and_shows_hostile_names_as_text() {
    let gateway = Arc::<Hostile>::default();
    let server = serve("127.0.0.1:0".parse().unwrap(), gateway.clone());
    let (address, hostile) = (server.address(), serde_json::to_string(HOSTILE).unwrap());
    let mut browser = Browser::start();
    browser.open(&format!("http://{address}/"));
    browser.until("document.readyState === 'complete' && document.getElementById('interval') !== null");
    browser.value("document.getElementById('interval').value = '1'; 0");
    // History grows: a line has at least two points.
    browser.until("document.querySelector('.card .edge') !== null");
    for tab in &TABS[1..5] {
        press(&mut browser, tab);
        match *tab {
            "workers" => browser.until("document.querySelector('#workers td') !== null"),
            tab => browser.until(&format!("document.getElementById('{tab}').innerText.includes({hostile})")),
        }
    }
    press(&mut browser, "sessions");
    browser.until(&format!("document.getElementById('entries').innerText.includes({hostile})"));
    // Look-up: the key and value that were typed are asked for; a refusal is a sentence.
    browser.value("document.getElementById('key').value = 'imsi'");
    browser.value("document.getElementById('value').value = '0010&1'");
    browser.value("document.querySelector('#look-up button').click()");
    browser.until("document.getElementById('found').innerText.includes('1 of 1')");
    assert!(gateway.asked.lock().unwrap().iter().any(|asked| asked.contains("\"imsi\":\"0010&1\"")));
    browser.value("document.getElementById('key').value = 'dnn'; document.querySelector('#look-up button').click()");
    browser.until("document.querySelector('#entries table') === null");
    assert_eq!(browser.value("document.getElementById('found').textContent"), HOSTILE, "the refusal, as text");
    browser.value("document.getElementById('all').click()");
    // The button of an entry fills in its address.
    browser.until("document.querySelector('#entries td button') !== null");
    browser.value("document.querySelector('#entries td button').click()");
    assert_eq!(browser.value("document.getElementById('trace-value').value"), "10.60.0.1");
    browser.value("document.getElementById('trace-go').click()");
    browser.until(&format!("document.getElementById('walks').innerText.includes({hostile})"));
    assert_eq!(browser.value("document.querySelector('#walks pre').textContent"), "0000  45 00 01");
    // All of it was text.
    assert_eq!(browser.value("document.querySelectorAll('img, iframe, script:not([src=\"/page.js\"])').length"), 0);
    assert_eq!(browser.value("typeof window.owned"), "undefined");
    assert_eq!(browser.value("document.title"), "weir");
    let others =
        format!("performance.getEntriesByType('resource').filter(r => !r.name.startsWith('http://{address}/')).length");
    assert_eq!(browser.value(&others), 0, "nothing from elsewhere");
    // It fits a telephone, and follows the reader's scheme.
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        for tab in TABS {
            press(&mut browser, tab);
            browser.look(&format!("{tab}-{scheme}"), 390, scheme);
            let width = browser.value("document.documentElement.scrollWidth");
            assert!(width.as_u64().is_some_and(|width| width <= 390), "{tab}: {width}");
        }
        papers.push(browser.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(papers[0], papers[1]);
    let refused = browser.faults.iter().filter(|fault| !fault.to_string().contains("400 (Bad Request)")).count();
    assert_eq!(refused, 0, "no fault but the refusal that was asked for: {:?}", browser.faults);
    // A lost gateway is named, and found again.
    drop(server);
    browser.until("document.getElementById('state').innerText.includes('connection lost')");
    let _server = serve(address, gateway);
    browser.until("document.getElementById('state').innerText === ''");
}
