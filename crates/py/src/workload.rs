//! `_core.Workload`.

use crate::errors;
use crate::platform::Platform;
use crate::signals::minded;
use pyo3::prelude::*;
use std::path::PathBuf;
use trace::chakra::ReadOptions;

#[pyclass(frozen)]
pub struct Workload(pub graph::Workload);

#[pymethods]
impl Workload {
    #[staticmethod]
    #[pyo3(signature = (path, platform = None, groups = None))]
    fn load(py: Python<'_>, path: PathBuf, platform: Option<&Platform>, groups: Option<String>) -> PyResult<Workload> {
        let npus = platform.map(|p| p.0.fabric.npus());
        let options = platform.map(options).unwrap_or_default();
        let read = minded(py, move || {
            let groups = groups.map_or(Ok(Vec::new()), |file| sim::config::astra_sim::groups(&file, npus))?;
            trace::chakra::read(&path, npus, &groups, &options)
        })?;
        read.map(Workload).map_err(|problems| errors::input(py, &problems))
    }

    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks.len()
    }

    #[getter]
    fn operations(&self) -> u64 {
        self.0.operations()
    }
}

fn options(platform: &Platform) -> ReadOptions {
    ReadOptions { peer_compat: false, replay: platform.0.scheduler.replay_only }
}
