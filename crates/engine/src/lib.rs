//! The event queue and the total event order.
//!
//! Here: [`EventQueue`], which hands events back by (time, order), [`Digest`],
//! [`Histogram`] and [`Random`]. Not here: what
//! an event means (`sim`, `net-*`). Events of one instant leave in the order in which they were
//! scheduled. That is the only tie-break, so a run is reproducible.

mod digest;
mod histogram;
mod queue;
mod random;

pub use digest::Digest;
pub use histogram::Histogram;
pub use queue::EventQueue;
pub use random::Random;
