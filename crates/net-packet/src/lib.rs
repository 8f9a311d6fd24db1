//! The packet backend: TCP and RDMA over switches with buffers.
//!
//! Here: [`Packets`] (`backend.rs`, `hosts.rs`), its [`Settings`] (`settings.rs`), ports and their
//! queues (`port.rs`), what ports of a switch share (`switches.rs`), ways (`paths.rs`), connections
//! (`connection.rs`), TCP (`tcp/`) and RDMA (`rdma/`), and captures of packets (`capture.rs`). Not here: fluid flows (`net-flow`), flits.

mod backend;
mod capture;
mod connection;
mod histogram;
mod hosts;
mod packet;
mod paths;
mod port;
mod random;
mod rdma;
pub mod reference;
mod settings;
mod skip;
mod switches;
mod tcp;
mod totals;
mod usage;

pub use backend::Packets;
pub use port::Counters;
pub use settings::{
    Buffer, Control, Dcqcn, Flight, Marking, Pause, Rdma, Recovery, Reduction, Rescue, Settings,
    Spraying, Switch, Tcp, Transport,
};
pub use skip::Skipped;
pub use tcp::Losses;
pub use totals::{Flow, Totals};
