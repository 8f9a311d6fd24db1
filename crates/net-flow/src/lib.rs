//! The fair-flow backend: transfers are fluid flows that share links max-min fairly.
//!
//! Here: [`FairFlows`] (`backend/`), the rates (`fair.rs`), the links and what they carry
//! (`links.rs`), the bytes of a flow that are on their way (`fluid.rs`), routes (`route.rs`), what
//! limits flows besides links (`limits.rs`), flows that meet no other (`closed_form.rs`). Not here: queues of
//! messages (`net-analytical`).

mod backend;
mod closed_form;
mod drains;
pub mod fair;
mod fluid;
mod limits;
mod links;
mod path;
mod route;
mod spread_state;

pub use backend::FairFlows;
pub use limits::Limits;
