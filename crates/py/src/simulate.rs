//! `_core.simulate`, `_core.collective`, `_core.check` and what they return.

use crate::errors;
use crate::kinds::collective_kind;
use crate::platform::Platform;
use crate::signals::{Desk, minded};
use crate::workload::Workload;
use executor::observe::TimelineRequest;
use graph::{Node, Op, Problem, ProgramBuilder};
use lowering::contents::{self, Fullest};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sim::Error;
use sim::estimate::Estimate;
use sim::{BackendKind, Config, Source, Watch, contract};
use std::ops::Range;
use std::path::PathBuf;
use units::{Bytes, Span};

#[pyclass(frozen)]
pub struct Outcome {
    outcome: sim::Outcome,
    json: String,
}

#[pymethods]
impl Outcome {
    fn report(&self) -> &str {
        &self.json
    }

    #[getter]
    fn step_ps(&self) -> u64 {
        self.outcome.classes.iter().map(|class| class.finish.0).max().unwrap_or(0)
    }

    #[getter]
    fn digest(&self) -> &str {
        &self.outcome.report.digest
    }

    fn finish_ps(&self) -> Vec<u64> {
        self.ranks().map(|rank| self.outcome.finish(rank).0).collect()
    }

    fn finish_minus_compute_ps(&self) -> Vec<u64> {
        self.ranks().map(|rank| self.outcome.exposed(rank).0).collect()
    }

    #[getter]
    fn simulated_ranks(&self) -> u64 {
        self.outcome.simulated_ranks
    }

    #[getter]
    fn events(&self) -> u64 {
        self.outcome.events
    }

    #[getter]
    fn timeline(&self) -> Option<(u32, u32, u64)> {
        self.outcome.timeline.map(|timeline| (timeline.shown, timeline.of, timeline.packets))
    }
}

impl Outcome {
    fn ranks(&self) -> Range<u32> {
        0..self.outcome.report.ranks as u32
    }
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // one for each of the function's named arguments in Python
pub fn simulate(
    py: Python<'_>,
    workload: &Workload,
    platform: &Platform,
    backend: Option<&str>,
    fold: bool,
    detail: bool,
    timeline: Option<PathBuf>,
    ranks: Vec<u32>,
    capture: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    let config = Config {
        workload: Source::Built(Box::new(workload.0.clone())),
        groups: Vec::new(),
        platform: platform.0.clone(),
        backend: chosen(backend, platform).map_err(|problem| errors::input(py, &[problem]))?,
        fold,
        watch: Watch {
            detail,
            timeline: timeline.map(|path| TimelineRequest { path, ranks }),
            capture,
        },
    };
    run(py, config, progress)
}

#[pyfunction]
#[allow(clippy::too_many_arguments)] // one for each of the function's named arguments in Python
pub fn collective(
    py: Python<'_>,
    kind: &str,
    bytes: u64,
    platform: &Platform,
    backend: Option<&str>,
    fold: bool,
    root: u32,
    progress: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    let npus = platform.0.fabric.npus();
    let wrong = |problem| errors::input(py, &[problem]);
    let config = Config {
        workload: Source::Built(Box::new(one_collective(kind, bytes, root, npus).map_err(wrong)?)),
        groups: Vec::new(),
        platform: platform.0.clone(),
        backend: chosen(backend, platform).map_err(wrong)?,
        fold,
        watch: Watch::default(),
    };
    run(py, config, progress)
}

/// When the nodes of some ranks of a workload end, by rank and node, in ps.
#[pyfunction]
pub fn ends(
    py: Python<'_>,
    workload: &Workload,
    platform: &Platform,
    backend: Option<&str>,
    ranks: Vec<u32>,
) -> PyResult<Vec<Vec<u64>>> {
    let config = Config {
        workload: Source::Built(Box::new(workload.0.clone())),
        groups: Vec::new(),
        platform: platform.0.clone(),
        backend: chosen(backend, platform).map_err(|problem| errors::input(py, &[problem]))?,
        fold: true,
        watch: Watch::default(),
    };
    let ended =
        minded(py, None, move |desk| sim::ends(&config, &mut |progress| desk.goes_on(progress)))?;
    let (outcome, times) = ended.map_err(|error| errors::run(py, error))?;
    let of = |rank: u32| {
        let at = outcome.class_of.as_ref().map_or(rank, |classes| classes[rank as usize]);
        times.get(at as usize).map_or_else(Vec::new, |times| times.iter().map(|t| t.0).collect())
    };
    Ok(ranks.into_iter().map(of).collect())
}

/// File, place, message and help of a problem.
type Said = (String, String, String, String);

#[pyfunction]
pub fn check(
    py: Python<'_>,
    workload: &Workload,
    platform: &Platform,
    backend: Option<&str>,
) -> PyResult<(Vec<Said>, Vec<String>)> {
    let backend = chosen(backend, platform).map_err(|problem| errors::input(py, &[problem]))?;
    let owned = |p: Problem| (p.file, p.place, p.message, p.help);
    let (workload, platform) = (workload.0.clone(), platform.0.clone());
    match minded(py, None, move |_| sim::check(&workload, &platform, &backend))? {
        Ok(warnings) => Ok((Vec::new(), warnings)),
        Err(Error::Input(problems)) => Ok((problems.into_iter().map(owned).collect(), Vec::new())),
        Err(error) => Err(errors::run(py, error)),
    }
}

/// Finding of the conformance suite about a backend on the network of a platform: the traffic, the
/// number of messages, and the first rule that was broken.
#[pyfunction]
pub fn check_backend(
    py: Python<'_>,
    platform: &Platform,
    backend: &str,
) -> PyResult<Vec<(String, usize, Option<String>)>> {
    let wrong = |problem| errors::input(py, &[problem]);
    let backend = chosen(Some(backend), platform).map_err(wrong)?;
    let platform = platform.0.clone();
    let found = minded(py, None, move |_| contract::check(&platform, &backend))?.map_err(wrong)?;
    Ok(found.into_iter().map(|f| (f.traffic.to_string(), f.messages, f.violation)).collect())
}

/// The fullest memory of each kind outside of the NPUs, as far as it is known before a run: its name,
/// the ranks whose tensors lie in it, their bytes, and its capacity.
#[pyfunction]
pub fn outside(
    workload: &Workload,
    platform: &Platform,
) -> Vec<(&'static str, u32, u128, Option<u128>)> {
    let found = contents::of(&workload.0, &platform.0).fullest(&workload.0);
    let row =
        |memory: Fullest| (memory.store.name, memory.ranks, memory.bytes, memory.store.capacity);
    found.into_iter().map(row).collect()
}

/// The backend of this name; without a name the one that the platform asks for.
fn chosen(name: Option<&str>, platform: &Platform) -> Result<BackendKind, Problem> {
    name.map_or_else(|| Ok(BackendKind::of(&platform.0)), str::parse)
}

/// Runs without the GIL, minding signals.
fn run(py: Python<'_>, config: Config, progress: Option<Py<PyAny>>) -> PyResult<Outcome> {
    let outcome = run_with_estimate(py, config, progress)?;
    let json = serde_json::to_string_pretty(&outcome.report)
        .map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    Ok(Outcome { outcome, json })
}

/// Runs what this machine's memory can hold, after a warning where it will take long.
pub fn run_with_estimate(
    py: Python<'_>,
    config: Config,
    progress: Option<Py<PyAny>>,
) -> PyResult<sim::Outcome> {
    let available: Option<u64> =
        py.import("armillary.machine")?.call_method0("available")?.extract()?;
    let ended = minded(py, progress, move |desk| {
        let mut on_estimate = |estimate: &Estimate| {
            if let Some(problem) = available.and_then(|bytes| estimate.refusal(bytes)) {
                return Err(Error::Input(vec![problem]));
            }
            if warned(estimate, desk) { Ok(()) } else { Err(Error::Cancelled) }
        };
        sim::run_with_estimate(&config, &mut on_estimate, &mut |progress| desk.goes_on(progress))
    })?;
    ended.map_err(|error| errors::run(py, error))
}

/// Events from which a run takes more than a minute.
const LONG: u128 = 200_000_000;

/// Warns Python of a run that will take long. False when Python does not want it then.
fn warned(estimate: &Estimate, desk: &Desk) -> bool {
    if estimate.events < LONG {
        return true;
    }
    let expected = (estimate.ranks, estimate.events, estimate.reason.clone());
    desk.ask(move |py| {
        py.import("armillary.machine")?.call_method1("warn_of_long_run", expected).map(|_| ())
    })
}

/// Names of the network backends, the default first, and what each is.
#[pyfunction]
pub fn backends() -> Vec<(String, &'static str)> {
    BackendKind::ALL.iter().map(|kind| (kind.name().to_string(), kind.about())).collect()
}

/// Whether a run takes this name of a backend.
#[pyfunction]
pub fn is_backend(name: &str) -> bool {
    name.parse::<BackendKind>().is_ok()
}

/// A workload in which everybody takes part in one collective.
fn one_collective(
    kind: &str,
    bytes: u64,
    root: u32,
    npus: u32,
) -> Result<graph::Workload, Problem> {
    let kind = collective_kind(kind)?;
    if root >= npus {
        return Err(Problem::new("", "root", format!("rank {root} does not exist"))
            .help(format!("0 to {}", npus - 1)));
    }
    let op =
        Op::Collective { kind, bytes: Bytes(bytes), slot: 0, priority: 0, dims: u32::MAX, root };
    let mut program = ProgramBuilder::default();
    program.push(Node { id: 0, duration: Span::ZERO, op }, kind.name(), []);
    let program = program.build().map_err(|e| Problem::new("", "collective", e.to_string()))?;
    Ok(graph::Workload::uniform(program, npus))
}
