//! Network simulators in other processes, in any language.
//!
//! Here: [`External`] (`backend.rs`), which keeps the Backend contract and leaves the simulation to
//! a command; the links that it simulates (`topology.rs`); the messages that it exchanges with it
//! (`protocol.rs`); the process, its socket and its end (`process.rs`); memory that both share
//! (`memory.rs`); what is checked of each answer (`conversation.rs`); what a transfer on an idle
//! network cannot beat (`bounds.rs`). This is the only network that starts a process and looks at a
//! clock: to find out that a simulator hangs. Not here: adapters of simulators (`adapters/`). The
//! protocol for people who write one: `docs/reference/external-protocol.md`.

mod backend;
mod bounds;
mod conversation;
mod memory;
mod process;
mod protocol;
mod topology;

pub use backend::External;
pub use process::{Command, CommandError};
pub use protocol::{Record, VERSION, counts, kinds, routes};
pub use topology::Topology;
