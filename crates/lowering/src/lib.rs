//! What a workload becomes on a platform: collectives as chunks, phases and plans, computations and
//! accesses to memory as durations.
//!
//! Start at [`Lowering`] and [`of`], which picks the one of the platform's profile. Pure: no state,
//! no network, no order of events (crate `executor`).

pub mod astra_sim;
pub mod compute;
pub mod library;
pub mod loopback;
mod lowered;
pub mod memory;
mod native;
mod pattern;
pub mod scheduler;
pub mod shape;

pub use lowered::{
    Directed, Filter, Geometry, Lane, Lowered, Lowering, PhaseSpec, ReadyPlan, Request, buffer,
    custom, regular,
};
pub use native::NativeLowering;
pub use shape::{Line, Shape, Shapes};

use astra_sim::AstraSimLowering;
use platform::{Platform, Profile};

/// The lowering of the platform's profile.
pub fn of(platform: &Platform) -> Box<dyn Lowering + '_> {
    match &platform.profile {
        Profile::Native => Box::new(NativeLowering::new(platform, platform.sizes())),
        Profile::AstraSim(parameters) => {
            Box::new(AstraSimLowering::new(platform, parameters, platform.sizes()))
        }
    }
}
