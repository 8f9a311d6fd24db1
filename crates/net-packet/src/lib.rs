//! The packet backend: TCP over switches with buffers.
//!
//! Here: [`Packets`] (`backend.rs`), its [`Settings`] (`settings.rs`), the ports and their queues
//! (`port.rs`), connections (`connection.rs`) and TCP (`tcp/`). Not here: fluid flows
//! (`net-flow`), flits.

mod backend;
mod connection;
mod packet;
mod port;
mod settings;
mod tcp;

pub use backend::{Packets, Totals};
pub use port::Counters;
pub use settings::{
    Buffer, Control, Dcqcn, Marking, Pause, Rdma, Recovery, Reduction, Settings, Switch, Tcp,
    Transport,
};
pub use tcp::Losses;
