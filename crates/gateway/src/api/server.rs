//! Connections of the API. Everything is bounded: connections at once, octets and time of a request's head, time of a
//! connection. When all places are taken, the oldest connection that waits for a request is closed for a new one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::page;
use super::tables::{Answer, PREFIX, TRACE, Tables};

/// Connections at once.
const CONNECTIONS: usize = 32;
/// Octets of a request's head.
const HEAD: usize = 8192;
/// Lines of a request's head.
const LINES: usize = 64;
/// Time for a request's head, also the first.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Time of a connection, however many requests it brings.
const TIME: Duration = Duration::from_secs(30);
/// Requests that are worked on at once.
const THREADS: usize = 4;

/// What a browser says about where a request comes from (Fetch Metadata Request Headers).
const FETCH_SITE: &str = "sec-fetch-site";

/// A listening server. Stops when dropped.
pub struct Server {
    address: SocketAddr,
    listener: TcpListener,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves tables by a socket that is there, on threads that stay off the workers' CPUs where there are others.
    ///
    /// # Errors
    /// What the system said.
    pub fn start(listener: TcpListener, tables: Arc<Tables>, workers: &[usize]) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (copy, address) = (listener.try_clone()?, listener.local_addr()?);
        let others: Vec<usize> = crate::shell::pin::cpus().into_iter().filter(|cpu| !workers.contains(cpu)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(THREADS)
            .thread_keep_alive(Duration::from_secs(10))
            .thread_name("weir-api")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            // Threads of requests have it from this one.
            keep_to(&others);
            runtime.block_on(async {
                tokio::select! {
                    () = listen(listener, tables) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("weir-api".into()).spawn(serve)?;
        Ok(Self { address, listener: copy, stop: Some(stop), thread: Some(thread) })
    }

    /// Its socket, for a process that goes on listening.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn listener(&self) -> std::io::Result<TcpListener> {
        self.listener.try_clone()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the calling thread to these CPUs, where it may.
fn keep_to(cpus: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    let most = rustix::thread::CpuSet::MAX_CPU;
    cpus.iter().filter(|cpu| **cpu < most).for_each(|cpu| set.set(*cpu));
    if set.count() > 0 {
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// A connection: whether a request of its is worked on, and how it is closed.
struct Open {
    busy: Arc<AtomicBool>,
    task: AbortHandle,
}

fn close(connection: Option<Open>) {
    if let Some(connection) = connection {
        connection.task.abort();
    }
}

/// Takes connections in until it is dropped.
async fn listen(listener: TcpListener, tables: Arc<Tables>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    // Names only matter to browsers, which are led to a loopback address by the name of another site.
    let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let mut open: VecDeque<Open> = VecDeque::with_capacity(CONNECTIONS);
    let places = Arc::new(Semaphore::new(THREADS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: the oldest gives its own back.
            close(open.pop_front());
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= CONNECTIONS {
            let idle = open.iter().position(|connection| !connection.busy.load(Ordering::Relaxed));
            close(open.remove(idle.unwrap_or(0)));
        }
        let (busy, tables) = (Arc::new(AtomicBool::new(false)), tables.clone());
        let service = service_fn({
            let (busy, places) = (busy.clone(), places.clone());
            move |request| respond(request, tables.clone(), busy.clone(), places.clone(), is_loopback)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD)
            .max_headers(LINES)
            .serve_connection(TokioIo::new(stream), service);
        let task = tokio::spawn(async {
            // Whatever became of it, it is over.
            let _ = tokio::time::timeout(TIME, connection).await;
        });
        open.push_back(Open { busy, task: task.abort_handle() });
    }
}

/// The response to a request.
async fn respond(
    request: Request<Incoming>,
    tables: Arc<Tables>,
    busy: Arc<AtomicBool>,
    places: Arc<Semaphore>,
    is_loopback: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let method = request.method();
    if method != Method::GET && method != Method::HEAD {
        let mut response = response(Answer::refused(405, "only GET and HEAD"));
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    if is_loopback && !request.headers().get(HOST).is_none_or(is_ours) {
        return Ok(response(Answer::refused(421, "Host: use an address or localhost")));
    }
    let (headers, path) = (request.headers(), request.uri().path());
    if path.starts_with(PREFIX) && headers.get(FETCH_SITE).is_some_and(|site| !is_own(site)) {
        return Ok(response(Answer::refused(403, "Sec-Fetch-Site: a page of another site may not use the API")));
    }
    // Browsers send no Sec-Fetch-Site over HTTP but to loopback. A header of our own needs a preflight request, which is
    // refused (405); an address as Host excludes names of other sites that lead here.
    let is_direct = headers.contains_key("x-weir-trace") && headers.get(HOST).is_none_or(is_ours);
    if path == TRACE && !is_loopback && !is_direct {
        return Ok(response(Answer::refused(403, "a trace needs the header X-Weir-Trace: 1, and an address as Host")));
    }
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    drop(request);
    busy.store(true, Ordering::Relaxed);
    // Waits here, not in the runtime's queue: a connection that closes takes its request with it.
    let Ok(place) = places.acquire_owned().await else {
        return Ok(response(Answer::refused(503, "the API is stopping")));
    };
    let work = move || {
        let _place = place;
        tables.answer(&path, &query)
    };
    let answer = tokio::task::spawn_blocking(work).await;
    busy.store(false, Ordering::Relaxed);
    // A panic, which was logged.
    Ok(response(answer.unwrap_or_else(|_| Answer::refused(500, "the request could not be answered"))))
}

/// Whether a browser says that a request comes of our own page, or was typed in (Fetch Metadata, 2.3).
fn is_own(site: &HeaderValue) -> bool {
    site == "same-origin" || site == "none"
}

/// Whether a Host names this host by an address or as localhost.
fn is_ours(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.media));
    for (name, value) in page::HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
