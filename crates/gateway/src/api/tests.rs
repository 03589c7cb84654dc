//! The API over a socket: paths, refusals, and clients that are slow or hostile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;
use crate::snapshot::Snapshot;
use crate::socket::{Ask, RawAnswer, RawRequest, Reply, Request};

/// Answers counters.
struct One;

impl Answers for One {
    fn answer(&self, _: u64, asked: &RawRequest) -> RawAnswer {
        let answered = Request::answered(asked, |request| match request {
            Request::Counters => Ok(Reply::Counters(Snapshot { gateway: "toy".into(), ..Snapshot::default() })),
            Request::Ports => Err("worker 0 does not answer".into()),
            _ => Err("not here".into()),
        });
        answered.expect("a common request")
    }
}

fn server() -> Server {
    serve("127.0.0.1:0".parse().unwrap(), &[], "a toy", Arc::new(One), &[]).unwrap()
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
    let again = serve(address, &[], "a toy", Arc::new(One), &[]);
    assert!(again.is_ok(), "{:?}", again.err());
}
