//! The fair-flow backend: transfers are fluid flows that share links max-min fairly.
//!
//! Here: [`FairFlows`] (`backend/`), the rates (`fair.rs`), the links and what they carry
//! (`links.rs`), the bytes of a flow that are on their way (`fluid.rs`), routes (`route.rs`), what
//! limits flows besides links (`limits.rs`), flows that meet no other (`alone.rs`). Not here: queues of
//! messages (`net-analytical`).

mod alone;
mod backend;
mod drains;
pub mod fair;
mod fluid;
mod limits;
mod links;
mod path;
mod ripple;
mod route;

pub use backend::FairFlows;
pub use limits::{Limits, Weights};
