//! The runs of Garnet and BookSim2 on the routers of flits.

pub mod booksim;
mod rings;
mod synthetic;

pub use rings::{Hierarchy, RingOfAll, Rings, all_to_all_on_a_ring};
pub use synthetic::{Bernoulli, Pattern, Synthetic};
