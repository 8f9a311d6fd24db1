//! What happens inside and behind an NPU: compute and memory models.
//!
//! Here: durations of compute nodes (`compute`), and of accesses to memory (`memory`).
//! Not here: when a node may start (`sim`), and the network between NPUs (`net-*`).

pub mod compute;
pub mod memory;
