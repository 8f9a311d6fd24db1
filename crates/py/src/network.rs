//! `_core.Network`: the network of a platform, driven from Python.

use crate::errors;
use crate::platform::Platform;
use crate::signals::minded;
use executor::Progress;
use graph::{Problem, Reach};
use pyo3::prelude::*;
use sim::{BackendKind, Channel, Exchange};
use std::sync::{Arc, Mutex, MutexGuard};
use units::{Bytes, Span, Time};

/// A network under another front end. Calls are numbered; `advance` returns the numbers that are
/// due.
#[pyclass(frozen)]
pub struct Network {
    exchange: Arc<Mutex<Exchange>>,
    npus: u32,
}

#[pymethods]
impl Network {
    #[new]
    fn new(py: Python<'_>, platform: &Platform, backend: &str) -> PyResult<Network> {
        let parsed: Result<BackendKind, Problem> = backend.parse();
        let kind = parsed.map_err(|problem| errors::input(py, &[problem]))?;
        let (platform, npus) = (platform.0.clone(), platform.0.fabric.npus());
        let made = minded(py, None, move |_| Exchange::new(&platform, &kind))?;
        let exchange = made.map_err(|problem| errors::input(py, &[problem]))?;
        Ok(Network { exchange: Arc::new(Mutex::new(exchange)), npus })
    }

    #[getter]
    fn npus(&self) -> u32 {
        self.npus
    }

    /// Picoseconds.
    #[getter]
    fn now(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open(py)?.now().0)
    }

    fn send(&self, py: Python<'_>, src: u32, dst: u32, bytes: u64, tag: u64) -> PyResult<u64> {
        let sent = self.open(py)?.send(Channel { src, dst, tag }, bytes);
        sent.map_err(|problem| errors::input(py, &[problem]))
    }

    fn receive(&self, py: Python<'_>, src: u32, dst: u32, bytes: u64, tag: u64) -> PyResult<u64> {
        let posted = self.open(py)?.receive(Channel { src, dst, tag }, bytes);
        posted.map_err(|problem| errors::input(py, &[problem]))
    }

    fn schedule(&self, py: Python<'_>, delay: u64) -> PyResult<u64> {
        let scheduled = self.open(py)?.schedule(Span(delay));
        scheduled.map_err(|problem| errors::input(py, &[problem]))
    }

    /// `location` is a reach of accesses to memory.
    fn access(
        &self,
        py: Python<'_>,
        npu: u32,
        bytes: u64,
        location: &str,
        store: bool,
    ) -> PyResult<u64> {
        let reach = Reach::from_name(location).ok_or_else(|| {
            let text = format!("unknown location \"{location}\"");
            let names = Reach::ALL.map(Reach::name).join(", ");
            errors::input(py, &[Problem::new("", "location", text).help(names)])
        })?;
        let begun = self.open(py)?.access(npu, Bytes(bytes), reach, store);
        begun.map_err(|problem| errors::input(py, &[problem]))
    }

    /// Goes on to the next instant at which something is due, at most to `limit`; without one
    /// until nothing is left. Nothing is due when that is reached.
    fn advance(&self, py: Python<'_>, limit: Option<u64>) -> PyResult<Vec<u64>> {
        let limit = limit.map_or(Time::MAX, Time);
        drop(self.open(py)?);
        let exchange = self.exchange.clone();
        let ended = minded(py, None, move |desk| {
            let mut exchange = exchange.lock().expect("no thread panicked with it");
            loop {
                let on = Progress { done: 0, total: 0, time_ns: exchange.now().as_ns() };
                if exchange.is_due() || !desk.goes_on(on) || !exchange.advance(limit)? {
                    return Ok(());
                }
            }
        })?;
        ended.map_err(|error| errors::run(py, error))?;
        Ok(self.open(py)?.due())
    }

    /// Receives without a send.
    fn waiting(&self, py: Python<'_>) -> PyResult<Vec<(String, String, String, String)>> {
        let owned = |p: Problem| (p.file, p.place, p.message, p.help);
        Ok(self.open(py)?.waiting().into_iter().map(owned).collect())
    }
}

impl Network {
    fn open(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Exchange>> {
        self.exchange.try_lock().map_err(|_| {
            let text = "the network still runs: another thread uses it, or a run was stopped";
            errors::input(py, &[Problem::new("", "network", text).help("one thread at a time")])
        })
    }
}
