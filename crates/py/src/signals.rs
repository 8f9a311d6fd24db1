//! Long work without the GIL that still minds Ctrl-C.

use executor::Progress;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the Python callback is called at most: a screen needs no more.
const CALLBACK_EVERY: Duration = Duration::from_millis(100);
/// How long Ctrl-C may wait while files are read.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Runs `work`, which has no hook of its own, on a thread while this one minds signals.
///
/// # Errors
/// What a signal handler raises (the work is then left to end by itself), or that the work
/// panicked.
pub fn minded<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (send, receive) = channel();
    std::thread::spawn(move || send.send(work()));
    let receive = Mutex::new(receive);
    loop {
        // Nobody else locks it: the mutex only makes the receiver shareable with the closure.
        let got = py.detach(|| match receive.lock() {
            Ok(receive) => receive.recv_timeout(SIGNALS_EVERY),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match got {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PanicException::new_err("the reader broke off"));
            }
        }
    }
}

/// The progress hook of a run: minds signals at every call, calls the Python callback now and then.
pub struct Hook {
    callback: Option<Py<PyAny>>,
    called: Instant,
    /// What a signal handler or the callback raised.
    pub raised: Option<PyErr>,
}

impl Hook {
    pub fn new(callback: Option<Py<PyAny>>) -> Hook {
        Hook { callback, called: Instant::now(), raised: None }
    }

    /// False when the run must stop, because of what is in `raised`.
    pub fn call(&mut self, progress: &Progress) -> bool {
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            match &self.callback {
                Some(callback) if self.called.elapsed() >= CALLBACK_EVERY => {
                    self.called = Instant::now();
                    let share = progress.done as f64 / progress.total.max(1) as f64;
                    callback.call1(py, (share, progress.time_ns)).map(|_| ())
                }
                _ => Ok(()),
            }
        });
        self.raised = outcome.err();
        self.raised.is_none()
    }
}
