//! Files and arguments become a [`crate::platform::Platform`]: native YAML, presets, ASTRA-sim's
//! own files, inline notation.
//!
//! Here: the readers, `--set` overrides, and printing a platform back. Every fault is a
//! `graph::Problem` with file, place, value and what is allowed; all faults of all files are
//! reported at once. Not here: traces and custom algorithms (`trace`), and whether an algorithm
//! suits a dimension (`collective`).

pub mod astra_sim;
pub(crate) mod file;
pub mod native;

pub use file::Load;
pub use native::{load, load_with};
