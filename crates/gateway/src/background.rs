//! Threads beside the control thread, which end with what they are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A thread that is told to stop, woken and waited for when this is dropped.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs it until its flag is set; where it rests it parks, so that it can be woken.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(name: &str, run: impl FnOnce(&AtomicBool) + Send + 'static) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&told))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it was logged.
            let _ = thread.join();
        }
    }
}
