//! The executor: runs every rank's program over one network backend. Observers hear of it.
//!
//! Start at [`Executor`]. The main loop is in `executor/mod.rs`, the state in `parts/`. Not here:
//! what collectives and computations become (crate `lowering`), which ranks are alike and what a
//! report contains (crate `sim`).

mod charge;
mod executor;
mod folding;
mod names;
pub mod observe;
mod parts;
mod pool_sharing;
mod settings;

pub use executor::{
    ANNOUNCEMENT, Change, Delays, Executor, Finished, Halt, NetworkStall, Progress, RankTotals,
    Stall,
};
pub use folding::{Folding, SlotClass};
pub use pool_sharing::{Group, PoolAccesses, Wanted};
pub use settings::Settings;
