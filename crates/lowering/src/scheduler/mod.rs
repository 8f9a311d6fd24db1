//! The order in which each chunk of a collective goes through the dimensions: a list of orders, one
//! for each chunk.
//!
//! Here: the contract, and what schedulers share. Each scheduler has a file (`baseline.rs`,
//! `themis.rs`, `offline_greedy.rs`, `all_at_once.rs`). `predict.rs` gives the time of one phase by itself,
//! `pipeline.rs` that of a whole collective. Not here: how phases follow from an order
//! (`collective::phases`), who goes first within a dimension (`Policy`), and when a chunk starts
//! (`executor/phases.rs`).
//!
//! A schedule is a function of the collective alone, so all members choose the same one, whether
//! the run is folded or not. For a chunk of `m` bytes on `N` NPUs an NPU sends `2 m (1 - 1/N)`
//! bytes in any order: orders only move load between dimensions.

mod all_at_once;
mod baseline;
mod job;
mod offline_greedy;
mod pipeline;
pub mod predict;
#[cfg(test)]
mod tests;
mod themis;

pub use all_at_once::Share;
pub use job::{Costs, Job, Order};

use graph::Problem;
use platform::DimensionOrder;
#[cfg(test)]
use units::Span;

/// The order of every chunk; empty: all take the baseline's.
///
/// # Errors
/// Those of `costs`: an algorithm that cannot run a phase on its dimension.
pub fn orders(policy: DimensionOrder, job: &Job, costs: &Costs) -> Result<Vec<Order>, Problem> {
    match policy {
        _ if !job.has_choice() => Ok(Vec::new()),
        DimensionOrder::Baseline | DimensionOrder::AllAtOnce => Ok(Vec::new()),
        DimensionOrder::Themis => themis::orders(job, costs),
        DimensionOrder::OfflineGreedy => offline_greedy::orders(job, costs),
    }
}

/// The shares of a collective that uses `dims` dimensions at once; `job` is one chunk of it, if its
/// dimensions are those of the network.
///
/// # Errors
/// Those of `costs`.
pub fn shares(dims: usize, job: Option<(&Job, &Costs)>) -> Result<Vec<Share>, Problem> {
    match job {
        Some((job, costs)) => all_at_once::shares(job, costs),
        None => Ok(all_at_once::equal(dims)),
    }
}

/// When a collective that runs alone is predicted to end by the baseline.
#[cfg(test)]
pub fn predicted_end(job: &Job, costs: &Costs) -> Result<Span, Problem> {
    pipeline::end(job, &baseline::orders(job), costs)
}
