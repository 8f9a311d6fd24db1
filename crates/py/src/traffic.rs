//! `_core.traffic`: synthetic traffic at one load, and what goes with it.

use crate::errors;
use crate::platform::Platform;
use crate::signals::minded;
use executor::Progress;
use graph::Problem;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sim::BackendKind;
use sim::traffic::{
    Arrivals, Distribution, Flow, Found, Latency, Load, Outcome, Pattern, Request, Sizes,
};
use units::{PS_PER_NS, Span};

/// Synthetic traffic on the network of a platform.
#[pyclass(frozen)]
pub struct Traffic(Request);

#[pymethods]
impl Traffic {
    /// `pattern` is one of `Traffic.patterns()`, `hotspot` with `hot` and `share`, or `flows`.
    /// `sizes` are points of a distribution, bytes and cumulative share; without them all messages
    /// have `size` bytes.
    #[new]
    #[allow(clippy::too_many_arguments)] // one for each of the named arguments in Python
    fn new(
        py: Python<'_>,
        platform: &Platform,
        backend: &str,
        pattern: &str,
        size: u64,
        sizes: Vec<(u64, f64)>,
        seed: u64,
        hot: Vec<u32>,
        share: f64,
        flows: Vec<(u32, u32, f64)>,
    ) -> PyResult<Traffic> {
        let known = Pattern::NAMED.iter().find(|(name, _, _)| *name == pattern);
        let pattern = match (pattern, known) {
            ("hotspot", _) => Pattern::Hotspot { npus: hot, share },
            ("flows", _) => {
                let flow = |(src, dst, weight)| Flow { src, dst, weight };
                Pattern::Flows(flows.into_iter().map(flow).collect())
            }
            (_, Some((_, _, known))) => known.clone(),
            (name, None) => {
                let problem = Problem::new("", "pattern", format!("unknown pattern \"{name}\""));
                return Err(errors::input(py, &[problem]));
            }
        };
        let backend: BackendKind =
            backend.parse().map_err(|problem: Problem| errors::input(py, &[problem]))?;
        let platform = platform.0.clone();
        let sizes = match sizes[..] {
            [] => Sizes::Fixed(size),
            _ => Sizes::Drawn(Distribution::new(&sizes).map_err(|fault| {
                let allowed = "bytes and shares that rise to 1";
                errors::input(py, &[Problem::new("", "sizes", fault).help(allowed)])
            })?),
        };
        Ok(Traffic(Request { platform, backend, pattern, sizes, seed }))
    }

    /// Patterns without parameters, each with its name and what it is.
    #[staticmethod]
    fn patterns() -> Vec<(&'static str, &'static str)> {
        Pattern::NAMED.iter().map(|&(name, about, _)| (name, about)).collect()
    }

    /// Bytes per second that each NPU could send.
    fn injection(&self, py: Python<'_>) -> PyResult<u64> {
        let platform = self.0.platform.clone();
        let found = minded(py, None, move |_| sim::traffic::injection(&platform))?;
        found.map(|bandwidth| bandwidth.0).map_err(|problem| errors::input(py, &[problem]))
    }

    /// The length of a cycle, ns, and the bytes of a flit; `None` on networks without flits.
    fn cycle(&self, py: Python<'_>) -> PyResult<Option<(f64, u32)>> {
        let found = self.0.cycle().map_err(|problem| errors::input(py, &[problem]))?;
        Ok(found.map(|(cycle, flit)| (cycle.as_ns(), flit)))
    }

    /// Mean latencies of messages alone in the network, ns: of the first of a connection, and of a
    /// later one.
    fn alone(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        let request = self.0.clone();
        let found = minded(py, None, move |_| sim::traffic::alone(&request))?;
        let ns = |ps: f64| ps / PS_PER_NS as f64;
        found.map(|lone| (ns(lone.first), ns(lone.later))).map_err(|error| errors::run(py, error))
    }

    /// Runs a load of `rate` bytes per second from the busiest NPU. `limit` is the mean latency in
    /// ns, or with drawn sizes the mean slowdown, from which the network counts as saturated.
    #[allow(clippy::too_many_arguments)] // one for each of the named arguments in Python
    fn run<'py>(
        &self,
        py: Python<'py>,
        rate: f64,
        periodic: bool,
        precision: f64,
        limit: f64,
        messages_max: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arrivals = if periodic { Arrivals::Periodic } else { Arrivals::Poisson };
        let unit = match self.0.sizes {
            Sizes::Fixed(_) => PS_PER_NS as f64,
            Sizes::Drawn(_) => 1e6,
        };
        let latency_max = Span((limit * unit) as u64);
        let load = Load { rate, arrivals, precision, latency_max, messages_max };
        let request = self.0.clone();
        let found = minded(py, progress, move |desk| {
            sim::traffic::run(&request, &load, &mut |progress| {
                let time_ns = progress.now.as_ns();
                let (done, total) = (progress.messages, progress.messages_max);
                desk.goes_on(Progress { done, total, time_ns })
            })
        })?;
        let found = found.map_err(|error| errors::run(py, error))?;
        written(py, &found)
    }
}

fn written<'py>(py: Python<'py>, found: &Found) -> PyResult<Bound<'py, PyDict>> {
    let measured = &found.measured;
    let outcome = match measured.outcome {
        Outcome::Steady => "steady",
        Outcome::Saturated | Outcome::Stuck(_) => "saturated",
        Outcome::Undecided => "undecided",
    };
    let all = PyDict::new(py);
    all.set_item("outcome", outcome)?;
    all.set_item("messages", measured.messages)?;
    all.set_item("warm_up_messages", measured.warm_up)?;
    all.set_item("offered", measured.offered)?;
    all.set_item("accepted", measured.accepted)?;
    all.set_item("simulated_ns", measured.end.as_ns())?;
    all.set_item("latency", latency(py, &measured.latency)?)?;
    let links: Vec<(&str, u32, f64, f64)> = found
        .names
        .iter()
        .zip(&measured.links)
        .map(|(name, link)| (name.as_str(), link.dim, link.utilisation, link.rate))
        .collect();
    all.set_item("links", links)?;
    if let Some((slowdown, sent)) = &measured.slowdown {
        all.set_item("slowdown", slowdowns(py, slowdown)?)?;
        let sent: Vec<(u32, u32, u64, f64, f64, bool, f64)> = sent
            .iter()
            .map(|one| {
                let (created, took, alone) =
                    (one.created.as_ns(), one.took.as_ns(), one.alone.as_ns());
                (one.src, one.dst, one.bytes, created, took, one.arrived, alone)
            })
            .collect();
        all.set_item("messages_sent", sent)?;
    }
    Ok(all)
}

/// Slowdowns as numbers.
fn slowdowns<'py>(py: Python<'py>, slowdown: &Latency) -> PyResult<Bound<'py, PyDict>> {
    let number = |millionths: u64| millionths as f64 / 1e6;
    let all = PyDict::new(py);
    all.set_item("mean", slowdown.mean / 1e6)?;
    all.set_item("half_width", slowdown.half_width / 1e6)?;
    all.set_item("min", number(slowdown.min))?;
    for (name, value) in ["p50", "p95", "p99", "p99_9"].iter().zip(slowdown.percentiles) {
        all.set_item(name, number(value))?;
    }
    all.set_item("max", number(slowdown.max))?;
    Ok(all)
}

/// Latencies in ns.
fn latency<'py>(py: Python<'py>, latency: &Latency) -> PyResult<Bound<'py, PyDict>> {
    let ns = |ps: u64| Span(ps).as_ns();
    let [p50, p95, p99, p99_9] = latency.percentiles.map(ns);
    let all = PyDict::new(py);
    all.set_item("mean_ns", latency.mean / PS_PER_NS as f64)?;
    all.set_item("half_width_ns", latency.half_width / PS_PER_NS as f64)?;
    all.set_item("min_ns", ns(latency.min))?;
    all.set_item("p50_ns", p50)?;
    all.set_item("p95_ns", p95)?;
    all.set_item("p99_ns", p99)?;
    all.set_item("p99_9_ns", p99_9)?;
    all.set_item("max_ns", ns(latency.max))?;
    Ok(all)
}
