//! Collective algorithms as pure plans: who sends what to which rank, in which order. Knows ranks
//! and bytes; not time, not backends.
//!
//! Here: [`Plan`] and [`Script`] (one phase on one group), [`Follower`] (which step of a script may
//! fire), one file per algorithm, the split of a collective into phases over dimensions, custom
//! algorithms from files, and the symbolic checker that proves each plan. Not here: when a message
//! arrives (`executor`, `net-*`).

mod algorithm;
pub mod bidirectional_ring;
pub mod binomial;
mod content;
pub mod custom;
pub mod direct;
pub mod double_binary_tree;
mod error;
mod follower;
pub mod halving_doubling;
pub mod in_network;
mod make;
pub mod phases;
mod plan;
pub mod prove;
pub mod ring;

pub use algorithm::{Algorithm, PlanRequest, is_rooted};
pub use error::PlanError;
pub use follower::{Fired, Follower};
pub use make::{MAX_STEPS, plan};
pub use phases::{Hierarchy, Phase, phases};
pub use plan::{Plan, Script, Step, To};
pub use prove::prove;
