//! The simulator: configuration, choice of parts, executor, scheduler, symmetry classes and the
//! main path.
//!
//! Start at [`run::run`].

mod assumptions;
pub mod astra_sim;
mod backends;
mod bounds;
mod check;
mod compute;
pub mod config;
pub mod custom_files;
pub mod error;
pub mod estimate;
pub mod executor;
pub mod floor;
mod labels;
pub mod library;
pub mod lowering;
mod memory;
mod names;
pub mod native;
pub mod observe;
pub mod platform;
pub mod profile;
mod report;
pub mod run;
pub mod scheduler;
pub mod settings;
pub mod shape;
mod symmetry;
pub mod text;
