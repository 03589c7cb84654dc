//! Control of a gateway that routes: neighbours, routes, and the workers' report.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use dataplane::config::ConfigError;
use dataplane::forward::{Neighbourhood, Tables};
use engine::{HandOff, Layout, PortId, Steer};
use frame::Caps;
use table::command;
use table::ring::ring;
use table::waker::Waker;

use super::plane::{Answer, Command, Plane};
use super::slow::{Event, SlowPath};
use super::{Init, Routed, State, links, report};
use crate::control::{Routing, WorkerLink, answered};
use crate::metrics::{Known, Page};
use crate::shell::rest::Wait;
use crate::shell::{Product, Shell, WorkerInit};
use crate::socket::{RawAnswer, RawRequest};

type RouterLink<R> = WorkerLink<Command<<R as Routed>::Row>, Answer<<R as Routed>::Row>, Event>;

/// Why a configuration makes no gateway.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// It is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There are no descriptors.
    #[error("no way to wake a worker: {0}")]
    Waker(std::io::Error),
}

const RING: usize = 1024;

/// Makes the workers' gateways and their control. `caps` tells, for each configured port, what the opened port is.
///
/// # Errors
/// What is wrong with the configuration, by key, or what the machine has too little of.
pub fn assemble<R: Routed>(config: &R::Config, caps: &[Caps]) -> Result<(Control<R>, Vec<Init<R>>), AssembleError> {
    let routing = Routing::new(links(config).plan(caps)?);
    let control = Waker::new().map_err(AssembleError::Waker)?;
    let count = config_workers::<R>(config);
    let (mut workers, mut to_workers, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
    for worker in 0..count {
        let (commands, inbox) = command::commands(RING);
        let (events, incoming) = ring(RING);
        let waker = Waker::new().map_err(AssembleError::Waker)?;
        wakers.push(waker.clone());
        to_workers.push(WorkerLink::new(commands, incoming, waker.clone()));
        let mut layout = Layout::default();
        let (pipelines, own) = R::build(config, worker, &mut layout);
        let state = State { tables: Tables::new(routing.reader()), own };
        let slow = SlowPath::new(events);
        let plane = Plane { pipelines, state, slow, inbox, waker, control: control.clone(), told: 0 };
        workers.push(WorkerInit { plane, layout, hand_off: None });
    }
    if count > 1 {
        // Gateways know the owner themselves.
        let hand_offs = HandOff::among(count.into(), Steer::new(), wakers);
        for (worker, hand_off) in workers.iter_mut().zip(hand_offs) {
            worker.hand_off = Some(hand_off);
        }
    }
    let control = Control { routing, workers: to_workers, waker: control, took_events: false, report: None };
    Ok((control, workers))
}

fn config_workers<R: Routed>(config: &R::Config) -> u16 {
    use crate::shell::Sections;
    config.head().workers.count
}

/// Control of all workers. It runs on a thread of its own and is driven by [`Control::poll`].
pub struct Control<R: Routed> {
    routing: Routing,
    workers: Vec<RouterLink<R>>,
    waker: Waker,
    /// The last turn took events of workers.
    took_events: bool,
    /// The rows that all workers have added to.
    report: Option<Vec<R::Row>>,
}

impl<R: Routed> Control<R> {
    /// Wakes the thread that drives it: workers do when they have an event or an answer.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Has all workers add to a report, one after another; [`Control::take_report`] has it then.
    pub fn ask_report(&mut self, rows: Vec<R::Row>) {
        self.report = None;
        if let Some(first) = self.workers.first_mut() {
            first.post(Command::Report(rows));
        }
    }

    /// The report, once all workers have added to it.
    pub fn take_report(&mut self) -> Option<Vec<R::Row>> {
        self.report.take()
    }

    /// A turn of control. `now` is the workers' time in nanoseconds.
    pub fn poll(&mut self, now: u64) {
        self.took_events = false;
        for n in 0..self.workers.len() {
            self.workers[n].flush();
            while let Some(event) = self.workers[n].event() {
                self.took_events = true;
                match event {
                    Event::Neighbour(heard) => self.routing.hear(&heard, now),
                    Event::Resolve(instance, address) => self.routing.want(instance, address, now),
                }
            }
            while let Some(answer) = self.workers[n].answer() {
                match (answer, self.workers.get_mut(n + 1)) {
                    (Ok(Answer::Report(report)), Some(next)) => next.post(Command::Report(report)),
                    (Ok(Answer::Report(report)), None) => self.report = Some(report),
                    (Ok(Answer::Sent(_)) | Err(_), _) => {}
                }
            }
        }
        let workers = &mut self.workers;
        if self.routing.turn(now, |port, frame| send(workers, port, frame)) {
            self.workers.iter().for_each(WorkerLink::nudge);
        }
    }

    fn publish_tables(&mut self) {
        if self.routing.publish() {
            self.workers.iter().for_each(WorkerLink::nudge);
        }
    }
}

/// Has a worker send a frame of ours: the first, as good as any.
fn send<T: Send>(workers: &mut [WorkerLink<Command<T>, Answer<T>, Event>], port: u8, frame: Vec<u8>) {
    if let Some(first) = workers.first_mut() {
        first.post(Command::Send(port, frame));
    }
}

/// The control side of a running gateway, as `weir show`, `weir trace` and monitoring see it.
pub struct Router<R: Routed> {
    shell: Shell,
    config: R::Config,
    control: Mutex<Control<R>>,
    /// One report at a time.
    reporting: Mutex<()>,
}

impl<R: Routed> Router<R> {
    /// Over the reading ends of its workers.
    pub(super) fn new(shell: Shell, config: R::Config, control: Control<R>) -> Self {
        Self { shell, config, control: Mutex::new(control), reporting: Mutex::new(()) }
    }

    fn control(&self) -> MutexGuard<'_, Control<R>> {
        self.shell.lock(&self.control)
    }

    /// The configuration it was started with.
    pub fn config(&self) -> &R::Config {
        &self.config
    }

    /// What all workers know.
    ///
    /// # Errors
    /// A worker does not answer; a sentence.
    pub fn report(&self) -> Result<Vec<R::Row>, String> {
        let _one = self.reporting.lock().unwrap_or_else(|error| error.into_inner());
        self.control().ask_report(R::rows(&self.config));
        answered(|| {
            let mut control = self.control();
            control.poll(self.shell.now_ns());
            control.take_report()
        })
    }

    pub(super) fn apply_routes(&self, config: &R::Config, check: bool) -> Result<(), ConfigError> {
        let mut control = self.control();
        let routes = links(config).routes_over(control.routing.plan())?;
        if !check {
            control.routing.set_routes(routes);
            drop(control);
            self.shell.call_control();
        }
        Ok(())
    }
}

impl<R: Routed> Product for Router<R> {
    type Plane = Plane<R>;

    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn turn(&self) {
        self.control().poll(self.shell.now_ns());
    }

    fn wait(&self, since: Duration) -> Wait {
        let mut control = self.control();
        let has_news = control.workers.iter_mut().any(WorkerLink::has_news);
        let is_behind = control.workers.iter().any(WorkerLink::is_behind);
        let deadlines = [control.routing.next_deadline(), is_behind.then_some(0)];
        self.shell.wait(since, control.took_events, has_news, deadlines)
    }

    fn publish_tables(&self) {
        self.control().publish_tables();
    }

    fn with_neighbourhood(&self, see: &mut dyn FnMut(&mut Neighbourhood)) {
        see(self.control().routing.neighbourhood());
    }

    fn send(&self, frames: Vec<(PortId, Vec<u8>)>) {
        let mut control = self.control();
        frames.into_iter().for_each(|(port, frame)| send(&mut control.workers, port, frame));
    }

    fn instances(&self) -> Vec<String> {
        links(&self.config).instances
    }

    fn answer(&self, asked: &RawRequest) -> Option<RawAnswer> {
        report::answer(self, asked).or_else(|| R::answer(self, asked))
    }

    fn known(&self) -> Known {
        let mut own = Page::default();
        if let Ok(rows) = self.report() {
            R::metrics(&rows, &mut own);
        }
        Known { own, ..Known::default() }
    }
}
