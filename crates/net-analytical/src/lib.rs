//! Two backends without packets: [`Analytical`] (contention only where messages leave an NPU) and
//! [`LinkQueues`] (first-order contention).
//!
//! Here: their state and events. Not here: shapes and routes (`topology`), and what is sent
//! (`sim`).

mod agenda;
mod analytical;
mod carried;
mod link;
mod parts;

pub use analytical::{Analytical, Crossing, Ports};
pub use link::{LinkQueues, Switching};
