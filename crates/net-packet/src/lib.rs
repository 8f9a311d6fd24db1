//! The packet backend: TCP and RDMA over switches with buffers.
//!
//! Here: [`Packets`] (`backend/`: `forward` and `arrive` move a packet), its [`Settings`]
//! (`settings.rs`), those that differ by kind of link (`protocols.rs`), ports and their queues
//! (`port.rs`), buffers that ports of a switch share (`switches.rs`), routes (`paths.rs`),
//! connections (`connection.rs`), TCP (`tcp/`) and RDMA (`rdma/`), captures of packets
//! (`capture.rs`). Not here: fluid flows (`net-flow`), flits (`net-flit`), runs of other simulators
//! (`lab/crates/peers`).

mod backend;
mod capture;
mod connection;
mod packet;
mod paths;
mod port;
mod protocols;
mod rdma;
mod round_trips;
mod settings;
mod switches;
mod tcp;
mod turns;

pub use backend::{Packets, Skipped};
pub use net_settings::packet::{
    Dcqcn, Flight, Marking, Pause, Rdma, RdmaControl, RdmaRecovery, Rescue, Spraying, TcpControl,
    TcpRecovery, Ties,
};
pub use port::Counters;
pub use protocols::Protocols;
pub use settings::{Buffer, Settings, Switch, Tcp, Transport};
