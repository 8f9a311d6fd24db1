//! `_core.Platform`.

use crate::errors;
use crate::kinds::collective_kind;
use crate::program::Program;
use graph::Problem;
use kernels::Kernel;
use lowering::library;
use platform::config::native::{self, Donor, InlinePlatform};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::OnceLock;
use topology::{Block, Paths, Symmetry};
use units::Bytes;

/// File, place, message and what is allowed.
type Owned = (String, String, String, String);
type Pairs = Vec<(String, String)>;
/// Time of a kernel, its operations and bytes, and the times of its parts; seconds.
type KernelParts = (f64, f64, f64, Vec<(String, f64)>);

#[pyclass(frozen)]
pub struct Platform(pub platform::Platform);

/// Presets that have what a platform may leave out: those of the first folders that are asked
/// about, for a process has only one set of them.
static DONORS: OnceLock<Vec<Donor>> = OnceLock::new();

fn platform(
    py: Python<'_>,
    search: &[PathBuf],
    read: Result<platform::Platform, Vec<Problem>>,
) -> PyResult<Platform> {
    let mut platform = read.map_err(|problems| errors::input(py, &problems))?;
    // A platform without a peak is like nothing, and reading all presets takes 0.1 s.
    if platform.library.is_none() && platform.npu.peak.is_some() {
        platform.like = native::like(&platform, DONORS.get_or_init(|| native::donors(search)));
    }
    Ok(Platform(platform))
}

fn shape_error(py: Python<'_>, message: String) -> PyErr {
    errors::input(py, &[Problem::new("", "kernel", message)])
}

fn kernels_of(py: Python<'_>, shapes: &str) -> PyResult<Vec<Kernel>> {
    serde_json::from_str(shapes).map_err(|error| shape_error(py, error.to_string()))
}

impl Platform {
    fn kernel(&self, py: Python<'_>, kernel: &Kernel) -> PyResult<kernels::Estimate> {
        self.0.kernel(kernel).map_err(|refused| shape_error(py, refused.reason().to_string()))
    }
}

/// Every block of a topology: name, short name, by what messages pass (`direct`, `switched`,
/// `relayed`) and which places look alike (`full`, `rotation`, `none`).
#[pyfunction]
pub fn blocks() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let words = |block: &Block| {
        let paths = match block.paths() {
            Paths::Direct => "direct",
            Paths::Switched => "switched",
            Paths::Relayed => "relayed",
        };
        let symmetry = match block.symmetry() {
            Symmetry::Full => "full",
            Symmetry::Rotation => "rotation",
            Symmetry::None => "none",
        };
        (block.name(), block.short(), paths, symmetry)
    };
    Block::ALL.iter().map(words).collect()
}

/// Every key of a platform file: as `--set` takes it, the type of its value, what is
/// used without it, its meaning, and whether it is a mapping.
#[pyfunction]
pub fn platform_keys() -> Vec<(String, String, String, String, bool)> {
    let row = |key: native::Listed| (key.settable, key.kind, key.absent, key.doc, key.section);
    native::keys().into_iter().map(row).collect()
}

/// Whether `needed` bytes fit a memory of `capacity` bytes: `yes`, `near` or `no`.
#[pyfunction]
pub fn fits(needed: u128, capacity: u64) -> &'static str {
    platform::Fits::of(needed, Bytes(capacity)).word()
}

/// The most bytes that fit a memory of `capacity` bytes, and the most that may.
#[pyfunction]
pub fn fit_limits(capacity: u64) -> (u64, u64) {
    platform::Fits::limits(Bytes(capacity))
}

#[pymethods]
impl Platform {
    #[staticmethod]
    fn load(
        py: Python<'_>,
        name: &str,
        search: Vec<PathBuf>,
        settings: Pairs,
    ) -> PyResult<Platform> {
        platform(py, &search, native::load_with(name, &search, &settings))
    }

    /// The platform, and a file that reads back to it in which comments say where values come from.
    #[staticmethod]
    fn explain(
        py: Python<'_>,
        name: &str,
        search: Vec<PathBuf>,
        settings: Pairs,
    ) -> PyResult<(Platform, String)> {
        let read = native::explain(name, &search, &settings);
        let (read, text) = match read {
            Ok((read, text)) => (Ok(read), text),
            Err(problems) => (Err(problems), String::new()),
        };
        Ok((platform(py, &search, read)?, text))
    }

    #[staticmethod]
    fn parse(
        py: Python<'_>,
        text: &str,
        name: &str,
        search: Vec<PathBuf>,
        settings: Pairs,
    ) -> PyResult<Platform> {
        platform(py, &search, native::from_yaml_with(text, name, &search, &settings))
    }

    #[staticmethod]
    fn inline(
        py: Python<'_>,
        topology: String,
        bandwidth: Vec<String>,
        latency: Vec<String>,
        per: Vec<String>,
        search: Vec<PathBuf>,
        settings: Pairs,
    ) -> PyResult<Platform> {
        platform(
            py,
            &search,
            native::inline(&InlinePlatform { topology, bandwidth, latency, per, set: settings }),
        )
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn source(&self) -> &str {
        &self.0.source
    }

    #[getter]
    fn npus(&self) -> u32 {
        self.0.fabric.npus()
    }

    /// The backend of a run that names none.
    #[getter]
    fn backend(&self) -> &'static str {
        self.0.network.model.name()
    }

    #[getter]
    fn has_library(&self) -> bool {
        self.0.library.is_some()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    fn library_choice(
        &self,
        py: Python<'_>,
        kind: &str,
        bytes: u64,
    ) -> PyResult<Option<(&str, &str, u64)>> {
        let kind = collective_kind(kind).map_err(|problem| errors::input(py, &[problem]))?;
        let found = library::choice(&self.0, kind, bytes);
        Ok(found.map(|p| (p.algorithm.name(), p.protocol.name(), p.time.0)))
    }

    fn library_message(&self, bytes: u64) -> Option<u64> {
        library::message_time(&self.0, bytes).map(|span| span.0)
    }

    fn library_times(
        &self,
        py: Python<'_>,
        changes: Vec<(String, f64)>,
        kind: &str,
        bytes: Vec<u64>,
    ) -> PyResult<Option<Vec<f64>>> {
        let kind = collective_kind(kind).map_err(|problem| errors::input(py, &[problem]))?;
        library::times(&self.0, &changes, kind, &bytes).map_err(|key| {
            let problem =
                Problem::new("", format!("library.{key}"), "the library has no such parameter");
            errors::input(py, &[problem])
        })
    }

    /// Name and picoseconds of every computation and access to memory.
    fn times(&self, py: Python<'_>, program: &mut Program) -> PyResult<Vec<(String, u64)>> {
        let found = program.build().and_then(|(program, _)| {
            let times = lowering::compute::alone(&self.0, &program)?;
            let named = times.into_iter().map(|(i, span)| (program.name(i).to_string(), span.0));
            Ok(named.collect())
        });
        found.map_err(|problem: Problem| errors::input(py, &[problem]))
    }

    /// Seconds that each of the kernels takes alone. `shapes` is a JSON list of kernels.
    fn kernel_times(&self, py: Python<'_>, shapes: &str) -> PyResult<Vec<f64>> {
        let of = |kernel: &Kernel| Ok(self.kernel(py, kernel)?.seconds);
        kernels_of(py, shapes)?.iter().map(of).collect()
    }

    /// Seconds, operations and bytes of a kernel, and seconds of its parts. `shape` is a JSON list of one kernel.
    fn kernel_parts(&self, py: Python<'_>, shape: &str) -> PyResult<KernelParts> {
        let [kernel] = kernels_of(py, shape)?[..] else {
            return Err(shape_error(py, "one kernel is expected".into()));
        };
        let estimate = self.kernel(py, &kernel)?;
        let parts = estimate.parts.into_iter().map(|(name, time)| (name.to_string(), time));
        Ok((estimate.seconds, estimate.operations, estimate.bytes, parts.collect()))
    }

    /// Name of the NPU, and the generation whose kernels its parameters are fitted to.
    fn kernel_origin(&self) -> (String, Option<String>) {
        let npu = &self.0.npu;
        (npu.name.clone(), npu.kernels.as_ref().map(|kernels| kernels.generation.clone()))
    }

    /// Path of the file of measured kernels, if the platform names one.
    fn kernel_table(&self) -> Option<String> {
        self.0.npu.kernels.as_ref().and_then(|kernels| kernels.measured.clone())
    }

    fn fits(&self, needed: u128) -> Option<&'static str> {
        self.0.npu.fits(needed).map(platform::Fits::word)
    }

    /// Faults of the files that it names, and unknown properties of them.
    fn findings(&self) -> (Vec<Owned>, Vec<String>) {
        let owned = |p: Problem| (p.file, p.place, p.message, p.help);
        let found = sim::named_files::findings(&self.0);
        (found.problems.into_iter().map(owned).collect(), found.warnings)
    }

    fn to_json(&self) -> String {
        native::to_json(&self.0).to_string()
    }

    /// The network as pages draw it, as JSON; nothing for stacks that are not grids.
    fn picture(&self) -> Option<String> {
        sim::picture_json(&self.0.fabric)
    }

    /// Every node and cable of the network, as JSON; nothing for one with more than `most` one-way
    /// links.
    fn wiring(&self, most: u32) -> Option<String> {
        sim::wiring_json(&self.0.fabric, most)
    }

    /// Parts and capacity of the network, as JSON; nothing for one without links.
    fn network_facts(&self) -> Option<String> {
        let facts = self.0.fabric.facts().ok()?;
        let shown = serde_json::json!({
            "npus": facts.npus,
            "switches": facts.switches,
            "links": facts.links,
            "diameter": facts.diameter,
            "bisection": facts.bisection.map(|b| b.0),
        });
        Some(shown.to_string())
    }

    fn to_yaml(&self) -> String {
        native::to_yaml(&self.0)
    }
}
