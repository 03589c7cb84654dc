//! The API over a socket: paths, refusals, and clients that are slow or hostile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;
use crate::snapshot::Snapshot;
use crate::socket::{Ask, RawAnswer, RawRequest, Reply, Request, TraceView};

/// Answers counters; ports if it is well; traces in which no packet comes.
#[derive(Default)]
struct One {
    is_well: bool,
    hung_up: AtomicU64,
    /// Requests for counters and for traces.
    counters: AtomicU64,
    traces: AtomicU64,
}

impl Answers for One {
    fn answer(&self, _: u64, asked: &RawRequest) -> RawAnswer {
        let answered = Request::answered(asked, |request| match request {
            Request::Counters => {
                self.counters.fetch_add(1, Ordering::Relaxed);
                Ok(Reply::Counters(Snapshot { gateway: "toy".into(), ..Snapshot::default() }))
            }
            Request::Ports if self.is_well => Ok(Reply::Ports(Vec::new())),
            Request::Ports => Err("worker 0 does not answer".into()),
            Request::Trace { packets, .. } => {
                self.traces.fetch_add(1, Ordering::Relaxed);
                Ok(Reply::Trace(TraceView { left: packets, ..TraceView::default() }))
            }
            Request::Traced => Ok(Reply::Trace(TraceView { left: 1, ..TraceView::default() })),
            _ => Err("not here".into()),
        });
        answered.expect("a common request")
    }

    fn hung_up(&self, connection: u64) {
        self.hung_up.store(connection, Ordering::Relaxed);
    }
}

const TOY: Shown = Shown { views: &[], title: "a toy", trace: false };

fn of(shown: Shown, gateway: Arc<One>) -> Server {
    serve("127.0.0.1:0".parse().unwrap(), shown, gateway, &[]).unwrap()
}

fn server() -> Server {
    of(TOY, Arc::default())
}

fn send(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let answer = send(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn tables_are_answered_as_json() {
    let server = server();
    let (status, run) = get(&server, "/api/v1/run");
    assert_eq!((status, &run["gateway"]), (200, &"toy".into()));
    assert_eq!(get(&server, "/api/v1/ports").0, 503);
    let (status, error) = get(&server, "/api/v1/run?x=1");
    assert_eq!((status, &error["error"]), (400, &"unknown parameter \"x\"; allowed: none".into()));
    assert_eq!(get(&server, "/api/v1/config").0, 404, "it may hold passwords");
    let (status, described) = get(&server, "/openapi.json");
    assert_eq!((status, &described["openapi"]), (200, &"3.1.0".into()));
    assert!(described["paths"]["/api/v1/run"]["get"].is_object());
}

#[test]
fn only_reading_from_this_host_is_allowed() {
    let server = server();
    let head = "Host: localhost\r\nConnection: close\r\n\r\n";
    assert!(send(&server, &format!("POST /api/v1/run HTTP/1.1\r\n{head}")).starts_with("HTTP/1.1 405"));
    let other = send(&server, "GET /api/v1/run HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(other.starts_with("HTTP/1.1 421"), "a browser that another site's name led here: {other}");
    let address = send(&server, "GET /api/v1/run HTTP/1.1\r\nHost: [::1]:9466\r\nConnection: close\r\n\r\n");
    assert!(address.starts_with("HTTP/1.1 200"), "{address}");
    let long = format!("GET /api/v1/run HTTP/1.1\r\nX: {}\r\n{head}", "x".repeat(20_000));
    assert!(!send(&server, &long).starts_with("HTTP/1.1 200"));
    let lines = "X: y\r\n".repeat(100);
    assert!(!send(&server, &format!("GET /api/v1/run HTTP/1.1\r\n{lines}{head}")).starts_with("HTTP/1.1 200"));
}

#[test]
fn slow_clients_keep_nobody_out() {
    let server = server();
    // More than there are places; none sends a whole request.
    let mut slow: Vec<TcpStream> = Vec::new();
    for n in 0..80 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET /api/v1/run HTTP/1.1\r\nHost:").unwrap();
        slow.push(stream);
        if n % 20 == 19 {
            let begin = Instant::now();
            assert_eq!(get(&server, "/api/v1/run").0, 200);
            assert!(begin.elapsed() < Duration::from_secs(4));
        }
    }
    // The first were closed for others, the last for their slowness.
    for n in [0, 79] {
        let stream = &mut slow[n];
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        let done = stream.read_to_end(&mut rest);
        assert!(done.is_ok() || done.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn an_ended_server_frees_its_address() {
    let first = server();
    let address = first.address();
    drop(first);
    let again = serve(address, TOY, Arc::<One>::default(), &[]);
    assert!(again.is_ok(), "{:?}", again.err());
}

#[test]
fn rates_are_answered_and_sampled_once_a_second() {
    let gateway = Arc::new(One { is_well: true, ..One::default() });
    let server = of(TOY, gateway.clone());
    let begin = Instant::now();
    let all: Vec<(u16, Value)> = (0..20).map(|_| get(&server, "/api/v1/top")).collect();
    let most = 3 + begin.elapsed().as_secs();
    assert!(gateway.counters.load(Ordering::Relaxed) <= most, "a sample a second");
    assert!(all.iter().all(|(status, top)| *status == 200 && top["gateway"] == "toy"), "{all:?}");
    assert_eq!(get(&server, "/api/v1/top?x=1").0, 400);
    let (status, about) = get(&server, "/api/v1/about");
    assert_eq!((status, &about["trace"], &about["connected"]), (200, &false.into(), &Value::Null));
    // Ports do not answer here.
    assert_eq!(get(&self::server(), "/api/v1/top").0, 503);
}

#[test]
fn the_page_is_served_under_a_strict_policy() {
    let server = server();
    for (path, media, text) in [
        ("/", "text/html", "<!doctype html>"),
        ("/page.css", "text/css", "color-scheme"),
        ("/page.js", "text/javascript", "use strict"),
    ] {
        let answer = send(&server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(text), "{answer}");
        let (head, _) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-type: {media}; charset=utf-8")), "{head}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{head}");
        assert!(!head.contains("unsafe-") && head.contains("x-content-type-options: nosniff"), "{head}");
    }
}

#[test]
fn traces_are_off_unless_allowed_and_one_at_a_time() {
    let (status, error) = get(&server(), "/api/v1/trace?ue=10.0.0.1");
    assert!(status == 403 && error["error"].as_str().unwrap().contains("[api] trace = true"), "{error}");
    let gateway = Arc::<One>::default();
    let server = of(Shown { trace: true, ..TOY }, gateway.clone());
    assert_eq!(get(&server, "/api/v1/trace?ue=10.0.0.1&packets=65").0, 400);
    assert_eq!(get(&server, "/api/v1/trace?ue=10.0.0.1&seconds=0.1"), (200, Value::Array(Vec::new())));
    assert_eq!(gateway.hung_up.load(Ordering::Relaxed), u64::MAX, "the trace has ended");
    let other = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n\r\n";
    assert!(send(&server, &format!("GET /api/v1/trace?ue=10.0.0.1 HTTP/1.1\r\n{other}")).starts_with("HTTP/1.1 403"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| get(&server, "/api/v1/trace?ue=10.0.0.1&seconds=4"));
        // One trace ran before.
        while gateway.traces.load(Ordering::Relaxed) < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(get(&server, "/api/v1/trace?ue=10.0.0.1").0, 409);
        assert_eq!(first.join().unwrap().0, 200);
    });
}

/// Where a browser says nothing of the page a request comes of, a trace needs a header that pages of others cannot send.
#[test]
fn traces_beyond_loopback_need_a_header() {
    let shown = Shown { trace: true, ..TOY };
    let server = serve("0.0.0.0:0".parse().unwrap(), shown, Arc::<One>::default(), &[]).unwrap();
    let ask = |host: &str, more: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.address().port())).unwrap();
        let path = "/api/v1/trace?ue=10.0.0.1&seconds=0.1";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(ask("192.0.2.1", ""), "403");
    assert_eq!(ask("weir.example", "X-Weir-Trace: 1\r\n"), "403");
    assert_eq!(ask("192.0.2.1", "X-Weir-Trace: 1\r\n"), "200");
}
