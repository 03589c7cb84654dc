//! The events that a piece of code emits.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// Lines of this thread, while somebody wants them.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// For all threads and for good. With a subscriber for each test, an event's first use on another thread at the wrong time
/// has it looked on as unwanted.
struct Collector;

/// A line of `key=value`.
struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Writing to a text does not fail.
        let _ = write!(self.0, " {field}={value}");
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        LINES.with_borrow_mut(|lines| {
            let Some(lines) = lines else { return };
            let metadata = event.metadata();
            let mut line = Line(format!("level={} target={}", metadata.level(), metadata.target()));
            event.record(&mut line);
            lines.push(line.0);
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// From now on every event counts as wanted, on every thread.
pub fn want_all() {
    static ONCE: Once = Once::new();
    // Another one for all threads does as well.
    ONCE.call_once(|| drop(tracing::subscriber::set_global_default(Collector)));
}

/// What this thread emits while it runs that: a line an event, `level=WARN target=n4 message=… event=association_lost …`.
pub fn emitted(run: impl FnOnce()) -> Vec<String> {
    want_all();
    LINES.set(Some(Vec::new()));
    run();
    LINES.take().unwrap_or_default()
}
