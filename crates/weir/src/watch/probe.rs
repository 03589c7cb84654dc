//! `/healthz` and `/readyz` on a listener and a thread of their own.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;

use super::Vitals;
use crate::metrics::{Answer, Pages, Server, WORDS};

/// Answers probes at an address, until dropped.
///
/// # Errors
/// The address is not ours, or not free.
pub fn serve(address: SocketAddr, vitals: Arc<Vitals>) -> anyhow::Result<Server> {
    Server::start("weir-health", address, Arc::new(Probes(vitals)))
        .with_context(|| format!("no probes at {address}: give another [health] address, or leave the section out"))
}

struct Probes(Arc<Vitals>);

impl Pages for Probes {
    fn page(&self, path: &str) -> Option<Answer> {
        self.0.page(path)
    }

    fn paths(&self) -> &'static str {
        "/healthz and /readyz"
    }
}

impl Vitals {
    /// The answer to a probe, if the path is that of one.
    pub fn page(&self, path: &str) -> Option<Answer> {
        let (well, trouble) = match path {
            "/healthz" => ("alive\n", self.dead()),
            "/readyz" => ("ready\n", self.unready()),
            _ => return None,
        };
        Some(match trouble.is_empty() {
            true => Answer { status: 200, media: WORDS, body: well.to_owned() },
            false => Answer { status: 503, media: WORDS, body: trouble.join("\n") + "\n" },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use port::Wires;

    use super::super::Watch;
    use super::*;
    use crate::metrics;
    use crate::socket::tests::gateway;

    fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn probes_answer_beside_a_hundred_slow_scrapers() {
        let process = gateway(&Wires::default());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let vitals = process.shell().vitals().clone();
        let health = serve(any, vitals.clone()).unwrap();
        let scraped = metrics::serve(any, process.observer().clone()).unwrap();
        assert!(ask(health.address(), "/readyz").ends_with("starting\n"));
        let watch = Watch::start(process.observer().clone()).unwrap();
        vitals.run();
        let slow = |n: usize| {
            let address = if n.is_multiple_of(2) { scraped.address() } else { health.address() };
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").unwrap();
            stream
        };
        let slow: Vec<_> = (0..200).map(slow).collect();
        let until = Instant::now() + Duration::from_secs(10);
        while !ask(health.address(), "/readyz").starts_with("HTTP/1.1 200 ") {
            assert!(Instant::now() < until, "{}", ask(health.address(), "/readyz"));
            process.turn();
            std::thread::sleep(Duration::from_millis(5));
        }
        let begin = Instant::now();
        for _ in 0..10 {
            process.turn();
            assert!(ask(health.address(), "/healthz").ends_with("alive\n"));
            assert!(ask(health.address(), "/readyz").ends_with("ready\n"));
            assert!(ask(scraped.address(), "/readyz").ends_with("ready\n"), "/metrics' listener answers, too");
        }
        // Far from the five seconds that slow connections have.
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert!(
            ask(health.address(), "/metrics").contains("404 ")
                && ask(scraped.address(), "/metrics").contains("weir_ready 1")
        );
        assert!(vitals.drain(true));
        assert!(ask(health.address(), "/readyz").ends_with("draining: no new sessions are taken\n"));
        drop((slow, watch));
    }
}
