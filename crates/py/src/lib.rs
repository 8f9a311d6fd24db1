//! The Python face of the simulator: `armillary._core`.
//!
//! Here: conversions, exceptions, the GIL and signals (`signals.rs`), and ASTRA-sim's command line
//! (`astra_sim.rs`). Not here: anything a number depends on (`sim`), and what people see
//! (`python/armillary`). Signatures and their documentation are in `python/armillary/_core.pyi`.

mod amounts;
mod astra_sim;
mod cones;
mod errors;
mod kinds;
mod layouts;
mod network;
mod platform;
mod program;
mod serve;
mod serve_timeline;
mod signals;
mod simulate;
mod traffic;
mod workload;

use pyo3::prelude::*;

/// The native half of `armillary`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::astra_sim::{astra_sim, astra_sim_1};
    #[pymodule_export]
    use super::cones::cones;
    #[pymodule_export]
    use super::layouts::{LayoutSpace, memory, passes};
    #[pymodule_export]
    use super::network::Network;
    #[pymodule_export]
    use super::platform::{Platform, blocks, fit_limits, fits, platform_keys};
    #[pymodule_export]
    use super::program::Program;
    #[pymodule_export]
    use super::program::Script;
    #[pymodule_export]
    use super::serve::{Served, balances, prefix_hits, serve_requests};
    #[pymodule_export]
    use super::signals::{end_after_signals, interruption_is_said};
    #[pymodule_export]
    use super::simulate::{
        Outcome, backends, check, check_backend, collective, ends, is_backend, outside, simulate,
    };
    #[pymodule_export]
    use super::traffic::Traffic;
    #[pymodule_export]
    use super::version;
    #[pymodule_export]
    use super::workload::Workload;
    #[pymodule_export]
    use pyo3::panic::PanicException;
}

#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
