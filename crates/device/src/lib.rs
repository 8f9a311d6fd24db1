//! Models of NPUs and of the memory behind them: compute and memory.
//!
//! Here: durations of compute nodes (`compute`), and of accesses to memory (`memory`).
//! Not here: when a node may start (`sim`), and the network between NPUs (`net-*`).

pub mod compute;
pub mod memory;
