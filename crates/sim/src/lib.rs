//! The simulator: configuration, choice of parts, executor, scheduler, symmetry classes and the main path.

pub mod platform;
pub mod profile;
