//! Collective algorithms as pure plans: who sends what to whom, in which order. Knows ranks and bytes; not time, not backends.
//!
//! Here: [`Plan`] and [`Script`] (one phase on one group), one algorithm a file, the split of a collective into phases over
//! dimensions, custom algorithms from files, and the symbolic checker that proves each plan.
//! Not here: when a step starts (`sim`) and how long a transfer takes (`net-*`).

pub mod custom;
mod plan;

pub use plan::{Plan, Script, Step, To};
