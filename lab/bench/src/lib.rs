//! Shared parts of the benchmarks: the clock, the peer's recorded figures, and generated inputs.
//!
//! Here: [`clock`] (CPU time), [`peer`] (ASTRA-sim's figures as data), [`inputs`] (files and
//! configurations), [`gpt`] and [`chains`] (workloads). Not here: what is measured (`lab/bench/`),
//! what was measured (`lab/results/`).

pub mod chains;
pub mod clock;
pub mod gpt;
pub mod inputs;
pub mod peer;
