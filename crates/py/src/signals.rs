//! Long work without the GIL that still minds signals.
//!
//! The work runs on a thread of its own. The thread that called it, where Python handles signals,
//! waits for it. Not here: what is worth it (its callers).

#![allow(unsafe_code)] // `_exit`, which ends a process at once

use executor::Progress;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use std::io::{Read, Write, pipe, stderr};
use std::os::fd::IntoRawFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How often the Python callback is called at most: a screen needs no more.
const CALLBACK_EVERY: Duration = Duration::from_millis(100);
/// How long a signal may wait.
const SIGNALS_EVERY: Duration = Duration::from_millis(20);
/// How long work that is to stop may go on before it is left to end by itself.
const GRACE: Duration = Duration::from_millis(700);
/// Bytes of the stack of the work: those of a main thread.
const STACK: usize = 8 << 20;

/// State that the work and the thread that waits for it share.
#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    progress: Mutex<Option<Progress>>,
}

/// A question of the work to Python, and where the work waits for the end of it.
type Question = (Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>, Sender<()>);

/// Where work on its own thread says how far it is, and learns that it must stop.
pub struct Desk {
    shared: Arc<Shared>,
    questions: Sender<Question>,
}

impl Desk {
    /// Notes the progress. False when the work must stop.
    pub fn goes_on(&self, progress: Progress) -> bool {
        if let Ok(mut seen) = self.shared.progress.try_lock() {
            *seen = Some(progress);
        }
        !self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Lets Python answer on the thread that called. False when it raised an error, and the work
    /// must stop.
    pub fn ask(&self, question: impl FnOnce(Python<'_>) -> PyResult<()> + Send + 'static) -> bool {
        let (done, wait) = channel();
        self.questions.send((Box::new(question), done)).is_ok() && wait.recv().is_ok()
    }
}

/// Runs `work` on a thread while this one minds signals, answers questions and calls `callback`
/// with the progress.
///
/// # Errors
/// Error that a signal handler, a question or the callback raises. The work is then asked to stop, and
/// left to end by itself if it does not hear that soon.
pub fn minded<T: Send + 'static>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&Desk) -> T + Send + 'static,
) -> PyResult<T> {
    let (questions, asked) = channel();
    let shared = Arc::new(Shared::default());
    let desk = Desk { shared: shared.clone(), questions };
    let thread = Builder::new().name("armillary".to_string()).stack_size(STACK);
    let thread = thread
        .spawn(move || work(&desk))
        .map_err(|error| PyMemoryError::new_err(format!("no thread can be started: {error}")))?;
    if let Err(raised) = wait(py, asked, &shared, callback) {
        shared.stopped.store(true, Ordering::Relaxed);
        py.detach(|| wait_a_little(&thread));
        return Err(raised);
    }
    py.detach(|| thread.join()).map_or_else(|panic| resume_unwind(panic), Ok)
}

/// Waits until the work has ended, however it did.
fn wait(
    py: Python<'_>,
    asked: Receiver<Question>,
    shared: &Shared,
    callback: Option<Py<PyAny>>,
) -> PyResult<()> {
    // No other thread locks it: the mutex only makes the receiver shareable with the closure.
    let asked = Mutex::new(asked);
    let mut called = Instant::now();
    loop {
        let got = py.detach(|| {
            asked.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS_EVERY)
        });
        match got {
            Ok((question, done)) => {
                question(py)?;
                // The work that waits for it may have ended.
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The work has dropped its desk.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        py.check_signals()?;
        let Some(callback) = callback.as_ref().filter(|_| called.elapsed() >= CALLBACK_EVERY)
        else {
            continue;
        };
        called = Instant::now();
        let seen = shared.progress.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Progress { done, total, time_ns }) = seen {
            callback.call1(py, (done as f64 / total.max(1) as f64, time_ns))?;
        }
    }
}

fn wait_a_little<T>(thread: &JoinHandle<T>) {
    let end = Instant::now() + GRACE;
    while !thread.is_finished() && Instant::now() < end {
        sleep(Duration::from_millis(2));
    }
}

/// Whether the user knows that the work was stopped.
static SAID: AtomicBool = AtomicBool::new(false);

/// Notes that the user knows that the work was stopped.
#[pyfunction]
pub fn interruption_is_said() {
    SAID.store(true, Ordering::Relaxed);
}

/// Ends the process `seconds` after one of the `signals`, if it is still there then: work in other
/// libraries may not mind signals. Returns the descriptor for `signal.set_wakeup_fd`.
///
/// # Errors
/// What making a pipe or a thread reports.
#[pyfunction]
pub fn end_after_signals(signals: Vec<u8>, seconds: f64) -> PyResult<i32> {
    let (mut reader, writer) = pipe()?;
    let watch = move || {
        let mut number = [0];
        while reader.read_exact(&mut number).is_ok() {
            if signals.contains(&number[0]) {
                sleep(Duration::from_secs_f64(seconds));
                if !SAID.load(Ordering::Relaxed) {
                    let _ = stderr().write_all(b"\ninterrupted\n");
                }
                // SAFETY: it takes a number, and does not return.
                unsafe { libc::_exit(128 + i32::from(number[0])) };
            }
        }
    };
    Builder::new().name("signals".to_string()).stack_size(1 << 16).spawn(watch)?;
    Ok(writer.into_raw_fd())
}
