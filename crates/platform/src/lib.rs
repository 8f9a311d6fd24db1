//! The platform: network, NPUs, memory, collective and scheduling choices, and the files they are
//! read from.
//!
//! Start at [`Platform`]; files become one in [`config`]. Not here: what a platform makes of a
//! workload (crates `lowering` and `executor`).

pub mod config;
pub mod custom_files;
mod fits;
mod kernel_times;
pub mod library;
mod platform;
mod profile;
pub mod routes_file;

pub use config::native::network::{Network, NetworkModel};
pub use fits::{BAND_PERCENT, Fits};
pub use platform::{
    Algorithm, Choice, Collectives, CustomAlgorithm, CustomPaths, DimensionOrder, Dispatch,
    Exceeded, Hierarchy, Launch, Like, Measured, Npu, Platform, Policy, Queues, Rings, Scheduler,
};
pub use profile::{AstraSimParameters, Profile, SharedBus};
