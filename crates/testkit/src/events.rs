//! The events that a piece of code emits.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

struct Collector(Arc<Mutex<Vec<String>>>);

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
        let metadata = event.metadata();
        let mut line = Line(format!("level={} target={}", metadata.level(), metadata.target()));
        event.record(&mut line);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What this thread emits while it runs that: a line an event, `level=WARN target=n4 message=… event=association_lost …`.
pub fn emitted(run: impl FnOnce()) -> Vec<String> {
    let lines = Arc::default();
    tracing::subscriber::with_default(Collector(Arc::clone(&lines)), run);
    std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner))
}
