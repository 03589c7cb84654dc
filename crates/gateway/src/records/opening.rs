//! A ledger on its way from one process to the next, which goes on for it.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::LedgerError;

use crate::shell::rest::ControlWaker;

/// Opens and reads a ledger.
type Open<T> = Arc<dyn Fn() -> Result<T, LedgerError> + Send + Sync>;

/// A ledger that the process before has until it ends: a thread reads it then, and calls control.
pub struct Opening<T> {
    open: Open<T>,
    waker: ControlWaker,
    /// Who waits meanwhile.
    waits: &'static str,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Opening<T> {
    /// Of the ledger that `open` opens and reads. `waits` is who waits until it has.
    pub fn new(
        open: impl Fn() -> Result<T, LedgerError> + Send + Sync + 'static,
        waker: ControlWaker,
        waits: &'static str,
    ) -> Self {
        Self { open: Arc::new(open), waker, waits, thread: None }
    }

    /// Begins to read the ledger as soon as the other process has let it go; tries again for as long as that takes.
    ///
    /// # Errors
    /// There is no thread.
    pub fn begin(&mut self) -> io::Result<()> {
        let (open, waker, waits) = (self.open.clone(), self.waker.clone(), self.waits);
        let read = move || loop {
            match open() {
                Ok(read) => {
                    waker.call();
                    return read;
                }
                Err(error) => {
                    let text = format!("the ledger does not open after a take-over: {waits} waits");
                    tracing::error!(target: "ledger", event = "ledger_not_open", %error, "{text}");
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        };
        self.thread = Some(std::thread::Builder::new().name("weir-restore".into()).spawn(read)?);
        Ok(())
    }

    /// What was read, when it has just been; none: not yet, or before.
    pub fn take(&mut self) -> Option<T> {
        let read = self.thread.take_if(|thread| thread.is_finished())?.join();
        if read.is_err() {
            let text =
                format!("the thread that reads the ledger has ended: another one begins, and {} waits", self.waits);
            tracing::error!(target: "ledger", event = "ledger_not_open", "{text}");
            if let Err(error) = self.begin() {
                let text =
                    format!("no thread can read the ledger: {} waits until the gateway is started again", self.waits);
                tracing::error!(target: "ledger", event = "ledger_not_open", %error, "{text}");
            }
        }
        read.ok()
    }

    /// What wakes control when the ledger has been read.
    pub fn waker(&self) -> &ControlWaker {
        &self.waker
    }
}
