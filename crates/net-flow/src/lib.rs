//! The fair-flow backend: transfers are fluid flows that share links max-min fairly.
//!
//! Here: [`FairFlows`] (`backend.rs`), the rates (`fair.rs`), the links and what they carry
//! (`links.rs`). Not here: queues of messages (`net-analytical`).

mod backend;
pub mod fair;
mod links;

pub use backend::{FairFlows, Limits, Weights};
