//! The runs of reference files of other simulators, straight on a network: no executor decides what
//! is sent when. Settings and results: `armillary_lab.peers.flits`.

pub mod booksim;
mod rings;
mod synthetic;

pub use rings::{Hierarchy, RingOfAll, Rings, all_to_all_on_a_ring};
pub use synthetic::{Bernoulli, Pattern, Synthetic};
