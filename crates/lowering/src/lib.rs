//! Lowering of a workload to a platform: collectives as chunks, phases and plans, computations and
//! accesses to memory as durations.
//!
//! Start at [`Lowering`] and [`of`], which picks the one of the platform's profile. Pure: no state,
//! no network, no order of events (crate `executor`).

pub mod astra_sim;
pub mod compute;
pub mod contents;
pub mod library;
pub mod loopback;
mod lowered;
pub mod memory;
mod native;
mod pattern;
mod remote;
pub mod scheduler;
pub mod shape;

pub use lowered::{
    Directed, Filter, Geometry, Lane, Lowered, Lowering, PhaseSpec, ReadyPlan, Request, buffer,
    custom, regular,
};
pub use native::NativeLowering;
pub use shape::{Line, Shape, Shapes};

use astra_sim::AstraSimLowering;
use graph::Workload;
use platform::{Platform, Profile};

/// The lowering of the platform's profile, for a workload.
pub fn of<'a>(platform: &'a Platform, workload: &'a Workload) -> Box<dyn Lowering + 'a> {
    match &platform.profile {
        Profile::Native => {
            let native = NativeLowering::new(platform, platform.sizes());
            Box::new(native.of_workload(workload))
        }
        Profile::AstraSim(parameters) => {
            Box::new(AstraSimLowering::new(platform, parameters, platform.sizes()))
        }
    }
}
